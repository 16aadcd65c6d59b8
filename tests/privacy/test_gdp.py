"""Closed-form Gaussian accounting against 50-digit references, and on the safe side of them."""

import json
import math
from pathlib import Path

import mpmath as mp
import pytest

from sordino.budget import Relation
from sordino.privacy.accountants.gdp import GaussianAccountant
from sordino.privacy.events import Approximate, Gaussian, GaussianDP, PoissonSampled, PureDP, compose, repeat
from sordino.privacy.gaussian_profile import _mills, _mills_gap, gdp_delta, gdp_epsilon, gdp_mu

REFERENCE = json.loads((Path(__file__).parent / "reference_values.json").read_text())
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def numbers(name: str, *columns: str) -> list[tuple[float, ...]]:
    return [tuple(float(row[column]) for column in columns) for row in REFERENCE[name]]


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "sigma"),
    [
        *numbers("analytic_gaussian_sigma", "eps", "delta", "sensitivity", "sigma"),
        (0.1, 1e-3, 1, 17.40439620303117),
        (0.5, 1e-3, 1, 4.61012795072814),
        (1, 1e-3, 1, 2.574657018637206),
        (2, 1e-3, 1, 1.445239160929784),
        (0.1, 1e-5, 1, 30.74956613197745),
        (0.5, 1e-5, 1, 7.031826675582491),
        (2, 1e-5, 1, 1.993812445643537),
        (1, 1e-6, 1, 4.224678889326835),
    ],
)
def test_least_gaussian_noise(epsilon: float, delta: float, sensitivity: float, sigma: float) -> None:
    assert sensitivity / gdp_mu(epsilon, delta) == pytest.approx(sigma, rel=1e-9)


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [
        *numbers("gdp_delta", "mu", "eps", "delta"),
        (0.25, 1, 2.924272104856e-6),
        (1, 5, 5.79372169192e-7),
        (2, 2, 0.331897998777),
    ],
)
def test_delta(mu: float, epsilon: float, delta: float) -> None:
    assert gdp_delta(epsilon, mu) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"), [*numbers("gdp_eps", "mu", "delta", "eps"), (1, 1e-3, 3.138670548583)]
)
def test_epsilon(mu: float, delta: float, epsilon: float) -> None:
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta", "mu"), numbers("gdp_mu", "eps", "delta", "mu"))
def test_mu(epsilon: float, delta: float, mu: float) -> None:
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("mu", [1e-8, 1e-4, 0.03, 0.7, 1.0, 1.5, 9.0, 50.0])
@pytest.mark.parametrize("u", [-6.0, -0.4, 0.0, 1.0, 5.0, 11.9, 12.1, 30.0])
def test_delta_is_rounded_up_and_no_digit_is_lost(mu: float, u: float) -> None:
    epsilon = max(0.0, mu * (u + mu / 2))
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        exact = mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)
        excess = float(mp.mpf(gdp_delta(epsilon, mu)) / exact - 1)
    assert 0 <= excess < 1e-11


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 8.0, 30.0, 300.0])
@pytest.mark.parametrize("delta", [1e-100, 1e-12, 1e-5, 0.1, 0.5, 0.999])
def test_inverses_are_safe_and_tight(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(epsilon, mu) <= delta < gdp_delta(epsilon, mu * (1 + 1e-9))
    back = gdp_epsilon(mu, delta)
    assert gdp_delta(back, mu) <= delta
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_negative_epsilon_is_the_other_way_round(mu: float, epsilon: float) -> None:
    with mp.workdps(40):
        m, e = mp.mpf(mu), -mp.mpf(epsilon)
        exact = mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)
    assert gdp_delta(-epsilon, mu) == pytest.approx(float(exact), rel=1e-12)


def test_edges() -> None:
    assert gdp_delta(0.0, 0.0) == 0.0
    assert gdp_delta(1.0, 100.0) == 1.0
    assert gdp_epsilon(0.0, 0.0) == 0.0
    assert gdp_epsilon(0.3, 0.5) == 0.0
    assert gdp_epsilon(1.0, 0.0) == math.inf
    assert gdp_mu(1.0, 0.0) == 0.0
    with pytest.raises(ValueError, match=r"mu is -1.*not negative"):
        gdp_delta(1.0, -1.0)
    with pytest.raises(ValueError, match=r"delta is 1\.0"):
        gdp_mu(1.0, 1.0)
    with pytest.raises(ValueError, match=r"epsilon is -1"):
        gdp_mu(-1.0, 0.1)


@pytest.mark.parametrize("relation", list(Relation))
def test_composition_adds_squares(relation: Relation) -> None:
    # mu^2 = 4/4 + 9 * 0.25 + 1 = 4.25, under either relation: noise is stated relative to the sensitivity
    event = compose(repeat(Gaussian(2.0), 4), repeat(GaussianDP(0.5), 9), PoissonSampled(Gaussian(1.0), 1.0))
    accountant = GaussianAccountant()
    assert accountant.epsilon(event, 1e-5, relation) == pytest.approx(gdp_epsilon(math.sqrt(4.25), 1e-5), rel=1e-12)
    assert accountant.delta(event, 2.0, relation) == pytest.approx(gdp_delta(2.0, math.sqrt(4.25)), rel=1e-12)


def test_distance_costs_its_share_of_delta() -> None:
    accountant, distance = GaussianAccountant(), 1e-7
    event = compose(Approximate(Gaussian(2.0), distance / 2), Approximate(Gaussian(3.0), distance / 2))
    mu = math.sqrt(1 / 4 + 1 / 9)
    assert accountant.delta(event, 1.0, ADD) == gdp_delta(1.0, mu) + (1 + math.e) * distance
    epsilon = accountant.epsilon(event, 1e-5, ADD)
    assert accountant.delta(event, epsilon, ADD) <= 1e-5 < accountant.delta(event, epsilon * (1 - 1e-6), ADD)


def test_a_distance_that_leaves_nothing_is_infinitely_expensive() -> None:
    accountant = GaussianAccountant()
    # 2 distance > delta: no epsilon at all; and a distance that every large enough epsilon multiplies past delta
    assert accountant.epsilon(Approximate(Gaussian(2.0), 1e-5), 1e-5, ADD) == math.inf
    assert accountant.epsilon(Approximate(Gaussian(0.5), 1e-7), 1e-5, ADD) == math.inf


def test_other_events_are_refused() -> None:
    event = PureDP(1.0)
    assert not GaussianAccountant().supports(event, REPLACE)
    with pytest.raises(ValueError, match="Gaussian releases and Gaussian-DP events only"):
        GaussianAccountant().epsilon(event, 1e-5, REPLACE)


def mills(t: mp.mpf) -> mp.mpf:
    return mp.sqrt(mp.pi / 2) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2))


@pytest.mark.parametrize("t", [-5.0, -0.3, 0.0, 1e-9, 0.7, 3.1, 11.9, 35.99, 36.01, 1e3, 1e8])
def test_the_mills_ratio_is_exact_up_to_rounding(t):
    with mp.workdps(60):
        true = mills(mp.mpf(t)) if t < 1e6 else 1 / mp.mpf(t)
        assert float(abs(_mills(t) / true - 1)) < 5e-15


@pytest.mark.parametrize("u", [-5.0, -1.3, 0.0, 0.4, 5.5, 11.9, 40.0, 900.0])
@pytest.mark.parametrize("share", [1.0, 0.3, 1e-3, 1e-9])
def test_and_so_is_its_difference_where_it_would_cancel(u, share):
    mu = max(1.0, u) * share
    with mp.workdps(80):
        true = mills(mp.mpf(u)) - mills(mp.mpf(u) + mp.mpf(mu))
        assert float(abs(_mills_gap(u, mu) / true - 1)) < 1e-14


@pytest.mark.parametrize("mu", [1e-310, 1e-160, 1e-12, 1e8, 1e149, 1e151, 1e200, 1e308])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1.0, 1e300])
def test_numbers_out_of_range_are_rounded_to_the_safe_side(epsilon: float, mu: float) -> None:
    """Whoever verifies a stranger's numbers neither waits for ever nor is told too little."""
    delta = gdp_delta(epsilon, mu)
    assert 0 <= delta <= 1
    # exp(-u^2/2) bounds the profile where u > 0, and it is more than a half where u < 0 but for e^epsilon Phi(-v)
    u = epsilon / mu - mu / 2
    assert delta < 1e-300 if u > 50 else delta > 0.5 if u < -5 else True
    for given in (1e-300, 1e-5, 0.5):
        found = gdp_epsilon(mu, given)
        assert found == math.inf or gdp_delta(found, mu) <= given


@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.999])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 700.0, 1e5, 1e300, 1e308])
def test_the_least_noise_for_numbers_out_of_range(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)
    assert 0 < mu < math.inf
    assert gdp_delta(epsilon, mu) <= delta
    # and not far below: twice as much would not do
    assert epsilon > 1e150 or gdp_delta(epsilon, 2 * mu) > delta
