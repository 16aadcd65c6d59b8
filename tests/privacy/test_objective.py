"""Objective perturbation's profile: golden values, its quadrature, and the pair that refutes the printed theorem."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from sordino.budget import Budget, Relation
from sordino.privacy.accountants import delta, epsilon, guarantee
from sordino.privacy.accountants.objective import ObjectiveAccountant, line_delta, objective_delta
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import (
    Approximate,
    Gaussian,
    GaussianDP,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
    compose,
    repeat,
)

VALUES = json.loads((Path(__file__).parent / "reference_values.json").read_text())
R1, AR = Relation.REPLACE_ONE, Relation.ADD_REMOVE


def rows(key, *names):
    return [tuple(float(row[name]) for name in names) for row in VALUES[key]]


@pytest.mark.parametrize(("eps", "kappa", "m", "expected"), rows("objpert_delta", "eps", "kappa", "mu", "delta"))
def test_profile(eps, kappa, m, expected):
    assert objective_delta(eps, kappa, 1 / m, AR) == pytest.approx(expected, rel=1e-9)


def test_profile_below_the_turning_point():
    # 1 - 2 e^x Phi(-m) at epsilon .1, kappa .2, m .5, and a small one; mpmath, 50 digits
    assert objective_delta(0.1, 0.2, 2.0, AR) == pytest.approx(0.431688808442, rel=1e-9)
    assert objective_delta(0.5, 0.01, 10.0, AR) == pytest.approx(2.315595267140e-8, rel=1e-9)


@pytest.mark.parametrize(
    ("eps", "kappa", "m", "m_out", "expected"),
    rows("objpert_plus_output_gaussian_delta", "eps", "kappa", "mu", "mu_out", "delta"),
)
def test_profile_with_output_noise(eps, kappa, m, m_out, expected):
    assert objective_delta(eps, kappa, 1 / m, AR, m_out) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("eps", "target", "kappa", "replace_one", "add_remove"),
    rows("objpert_sigma_over_L", "eps", "delta", "kappa", "replace_one", "add_remove"),
)
def test_noise_for_a_budget(eps, target, kappa, replace_one, add_remove):
    # replacing a record moves the gradient twice as far as removing one
    assert objective_delta(eps, kappa, replace_one / 2, R1) == pytest.approx(target, rel=1e-9)
    assert objective_delta(eps, kappa, add_remove, AR) == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize(
    ("eps", "kappa", "m", "m_out"), [(1, 0.01, 0.25, 0.0025), (0.3, 0.1, 0.6, 0.3), (4, 0.5, 1, 0.01)]
)
def test_quadrature_against_mpmath(eps, kappa, m, m_out):
    mpmath.mp.dps = 30

    def shift(x):
        return mpmath.ncdf(-x / m_out + m_out / 2) - mpmath.exp(x) * mpmath.ncdf(-x / m_out - m_out / 2)

    x = eps - mpmath.log(1 + kappa) - mpmath.mpf(m) ** 2 / 2
    turn, width = x / m, 12 * m_out / m
    edges = [0] + [e for e in (turn - width, turn, turn + width) if e > 0] + [30]
    exact = mpmath.quad(lambda u: 2 * mpmath.npdf(u) * shift(x - m * u), edges)
    assert line_delta(eps, kappa, np.array([m]), m_out)[0] == pytest.approx(float(exact), rel=1e-8)


def test_epsilon_and_delta_are_inverse_and_safe():
    event = Approximate(ObjectivePerturbed(0.05, 5.0, 500.0), 1e-15)
    for relation in (R1, AR):
        e = epsilon(event, 1e-6, relation)
        assert delta(event, e, relation) <= 1e-6
        assert delta(event, e * (1 - 1e-6), relation) > 1e-6
    assert guarantee(event, 1e-6, R1).accountant == "objective"


def test_calibration_is_safe_and_tight():
    budget = Budget(1.0, 1e-5)

    def build(m):
        return ObjectivePerturbed(0.01, m, 100 * m)

    spent = epsilon(build(calibrate(build, budget)), budget.delta, R1)
    assert 0.999 <= spent <= 1.0


def test_replacing_a_record_takes_the_worst_split_between_two_lines():
    """At epsilon below c both lines count in full: half of the squared shift each is worse than all of it on one.

    1 - 2 e^x Phi(-a), twice with a = m / sqrt(2), against once with a = m; the proof adds the two up.
    """
    x, m = 0.01 - math.log1p(0.2), 0.05
    halves = 2 * (1 - 2 * math.exp(x) * norm.cdf(-m / math.sqrt(2)))
    assert halves > 1.5 * (1 - 2 * math.exp(x) * norm.cdf(-m))
    assert objective_delta(0.01, 0.2, 1 / m, R1) >= halves * (1 - 1e-12)


@pytest.mark.parametrize("relation", list(Relation))
def test_gaussian_releases_beside_it_are_composed_as_losses(relation):
    """Against simulated losses L = c + m^2/2 + m|u| of one line plus those of the Gaussian: delta is E(1 - e^(x - L))+.

    The composed delta may not lie below, and for adding or removing a record, where one line is all, hardly above.
    """
    kappa, multiplier, other = 0.02, 1.2, 1.5
    event = compose(ObjectivePerturbed(kappa, multiplier, 1e9), Gaussian(other))
    random = np.random.default_rng(0)
    u, v, m, mu = np.abs(random.normal(size=10**6)), random.normal(size=10**6), 1 / multiplier, 1 / other
    losses = math.log1p(kappa) + m * m / 2 + m * u + mu * mu / 2 + mu * v
    for x in (0.5, 1.5, 3.0):
        simulated = np.maximum(0.0, -np.expm1(x - losses))
        noise = 4 * simulated.std() / 1e3
        composed = delta(event, x, relation)
        assert composed >= simulated.mean() - noise
        if relation is AR:
            assert composed <= simulated.mean() + noise
    assert guarantee(event, 1e-6, relation).accountant == "objective"


def test_it_costs_more_beside_others_and_no_less_than_either():
    event, other = ObjectivePerturbed(0.01, 5.0, 500.0), Gaussian(4.0)
    together = epsilon(compose(event, other), 1e-6, R1)
    assert together > max(epsilon(event, 1e-6, R1), epsilon(other, 1e-6, R1))
    # a Gaussian release that gives nothing away changes nothing
    assert epsilon(compose(event, GaussianDP(0.0)), 1e-6, R1) == pytest.approx(epsilon(event, 1e-6, R1), rel=1e-8)


def test_it_is_not_composed_by_guessing():
    event = ObjectivePerturbed(0.05, 5.0, 500.0)
    sampled = PoissonSampled(Gaussian(3.0), 0.1)
    for several in (repeat(event, 2), compose(event, PureDP(0.1)), compose(event, sampled)):
        with pytest.raises(ValueError, match="no accountant supports"):
            epsilon(several, 1e-5, R1)


@pytest.mark.parametrize("event", [Gaussian(3.0), repeat(ObjectivePerturbed(0.05, 5.0, 500.0), 2)])
def test_other_events_are_refused_in_a_sentence(event):
    accountant = ObjectiveAccountant()
    assert not accountant.supports(event, R1)
    for ask in (accountant.epsilon, accountant.delta):
        with pytest.raises(ValueError, match="not one objective perturbation"):
            ask(event, 0.5, R1)


# Two data sets in one dimension that differ in one record; all others have no gradient. In u = -Lambda theta the first
# record's slope is +L up to u0 and falls from there at rate kappa (smoothness beta = kappa Lambda); the other's
# is -L throughout. b = u - slope(u), so on [u0, u1] the outputs have probabilities
#     P = Phi((u1 - L + kappa (u1 - u0))/sigma) - Phi((u0 - L)/sigma),   Q = Phi((u1 + L)/sigma) - Phi((u0 + L)/sigma).


def interval(u0, u1, sigma, kappa):
    P = norm.sf((u0 - 1) / sigma) - norm.sf((u1 - 1 + kappa * (u1 - u0)) / sigma)
    Q = norm.sf((u0 + 1) / sigma) - norm.sf((u1 + 1) / sigma)
    return P, Q


@pytest.mark.parametrize(("n", "excess"), [(32561, 14.2), (10**4, 4.4), (10**5, 45.0)])
def test_the_printed_theorem_is_false_under_replace_one(n, excess):
    """Theorem 5.2 of Bassily et al. 2019: sigma^2 = 10 L^2 log(1/delta)/epsilon^2, kappa = epsilon/2, delta = 1/n^2."""
    eps, target = 0.5, 1 / n**2
    sigma = math.sqrt(10 * math.log(1 / target)) / eps
    worst = max(
        P - math.exp(eps) * Q
        for u0 in np.linspace(3, 6, 601) * sigma
        for P, Q in [interval(u0, u0 + np.linspace(0.2, 2, 50), sigma, eps / 2)]
        for P, Q in zip(P, Q, strict=True)
    )
    assert worst / target == pytest.approx(excess, rel=0.05)


def test_the_printed_interval():
    sigma = math.sqrt(10 * math.log(32561**2)) / 0.5
    assert sigma == pytest.approx(28.8317, abs=1e-4)
    P, Q = interval(127.1480, 127.9595, sigma, 0.25)
    assert pytest.approx(9.061611e-7, rel=1e-4) == P
    assert pytest.approx(5.414837e-7, rel=1e-4) == Q
    assert P - math.exp(0.5) * Q == pytest.approx(14.2 / 32561**2, rel=1e-2)


@pytest.mark.parametrize(("eps", "kappa"), [(0.5, 0.25), (0.1, 0.05), (1.0, 0.5), (1.0, 1e-3)])
def test_our_noise_withstands_the_same_pair(eps, kappa):
    target = 1 / 32561**2
    budget = Budget(eps, target)
    multiplier = calibrate(lambda m: ObjectivePerturbed(kappa, m, 1e6 * m), budget)
    sigma = 2 * multiplier
    for u0 in np.linspace(2, 7, 300) * sigma:
        P, Q = interval(u0, u0 + np.geomspace(0.05, 2 / kappa, 60), sigma, kappa)
        assert (P - math.exp(eps) * Q <= target).all()
    # and the printed noise is less than ours wherever it fails
    if (eps, kappa) == (0.5, 0.25):
        assert sigma > math.sqrt(10 * math.log(1 / target)) / eps
