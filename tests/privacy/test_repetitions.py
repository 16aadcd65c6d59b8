"""The secret number of runs follows its law."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from sordino.privacy.events import LAWS, Approximate, Gaussian, Selected
from sordino.privacy.randomness import Randomness
from sordino.privacy.repetitions import MOST_RUNS, Repetitions, _sums, stopping

LAW_OF = {
    "poisson": stats.poisson,
    "geometric": lambda mean: stats.geom(1 / mean),
    "logarithmic": lambda mean: stats.logser(1 - stopping(mean, "logarithmic")),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [1.3, 4.0, 25.0])
def test_draws(law, mean):
    drawn = Repetitions(mean, law).draw(40_000, Randomness.seeded(5))
    known = LAW_OF[law](mean)
    assert known.mean() == pytest.approx(mean)
    edges = np.unique(known.ppf(np.linspace(0.02, 0.98, 15)))
    seen = np.diff(np.searchsorted(np.sort(drawn), [-1, *edges, math.inf], side="right"))
    expected = np.diff([0.0, *known.cdf(edges), 1.0])
    usable = expected * len(drawn) > 5
    assert stats.chisquare(seen[usable], expected[usable] / expected[usable].sum() * seen[usable].sum()).pvalue > 1e-3


@pytest.mark.parametrize("law", LAWS)
def test_the_sums_are_exact_to_thirty_five_digits(law):
    mean = 6.5
    with mp.workdps(60):
        if law == "poisson":
            masses = [mp.exp(-mean) * mp.mpf(mean) ** k / mp.factorial(k) for k in range(400)]
        else:
            gamma = mp.mpf(stopping(mean, law))
            scale = {"geometric": lambda k: gamma / (1 - gamma), "logarithmic": lambda k: 1 / (k * -mp.log(gamma))}[law]
            masses = [scale(k) * (1 - gamma) ** k for k in range(1, 4000)]
        sums = _sums(mean, law)
        total = mp.mpf(0)
        for mass, found in zip(masses, sums, strict=False):
            total += mass
            assert abs(mp.mpf(found) / 2**128 - total) < 1e-37
        assert 1 - mp.mpf(sums[-1]) / 2**128 < 1e-37


@pytest.mark.parametrize("mean", [1.0, 1 + 1e-12, 1 + 1e-6, 2.0, MOST_RUNS])
def test_every_mean_has_a_law(mean):
    for law in LAWS:
        drawn = Repetitions(mean, law).draw(50, Randomness.seeded(0))
        assert drawn.min() >= (0 if law == "poisson" else 1)
    gamma = stopping(mean, "logarithmic")
    if mean >= 1 + 1e-6:
        assert (1 / gamma - 1) / -math.log(gamma) == pytest.approx(mean, rel=1e-9)


def test_large_means_are_not_cut_off():
    """The first of the sums is e^-200: nothing in 128 bits, and yet not the end."""
    drawn = Repetitions(200.0).draw(2_000, Randomness.seeded(1))
    assert drawn.mean() == pytest.approx(200, abs=2)
    assert drawn.std() == pytest.approx(math.sqrt(200), rel=0.1)


def test_the_event_says_the_same():
    event = Repetitions(3.0, "geometric").event(Gaussian(1.0), Gaussian(2.0))
    assert isinstance(event, Approximate)
    assert event.event == Selected((Gaussian(1.0), Gaussian(2.0)), 3.0, "geometric")
    assert 0 < event.total_variation < 1e-30


@pytest.mark.parametrize(
    ("mean", "law"), [(0.5, "poisson"), (math.inf, "poisson"), (math.nan, "geometric"), (1e6, "geometric")]
)
def test_impossible_means_are_refused(mean, law):
    with pytest.raises(ValueError, match="mean_runs is"):
        Repetitions(mean, law)


def test_unknown_laws_are_refused():
    with pytest.raises(ValueError, match="law is 'fixed'"):
        Repetitions(3.0, "fixed")
    with pytest.raises(ValueError, match="law is 'fixed'"):
        Selected((Gaussian(1.0),), 3.0, "fixed")
