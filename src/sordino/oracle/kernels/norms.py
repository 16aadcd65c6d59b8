"""Euclidean norms of rows, safe for entries of any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled

Array = NDArray[np.float64]

# a sum of squares within these limits has neither overflowed nor lost an entry that matters
_LOW, _HIGH = 1e-250, 1e300


@compiled
def _norm(values: NDArray[Any], first: int, last: int) -> float:
    """Norm of values[first:last]; infinite when it holds a NaN or an infinity."""
    square = 0.0
    for q in range(first, last):
        x = np.float64(values[q])
        square += x * x
    if _LOW < square < _HIGH:
        return math.sqrt(square)
    # |x| = m |x / m|,   m = max_j |x_j|
    largest = 0.0
    for q in range(first, last):
        x = abs(np.float64(values[q]))
        if not x < math.inf:
            return math.inf
        largest = max(largest, x)
    if largest == 0.0:
        return 0.0
    square = 0.0
    for q in range(first, last):
        x = np.float64(values[q]) / largest
        square += x * x
    return largest * math.sqrt(square)


@compiled
def dense_norms(values: NDArray[Any], columns: int, start: int, stop: int, norms: Array) -> None:
    """Rows start..stop of a matrix in C order, given flat."""
    for i in range(start, stop):
        norms[i] = _norm(values, i * columns, (i + 1) * columns)


@compiled
def sparse_norms(values: NDArray[Any], indptr: NDArray[Any], start: int, stop: int, norms: Array) -> None:
    """Rows start..stop of compressed sparse rows without duplicates."""
    for i in range(start, stop):
        norms[i] = _norm(values, indptr[i], indptr[i + 1])
