r"""A method on rows that are prepared first: one plan, one release, one certificate for all of it.

    given rows x  ->  (x - m) A,  steps one after the other, each paid for       ->  the method, on the same problem

A step may also weigh the classes (`ClassBalance`), which changes the loss and none of its bounds, or say where training
begins (`StartingScore`).

Privacy: every step is a Gaussian release with a share of mu^2, where mu is what the budget is in Gaussian differential
privacy; given what they released, the losses are fixed, and training is one more release that may depend on it. What
training may cost is not read off that mu: the whole composition costs the budget, by its true events (see
`methods.within`).

What is released are weights for the given rows, and where those were trained on: rows above the prepared norm were
scaled down to it, and a prediction does the same (`RowBound`), which costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.domains import Everywhere
from sordino.methods import Method, Release
from sordino.methods.protocol import AnyMethod, AnyProblem, Calibration, StepEvents, planned
from sordino.methods.schedule import gaussian_allowance
from sordino.methods.settings import require_delta, require_linear
from sordino.methods.within import left_beside, plan_within
from sordino.oracle.protocol import LinearOracle, Oracle
from sordino.oracle.rows import PreparedRows
from sordino.oracle.statistics import TargetSum
from sordino.prepare.centre import Centre
from sordino.prepare.class_balance import ClassBalance
from sordino.prepare.column_bounds import ColumnBounds
from sordino.prepare.protocol import Preparation, StepPlan
from sordino.prepare.starting_score import StartingScore, with_steps
from sordino.privacy.events import Composed, Event
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.words import plan_card

PreparationStep = Preparation | ClassBalance | StartingScore
ABOUT_TARGETS = (ClassBalance, StartingScore)
"""Steps that leave rows alone."""


@dataclass(frozen=True)
class PreparedPlan:
    """Every number of the steps, then those of the method."""

    preparation: tuple[StepPlan, ...]
    inner: Any
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        return Composed((*((step.event, step.times) for step in self.preparation), (self.inner.event, 1)))

    _repr_html_ = plan_card


@dataclass(frozen=True)
class Prepared:
    """Steps of `preparation`, then `method`. `intercept` says that a row has a constant column of its own."""

    method: AnyMethod
    preparation: tuple[PreparationStep, ...]
    intercept: bool = True

    needs: ClassVar[type[Oracle]] = LinearOracle

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method) or isinstance(self.method, Prepared):
            raise ValueError(f"method is {self.method!r}: rows are prepared once, for a method that trains on them.")
        if not self.preparation or not all(isinstance(step, PreparationStep) for step in self.preparation):
            raise ValueError("preparation must hold steps of preparation, such as Centre() and NormQuantile().")
        if not self.intercept and any(isinstance(step, Centre | ColumnBounds) for step in self.preparation):
            raise ValueError("a centre needs an intercept, without which scores on centred rows are other ones.")
        if not self.intercept and any(isinstance(step, StartingScore) for step in self.preparation):
            raise ValueError("a starting score is one of the intercept: use fit_intercept=True, or leave it out.")
        share_of(self.preparation)
        if self.method.calibration != "tight":
            raise ValueError(
                f"{type(self.method).__name__} with noise that is not calibrated to the budget cannot share it with a "
                "preparation: leave its calibration and its noise_multiplier out, or use prepare=None."
            )

    @property
    def calibration(self) -> Calibration:
        return self.method.calibration

    @property
    def share(self) -> float:
        """Of mu^2, for all steps."""
        return share_of(self.preparation)

    def plan(self, problem: AnyProblem, budget: Budget) -> PreparedPlan:
        problem, columns = self._columns(problem)
        require_gaussian(budget)
        for step in self.preparation:
            if isinstance(step, ClassBalance):
                # a method that has no use for such a loss says so here, and not when the counts are paid for
                planned(self.method, replace(problem, loss=step.even(problem.loss)), budget)
            if isinstance(step, StartingScore):
                TargetSum.of_loss(problem.loss)
        mu = gaussian_allowance(problem.dim, budget)
        steps = tuple(step.plan(columns, problem.records, budget.relation, mu) for step in self.preparation)
        return self._within(problem, budget, steps)

    def run(
        self,
        plan: PreparedPlan,
        problem: AnyProblem,
        oracle: LinearOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        if start is not None:
            raise ValueError(
                "a first iterate is one of weights for prepared rows, which nobody knows yet: leave it out."
            )
        assert isinstance(problem, Problem)
        given = oracle.rows
        if given.has_intercept != self.intercept:
            raise ValueError(f"intercept is {self.intercept} in the preparation, and the rows say otherwise.")
        rows, loss = PreparedRows.of(given, problem.features - given.has_intercept), problem.loss
        inner, first = plan.inner, None
        for step, stated in zip(self.preparation, plan.preparation, strict=True):
            if isinstance(step, ClassBalance):
                loss = step.weighted(loss, stated, problem.records, oracle, randomness)
            elif isinstance(step, StartingScore):
                rows = step.placed(rows)
                first, factor = step.begin(stated, problem, rows, oracle, randomness)
                inner = with_steps(inner, factor)
            else:
                rows = step.run(stated, rows, problem.records, oracle.under_rows(rows), randomness)
        ready = oracle.under_rows(rows).under(loss)
        trained = self.method.run(inner, replace(problem, loss=loss), ready, randomness, first)
        weights = rows.to_given(trained.weights, problem.loss.outputs, given)
        learnt = any(not isinstance(step, ABOUT_TARGETS) for step in self.preparation)
        return replace(trained, weights=weights, event=plan.event, row_bound=rows.row_bound if learnt else None)

    def _columns(self, problem: AnyProblem) -> tuple[Problem, int]:
        problem = require_linear(problem, "preparation")
        if not isinstance(problem.domain, Everywhere):
            raise ValueError("preparation changes what weights mean, and a ball of them with it: use prepare=None.")
        columns = problem.features - self.intercept
        if columns < 1:
            raise ValueError("there is no column to prepare: use prepare=None.")
        return problem, columns

    def _within(self, problem: Problem, budget: Budget, steps: tuple[StepPlan, ...]) -> PreparedPlan:
        """The plan whose whole composition costs nearly the budget, and no more."""
        found = plan_within(
            left_for_training(problem, budget, self.share),
            budget,
            lambda left: PreparedPlan(steps, planned(self.method, problem, left)),
        )
        if found is None:
            raise ValueError(
                f"{type(self.method).__name__} cannot be brought within what preparation leaves of the budget: use "
                "prepare=None."
            )
        return found


def require_gaussian(budget: Budget) -> None:
    require_delta("preparation", budget, "use prepare=None, or give a delta")


def share_of(steps: Sequence[PreparationStep]) -> float:
    """What all steps take of mu^2: less than all of it."""
    share = math.fsum(step.share for step in steps)
    if share >= 1:
        raise ValueError(f"the steps of preparation take {share:g} of the budget: leave some for training.")
    return share


def left_for_training(problem: Problem, budget: Budget, share: float) -> Budget:
    """What remains of the budget beside Gaussian releases with this share, for a method that is Gaussian itself."""
    require_gaussian(budget)
    return left_beside(problem, budget, share)
