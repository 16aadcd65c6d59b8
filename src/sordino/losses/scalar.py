"""What the losses of one score share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.losses.elementary import Formula


@dataclass(frozen=True)
class Scalar(ABC):
    """A convex loss phi(a, y) of one score: a rank-one Hessian, L = slope_bound R, beta = curvature_bound R^2.

    phi, phi' and phi'' are functions of a score, a target within the loss's bound and the parameters it names. They are
    written with `sordino.losses.elementary` alone, for the kernels compile them as they stand.
    """

    outputs: ClassVar[int] = 1
    convex: ClassVar[bool] = True
    hessian_rank: ClassVar[int] = 1
    parameters: ClassVar[tuple[str, ...]] = ()
    """The fields that the formulas take, in their order."""

    phi: ClassVar[Formula]
    phi1: ClassVar[Formula]
    """phi'(a)"""
    phi2: ClassVar[Formula]
    """phi''(a)"""

    @property
    @abstractmethod
    def at_zero(self) -> float: ...

    @abstractmethod
    def admit(self, y: Array) -> Array: ...

    @property
    def slope_bound(self) -> float:
        return 1.0

    @property
    def curvature_bound(self) -> float:
        return math.inf

    @property
    def settings(self) -> tuple[float, ...]:
        """The parameters' values."""
        return tuple(float(getattr(self, name)) for name in self.parameters)

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return self.slope_bound * row_norm

    def smoothness(self, row_norm: float) -> float:
        return self.curvature_bound * row_norm**2

    def trace(self, row_norm: float) -> float:
        return self.smoothness(row_norm)

    def value(self, score: Array, y: Array) -> Array:
        return np.asarray(self.phi(score, self.within(y), *self.settings))

    def slope(self, score: Array, y: Array) -> Array:
        return np.asarray(self.phi1(score, self.within(y), *self.settings))

    def curvature(self, score: Array, y: Array) -> Array:
        return np.asarray(self.phi2(score, self.within(y), *self.settings))

    def within(self, y: Array) -> Array:
        """Targets clipped to the bound, where the loss has one."""
        bound = getattr(self, "target_bound", math.inf)
        return y if math.isinf(bound) else np.clip(y, -bound, bound)


def labels(y: Array) -> Array:
    """-1 and +1, and nothing else."""
    return np.where(np.abs(y) == 1, y, np.nan)


def numbers(y: Array) -> Array:
    """Whatever is finite."""
    return np.where(np.isfinite(y), y, np.nan)


def positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}: it must be a positive finite number.")


def positive_or_infinite(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} is {value}: it must be positive, or left infinite when no bound is public.")
