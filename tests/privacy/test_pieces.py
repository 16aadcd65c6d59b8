"""Noise by several threads: the bits of one, and no word twice."""

import os

import numba
import numpy as np
import pytest

from children import ended, in_a_child
from sordino.privacy.discrete_gaussian import discrete_gaussian, placed
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.noise_kernels import PIECE
from sordino.privacy.pieces import each
from sordino.privacy.randomness import BLOCK, Randomness
from sordino.privacy.strips import OTHER, cover
from sordino.privacy.team import ALONE, LEAST, beside, present
from teams import made_up

TEAMS = {
    "two": made_up(2),
    "three": made_up(3),
    "more than pieces": made_up(40),
    "one of three": made_up(3, come=1),
    "four for two": made_up(2, come=4),
}
SIZES = [LEAST, LEAST + 1, 5 * PIECE - 1, BLOCK + 1, 2 * BLOCK + 77, 200_001]


@numba.njit
def _count(piece, counts, add):
    counts[piece] += add + piece


@numba.njit
def count(counts, add, team):
    each(_count, counts.size, (counts, add), team)


@pytest.mark.parametrize("team", [ALONE, *TEAMS.values()], ids=["alone", *TEAMS])
@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 7, 100])
def test_every_piece_is_computed_once(team, pieces):
    counts = np.zeros(pieces, dtype=np.int64)
    count(counts, 10, team)
    assert counts.tolist() == [10 + piece for piece in range(pieces)]


@numba.njit
def _fail(piece, bad, done):
    if piece == bad:
        raise ValueError
    done[piece] = True


@numba.njit
def fail(bad, done, team):
    each(_fail, done.size, (bad, done), team)


@pytest.mark.parametrize("team", [ALONE, *TEAMS.values()], ids=["alone", *TEAMS])
@pytest.mark.parametrize("bad", [0, 3, 9])
def test_a_piece_that_fails_is_told_when_all_are_done(team, bad):
    done = np.zeros(10, dtype=np.bool_)
    with pytest.raises(RuntimeError, match="nothing was released"):
        fail(bad, done, team)
    assert np.flatnonzero(~done).tolist() == [bad]
    fail(-1, done, team)


@pytest.mark.parametrize("team", TEAMS.values(), ids=TEAMS)
@pytest.mark.parametrize("dim", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_several_threads_release_the_bits_of_one(team, dim, dtype):
    noise, value = GaussianNoise.at(1.0, 2.0, dim), np.linspace(-3, 3, dim).astype(dtype)
    alone, together = Randomness.seeded(5), Randomness.seeded(5)
    expected = noise.perturb(value, alone)
    with beside(team):
        assert present(dim) is team
        released = noise.perturb(value, together)
    np.testing.assert_array_equal(released, expected)
    # and have taken as many words
    assert together.noise.words(1) == alone.noise.words(1)


@pytest.mark.parametrize("team", [ALONE, *TEAMS.values()], ids=["alone", *TEAMS])
@pytest.mark.parametrize("size", SIZES)
def test_every_draw_has_a_word_of_its_own(team, size):
    scale = 1.37 * 2**30
    strips, words = cover(scale), Randomness.seeded(6).noise.words(size)
    with beside(team):
        drawn = discrete_gaussian(scale, size, Randomness.seeded(6).noise)
    # the i-th from the i-th word of the stream; one in a hundred needs more words, which come behind all of these
    expected = placed(strips, words)
    certain = expected >> strips.width_bits != OTHER
    assert certain.mean() > 0.98
    np.testing.assert_array_equal(drawn[certain], expected[certain])
    assert np.unique(drawn).size > 0.999 * size


@pytest.mark.parametrize("place", [0, PIECE, LEAST - 1])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**40])
def test_a_value_that_cannot_be_protected_is_refused_in_every_piece(place, bad):
    noise, value = GaussianNoise(1.0, 1.0, LEAST), np.zeros(LEAST)
    value[place] = bad
    with beside(TEAMS["two"]), pytest.raises(ValueError, match="nothing was released"):
        noise.perturb(value, Randomness.seeded(1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_in_the_midst_of_a_block_is_alone():
    def work():
        assert present(LEAST) is ALONE

    with beside(TEAMS["two"]):
        assert ended([in_a_child(work)]) == [0]
        assert present(LEAST) is TEAMS["two"]


def test_a_team_is_there_for_its_block_alone_and_for_many_numbers():
    two, three = TEAMS["two"], TEAMS["three"]
    assert present(LEAST) is ALONE
    with beside(two):
        assert present(LEAST) is two
        assert present(LEAST - 1) is ALONE
        with beside(three):
            assert present(LEAST) is three
        assert present(LEAST) is two
    assert present(LEAST) is ALONE
