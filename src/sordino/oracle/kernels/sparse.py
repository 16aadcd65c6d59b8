"""Inner loops over compressed sparse rows.

Positions and column numbers come as unsigned integers: signed ones would be tested for being negative at every entry,
which halves the speed, and they are what the compiler makes instructions of that gather several weights. Entries of
later rows are asked for in advance. Several models are taken eight at a time, one cache line per column, and written
out: eight sums in an array would go through memory at every entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled, fetch
from sordino.oracle.kernels.slopes import Parameters, coefficients

Indices = NDArray[Any]

SOUND, DISORDERED, BROKEN = range(3)
GROUP = 8
# rows whose entries stay in the second cache between their two uses
TILE = 256
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
# entries of a cache line, and how many entries ahead it is asked for
LINE, AHEAD = np.uint64(8), np.uint64(512)


@compiled
def structure(indptr: Indices, indices: Indices, columns: int) -> int:
    """SOUND, or what is wrong: BROKEN when positions point outside, DISORDERED when columns of a row do not rise."""
    state = SOUND
    if indptr[0] != 0 or indptr[-1] > indices.size:
        return BROKEN
    for i in range(indptr.size - 1):
        if indptr[i + 1] < indptr[i]:
            return BROKEN
        before = np.int64(-1)
        for q in range(indptr[i], indptr[i + 1]):
            if indices[q] >= columns:
                return BROKEN
            column = np.int64(indices[q])
            if column <= before:
                state = DISORDERED
            before = column
    return state


@compiled
def bring(data: NDArray[Any], indices: Indices, start: np.uint64, stop: np.uint64) -> None:
    """Ask for the entries start..stop, which a later row needs, while this row waits for its weights."""
    while start < stop:
        fetch(data, start)
        fetch(indices, start)
        start += LINE


@compiled
def dots(
    data: NDArray[Any], indices: Indices, indptr: Indices, index: NDArray[np.intp], start: int, w: Array, out: Array
) -> None:
    """out_k = <x_i, w> for record i = start + k, or i = index[start + k] where an index is given."""
    for k in range(out.size):
        i = start + k if index.size == 0 else index[start + k]
        q = np.uint64(indptr[i])
        end = np.uint64(indptr[i + 1])
        bring(data, indices, q + AHEAD, end + AHEAD)
        total = 0.0
        for place in range(q, end):
            total += data[place] * w[indices[place]]
        out[k] = total


@compiled
def scatter(
    data: NDArray[Any], indices: Indices, indptr: Indices, index: NDArray[np.intp], start: int, c: Array, out: Array
) -> None:
    """out += sum_k c_k x_i, leaving out rows with c_k = 0, whose entries may be NaN.

    No row has a column twice, which the compiler does not know: four sums are read before any is written.
    """
    for k in range(c.size):
        if c[k] != 0.0:
            i = start + k if index.size == 0 else index[start + k]
            q = np.uint64(indptr[i])
            end = np.uint64(indptr[i + 1])
            fours = q + (((end - q) >> TWO) << TWO)
            while q < fours:
                j0, j1, j2, j3 = indices[q], indices[q + ONE], indices[q + TWO], indices[q + THREE]
                s0 = out[j0] + c[k] * data[q]
                s1 = out[j1] + c[k] * data[q + ONE]
                s2 = out[j2] + c[k] * data[q + TWO]
                s3 = out[j3] + c[k] * data[q + THREE]
                out[j0] = s0
                out[j1] = s1
                out[j2] = s2
                out[j3] = s3
                q += FOUR
            while q < end:
                out[indices[q]] += c[k] * data[q]
                q += ONE


@compiled
def clipped_sum(
    data: NDArray[Any],
    indices: Indices,
    indptr: Indices,
    index: NDArray[np.intp],
    start: int,
    stop: int,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    w: Array,
    offset: float,
    code: int,
    parameters: Parameters,
    clip: float,
    out: Array,
) -> float:
    """out += sum of s_i scale_i x_i over records start..stop of `index` (of all records where it is empty).

    Returns the sum of the slopes s_i, clipped and weighted.
    """
    room = np.empty(TILE)
    targets = np.empty(TILE)
    multipliers = np.empty(TILE)
    reciprocals = np.empty(TILE)
    shares = np.empty(TILE)
    total = 0.0
    for first in range(start, stop, TILE):
        count = min(TILE, stop - first)
        scores = room[:count]
        dots(data, indices, indptr, index, first, w, scores)
        if index.size == 0:
            total += coefficients(code, parameters, scores, count, y, scales, inverses, weights, first, offset, clip)
        else:
            for r in range(count):
                i = index[first + r]
                targets[r] = y[i]
                multipliers[r] = scales[i]
                reciprocals[r] = inverses[i]
                shares[r] = weights[i]
            total += coefficients(
                code, parameters, scores, count, targets, multipliers, reciprocals, shares, 0, offset, clip
            )
        scatter(data, indices, indptr, index, first, scores, out)
    return total


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
    for k in range(out.shape[1]):
        i = start + k if index.size == 0 else index[start + k]
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for q in range(indptr[i], indptr[i + 1]):
            x = data[q]
            j = indices[q]
            s0 += x * w[j, 0]
            s1 += x * w[j, 1]
            s2 += x * w[j, 2]
            s3 += x * w[j, 3]
            s4 += x * w[j, 4]
            s5 += x * w[j, 5]
            s6 += x * w[j, 6]
            s7 += x * w[j, 7]
        out[0, k] = s0
        out[1, k] = s1
        out[2, k] = s2
        out[3, k] = s3
        out[4, k] = s4
        out[5, k] = s5
        out[6, k] = s6
        out[7, k] = s7


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
    for k in range(c.shape[1]):
        i = start + k if index.size == 0 else index[start + k]
        c0 = c[0, k]
        c1 = c[1, k]
        c2 = c[2, k]
        c3 = c[3, k]
        c4 = c[4, k]
        c5 = c[5, k]
        c6 = c[6, k]
        c7 = c[7, k]
        if c0 == c1 == c2 == c3 == c4 == c5 == c6 == c7 == 0.0:
            continue
        for q in range(indptr[i], indptr[i + 1]):
            x = data[q]
            j = indices[q]
            out[j, 0] += c0 * x
            out[j, 1] += c1 * x
            out[j, 2] += c2 * x
            out[j, 3] += c3 * x
            out[j, 4] += c4 * x
            out[j, 5] += c5 * x
            out[j, 6] += c6 * x
            out[j, 7] += c7 * x


@compiled
def columns_group(
    data: NDArray[Any], indices: Indices, indptr: Indices, start: int, stop: int, c: Array, out: Array
) -> None:
    """out_j = <column j, c> for columns start..stop of the transpose: every output is written once, by one thread.

    For eight models: c is records x 8, out is columns x 8.
    """
    for j in range(start, stop):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for q in range(indptr[j], indptr[j + 1]):
            x = data[q]
            i = indices[q]
            s0 += x * c[i, 0]
            s1 += x * c[i, 1]
            s2 += x * c[i, 2]
            s3 += x * c[i, 3]
            s4 += x * c[i, 4]
            s5 += x * c[i, 5]
            s6 += x * c[i, 6]
            s7 += x * c[i, 7]
        out[j, 0] = s0
        out[j, 1] = s1
        out[j, 2] = s2
        out[j, 3] = s3
        out[j, 4] = s4
        out[j, 5] = s5
        out[j, 6] = s6
        out[j, 7] = s7
