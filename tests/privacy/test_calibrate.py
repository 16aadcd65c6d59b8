"""The least noise: within the budget, never beyond it, and not far below."""

import math
from collections.abc import Callable

import pytest

from sordino.budget import Budget, Relation
from sordino.privacy import accountants
from sordino.privacy.calibrate import calibrate, noise_for
from sordino.privacy.events import (
    Approximate,
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    PoissonSampled,
    PureDP,
    compose,
    repeat,
)
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
RATE, STEPS = 128 / 60_000, 46_900


def poisson(multiplier: float) -> Event:
    return repeat(PoissonSampled(Gaussian(multiplier), RATE), STEPS)


def fixed_size(multiplier: float) -> Event:
    return repeat(FixedSizeSampled(Gaussian(multiplier), RATE), STEPS)


def rarely(multiplier: float) -> Event:
    return repeat(PoissonSampled(Gaussian(multiplier), 1e-4), 10**5)


def big_batch_then_small_ones(multiplier: float) -> Event:
    large, small = FixedSizeSampled(Gaussian(multiplier), 0.05), FixedSizeSampled(Gaussian(multiplier), 0.01)
    return compose(large, repeat(small, 300))


def noise_beside_a_fixed_cost(multiplier: float) -> Event:
    return compose(repeat(Gaussian(multiplier), 100), GaussianDP(0.1))


def approximately(multiplier: float) -> Event:
    return Approximate(repeat(PoissonSampled(Gaussian(multiplier), 0.01), 500), 1e-7)


def approximately_gaussian(multiplier: float) -> Event:
    return Approximate(repeat(Gaussian(multiplier), 500), 1e-7)


def pure(multiplier: float) -> Event:
    return repeat(PureDP(1 / multiplier), 10)


CASES = [
    (poisson, Budget(1.0, 1e-5, ADD)),
    (poisson, Budget(0.01, 1e-5, REPLACE)),
    (poisson, Budget(50.0, 1e-5, ADD)),
    (rarely, Budget(1.0, 1e-6, REPLACE)),
    (fixed_size, Budget(1.0, 1e-5, REPLACE)),
    (fixed_size, Budget(8.0, 1e-9, REPLACE)),
    (big_batch_then_small_ones, Budget(0.5, 1e-6)),
    (noise_beside_a_fixed_cost, Budget(1.0, 1e-5)),
    (approximately, Budget(1.0, 1e-5, ADD)),
    (approximately_gaussian, Budget(1.0, 1e-5)),
    (pure, Budget(1.0)),
    (pure, Budget(1.0, 1e-6)),
]


@pytest.mark.parametrize(("build", "budget"), CASES)
def test_within_the_budget_and_tight(build: Callable[[float], Event], budget: Budget) -> None:
    multiplier = calibrate(build, budget)
    epsilon = accountants.epsilon(build(multiplier), budget.delta, budget.relation)
    assert (1 - 1e-4) * budget.epsilon <= epsilon <= budget.epsilon
    assert accountants.epsilon(build(multiplier * 0.999), budget.delta, budget.relation) > budget.epsilon


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (1.0, 1e-5), (8.0, 1e-5), (30.0, 1e-12)])
def test_gaussian_releases_in_closed_form(relation: Relation, epsilon: float, delta: float) -> None:
    multiplier = calibrate(lambda m: compose(repeat(Gaussian(m), 9), Gaussian(m / 4)), Budget(epsilon, delta, relation))
    assert multiplier == pytest.approx(5 / accountants.gdp_mu(epsilon, delta), rel=1e-12)
    event = compose(repeat(Gaussian(multiplier), 9), Gaussian(multiplier / 4))
    assert accountants.epsilon(event, delta, relation) <= epsilon


@pytest.mark.parametrize("steps", [1, 300])
@pytest.mark.parametrize("dim", [1, 100, 50_000])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (1.0, 1e-9), (8.0, 1e-9), (24.6, 1e-3)])
def test_noise_on_a_lattice_needs_no_search(epsilon: float, delta: float, dim: int, steps: int) -> None:
    """Its total variation distance costs up to a half of delta, which the closed form takes off."""
    asked: list[float] = []

    def build(multiplier: float) -> Event:
        asked.append(multiplier)
        return repeat(GaussianNoise.at(multiplier, 1.0, dim).event, steps)

    budget = Budget(epsilon, delta)
    multiplier = calibrate(build, budget)
    assert len(asked) <= 5
    spent = accountants.epsilon(build(multiplier), delta, budget.relation)
    assert spent <= epsilon
    least = math.sqrt(steps) / accountants.gdp_mu(epsilon, delta)
    assert least <= multiplier < 1.25 * least


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_for_one_release(delta: float) -> None:
    budget = Budget(0.7, delta)
    noise = noise_for(3.0, budget, 12)
    assert isinstance(noise, GaussianNoise if delta else L2LaplaceNoise)
    assert (noise.sensitivity, noise.dim) == (3.0, 12)
    assert (1 - 1e-4) * 0.7 <= accountants.epsilon(noise.event, delta, budget.relation) <= 0.7


@pytest.mark.parametrize(
    ("delta", "epsilon", "against_add", "against_replace", "against_fixed"),
    [(1e-5, 1.0, 2.09, 1.68, 0.95), (1e-3, 2.0, 1.14, 1.08, 0.55), (1e-5, 2.0, 1.27, 1.20, 0.61)],
)
def test_noise_of_the_closed_form_for_sgd(
    delta: float, epsilon: float, against_add: float, against_replace: float, against_fixed: float
) -> None:
    """std = 4 L sqrt(T log(1/delta)) / (n epsilon) on the mean gradient, over the least: below 1 it is not private.

    n = 32561, batches of 50, 10 epochs; the ratios are printed to two decimals.
    """
    n, batch = 32_561, 50
    steps, rate = 10 * n // batch, batch / n
    std = 4 * math.sqrt(steps * math.log(1 / delta)) / (n * epsilon)

    def ratio(kind: type, relation: Relation) -> float:
        multiplier = calibrate(lambda m: repeat(kind(Gaussian(m), rate), steps), Budget(epsilon, delta, relation))
        return std * batch / (multiplier * relation.distance)

    assert ratio(PoissonSampled, ADD) == pytest.approx(against_add, abs=0.006)
    assert ratio(PoissonSampled, REPLACE) == pytest.approx(against_replace, abs=0.006)
    assert ratio(FixedSizeSampled, REPLACE) == pytest.approx(against_fixed, abs=0.006)


@pytest.mark.slow
def test_budgets_that_cannot_be_met() -> None:
    with pytest.raises(ValueError, match=r"no amount of noise.*what does not depend on it costs more"):
        calibrate(lambda m: compose(Gaussian(m), PureDP(2.0)), Budget(1.0, 1e-5))
    with pytest.raises(ValueError, match=r"Gaussian noise never reaches delta = 0"):
        calibrate(Gaussian, Budget(1.0))
    with pytest.raises(ValueError, match=r"almost without noise.*smaller delta"):
        calibrate(lambda m: PoissonSampled(Gaussian(m), 1e-6), Budget(1.0, 1e-5))
    with pytest.raises(ValueError, match=r"fixed-size batches"):
        calibrate(fixed_size, Budget(1.0, 1e-5, ADD))


def test_a_jump_beside_the_budget_is_found_in_a_few_steps() -> None:
    """The lattice's share of delta grows with e^epsilon: from some noise on downwards no epsilon holds at all."""
    asked = []

    def build(multiplier: float) -> Event:
        asked.append(multiplier)
        return repeat(GaussianNoise.at(multiplier, 2.0, 21).event, 42)

    # at the largest epsilon there is, and a hair below
    for epsilon in (29.2313135, 29.634, 29.9, 1e5):
        asked.clear()
        multiplier = calibrate(build, Budget(epsilon, 1e-4))
        assert accountants.epsilon(build(multiplier), 1e-4, REPLACE) <= epsilon
        assert len(asked) < 150
