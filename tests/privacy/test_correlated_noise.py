"""Correlated noise on the lattice: what it adds, what its event counts, and whom its memory serves."""

from __future__ import annotations

import copy
import math
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino.budget import Relation
from sordino.oracle.sampling import CyclicPoisson, InOrder
from sordino.privacy.accountants import delta
from sordino.privacy.correlated_noise import CorrelatedNoise
from sordino.privacy.correlation import BandedToeplitz, BufferedToeplitz
from sordino.privacy.discrete_gaussian import rounding_distance
from sordino.privacy.events import Approximate, Composed, Gaussian, GaussianDP, PoissonSampled
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

BANDED, BUFFERED = BandedToeplitz((0.7, 0.5, 0.2)), BufferedToeplitz(0.3, 0.95)
KINDS = (BandedToeplitz(), BANDED, BUFFERED)


def noise_of(correlation, **settings):
    return CorrelatedNoise(
        **({"sensitivity": 1.0, "std": 3.0, "dim": 5, "steps": 40, "apart": 8} | settings), correlation=correlation
    )


def released(noise, values, seed=0):
    running, randomness = noise.begin(), Randomness.seeded(seed)
    return np.array([running.perturb(value, randomness) for value in values])


@pytest.mark.parametrize("correlation", KINDS)
def test_what_is_added_is_the_filter_of_fresh_noise(correlation):
    """W, taken back through c, is the fresh noise itself, to half a step of the lattice, and no step is skipped."""
    noise, rng = noise_of(correlation), np.random.default_rng(0)
    values = rng.normal(size=(40, 5)) * 100
    W = released(noise, values, seed=3) / noise.step - np.rint(values / noise.step)
    assert (W == np.rint(W)).all()
    stream = Randomness.seeded(3)
    Z = np.array([GaussianNoise(1.0, 3.0, 5).draw((5,), stream) for _ in range(40)])
    r = correlation.inverse(40)
    filtered = np.array([sum(r[t - s] * Z[s] for s in range(t + 1)) for t in range(40)])
    # each rounding moves a step by half of one, and the filter carries it on
    assert np.abs(W - filtered).max() <= 0.5 * np.abs(np.cumsum(np.abs(r))).max() + 1e-3


@pytest.mark.parametrize("correlation", KINDS)
def test_steps_cancel(correlation):
    """The last iterate's noise has the variance that the plan counts on, and independent noise has T times one's."""
    noise = noise_of(correlation, dim=4000, steps=30, apart=30)
    total = released(noise, np.zeros((30, 4000))).sum(axis=0)
    expected = 3.0 * math.sqrt(np.sum(np.cumsum(correlation.inverse(30)) ** 2))
    assert np.std(total) == pytest.approx(expected, rel=0.06)


@given(seed=st.integers(0, 2**32), scale=st.sampled_from([1.0, 2.0**10, 2.0**31]), banded=st.booleans())
def test_other_values_behind_the_same_release_move_the_fresh_noise_by_whole_steps(seed, scale, banded):
    """Z' - Z = C (x - x') + e with |e| <= 1, less than the 2 that is charged."""
    rng = np.random.default_rng(seed)
    if banded:
        c = np.cumprod(rng.uniform(0.3, 0.999, size=rng.integers(1, 30)))
        correlation = BandedToeplitz(tuple(c))
    else:
        q = rng.uniform(0.01, 0.999)
        correlation = BufferedToeplitz(rng.uniform(0.01, 0.99) * q, q)
    T = 60
    Z = np.rint(rng.normal(size=(T, 3)) * scale)
    x, y = (np.rint(rng.normal(size=(T, 3)) * 2.0 ** rng.integers(0, 31)) for _ in range(2))
    W, memory = np.empty_like(Z), correlation.memory((3,))
    for t in range(T):
        W[t] = Z[t] - np.rint(memory.feedback())
        memory.add(W[t])
    other, memory = np.empty_like(Z), correlation.memory((3,))
    for t in range(T):
        other[t] = W[t] + x[t] - y[t] + np.rint(memory.feedback())
        memory.add(W[t] + x[t] - y[t])
    c = np.linalg.inv(_lower(correlation.inverse(T)))[:, 0]
    e = other - Z - _lower(c) @ (x - y)
    assert np.abs(e).max() <= 1 + 1e-2


def _lower(c):
    return np.array([[c[t - s] if t >= s else 0.0 for s in range(len(c))] for t in range(len(c))])


@pytest.mark.parametrize(("correlation", "rows"), [(BANDED, 5 * 4), (BUFFERED, 40)])
def test_the_event_counts_every_participation_and_the_lattice(correlation, rows):
    noise = noise_of(correlation)
    S, g = correlation.sensitivity(40, 8), 2.0**-29
    assert noise.step == g
    moved = S * (1.0 + 2 * g * math.sqrt(5)) + 4 * g * math.sqrt(5 * rows)
    match noise.event:
        case Approximate(GaussianDP(mu), distance):
            assert moved / 3 <= mu <= moved / 3 * (1 + 1e-11)
            tau = 40 * 5 * rounding_distance(3 * 2.0**29)
            assert tau <= distance <= tau * (1 + 1e-12)
        case other:
            pytest.fail(f"{other}")


@given(
    multiplier=st.floats(1e-4, 1e3),
    sensitivity=st.floats(1e-6, 1e6),
    dim=st.integers(1, 10**6),
    correlation=st.sampled_from([BANDED, BUFFERED]),
)
def test_a_wanted_multiplier_is_reached_from_above(multiplier, sensitivity, dim, correlation):
    noise = CorrelatedNoise.at(multiplier, sensitivity, dim, correlation, 100, 10)
    assert multiplier <= noise.multiplier <= multiplier * (1 + 1e-12)
    assert noise.event.event.mu <= noise.reach / multiplier * (1 + 1e-14)


def test_groups_that_have_turns_are_as_many_sampled_releases_as_turns():
    """Replace-one and add/remove, by two independent accountants; ceil(10/3) = 4 turns, not 3."""
    c = BandedToeplitz((0.6, 0.3))
    for relation, values in {
        Relation.REPLACE_ONE: (0.295467, 0.186670, 0.106352),
        Relation.ADD_REMOVE: (0.140740, 0.061825, 0.024203),
    }.items():
        # contributions of norm 1 beside noise of 1.2 |c|
        noise = CorrelatedNoise(relation.distance, 1.2 * c.norm, 1, c, 10, 3)
        event = CyclicPoisson(0.3, 3).event_of_run(noise)
        match event:
            case Composed(((Approximate(PoissonSampled(Gaussian(multiplier), rate), _), count),)):
                assert (rate, count) == (0.3, 4)
                assert 1.2 * (1 - 1e-7) < multiplier * relation.distance <= 1.2
            case other:
                pytest.fail(f"{other}")
        for epsilon, expected in zip((0.2, 0.6, 1.0), values, strict=True):
            assert delta(event, epsilon, relation) == pytest.approx(expected, abs=2e-6)


def test_every_coin_certain_and_bands_of_an_epoch_is_the_run_in_order():
    noise = CorrelatedNoise(1.0, 3.0, 1, BANDED, 40, 4)
    in_turns = CyclicPoisson(1.0, 4).event_of_run(noise)
    in_order = InOrder(4).event_of_run(noise)
    for epsilon in (0.5, 1.0, 3.0):
        one, other = (delta(event, epsilon, Relation.REPLACE_ONE) for event in (in_turns, in_order))
        assert other <= one * (1 + 1e-6)
        assert one == pytest.approx(other, rel=0.01)


def test_batches_that_come_back_sooner_than_the_noise_was_told_are_refused():
    noise = noise_of(BANDED)
    assert InOrder(8).event_of_run(noise) == InOrder(9).event_of_run(noise) == noise.event
    with pytest.raises(ValueError, match="come back sooner"):
        InOrder(7).event_of_run(noise)
    with pytest.raises(ValueError, match="come back sooner"):
        CyclicPoisson(0.5, 7).event_of_run(noise)


def test_a_memory_without_end_is_never_sampled():
    with pytest.raises(ValueError, match="remembers longer than a record stays away"):
        CyclicPoisson(0.5, 8).event_of_run(noise_of(BUFFERED))


def test_a_run_ends_where_it_was_planned_to():
    running, randomness = noise_of(BANDED, steps=3, apart=4).begin(), Randomness.seeded(0)
    for _ in range(3):
        running.perturb(np.zeros(5), randomness)
    with pytest.raises(ValueError, match="all 3 sums"):
        running.perturb(np.zeros(5), randomness)


def test_the_noise_of_a_run_is_its_own():
    running = noise_of(BANDED).begin()
    running.perturb(np.zeros(5), Randomness.seeded(0))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(running)
    # nothing of what it added
    assert repr(running) == f"NoiseOfRun({noise_of(BANDED)!r})"
    assert not hasattr(running, "__dict__")


def test_two_runs_do_not_share_their_memory():
    noise, randomness = noise_of(BUFFERED), Randomness.seeded(0)
    one, other = noise.begin(), noise.begin()
    for _ in range(3):
        one.perturb(np.zeros(5), randomness)
    first = other.perturb(np.zeros(5), Randomness.seeded(7))
    np.testing.assert_array_equal(first, noise.begin().perturb(np.zeros(5), Randomness.seeded(7)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_go_on_with_its_parents_run():
    """Both would add other noise to the same steps."""
    running, randomness = noise_of(BANDED).begin(), Randomness.seeded(0)
    running.perturb(np.zeros(5), randomness)
    child = os.fork()
    if child == 0:
        try:
            running.perturb(np.zeros(5), randomness)
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    running.perturb(np.zeros(5), randomness)


def test_another_shape_is_refused():
    running = noise_of(BANDED).begin()
    running.perturb(np.zeros((2, 5)), Randomness.seeded(0))
    with pytest.raises(ValueError, match="shape"):
        running.perturb(np.zeros((3, 5)), Randomness.seeded(0))


def test_too_much_to_remember_is_refused():
    with pytest.raises(ValueError, match="would fill the memory"):
        noise_of(BANDED, dim=10**8)
