"""Euclidean norms of rows: safe for entries of any size where they are sparse, squared as NumPy does it where dense."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.native import as_written, compiled
from sordino.oracle.kernels.vectors import load, plus, times, total, zeros

# a sum of squares within these limits has neither overflowed nor lost an entry that matters
LOW, HIGH = 1e-250, 1e300


@compiled
def row_norms(values: NDArray[Any], starts: NDArray[Any], first: int, last: int, norms: Array) -> None:
    """Norms of rows first..last, row i being values[starts_i : starts_{i+1}]; infinite where an entry is not finite."""
    for i in range(first, last):
        square = 0.0
        for q in range(starts[i], starts[i + 1]):
            x = np.float64(values[q])
            square += x * x
        norms[i] = math.sqrt(square)
        if LOW < square < HIGH:
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


def row_squares(X: NDArray[Any], squares: Array) -> None:
    """|x|^2 of every row of a matrix in C order, to the last bit that of `np.square(X).sum(axis=1)` in doubles."""
    add_squares(X, parts_of(X.shape[1]), np.empty(X.shape[1].bit_length() + 1), squares)


def parts_of(columns: int) -> NDArray[np.intp]:
    return np.array(_parts(columns), dtype=np.intp).reshape(-1, 2)


def _parts(count: int) -> list[tuple[int, int]]:
    """How NumPy adds up numbers that lie side by side: of every part its length, and how many sums end with it.

    More than 128 are two halves, of which the first is a multiple of eight, each added up in the same way.
    """
    if count <= 128:
        return [(count, 0)]
    half = count // 2 // 8 * 8
    *right, (length, sums) = _parts(count - half)
    return [*_parts(half), *right, (length, sums + 1)]


@as_written
def add_squares(X: NDArray[Any], parts: NDArray[np.intp], waiting: Array, squares: Array) -> None:
    """In the order of `_parts`; within a part every eighth together, these in pairs, then what is left over.

    `waiting` has room for the sums to which another is still to be added.
    """
    for i in range(X.shape[0]):
        start, place, top = 0, i * X.shape[1], 0
        for part in range(parts.shape[0]):
            stop, square = start + parts[part, 0], 0.0
            eights = start + parts[part, 0] // 8 * 8
            if eights > start:
                sums = zeros()
                for j in range(start, eights, 8):
                    x = load(X, place + j)
                    sums = plus(sums, times(x, x))
                square = total(sums)
            for j in range(eights, stop):
                y = np.float64(X[i, j])
                square += y * y
            for _ in range(parts[part, 1]):
                top -= 1
                square = waiting[top] + square
            waiting[top] = square
            top += 1
            start = stop
        squares[i] = waiting[0]
