"""What releases take from a budget when each may depend on the outputs before it, and that nothing exceeds it."""

import math
import random
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from sordino.budget import Budget, Relation
from sordino.privacy import accountants
from sordino.privacy.accountants import guarantee
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.accountants.rdp import RenyiAccountant
from sordino.privacy.calibrate import calibrate
from sordino.privacy.charges import RESERVE, BudgetExceeded, Charge, epsilon_of, room, total
from sordino.privacy.events import (
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
    repeat,
)
from sordino.privacy.filter import PrivacyFilter, charge
from sordino.privacy.gaussian_profile import gdp_delta, gdp_epsilon, gdp_mu

CAP = Budget(1.0, 1e-6)
SAMPLED = repeat(PoissonSampled(Gaussian(1.5), 0.02), 50)
SAMPLED_EVENTS = [
    (SAMPLED, Relation.REPLACE_ONE),
    (PoissonSampled(Gaussian(0.8), 0.3), Relation.ADD_REMOVE),
    (repeat(FixedSizeSampled(Gaussian(2.0), 0.1), 20), Relation.REPLACE_ONE),
    (compose(SAMPLED, Gaussian(20.0), PureDP(0.05)), Relation.REPLACE_ONE),
]


def test_gaussian_noise_is_charged_its_mu():
    assert charge(Gaussian(4.0), CAP, 1).mu == pytest.approx(0.25)
    assert charge(repeat(Gaussian(4.0), 16), CAP, 1).mu == pytest.approx(1.0)
    assert charge(GaussianDP(0.3), CAP, 1).mu == pytest.approx(0.3)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 4.0, 30.0])
def test_the_mu_of_a_pure_release_dominates_randomised_response(epsilon):
    # trade-off of randomised response at false-alarm rate a:  max(1 - e^eps a, e^-eps (1 - a));  of mu-GDP:
    # Phi(Phi^-1(1 - a) - mu)
    mu = charge(PureDP(epsilon), CAP, 1).mu
    a = np.concatenate([np.geomspace(1e-15, 0.5, 400), 1 - np.geomspace(1e-12, 0.5, 400)])
    missed = np.maximum(1 - np.exp(epsilon) * a, np.exp(-epsilon) * (1 - a))
    gaussian = norm.cdf(norm.isf(a) - mu)
    assert np.all(gaussian <= missed + 1e-12)
    corner = 1 / (1 + math.exp(epsilon))
    assert norm.cdf(norm.isf(corner) - mu) == pytest.approx(corner, rel=1e-6)


@pytest.mark.parametrize(("event", "relation"), SAMPLED_EVENTS)
def test_the_charge_of_a_sampled_release_lies_above_its_whole_profile(event, relation):
    cap = Budget(1.0, 1e-6, relation)
    taken = charge(event, cap, 3)
    assert taken.leak == pytest.approx(RESERVE / 2 * 1e-6 / 12)
    accountant = LossAccountant()
    for epsilon in np.linspace(0, 1.2 * accountant.epsilon(event, taken.leak, relation), 9):
        above = taken.leak + (1 - taken.leak) * gdp_delta(float(epsilon), taken.mu)
        assert accountant.delta(event, float(epsilon), relation) <= above * (1 + 1e-9)


@pytest.mark.parametrize(("event", "relation"), SAMPLED_EVENTS)
def test_and_not_far_above_it(event, relation):
    cap = Budget(1.0, 1e-6, relation)
    taken = charge(event, cap, 1)
    truly = guarantee(event, 1e-6, relation).epsilon
    assert truly <= gdp_epsilon(taken.mu, (1 - RESERVE) * 1e-6) <= 1.5 * truly


@pytest.mark.parametrize("cap", [Budget(1.0, 1e-6), Budget(8.0, 1e-5), Budget(0.1, 1e-9)])
def test_what_stays_inside_the_filter_satisfies_the_cap(cap):
    """The bound behind the Gaussian filter, term by term: leaks, distances and one Gaussian of the largest mu."""
    mu = gdp_mu(cap.epsilon, (1 - RESERVE) * cap.delta)
    far = RESERVE * cap.delta / (1 + math.exp(cap.epsilon))
    inside = Charge(mu * (1 - 1e-9), math.inf, RESERVE * cap.delta / 2, far / 2 * (1 - 1e-9))
    assert epsilon_of(inside, cap) <= cap.epsilon
    delta = inside.leak + gdp_delta(cap.epsilon, inside.mu) + (1 + math.exp(cap.epsilon)) * inside.total_variation
    assert delta <= cap.delta


def test_each_of_mu_leak_and_distance_alone_can_leave_the_filter():
    mu = gdp_mu(1.0, (1 - RESERVE) * 1e-6)
    assert epsilon_of(Charge(mu * 1.001, math.inf), CAP) > 1
    assert epsilon_of(Charge(mu / 2, math.inf, leak=1.01e-8), CAP) == math.inf
    assert epsilon_of(Charge(mu / 2, math.inf, total_variation=1.01e-8 / (1 + math.e)), CAP) == math.inf


def test_pure_releases_add_up_and_need_no_delta():
    parts = [charge(PureDP(0.1), Budget(1.0), place) for place in range(1, 11)]
    assert epsilon_of(total(parts), Budget(1.0)) == 1.0
    assert epsilon_of(total(parts), CAP) == 1.0
    assert epsilon_of(total([*parts, parts[0]]), Budget(1.0)) > 1.0


def test_many_small_pure_releases_cost_less_than_their_sum_where_delta_allows():
    parts = [charge(PureDP(0.01), CAP, place) for place in range(1, 201)]
    assert total(parts).epsilon == pytest.approx(2.0)
    assert epsilon_of(total(parts), CAP) < 1.0


@pytest.mark.parametrize("event", [Gaussian(100.0), SAMPLED, Approximate(PureDP(0.1), 1e-30)])
def test_a_pure_cap_admits_nothing_that_is_not_pure(event):
    assert epsilon_of(charge(event, Budget(5.0), 1), Budget(5.0)) == math.inf


def test_a_mixture_is_charged_its_gaussian_total():
    together = total([charge(Gaussian(10.0), CAP, 1), charge(PureDP(0.1), CAP, 2)])
    pure = 2 * norm.ppf(math.exp(0.1) / (1 + math.exp(0.1)))
    assert together.mu == pytest.approx(math.hypot(0.1, pure))
    assert together.epsilon == math.inf


@pytest.mark.parametrize("releases", [1, 2, 5, 40])
@pytest.mark.parametrize("cap", [CAP, Budget(3.0, 1e-8), Budget(1.0)])
def test_the_room_is_what_so_many_releases_fill(cap, releases):
    event = PureDP(0.2) if cap.pure else Gaussian(12.0)
    taken = charge(event, cap, 1)
    share = room(taken, cap, releases)
    further = PureDP(share) if cap.pure else Approximate(GaussianDP(gdp_mu(share, cap.delta)), 1e-18)
    spent = [taken] + [charge(further, cap, 2 + place) for place in range(releases)]
    assert epsilon_of(total(spent), cap) <= cap.epsilon
    assert epsilon_of(total(spent), cap) == pytest.approx(cap.epsilon, rel=1e-5)


def test_no_room_is_left_when_all_is_spent():
    assert room(charge(PureDP(1.0), Budget(1.0), 1), Budget(1.0), 1) == 0
    assert room(charge(PureDP(2.0), Budget(1.0), 1), Budget(1.0), 3) == 0
    assert room(charge(GaussianDP(gdp_mu(1.0, 1e-6)), CAP, 1), CAP, 1) == 0
    assert room(Charge(math.inf, math.inf), CAP, 3) == 0


def test_a_release_without_any_privacy_is_charged_without_bound():
    assert charge(repeat(PoissonSampled(Gaussian(0.05), 0.9), 200), CAP, 1).mu == math.inf


# ---------------------------------------------------------------- the filter

ADDED = Budget(1.0, 1e-5, Relation.ADD_REMOVE)


def spend_all(filter_, event, limit=100_000):
    for count in range(limit):
        try:
            filter_.spend(event)
        except BudgetExceeded:
            return count
    raise AssertionError("the filter never refused")


def test_gaussian_releases_up_to_the_last_that_fits():
    mu = gdp_mu(1.0, (1 - RESERVE) * 1e-5)
    filter_ = PrivacyFilter(ADDED)
    # 50 releases of mu / sqrt(50.5) fit, 51 do not
    count = spend_all(filter_, GaussianDP(mu / math.sqrt(50.5)))
    assert count == 50
    assert accountants.epsilon(filter_.spent, 1e-5, ADDED.relation) <= 1.0
    assert not filter_.admits(GaussianDP(mu / 7))
    assert filter_.admits(GaussianDP(mu / 20))


def test_a_refused_release_is_not_charged():
    filter_ = PrivacyFilter(ADDED)
    filter_.spend(Gaussian(10.0))
    with pytest.raises(BudgetExceeded, match=r"would exceed epsilon = 1\.0.*beside the 1 before it.*Stop here"):
        filter_.spend(Gaussian(1.0))
    assert flatten(filter_.spent)[0] == {Gaussian(10.0): 1}
    filter_.spend(Gaussian(10.0))
    assert issubclass(BudgetExceeded, RuntimeError)


def test_events_chosen_along_the_way():
    choose = random.Random(3)
    for _ in range(20):
        filter_ = PrivacyFilter(ADDED)
        while True:
            event = choose.choice([Gaussian(choose.uniform(4, 40)), PureDP(choose.uniform(0.01, 0.2))])
            if not filter_.admits(event):
                break
            filter_.spend(event)
        assert accountants.epsilon(filter_.spent, 1e-5, ADDED.relation) <= 1.0


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (repeat(PoissonSampled(Gaussian(2.0), 0.01), 10), Relation.ADD_REMOVE),
        (repeat(PoissonSampled(Gaussian(1.0), 0.01), 10), Relation.REPLACE_ONE),
        (repeat(FixedSizeSampled(Gaussian(4.0), 0.01), 10), Relation.REPLACE_ONE),
    ],
)
def test_sampled_releases_by_renyi(event, relation):
    filter_ = PrivacyFilter(Budget(1.0, 1e-5, relation), expecting=event, reserve=0.0)
    count = spend_all(filter_, event)
    assert count > 10
    assert accountants.epsilon(filter_.spent, 1e-5, relation) <= 1.0
    # not wasteful: what the Renyi accountant itself, free to choose its order afterwards, would allow is not far
    ideal = RenyiAccountant()
    assert ideal.epsilon(repeat(event, int(1.2 * count) + 1), 1e-5, relation) > 1.0


def test_a_pure_release_is_charged_as_the_gaussian_it_implies():
    filter_ = PrivacyFilter(ADDED)
    filter_.spend(PureDP(0.1))
    mu = 2 * NormalDist().inv_cdf(math.exp(0.1) / (1 + math.exp(0.1)))
    limit = gdp_mu(1.0, (1 - RESERVE) * 1e-5)
    assert filter_.admits(GaussianDP(math.sqrt(limit**2 - mu**2) * (1 - 1e-5)))
    assert not filter_.admits(GaussianDP(math.sqrt(limit**2 - mu**2) * (1 + 1e-5)))


def test_pure_budgets_add_up():
    filter_ = PrivacyFilter(Budget(1.0))
    for _ in range(4):
        filter_.spend(PureDP(0.25 * (1 - 1e-9)))
    assert not filter_.admits(PureDP(1e-6))
    assert not PrivacyFilter(Budget(1.0)).admits(Gaussian(100.0))
    with pytest.raises(BudgetExceeded, match="beside the 0 before it"):
        PrivacyFilter(Budget(1.0)).spend(Gaussian(100.0))


def test_sampled_releases_beside_gaussian_ones():
    sampled = PoissonSampled(Gaussian(2.0), 0.01)
    mixed = PrivacyFilter(ADDED, expecting=compose(Gaussian(20.0), repeat(sampled, 50)))
    mixed.spend(Gaussian(20.0))
    assert spend_all(mixed, sampled) > 50
    assert accountants.epsilon(mixed.spent, 1e-5, ADDED.relation) <= 1.0


def test_an_example_changes_nothing_under_a_pure_budget():
    filter_ = PrivacyFilter(Budget(1.0), expecting=Gaussian(2.0))
    filter_.spend(PureDP(0.9))
    assert not filter_.admits(PureDP(0.2))
    assert not filter_.admits(Gaussian(100.0))


@pytest.mark.parametrize("expecting", [None, Gaussian(20.0)])
def test_distances_must_have_been_reserved(expecting):
    event = Approximate(Gaussian(20.0), 1e-8)
    assert not PrivacyFilter(ADDED, expecting, reserve=0.9 * (1 + math.e) * 1e-3).admits(event)
    filter_ = PrivacyFilter(ADDED, expecting, reserve=3.1 * (1 + math.e) * 1e-3)
    assert spend_all(filter_, event) == 3
    assert accountants.epsilon(filter_.spent, 1e-5, ADDED.relation) <= 1.0
    with pytest.raises(ValueError, match=r"reserve is 1\.0"):
        PrivacyFilter(ADDED, reserve=1.0)


# ---------------------------------------------------------------- releases that are neither Gaussian nor pure

LOUD = [ObjectivePerturbed(0.01, 0.05, 5.0), Selected((GaussianDP(50.0),), 4.0, "poisson")]
QUIET = [ObjectivePerturbed(0.002, 20.0, 2000.0), Selected((GaussianDP(0.005),), 2.0, "poisson")]


@pytest.mark.parametrize("event", LOUD)
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(1.0)])
def test_what_costs_more_than_the_budget_is_never_admitted(event, budget):
    assert not PrivacyFilter(budget).admits(event)
    with pytest.raises(BudgetExceeded):
        PrivacyFilter(budget).spend(event)


@cache
def least_errors(event, relation):
    """e^y a + b and a + e^y b are not smaller, for any test between two neighbours with the errors a and b."""
    # as many small ones as large ones: the less an event costs, the nearer to zero its profile falls
    ys = np.concatenate([np.linspace(0, 3, 61), np.geomspace(1e-4, 0.05, 60)])
    least = np.array([1 - accountants.delta(event, float(y), relation) for y in ys])
    both = np.concatenate(
        [np.column_stack([np.exp(ys), np.ones(ys.size)]), np.column_stack([np.ones(ys.size), np.exp(ys)])]
    )
    return both, np.tile(least, 2)


def told_both_ways(event, x, relation):
    """What is left to an attacker at x, by linear programming."""
    both, least = least_errors(event, relation)
    errors = linprog([math.exp(x), 1.0], A_ub=-both, b_ub=-least, bounds=(0, 1))
    return min(accountants.delta(event, x, relation), 1 - errors.fun)


@pytest.mark.parametrize("event", QUIET)
def test_what_costs_less_is_charged_its_whole_profile(event):
    filter_ = PrivacyFilter(CAP)
    filter_.spend(event)
    taken = charge(event, CAP, 1)
    for epsilon in np.linspace(0, 3, 13):
        above = taken.leak + (1 - taken.leak) * gdp_delta(float(epsilon), taken.mu)
        assert told_both_ways(event, float(epsilon), CAP.relation) <= above * (1 + 1e-9)
    left = math.sqrt(gdp_mu(CAP.epsilon, (1 - RESERVE) * CAP.delta) ** 2 - taken.mu**2)
    assert filter_.admits(GaussianDP(left * (1 - 1e-5)))
    assert not filter_.admits(GaussianDP(left * (1 + 1e-5)))


def test_what_nobody_can_price_raises():
    for event in (FixedSizeSampled(Gaussian(50.0), 0.01), compose(*QUIET)):
        for budget in (ADDED, Budget(1.0, 0.0, ADDED.relation)):
            with pytest.raises(ValueError, match="no accountant supports"):
                PrivacyFilter(budget).admits(event)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kappa", [1e-3, 0.02])
def test_one_point_of_a_profile_does_not_make_a_gaussian_release(kappa, relation):
    """Objective perturbation planned at what is left beside a Gaussian release, as if it were Gaussian itself.

    Half of the budget's mu^2 goes to a Gaussian release, and the objective's noise is calibrated to the epsilon that
    the other half is worth. Together they cost more than the budget: by their composed profile, and by simulating
    the losses. The filter refuses them.
    """
    budget = Budget(1.0, 1e-5, relation)
    mu = gdp_mu(budget.epsilon, budget.delta)
    part = GaussianDP(mu * math.sqrt(0.5))
    rest = Budget(gdp_epsilon(mu * math.sqrt(0.5), budget.delta), budget.delta, relation)
    multiplier = calibrate(lambda m: ObjectivePerturbed(kappa, m, 1e6), rest)
    planned = ObjectivePerturbed(kappa, multiplier, 1e6)
    assert guarantee(planned, budget.delta, relation).epsilon == pytest.approx(rest.epsilon, rel=1e-3)

    together = accountants.delta(compose(part, planned), budget.epsilon, relation)
    assert together > 1.2 * budget.delta
    filter_ = PrivacyFilter(budget)
    filter_.spend(part)
    assert not filter_.admits(planned)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kappa", [1e-3, 0.1, 0.4])
def test_a_profile_is_read_both_ways(kappa, relation):
    """The charged mu dominates all that is left, and is less than what the profile alone would ask for."""
    budget = Budget(1.0, 1e-5, relation)
    event = ObjectivePerturbed(kappa, calibrate(lambda m: ObjectivePerturbed(kappa, m, 1e6), budget), 1e6)
    taken = charge(event, Budget(3.0, 1e-5, relation), 1)
    for x in np.linspace(0, 2, 11):
        above = taken.leak + (1 - taken.leak) * gdp_delta(float(x), taken.mu)
        assert told_both_ways(event, float(x), relation) <= above + 1e-12
    assert accountants.delta(event, 0.0, relation) > gdp_delta(0.0, taken.mu) or kappa < 0.1


def test_objective_perturbation_leaves_room_for_others():
    """Half of epsilon is more than its share of mu^2, but not all of it."""
    cap = Budget(2.0, 1e-5)
    filter_ = PrivacyFilter(cap)
    filter_.spend(ObjectivePerturbed(0.1, calibrate(lambda m: ObjectivePerturbed(0.1, m, 1e6), Budget(1.0, 1e-6)), 1e6))
    assert filter_.admits(GaussianDP(0.3 * gdp_mu(cap.epsilon, cap.delta)))
    assert not filter_.admits(GaussianDP(gdp_mu(cap.epsilon, cap.delta)))
