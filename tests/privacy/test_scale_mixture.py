"""The mixture of Gaussians is the l2-Laplace law: in proportion, at every radius that ever occurs."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import gammaln

from sordino.privacy.randomness import Randomness
from sordino.privacy.scale_mixture import deviations, laplace

ROUNDING = 2.0**-24
"""The lattice's random rounding, relative to the scale."""
PLACE = 360
"""A deviation that occurs: its sum differs from the next in the first 64 bits."""


def log_law(dim, radius):
    """log of the mixture's density at |z| = radius, up to a constant, each Gaussian convolved with the rounding."""
    mixture = laplace(dim)
    logs = np.array([math.log(b - a) for a, b in zip([0, *mixture.sums[:-1]], mixture.sums, strict=True)])
    variances = mixture.deviations**2 + ROUNDING**2
    terms = logs - dim / 2 * np.log(variances) - radius**2 / (2 * variances)
    return float(terms.max() + np.log(np.exp(terms - terms.max()).sum()))


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 100, 1000, 30_000])
def test_every_radius_has_its_probability_in_proportion(dim):
    """log p(r) + r is the same for all r. A relative error anywhere would be a privacy loss there."""
    # all radii but those of a probability below about e^-600, and where the rounding shows

    def rare(r):
        return dim * math.log(r) - r - gammaln(dim + 1) + 600

    low = 0.05 if rare(0.05) > 0 else brentq(rare, 0.05, dim)
    radii = np.linspace(max(low, 0.05), brentq(rare, dim, 3 * dim + 2000), 60)
    levels = [log_law(dim, float(r)) + r for r in radii]
    # half of the residue that the noise charges for; these sums themselves round some 1e-16 of their size
    size = max(abs(level) for level in levels) + dim * math.log(dim + 1)
    assert np.ptp(levels) < (1e-11 + 1e-15 * dim) / 2 + 2e-15 * size


@pytest.mark.parametrize("dim", [1, 10, 100])
def test_close_to_the_centre_only_the_rounding_shows(dim):
    """A law that is convolved with a rounding of 2^-24 is flatter at its peak, never steeper than the scale allows."""
    radii = np.array([0.0, *np.geomspace(1e-8, 1.0, 60)])
    levels = np.array([log_law(dim, float(r)) for r in radii])
    slopes = np.diff(levels) / np.diff(radii)
    steepest = 1e-11 / np.diff(radii) if dim < 100 else np.full(60, 1e-5)
    assert (slopes <= steepest).all()
    assert (slopes >= -1 - steepest).all()


def test_the_tails_go_down_to_the_last_bit():
    for dim in (1, 50, 5000):
        mixture = laplace(dim)
        assert mixture.sums[-1] == 1 << 1280
        # the rarest of the largest deviations: e^-830
        assert 0 < mixture.sums[-1] - mixture.sums[-2] < 1 << 150
        assert (np.diff(mixture.deviations) > 0).all()


@pytest.mark.parametrize("dim", [1, 4, 300])
def test_deviations_have_the_chi_law(dim):
    drawn = deviations(dim, 200_000, Randomness.seeded(2).noise)
    # steps of 1/8 in t are steps of at most 1/8 in a: compare at the points between
    points = np.unique(laplace(dim).deviations)
    middles = (points[1:] + points[:-1]) / 2
    found = np.searchsorted(np.sort(drawn), middles) / drawn.size
    assert np.abs(found - stats.chi(dim + 1).cdf(middles)).max() < 0.004


def test_first_bits_that_do_not_decide_are_followed_by_others():
    class Stuck:
        """The first 64 bits of a sum, then all zeros or all ones."""

        def __init__(self, fill):
            self.fill = fill

        def words(self, count):
            first = laplace(3).leading[PLACE : PLACE + 1]
            return first.copy() if count == 1 else np.full(count, self.fill, dtype=np.uint64)

    below, above = (deviations(3, 1, Stuck(fill))[0] for fill in (0, 2**64 - 1))
    place = laplace(3).deviations.tolist()
    assert (place.index(below), place.index(above)) == (PLACE, PLACE + 1)
