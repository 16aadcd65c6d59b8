"""Matrix products, and lengths, in which a row's result is its own to the last bit, whatever rows are beside it.

Libraries for matrix products choose their order of additions by the shape of a matrix and by a row's place in it. Where
a last bit decides something whole, which side of a kink or of an edge a record is on, many records could change sides
together when one is added: then sums over records move by more than that record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array

Real = NDArray[np.float64] | NDArray[np.float32]
Product = Callable[[Any, Real], Array]
"""Rows times a matrix."""

_BLOCK = 1 << 15
"""Results that are worked on at a time."""

_BUFFER = 4096
"""Numbers of a row that NumPy adds up at a time: half of its buffers."""


def row_by_row(rows: Any, matrix: Real) -> Array:
    """rows @ matrix, `matrix` with a column per result, or a vector."""
    if hasattr(rows, "tocsr"):
        # goes through the entries of one row after the other
        return np.asarray(rows.tocsr() @ matrix)
    columns = np.asarray(matrix, dtype=np.float64).reshape(len(matrix), -1)
    results = np.empty((columns.shape[1], len(rows)))
    step = max(1, _BLOCK // max(1, len(results)))
    for start in range(0, len(rows), step):
        some = results[:, start : start + step]
        some[...] = 0.0
        # the same operations, number by number, for every row
        for weights, values in zip(columns, rows[start : start + step].T, strict=True):
            some += weights[:, None] * values
    return np.ascontiguousarray(results.T).reshape(len(rows), *matrix.shape[1:])


def squared_lengths(rows: Real) -> Array:
    """|x|^2 for every row x, which has its numbers side by side: others a library adds up in another order if alone."""
    # a row may be too long for a double, and a warning would tell that there is such a record
    with np.errstate(over="ignore", under="ignore"):
        beside: Any = np.ascontiguousarray(rows)
        squares = np.zeros(len(rows), rows.dtype)
        # a sum of products without the products; where its buffers end, a row alone is added up in another order
        for first in range(0, rows.shape[1], _BUFFER):
            some = beside[:, first : first + _BUFFER]
            squares += np.einsum("ij,ij->i", some, some)
        return squares
