r"""How a raw feature row becomes a row of bounded norm, record by record, with nothing measured.

    x  ->  ( s x min(1, bound/|x|),  rho )        s = sqrt(R^2 - rho^2) / bound,    R = the model's row norm

`rho` is the constant column of the intercept; the joint norm is at most R. The map is linear for rows within the
bound, so trained weights translate back to raw features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.arrays import Array


@dataclass(frozen=True)
class Rows:
    """`bound` on a raw row's norm (rows above it are scaled down), the intercept's column, and the norm R after."""

    bound: float
    intercept: float = 0.0
    norm: float = 1.0

    def __post_init__(self) -> None:
        if self.bound is None or not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(
                f"row_norm is {self.bound}, but it is required to be a positive finite number: a bound on each "
                "record's Euclidean norm that does not come from the data itself (records above it are scaled down)."
            )
        if not 0 <= self.intercept < self.norm:
            raise ValueError(
                f"intercept is {self.intercept}: the constant column lies in [0, {self.norm}), the norm of a row; "
                "0 means no intercept."
            )

    @property
    def factor(self) -> float:
        """s: what a raw row within the bound is multiplied by."""
        return math.sqrt(self.norm**2 - self.intercept**2) / self.bound

    @property
    def has_intercept(self) -> bool:
        return self.intercept > 0

    def scales(self, norms: Array) -> Array:
        """The multiplier of each raw row of the given norm; 0, which drops the features, where it is not finite."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            scale = self.factor * np.minimum(1.0, self.bound / norms)
        return np.where(np.isfinite(norms), np.where(norms > 0, scale, self.factor), 0.0)

    def to_raw(self, w: Array, outputs: int) -> tuple[Array, Array]:
        """Coefficients (outputs x features) and intercepts (outputs) for raw rows, from trained weights."""
        table = w.reshape(outputs, -1)
        if not self.has_intercept:
            return table * self.factor, np.zeros(outputs)
        return table[:, :-1] * self.factor, table[:, -1] * self.intercept
