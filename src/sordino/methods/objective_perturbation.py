r"""Objective perturbation (Bassily, Feldman, Talwar & Thakurta 2019, Algorithm 2), exact up to a certified tolerance.

    theta* = argmin_W  sum_i l(theta; z_i) + (Lambda/2)|theta|^2 + <b, theta>,     b ~ N(0, sigma^2 I)
    stop where the gradient norm is at most tau;     release  Pi( theta + N(0, sigma_o^2 I) )

Lambda = n mu + Lambda_x counts all strong convexity there is. The point that noise is added to is within tau/Lambda of
theta* whatever the records, so it covers a distance of 2 tau/Lambda (b on its lattice adds half a step to tau). W is a
ball or everything; projecting a minimiser over everything would give up its far directions and its near ones alike.

Privacy: see `privacy.objective`, whose profile holds for one score per record. Theorem 5.2 of the paper, with
sigma^2 = 10 L^2 log(1/delta)/epsilon^2, is false for its own relation, replace-one, when delta is small;
`calibration="paper"` takes its sigma and, unless `added` is given, Theorem 5.3's lambda (Lambda_x = 2 n lambda) for a
domain of radius M,

    lambda = (2L/M) sqrt(2/n + 4 d log(1/delta) / (epsilon n)^2),

under the conditions epsilon <= 1, delta <= 1/n^2 and beta <= epsilon n lambda, and certifies what they truly give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.losses import Squared
from sordino.methods.protocol import AnyProblem, Calibration, Release, StepEvents
from sordino.methods.schedule import MOST_EPSILON, OUTPUT_SHARE, TOLERANCE, added_convexity, expected_radius
from sordino.methods.settings import require_conditions, require_delta, require_linear, require_paper_setting
from sordino.methods.solvers import newton_within, svrg
from sordino.oracle.protocol import ExactOracle, Oracle
from sordino.penalties import Ridge
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Approximate, Composed, Event, ObjectivePerturbed, flatten
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.words import plan_card

Solver = Literal["newton", "svrg"]


@dataclass(frozen=True)
class ObjectivePerturbationPlan:
    """Every number of the theorem, in the form of sums. `convexity` is Lambda, `added` is Lambda_x."""

    convexity: float
    added: float
    curvature_ratio: float
    tolerance: float
    noise: GaussianNoise
    output_noise: GaussianNoise
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        return _event(self.curvature_ratio, self.noise, self.output_noise)

    _repr_html_ = plan_card


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Perturb the objective once, then minimise it. `added=None` picks the extra strong convexity on public facts.

    `tolerance` is the gradient norm of the mean objective, relative to L, at which the solver stops.
    """

    added: float | None = None
    tolerance: float = TOLERANCE
    solver: Solver = "newton"
    radius: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = ExactOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> ObjectivePerturbationPlan:
        if self.calibration == "tight":
            budget = replace(budget, epsilon=min(budget.epsilon, MOST_EPSILON))
        return self.plan_beside(problem, budget, ())

    def plan_beside(self, problem: AnyProblem, budget: Budget, others: StepEvents) -> ObjectivePerturbationPlan:
        """With the least noise that earns the budget together with these other releases."""
        problem = self.require(problem, budget)
        L, _, mu = problem.constants
        n = problem.records
        added = self.added
        if added is None:
            if self.calibration == "paper":
                added = self._theorem(problem, budget)
            else:
                added = added_convexity(problem, budget, expected_radius(problem, self.radius))[0]
        Lambda = n * mu + added
        if not Lambda > 0:
            raise ValueError("objective perturbation needs strong convexity: give a Ridge penalty, or `added` > 0.")
        kappa = problem.loss.smoothness(problem.row_norm) / Lambda
        if self.calibration == "paper":
            std = math.sqrt(10 * math.log(1 / budget.delta)) * L / budget.epsilon
            multiplier = std / (budget.relation.distance * L)
        else:

            def whole(m: float) -> Event:
                own = _event(kappa, *self._noises(m, problem, budget, Lambda))
                return Composed(((own, 1), *others)) if others else own

            multiplier = calibrate(whole, budget)
        return ObjectivePerturbationPlan(
            Lambda, added, kappa, self._tau(problem), *self._noises(multiplier, problem, budget, Lambda)
        )

    def run(
        self,
        plan: ObjectivePerturbationPlan,
        problem: AnyProblem,
        oracle: ExactOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        problem = require_linear(problem, "objective perturbation")
        first = problem.start() if start is None else start
        released = np.stack([self._solve(plan, problem, oracle, randomness, w) for w in np.atleast_2d(first)])
        return Release(problem.domain.project(released.reshape(first.shape)), plan.event)

    def _solve(
        self,
        plan: ObjectivePerturbationPlan,
        problem: Problem,
        oracle: ExactOracle,
        randomness: Randomness,
        start: Array,
    ) -> Array:
        n, ridge = problem.records, plan.convexity / problem.records
        b = plan.noise.perturb(np.zeros(problem.dim), randomness) / n

        def gradient(w: Array) -> Array:
            return oracle.gradient(w) + ridge * w + b

        if self.solver == "newton":

            def curvature(w: Array) -> Callable[[Array], Array]:
                product = oracle.curvature_product(w)
                return lambda v: product(v) + ridge * v

            theta = newton_within(gradient, curvature, start, problem.domain.radius, plan.tolerance / n)
        else:
            beta = problem.loss.smoothness(problem.row_norm) + ridge

            def batch_gradient(w: Array, batch: NDArray[np.intp]) -> Array:
                return oracle.gradient(w, batch) * (n / len(batch)) + ridge * w + b

            domain, stream = problem.domain, randomness.sampling
            theta = svrg(gradient, batch_gradient, n, beta, ridge, start, domain, plan.tolerance / n, stream)
        return plan.output_noise.perturb(theta, randomness)

    def require(self, problem: AnyProblem, budget: Budget) -> Problem:
        """The problem; or a sentence is raised that names the first assumption these public facts do not meet."""
        problem = require_linear(problem, "objective perturbation", "convex", "smooth")
        require_delta("objective perturbation", budget)
        require_paper_setting(self.calibration, budget, "Bassily et al. 2019")
        if problem.loss.hessian_rank != 1:
            raise ValueError(
                f"objective perturbation needs a rank-one Hessian: {type(problem.loss).__name__} has rank "
                f"{problem.loss.hessian_rank}; use noisy gradient descent, or one classifier per class."
            )
        if problem.hessian_rank != 1:
            raise ValueError(
                "objective perturbation needs a rank-one Hessian, and that of a person with several records has a "
                "higher rank: use noisy gradient descent, or records_per_person=1."
            )
        if isinstance(problem.loss, Squared):
            # its bound holds on a ball alone, and the minimiser lies anywhere; clipped or on the ball, it loses to
            # descent with a small clip at every epsilon from .1 to 3 on seven tables
            raise ValueError(
                "objective perturbation needs a loss of bounded slope, and Squared has none: use noisy gradient "
                "descent with a clip, or Huber's loss with a threshold of about a quarter of the target's bound."
            )
        if not isinstance(problem.penalty, Ridge):
            raise ValueError("objective perturbation needs a Ridge penalty, the one its theorem is about.")
        if self.solver not in ("newton", "svrg"):
            raise ValueError(f"solver is {self.solver!r}: it must be 'newton' or 'svrg'.")
        if self.solver == "svrg" and budget.relation is Relation.ADD_REMOVE:
            raise ValueError(
                "solver 'svrg' draws batches by record number, and under add_remove it is private: use 'newton'."
            )
        return problem

    def _tau(self, problem: Problem) -> float:
        """The certified gradient norm of the sum."""
        return self.tolerance * problem.constants.L * problem.records

    def _noises(
        self, multiplier: float, problem: Problem, budget: Budget, Lambda: float
    ) -> tuple[GaussianNoise, GaussianNoise]:
        d = problem.dim
        noise = GaussianNoise.at(multiplier, budget.relation.distance * problem.constants.L, d)
        reach = self._tau(problem) + noise.step * math.sqrt(d) / 2
        return noise, GaussianNoise.at(multiplier / OUTPUT_SHARE, 2 * reach / Lambda, d)

    def _theorem(self, problem: Problem, budget: Budget) -> float:
        """Lambda_x = 2 n lambda of Theorem 5.3."""
        L, n, d = problem.constants.L, problem.records, problem.dim
        M = min(problem.domain.radius, self.radius or math.inf)
        weight = 2 * L / M * math.sqrt(2 / n + 4 * d * math.log(1 / budget.delta) / (budget.epsilon * n) ** 2)
        beta, most = problem.loss.smoothness(problem.row_norm), budget.epsilon * n * weight
        require_conditions(
            "Theorem 5.3 of Bassily et al. 2019",
            (math.isfinite(problem.domain.radius), "a bounded domain, such as Ball(radius)"),
            (budget.epsilon <= 1, f"epsilon of at most 1, and it is {budget.epsilon:g}"),
            (budget.delta <= n**-2, f"delta of at most 1/n^2 = {n**-2:.3g}, and it is {budget.delta:g}"),
            (beta <= most, f"a smoothness of at most epsilon n lambda = {most:.4g}, and the loss has {beta:.4g}"),
        )
        return 2 * n * weight


def _event(kappa: float, noise: GaussianNoise, output_noise: GaussianNoise) -> Event:
    # sums of the coordinates' distances, for b and for the output
    distance = flatten(noise.event)[1] + flatten(output_noise.event)[1]
    return Approximate(ObjectivePerturbed(kappa, noise.multiplier, output_noise.multiplier), distance)
