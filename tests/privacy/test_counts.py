"""Numbers of records have their law to the last of 128 bits."""

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from scipy import stats

from sordino.privacy import counts
from sordino.privacy.randomness import Randomness


def law(table):
    """The exact probability of every number under 128 uniform bits."""
    first, sums = table
    edges = [0, *(-((-each << 128) // sums[-1]) for each in sums)]
    return {first + i: Fraction(b - a, 1 << 128) for i, (a, b) in enumerate(pairwise(edges))}


def distance(one, other):
    return sum(abs(one.get(k, 0) - other.get(k, 0)) for k in one.keys() | other.keys()) / 2


@pytest.mark.parametrize(("n", "rate"), [(1, 0.5), (10, 0.3), (200, 0.07), (60, 1e-9), (30, 0.999), (3, 5e-324)])
def test_binomials_are_within_the_distance_that_events_state(n, rate):
    q = Fraction(rate)
    exact = {k: comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)}
    assert distance(law(counts._binomial(n, rate)), exact) < counts.DISTANCE / 1e6


@pytest.mark.parametrize(("N", "K", "m"), [(10, 4, 3), (50, 25, 49), (7, 7, 5), (9, 3, 0), (200, 3, 190), (1, 1, 1)])
def test_hypergeometrics_are_within_it_too(N, K, m):
    exact = {k: Fraction(comb(K, k) * comb(N - K, m - k), comb(N, m)) for k in range(max(0, m - N + K), min(m, K) + 1)}
    assert distance(law(counts._hypergeometric(N, K, m)), exact) < counts.DISTANCE / 1e6


def test_what_many_entries_round_and_leave_out():
    """Every weight misses some part in 2^192 of the largest at most for each before it, every sum a word of 2^128."""
    first, sums = counts._binomial(10**6, 0.02)
    assert min(b - a for a, b in pairwise([0, *sums])) >= 1
    assert first > 0
    assert len(sums) * (2.0**-128 + len(sums) * 2.0**-192) < counts.DISTANCE


def test_draws_follow_the_law():
    stream = Randomness.seeded(1).sampling
    drawn = np.array([counts.binomial(1000, 0.3, stream) for _ in range(20_000)])
    places = np.arange(255, 346)
    found = np.array([(drawn <= k).mean() for k in places])
    assert np.abs(found - stats.binom.cdf(places, 1000, 0.3)).max() < 2.2 / np.sqrt(20_000)
    drawn = np.array([counts.hypergeometric(60, 20, 15, stream) for _ in range(20_000)])
    assert drawn.mean() == pytest.approx(5, abs=5 * np.sqrt(2.55 / 20_000))
    assert counts.binomial(77, 1.0, stream) == 77
