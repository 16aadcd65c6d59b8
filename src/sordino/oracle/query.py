"""What a method may ask of the records. A query knows how far one record can move its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.oracle.sampling import Batch


@dataclass(frozen=True, eq=False)
class Gradient:
    """sum_{i in batch} clip(grad l(at; z_i), clip), a sum and not a mean: the method divides by a public count.

    `at` is one parameter vector, or a stack of them (last axis) for as many independent runs side by side.
    """

    at: NDArray[np.float64]
    clip: float
    batch: Batch = None

    def sensitivity(self, relation: Relation) -> float:
        return relation.distance * self.clip


@dataclass(frozen=True, eq=False)
class Choice:
    """Which j has the least  sum_i min(l(points_j; z_i), clip) + extra_j,  `extra` being public: a penalty's values.

    A record adds between 0 and `clip` to every score, so replacing one moves a score by `clip` at most, and so does
    adding one, which raises them all.
    """

    points: NDArray[np.float64]
    clip: float
    extra: NDArray[np.float64]

    def sensitivity(self, relation: Relation) -> float:
        return self.clip


@dataclass(frozen=True, eq=False)
class ClippedLoss:
    """sum_i min(l(at; z_i), clip), one number for every parameter vector of a stack.

    A record adds between 0 and `clip`, so replacing one moves the sum by `clip` at most, and so does adding one.
    """

    at: NDArray[np.float64]
    clip: float

    def sensitivity(self, relation: Relation) -> float:
        return self.clip
