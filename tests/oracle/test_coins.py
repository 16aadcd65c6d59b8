"""Coins of many records: the law to the last of its bits, and members that follow from the words as written down."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sordino.oracle import sampling
from sordino.oracle.kernels import coins
from sordino.oracle.kernels.coins import heads
from sordino.oracle.sampling import Poisson, drawn
from sordino.privacy.counts import DISTANCE
from sordino.privacy.randomness import Randomness

RATES = [0.9999, 0.5, 0.3, 0.01, 0.001, 1e-4, 1e-9, 1e-310]


@pytest.fixture
def stream():
    return Randomness.seeded(3).sampling


def told(law, column):
    """The possibility beside a column's own, and the first bits of its own share."""
    return divmod(int(law.entries[column]), 1 << 32)


@pytest.mark.parametrize("rate", RATES)
def test_what_a_draw_says_is_within_the_distance_that_events_state(rate):
    law, q = coins._columns(rate), Fraction(rate)
    size, low = len(law.entries), int(law.low)
    assert size << low == 1 << 32
    found = [Fraction(0)] * size
    for column in range(size):
        other, share = told(law, column)
        # below the share, or at it with 128 more bits below the rest
        own = Fraction((share << 128) + law.rest[column], 1 << (low + 128))
        assert 0 <= own <= 1
        found[column] += own / size
        found[other] += (1 - own) / size
    exact, left = [], Fraction(1)
    for _ in range(size - 1):
        exact.append(q * left)
        # 300 bits of it: its own fraction would grow without end
        left = Fraction(int(left * (1 - q) * 2**300), 2**300)
    distance = sum(abs(a - b) for a, b in zip(found, [*exact, left], strict=True)) / 2
    assert distance * 2**40 < DISTANCE


def walked(records, rate, words, more):
    """The members as they are written down, one word after the other; 128 bits of `more` where a word does not say."""
    law, members, position = coins._columns(rate), [], 0
    low, last = int(law.low), len(law.entries) - 1
    for word in words:
        column, rest = divmod(word, 1 << low)
        other, share = told(law, column)
        if rest == share:
            passed = column if next(more) < law.rest[column] else other
        else:
            passed = column if rest < share else other
        position += passed
        if position >= records:
            return members
        if passed < last:
            members.append(position)
            position += 1
    raise AssertionError("too few words")


@pytest.mark.parametrize("records", [1, 2, 1000, 300_000])
@pytest.mark.parametrize("rate", RATES)
def test_members_follow_from_the_words(records, rate):
    words = Randomness.seeded(9).sampling.words(records // 2 + 100_000).view(np.uint32).tolist()
    (members,) = heads(records, rate, Randomness.seeded(9).sampling)
    assert members.dtype == np.intp
    assert members.tolist() == walked(records, rate, words, iter(()))


@pytest.mark.parametrize("records", [1, 2, 1000, 30_000])
@pytest.mark.parametrize("rate", RATES)
def test_steps_are_like_more_records(records, rate):
    words = Randomness.seeded(9).sampling.words(7 * records // 2 + 100_000).view(np.uint32).tolist()
    steps = heads(records, rate, Randomness.seeded(9).sampling, 7)
    members = np.array(walked(7 * records, rate, words, iter(())), dtype=np.intp)
    assert len(steps) == 7
    for number, step in enumerate(steps):
        np.testing.assert_array_equal(step, members[members // records == number] % records)


class Told:
    """A stream whose every word of 32 bits is at a share, and what is asked for two at a time is given."""

    def __init__(self, rate, more):
        law = coins._columns(rate)
        low = int(law.low)
        at = [(column << low) + told(law, column)[1] for column in range(len(law.entries))]
        self.at = np.array([word for word in at if word < 1 << 32] * 50, dtype=np.uint32)
        self.asked, self.more = 0, more

    def words(self, count):
        if count == 2:
            high_and_low = divmod(self.more[self.asked], 1 << 64)
            self.asked += 1
            return np.array(high_and_low, dtype=np.uint64)
        return np.resize(self.at, 2 * count).view(np.uint64)


def test_where_a_word_does_not_say_more_bits_do():
    rng = np.random.default_rng(0)
    more = [int.from_bytes(rng.bytes(16), "little") for _ in range(10_000)]
    stream = Told(0.07, more)
    (members,) = heads(3000, 0.07, stream)
    assert stream.asked >= len(members) > 100
    assert members.tolist() == walked(3000, 0.07, stream.at.tolist() * 100, iter(more))


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("piece", [coins._PIECE, 1])
def test_records_enter_by_independent_coins(stream, monkeypatch, rate, piece):
    """In pieces of two words too."""
    monkeypatch.setattr(coins, "_PIECE", piece)
    table = np.zeros((4000, 12), dtype=bool)
    for row in table:
        row[heads(12, rate, stream)[0]] = True
    pairs = [table[:, i] & table[:, j] for i, j in itertools.combinations(range(12), 2)]
    for counts, p in ((table.sum(axis=0), rate), (np.sum(pairs, axis=1), rate**2)):
        assert min(stats.binomtest(int(k), 4000, p).pvalue for k in counts) > 1e-6 / len(counts)
    sizes = np.bincount(table.sum(axis=1), minlength=13)
    for size, count in enumerate(sizes):
        assert stats.binomtest(int(count), 4000, stats.binom.pmf(size, 12, rate)).pvalue > 1e-7


def test_more_members_than_there_is_place_for(monkeypatch):
    few = replace(coins._columns(0.3), draws=1e-9)
    monkeypatch.setattr(coins, "_columns", lambda rate: few)
    (members,) = heads(100_000, 0.3, Randomness.seeded(2).sampling)
    assert abs(len(members) - 30_000) < 6 * np.sqrt(21_000)
    assert (np.diff(members) > 0).all()


def test_batches_of_many_records_are_drawn_so():
    for records in (sampling.MANY + 1, sampling.SPAN + 5):
        here, there = (Randomness.seeded(4).sampling for _ in range(2))
        np.testing.assert_array_equal(drawn(Poisson(0.01), records, here), heads(records, 0.01, there)[0])
    assert len(Poisson(1.0).draw(sampling.MANY + 1, here)) == sampling.MANY + 1
