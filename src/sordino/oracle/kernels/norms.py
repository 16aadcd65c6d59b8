"""Euclidean norms of rows, safe for entries of any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled

# a sum of squares within these limits has neither overflowed nor lost an entry that matters
_LOW, _HIGH = 1e-250, 1e300


@compiled
def row_norms(values: NDArray[Any], starts: NDArray[Any], first: int, last: int, norms: Array) -> None:
    """Norms of rows first..last, row i being values[starts_i : starts_{i+1}]; infinite where an entry is not finite."""
    for i in range(first, last):
        square = 0.0
        for q in range(starts[i], starts[i + 1]):
            x = np.float64(values[q])
            square += x * x
        norms[i] = math.sqrt(square)
        if _LOW < square < _HIGH:
            continue
        # |x| = m |x / m|,   m = max_j |x_j|
        largest = 0.0
        for q in range(starts[i], starts[i + 1]):
            x = abs(np.float64(values[q]))
            largest = max(largest, x) if x < math.inf else math.inf
        square = 0.0
        if 0.0 < largest < math.inf:
            for q in range(starts[i], starts[i + 1]):
                x = np.float64(values[q]) / largest
                square += x * x
        norms[i] = largest * math.sqrt(square) if largest < math.inf else math.inf
