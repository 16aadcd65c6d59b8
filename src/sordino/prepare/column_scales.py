r"""How wide every column is, and columns of more equal width.

    v_j = max( (1/n) sum u_ij^2 + N(0, s^2),  2 s ),     x_j -> x_j v_j^(-p) / t,     t^2 = sum_j v_j^(1 - 2p)

p = 1/2 makes all columns equally wide, 1/4 goes half way: a category that few records have is then not the longest part
of their rows.

Privacy: a Gaussian release of a vector of squares that are not negative and add up to 1 at most, which one record moves
by sqrt 2 (by 1 where it is added or removed). After it rows have a norm of about 1: a `NormQuantile` should follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sordino.budget import Relation
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows
from sordino.oracle.statistics import SquareSum
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness


@dataclass(frozen=True)
class ColumnScales:
    """`power` is p."""

    share: float = 0.1
    power: float = 0.5

    def __post_init__(self) -> None:
        check_share(self, self.share)
        if not 0 < self.power <= 0.5:
            raise ValueError(f"power is {self.power}: it lies above 0 and at most at 1/2, where columns are equal.")

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        multiplier = 1 / (mu * math.sqrt(self.share))
        return StepPlan(GaussianNoise.at(multiplier, SquareSum().sensitivity(relation), columns), 1)

    def run(
        self, plan: StepPlan, rows: PreparedRows, records: int, oracle: RowsOracle, randomness: Randomness
    ) -> PreparedRows:
        if rows.matrix.ndim > 1:
            raise ValueError("columns are scaled before rows are whitened: name ColumnScales first, or leave it out.")
        told = oracle.release(SquareSum(), plan.noise, randomness) / records
        widths = np.maximum(told, 2 * plan.noise.std / records)
        length = math.sqrt(float(np.sum(widths ** (1 - 2 * self.power))))
        return replace(rows, matrix=rows.matrix * widths**-self.power / length)
