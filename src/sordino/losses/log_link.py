r"""Losses of one score whose prediction is exp(a): for counts and for costs.

Both are half a deviance, which is never negative and 0 where exp(a) = y, with their slopes clipped at C:

    phi_C' = clip(phi', -C, C),        phi_C(a) = phi(h) + C |a - h|,     h the nearest score with |phi'(h)| <= C

phi' never falls, so phi_C is convex, of one score, with |phi_C'| <= C and phi_C'' <= sup phi'' where |phi'| <= C. A
norm clip beyond that, as oracles have it, is a smaller C for a shorter row, and keeps the bound. Where slopes are
clipped the prediction leans from the mean towards the median.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.losses.elementary import Number, clip, exp, log, maximum, where
from sordino.losses.scalar import Scalar, numbers, positive

_FAR = 1e300
"""A score that none reaches: no kink on that side."""
_NEXT_TO_NOTHING = 1e-300


@dataclass(frozen=True)
class Poisson(Scalar):
    r"""0 <= y <= Y = target_bound.   phi = e^a - y a - (y - y log y),   phi' = e^a - y,   phi'' = e^a <= Y + C.

    C = clip. Kinks at log(y + C), and at log(y - C) where y > C. Targets are clipped to [0, Y]; they need not be whole.
    """

    target_bound: float
    clip: float
    parameters: ClassVar[tuple[str, ...]] = ("clip", "largest", "log_largest")

    def __post_init__(self) -> None:
        positive("target_bound", self.target_bound)
        positive("clip", self.clip)

    @property
    def largest(self) -> float:
        """Y + C: beyond it e^a makes no difference."""
        return self.target_bound + self.clip

    @property
    def log_largest(self) -> float:
        return math.log(self.largest)

    @property
    def slope_bound(self) -> float:
        return self.clip

    @property
    def curvature_bound(self) -> float:
        return self.largest

    @property
    def at_zero(self) -> float:
        # at a = 0 the loss falls until y = 1 and then grows
        return float(self.value(np.zeros(2), np.array([0.0, self.target_bound])).max())

    def admit(self, y: Array) -> Array:
        return self.within(numbers(y))

    def within(self, y: Array) -> Array:
        return np.clip(y, 0.0, self.target_bound)

    @staticmethod
    def phi(a: Number, y: Number, c: float, largest: float, log_largest: float) -> Number:
        high = log(y + c)
        low = where(y > c, log(maximum(y - c, _NEXT_TO_NOTHING)), -_FAR)
        h = clip(a, low, high)
        # e^h as (y + c) e^(h - log(y + c)), for exp takes nothing above 0
        inside = (y + c) * exp(h - high) - y - y * (h - log(maximum(y, _NEXT_TO_NOTHING)))
        return maximum(inside, 0.0) + c * abs(a - h)

    @staticmethod
    def phi1(a: Number, y: Number, c: float, largest: float, log_largest: float) -> Number:
        return clip(largest * exp(clip(a - log_largest, -_FAR, 0.0)) - y, -c, c)

    @staticmethod
    def phi2(a: Number, y: Number, c: float, largest: float, log_largest: float) -> Number:
        mean = largest * exp(clip(a - log_largest, -_FAR, 0.0))
        return where(abs(mean - y) < c, mean, 0.0)


@dataclass(frozen=True)
class Gamma(Scalar):
    r"""y_min <= y <= Y, r = a - log y.   phi = r + e^-r - 1,   phi' = 1 - e^-r,   phi'' = e^-r <= 1 + C.

    C = clip, y_min = least_target > 0, Y = target_bound. Kinks at r = -log(1 + C), and at -log(1 - C) where C < 1.
    """

    least_target: float
    target_bound: float
    clip: float
    parameters: ClassVar[tuple[str, ...]] = ("clip", "low", "high")

    def __post_init__(self) -> None:
        for name in ("least_target", "target_bound", "clip"):
            positive(name, getattr(self, name))
        if not self.least_target < self.target_bound:
            raise ValueError(
                f"least_target is {self.least_target} and target_bound is {self.target_bound}: the least target must "
                "be the smaller one."
            )

    @property
    def low(self) -> float:
        """The kinks, as values of r."""
        return -math.log1p(self.clip)

    @property
    def high(self) -> float:
        return -math.log1p(-self.clip) if self.clip < 1 else _FAR

    @property
    def slope_bound(self) -> float:
        return self.clip

    @property
    def curvature_bound(self) -> float:
        return 1 + self.clip

    @property
    def at_zero(self) -> float:
        # convex in r = -log y, so the largest is at an end
        return float(self.value(np.zeros(2), np.array([self.least_target, self.target_bound])).max())

    def admit(self, y: Array) -> Array:
        return self.within(numbers(y))

    def within(self, y: Array) -> Array:
        return np.clip(y, self.least_target, self.target_bound)

    @staticmethod
    def phi(a: Number, y: Number, c: float, low: float, high: float) -> Number:
        r = a - log(y)
        h = clip(r, low, high)
        # e^-h as (1 + c) e^-(h - low), for exp takes nothing above 0
        return maximum(h + (1.0 + c) * exp(low - h) - 1.0, 0.0) + c * abs(r - h)

    @staticmethod
    def phi1(a: Number, y: Number, c: float, low: float, high: float) -> Number:
        return clip(1.0 - (1.0 + c) * exp(low - clip(a - log(y), low, high)), -c, c)

    @staticmethod
    def phi2(a: Number, y: Number, c: float, low: float, high: float) -> Number:
        r = a - log(y)
        return where((r > low) & (r < high), (1.0 + c) * exp(low - clip(r, low, high)), 0.0)
