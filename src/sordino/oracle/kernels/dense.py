"""The clipped sum of gradients of one model, in one pass over a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled, fetch
from sordino.oracle.kernels.slopes import Parameters, coefficients
from sordino.oracle.kernels.vectors import column, load, multiply_add, plus, spread, store, total, totals, widest, zeros


@compiled
def score_rows(
    X: NDArray[Any], places: NDArray[np.intp], count: int, ahead: int, in_order: bool, w: Array, dots: Array
) -> None:
    """dots_r = <row r, w> for r < count = 4k, row r beginning at X's flat position places_r; four rows at a time.

    Those `ahead` of them are asked for meanwhile: they follow in X if the rows are `in_order`, in `places` otherwise.
    """
    widest()
    d = X.shape[1]
    fours = d // 4 * 4
    line = 64 // X.itemsize
    for r in range(0, count, 4):
        if ahead > 0 and in_order:
            for j in range(0, 4 * d, line):
                fetch(X, places[r] + ahead * d + j)
        elif ahead > 0:
            for k in range(r + ahead, r + ahead + 4):
                for j in range(0, d, line):
                    fetch(X, places[k] + j)
        p0 = places[r]
        p1 = places[r + 1]
        p2 = places[r + 2]
        p3 = places[r + 3]
        a0 = zeros()
        a1 = zeros()
        a2 = zeros()
        a3 = zeros()
        for j in range(0, fours, 4):
            v = load(w, j)
            a0 = multiply_add(a0, load(X, p0 + j), v)
            a1 = multiply_add(a1, load(X, p1 + j), v)
            a2 = multiply_add(a2, load(X, p2 + j), v)
            a3 = multiply_add(a3, load(X, p3 + j), v)
        scores = totals(a0, a1, a2, a3)
        for j in range(fours, d):
            scores = multiply_add(scores, column(X, p0 + j, p1 + j, p2 + j, p3 + j), spread(w[j]))
        store(dots, r, scores)


@compiled
def add_rows(X: NDArray[Any], places: NDArray[np.intp], count: int, dots: Array, out: Array) -> None:
    """out += sum_r dots_r row_r over r < count = 8k, eight rows at a time; `places` and `dots` are overwritten."""
    widest()
    d = X.shape[1]
    fours = d // 4 * 4
    # rows with coefficient 0 are left out: they cost nothing, and 0 * NaN is never formed
    omitted = 0
    for r in range(count):
        omitted += int(dots[r] == 0.0)
    padded = count
    if omitted > 0:
        active = 0
        for r in range(count):
            places[active] = places[r]
            dots[active] = dots[r]
            active += int(dots[r] != 0.0)
        padded = (active + 7) // 8 * 8
        for r in range(active, padded):
            places[r] = places[0]
            dots[r] = 0.0
    for r in range(0, padded, 8):
        # one by one: unpacking tuples doubles the time to compile
        p0 = places[r]
        p1 = places[r + 1]
        p2 = places[r + 2]
        p3 = places[r + 3]
        p4 = places[r + 4]
        p5 = places[r + 5]
        p6 = places[r + 6]
        p7 = places[r + 7]
        c0 = spread(dots[r])
        c1 = spread(dots[r + 1])
        c2 = spread(dots[r + 2])
        c3 = spread(dots[r + 3])
        c4 = spread(dots[r + 4])
        c5 = spread(dots[r + 5])
        c6 = spread(dots[r + 6])
        c7 = spread(dots[r + 7])
        for j in range(0, fours, 4):
            near = multiply_add(zeros(), c0, load(X, p0 + j))
            far = multiply_add(load(out, j), c1, load(X, p1 + j))
            near = multiply_add(near, c2, load(X, p2 + j))
            far = multiply_add(far, c3, load(X, p3 + j))
            near = multiply_add(near, c4, load(X, p4 + j))
            far = multiply_add(far, c5, load(X, p5 + j))
            near = multiply_add(near, c6, load(X, p6 + j))
            far = multiply_add(far, c7, load(X, p7 + j))
            store(out, j, plus(near, far))
    for j in range(fours, d):
        sums = zeros()
        for r in range(0, padded, 4):
            x = column(X, places[r] + j, places[r + 1] + j, places[r + 2] + j, places[r + 3] + j)
            sums = multiply_add(sums, x, load(dots, r))
        out[j] += total(sums)


@compiled
def clipped_sum(
    X: NDArray[Any],
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
    tile: int,
    ahead: int,
    out: Array,
) -> float:
    """out += sum of s_i scale_i x_i over records start..stop of `index` (of all records where it is empty).

    A tile of rows, 8k of them, stays in the nearest cache between its two uses: for the scores, which four rows take
    with one pass over the weights, and for the sum, which takes eight at a time. Rows `ahead` of those that are scored
    are asked for in advance, so that the memory is busy while slopes are computed; long rows (`ahead` = 0) keep it
    streaming by themselves. Returns the sum of the slopes s_i, clipped and weighted.
    """
    d = X.shape[1]
    whole = index.size == 0
    places = np.empty(tile + ahead, np.intp)
    dots = np.empty(tile)
    targets = np.empty(tile)
    multipliers = np.empty(tile)
    reciprocals = np.empty(tile)
    shares = np.empty(tile)
    total_of_slopes = 0.0
    for first in range(start, stop, tile):
        count = min(tile, stop - first)
        if whole and count == tile:
            for r in range(tile):
                places[r] = (first + r) * d
            score_rows(X, places, tile, ahead, True, w, dots)
            if ahead > 0:
                for i in range(first + ahead, first + ahead + tile, 8):
                    fetch(y, i)
                    fetch(scales, i)
                    fetch(inverses, i)
                    fetch(weights, i)
            total_of_slopes += coefficients(
                code, parameters, dots, tile, y, scales, inverses, weights, first, offset, clip
            )
            add_rows(X, places, tile, dots, out)
        else:
            for r in range(tile + ahead):
                i = min(first + r, stop - 1)
                places[r] = (i if whole else index[i]) * d
            for r in range(count):
                i = first + r if whole else index[first + r]
                targets[r] = y[i]
                multipliers[r] = scales[i]
                reciprocals[r] = inverses[i]
                shares[r] = weights[i]
            # the last tile is filled up, to eight, with records that count for nothing
            filled = (count + 7) // 8 * 8
            for r in range(count, filled):
                targets[r] = 0.0
                multipliers[r] = 0.0
                reciprocals[r] = 0.0
                shares[r] = 0.0
            score_rows(X, places, filled, ahead, False, w, dots)
            total_of_slopes += coefficients(
                code, parameters, dots, filled, targets, multipliers, reciprocals, shares, 0, offset, clip
            )
            add_rows(X, places, filled, dots, out)
    return total_of_slopes
