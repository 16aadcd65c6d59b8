"""Keeping the best of several runs: against dp_accounting, against exact divergences, and what is refused."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from scipy.special import log_ndtr, logsumexp

from sordino.budget import Budget, Relation
from sordino.privacy import accountants
from sordino.privacy.accountants import guarantee, second_opinion
from sordino.privacy.accountants.rdp import ORDERS
from sordino.privacy.accountants.repeated import RepeatedAccountant, selected_divergences
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import (
    LAWS,
    Approximate,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
    Selected,
    compose,
    flatten,
    from_json,
    repeat,
    to_json,
)
from sordino.privacy.filter import charge
from sordino.privacy.repetitions import stopping

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
SHAPES = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}
DELTA = 1e-6


def at(alpha):
    return int(np.flatnonzero(ORDERS == alpha)[0])


def theirs(base, mean, law):
    accountant = rdp.RdpAccountant(ORDERS.tolist(), dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(base, mean, SHAPES[law]))
    return accountant


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [1.5, 4.0, 30.0])
@pytest.mark.parametrize("z", [1.0, 8.0])
def test_against_dp_accounting(law, mean, z):
    """The truncated negative binomials agree; for Poisson we take a Gaussian's exact delta, they one from moments."""
    other = theirs(dp_accounting.GaussianDpEvent(z), mean, law)
    epsilon = accountants.epsilon(Selected((Gaussian(z),), mean, law), DELTA, REPLACE)
    if law == "poisson":
        assert 0.5 * other.get_epsilon(DELTA) < epsilon <= other.get_epsilon(DELTA)
    else:
        assert epsilon == pytest.approx(other.get_epsilon(DELTA), rel=1e-6)


def test_poisson_runs_that_are_not_gaussian_agree_with_dp_accounting():
    """There the delta of a run comes from moments on both sides, ours at bounds between whole orders."""
    base = dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.2))
    event = Selected((repeat(PoissonSampled(Gaussian(1.2), 0.05), 20),), 5.0, "poisson")
    other = theirs(dp_accounting.SelfComposedDpEvent(base, 20), 5.0, "poisson")
    assert accountants.epsilon(event, DELTA, ADD) == pytest.approx(other.get_epsilon(DELTA), rel=2e-2)


def exact_divergence(mean, law, mu, alpha):
    """Of the largest of K scores N(0, 1) from the largest of K scores N(mu, 1), the worse way round, on a grid.

    The largest has density G'(F(x)) f(x), with G the generating function of K, and is missing where K = 0.
    """
    x = np.linspace(-14, 14 + mu * (2 * alpha + 2), 200_001)
    logs = []
    for shift in (0.0, mu):
        F = np.exp(log_ndtr(x - shift))
        f = -0.5 * (x - shift) ** 2 - 0.5 * math.log(2 * math.pi)
        if law == "poisson":
            logs.append(f + math.log(mean) - mean * np.exp(log_ndtr(shift - x)))
            continue
        gamma = stopping(mean, law)
        # 1 - (1 - gamma) F = gamma F + (1 - F), without cancellation
        left = np.log(gamma * F + np.exp(log_ndtr(shift - x)))
        weight = math.log(gamma) - 2 * left if law == "geometric" else math.log((1 - gamma) / -math.log(gamma)) - left
        logs.append(f + weight)
    missing = [-mean] if law == "poisson" else []
    step = math.log(x[1] - x[0])
    ways = ((logs[0], logs[1]), (logs[1], logs[0]))
    sums = [logsumexp([logsumexp(alpha * p + (1 - alpha) * q) + step, *missing]) for p, q in ways]
    return max(sums) / (alpha - 1)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [2.0, 10.0])
@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("alpha", [2.0, 8.0, 32.0])
def test_an_exact_search_costs_no_more(law, mean, mu, alpha):
    """A run whose whole output is its score: the bound lies above the truth, and not absurdly far."""
    exact = exact_divergence(mean, law, mu, alpha)
    bound = selected_divergences(Selected((GaussianDP(mu),), mean, law), REPLACE)[at(alpha)]
    single = alpha * mu**2 / 2
    assert single * 0.2 < exact <= bound
    # what the theorems add is due to the selection: log(mean)/(alpha - 1) and at most a few times one run
    assert bound <= 5 * single + 3 * math.log(mean) + mean * 0.4 * mu


@pytest.mark.parametrize("law", LAWS)
def test_the_worst_run_decides(law):
    alone = accountants.epsilon(Selected((Gaussian(2.0),), 4.0, law), DELTA, REPLACE)
    mixed = Selected((Gaussian(5.0), Gaussian(2.0), GaussianDP(0.3), repeat(Gaussian(20.0), 4)), 4.0, law)
    assert accountants.epsilon(mixed, DELTA, REPLACE) == pytest.approx(alone, rel=1e-9)
    with_sampling = Selected((Gaussian(2.0), repeat(PoissonSampled(Gaussian(4.0), 0.1), 10)), 4.0, law)
    assert accountants.epsilon(with_sampling, DELTA, ADD) == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_a_search_costs_more_than_a_run_and_more_runs_cost_more(law):
    single = accountants.epsilon(Gaussian(4.0), DELTA, REPLACE)
    costs = [accountants.epsilon(Selected((Gaussian(4.0),), mean, law), DELTA, REPLACE) for mean in (1.5, 5.0, 20.0)]
    assert single < costs[0] < costs[1] < costs[2]


def test_it_costs_less_than_publishing_every_run():
    """At eight runs all three laws beat sqrt(8) in the noise."""
    budget = Budget(1.0, 1e-6)
    single = calibrate(Gaussian, budget)
    for law in LAWS:
        assert single < calibrate(lambda m, law=law: Selected((Gaussian(m),), 8.0, law), budget) < math.sqrt(8) * single


def test_epsilon_and_delta_are_inverse():
    event = compose(Selected((Gaussian(4.0),), 6.0, "poisson"), Gaussian(3.0))
    epsilon = accountants.epsilon(event, DELTA, REPLACE)
    assert accountants.delta(event, epsilon, REPLACE) == pytest.approx(DELTA, rel=1e-6)


def test_selections_compose_with_everything_that_has_moments():
    search, other = Selected((Gaussian(4.0),), 6.0, "geometric"), PureDP(0.1)
    together = accountants.epsilon(compose(search, other, search), DELTA, REPLACE)
    assert (
        together > accountants.epsilon(repeat(search, 2), DELTA, REPLACE) > accountants.epsilon(search, DELTA, REPLACE)
    )


def test_distances_count_once_per_run():
    event = repeat(Selected((Approximate(Gaussian(2.0), 1e-9), Approximate(Gaussian(3.0), 2e-9)), 5.0, "poisson"), 2)
    leaves, distance = flatten(event)
    assert distance == pytest.approx(2 * 5 * 3e-9)
    (leaf,) = leaves
    assert flatten(leaf)[1] == 0
    assert flatten(leaf)[0] == {leaf: 1}
    exact = accountants.epsilon(repeat(Selected((Gaussian(2.0), Gaussian(3.0)), 5.0, "poisson"), 2), DELTA, REPLACE)
    assert accountants.epsilon(event, DELTA, REPLACE) > exact


def test_one_accountant_knows_it():
    event = Selected((Gaussian(4.0),), 6.0, "poisson")
    first = guarantee(event, DELTA, REPLACE)
    assert first.accountant == RepeatedAccountant().name
    assert first.error is None
    assert second_opinion(event, DELTA, REPLACE, first.accountant) is None
    assert not RepeatedAccountant().supports(Gaussian(1.0), REPLACE)


@pytest.mark.parametrize(
    ("run", "relation"),
    [
        (FixedSizeSampled(Gaussian(1.0), 0.1), ADD),
        (ObjectivePerturbed(0.1, 3.0, 50.0), REPLACE),
        (Selected((Gaussian(4.0),), 2.0, "poisson"), REPLACE),
    ],
    ids=["fixed size under add/remove", "objective perturbation", "a search in a search"],
)
def test_runs_without_moments_are_refused(run, relation):
    event = Selected((Gaussian(3.0), run), 3.0, "poisson")
    assert not RepeatedAccountant().supports(event, relation)
    with pytest.raises(ValueError, match="no accountant supports"):
        guarantee(event, DELTA, relation)


def test_no_pure_guarantee():
    assert accountants.epsilon(Selected((PureDP(0.1),), 3.0, "geometric"), 0.0, ADD) == math.inf


def test_a_ledger_can_charge_it():
    """By its profile, which moments bound loosely."""
    event, cap = Selected((Gaussian(20.0),), 4.0, "poisson"), Budget(1.0, 1e-6)
    taken = charge(event, cap, place=2)
    assert 1 / 20 < taken.mu < 8 / 20


@pytest.mark.parametrize("law", LAWS)
def test_events_survive_json(law):
    event = Selected((Approximate(Gaussian(2.0), 1e-20), GaussianDP(0.2)), 3.5, law)
    assert from_json(to_json(event)) == event


def test_impossible_events_are_refused():
    with pytest.raises(ValueError, match="at least one run"):
        Selected((), 3.0, "poisson")
    with pytest.raises(ValueError, match="mean_runs is 0"):
        Selected((Gaussian(1.0),), 0.5, "poisson")
