r"""Where most values of every column lie, for columns whose public range is far too wide.

    l_j, u_j: the q- and (1 - q)-quantile among 64 public values +-R 2^-k
    x_j  ->  (x_j - (l_j + u_j)/2) / h_j,      h_j = sqrt(d) (u_j - l_j)/2

Six questions of a binary search, each for both ends of every column at once:

    sum_i 1[x_ij <= t_j] - q_j   for 2d pairs of a column and a threshold, + N(0, s^2 I)

Privacy: Gaussian releases, each chosen in view of the answers before it, of counts of which one record moves every one
by 1 (by max(q, 1 - q) where it is added or removed), hence sqrt(2d) in all. Two ends of many columns share one budget,
so it is for a dozen columns or so. After it rows have a norm of about 1: a `NormQuantile` may follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sordino.budget import Relation
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows
from sordino.oracle.statistics import ColumnsBelow
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

QUESTIONS = 6
_POWERS = 2.0 ** -np.arange(31.0)
GRID = np.concatenate([-_POWERS, [0.0, 2.0**-31], _POWERS[::-1]])
"""Thresholds in units of the row bound, ascending: 64 of them."""


@dataclass(frozen=True)
class ColumnBounds:
    """Between them lie all but `outside` of a column's values, on either side."""

    share: float = 0.1
    outside: float = 0.02

    def __post_init__(self) -> None:
        check_share(self, self.share)
        if not 0 < self.outside < 0.5:
            raise ValueError(f"outside is {self.outside}: a share on either side, above 0 and below 1/2.")

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        nowhere = (0.0,) * columns
        sensitivity = ColumnsBelow(nowhere, nowhere, self.outside).sensitivity(relation)
        multiplier = math.sqrt(QUESTIONS) / (mu * math.sqrt(self.share))
        return StepPlan(GaussianNoise.at(multiplier, sensitivity, 2 * columns), QUESTIONS)

    def run(
        self, plan: StepPlan, rows: PreparedRows, records: int, oracle: RowsOracle, randomness: Randomness
    ) -> PreparedRows:
        if rows.matrix.ndim > 1:
            raise ValueError("columns have bounds before rows are whitened: name ColumnBounds first.")
        if not rows.matrix.all():
            raise ValueError("columns have bounds before some are left out: name ColumnBounds first.")
        d = len(rows.centre)
        low, high = np.zeros(2 * d, dtype=int), np.full(2 * d, len(GRID) - 1)
        for _ in range(plan.times):
            middle = (low + high) // 2
            lows, highs = (tuple(GRID[part].tolist()) for part in np.split(middle, 2))
            enough = oracle.release(ColumnsBelow(lows, highs, self.outside), plan.noise, randomness) >= 0
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        # the low end is the last value below its quantile; at most the public range, whatever the noise said
        start, end = GRID[np.maximum(high[:d] - 1, 0)], GRID[high[d:]]
        middles, halves = (start + end) / 2, np.maximum(np.abs(end - start) / 2, GRID[len(GRID) // 2 + 1])
        return replace(rows, centre=rows.centre + middles / rows.matrix, matrix=rows.matrix / (halves * math.sqrt(d)))
