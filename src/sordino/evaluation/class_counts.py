r"""A table of classes by cells with noise, and what follows from it.

Every measure here is a function of the table that does not change when the whole table is multiplied by a number. So
with its gradient g in the cells h, and noise of standard deviation s on each of N cells,

    variance  =  sum_j h_j g_j^2  (other records)  +  s^2 |g|^2  (the noise).

Of persons, who are in several cells with a part of themselves, the first term is an upper bound. Where the number of
records is public all cells are moved alike until they add up to it, and the noise is s^2 (|g|^2 - (sum_j g_j)^2 / N).

    rate        R = a/b,  sums over some cells and over more            g = (1_a - R 1_b) / b
    AUC         A = sum_j h-_j S_j / Q,  S_j the share of positives above j, half of those in it
                g+_j = (T_j - A) / P,  g-_j = (S_j - A) / Q,     T_j the share of negatives below j, half of those in it
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.evaluation.measure import NOISE, SAMPLING, Measure, quantile, rate_interval, within
from sordino.evaluation.outcomes import ClassCells
from sordino.problem import HeldOut

_CLEAR = 5.0
"""How many standard deviations of its noise a count must have, or what is divided by it is not shown."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CountsByClass:
    """`table` has a row for every class and a column for every cell."""

    table: Array
    std: float
    total_is_public: bool
    level: float

    @staticmethod
    def of(sums: Array, query: ClassCells, std: float, problem: HeldOut, budget: Budget, level: float) -> CountsByClass:
        table = sums[: query.cells].reshape(query.classes, -1)
        # nothing can lie between two edges that are the same
        table = table[:, np.diff([-math.inf, *query.edges, math.inf]) > 0]
        public = budget.relation is Relation.REPLACE_ONE
        missing = problem.records - table.sum() if public else 0.0
        return CountsByClass(table + missing / table.size, std, public, level)

    def noise(self, gradient: Array) -> float:
        """The standard deviation that the noise gives to a measure with this gradient."""
        known = gradient.sum() ** 2 / gradient.size if self.total_is_public else 0.0
        return self.std * math.sqrt(max(0.0, float((gradient**2).sum()) - known))

    def clear(self, cells: Mask) -> bool:
        """Whether so many records lie there that one may divide by their number."""
        return bool(self.table[cells].sum() >= self.needed(int(cells.sum())))

    def needed(self, cells: int) -> float:
        return _CLEAR * self.std * math.sqrt(cells)

    def rate(self, name: str, part: Mask, whole: Mask, choices: int = 1, group: str = "") -> Measure | None:
        """The share of the records in `whole` that are in `part`; with `choices`, an interval for all of so many."""
        if not self.clear(whole):
            return None
        count = float(self.table[whole].sum())
        rate = float(self.table[part & whole].sum()) / count
        noise = count * self.noise(((part & whole) - rate * whole) / count)
        ends = rate_interval(min(max(rate, 0.0), 1.0), count, noise, quantile(self.level, choices))
        how = SAMPLING if choices == 1 else f"{SAMPLING}, whichever was chosen"
        return within(name, rate, ends, self.level, how, group)

    def count(self, name: str, cells: Mask, group: str) -> Measure:
        value, far = float(self.table[cells].sum()), quantile(self.level) * self.noise(cells.astype(float))
        return within(name, value, (value - far, value + far), self.level, NOISE, group, (0.0, math.inf))

    def area(self) -> Measure | None:
        """AUC of two classes, whose cells are in the order of the scores."""
        negative, positive = self.table
        rows = np.zeros(self.table.shape, dtype=bool), np.zeros(self.table.shape, dtype=bool)
        rows[0][0], rows[1][1] = True, True
        if not (self.clear(rows[0]) and self.clear(rows[1])):
            return None
        P, Q = positive.sum(), negative.sum()
        above = (P - np.cumsum(positive) + positive / 2) / P
        below = (np.cumsum(negative) - negative / 2) / Q
        area = float(negative @ above / Q)
        gradient = np.stack([(above - area) / Q, (below - area) / P])
        variance = max(0.0, float((self.table * gradient**2).sum())) + self.noise(gradient) ** 2
        far = quantile(self.level) * math.sqrt(variance)
        return within("AUC", area, (area - far, area + far), self.level)

    def log_loss(self, sums: Array, bound: float) -> Measure:
        """Of the sums of u/2 and u^2/2."""
        count = max(1.0, float(self.table.sum()))
        mean, square = 2 * sums / count
        # the number of records, where it is not public, has noise too; it moves the mean by mean/m for every record
        unsure = 0.0 if self.total_is_public else self.std * math.sqrt(self.table.size) * mean
        variance = max(0.0, square - mean**2) / count + ((2 * self.std) ** 2 + unsure**2) / count**2
        far = quantile(self.level) * math.sqrt(variance)
        ends = (bound * (mean - far), bound * (mean + far))
        return within(f"log-loss, cut at {bound:g}", bound * mean, ends, self.level, possible=(0.0, bound))


def too_few(names: list[str], needed: float) -> tuple[str, ...]:
    """A remark on measures that are left out, or nothing."""
    if not names:
        return ()
    return (
        f"Left out: {', '.join(names)}. The noise is too large beside the records that they are shares of: with this "
        f"budget about {math.ceil(needed):,} of a kind are needed.",
    )


def at_most(masks: tuple[int, int], last: int) -> Mask:
    """The cells up to `last`, of every class."""
    found = np.zeros(masks, dtype=bool)
    found[:, : last + 1] = True
    return found
