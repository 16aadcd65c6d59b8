r"""The centre of the rows.

    m = (1/n) sum u_i + N(0, s^2 I),     |u_i| <= 1;        x -> x - m

Privacy: a Gaussian release of a sum that one record moves by 2, or by 1 where it is added or removed; n is public then
too, as it is in every mean of a training run.

A wrong centre costs no correctness: a model with an intercept has the same scores on either rows, by other weights. It
only leaves rows longer, |x - m|^2 = |x - mean|^2 + d s^2, and a shorter row needs less noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sordino.budget import Relation
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows
from sordino.oracle.statistics import RowSum
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness


@dataclass(frozen=True)
class Centre:
    share: float = 0.1

    def __post_init__(self) -> None:
        check_share(self, self.share)

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        multiplier = 1 / (mu * math.sqrt(self.share))
        return StepPlan(GaussianNoise.at(multiplier, RowSum().sensitivity(relation), columns), 1)

    def run(
        self, plan: StepPlan, rows: PreparedRows, records: int, oracle: RowsOracle, randomness: Randomness
    ) -> PreparedRows:
        if rows.matrix.ndim > 1:
            raise ValueError("rows are centred before they are whitened: name Centre first.")
        if not rows.matrix.all():
            raise ValueError("rows are centred before columns are left out: name Centre first.")
        mean = oracle.release(RowSum(), plan.noise, randomness) / records
        return replace(rows, centre=rows.centre + mean / rows.matrix)
