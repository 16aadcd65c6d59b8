r"""What a released model said of held-out records beside what was true: the private side of an evaluation.

Four kinds of sums leave it, with noise. Each says how far it moves when one record is replaced, or added:

    RecallAbove   sum 1[positive] (1[score > t] - r)                            1,         max(r, 1 - r)
    ScoreCells    sum e(cell)                                                   sqrt 2,    1
    ClassCells    sum e(class, cell)                                            sqrt 2,    1
                  sum (e(class, cell), u/2, u^2/2)                              sqrt 2.5,  sqrt 1.5
    ErrorSums     sum (v, t^2, t/2, v^2/2, t^3/2, t^4/2, v t/2, v t^2/2, 1)     sqrt 4.5,  sqrt 4.5

e is a unit vector. u in [0, 1] is the log-loss in units of its bound; two records differ by d = |u - u'| <= 1 and
|u + u'| <= 2 - d, so the squares of their differences add up to d^2 (1 + (2 - d)^2)/4 <= 1/2. v in [0, 1] is the
squared error and t in [-1, 1] the target, both in units of their bounds. With x = |t - t'| and s = |t + t'| <= 2 - x,

    (t^2, t/2, t^3/2, t^4/2)     x^2 (s^2 + 1/4 + (3 s^2 + x^2)^2/64 + s^2 (s^2 + x^2)^2/16)  <=  2      at x = 2
    (v, v^2/2)                   d^2 (1 + (2 - d)^2/4)  <=  5/4
    (v t/2, v t^2/2)             1 + 1/4

and the 1, how many records there are, moves only when one is added; then every coordinate is largest at v = t = 1.

A person adds the mean of what their kept records add, which is no further from another's than two records are. What is
added up are whole multiples of 2^-30, so that no sum depends on the order of the records by its rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.oracle.allowed import allow
from sordino.oracle.persons import Persons
from sordino.privacy.noise import Noise
from sordino.privacy.randomness import Randomness

_ONE = 1 << 30
_PIECE = 1 << 20
"""Records at a time: their sums in units of 2^-30 are exact in double precision."""


@dataclass(frozen=True)
class RecallAbove:
    """Of two classes: not negative where the share `recall` of positives, or more, has scores above the threshold."""

    threshold: float
    recall: float
    width: ClassVar[int] = 1

    @property
    def clip(self) -> float:
        return max(self.recall, 1 - self.recall)

    def sensitivity(self, relation: Relation) -> float:
        return 1.0 if relation is Relation.REPLACE_ONE else self.clip

    def of(self, some: Outcomes) -> Array:
        return some.summed(((some.truth == 1) * ((some.said > self.threshold) - self.recall))[None])


@dataclass(frozen=True)
class ScoreCells:
    """How many scores lie between the edges, of all classes together. A score on an edge lies below it."""

    edges: tuple[float, ...]
    clip: ClassVar[float] = 1.0

    @property
    def width(self) -> int:
        return len(self.edges) + 1

    def sensitivity(self, relation: Relation) -> float:
        return math.sqrt(relation.distance)

    def of(self, some: Outcomes) -> Array:
        return some.counted(np.searchsorted(self.edges, some.said), self.width)


@dataclass(frozen=True)
class ClassCells:
    """The same class by class, and with a `loss_bound` the sums of u/2 and u^2/2."""

    edges: tuple[float, ...]
    classes: int
    loss_bound: float | None = None

    @property
    def cells(self) -> int:
        return self.classes * (len(self.edges) + 1)

    @property
    def width(self) -> int:
        return self.cells + (0 if self.loss_bound is None else 2)

    @property
    def clip(self) -> float:
        return self.sensitivity(Relation.ADD_REMOVE)

    def sensitivity(self, relation: Relation) -> float:
        return math.sqrt(relation.distance + (0 if self.loss_bound is None else 0.5))

    def of(self, some: Outcomes) -> Array:
        columns = len(self.edges) + 1
        cells = some.truth.astype(np.intp) * columns + np.searchsorted(self.edges, some.said)
        counts = some.counted(cells, self.cells)
        if self.loss_bound is None:
            return counts
        u = np.clip(np.nan_to_num(some.losses / self.loss_bound, nan=1.0), 0.0, 1.0)
        return np.concatenate([counts, some.summed(0.5 * np.stack([u, u * u]))])


@dataclass(frozen=True)
class ErrorSums:
    """Targets are clipped to low..high, and so are predictions; errors to `error_bound`."""

    low: float
    high: float
    error_bound: float
    width: ClassVar[int] = 9

    @property
    def clip(self) -> float:
        return self.sensitivity(Relation.ADD_REMOVE)

    def sensitivity(self, relation: Relation) -> float:
        return math.sqrt(4.5)

    def of(self, some: Outcomes) -> Array:
        half = (self.high - self.low) / 2
        said, true = (np.clip(np.nan_to_num(one), self.low, self.high) for one in (some.said, some.truth))
        t = np.clip((true - self.low) / half - 1, -1.0, 1.0)
        v = np.clip((true - said) / self.error_bound, -1.0, 1.0) ** 2
        less = 0.5 * np.stack([t, v * v, t**3, t**4, v * t, v * t * t])
        return some.summed(np.concatenate([[v, t * t], less, [np.ones_like(t)]]))


Query = RecallAbove | ScoreCells | ClassCells | ErrorSums


@dataclass(frozen=True, eq=False)
class Outcomes:
    """`said` are scores, the places of predicted classes, or numbers; `truth` the places of classes, or numbers.

    `losses` are log-losses where they are asked for. `weights`, in units of 2^-30, say how much each record counts.
    """

    relation: Relation
    said: Array
    truth: Array
    losses: Array
    weights: NDArray[np.int64] | None = None

    @staticmethod
    def of(relation: Relation, said: Array, truth: Array, losses: Array, persons: Persons | None) -> Outcomes:
        return Outcomes(relation, said, truth, losses, None if persons is None else _weights(persons))

    def release(self, query: Query, noise: Noise, randomness: Randomness) -> Array:
        allow(query, noise, self.relation)
        return noise.perturb(query.of(self), randomness)

    def counted(self, cells: NDArray[np.intp], width: int) -> Array:
        """How much of the records lies in each cell."""
        total = np.zeros(width, dtype=np.int64)
        for some in self._pieces():
            weights = None if self.weights is None else self.weights[some]
            total += np.bincount(cells[some], weights, width).astype(np.int64)
        return total / (1 if self.weights is None else _ONE)

    def summed(self, columns: Array) -> Array:
        """Sums of numbers between -1 and 1, each rounded towards zero."""
        total = np.zeros(len(columns), dtype=np.int64)
        for some in self._pieces():
            weights = _ONE if self.weights is None else self.weights[some]
            total += np.trunc(columns[:, some] * weights).astype(np.int64).sum(axis=1)
        return total / _ONE

    def _pieces(self) -> list[slice]:
        return [slice(first, first + _PIECE) for first in range(0, len(self.truth), _PIECE)]


def _weights(persons: Persons) -> NDArray[np.int64]:
    """One over the number of a person's kept records, rounded down; nothing for the others."""
    owners = persons.owners[persons.kept]
    weights = np.zeros(len(persons.owners), dtype=np.int64)
    weights[persons.kept] = _ONE // np.bincount(owners, minlength=persons.count)[owners]
    return weights
