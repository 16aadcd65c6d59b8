r"""Sums over bounded rows: what preparation and one-pass least squares ask of the records.

x_i is a row in units of its bound, and u_i the same scaled down to |u_i| <= 1. A record with
a feature that is not finite has u_i = 0. Each sum says how far it moves when one record is replaced, or added.

    RowSum          sum u_i                         2,  1                     tight for u' = -u
    RowsWithin      sum 1[|x_i| <= r] - q           1,  max(q, 1 - q)
    ColumnsBelow    sum (1[x_ij <= t_j] - q_j)_j    sqrt k,  sqrt(sum max(q_j, 1 - q_j)^2)      for k pairs of t and q
    SquareSum       sum (u_i1^2, .., u_id^2)        sqrt 2,  1                not negative, and of 1-norm 1 at most
    MomentSum       sum u_i u_i^T                   sqrt 2,  1                |uu^T - vv^T|^2 = |u|^4 + |v|^4 - 2<u,v>^2
    CrossMoments    sum (r r^T, b r y)              sqrt F(b),  sqrt(1 + b^2)

For the last r = (s u, rho) is the row with its intercept and y the target, in units of their bounds. Two unit rows of
cosine c and two targets of size 1 are sqrt(2 (1 - c^2) + 2 b^2 (1 - c y y')) apart, at most

    F(b) = 2 (1 - c^2) + 2 b^2 (1 + c),     c = min(1, b^2/2);      F(1) = 4.5, where two sums by themselves cost 6.

Matrices are told by the coordinates (A_jj, sqrt 2 A_jk), j < k, whose Euclidean norm is their Frobenius norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.losses import Squared

_SQRT2 = math.sqrt(2)


class BoundedRows(NamedTuple):
    """Some records: x, u, the rows with their intercept r, and the targets."""

    x: Array
    u: Array
    r: Array
    targets: Array


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
            lengths = np.linalg.norm(some.x, axis=1)
        return np.array([np.count_nonzero(lengths <= self.radius) - self.share * len(lengths)])


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
    """`weight` is b; `loss` says which targets count, and bounds them."""

    weight: float
    loss: Squared

    @property
    def clip(self) -> float:
        return math.hypot(1.0, self.weight)

    def sensitivity(self, relation: Relation) -> float:
        b2 = self.weight**2
        if relation is Relation.ADD_REMOVE:
            return math.sqrt(1 + b2)
        c = min(1.0, b2 / 2)
        return math.sqrt(2 * (1 - c**2) + 2 * b2 * (1 + c))

    def width(self, columns: int, intercept: bool) -> int:
        d = columns + intercept
        return d * (d + 1) // 2 + d

    def of(self, some: BoundedRows) -> Array:
        y = some.targets / self.loss.target_bound
        return np.concatenate([coordinates(some.r.T @ some.r), self.weight * (y @ some.r)])


RowStatistic = RowSum | RowsWithin | ColumnsBelow | SquareSum | MomentSum | CrossMoments


def coordinates(matrix: Array) -> Array:
    """A symmetric matrix as a vector of the same norm."""
    above = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), _SQRT2 * matrix[above]])


def matrix_of(vector: Array, d: int) -> Array:
    """The symmetric matrix with these coordinates."""
    found = np.zeros((d, d))
    found[np.triu_indices(d, 1)] = vector[d:] / _SQRT2
    return found + found.T + np.diag(vector[:d])
