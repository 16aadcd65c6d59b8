"""What is said about attacks and about k records is an upper bound, and a close one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sordino.budget import Relation
from sordino.privacy import accountants, groups
from sordino.privacy.accountants import gdp_epsilon
from sordino.privacy.events import (
    Approximate,
    Composed,
    Event,
    Gaussian,
    GaussianDP,
    ObjectivePerturbed,
    PoissonSampled,
    PureDP,
)
from sordino.privacy.groups import Attacks

REPLACE, ADD = Relation.REPLACE_ONE, Relation.ADD_REMOVE
ALARMS = (0.001, 0.01, 0.05, 0.1, 0.5)


def detected(mu: float, alarms: float) -> float:
    """The best attack on N(0, 1) against N(mu, 1)."""
    return float(norm.cdf(mu - norm.isf(alarms)))


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_gaussian_release_is_k_times_as_far_for_k_records(mu: float, k: int) -> None:
    attacks = Attacks(Gaussian(1 / mu), 1e-6, REPLACE)
    assert attacks.epsilon(k) == pytest.approx(gdp_epsilon(k * mu, 1e-6), rel=1e-9)
    assert norm.cdf(k * mu / 2) <= attacks.best_guess(k) <= norm.cdf(k * mu / 2) + 0.02
    for alarms in ALARMS:
        assert detected(k * mu, alarms) <= attacks.detections(alarms, k) <= detected(k * mu, alarms) + 0.04


@pytest.mark.parametrize("k", [2, 3, 10])
def test_steps_one_after_the_other_are_above_the_closed_form_and_near_it(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = Gaussian(5.0)
    exact = Attacks(event, 1e-6, REPLACE).epsilon(k)
    monkeypatch.setattr(groups, "_together", lambda event, k: event if k == 1 else None)
    steps = Attacks(event, 1e-6, REPLACE)
    assert exact <= steps.epsilon(k) <= 1.05 * exact
    assert norm.cdf(k * 0.2 / 2) <= steps.best_guess(k) <= norm.cdf(k * 0.2 / 2) + 0.03


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_pure_release_is_exactly_k_times_as_expensive(k: int) -> None:
    attacks = Attacks(PureDP(0.5), 0.0, REPLACE)
    assert attacks.epsilon(k) == pytest.approx(0.5 * k)
    # randomised response attains it
    told = 1 / (1 + math.exp(-0.5 * k))
    assert told <= attacks.best_guess(k) <= told + 1e-3
    assert attacks.detections(1 - told, k) == pytest.approx(told, abs=1e-3)


def test_a_composition_of_both_is_asked_part_by_part() -> None:
    event = Composed(((Approximate(Gaussian(4.0), 1e-19), 3), (GaussianDP(0.1), 2), (PureDP(0.25), 2)))
    mixed = Composed(((Approximate(GaussianDP(0.5), 1e-19), 3), (GaussianDP(0.2), 2), (PureDP(0.5), 2)))
    assert Attacks(event, 1e-5, REPLACE).epsilon(2) == accountants.epsilon(mixed, 1e-5, REPLACE)


def test_a_sampled_release_is_above_what_two_records_truly_lose() -> None:
    """Two records that leave one batch: sum_j C(2, j) q^j (1-q)^(2-j) N(j, z^2) against N(0, z^2)."""
    q, z = 0.2, 1.0
    event = PoissonSampled(Gaussian(z), q)
    x = np.linspace(-12, 14, 200_001)
    weights = [(1 - q) ** 2, 2 * q * (1 - q), q**2]
    there = sum(weight * norm.pdf(x, j, z) for j, weight in enumerate(weights))
    gone = norm.pdf(x, 0, z)

    def true_delta(epsilon: float) -> float:
        step = x[1] - x[0]
        return float(
            max(
                np.maximum(0, there - math.exp(epsilon) * gone).sum() * step,
                np.maximum(0, gone - math.exp(epsilon) * there).sum() * step,
            )
        )

    attacks = Attacks(event, 1e-4, ADD)
    assert true_delta(attacks.epsilon(2)) <= 1e-4
    assert attacks.best_guess(2) >= (1 + true_delta(0.0)) / 2
    # not by hand either: twice epsilon, at the same delta, would be too little for some
    assert attacks.epsilon(2) > attacks.epsilon(1)


EVENTS: list[tuple[Event, Relation]] = [
    (Gaussian(3.0), REPLACE),
    (PureDP(0.7), REPLACE),
    (ObjectivePerturbed(0.05, 6.0, 100.0), REPLACE),
    (PoissonSampled(Gaussian(1.5), 0.05), ADD),
]


@pytest.mark.parametrize(("event", "relation"), EVENTS)
def test_more_records_are_never_better_protected(event: Event, relation: Relation) -> None:
    attacks = Attacks(event, 1e-5, relation)
    epsilons = [attacks.epsilon(k) for k in (1, 2, 3)]
    guesses = [attacks.best_guess(k) for k in (1, 2, 3)]
    assert epsilons == sorted(epsilons)
    assert guesses == sorted(guesses)
    assert 0.5 <= guesses[0] < 1
    for alarms in ALARMS:
        # never more than the guarantee itself allows
        allowed = min(math.exp(epsilons[0]) * alarms + 1e-5, 1 - math.exp(-epsilons[0]) * (1 - 1e-5 - alarms))
        assert alarms <= attacks.detections(alarms) <= allowed + 1e-12


def test_where_nothing_is_guaranteed_everything_may_be_found() -> None:
    attacks = Attacks(Gaussian(1.0), 0.0, REPLACE)
    assert math.isinf(attacks.epsilon())
    assert attacks.best_guess() == 1.0
    assert attacks.detections(0.01) == 1.0
