"""Losses of one score with a bounded curvature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sordino.arrays import Array
from sordino.losses.elementary import Number, clip, exp, log1p, maximum, sigmoid, where
from sordino.losses.scalar import Scalar, labels, numbers, positive, positive_or_infinite

TYPICAL_RESIDUAL = 0.25
"""Of a target's public bound. Targets vary by .17 to .48 of it on seven tables, residuals by less: clipped there, most
symmetric ones keep their mean, and the noise is a small part of what their largest values would need."""

LARGE_RESIDUAL = 0.5
"""The same where records are many for their budget: skewed residuals keep more of their mean."""


@dataclass(frozen=True)
class Logistic(Scalar):
    r"""y in {-1, +1}.   phi = log(1 + exp(-y a)),   |phi'| <= 1,   phi'' <= 1/4."""

    @property
    def curvature_bound(self) -> float:
        return 0.25

    @property
    def at_zero(self) -> float:
        return math.log(2)

    def admit(self, y: Array) -> Array:
        return labels(y)

    @staticmethod
    def phi(a: Number, y: Number) -> Number:
        m = y * a
        return maximum(-m, 0.0) + log1p(exp(-abs(m)))

    @staticmethod
    def phi1(a: Number, y: Number) -> Number:
        other = -y
        return other * sigmoid(other * a)

    @staticmethod
    def phi2(a: Number, y: Number) -> Number:
        # sigma(a) sigma(-a) rather than p (1 - p), which is zero once p rounds to one
        e = exp(-abs(a))
        return e / ((1.0 + e) * (1.0 + e))


@dataclass(frozen=True)
class Squared(Scalar):
    r"""|y| <= Y = target_bound.   phi = (a - y)^2 / 2,   |phi'| <= R D + Y on |w| <= D,   phi'' = 1.

    Lipschitz on a ball, `Ball(D)` as a problem's domain, or where oracles clip: `clip` says that no record's gradient
    counts for more. A gradient slope x clipped at C is that of Huber's loss with the threshold C/|x|, which is convex
    and as smooth, so the theorems hold for it, and no ball is needed. Targets are clipped to the bound.
    """

    target_bound: float
    clip: float = math.inf

    def __post_init__(self) -> None:
        positive("target_bound", self.target_bound)
        positive_or_infinite("clip", self.clip)

    @property
    def slope_bound(self) -> float:
        return math.inf

    @property
    def curvature_bound(self) -> float:
        return 1.0

    @property
    def at_zero(self) -> float:
        return self.target_bound**2 / 2

    def admit(self, y: Array) -> Array:
        return self.within(numbers(y))

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return min(row_norm * (row_norm * radius + self.target_bound), self.clip)

    @staticmethod
    def phi(a: Number, y: Number) -> Number:
        r = a - y
        return 0.5 * r * r

    @staticmethod
    def phi1(a: Number, y: Number) -> Number:
        return a - y

    @staticmethod
    def phi2(a: Number, y: Number) -> Number:
        return 0.0 * a + 1.0


@dataclass(frozen=True)
class Huber(Scalar):
    r"""r = a - y.   phi = r^2/2 where |r| <= k = threshold, else k|r| - k^2/2;   |phi'| <= k,   phi'' <= 1.

    The slope is bounded whatever y is. `target_bound` is only needed to bound the loss at zero; targets are clipped
    to it, so that the bound holds.
    """

    threshold: float = 1.0
    target_bound: float = math.inf
    parameters: ClassVar[tuple[str, ...]] = ("threshold",)

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

    def admit(self, y: Array) -> Array:
        return self.within(numbers(y))

    @staticmethod
    def phi(a: Number, y: Number, k: float) -> Number:
        r = abs(a - y)
        return where(r <= k, 0.5 * r * r, k * r - 0.5 * k * k)

    @staticmethod
    def phi1(a: Number, y: Number, k: float) -> Number:
        return clip(a - y, -k, k)

    @staticmethod
    def phi2(a: Number, y: Number, k: float) -> Number:
        return where(abs(a - y) <= k, 1.0, 0.0)


@dataclass(frozen=True)
class HuberisedHinge(Scalar):
    r"""y in {-1, +1}, m = y a.   phi = 0 for m > 1 + h;  (1 + h - m)^2 / (4h) for |1 - m| <= h;  1 - m below.

    |phi'| <= 1,   phi'' <= 1/(2h).
    """

    width: float = 0.5
    parameters: ClassVar[tuple[str, ...]] = ("width",)

    def __post_init__(self) -> None:
        positive("width", self.width)

    @property
    def curvature_bound(self) -> float:
        return 1 / (2 * self.width)

    @property
    def at_zero(self) -> float:
        return float(self.phi(0.0, 1.0, self.width))

    def admit(self, y: Array) -> Array:
        return labels(y)

    @staticmethod
    def phi(a: Number, y: Number, h: float) -> Number:
        m = y * a
        q = 1.0 + h - m
        return where(m > 1.0 + h, 0.0, where(m < 1.0 - h, 1.0 - m, q * q / (4.0 * h)))

    @staticmethod
    def phi1(a: Number, y: Number, h: float) -> Number:
        return -y * clip((1.0 + h - y * a) / (2.0 * h), 0.0, 1.0)

    @staticmethod
    def phi2(a: Number, y: Number, h: float) -> Number:
        return where(abs(1.0 - y * a) <= h, 1.0 / (2.0 * h), 0.0)
