from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from sordino.federation.noise import (
    DistributedGaussian,
    JointGaussian,
    gap_distance,
    on_grid,
    sum_distance,
)
from sordino.federation.trust import Trust, require_cover
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

REACH = 80


def law(scale, spacing=1):
    """The discrete Gaussian on the multiples of `spacing`, as an array over -REACH .. REACH."""
    k = np.arange(-REACH, REACH + 1)
    weights = np.where(k % spacing == 0, np.exp(-(k**2) / (2 * scale**2)), 0.0)
    return weights / weights.sum()


def tau(h, s):
    """10 sum_{k<h} exp(-2 pi^2 s^2 k/(k+1)): Kairouz, Liu and Steinke 2021, Theorem 1."""
    return 10 * math.fsum(math.exp(-2 * math.pi**2 * s**2 * k / (k + 1)) for k in range(1, h))


@pytest.mark.parametrize(
    ("h", "s", "printed"), [(10, 1.0, 5.435e-4), (10, 1.5, 2.270e-9), (10, 2.0, 7.157e-17), (100, 1.0, 5.478e-4)]
)
def test_sums_are_within_a_fifth_of_the_published_bound(h, s, printed):
    assert tau(h, s) == pytest.approx(printed, rel=1e-3)
    # ours bounds total variation, theirs a logarithm of probabilities
    assert 0.19 * tau(h, s) < sum_distance(s, h) < 0.21 * tau(h, s)


@pytest.mark.parametrize(("count", "scale"), [(2, 0.5), (2, 0.7), (3, 0.6), (5, 0.8), (4, 1.0)])
def test_the_distance_of_a_sum_bounds_the_true_one(count, scale):
    total = law(scale)
    for _ in range(count - 1):
        total = np.convolve(total, law(scale), mode="same")
    true = np.abs(total - law(scale * math.sqrt(count))).sum() / 2
    assert 1e-12 < true <= sum_distance(scale, count)


@pytest.mark.parametrize(("spacing", "coarse", "fine"), [(3, 7.0, 1.5), (4, 9.0, 2.5), (2, 3.0, 1.2), (5, 8.0, 4.0)])
def test_the_distance_of_a_gap_bounds_the_true_one(spacing, coarse, fine):
    total = np.convolve(law(coarse, spacing), law(fine), mode="same")
    true = np.abs(total - law(math.hypot(coarse, fine))).sum() / 2
    bound = gap_distance(coarse, fine, spacing)
    assert 1e-12 < true <= bound
    assert bound < 40 * true


MODES = [
    Trust(2),
    Trust(2, "distributed", 0),
    Trust(10, "distributed", 0),
    Trust(3, "distributed", 1),
    Trust(5, "distributed", 2),
    Trust(5, "distributed", 4),
    Trust(100, "distributed", 49),
    Trust(1, "committee"),
    Trust(7, "committee"),
    Trust(3, "joint"),
    Trust(5, "joint", 2),
    Trust(11, "joint", 5),
]


@pytest.mark.parametrize("trust", MODES, ids=str)
@pytest.mark.parametrize("dim", [1, 123, 26_010, 1_000_000])
@pytest.mark.parametrize("multiplier", [0.3, 1.0, 1.9999, 7.3, 100.0])
def test_what_is_done_is_as_private_as_what_was_planned(trust, dim, multiplier):
    for sensitivity in (1.0, 2e-3, math.pi):
        planned = GaussianNoise.at(multiplier, sensitivity, dim)
        done = trust.realise(planned)
        assert done.event.event.multiplier >= planned.event.event.multiplier
        assert done.event.total_variation <= planned.event.total_variation
        assert done.sensitivity == planned.sensitivity
        assert done.dim == planned.dim


@pytest.mark.parametrize(
    ("trust", "excess"),
    [
        (Trust(5, "distributed", 2), math.sqrt(5 / 3)),
        (Trust(10, "distributed", 1), math.sqrt(10 / 9)),
        (Trust(10, "distributed", 0), 1.0),
        (Trust(4, "committee"), math.sqrt(3 / 2)),
        (Trust(40, "committee"), math.sqrt(3 / 2)),
    ],
    ids=str,
)
def test_how_much_noise_is_in_excess(trust, excess):
    planned = GaussianNoise.at(1.0, 1.0, 10)
    assert trust.realise(planned).std / planned.std == pytest.approx(excess, rel=1e-9)


@pytest.mark.parametrize("trust", [Trust(3, "joint"), Trust(5, "joint", 2), Trust(10, "joint", 4)], ids=str)
def test_joint_noise_has_next_to_none(trust):
    planned = GaussianNoise.at(1.0, 1.0, 10)
    assert 1 < trust.realise(planned).std / planned.std < 1.025


@pytest.mark.parametrize("trust", [t for t in MODES if t.owners < 20], ids=str)
def test_the_honest_have_the_noise_that_was_planned_and_all_together_the_excess(trust):
    planned = GaussianNoise.at(1.0, 1.0, 1)
    shared = trust.realise(planned)
    randomness = Randomness.seeded(4)
    shares = np.array([shared.next((4000,), randomness) for _ in range(shared.makers)], dtype=float)
    coarse = shared.joint.draw((4000,), randomness.noise) if shared.joint else 0.0
    honest = (shares[trust.colluders :].sum(axis=0) + coarse) * shared.step
    assert kstest(honest / planned.std, "norm").pvalue > 1e-4
    everything = (shares.sum(axis=0) + coarse) * shared.step
    assert np.std(everything) == pytest.approx(shared.std, rel=0.05)


def test_a_share_below_two_steps_is_refused():
    with pytest.raises(ValueError, match="at least 2 are needed for the sum of"):
        DistributedGaussian(1.0, 1.0, 1.5, 10, 5, 2)


@pytest.mark.parametrize("colluders", [-1, 3, 4])
def test_somebody_must_be_honest(colluders):
    with pytest.raises(ValueError, match="at least one must be honest"):
        DistributedGaussian.covering(GaussianNoise.at(1.0, 1.0, 1), 3, colluders)


def test_joint_noise_needs_an_honest_majority():
    with pytest.raises(ValueError, match="needs an honest majority, at most 1 of them"):
        JointGaussian.covering(GaussianNoise.at(1.0, 1.0, 1), 4, 2)


def test_less_private_noise_gets_no_certificate():
    planned, less = GaussianNoise.at(1.0, 1.0, 5), GaussianNoise.at(0.999, 1.0, 5)
    with pytest.raises(ValueError, match="no certificate could be given"):
        require_cover(less.event, planned.event)
    further = GaussianNoise.at(1.0, 1.0, 6)
    with pytest.raises(ValueError, match="no certificate could be given"):
        require_cover(further.event, planned.event)


def test_on_the_grid_neighbours_are_no_further_apart_than_stated():
    generator = np.random.default_rng(0)
    for _ in range(200):
        a, b = generator.normal(size=(2, 30)) * 10
        gap = np.linalg.norm(on_grid(a, 0.25, 1 << 60) - on_grid(b, 0.25, 1 << 60)) * 0.25
        assert gap <= np.linalg.norm(a - b) + 0.25 * math.sqrt(30)


def test_what_is_not_finite_is_not_sent():
    with pytest.raises(ValueError, match="not finite, nothing was sent"):
        on_grid(np.array([1.0, np.nan]), 1.0, 100)
    assert on_grid(np.array([1e300, -1e300]), 1.0, 100).tolist() == [100, -100]
