"""Losses of one score with a bounded curvature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.losses.protocol import Array
from sordino.losses.scalar import Scalar, positive, positive_or_infinite, within


@dataclass(frozen=True)
class Logistic(Scalar):
    r"""y in {-1, +1}.   phi = log(1 + exp(-y a)),   |phi'| <= 1,   phi'' <= 1/4."""

    @property
    def curvature_bound(self) -> float:
        return 0.25

    @property
    def at_zero(self) -> float:
        return math.log(2)

    def value(self, score: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * score)

    def slope(self, score: Array, y: Array) -> Array:
        return -y * _sigmoid(-y * score)

    def curvature(self, score: Array, y: Array) -> Array:
        # sigma(a) sigma(-a) rather than p (1 - p), which is zero once p rounds to one
        return _sigmoid(score) * _sigmoid(-score)


@dataclass(frozen=True)
class Squared(Scalar):
    r"""|y| <= Y = target_bound.   phi = (a - y)^2 / 2,   |phi'| <= R D + Y on |w| <= D,   phi'' = 1.

    Lipschitz only on a ball: a problem with this loss needs `Ball(D)` as its domain. Targets are clipped to the bound.
    """

    target_bound: float

    def __post_init__(self) -> None:
        positive("target_bound", self.target_bound)

    @property
    def slope_bound(self) -> float:
        return math.inf

    @property
    def curvature_bound(self) -> float:
        return 1.0

    @property
    def at_zero(self) -> float:
        return self.target_bound**2 / 2

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return row_norm * (row_norm * radius + self.target_bound)

    def value(self, score: Array, y: Array) -> Array:
        return 0.5 * (score - within(y, self.target_bound)) ** 2

    def slope(self, score: Array, y: Array) -> Array:
        return score - within(y, self.target_bound)

    def curvature(self, score: Array, y: Array) -> Array:
        return np.ones_like(score)


@dataclass(frozen=True)
class Huber(Scalar):
    r"""r = a - y.   phi = r^2/2 where |r| <= k = threshold, else k|r| - k^2/2;   |phi'| <= k,   phi'' <= 1.

    The slope is bounded whatever y is. `target_bound` is only needed to bound the loss at zero; targets are clipped
    to it, so that the bound holds.
    """

    threshold: float = 1.0
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        positive("threshold", self.threshold)
        positive_or_infinite("target_bound", self.target_bound)

    @property
    def slope_bound(self) -> float:
        return self.threshold

    @property
    def curvature_bound(self) -> float:
        return 1.0

    @property
    def at_zero(self) -> float:
        k, Y = self.threshold, self.target_bound
        return Y**2 / 2 if k >= Y else k * Y - k**2 / 2

    def value(self, score: Array, y: Array) -> Array:
        r, k = np.abs(score - within(y, self.target_bound)), self.threshold
        return np.where(r <= k, 0.5 * r**2, k * r - 0.5 * k**2)

    def slope(self, score: Array, y: Array) -> Array:
        return np.clip(score - within(y, self.target_bound), -self.threshold, self.threshold)

    def curvature(self, score: Array, y: Array) -> Array:
        return (np.abs(score - within(y, self.target_bound)) <= self.threshold).astype(float)


@dataclass(frozen=True)
class HuberisedHinge(Scalar):
    r"""y in {-1, +1}, m = y a.   phi = 0 for m > 1 + h;  (1 + h - m)^2 / (4h) for |1 - m| <= h;  1 - m below.

    |phi'| <= 1,   phi'' <= 1/(2h).
    """

    width: float = 0.5

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def curvature_bound(self) -> float:
        return 1 / (2 * self.width)

    @property
    def at_zero(self) -> float:
        return float(self.value(np.zeros(1), np.ones(1))[0])

    def value(self, score: Array, y: Array) -> Array:
        m, h = y * score, self.width
        return np.where(m > 1 + h, 0.0, np.where(m < 1 - h, 1 - m, (1 + h - m) ** 2 / (4 * h)))

    def slope(self, score: Array, y: Array) -> Array:
        return -y * np.clip((1 + self.width - y * score) / (2 * self.width), 0.0, 1.0)

    def curvature(self, score: Array, y: Array) -> Array:
        return np.where(np.abs(1 - y * score) <= self.width, self.curvature_bound, 0.0)


def _sigmoid(a: Array) -> Array:
    # exp of a non-positive number only, so that nothing overflows
    e = np.exp(-np.abs(a))
    p: Array = np.where(a >= 0, 1.0, e) / (1 + e)
    return p
