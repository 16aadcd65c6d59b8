r"""Where training begins: at the best score without features, instead of at 0.

    m = (1/n) sum_i y_i + N(0, s^2);       w_0 = (0, .., 0, best constant score / constant column)

(see `sordino.methods.constant_model`). One number costs little, and a descent that has to find it by noisy gradients of
all weights travels far for it where a class is rare, or a mean far from the middle of its range.

Steps may be shortened by a power of  4 p (1 - p),  which is 1 for classes of equal size. Of a rare class little is won
early: from the best constant on, what is learnt in a time tau grows as  (p (1 - p))^2 tau, and what noise costs as
p (1 - p) tau^2.

A score that is known before needs a smaller constant column than one that is still to be found, and a smaller one
leaves more of a row's norm to the features.

Privacy: a Gaussian release; what training does with it, the first iterate and the size of its steps, costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.losses import Logistic
from sordino.methods.constant_model import constant_weights, released_mean
from sordino.methods.plan import DescentPlan
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows, Rows
from sordino.oracle.statistics import TargetSum
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem


@dataclass(frozen=True)
class StartingScore:
    """`shortening` is the power of 4 p (1 - p) in the size of steps: 0 leaves them alone. `column` is the constant
    column from there on, in rows of norm 1; None keeps the one that rows have."""

    share: float = 0.05
    shortening: float = 0.0
    column: float | None = None

    def __post_init__(self) -> None:
        check_share(self, self.share)
        if not 0 <= self.shortening <= 1:
            raise ValueError(f"shortening is {self.shortening}: it is a power of 4p(1-p), from 0 to 1.")
        if self.column is not None and not 0 < self.column < 1:
            raise ValueError(f"column is {self.column}: the constant column of a row of norm 1 lies between 0 and 1.")

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        # of whichever loss: one number, in units of its bound
        sensitivity = TargetSum(Logistic()).sensitivity(relation)
        return StepPlan(GaussianNoise.at(1 / (mu * math.sqrt(self.share)), sensitivity, 1), 1)

    def placed(self, rows: PreparedRows) -> PreparedRows:
        """Rows with the constant column."""
        return rows if self.column is None else replace(rows, intercept=self.column * rows.norm)

    def begin(
        self, plan: StepPlan, problem: Problem, rows: Rows, oracle: RowsOracle, randomness: Randomness
    ) -> tuple[Array, float]:
        """The first iterate, for training on `rows`, and what steps are to be multiplied by."""
        mean = released_mean(problem, oracle, plan.noise, randomness)
        # 4 p (1 - p), p = (1 + m)/2
        even = 1 - mean**2 if isinstance(problem.loss, Logistic) else 1.0
        return constant_weights(mean, problem, rows), even**self.shortening


def with_steps(plan: Any, factor: float) -> Any:
    """A descent whose steps are multiplied by this; one that counts on their size stays as it is."""
    if isinstance(plan, DescentPlan) and plan.amplification is None:
        return replace(plan, step_size=plan.step_size * factor)
    return plan
