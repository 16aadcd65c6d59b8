r"""How long rows are: a norm within which a share q of them lies, by a noisy binary search over sixteen public values.

    r_k = t 2^(k/3),  k = -14 .. 1;       four questions   #{|x_i| <= r} - q n + N(0, s^2) >= 0 ?

Rows are then measured in units of r, and longer ones are scaled down to it. Privacy: four Gaussian releases, each
chosen in view of the answers before it, of a count that one record moves by 1 (by max(q, 1 - q) where it is added or
removed, and n the public stand-in does not enter). The error of a rank is about 2/mu_q records; at sixteen candidates a
histogram would cost 5.7/mu_q and the exponential mechanism 3.5/mu_q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sordino.budget import Relation
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows
from sordino.oracle.statistics import RowsWithin
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

QUESTIONS = 4
GRID = tuple(2.0 ** (k / 3) for k in range(-14, 2))
"""Norms to choose from, in units of the row bound: from a twenty-fifth to 1.26, for centring may lengthen rows."""


@dataclass(frozen=True)
class NormQuantile:
    share: float = 0.02
    quantile: float = 0.6

    def __post_init__(self) -> None:
        check_share(self, self.share)
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile is {self.quantile}: the share of rows within the norm lies between 0 and 1.")

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        sensitivity = RowsWithin(1.0, self.quantile).sensitivity(relation)
        multiplier = math.sqrt(QUESTIONS) / (mu * math.sqrt(self.share))
        return StepPlan(GaussianNoise.at(multiplier, sensitivity, 1), QUESTIONS)

    def run(
        self, plan: StepPlan, rows: PreparedRows, records: int, oracle: RowsOracle, randomness: Randomness
    ) -> PreparedRows:
        low, high = 0, len(GRID) - 1
        for _ in range(plan.times):
            middle = (low + high) // 2
            more = oracle.release(RowsWithin(GRID[middle], self.quantile), plan.noise, randomness)[0]
            low, high = (low, middle) if more >= 0 else (middle + 1, high)
        return replace(rows, matrix=rows.matrix / GRID[high])
