"""What releases take from a budget when each may depend on the outputs before it."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sordino.budget import Budget, Relation
from sordino.privacy.accountants import guarantee
from sordino.privacy.accountants.gdp import gdp_delta, gdp_epsilon, gdp_mu
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.charges import RESERVE, Charge, charge, epsilon_of, room, total
from sordino.privacy.events import (
    Approximate,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    PoissonSampled,
    PureDP,
    compose,
    repeat,
)

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
    delta = inside.leak + gdp_delta(cap.epsilon, inside.mu) + (1 + math.exp(cap.epsilon)) * inside.distance
    assert delta <= cap.delta


def test_each_of_mu_leak_and_distance_alone_can_leave_the_filter():
    mu = gdp_mu(1.0, (1 - RESERVE) * 1e-6)
    assert epsilon_of(Charge(mu * 1.001, math.inf), CAP) > 1
    assert epsilon_of(Charge(mu / 2, math.inf, leak=1.01e-8), CAP) == math.inf
    assert epsilon_of(Charge(mu / 2, math.inf, distance=1.01e-8 / (1 + math.e)), CAP) == math.inf


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
    assert room(charge(GaussianDP(gdp_mu(1.0, 1e-6)), CAP, 1), CAP, 1) == 0
    assert room(Charge(math.inf, math.inf), CAP, 3) == 0


def test_a_release_without_any_privacy_is_charged_without_bound():
    assert charge(repeat(PoissonSampled(Gaussian(0.05), 0.9), 200), CAP, 1).mu == math.inf
