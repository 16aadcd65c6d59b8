r"""Where a linear model was trained: rows beyond are predicted as if they were at its edge, as they were trained on.

    x  ->  m + f (x - m),     f = min(1, 1/|(x - m) A|)

m and A come from the records, as releases that were paid for with the rest; the map itself is public, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.arrays import Array


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
            squares = (((X - self.centre) * self.scale) ** 2).sum(axis=1)
        # a row of norm 1 at most, and one that rounding makes a little less than 0, is left alone
        factors: Array = 1 / np.sqrt(np.maximum(squares, 1.0))
        return factors
