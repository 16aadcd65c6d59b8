r"""Which columns many rows have a part of, and rows of these columns alone.

    m_j = (1/n) sum |u_ij| + N(0, s^2),     x_j -> x_j (t s/m_j)^power  where  m_j >= t s,  and 0 elsewhere

Of the words of a language a few hundred make up much of every text, and most of the others occur in so few that nothing
is learnt about them, while they fill half of a row's length. Without them rows are shorter, and a `NormQuantile` after
it makes up for that. The most frequent ones of all tell little: with a power above 0 they are made smaller, which
costs nothing.

Privacy: a Gaussian release of a vector that is not negative and has a norm of 1 at most, which one record moves by
sqrt 2 (by 1 where it is added or removed).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sordino.budget import Relation
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows
from sordino.oracle.statistics import SizeSum
from sordino.prepare.protocol import StepPlan, check_share
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness


@dataclass(frozen=True)
class FrequentColumns:
    """`threshold` is t, in standard deviations of the noise: at 2, one in forty of the other columns passes too."""

    share: float = 0.2
    threshold: float = 2.0
    power: float = 0.0

    def __post_init__(self) -> None:
        check_share(self, self.share)
        if not (math.isfinite(self.threshold) and self.threshold > 0):
            raise ValueError(f"threshold is {self.threshold}: so many deviations of the noise, a number above 0.")
        if not 0 <= self.power <= 1:
            raise ValueError(f"power is {self.power}: sizes of columns are divided by a power of them, from 0 to 1.")

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan:
        multiplier = 1 / (mu * math.sqrt(self.share))
        return StepPlan(GaussianNoise.at(multiplier, SizeSum().sensitivity(relation), columns), 1)

    def run(
        self, plan: StepPlan, rows: PreparedRows, records: int, oracle: RowsOracle, randomness: Randomness
    ) -> PreparedRows:
        if rows.matrix.ndim > 1:
            raise ValueError("columns are left out before rows are whitened: name FrequentColumns first.")
        sizes, least = oracle.release(SizeSum(), plan.noise, randomness), self.threshold * plan.noise.std
        # the largest stays whatever the noise said: a row of no column at all has no direction
        frequent = sizes >= min(least, sizes.max())
        weights = (least / np.maximum(sizes, least)) ** self.power
        return replace(rows, matrix=np.where(frequent, rows.matrix * weights, 0.0))
