"""The loss with one score per class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.arrays import Array


@dataclass(frozen=True)
class Softmax:
    r"""y in {0, .., K-1}, one score per class.   l = log sum_j exp(a_j) - a_y.

    The gradient in the scores is p - e_y with |p - e_y| <= sqrt(2); the Hessian diag(p) - p p' has norm at most 1/2,
    rank at most K - 1 and trace at most 1 - 1/K.
    """

    classes: int
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"classes is {self.classes}: a softmax loss needs at least two.")

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def hessian_rank(self) -> int:
        return self.classes - 1

    @property
    def at_zero(self) -> float:
        return math.log(self.classes)

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return math.sqrt(2) * row_norm

    def smoothness(self, row_norm: float) -> float:
        return 0.5 * row_norm**2

    def trace(self, row_norm: float) -> float:
        # tr(diag(p) - p p') = 1 - |p|^2
        return (1 - 1 / self.classes) * row_norm**2

    def admit(self, y: Array) -> Array:
        """The number of a class."""
        return np.where((y == np.floor(y)) & (y >= 0) & (y < self.classes), y, np.nan)

    def value(self, score: Array, y: Array) -> Array:
        top = score.max(axis=-1)
        chosen = np.take_along_axis(score, y.astype(int)[..., None], axis=-1)[..., 0]
        # the two scores first: their difference is small where each may be large
        value: Array = (top - chosen) + np.log(np.exp(score - top[..., None]).sum(axis=-1))
        return value

    def slope(self, score: Array, y: Array) -> Array:
        p = _softmax(score)
        chosen = y.astype(int)[..., None]
        np.put_along_axis(p, chosen, np.take_along_axis(p, chosen, axis=-1) - 1, axis=-1)
        return p

    def curvature(self, score: Array, y: Array) -> Array:
        """diag(p) - p p', one matrix per record."""
        p = _softmax(score)
        return p[..., None] * np.eye(self.classes) - p[..., None] * p[..., None, :]


def _softmax(score: Array) -> Array:
    e = np.exp(score - score.max(axis=-1, keepdims=True))
    p: Array = e / e.sum(axis=-1, keepdims=True)
    return p
