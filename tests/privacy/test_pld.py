"""Composed losses against reference values, another team's code, closed forms and brute force."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from sordino.budget import Relation
from sordino.privacy.accountants import fourier
from sordino.privacy.accountants.dp_accounting_check import DPAccountingCheck
from sordino.privacy.accountants.event_leaves import read_samplable
from sordino.privacy.accountants.fourier import _low_frequencies as low_frequencies, delta_above, epsilon_above
from sordino.privacy.accountants.pairs import Added
from sordino.privacy.accountants.pld import FINE, LossAccountant, _ways
from sordino.privacy.accountants.rdp import RenyiAccountant
from sordino.privacy.events import (
    Approximate,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    PoissonSampled,
    PureDP,
    compose,
    repeat,
)
from sordino.privacy.gaussian_profile import gdp_delta, gdp_epsilon

REFERENCE = json.loads((Path(__file__).parent / "reference_values.json").read_text())
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
PLD = LossAccountant()


def poisson(multiplier: float, rate: float, steps: int) -> Event:
    return repeat(PoissonSampled(Gaussian(multiplier), rate), steps)


def fixed_size(multiplier: float, rate: float, steps: int) -> Event:
    return repeat(FixedSizeSampled(Gaussian(multiplier), rate), steps)


def bracket(event: Event, delta: float, relation: Relation) -> tuple[float, float]:
    above = PLD.epsilon(event, delta, relation)
    error = PLD.error(event, delta, relation, above)
    assert error is not None
    return above - error, above


COMPOSED = [
    # q, steps, z; Poisson add_remove and replace_one (std/C = z), fixed size (std/2C = z), all at delta = 1e-5
    *((row["q"], row["T"], row["z"], *(row[key] for key in list(row)[3:])) for row in REFERENCE["pld_eps_delta1e-5"]),
    (0.004, 2500, 1.1, 0.88518, 1.48737, 1.09879),
    (0.1, 200, 4.0, 1.42167, 2.93661, 1.51033),
]


@pytest.mark.parametrize(("q", "steps", "z", "add", "replace", "fixed"), COMPOSED)
def test_composed_reference_values(q: float, steps: int, z: float, add: float, replace: float, fixed: float) -> None:
    # Five printed digits: rel 1e-4 for the grid, and half a unit of the last digit for the print.
    assert PLD.epsilon(poisson(z, q, steps), 1e-5, ADD) == pytest.approx(add, rel=1e-4)
    assert PLD.epsilon(poisson(z / 2, q, steps), 1e-5, REPLACE) == pytest.approx(replace, rel=1e-4)
    assert PLD.epsilon(fixed_size(z, q, steps), 1e-5, REPLACE) == pytest.approx(fixed, rel=1e-4)


@pytest.mark.parametrize(("sigma", "printed"), [(2.0, 0.9152), (4.0, 0.4063), (8.0, 0.1883)])
def test_hundred_epochs_of_mnist(sigma: float, printed: float) -> None:
    """The privacy of Zhou et al. 2020, Figure 1, add_remove.

    The printed digits were made on a coarser grid, which errs upwards: ours may not exceed them, nor be far below.
    """
    below, above = bracket(poisson(sigma, 128 / 60000, 46_875), 1e-5, ADD)
    assert above <= printed + 5e-5
    assert above == pytest.approx(printed, rel=5e-4)
    assert above - below < 1e-4 * above


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("mu", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.2])
def test_gaussians_are_bracketed(relation: Relation, mu: float, delta: float) -> None:
    exact = gdp_epsilon(mu, delta)
    event = compose(repeat(GaussianDP(mu / 5), 9), GaussianDP(mu * 0.8))
    below, above = bracket(event, delta, relation)
    assert below * (1 - 1e-9) <= exact <= above
    assert above <= exact * (1 + 1e-4) + 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_one_sampled_release_is_its_profile(epsilon: float) -> None:
    q, z = 0.2, 0.8
    x = z * math.log((math.exp(epsilon) - 1 + q) / q) + 1 / (2 * z)
    removed = (1 - q) * norm.sf(x) + q * norm.sf(x - 1 / z) - math.exp(epsilon) * norm.sf(x)
    assert PLD.delta(poisson(z, q, 1), epsilon, ADD) == pytest.approx(removed, rel=1e-3)
    amplified = q * gdp_delta(math.log1p(math.expm1(epsilon) / q), 1 / z)
    assert PLD.delta(fixed_size(z, q, 1), epsilon, REPLACE) == pytest.approx(amplified, rel=1e-3)


@pytest.mark.parametrize(("q", "z"), [(0.7064, 0.4926), (0.9932, 0.5585), (0.2338, 0.2405), (0.02, 5.2)])
@pytest.mark.parametrize("grain", [0.015, 0.05])
def test_around_the_largest_loss_of_a_joining_record(q: float, z: float, grain: float) -> None:
    """It is -log(1 - q), and no tilt can centre a loss beyond it: delta must not jump there, and stay above the exact.

    P = N(0, 1) against Q = (1 - q) N(0, 1) + q N(1/z, 1), whose loss exceeds epsilon below some x.
    """
    largest, shift = -math.log1p(-q), 1 / z

    def exact(epsilon: float) -> float:
        ratio = (math.exp(-epsilon) - 1 + q) / q
        if ratio <= 0:
            return 0.0
        x = math.log(ratio) / shift + shift / 2
        return float(norm.cdf(x) - math.exp(epsilon) * ((1 - q) * norm.cdf(x) + q * norm.cdf(x - shift)))

    epsilons = [largest * times for times in (0.5, 0.9, 0.999, 1 - 1e-6, 1 - 1e-9, 1 + 1e-13, 1 + 1e-9, 1.06, 1.5)]
    joining = [delta_above([(Added(q, shift), 1)], epsilon, grain) for epsilon in epsilons]
    for epsilon, delta in zip(epsilons, joining, strict=True):
        assert exact(epsilon) * (1 - 1e-9) <= delta <= 1.05 * exact(epsilon) + 1e-3
    assert joining[-2:] == [0.0, 0.0]
    whole = [LossAccountant(grain).delta(poisson(z, q, 1), epsilon, ADD) for epsilon in epsilons]
    assert all(a >= b for a, b in pairwise(whole))
    assert whole[0] < q


def test_two_sampled_releases_by_brute_force() -> None:
    """delta of a pair of Poisson-sampled releases, integrating over the plane of both outputs."""
    q, z, w = 0.3, 1.0, 1.5
    x = np.linspace(-12, 14, 4001)
    width = x[1] - x[0]

    def laws(z: float) -> tuple[np.ndarray, np.ndarray]:
        still = norm.pdf(x, 0, z) * width
        return (1 - q) * still + q * norm.pdf(x, 1, z) * width, still

    (p, r), (s, t) = laws(z), laws(w)
    event = compose(PoissonSampled(Gaussian(z), q), PoissonSampled(Gaussian(w), q))
    for epsilon in (0.2, 1.0):
        exact = sum(np.maximum(0.0, p[i] * s - math.exp(epsilon) * r[i] * t).sum() for i in range(len(x)))
        assert PLD.delta(event, epsilon, ADD) == pytest.approx(exact, rel=2e-4)


@pytest.mark.parametrize(("count", "epsilon"), [(1, 1.0), (10, 0.3), (100, 0.05)])
@pytest.mark.parametrize("target", [0.1, 0.9])
def test_pure_releases_compose_optimally(count: int, epsilon: float, target: float) -> None:
    """Kairouz, Oh & Viswanath 2015: the k-fold composition of randomised response."""
    total = target * count * epsilon
    ups = np.arange(count + 1)
    losses = (2 * ups - count) * epsilon
    weights = binom.pmf(ups, count, 1 / (1 + math.exp(-epsilon)))
    exact = float(weights @ np.maximum(0.0, -np.expm1(np.minimum(0.0, total - losses))))
    assert PLD.delta(repeat(PureDP(epsilon), count), total, REPLACE) == pytest.approx(exact, rel=1e-6, abs=1e-15)


def test_pure_releases_never_cost_more_than_their_sum() -> None:
    event = compose(PureDP(0.2), repeat(PureDP(0.1), 3))
    assert PLD.epsilon(event, 0.0, REPLACE) == pytest.approx(0.5, rel=1e-12)
    assert PLD.epsilon(event, 1e-30, REPLACE) <= 0.5 + 1e-12
    assert PLD.delta(event, 0.51, REPLACE) == 0.0
    assert PLD.epsilon(poisson(1.0, 0.1, 2), 0.0, ADD) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_different_parts_agree_with_another_teams_code(relation: Relation) -> None:
    event = compose(
        Gaussian(3.0),
        PureDP(0.1),
        poisson(1.0, 0.02, 100),
        poisson(2.0, 0.05, 30),
        GaussianDP(0.2),
    )
    below, above = bracket(event, 1e-6, relation)
    theirs = DPAccountingCheck().epsilon(event, 1e-6, relation)
    assert theirs == pytest.approx(above, rel=1e-4)
    assert below <= theirs


def test_fixed_size_agrees_with_the_profile_composed_by_another_teams_code() -> None:
    from dp_accounting.pld import pld_pmf

    q, m, steps, step = 0.1, 0.25, 200, 1e-4
    edges = np.arange(-4000, 8001)
    sign = np.abs(edges * step)
    delta = np.array([q * gdp_delta(math.log1p(math.expm1(e) / q), m) for e in sign])
    profile = np.where(edges >= 0, delta, -np.expm1(edges * step) + np.exp(edges * step) * delta)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -4000, 8000, profile)
    theirs = pmf.self_compose(steps).get_epsilon_for_delta(1e-5)
    assert PLD.epsilon(fixed_size(1 / m, q, steps), 1e-5, REPLACE) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "delta", "relation"),
    [
        (poisson(1.0, 1e-6, 10**6), 1e-5, ADD),
        (poisson(10.0, 0.01, 10**6), 1e-12, REPLACE),
        (fixed_size(50.0, 0.01, 10**6), 1e-12, REPLACE),
        (poisson(0.3, 1e-4, 1000), 1e-6, ADD),
        (poisson(0.5, 0.01, 10), 1e-6, ADD),
        (fixed_size(0.2, 0.2, 1), 1e-6, REPLACE),
        (poisson(0.6, 1e-3, 10**6), 1e-5, ADD),
        (poisson(1000.0, 1e-3, 10**6), 1e-9, ADD),
    ],
    ids=str,
)
def test_extreme_settings_are_bracketed_closely(event: Event, delta: float, relation: Relation) -> None:
    below, above = bracket(event, delta, relation)
    assert 0 < below <= above <= below * (1 + 1e-4)
    assert above <= RenyiAccountant().epsilon(event, delta, relation)


def test_a_coarser_grid_costs_more_and_stays_above_the_lower_bound() -> None:
    event = poisson(1.5, 0.01, 500)
    below, above = bracket(event, 1e-6, ADD)
    coarse = LossAccountant(grain=0.2).epsilon(event, 1e-6, ADD)
    assert below <= above <= coarse <= above * 1.01


def test_many_different_levels() -> None:
    """The bounds of the mean level squeeze a schedule of noise levels that averages to nearly the same."""
    levels = np.linspace(2.0, 2.02, 40).tolist()
    event = Composed(tuple((PoissonSampled(Gaussian(z), 0.02), 5) for z in levels))
    epsilon = PLD.epsilon(event, 1e-6, ADD)
    assert PLD.epsilon(poisson(2.02, 0.02, 200), 1e-6, ADD) < epsilon < PLD.epsilon(poisson(2.0, 0.02, 200), 1e-6, ADD)
    shuffled = Composed(event.parts[::-1])  # type: ignore[union-attr]
    assert PLD.epsilon(shuffled, 1e-6, ADD) == pytest.approx(epsilon, rel=1e-9)


def test_levels_at_the_frequencies_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels are multiplied where their product has not died away: the same as at all frequencies, and as by a peer."""
    levels = np.linspace(1.0, 2.0, 12).tolist()
    event = Composed(tuple((PoissonSampled(Gaussian(z), 0.02), 20) for z in levels))
    short: list[int] = []

    def counted(*given: Any) -> Any:
        short.append(len(given))
        return low_frequencies(*given)

    monkeypatch.setattr(fourier, "_low_frequencies", counted)
    monkeypatch.setattr(fourier, "_LOOK", 10**6)
    everywhere = bracket(event, 1e-6, ADD)
    assert not short
    monkeypatch.setattr(fourier, "_LOOK", 2)
    below, above = bracket(event, 1e-6, ADD)
    assert len(short) > 12
    assert (below, above) == pytest.approx(everywhere, rel=1e-9)
    peer = DPAccountingCheck().epsilon(event, 1e-6, ADD)
    assert below <= peer
    assert above == pytest.approx(peer, rel=1e-3)


@pytest.mark.parametrize("event", [poisson(1.0, 1e-3, 10**4), poisson(0.7, 1e-4, 10**5), fixed_size(3.0, 0.05, 500)])
def test_many_steps_at_the_frequencies_that_are_left(event: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which frequencies carry nothing is known beforehand, and the others are the same as those of a transform."""
    found = bracket(event, 1e-6, REPLACE)
    monkeypatch.setattr(fourier, "_lowest", lambda *_: 0)
    assert found == pytest.approx(bracket(event, 1e-6, REPLACE), rel=1e-8)


@pytest.mark.parametrize("step", [1, 2, 7])
@pytest.mark.parametrize("spread", [0.3, 5.0, 40.0])
@pytest.mark.parametrize("count", [8, 300, 10**5])
def test_frequencies_that_are_left_out_carry_nothing(step: int, spread: float, count: int) -> None:
    """Also those of a law on every second or seventh point, which come back to their full size."""
    rng, size = np.random.default_rng(count), 20_000
    at = np.unique(np.rint(rng.normal(scale=spread, size=400))).astype(int) * step
    mass = rng.random(len(at))
    mass /= mass.sum()
    low = fourier._lowest(at, mass, size, count)
    sizes = np.abs(np.fft.rfft(np.bincount(at % size, mass, size)))
    assert 0 <= low <= len(sizes)
    if low:
        assert (count * np.log(sizes[low:]) < fourier._GONE).all()
    if step == 1 and count == 10**5:
        assert 0 < low < 1000


def test_an_epsilon_far_left_of_the_centre_is_found_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    event = poisson(1.0, 0.01, 1000)
    usual = PLD.epsilon(event, 1e-5, ADD)
    monkeypatch.setattr(fourier, "_LEFT_OF_CENTRE", -0.4)
    assert PLD.epsilon(event, 1e-5, ADD) == pytest.approx(usual, rel=1e-12)


def test_low_frequencies_are_those_of_a_transform() -> None:
    rng = np.random.default_rng(0)
    at, mass = rng.choice(1000, 50, replace=False), rng.random(50)
    whole = np.fft.rfft(np.bincount(at, mass, 1000))
    for low in (1, 2, 7, 64, 200):
        np.testing.assert_allclose(low_frequencies(at, mass, 1000, low), whole[:low], atol=1e-12)


def test_distance_is_charged_at_the_smallest_epsilon_that_leaves_room() -> None:
    inner, distance = poisson(1.0, 0.01, 1000), 1e-7
    epsilon = PLD.epsilon(Approximate(inner, distance), 1e-5, ADD)
    left = 1e-5 - (1 + math.exp(epsilon)) * distance
    assert PLD.epsilon(inner, left, ADD) == pytest.approx(epsilon, rel=1e-6)
    error = PLD.error(Approximate(inner, distance), 1e-5, ADD, epsilon)
    assert error is not None
    assert error < 1e-3 * epsilon


def test_parts_of_very_different_size() -> None:
    """A negligible part must neither change the answer nor dictate the grid."""
    alone = gdp_epsilon(1.0, 1e-5)
    for speck in (PureDP(1e-9), poisson(100.0, 1e-5, 1), fixed_size(100.0, 1e-5, 1), repeat(PureDP(1e-9), 1000)):
        assert PLD.epsilon(compose(Gaussian(1.0), speck), 1e-5, REPLACE) == pytest.approx(alone, rel=1e-4)


def test_far_beyond_the_losses_delta_vanishes() -> None:
    event = poisson(2.0, 0.01, 10)
    assert PLD.delta(event, 5.0, ADD) < 1e-40
    assert PLD.delta(event, 500.0, ADD) < 1e-40


def test_losses_out_of_range_are_infinite_and_not_small() -> None:
    assert PLD.epsilon(GaussianDP(60.0), 1e-5, ADD) == math.inf
    assert PLD.delta(GaussianDP(60.0), 1.0, ADD) == 1.0


def test_a_large_delta_costs_nothing() -> None:
    event = poisson(1.0, 1e-3, 1)
    assert PLD.epsilon(event, 1e-3, ADD) == 0.0
    assert PLD.delta(event, 0.0, ADD) == pytest.approx(1e-3 * gdp_delta(0.0, 1.0), rel=1e-3)


def test_fixed_size_has_no_meaning_when_records_come_and_go() -> None:
    event = fixed_size(1.0, 0.1, 3)
    assert not PLD.supports(event, ADD)
    with pytest.raises(ValueError, match=r"fixed-size batches.*add_remove.*Poisson sampling"):
        PLD.epsilon(event, 1e-5, ADD)


@pytest.mark.parametrize(
    ("z", "rate", "steps"), [(0.6, 1e-4, 100_000), (1.0, 0.01, 1000), (5.0, 0.5, 20), (0.3, 0.9, 1)]
)
def test_neither_way_is_above_what_counts(z, rate, steps):
    """The second way may be left on a coarse grid, which must change nothing."""
    event = poisson(z, rate, steps)
    ways = _ways(read_samplable(event, ADD), ADD)
    assert len(ways) == 2
    # at 0 both are the same but for their grids, and the second may be above
    assert PLD.delta(event, 0.0, ADD) == max(delta_above(levels, 0.0, FINE) for levels in ways)
    for delta in (1e-9, 1e-5, 1e-2):
        epsilon = PLD.epsilon(event, delta, ADD)
        assert epsilon == max(epsilon_above(levels, delta, FINE, 0.0) for levels in ways)
        if epsilon > 0:
            assert PLD.delta(event, epsilon, ADD) == max(delta_above(levels, epsilon, FINE) for levels in ways)
