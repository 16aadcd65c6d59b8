"""The hashes by which records are known again, for many rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import bits_of, exact


@exact
def row_hashes(rows: NDArray[np.float64], multipliers: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> None:
    """sum_j a_j m(x_ij) modulo 2^64, see `releases`."""
    for i in range(rows.shape[0]):
        total = np.uint64(0)
        for j in range(rows.shape[1]):
            bits = np.uint64(bits_of(rows[i, j] + 0.0))
            total += multipliers[j] * (bits ^ (bits >> np.uint64(32)))
        hashes[i] = total
