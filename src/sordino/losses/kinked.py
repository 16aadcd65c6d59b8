r"""Losses of one score with a kink: piecewise linear, each with its proximal map in closed form.

prox(a) = argmin_p phi(p) + (p - a)^2 / (2 step) = a - pull(a),       |pull| <= step * slope_bound
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sordino.losses.protocol import Array, Step
from sordino.losses.scalar import Scalar, positive_or_infinite, within


@dataclass(frozen=True)
class Kinked(Scalar, ABC):
    """A loss with a kink: no curvature where it is differentiable, and none that bounds it.

    `slopes` are those of its linear pieces. Every loss says how far the proximal step pulls a score: computed as
    a - prox(a), a small step from a large score would lose its digits.
    """

    @property
    def slopes(self) -> tuple[float, ...]:
        return (-1.0, 0.0, 1.0)

    @property
    @abstractmethod
    def at_zero(self) -> float: ...

    @abstractmethod
    def value(self, score: Array, y: Array) -> Array: ...

    @abstractmethod
    def pull(self, score: Array, y: Array, step: Step) -> Array: ...

    def prox(self, score: Array, y: Array, step: Step) -> Array:
        return score - self.pull(score, y, step)

    def curvature(self, score: Array, y: Array) -> Array:
        return np.zeros_like(score)


@dataclass(frozen=True)
class Hinge(Kinked):
    r"""y in {-1, +1}.   phi = max(0, 1 - y a),   |phi'| <= 1."""

    @property
    def at_zero(self) -> float:
        return 1.0

    def value(self, score: Array, y: Array) -> Array:
        return np.maximum(0.0, 1 - y * score)

    def slope(self, score: Array, y: Array) -> Array:
        return np.where(y * score < 1, -y, 0.0)

    def pull(self, score: Array, y: Array, step: Step) -> Array:
        """The margin moves up by at most `step`, and not past 1."""
        return -y * np.clip(1 - y * score, 0.0, step)


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

    def value(self, score: Array, y: Array) -> Array:
        return np.abs(score - within(y, self.target_bound))

    def slope(self, score: Array, y: Array) -> Array:
        return np.sign(score - within(y, self.target_bound))

    def pull(self, score: Array, y: Array, step: Step) -> Array:
        """The score moves towards y by at most `step`."""
        return np.clip(score - within(y, self.target_bound), -step, step)


@dataclass(frozen=True)
class Pinball(Kinked):
    r"""r = y - a.   phi = tau r for r >= 0, (tau - 1) r below,   |phi'| <= max(tau, 1 - tau)."""

    quantile: float = 0.5
    target_bound: float = math.inf

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

    def value(self, score: Array, y: Array) -> Array:
        r = within(y, self.target_bound) - score
        return np.maximum(self.quantile * r, (self.quantile - 1) * r)

    def slope(self, score: Array, y: Array) -> Array:
        r = within(y, self.target_bound) - score
        return np.where(r > 0, -self.quantile, np.where(r < 0, 1 - self.quantile, 0.0))

    def pull(self, score: Array, y: Array, step: Step) -> Array:
        """The score moves towards y by at most step * tau from below and step * (1 - tau) from above."""
        tau = self.quantile
        return np.clip(score - within(y, self.target_bound), -step * tau, step * (1 - tau))


@dataclass(frozen=True)
class EpsilonInsensitive(Kinked):
    r"""r = a - y.   phi = max(0, |r| - e),   e = tolerance,   |phi'| <= 1."""

    tolerance: float = 0.1
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError(f"tolerance is {self.tolerance}: it must be finite and not negative.")
        positive_or_infinite("target_bound", self.target_bound)

    @property
    def at_zero(self) -> float:
        return max(0.0, self.target_bound - self.tolerance)

    def value(self, score: Array, y: Array) -> Array:
        return np.maximum(0.0, np.abs(score - within(y, self.target_bound)) - self.tolerance)

    def slope(self, score: Array, y: Array) -> Array:
        r = score - within(y, self.target_bound)
        return np.where(np.abs(r) > self.tolerance, np.sign(r), 0.0)

    def pull(self, score: Array, y: Array, step: Step) -> Array:
        """A residual outside the tube moves towards it by at most `step`."""
        r = score - within(y, self.target_bound)
        return np.clip(r - np.clip(r, -self.tolerance, self.tolerance), -step, step)
