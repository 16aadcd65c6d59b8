r"""Where a linear model was trained: rows beyond are predicted as if they were at its edge, as they were trained on.

    x  ->  m + f (x - m),     f = min(1, 1/|(x - m) A|)

m and A come from the records, as releases that were paid for with the rest; the map itself is public, row by row.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.arrays import Array
from sordino.row_by_row import Product, squared_lengths

_BLOCK = 1 << 16
"""Numbers that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class RowBound:
    """The centre m, and A: a diagonal where it is a vector."""

    centre: Array
    scale: Array

    def __post_init__(self) -> None:
        d = len(self.centre)
        if self.centre.ndim != 1 or self.scale.shape not in ((d,), (d, d)):
            raise ValueError(
                f"the bound on rows has shapes {self.centre.shape} and {self.scale.shape}, which do not fit."
            )
        if not (np.isfinite(self.centre).all() and np.isfinite(self.scale).all()):
            raise ValueError("the bound on rows does not consist of finite numbers.")

    def kept(self, X: Any) -> Any:
        """Rows within the bound. Sparse ones stay sparse where there is no centre."""
        f = self._factors(X)[:, None]
        if not hasattr(X, "tocsr"):
            return self.centre + f * (X - self.centre)
        scaled = X.multiply(f).tocsr()
        return scaled if not self.centre.any() else scaled.toarray() + (1 - f) * self.centre

    def _factors(self, X: Any) -> Array:
        if self.scale.ndim > 1:
            squares = (np.asarray(X @ self.scale - self.centre @ self.scale) ** 2).sum(axis=1)
        elif hasattr(X, "tocsr"):
            s = self.scale**2
            squares = X.tocsr().power(2) @ s - 2 * (X @ (s * self.centre)) + s @ self.centre**2
        else:
            squares = squared_lengths((X - self.centre) * self.scale)
        return _factors(squares)


def _factors(squares: Array) -> Array:
    """f from |(x - m) A|^2. A row of norm 1 at most, or one that rounding makes less than 0, is left alone."""
    factors: Array = 1 / np.sqrt(np.maximum(squares, 1.0))
    return factors


def linear_scores(rows: Any, coef: Array, bound: RowBound | None, product: Product = operator.matmul) -> Array:
    """<x, w> for every row and every row w of `coef`, rows kept within the bound.

    Rows of single precision are multiplied as they are, and nothing of the size of all rows is made.
    """
    weights = coef.T.astype(np.float32) if rows.dtype == np.float32 else coef.T
    if hasattr(rows, "tocsr"):
        found = product(rows if bound is None else bound.kept(rows), weights)
        return np.asarray(found, dtype=np.float64)
    if bound is None:
        return np.asarray(product(rows, weights), dtype=np.float64)
    centre, scale, scores = (
        *(a.astype(rows.dtype) for a in (bound.centre, bound.scale)),
        np.empty((len(rows), len(coef))),
    )
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        # <m + f (x - m), w> = <m, w> + f <x - m, w>
        moved = rows[start : start + step] - centre
        scores[start : start + step] = product(moved, weights)
        moved = np.multiply(moved, scale, out=moved) if scale.ndim == 1 else product(moved, scale)
        scores[start : start + step] *= _factors(squared_lengths(moved))[:, None]
    return np.asarray(scores + coef @ bound.centre)
