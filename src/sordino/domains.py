"""Where the parameters may lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sordino.arrays import Array


class Domain(Protocol):
    """A convex set around the origin; `project` acts along the last axis."""

    @property
    def radius(self) -> float: ...
    def project(self, w: Array) -> Array: ...


@dataclass(frozen=True)
class Everywhere:
    """All of R^d."""

    @property
    def radius(self) -> float:
        return math.inf

    def project(self, w: Array) -> Array:
        return w


@dataclass(frozen=True)
class Ball:
    """|w| <= radius."""

    radius: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise ValueError(f"radius is {self.radius}: a ball needs a positive finite one.")

    def project(self, w: Array) -> Array:
        norm = np.linalg.norm(w, axis=-1, keepdims=True)
        # a point inside is multiplied by exactly one
        projected: Array = w * (self.radius / np.maximum(norm, self.radius))
        return projected
