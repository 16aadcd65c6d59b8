r"""How a raw feature row becomes a row of bounded norm, record by record, with nothing measured.

    x  ->  ( s x min(1, bound/|x|),  rho )        s = sqrt(R^2 - rho^2) / bound,    R = the model's row norm

`rho` is the constant column of the intercept; the joint norm is at most R. The map is linear for rows within the
bound, so trained weights translate back to raw features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from sordino.arrays import Array
from sordino.given import require_number
from sordino.row_bound import RowBound


@dataclass(frozen=True)
class Rows:
    """`bound` on a raw row's norm (rows above it are scaled down), the intercept's column, and the norm R after."""

    bound: float
    intercept: float = 0.0
    norm: float = 1.0

    def __post_init__(self) -> None:
        if self.bound is not None:
            require_number("row_norm", self.bound)
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
        return self.length / self.bound

    @property
    def as_given(self) -> bool:
        """Whether `bound` is about the rows as they were given, and not as `applied` makes them."""
        return True

    @property
    def has_intercept(self) -> bool:
        return self.intercept > 0

    @property
    def length(self) -> float:
        """sqrt(R^2 - rho^2): the most that the features of a row measure."""
        return math.sqrt(self.norm**2 - self.intercept**2)

    def applied(self, X: Any) -> Any:
        """The rows that `bound` is about."""
        return X

    def scales(self, norms: Array) -> Array:
        """The multiplier of each raw row of the given norm; 0, which drops the features, where it is not finite."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            scale = self.factor * np.minimum(1.0, self.bound / norms)
        return np.where(np.isfinite(norms), np.where(norms > 0, scale, self.factor), 0.0)

    def joined(self, features: Array, slopes: Array) -> Array:
        """The gradient in the parameters: sums over raw features, and rho times the sums of slopes."""
        return np.column_stack([features, self.intercept * slopes]) if self.has_intercept else features

    def to_raw(self, w: Array, outputs: int) -> tuple[Array, Array]:
        """Coefficients (outputs x features) and intercepts (outputs) for raw rows, from trained weights."""
        table = w.reshape(outputs, -1)
        if not self.has_intercept:
            return table * self.factor, np.zeros(outputs)
        return table[:, :-1] * self.factor, table[:, -1] * self.intercept


@dataclass(frozen=True, eq=False)
class PreparedRows(Rows):
    """The same for rows x -> (x - centre) matrix, a diagonal where `matrix` is a vector; the bound is then 1.

    Both come from the records, released with noise: they are no part of a certificate's public facts.
    """

    bound: float = 1.0
    centre: Array = field(default_factory=lambda: np.zeros(0))
    matrix: Array = field(default_factory=lambda: np.ones(0))

    @staticmethod
    def of(rows: Rows, columns: int) -> PreparedRows:
        """What a row is before anything is known about it: x / bound."""
        return PreparedRows(1.0, rows.intercept, rows.norm, np.zeros(columns), np.full(columns, 1 / rows.bound))

    def applied(self, X: Any) -> Any:
        if hasattr(X, "tocsr"):
            if self.centre.any() or self.matrix.ndim > 1:
                raise ValueError("sparse rows are neither centred nor whitened, which would make them dense.")
            scaled = (X @ sparse.diags_array(self.matrix)).tocsr()
            if not self.matrix.all():
                scaled.eliminate_zeros()
            return scaled
        # a number that is not finite spoils its own row alone, and a warning would tell that there is one
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.subtract(X, self.centre, dtype=np.float64)
            # a matrix product may round a row differently beside others, which could decide something where a row lies
            # exactly at an edge; the matrix has noise in it, so that none does but by a chance that no budget has
            # where it is: rows may take half of the memory there is
            return np.multiply(moved, self.matrix, out=moved) if self.matrix.ndim == 1 else moved @ self.matrix

    @property
    def as_given(self) -> bool:
        return False

    @property
    def row_bound(self) -> RowBound:
        """Beyond it rows were scaled down."""
        return RowBound(self.centre, self.matrix / self.bound)

    def to_given(self, w: Array, outputs: int, rows: Rows) -> Array:
        """Weights for `rows`, from weights that were trained on prepared ones: the same scores, row by row."""
        table = w.reshape(outputs, -1)
        features = table[:, : len(self.centre)]
        moved = features * self.matrix if self.matrix.ndim == 1 else features @ self.matrix.T
        found = table.copy()
        found[:, : len(self.centre)] = moved * (self.factor / rows.factor)
        if self.has_intercept:
            constant = self.intercept * table[:, -1] - self.factor * (moved @ self.centre)
            found[:, -1] = constant / rows.intercept
        return found.ravel()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PreparedRows)
            and (self.bound, self.intercept, self.norm) == (other.bound, other.intercept, other.norm)
            and np.array_equal(self.centre, other.centre)
            and np.array_equal(self.matrix, other.matrix)
        )

    __hash__ = None  # type: ignore[assignment]
