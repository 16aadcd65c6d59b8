"""What is drawn is what is accounted."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from plain_gradients import exact
from sordino.losses import Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import CyclicPoisson, FixedSize, FullBatch, InOrder, Poisson
from sordino.privacy.counts import DISTANCE
from sordino.privacy.events import Approximate, FixedSizeSampled, Gaussian, PoissonSampled, PureDP
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

RELEASE = Gaussian(1.0)


@pytest.fixture
def oracle():
    X = np.random.default_rng(0).normal(size=(12, 2))
    return linear_oracle(X, np.ones(12), Problem(12, 2, Logistic()), Rows(1.0))


def draws(oracle, sampling, count, seed=1):
    """One row per draw, one column per record: was it in the batch?"""
    randomness = Randomness.seeded(seed)
    table = np.zeros((count, 12), dtype=bool)
    for row in table:
        row[oracle.draw(sampling, randomness)] = True
    return table


def assert_proportions(counts, total, p):
    """Two-sided binomial tests, all of them together at one in a million."""
    smallest = min(stats.binomtest(int(k), total, p).pvalue for k in np.ravel(counts))
    assert smallest > 1e-6 / np.size(counts)


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9, 1.0])
def test_poisson_records_enter_by_independent_coins(oracle, rate):
    table = draws(oracle, Poisson(rate), 4000)
    assert_proportions(table.sum(axis=0), 4000, rate)
    pairs = [table[:, i] & table[:, j] for i, j in itertools.combinations(range(12), 2)]
    assert_proportions(np.sum(pairs, axis=1), 4000, rate**2)
    sizes = np.bincount(table.sum(axis=1), minlength=13)
    for size, count in enumerate(sizes):
        assert stats.binomtest(int(count), 4000, stats.binom.pmf(size, 12, rate)).pvalue > 1e-7


def test_poisson_batches_do_not_repeat_from_step_to_step(oracle):
    table = draws(oracle, Poisson(0.5), 4000)
    agreement = (table[1:] == table[:-1]).sum(axis=0)
    assert_proportions(agreement, 3999, 0.5)


def test_poisson_batches_may_be_empty_and_their_sum_is_zero(oracle):
    randomness = Randomness.seeded(3)
    batches = [oracle.draw(Poisson(0.01), randomness) for _ in range(50)]
    empty = next(batch for batch in batches if batch.size == 0)
    np.testing.assert_array_equal(exact(oracle, Gradient(np.ones(2), 1.0, empty)), np.zeros(2))


def test_fixed_size_draws_every_subset_equally_often():
    X = np.zeros((5, 1))
    oracle = linear_oracle(X, np.ones(5), Problem(5, 1, Logistic()), Rows(1.0))
    randomness = Randomness.seeded(5)
    subsets = list(itertools.combinations(range(5), 2))
    seen = dict.fromkeys(subsets, 0)
    for _ in range(5000):
        seen[tuple(oracle.draw(FixedSize(2), randomness).tolist())] += 1
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6


def test_fixed_size_is_fixed_and_uniform(oracle):
    table = draws(oracle, FixedSize(5), 4000)
    assert set(table.sum(axis=1)) == {5}
    assert_proportions(table.sum(axis=0), 4000, 5 / 12)


@pytest.mark.parametrize("sampling", [Poisson(0.5), FixedSize(7)])
def test_batches_are_sorted_without_repetition(oracle, sampling):
    randomness = Randomness.seeded(0)
    for _ in range(100):
        assert np.all(np.diff(oracle.draw(sampling, randomness)) > 0)


def test_two_unseeded_runs_draw_different_batches(oracle):
    runs = [Randomness.system(), Randomness.system()]
    first, second = ([oracle.draw(FixedSize(6), run).tolist() for _ in range(20)] for run in runs)
    assert first != second


def test_the_full_batch_is_every_record(oracle):
    assert oracle.draw(FullBatch(), Randomness.seeded(0)) is None
    assert FullBatch().event(RELEASE, 12) == RELEASE
    assert FullBatch().expected_size(12) == 12


def test_the_event_states_what_is_drawn(oracle):
    """The rate in the event, the public size the method divides by, and the batches have to agree."""
    for sampling, kind in ((Poisson(0.25), PoissonSampled), (FixedSize(3), FixedSizeSampled)):
        stated = sampling.event(RELEASE, 12)
        assert stated.total_variation == DISTANCE
        event = stated.event
        assert type(event) is kind
        assert event.event == RELEASE
        assert math.isclose(event.rate, 0.25)
        assert math.isclose(sampling.expected_size(12), event.rate * 12)
        assert_proportions(draws(oracle, sampling, 3000).sum(axis=0), 3000, event.rate)


def test_sampling_an_approximate_release_keeps_its_distance():
    event = Poisson(0.1).event(Approximate(RELEASE, 1e-29), 10)
    assert event == Approximate(PoissonSampled(RELEASE, 0.1), 1e-29 + DISTANCE)
    assert event.total_variation > 1e-29


def test_only_gaussian_releases_can_be_sampled():
    for sampling in (Poisson(0.1), FixedSize(1)):
        with pytest.raises(ValueError, match="not for PureDP"):
            sampling.event(PureDP(1.0), 10)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_a_rate_outside_its_range_is_a_sentence(rate):
    with pytest.raises(ValueError, match="rate is"):
        Poisson(rate)


def test_a_batch_larger_than_the_data_is_a_sentence(oracle):
    with pytest.raises(ValueError, match="a batch of 13 from 12 records"):
        oracle.draw(FixedSize(13), Randomness.seeded(0))
    with pytest.raises(ValueError, match="a batch of 13 from 12 records"):
        FixedSize(13).event(RELEASE, 12)
    with pytest.raises(ValueError, match="size is 0"):
        FixedSize(0)


@pytest.mark.parametrize("batches", [1, 3, 5, 12])
def test_batches_in_order_are_the_records_as_they_stand(oracle, batches):
    sampling, randomness = InOrder(batches), Randomness.seeded(0)
    parts = [oracle.draw(sampling.at(t), randomness) for t in range(2 * batches)]
    np.testing.assert_array_equal(np.concatenate(parts[:batches]), np.arange(12))
    for one, again in zip(parts[:batches], parts[batches:], strict=True):
        np.testing.assert_array_equal(one, again)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert sampling.expected_size(12) == 12 / batches


def test_groups_have_turns_and_their_records_coins(oracle):
    sampling = CyclicPoisson(0.4, 5)
    for t in range(10):
        table = draws(oracle, sampling.at(t), 2000, seed=t)
        group = np.arange(t % 5, 12, 5)
        assert_proportions(table[:, group].sum(axis=0), 2000, 0.4)
        assert not np.delete(table, group, axis=1).any()
    assert sampling.expected_size(12) == pytest.approx(0.4 * 12 / 5)
    assert sampling.event(RELEASE, 12) == Poisson(0.4).event(RELEASE, 12)


def test_turns_that_are_refused(oracle):
    for wrong in (
        lambda: InOrder(3, 3),
        lambda: InOrder(0),
        lambda: CyclicPoisson(0.5, 3, 3),
        lambda: CyclicPoisson(2.0, 3),
    ):
        with pytest.raises(ValueError, match=r"begin with 0|lies in"):
            wrong()
    with pytest.raises(ValueError, match="at most 12"):
        oracle.draw(InOrder(13), Randomness.seeded(0))
