r"""Losses of one score with a kink: piecewise linear, each with its proximal map in closed form.

prox(a) = argmin_p phi(p) + (p - a)^2 / (2 step) = a - pull(a),       |pull| <= step * slope_bound
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.losses.elementary import Formula, Number, clip, maximum, sign, where
from sordino.losses.protocol import Step
from sordino.losses.scalar import Scalar, labels, numbers, positive_or_infinite


@dataclass(frozen=True)
class Kinked(Scalar):
    """A loss with a kink: no curvature where it is differentiable, and none that bounds it.

    `slopes` are those of its linear pieces. Every loss says how far the proximal step pulls a score: computed as
    a - prox(a), a small step from a large score would lose its digits.
    """

    pull: ClassVar[Formula]
    """Of a score, a target, the step, and the parameters."""

    @property
    def slopes(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 1.0)

    @staticmethod
    def phi2(a: Number, y: Number, *parameters: float) -> Number:
        return 0.0 * a

    def prox(self, score: Array, y: Array, step: Step) -> Array:
        return np.asarray(score - self.pull(score, self.within(y), step, *self.settings))


@dataclass(frozen=True)
class Hinge(Kinked):
    r"""y in {-1, +1}.   phi = max(0, 1 - y a),   |phi'| <= 1."""

    @property
    def at_zero(self) -> float:
        return 1.0

    def admit(self, y: Array) -> Array:
        return labels(y)

    @staticmethod
    def phi(a: Number, y: Number) -> Number:
        return maximum(0.0, 1.0 - y * a)

    @staticmethod
    def phi1(a: Number, y: Number) -> Number:
        return where(y * a < 1.0, -y, 0.0)

    @staticmethod
    def pull(a: Number, y: Number, step: Step) -> Number:
        """The margin moves up by at most `step`, and not past 1."""
        return -y * clip(1.0 - y * a, 0.0, step)


@dataclass(frozen=True)
class Absolute(Kinked):
    r"""phi = |a - y|,   |phi'| <= 1.   Targets are clipped to `target_bound`, which only bounds the loss at zero."""

    target_bound: float = math.inf

    def __post_init__(self) -> None:
        positive_or_infinite("target_bound", self.target_bound)

    @property
    def slopes(self) -> tuple[float, ...]:
        return (-1.0, 1.0)

    @property
    def at_zero(self) -> float:
        return self.target_bound

    def admit(self, y: Array) -> Array:
        return self.within(numbers(y))

    @staticmethod
    def phi(a: Number, y: Number) -> Number:
        return abs(a - y)

    @staticmethod
    def phi1(a: Number, y: Number) -> Number:
        return sign(a - y)

    @staticmethod
    def pull(a: Number, y: Number, step: Step) -> Number:
        """The score moves towards y by at most `step`."""
        return clip(a - y, -step, step)


@dataclass(frozen=True)
class Pinball(Kinked):
    r"""r = a - y.   phi = (1 - tau) r for r >= 0, -tau r below,   |phi'| <= max(tau, 1 - tau)."""

    quantile: float = 0.5
    target_bound: float = math.inf
    parameters: ClassVar[tuple[str, ...]] = ("quantile",)

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile is {self.quantile}: it must lie strictly between 0 and 1.")
        positive_or_infinite("target_bound", self.target_bound)

    @property
    def slope_bound(self) -> float:
        return max(self.quantile, 1 - self.quantile)

    @property
    def slopes(self) -> tuple[float, ...]:
        return (-self.quantile, 1 - self.quantile)

    @property
    def at_zero(self) -> float:
        return self.slope_bound * self.target_bound

    def admit(self, y: Array) -> Array:
        return self.within(numbers(y))

    @staticmethod
    def phi(a: Number, y: Number, tau: float) -> Number:
        r = a - y
        return maximum(-tau * r, (1.0 - tau) * r)

    @staticmethod
    def phi1(a: Number, y: Number, tau: float) -> Number:
        r = a - y
        return where(r > 0.0, 1.0 - tau, where(r < 0.0, -tau, 0.0))

    @staticmethod
    def pull(a: Number, y: Number, step: Step, tau: float) -> Number:
        """The score moves towards y by at most step * tau from below and step * (1 - tau) from above."""
        return clip(a - y, -step * tau, step * (1.0 - tau))


@dataclass(frozen=True)
class EpsilonInsensitive(Kinked):
    r"""r = a - y.   phi = max(0, |r| - e),   e = tolerance,   |phi'| <= 1."""

    tolerance: float = 0.1
    target_bound: float = math.inf
    parameters: ClassVar[tuple[str, ...]] = ("tolerance",)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError(f"tolerance is {self.tolerance}: it must be finite and not negative.")
        positive_or_infinite("target_bound", self.target_bound)

    @property
    def at_zero(self) -> float:
        return max(0.0, self.target_bound - self.tolerance)

    def admit(self, y: Array) -> Array:
        return self.within(numbers(y))

    @staticmethod
    def phi(a: Number, y: Number, e: float) -> Number:
        return maximum(0.0, abs(a - y) - e)

    @staticmethod
    def phi1(a: Number, y: Number, e: float) -> Number:
        r = a - y
        return where(abs(r) > e, sign(r), 0.0)

    @staticmethod
    def pull(a: Number, y: Number, step: Step, e: float) -> Number:
        """A residual outside the tube moves towards it by at most `step`."""
        r = a - y
        return clip(r - clip(r, -e, e), -step, step)
