"""Rows that lie in the columns of a table: written one after the other, or added up without being written down."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.dense import clipped_sum
from sordino.oracle.kernels.native import as_written, compiled, fetch, pointer, turn_eight
from sordino.oracle.kernels.norms import HIGH, LOW, add_squares
from sordino.oracle.kernels.slopes import Parameters

Bounds = tuple[float, float, float, float, float, float]
"""A factor, the bound on a raw row, the intercept, the least multiplier, the slack for rounding, the least norm."""


@compiled
def write_tiles(columns: NDArray[np.intp], start: int, stop: int, tile: int, out: NDArray[Any]) -> None:
    """out[i, k] = the i-th number at address columns[k], for rows start..stop."""
    line = 64 // out.itemsize
    eights = columns.size >= 8 and stop - start >= 8
    for first in range(start, stop, tile):
        last = min(first + tile, stop)
        for k in range(columns.size):
            column = numba.carray(pointer(columns[k]), out.shape[0], out.dtype)
            # no processor looks ahead in as many columns as a table has; beyond the end nothing is fetched
            for i in range(first + 2 * tile, last + 2 * tile, line):
                fetch(column, i)
            if not eights:
                for i in range(first, last):
                    out[i, k] = column[i]
            elif k % 8 == 7 or k == columns.size - 1:
                # what is left over is turned together with some that were before
                for i in range(first, last, 8):
                    turn_eight(columns, k - 7, out, min(i, stop - 8))


@as_written
def bound_rows(
    rows: NDArray[Any], squares: Array, counts: Array, bounds: Bounds, scales: Array, inverses: Array
) -> bool:
    """`bounded_records` of rows with these squares, to the last bit; whether none of them asks for more care.

    `counts` is 1 for a record, and 0 for one that counts for nothing.
    """
    factor, bound, intercept, least, slack, smallest = bounds
    for i in range(rows.shape[0]):
        norm = math.sqrt(squares[i])
        if not LOW < squares[i] < HIGH:
            norm = 0.0
            for j in range(rows.shape[1]):
                x = abs(np.float64(rows[i, j]))
                norm = (x if x > norm else norm) if x < math.inf else math.inf
            # neither a row of zeros nor one with a number that is not finite
            if 0.0 < norm < math.inf:
                return False
        scale = bound / norm
        scale = factor * (scale if scale < 1.0 else 1.0)
        scale = 0.0 if scale < least or norm == math.inf else scale
        length = scale * norm if scale > 0.0 else 0.0
        norm = math.hypot(length, intercept) * slack
        scales[i] = scale
        inverses[i] = counts[i] / (norm if norm > smallest else smallest)
    return True


@compiled
def clipped_sum_of_columns(
    columns: NDArray[np.intp],
    edges: NDArray[np.intp],
    start: int,
    stop: int,
    y: Array,
    counts: Array,
    weights: Array,
    bounds: Bounds,
    parts: NDArray[np.intp],
    strip: int,
    room: NDArray[Any],
    rows: NDArray[Any],
    w: Array,
    offset: float,
    code: int,
    parameters: Parameters,
    clip: float,
    out: Array,
) -> float:
    """`clipped_sum` over records start..stop; not a number if one of their rows must be measured with more care.

    Records edges[p]..edges[p + 1] are at the addresses columns[p]. A tile of rows at a time is written to `room`, of
    which `rows` is a view to read from: it stays in the second cache while it is measured, scored and added up.
    """
    tile = room.shape[0]
    here = np.empty(columns.shape[1], np.intp)
    squares, scales, inverses, waiting = np.empty(tile), np.empty(tile), np.empty(tile), np.empty(64)
    every = np.empty(0, np.intp)
    piece = 0
    total = 0.0
    for first in range(start, stop, tile):
        last = min(first + tile, stop)
        count = last - first
        done = first
        while done < last:
            while edges[piece + 1] <= done:
                piece += 1
            upto = min(last, edges[piece + 1])
            for k in range(here.size):
                here[k] = columns[piece, k] + (done - edges[piece]) * room.itemsize
            write_tiles(here, 0, upto - done, strip, room[done - first : upto - first])
            done = upto
        X = rows[:count]
        add_squares(X, parts, waiting, squares)
        if not bound_rows(X, squares, counts[first:last], bounds, scales, inverses):
            return math.nan
        of_records = y[first:last], scales, inverses, weights[first:last]
        total += clipped_sum(X, every, 0, count, *of_records, w, offset, code, parameters, clip, tile, 0, out)
    return total
