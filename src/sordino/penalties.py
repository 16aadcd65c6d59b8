"""Data-independent terms of the objective.

A penalty is the same for neighbouring data sets, so it cancels in every sensitivity: methods evaluate its gradient
exactly, outside the privatised sum, and no noise pays for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sordino.arrays import Array
from sordino.given import require_strength


class Penalty(Protocol):
    """r(w), applied along the last axis; Hessian eigenvalues lie in [convexity, smoothness]."""

    @property
    def convexity(self) -> float: ...
    @property
    def smoothness(self) -> float: ...
    def value(self, w: Array) -> Array: ...
    def gradient(self, w: Array) -> Array: ...
    def add_gradient(self, w: Array, g: Array) -> None:
        """g += grad r(w), in place; without a penalty, no pass over what may be many parameters."""
        ...


@dataclass(frozen=True)
class Ridge:
    r"""r(w) = (mu/2) |w|^2. Strength 0 means no penalty."""

    strength: float = 0.0

    def __post_init__(self) -> None:
        require_strength("strength", self.strength)

    @property
    def convexity(self) -> float:
        return self.strength

    @property
    def smoothness(self) -> float:
        return self.strength

    def value(self, w: Array) -> Array:
        return np.asarray(0.5 * self.strength * (w**2).sum(axis=-1))

    def gradient(self, w: Array) -> Array:
        return self.strength * w

    def add_gradient(self, w: Array, g: Array) -> None:
        if self.strength > 0:
            g += self.gradient(w)


@dataclass(frozen=True)
class BoundedPenalty:
    r"""r(w) = lambda sum_j w_j^2 / (1 + w_j^2): non-convex, r'' in [-lambda/2, 2 lambda]."""

    strength: float = 1e-3

    def __post_init__(self) -> None:
        require_strength("strength", self.strength)

    @property
    def convexity(self) -> float:
        return -self.strength / 2

    @property
    def smoothness(self) -> float:
        return 2 * self.strength

    def value(self, w: Array) -> Array:
        return np.asarray(self.strength * (w**2 / (1 + w**2)).sum(axis=-1))

    def gradient(self, w: Array) -> Array:
        # r'_j = 2 lambda w_j / (1 + w_j^2)^2
        return 2 * self.strength * w / (1 + w**2) ** 2

    def add_gradient(self, w: Array, g: Array) -> None:
        g += self.gradient(w)
