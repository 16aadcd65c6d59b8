"""Inner loops over compressed sparse rows.

Positions and column numbers come as unsigned integers: signed ones would be tested for being negative at every entry,
which halves the speed. Entries of later rows are asked for in advance. For one model, the last entries of a row are
taken as if they were four: a loop over one to three would end where the processor does not expect it, which costs as
much as several entries. Several models are taken eight at a time, one cache line per column, and written out: eight
sums in an array would go through memory at every entry.
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
TILE = 128
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
# how many entries ahead they are asked for
AHEAD = np.uint64(512)


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
def dots(
    data: NDArray[Any], indices: Indices, indptr: Indices, index: NDArray[np.intp], start: int, w: Array, out: Array
) -> None:
    """out_k = <x_i, w> for record i = start + k, or i = index[start + k] where an index is given.

    Four sums by hand take no longer than instructions that gather weights, where there are any.
    """
    for k in range(out.size):
        i = start + k if index.size == 0 else index[start + k]
        q = np.uint64(indptr[i])
        end = np.uint64(indptr[i + 1])
        s0 = s1 = s2 = s3 = 0.0
        if q < end:
            last = end - ONE
            while q + FOUR <= last:
                fetch(data, q + AHEAD)
                fetch(indices, q + AHEAD)
                s0 += data[q] * w[indices[q]]
                s1 += data[q + ONE] * w[indices[q + ONE]]
                s2 += data[q + TWO] * w[indices[q + TWO]]
                s3 += data[q + THREE] * w[indices[q + THREE]]
                q += FOUR
            fetch(data, q + AHEAD)
            fetch(indices, q + AHEAD)
            q1, q2, q3 = min(q + ONE, last), min(q + TWO, last), min(q + THREE, last)
            p1, p2, p3 = data[q1] * w[indices[q1]], data[q2] * w[indices[q2]], data[q3] * w[indices[q3]]
            s0 += data[q] * w[indices[q]]
            s1 += p1 if q + ONE <= last else 0.0
            s2 += p2 if q + TWO <= last else 0.0
            s3 += p3 if q + THREE <= last else 0.0
        out[k] = (s0 + s1) + (s2 + s3)


@compiled
def scatter(
    data: NDArray[Any], indices: Indices, indptr: Indices, index: NDArray[np.intp], start: int, c: Array, out: Array
) -> None:
    """out += sum_k c_k x_i, leaving out rows with c_k = 0, whose entries may be NaN.

    No row has a column twice, which the compiler does not know: four sums are read before any is written. Where a row
    ends before four do, its last entry stands for those that are missing, and the same sum is written again.
    """
    for k in range(c.size):
        # by itself: read from its array, it would be read again after every write
        multiplier = c[k]
        if multiplier != 0.0:
            i = start + k if index.size == 0 else index[start + k]
            q = np.uint64(indptr[i])
            end = np.uint64(indptr[i + 1])
            last = end - ONE
            while q < end:
                q1, q2, q3 = min(q + ONE, last), min(q + TWO, last), min(q + THREE, last)
                j0, j1, j2, j3 = indices[q], indices[q1], indices[q2], indices[q3]
                s0 = out[j0] + multiplier * data[q]
                s1 = out[j1] + multiplier * data[q1]
                s2 = out[j2] + multiplier * data[q2]
                s3 = out[j3] + multiplier * data[q3]
                out[j0] = s0
                out[j1] = s1
                out[j2] = s2
                out[j3] = s3
                q += FOUR


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
