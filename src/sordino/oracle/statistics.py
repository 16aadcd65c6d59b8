r"""Sums over bounded rows: what preparation and one-pass least squares ask of the records.

x_i is a row in units of its bound, and u_i the same scaled down to |u_i| <= 1. A record with
a feature that is not finite has u_i = 0. Each sum says how far it moves when one record is replaced, or added.

    RowSum          sum u_i                         2,  1                     tight for u' = -u
    RowsWithin      sum 1[|x_i| <= r] - q           1,  max(q, 1 - q)
    ColumnsBelow    sum (1[x_ij <= t_j] - q_j)_j    sqrt k,  sqrt(sum max(q_j, 1 - q_j)^2)      for k pairs of t and q
    SquareSum       sum (u_i1^2, .., u_id^2)        sqrt 2,  1                not negative, and of 1-norm 1 at most
    SizeSum         sum (|u_i1|, .., |u_id|)        sqrt 2,  1                not negative: |u - v|^2 <= |u|^2 + |v|^2
    MomentSum       sum u_i u_i^T                   sqrt 2,  1                |uu^T - vv^T|^2 = |u|^4 + |v|^4 - 2<u,v>^2
    CrossMoments    sum w (r r^T, b r y)            sqrt F(b),  sqrt(1 + b^2)
      with squares  sum w (r r^T, b r y, y^2)       sqrt max(F(b), 3 + b^2),  sqrt(2 + b^2)       for b^2 <= 2
    CurvatureSum    sum w (phi''_i/beta) r r^T      sqrt 2,  1                that of MomentSum, for weights in [0, 1]
    SlopeSum        sum (w phi'_i/L)^2 r r^T        sqrt 2,  1
    ClassCounts     sum 1[y_i = k],  k > 0          sqrt 2,  1                1,  1 for two classes: one count
    TargetSum       sum w y_i                       2,  1

From CrossMoments on r = (s u, rho) is the row with its intercept and y the target, in units of their bounds. Two unit
rows of cosine c and two targets of size 1 are sqrt(2 (1 - c^2) + 2 b^2 (1 - c y y')) apart, at most

    F(b) = 2 (1 - c^2) + 2 b^2 (1 + c),     c = min(1, b^2/2);      F(1) = 4.5, where two sums by themselves cost 6.

Squares of the targets are there for nothing: with y = 1 and y'^2 = t the best cosine leaves  2 + b^2 (1 + t) +
b^4 t/2 + (1 - t)^2,  convex in t, so that one of t = 0 and t = 1, which is F(b), is the furthest. Shorter rows are no
further: along a row's length  l^4 + (b^2 y^2 - 2 k^2) l^2 + p l,  p >= 0, k <= 1, a maximum inside has a value of 1/3
at most, beside at most 2 + b^2 for what does not depend on l.

A record's weight 0 <= w <= 1 brings in nothing but points between those and 0, which is nearer: 1 + b^2 < F(b), and
2 + b^2 < 3 + b^2.

Matrices are told by the coordinates (A_jj, sqrt 2 A_jk), j < k, whose Euclidean norm is their Frobenius norm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.losses import Huber, Logistic, Loss, Squared
from sordino.losses.scalar import Scalar
from sordino.row_by_row import row_by_row, squared_lengths

_SQRT2 = math.sqrt(2)


class BoundedRows(Protocol):
    """Some records: x, u, the rows with their intercept r, the targets, what each counts, and the norm that r is in."""

    @property
    def x(self) -> Array: ...
    @property
    def u(self) -> Array: ...
    @property
    def r(self) -> Array: ...
    @property
    def targets(self) -> Array: ...
    @property
    def weights(self) -> Array: ...
    @property
    def norm(self) -> float: ...


class GivenRows(NamedTuple):
    """`BoundedRows` that are all there."""

    x: Array
    u: Array
    r: Array
    targets: Array
    weights: Array
    norm: float = 1.0


@dataclass(frozen=True)
class RowSum:
    clip: ClassVar[float] = 1.0

    def sensitivity(self, relation: Relation) -> float:
        return float(relation.distance)

    def width(self, columns: int, intercept: bool) -> int:
        return columns

    def of(self, some: BoundedRows) -> Array:
        return np.asarray(some.u.sum(axis=0))


@dataclass(frozen=True)
class RowsWithin:
    """`radius` is r, in units of the bound, and `share` is q: the sum is not negative where a share q lies within r."""

    radius: float
    share: float

    @property
    def clip(self) -> float:
        return max(self.share, 1 - self.share)

    def sensitivity(self, relation: Relation) -> float:
        return 1.0 if relation is Relation.REPLACE_ONE else self.clip

    def width(self, columns: int, intercept: bool) -> int:
        return 1

    def of(self, some: BoundedRows) -> Array:
        # what is too long to be measured is not within any radius, and nobody is told that there is such a record
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (some.x**2).sum(axis=1) if hasattr(some.x, "tocsr") else squared_lengths(some.x)
        return np.array([np.count_nonzero(np.sqrt(squares) <= self.radius) - self.share * len(squares)])


@dataclass(frozen=True)
class ColumnsBelow:
    """Two thresholds for every column, and for either the share q of values that should lie below."""

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    outside: float

    @property
    def clip(self) -> float:
        return math.sqrt(2 * len(self.lows)) * max(self.outside, 1 - self.outside)

    def sensitivity(self, relation: Relation) -> float:
        return math.sqrt(2 * len(self.lows)) if relation is Relation.REPLACE_ONE else self.clip

    def width(self, columns: int, intercept: bool) -> int:
        return 2 * columns

    def of(self, some: BoundedRows) -> Array:
        below = [np.count_nonzero(some.x <= np.asarray(bounds), axis=0) for bounds in (self.lows, self.highs)]
        expected = np.repeat([self.outside, 1 - self.outside], len(self.lows)) * len(some.x)
        return np.asarray(np.concatenate(below) - expected)


@dataclass(frozen=True)
class SquareSum:
    clip: ClassVar[float] = 1.0

    def sensitivity(self, relation: Relation) -> float:
        return _SQRT2 if relation is Relation.REPLACE_ONE else 1.0

    def width(self, columns: int, intercept: bool) -> int:
        return columns

    def of(self, some: BoundedRows) -> Array:
        return np.asarray((some.u**2).sum(axis=0))


@dataclass(frozen=True)
class SizeSum:
    clip: ClassVar[float] = 1.0

    def sensitivity(self, relation: Relation) -> float:
        return _SQRT2 if relation is Relation.REPLACE_ONE else 1.0

    def width(self, columns: int, intercept: bool) -> int:
        return columns

    def of(self, some: BoundedRows) -> Array:
        return np.asarray(abs(some.u).sum(axis=0))


@dataclass(frozen=True)
class MomentSum:
    clip: ClassVar[float] = 1.0

    def sensitivity(self, relation: Relation) -> float:
        return _SQRT2 if relation is Relation.REPLACE_ONE else 1.0

    def width(self, columns: int, intercept: bool) -> int:
        return columns * (columns + 1) // 2

    def of(self, some: BoundedRows) -> Array:
        return coordinates(some.u.T @ some.u)


@dataclass(frozen=True)
class CrossMoments:
    """`weight` is b; `loss` says which targets count, and bounds them. With `squares`, those of the targets too."""

    weight: float
    loss: Squared
    squares: bool = False

    def __post_init__(self) -> None:
        if self.squares and self.weight**2 > 2:
            raise ValueError(f"weight is {self.weight}: beside squares of targets its square is at most 2.")

    @property
    def clip(self) -> float:
        return self.sensitivity(Relation.ADD_REMOVE)

    def sensitivity(self, relation: Relation) -> float:
        b2 = self.weight**2
        if relation is Relation.ADD_REMOVE:
            return math.sqrt(1 + b2 + self.squares)
        c = min(1.0, b2 / 2)
        return math.sqrt(max(2 * (1 - c**2) + 2 * b2 * (1 + c), 2 + b2 + self.squares))

    def width(self, columns: int, intercept: bool) -> int:
        d = columns + intercept
        return d * (d + 1) // 2 + d + self.squares

    def of(self, some: BoundedRows) -> Array:
        y, weighted = some.targets / self.loss.target_bound, some.weights[:, None] * some.r
        squares = [y @ (some.weights * y)] if self.squares else []
        return np.concatenate([coordinates(some.r.T @ weighted), self.weight * (y @ weighted), squares])


@dataclass(frozen=True, eq=False)
class WeightedMoments(ABC):
    """sum of v_i r_i r_i^T at the weights `at`, with v_i in [0, 1]: no record adds more than r_i r_i^T."""

    loss: Scalar
    at: Array
    clip: ClassVar[float] = 1.0

    @staticmethod
    def bound(relation: Relation) -> float:
        """The sensitivity, wherever it is asked."""
        return _SQRT2 if relation is Relation.REPLACE_ONE else 1.0

    def sensitivity(self, relation: Relation) -> float:
        return self.bound(relation)

    def width(self, columns: int, intercept: bool) -> int:
        d = columns + intercept
        return d * (d + 1) // 2

    def of(self, some: BoundedRows) -> Array:
        # a score that is not finite has no weight, and nobody is told that there is one; curvatures may jump, so that a
        # score is its record's own to the last bit
        with np.errstate(all="ignore"):
            v = self.weights(some.norm * row_by_row(some.r, self.at), some)
        v = np.clip(np.where(np.isfinite(v), v, 0.0), 0.0, 1.0)
        return coordinates((some.r * v[:, None]).T @ some.r)

    @abstractmethod
    def weights(self, scores: Array, some: BoundedRows) -> Array: ...


@dataclass(frozen=True, eq=False)
class CurvatureSum(WeightedMoments):
    """The Hessian of the data term at `at`, in units of the loss's curvature bound."""

    def weights(self, scores: Array, some: BoundedRows) -> Array:
        return some.weights * self.loss.curvature(scores, some.targets) / self.loss.curvature_bound


@dataclass(frozen=True, eq=False)
class SlopeSum(WeightedMoments):
    """The second moments of the records' gradients at `at`, in units of the square of the loss's slope bound."""

    def weights(self, scores: Array, some: BoundedRows) -> Array:
        return (some.weights * self.loss.slope(scores, some.targets) / self.loss.slope_bound) ** 2


@dataclass(frozen=True)
class ClassCounts:
    """How many records each class has but the first, whose number follows; `loss` says which targets are classes."""

    loss: Loss
    clip: ClassVar[float] = 1.0

    def sensitivity(self, relation: Relation) -> float:
        # a record that changes its class moves two counts, unless there is only one
        return _SQRT2 if relation is Relation.REPLACE_ONE and self.loss.outputs > 1 else 1.0

    def width(self, columns: int, intercept: bool) -> int:
        return max(1, self.loss.outputs - 1)

    def of(self, some: BoundedRows) -> Array:
        classes = np.arange(1.0, max(2, self.loss.outputs))
        return np.asarray(np.count_nonzero(some.targets[:, None] == classes, axis=0), dtype=np.float64)


@dataclass(frozen=True)
class TargetSum:
    """Of targets that are -1 or 1, or numbers in units of their bound."""

    loss: Loss
    clip: ClassVar[float] = 1.0

    @staticmethod
    def of_loss(loss: Loss) -> TargetSum:
        """Raises a sentence where the mean of the targets does not tell the best constant score."""
        if not isinstance(loss, Logistic | Squared | Huber):
            raise ValueError(
                f"a constant score follows from the mean of the targets for two classes and for numbers by least "
                f"squares or Huber's loss, and the loss is {type(loss).__name__}."
            )
        asked = TargetSum(loss)
        if asked.bound is not None and not math.isfinite(asked.bound):
            raise ValueError(
                "the mean of the targets can be told where they have a bound: give the loss a target_bound."
            )
        return asked

    @property
    def bound(self) -> float | None:
        """Of the targets; None for two classes."""
        return self.loss.target_bound if isinstance(self.loss, Squared | Huber) else None

    def sensitivity(self, relation: Relation) -> float:
        return float(relation.distance)

    def width(self, columns: int, intercept: bool) -> int:
        return 1

    def of(self, some: BoundedRows) -> Array:
        return np.array([some.weights @ (some.targets / (self.bound or 1.0))])


AboutTargets = ClassCounts | TargetSum
"""Sums in which rows have no part."""

OfTargets = CrossMoments | WeightedMoments | AboutTargets
"""Sums that leave out records whose target the loss does not admit."""

OfSparseRows = RowSum | RowsWithin | SquareSum | SizeSum
"""Sums of x or u alone, which may be sparse."""

RowStatistic = OfSparseRows | ColumnsBelow | MomentSum | OfTargets


FoundValues = Mapping[str, tuple[str, ...]]
"""Of columns whose categories were discovered: the values of each, in alphabetical order."""


@dataclass(frozen=True)
class ValueCounts:
    """How many records have each value of each of so many columns; no sum over rows, but what rows are made by."""

    columns: int

    @property
    def clip(self) -> float:
        return math.sqrt(self.columns)

    def sensitivity(self, relation: Relation) -> float:
        return math.sqrt(relation.distance * self.columns)


def coordinates(matrix: Array) -> Array:
    """A symmetric matrix as a vector of the same norm."""
    above = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), _SQRT2 * matrix[above]])


def matrix_of(vector: Array, d: int) -> Array:
    """The symmetric matrix with these coordinates."""
    found = np.zeros((d, d))
    found[np.triu_indices(d, 1)] = vector[d:] / _SQRT2
    return found + found.T + np.diag(vector[:d])
