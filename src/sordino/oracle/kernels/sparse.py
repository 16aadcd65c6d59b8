"""Inner loops over compressed sparse rows.

Positions and column numbers come as unsigned integers: signed ones would be tested for being negative at every entry,
which halves the speed. Loops over several models take them eight at a time, one cache line per column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled

Array = NDArray[np.float64]
Indices = NDArray[Any]

SOUND, DUPLICATES, BROKEN = range(3)
GROUP = 8


@compiled
def structure(indptr: Indices, indices: Indices, columns: int) -> int:
    """SOUND, or what is wrong with the positions: DUPLICATES of a column in a row, BROKEN when they point outside."""
    seen = np.full(columns, -1, np.int64)
    state = SOUND
    if indptr[0] != 0 or indptr[-1] > indices.size:
        return BROKEN
    for i in range(indptr.size - 1):
        if indptr[i + 1] < indptr[i]:
            return BROKEN
        for q in range(indptr[i], indptr[i + 1]):
            if indices[q] >= columns:
                return BROKEN
            if seen[indices[q]] == i:
                state = DUPLICATES
            seen[indices[q]] = i
    return state


@compiled
def dots(
    data: NDArray[Any], indices: Indices, indptr: Indices, index: NDArray[np.intp], start: int, w: Array, out: Array
) -> None:
    """out_k = <x_i, w> for record i = start + k, or i = index[start + k] where an index is given."""
    for k in range(out.size):
        i = start + k if index.size == 0 else index[start + k]
        dot = 0.0
        for q in range(indptr[i], indptr[i + 1]):
            dot += data[q] * w[indices[q]]
        out[k] = dot


@compiled
def scatter(
    data: NDArray[Any], indices: Indices, indptr: Indices, index: NDArray[np.intp], start: int, c: Array, out: Array
) -> None:
    """out += sum_k c_k x_i, leaving out rows with c_k = 0, whose entries may be NaN."""
    for k in range(c.size):
        if c[k] != 0.0:
            i = start + k if index.size == 0 else index[start + k]
            for q in range(indptr[i], indptr[i + 1]):
                out[indices[q]] += c[k] * data[q]


@compiled
def columns(data: NDArray[Any], indices: Indices, indptr: Indices, start: int, stop: int, c: Array, out: Array) -> None:
    """out_j = <column j, c> for columns start..stop of the transpose: every output is written once, by one thread."""
    for j in range(start, stop):
        total = 0.0
        for q in range(indptr[j], indptr[j + 1]):
            total += data[q] * c[indices[q]]
        out[j] = total


@compiled
def dots_group(
    data: NDArray[Any],
    indices: Indices,
    indptr: Indices,
    index: NDArray[np.intp],
    start: int,
    w: Array,
    out: Array,
) -> None:
    """`dots` for eight models: w is columns x 8, out is 8 x records."""
    sums = np.empty(GROUP)
    for k in range(out.shape[1]):
        i = start + k if index.size == 0 else index[start + k]
        sums[:] = 0.0
        for q in range(indptr[i], indptr[i + 1]):
            for g in range(GROUP):
                sums[g] += data[q] * w[indices[q], g]
        for g in range(GROUP):
            out[g, k] = sums[g]


@compiled
def scatter_group(
    data: NDArray[Any],
    indices: Indices,
    indptr: Indices,
    index: NDArray[np.intp],
    start: int,
    c: Array,
    out: Array,
) -> None:
    """`scatter` for eight models: c is 8 x records, out is columns x 8."""
    weights = np.empty(GROUP)
    for k in range(c.shape[1]):
        largest = 0.0
        for g in range(GROUP):
            weights[g] = c[g, k]
            largest = max(largest, abs(weights[g]))
        if largest > 0.0:
            i = start + k if index.size == 0 else index[start + k]
            for q in range(indptr[i], indptr[i + 1]):
                for g in range(GROUP):
                    out[indices[q], g] += weights[g] * data[q]


@compiled
def columns_group(
    data: NDArray[Any], indices: Indices, indptr: Indices, start: int, stop: int, c: Array, out: Array
) -> None:
    """`columns` for eight models: c is records x 8, out is columns x 8."""
    sums = np.empty(GROUP)
    for j in range(start, stop):
        sums[:] = 0.0
        for q in range(indptr[j], indptr[j + 1]):
            for g in range(GROUP):
                sums[g] += data[q] * c[indices[q], g]
        for g in range(GROUP):
            out[j, g] = sums[g]
