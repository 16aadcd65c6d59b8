r"""A method whose estimate comes with a covariance: one plan, one release, one certificate for both.

A released iterate says nothing of its own error: it stopped early, or was shrunk, by an amount that depends on the
curvature of the records. So the curvature is released too, with noise, and the estimate is moved by one or two Newton
steps to where its law is known (`inference.newton`). Three ways, by the method:

    objective perturbation   at its minimiser the gradient is -(Lambda_x theta + b): known, but for b. One step, with
                             the mean of the curvatures at its two ends.
    sufficient statistics    they are gradient and Hessian at zero. Nothing further is asked.
    any other                two steps from what it released, each with a gradient and a Hessian of its own.

Privacy: every further sum is a Gaussian release with a share of mu^2, where mu is what the budget is in Gaussian
differential privacy, at a point that was released before; the whole composition costs the budget, by its true events
(`methods.within`). Whether there are intervals in the end is decided by what was released, and costs nothing.

The estimate is one of the minimiser of the expected objective, with the penalty that was asked for and no other; the
covariance is that of the method as it is, for other records and other noise. It takes the records for independent, and
the model for nothing: least squares from moments alone takes residuals to be of equal size everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.domains import Everywhere
from sordino.inference.newton import BENT, CLEAR, Linearised
from sordino.losses import Huber, Logistic, Squared
from sordino.losses.scalar import Scalar
from sordino.methods import Method, ObjectivePerturbation, Release, RepeatedSelection, SufficientStatistics
from sordino.methods.protocol import AnyMethod, AnyProblem, Calibration, StepEvents, planned
from sordino.methods.schedule import gaussian_allowance
from sordino.methods.settings import require_delta, require_linear
from sordino.methods.sufficient_statistics import moments, solved
from sordino.methods.within import left_beside, plan_within
from sordino.oracle.protocol import LinearOracle, Oracle
from sordino.oracle.query import Gradient
from sordino.oracle.statistics import CurvatureSum, SlopeSum, WeightedMoments, matrix_of
from sordino.penalties import Ridge
from sordino.prepare import Prepared
from sordino.privacy.events import Composed, Event
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.words import plan_card

COVERED = (Logistic, Huber, Squared)
"""Losses whose intervals were seen to cover as often as they say."""

WIDEST = 200
"""Parameters: the curvature has the square of it."""

KAPPA = 0.05
"""beta/Lambda of objective perturbation, in units of epsilon: what is shrunk little is moved back little."""


MOST_EPSILON = 20.0
"""Nothing is bought with more: what several lattices are away from a Gaussian counts e^epsilon times."""


@dataclass(frozen=True)
class NewtonShares:
    """Of mu^2, for the sums of one Newton step. None: the gradient is known, the slopes are not needed yet."""

    gradient: float | None
    curvature: float
    slopes: float | None

    @property
    def total(self) -> float:
        return math.fsum(share or 0.0 for share in (self.gradient, self.curvature, self.slopes))


AFTER_OBJECTIVE = (NewtonShares(None, 0.1, None), NewtonShares(None, 0.1, 0.05))
AFTER_ANY = (NewtonShares(0.1, 0.15, None), NewtonShares(0.35, 0.15, 0.05))


@dataclass(frozen=True)
class NewtonNoise:
    """The noise of the sums of one Newton step. Curvature and slopes are in units of their bounds."""

    gradient: GaussianNoise | None
    curvature: GaussianNoise
    slopes: GaussianNoise | None

    @property
    def sums(self) -> tuple[GaussianNoise, ...]:
        return tuple(noise for noise in (self.gradient, self.curvature, self.slopes) if noise is not None)


@dataclass(frozen=True)
class IntervalsPlan:
    """Every number of the method, then those of the Newton steps."""

    inner: Any
    newton: tuple[NewtonNoise, ...]
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        further = tuple((noise.event, 1) for step in self.newton for noise in step.sums)
        return Composed(((self.inner.event, 1), *further)) if further else self.inner.event

    _repr_html_ = plan_card


@dataclass(frozen=True)
class WithIntervals:
    """`method`, and what the law of its estimate needs beside it."""

    method: AnyMethod

    needs: ClassVar[type[Oracle]] = LinearOracle
    calibration: ClassVar[Calibration] = "tight"

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method) or isinstance(self.method, WithIntervals):
            raise ValueError(f"method is {self.method!r}: intervals are for one method that trains.")
        if isinstance(self.method, Prepared):
            raise ValueError(
                "a preparation scales long rows down, and intervals would be about a model of those: use prepare=None."
            )
        if isinstance(self.method, RepeatedSelection):
            raise ValueError("the best of several runs has no known error: ask for intervals of one setting.")
        if self.method.calibration != "tight":
            raise ValueError(
                f"{type(self.method).__name__} with noise that is not calibrated to the budget cannot share it with "
                "intervals: leave its calibration and its noise_multiplier out."
            )

    def plan(self, problem: AnyProblem, budget: Budget) -> IntervalsPlan:
        problem = self._require(problem, budget)
        budget = replace(budget, epsilon=min(budget.epsilon, MOST_EPSILON))
        if isinstance(self.method, SufficientStatistics):
            return IntervalsPlan(planned(self._statistics, problem, budget), ())
        shares = AFTER_OBJECTIVE if isinstance(self.method, ObjectivePerturbation) else AFTER_ANY
        newton = tuple(_noise(of, problem, budget) for of in shares)
        _require_clear(newton, problem)
        if isinstance(self.method, ObjectivePerturbation):
            return self._after_objective(self.method, newton, problem, budget)
        found = plan_within(
            left_beside(problem, budget, math.fsum(of.total for of in shares)),
            budget,
            lambda left: IntervalsPlan(planned(self.method, problem, left), newton),
        )
        if found is None:
            raise ValueError(
                f"{type(self.method).__name__} cannot be brought within what intervals leave of the budget: use "
                "another method, or intervals=False."
            )
        return found

    def _after_objective(
        self, method: ObjectivePerturbation, newton: tuple[NewtonNoise, ...], problem: Problem, budget: Budget
    ) -> IntervalsPlan:
        if method.added is None:
            Lambda = problem.loss.smoothness(problem.row_norm) / (KAPPA * budget.epsilon)
            method = replace(method, added=max(0.0, Lambda - problem.records * problem.constants.mu))
        others = tuple((noise.event, 1) for step in newton for noise in step.sums)
        return IntervalsPlan(method.plan_beside(problem, budget, others), newton)

    def run(
        self,
        plan: IntervalsPlan,
        problem: AnyProblem,
        oracle: LinearOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        if start is not None:
            raise ValueError("intervals are about one model that begins where its method says: leave the start out.")
        assert isinstance(problem, Problem)
        if isinstance(self.method, SufficientStatistics):
            return self._from_moments(plan, problem, oracle, randomness)
        if isinstance(self.method, ObjectivePerturbation):
            return self._from_objective(plan, problem, oracle, randomness)
        w = self.method.run(plan.inner, problem, oracle, randomness).weights
        for noise in plan.newton:
            assert noise.gradient is not None
            gradient = oracle.release(Gradient(w, problem.constants.L), noise.gradient, randomness)
            H, s = _curvature(w, noise, problem, oracle, randomness)
            here = Linearised(gradient + _ridge(problem) * w, noise.gradient.std, H, s)
            if not here.clear:
                return Release(w, plan.event)
            at, w = w, w + here.step
        return _told(w, here, at, plan, problem, oracle, randomness)

    def _from_objective(
        self, plan: IntervalsPlan, problem: Problem, oracle: LinearOracle, randomness: Randomness
    ) -> Release:
        """The curvature is the mean of those at the minimiser and about where the step from it ends.

        The minimiser is shrunk, and the curvature there is larger: at epsilon 1, 10,000 records and four parameters
        errors would be stated 4 % too small. Two sums with half of the share each have a mean with the noise of one,
        and of that at the end the trace, which has little noise, says how much smaller it is.
        """
        w = self.method.run(plan.inner, problem, oracle, randomness).weights
        first, last = plan.newton
        gradient, std = -plan.inner.added * w, plan.inner.noise.std
        H, s = _curvature(w, first, problem, oracle, randomness)
        end = w + Linearised(gradient, std, H, s).guarded_step
        H_end, s_end = _curvature(end, last, problem, oracle, randomness)
        here = Linearised(gradient, std, (H + H_end) / 2, math.hypot(s, s_end) / 2)
        if not here.clear:
            return Release(w, plan.event)
        ridge = _ridge(problem) * np.eye(len(w))
        smaller = np.trace(H_end - ridge) / np.trace(here.curvature - ridge)
        at_the_end = ridge + max(0.5, float(smaller)) * (here.curvature - ridge)
        return _told(w + here.step, here, end, plan, problem, oracle, randomness, at_the_end)

    @property
    def _statistics(self) -> SufficientStatistics:
        return SufficientStatistics(squares=True)

    def _from_moments(
        self, plan: IntervalsPlan, problem: Problem, oracle: LinearOracle, randomness: Randomness
    ) -> Release:
        r"""Gradient and Hessian at zero are -h and A;  sigma_e^2 = |y - X w|^2 / n,  J = sigma_e^2 A."""
        asked, noise, n, R = self._statistics.asked(problem), plan.inner.noise, problem.records, problem.row_norm
        told = moments(oracle.release(asked, noise, randomness), asked, problem)
        Y, s = asked.loss.target_bound, noise.std
        here = Linearised(-told.h, s * R * Y / asked.weight, told.A + _ridge(problem) * np.eye(problem.dim), s * R**2)
        if not here.clear:
            return Release(solved(told, s, problem), plan.event)
        w = here.step
        residual = max(0.0, float(told.squares - 2 * w @ told.h + w @ told.A @ w)) / n
        return Release(w, plan.event, covariance=here.covariance(residual * told.A))

    def _require(self, problem: AnyProblem, budget: Budget) -> Problem:
        """The problem; or a sentence is raised that says why no interval about it would be true."""
        problem = require_linear(problem, "an interval", "convex", "smooth")
        require_delta("an interval", budget, "give a delta, or use intervals=False")
        loss = problem.loss
        if not isinstance(loss, COVERED):
            raise ValueError(
                f"intervals are known to be right for two classes (Logistic), Huber and Squared, and the loss is "
                f"{type(loss).__name__}: use intervals=False."
            )
        if problem.person is not None:
            raise ValueError(
                "intervals need the spread of what whole persons add, which is not released: use intervals=False, or "
                "one record of every person and no `person`."
            )
        if not isinstance(problem.domain, Everywhere) or not isinstance(problem.penalty, Ridge):
            raise ValueError("intervals are about a minimum of a ridge penalty on no ball: leave weight_norm out.")
        if isinstance(loss, Squared) != isinstance(self.method, SufficientStatistics):
            raise ValueError(
                f"{type(self.method).__name__} has no intervals for {type(loss).__name__} loss: least squares have "
                "them by SufficientStatistics(), and other losses by any other method."
            )
        if isinstance(self.method, SufficientStatistics) and budget.relation is Relation.ADD_REMOVE:
            raise ValueError(
                "the size of residuals is a mean, and under add_remove the number of records is private: use "
                "replace_one, or Huber's loss."
            )
        if problem.dim > WIDEST:
            raise ValueError(f"{problem.dim} parameters: intervals are for at most {WIDEST}; use intervals=False.")
        return problem


def _told(
    w: Array,
    here: Linearised,
    at: Array,
    plan: IntervalsPlan,
    problem: Problem,
    oracle: LinearOracle,
    randomness: Randomness,
    at_the_end: Array | None = None,
) -> Release:
    """The estimate, with its covariance if a quadratic is near enough; J is asked for at `at`."""
    loss, noise = _scalar(problem), plan.newton[-1].slopes
    assert noise is not None
    J, _ = _sum(SlopeSum(loss, at), loss.slope_bound**2, noise, oracle, randomness)
    S = here.covariance(J, at_the_end)
    bent = here.bend(S, problem.records * loss.curvature_bound) > BENT
    return Release(w, plan.event, covariance=None if bent else S)


def _curvature(
    at: Array, noise: NewtonNoise, problem: Problem, oracle: LinearOracle, randomness: Randomness
) -> tuple[Array, float]:
    """The Hessian of the objective, and the deviation of its noise."""
    loss = _scalar(problem)
    H, s = _sum(CurvatureSum(loss, at), loss.curvature_bound, noise.curvature, oracle, randomness)
    return H + _ridge(problem) * np.eye(len(at)), s


def _scalar(problem: Problem) -> Scalar:
    assert isinstance(problem.loss, Scalar)
    return problem.loss


def _ridge(problem: Problem) -> float:
    """Of the sum over records."""
    return problem.records * problem.constants.mu


def _noise(shares: NewtonShares, problem: Problem, budget: Budget) -> NewtonNoise:
    d, L = problem.dim, problem.constants.L
    size = d * (d + 1) // 2
    mu = gaussian_allowance(size, budget)
    weighted = WeightedMoments.bound(budget.relation)

    def of(share: float | None, sensitivity: float, dim: int) -> GaussianNoise | None:
        return None if share is None else GaussianNoise.at(1 / (mu * math.sqrt(share)), sensitivity, dim)

    curvature = of(shares.curvature, weighted, size)
    assert curvature is not None
    return NewtonNoise(
        of(shares.gradient, budget.relation.distance * L, d), curvature, of(shares.slopes, weighted, size)
    )


def _sum(
    asked: WeightedMoments, unit: float, noise: GaussianNoise, oracle: LinearOracle, randomness: Randomness
) -> tuple[Array, float]:
    """The matrix in the loss's own unit, and the deviation of its diagonal."""
    scale = unit * oracle.rows.norm**2
    return scale * matrix_of(oracle.release(asked, noise, randomness), len(asked.at)), scale * noise.std


def _require_clear(newton: tuple[NewtonNoise, ...], problem: Problem) -> None:
    """No d eigenvalues that add up to n beta at most are all above n beta/d: what cannot come out clear is not run."""
    d, n = problem.dim, problem.records
    most = n / d + n * problem.constants.mu / problem.loss.smoothness(problem.row_norm)
    if most <= CLEAR * curvature_deviation(newton) * math.sqrt(2 * d):
        raise ValueError(
            f"{n} records are too few for intervals of {d} parameters at this budget: the noise would drown the "
            "curvature that they follow from, whatever the records are. Use more records, fewer columns, a larger "
            "epsilon, a penalty l2, or intervals=False."
        )


def curvature_deviation(newton: tuple[NewtonNoise, ...]) -> float:
    """Of the noise in the last step's curvature, in units of the bound: a mean of two where no gradient was asked."""
    last = newton[-1]
    return last.curvature.std if last.gradient is not None else math.hypot(*(of.curvature.std for of in newton)) / 2
