"""What the losses of one score share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.losses.protocol import Array


@dataclass(frozen=True)
class Scalar:
    """What the losses of one score share: convex, a rank-one Hessian, L = slope_bound R, beta = curvature_bound R^2."""

    outputs: ClassVar[int] = 1
    convex: ClassVar[bool] = True
    hessian_rank: ClassVar[int] = 1

    @property
    def slope_bound(self) -> float:
        return 1.0

    @property
    def curvature_bound(self) -> float:
        return math.inf

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return self.slope_bound * row_norm

    def smoothness(self, row_norm: float) -> float:
        return self.curvature_bound * row_norm**2

    def trace(self, row_norm: float) -> float:
        return self.smoothness(row_norm)


def within(y: Array, bound: float) -> Array:
    return y if math.isinf(bound) else np.clip(y, -bound, bound)


def positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}: it must be a positive finite number.")


def positive_or_infinite(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} is {value}: it must be positive, or left infinite when no bound is public.")
