r"""Newton's method with noise on both of its parts, for two classes: few passes over the records.

    g_t = sum_i clip(grad l(w_t; z_i), C) + u_t + n grad r(w_t)
    H_t = sum_i phi''(<r_i, w_t>) r_i r_i^T + E_t + n beta_r I = U diag(e) U^T,      beta_r the penalty's smoothness
    w_{t+1} = Pi( w_t - U [ U^T g_t / max(e, floor) ] ),   t < T,      floor = 2 s sqrt(2d);      release w_T

E_t is symmetric, of deviation s on the diagonal and s/sqrt 2 beside it, and has a spectral norm of about s sqrt(2d): an
eigenvalue below twice that may be noise alone, and a step is as short as if it were that large.

It is here for completeness. Ganesh, Haghifam, Steinke and Thakurta 2023 draw the second noise on the direction instead,
from a Hessian without noise; that was measured, with settings chosen in hindsight, and did not win against noisy
gradient descent where records are many. Here nothing exact is asked for, and what is lost is of the same order: in
either case directions of curvature below some sqrt(d)/mu records. Huber's loss is refused: it has no curvature where
slopes are clipped, and Newton steps from there go astray.

Privacy.  One record moves the sum of gradients by 2C and that of curvatures, in units of their bound beta and of the
rows', by sqrt 2 in the Frobenius norm (replace-one; C and 1 under add/remove: `oracle.statistics`), at points that were
released before. All 2T sums are Gaussian releases: mu^2 = T (1/z_g^2 + 1/z_h^2) for their multipliers, of which the
gradients have `share`. The penalty's part is public, n too, or its stand-in is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.losses import Logistic
from sordino.methods.protocol import AnyProblem, Calibration, Release, StepEvents
from sordino.methods.settings import check_settings, clip_of, require_delta, require_linear
from sordino.oracle.protocol import Oracle, RowsOracle
from sordino.oracle.query import Gradient
from sordino.oracle.statistics import CurvatureSum, matrix_of
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Composed, Event
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import steps
from sordino.words import plan_card

WIDEST = 500
"""Parameters: the Hessian has the square of it."""

CLEAR = 2.0
"""Spectral norms of the noise in a Hessian, below which its eigenvalues do not count."""


@dataclass(frozen=True)
class NoisyNewtonPlan:
    """Every number of a run. `noise` is that of sums of gradients; curvatures are in units of their bound."""

    steps: int
    clip: float
    noise: GaussianNoise
    curvature_noise: GaussianNoise
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        return Composed(((self.noise.event, self.steps), (self.curvature_noise.event, self.steps)))

    _repr_html_ = plan_card


@dataclass(frozen=True)
class NoisyNewton:
    """A noisy gradient and a noisy Hessian in every step. `share` is what the gradients have of mu^2."""

    steps: int = 6
    clip: float | None = None
    share: float = 0.7

    calibration: ClassVar[Calibration] = "tight"
    needs: ClassVar[type[Oracle]] = RowsOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> NoisyNewtonPlan:
        problem = self._require(problem, budget)
        d, T, C = problem.dim, self.steps, clip_of(problem, self.clip)
        Delta_g, Delta_h = budget.relation.distance * C, CurvatureSum.bound(budget.relation)
        # 1/z_g^2 : 1/z_h^2 = share : 1 - share
        ratio = math.sqrt(self.share / (1 - self.share))

        def plan_at(z: float) -> NoisyNewtonPlan:
            curvature = GaussianNoise.at(ratio * z, Delta_h, d * (d + 1) // 2)
            return NoisyNewtonPlan(T, C, GaussianNoise.at(z, Delta_g, d), curvature)

        return plan_at(calibrate(lambda z: plan_at(z).event, budget))

    def run(
        self,
        plan: NoisyNewtonPlan,
        problem: AnyProblem,
        oracle: RowsOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        assert isinstance(problem, Problem)
        first = problem.start() if start is None else start
        stack = np.array(first, dtype=np.float64).reshape(-1, problem.dim)
        for _ in steps(plan.steps):
            gradients = oracle.release(Gradient(stack, plan.clip), plan.noise, randomness)
            moved = [_step(w, g, plan, problem, oracle, randomness) for w, g in zip(stack, gradients, strict=True)]
            stack = problem.domain.project(stack - np.stack(moved))
        return Release(stack.reshape(first.shape), plan.event)

    def _require(self, problem: AnyProblem, budget: Budget) -> Problem:
        require_delta("a noisy Newton method", budget)
        problem = require_linear(problem, "a noisy Newton method", "smooth")
        check_settings(self, positive=("clip",), whole=("steps",))
        if not 0 < self.share < 1:
            raise ValueError(f"share is {self.share}: gradients and curvatures both need a part, so it lies in (0, 1).")
        if not isinstance(problem.loss, Logistic):
            raise ValueError(
                f"a noisy Newton method is for two classes (Logistic), and the loss is {type(problem.loss).__name__}: "
                "least squares have SufficientStatistics, the others descents."
            )
        if problem.dim > WIDEST:
            raise ValueError(f"{problem.dim} parameters: a noisy Newton method is for at most {WIDEST}; use a descent.")
        return problem


def _step(
    w: Array, g: Array, plan: NoisyNewtonPlan, problem: Problem, oracle: RowsOracle, randomness: Randomness
) -> Array:
    assert isinstance(problem.loss, Logistic)
    n, d, noise = problem.records, problem.dim, plan.curvature_noise
    unit = problem.loss.curvature_bound * oracle.rows.norm**2
    told = matrix_of(oracle.release(CurvatureSum(problem.loss, w), noise, randomness), d)
    e, U = np.linalg.eigh(unit * told + n * problem.penalty.smoothness * np.eye(d))
    floor = CLEAR * unit * noise.std * math.sqrt(2 * d)
    found: Array = U @ ((U.T @ (g + n * problem.penalty.gradient(w))) / np.maximum(e, floor))
    return found
