"""Which method for this problem and budget, from public facts alone.

Every candidate gets a predicted excess risk from a quadratic picture of the objective (`methods.schedule`); those whose
assumptions the problem does not meet get the sentence that says why. The records are never looked at, so choosing
costs nothing and the whole table may be published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple

from sordino.budget import Budget
from sordino.methods import (
    DPSGD,
    DescentPlan,
    HasBound,
    Method,
    NoisyGradientDescent,
    NoisySGD,
    ObjectivePerturbation,
    ObjectivePerturbationPlan,
    OutputPerturbation,
    OutputPerturbationPlan,
    Plan,
    ProximalSmoothing,
    ProximalSmoothingPlan,
)
from sordino.methods.output_perturbation import predicted_output_excess
from sordino.methods.protocol import AnyMethod, PlanT, planned
from sordino.methods.proximal import anchored, smoothing_cost
from sordino.methods.schedule import (
    LONGEST,
    MOST_EPSILON,
    TIE,
    Descent,
    added_convexity,
    balanced_batch,
    balanced_descent,
    deviation,
    expected_radius,
    least_deviation,
    most_deviation,
    predicted_excess,
)
from sordino.methods.updates import Momentum
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.problem import Problem

NEWTON_PASSES = 60
"""About how often objective perturbation reads the records: a dozen Newton steps of a few products each."""


LARGEST_WORK = 2e10
"""Products of a weight and a feature, over all steps, that full passes of a model with many classes may take: some ten
seconds. Models of one score are left alone, for sparse rows of many columns take far fewer."""


class Prediction(NamedTuple):
    excess: float
    passes: float


@dataclass(frozen=True)
class Candidate:
    """A method and what is predicted of it; where it is not feasible, `reason` says why."""

    name: str
    method: AnyMethod
    problem: Problem
    budget: Budget
    excess: float = math.inf
    passes: float = math.nan
    reason: str = ""

    @property
    def feasible(self) -> bool:
        return not self.reason

    @property
    def plan(self) -> Plan:
        """Of a feasible method. What a prediction does not need is planned when it is asked for."""
        found: Plan = planned(self.method, self.problem, self.budget)
        return found

    @property
    def bound(self) -> float | None:
        """The excess empirical risk that a theorem proves of the plan, where one does."""
        if not isinstance(self.method, HasBound):
            return None
        proven = self.method.bound(self.problem, self.budget)
        return next((one.value for one in proven if one.of == "excess empirical risk" and one.holds), None)

    @property
    def noise(self) -> float:
        """Standard deviation of what is added to a mean gradient, or to the weights at the end."""
        return _noise(self.plan, self.problem)


@dataclass(frozen=True)
class _Offer(Generic[PlanT]):
    """A method, and how to predict from its plan, made if it is needed, and a guess of |w*|."""

    name: str
    method: Method[PlanT, Any]
    predict: Callable[[Problem, Budget, Callable[[], PlanT], float], Prediction]

    def candidate(self, problem: Problem, budget: Budget, most_passes: float) -> Candidate:
        facts = self.name, self.method, problem, budget
        try:
            capped = replace(budget, epsilon=min(budget.epsilon, MOST_EPSILON))
            prediction = self.predict(
                problem, capped, lambda: planned(self.method, problem, budget), expected_radius(problem)
            )
        except ValueError as refusal:
            return Candidate(*facts, reason=str(refusal))
        reason = ""
        if prediction.passes > most_passes:
            reason = f"it reads the records {prediction.passes:.3g} times, and {most_passes:.3g} are allowed."
        return Candidate(*facts, *prediction, reason)


def candidates(problem: Problem, budget: Budget, most_passes: float = math.inf) -> tuple[Candidate, ...]:
    """Every method for convex problems, the least predicted excess first and the infeasible last.

    `most_passes` bounds how often the records may be read.
    """
    found = _found((*_offers(budget), _BATCHES), problem, budget, most_passes)
    return tuple(sorted(found, key=lambda one: (not one.feasible, one.excess)))


def choose(
    problem: Problem, budget: Budget, most_passes: float = math.inf, without: tuple[type, ...] = ()
) -> AnyMethod:
    """The method of the least predicted excess risk; among nearly equal ones the one offered first."""
    found: list[Candidate] = []
    # batches are for records that cannot be read often: they are tried, and calibrated, only when nothing else fits
    offered = tuple(offer for offer in _offers(budget) if not isinstance(offer.method, without))
    for offers in (offered, (_BATCHES,)):
        found += _found(offers, problem, budget, most_passes)
        feasible = [one for one in found if one.feasible]
        if feasible:
            least = min(one.excess for one in feasible)
            # the candidate offered earlier, where predictions are not told apart
            best = next(one for one in feasible if one.excess <= (1 + TIE) * least)
            return _affordable(best)
    raise ValueError(
        "no method fits this problem and budget. " + " ".join(f"{one.name}: {one.reason}" for one in found)
    )


def _affordable(best: Candidate) -> AnyMethod:
    """The method itself; where many classes make passes over many records long, its descent on large batches."""
    plan, problem = best.plan, best.problem
    if not isinstance(plan, DescentPlan) or problem.loss.outputs == 1:
        return best.method
    if plan.steps * problem.records * problem.dim <= LARGEST_WORK:
        return best.method
    decay = plan.update.decay if isinstance(plan.update, Momentum) else 0.0
    longer = Descent(plan.steps, plan.step_size / (1 - decay), plan.clip)
    size = balanced_batch(problem, best.budget, longer)
    return DPSGD(plan.steps, size, plan.step_size, plan.clip, decay) if size < problem.records / 2 else best.method


def smoothing_for(budget: Budget) -> ProximalSmoothing:
    """For a loss with a kink: descent on its envelope, with the noise at the end where delta is 0."""
    return ProximalSmoothing(OutputPerturbation()) if budget.pure else ProximalSmoothing()


def _found(offers: Iterable[_Offer[Any]], problem: Problem, budget: Budget, most_passes: float) -> list[Candidate]:
    return [offer.candidate(problem, budget, most_passes) for offer in offers]


def _offers(budget: Budget) -> tuple[_Offer[Any], ...]:
    """In the order in which ties are broken."""
    return (
        _Offer("noisy gradient descent", NoisyGradientDescent(release="auto"), _descent),
        _Offer("objective perturbation", ObjectivePerturbation(), _objective),
        _Offer("output perturbation", OutputPerturbation(), _output),
        _Offer("proximal smoothing", smoothing_for(budget), _smoothing),
    )


def _descent(problem: Problem, budget: Budget, made: Callable[[], DescentPlan], R0: float) -> Prediction:
    plan, mu_G = made(), gdp_mu(budget.epsilon, budget.delta)
    # with momentum a step is 1/(1 - m) times as long in the end, and every one of them is paid for
    eta = plan.step_size / (1 - plan.update.decay if isinstance(plan.update, Momentum) else 1)
    descent = Descent(plan.steps, eta, plan.clip)
    bounded = math.isfinite(most_deviation(problem, budget))
    bounded |= deviation(problem, budget, descent) <= (1 + 1e-9) * least_deviation(problem)
    if plan.amplification is None and bounded:
        # what was measured to be better than the picture's best is at least as good
        descent = balanced_descent(problem, budget, radius=R0, paid="every step", longest=LONGEST)
    T, eta, C = descent
    return Prediction(predicted_excess(problem, budget.relation, mu_G, T, eta, R0, C), plan.steps)


def _objective(
    problem: Problem, budget: Budget, made: Callable[[], ObjectivePerturbationPlan], R0: float
) -> Prediction:
    # its noise is found by a search that takes ten times as long as this prediction
    ObjectivePerturbation().require(problem, budget)
    _, excess = added_convexity(problem, budget, R0)
    if math.isinf(excess):
        made()
    return Prediction(excess, NEWTON_PASSES)


def _output(problem: Problem, budget: Budget, made: Callable[[], OutputPerturbationPlan], R0: float) -> Prediction:
    plan = made()
    return Prediction(predicted_output_excess(problem, budget, plan.steps, plan.step_size, R0), plan.steps)


def _smoothing(problem: Problem, budget: Budget, made: Callable[[], ProximalSmoothingPlan], R0: float) -> Prediction:
    plan = made()
    smoothed, inner = anchored(problem, plan.sharpness), plan.inner
    if isinstance(inner, DescentPlan):
        predicted = _descent(smoothed, budget, lambda: inner, R0)
    else:
        assert isinstance(inner, OutputPerturbationPlan)
        predicted = _output(smoothed, budget, lambda: inner, R0)
    return predicted._replace(excess=predicted.excess + smoothing_cost(problem, plan.sharpness))


def _stochastic(problem: Problem, budget: Budget, made: Callable[[], DescentPlan], R0: float) -> Prediction:
    r"""The averaged iterate of T steps:  R0^2/(2 eta T) + (eta/2)(L^2/b + d sigma^2)."""
    plan = made()
    L, n, d = problem.constants.L, problem.records, problem.dim
    b = plan.sampling.expected_size(n)
    sigma = plan.noise.std / b
    eta, T = plan.step_size, plan.steps
    excess = R0**2 / (2 * eta * T) + eta / 2 * (L**2 / b + d * sigma**2)
    return Prediction(excess, T * b / n)


def _noise(plan: Plan, problem: Problem) -> float:
    match plan:
        case DescentPlan():
            return plan.noise.std / plan.sampling.expected_size(problem.records)
        case ObjectivePerturbationPlan():
            return plan.noise.std / problem.records
        case OutputPerturbationPlan(noise=L2LaplaceNoise() as noise):
            return noise.scale * math.sqrt(problem.dim + 1)
        case OutputPerturbationPlan(noise=GaussianNoise() as noise):
            return noise.std
        case ProximalSmoothingPlan(inner=inner):
            return _noise(inner, problem)
    return math.nan


_BATCHES = _Offer("noisy SGD", NoisySGD(), _stochastic)
