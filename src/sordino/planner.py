"""Which method for this problem and budget, from public facts alone.

Every candidate gets a predicted excess risk from a quadratic picture of the objective (`methods.schedule`); those whose
assumptions the problem does not meet get the sentence that says why. The records are never looked at, so choosing
costs nothing and the whole table may be published.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sordino.budget import Budget
from sordino.methods import (
    NoisyGradientDescent,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    ProximalSmoothing,
)
from sordino.methods.output_perturbation import predicted_output_excess
from sordino.methods.proximal import anchored, smoothing_cost
from sordino.methods.schedule import added_convexity, expected_radius, predicted_excess
from sordino.privacy.accountants import gdp_mu
from sordino.problem import Problem

TIE = 0.1
"""Predictions closer than this are not told apart; the candidate offered earlier is taken."""

NEWTON_PASSES = 60
"""About how often objective perturbation reads the records: a dozen Newton steps of a few products each."""


MOST_EPSILON = 20.0
"""Predictions take no more than this: beyond it the lattice on which noise lives, not epsilon, limits what one buys."""


class Prediction(NamedTuple):
    excess: float
    noise: float
    passes: float


@dataclass(frozen=True)
class Candidate:
    """A method and what is predicted of it; where it is not feasible, `reason` says why."""

    name: str
    method: Any
    plan: Any = None
    excess: float = math.inf
    noise: float = math.nan
    passes: float = math.nan
    reason: str = ""

    @property
    def feasible(self) -> bool:
        return not self.reason


def candidates(problem: Problem, budget: Budget, most_passes: float = math.inf) -> tuple[Candidate, ...]:
    """Every method for convex problems, the least predicted excess first and the infeasible last.

    `most_passes` bounds how often the records may be read.
    """
    R0 = expected_radius(problem)
    found = [_candidate(problem, budget, most_passes, R0, *offer) for offer in _offers(budget)]
    return tuple(sorted(found, key=lambda one: (not one.feasible, one.excess)))


def choose(problem: Problem, budget: Budget, most_passes: float = math.inf) -> Any:
    """The method of the least predicted excess risk; among nearly equal ones the one offered first."""
    R0 = expected_radius(problem)
    found: list[Candidate] = []
    # batches are for records that cannot be read often: they are tried, and calibrated, only when nothing else fits
    for offers in (_offers(budget)[:-1], _offers(budget)[-1:]):
        found += [_candidate(problem, budget, most_passes, R0, *offer) for offer in offers]
        feasible = [one for one in found if one.feasible]
        if feasible:
            least = min(one.excess for one in feasible)
            return next(one.method for one in feasible if one.excess <= (1 + TIE) * least)
    raise ValueError(
        "no method fits this problem and budget. " + " ".join(f"{one.name}: {one.reason}" for one in found)
    )


def smoothing_for(budget: Budget) -> ProximalSmoothing:
    """For a loss with a kink: descent on its envelope, with the noise at the end where delta is 0."""
    return ProximalSmoothing(OutputPerturbation()) if budget.pure else ProximalSmoothing()


Predict = Callable[[Problem, Budget, Any, float], Prediction]


def _offers(budget: Budget) -> tuple[tuple[str, Any, Predict], ...]:
    """In the order in which ties are broken."""
    return (
        ("noisy gradient descent", NoisyGradientDescent(), _descent),
        ("objective perturbation", ObjectivePerturbation(), _objective),
        ("output perturbation", OutputPerturbation(), _output),
        ("proximal smoothing", smoothing_for(budget), _smoothing),
        ("noisy SGD", NoisySGD(), _stochastic),
    )


def _candidate(
    problem: Problem, budget: Budget, most_passes: float, R0: float, name: str, method: Any, predict: Predict
) -> Candidate:
    try:
        plan = method.plan(problem, budget)
        prediction = predict(problem, replace(budget, epsilon=min(budget.epsilon, MOST_EPSILON)), plan, R0)
    except ValueError as refusal:
        return Candidate(name, method, reason=str(refusal))
    reason = ""
    if prediction.passes > most_passes:
        reason = f"it reads the records {prediction.passes:.3g} times, and {most_passes:.3g} are allowed."
    return Candidate(name, method, plan, *prediction, reason)


def _descent(problem: Problem, budget: Budget, plan: Any, R0: float) -> Prediction:
    mu_G = gdp_mu(budget.epsilon, budget.delta)
    excess = predicted_excess(problem, budget.relation, mu_G, plan.steps, plan.step_size, R0, plan.clip)
    return Prediction(excess, plan.noise.std / problem.records, plan.steps)


def _objective(problem: Problem, budget: Budget, plan: Any, R0: float) -> Prediction:
    _, excess = added_convexity(problem, budget, R0)
    return Prediction(excess, plan.noise.std / problem.records, NEWTON_PASSES)


def _output(problem: Problem, budget: Budget, plan: Any, R0: float) -> Prediction:
    excess = predicted_output_excess(problem, budget, plan.steps, plan.step_size, R0)
    std = getattr(plan.noise, "std", None) or plan.noise.scale * math.sqrt(problem.dim + 1)
    return Prediction(excess, std, plan.steps)


def _smoothing(problem: Problem, budget: Budget, plan: Any, R0: float) -> Prediction:
    inner = (_output if budget.pure else _descent)(anchored(problem, plan.sharpness), budget, plan.inner, R0)
    return inner._replace(excess=inner.excess + smoothing_cost(problem, plan.sharpness))


def _stochastic(problem: Problem, budget: Budget, plan: Any, R0: float) -> Prediction:
    r"""The averaged iterate of T steps:  R0^2/(2 eta T) + (eta/2)(L^2/b + d sigma^2)."""
    L, n, d = problem.constants.L, problem.records, problem.dim
    b = plan.sampling.expected_size(n)
    sigma = plan.noise.std / b
    eta, T = plan.step_size, plan.steps
    excess = R0**2 / (2 * eta * T) + eta / 2 * (L**2 / b + d * sigma**2)
    return Prediction(excess, sigma, T * b / n)
