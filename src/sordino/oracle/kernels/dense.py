"""The clipped sum of gradients of one model, in one pass over a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled, fetch
from sordino.oracle.kernels.slopes import Parameters, coefficients
from sordino.oracle.kernels.vectors import (
    as_it_stands,
    first_lanes,
    load,
    load_first,
    multiply_add,
    plus,
    spread,
    store,
    store_first,
    totals,
    widest,
    zeros,
)

SHORT = 96
"""Bytes of a row. Eight shorter ones that follow each other are a piece of memory that is read in its order."""

MANY = 2048
"""Columns whose weights do not stay in the nearest cache beside a row."""


@compiled
def score_rows(
    X: NDArray[Any], places: NDArray[np.intp], count: int, ahead: int, in_line: bool, w: Array, dots: Array
) -> None:
    """dots_r = <row r, w> for r < count = 8k, row r beginning at X's flat position places_r.

    Rows `in_line` follow one another in X: taken one by one, they come as fast as the memory can send them. Short ones,
    and rows elsewhere, are taken eight at a time, with the same bits; of the latter those `ahead` are asked for.
    """
    widest()
    as_it_stands()
    d = X.shape[1]
    eights = d // 8 * 8
    rest = first_lanes(d - eights)
    last = load_first(w, eights, rest)
    line = 64 // X.itemsize
    sums = np.empty(64)
    begin = places[0]
    one_by_one = in_line and d * X.itemsize >= SHORT and d <= MANY
    for r in range(0, count, 8):
        if one_by_one:
            for k in range(8):
                # not from `places`: a processor that has just stored a sum is careful with what it loads, and would
                # not look ahead to the next rows
                place = begin + (r + k) * d
                score = zeros()
                for j in range(0, eights, 8):
                    score = multiply_add(score, load(X, place + j), load(w, j))
                if eights < d:
                    score = multiply_add(score, load_first(X, place + eights, rest), last)
                store(sums, 8 * k, score)
        else:
            if ahead > 0:
                for k in range(r + ahead, r + ahead + 8):
                    for j in range(0, d, line):
                        fetch(X, places[k] + j)
            # one by one: unpacking tuples doubles the time to compile
            if in_line:
                p0 = begin + r * d
                p1 = p0 + d
                p2 = p1 + d
                p3 = p2 + d
                p4 = p3 + d
                p5 = p4 + d
                p6 = p5 + d
                p7 = p6 + d
            else:
                p0 = places[r]
                p1 = places[r + 1]
                p2 = places[r + 2]
                p3 = places[r + 3]
                p4 = places[r + 4]
                p5 = places[r + 5]
                p6 = places[r + 6]
                p7 = places[r + 7]
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zeros()
            for j in range(0, eights, 8):
                v = load(w, j)
                a0 = multiply_add(a0, load(X, p0 + j), v)
                a1 = multiply_add(a1, load(X, p1 + j), v)
                a2 = multiply_add(a2, load(X, p2 + j), v)
                a3 = multiply_add(a3, load(X, p3 + j), v)
                a4 = multiply_add(a4, load(X, p4 + j), v)
                a5 = multiply_add(a5, load(X, p5 + j), v)
                a6 = multiply_add(a6, load(X, p6 + j), v)
                a7 = multiply_add(a7, load(X, p7 + j), v)
            if eights < d:
                a0 = multiply_add(a0, load_first(X, p0 + eights, rest), last)
                a1 = multiply_add(a1, load_first(X, p1 + eights, rest), last)
                a2 = multiply_add(a2, load_first(X, p2 + eights, rest), last)
                a3 = multiply_add(a3, load_first(X, p3 + eights, rest), last)
                a4 = multiply_add(a4, load_first(X, p4 + eights, rest), last)
                a5 = multiply_add(a5, load_first(X, p5 + eights, rest), last)
                a6 = multiply_add(a6, load_first(X, p6 + eights, rest), last)
                a7 = multiply_add(a7, load_first(X, p7 + eights, rest), last)
            store(sums, 0, a0)
            store(sums, 8, a1)
            store(sums, 16, a2)
            store(sums, 24, a3)
            store(sums, 32, a4)
            store(sums, 40, a5)
            store(sums, 48, a6)
            store(sums, 56, a7)
        store(dots, r, totals(sums))


@compiled
def add_rows(
    X: NDArray[Any], places: NDArray[np.intp], count: int, ahead: int, in_line: bool, dots: Array, out: Array
) -> None:
    """out += sum_r dots_r row_r over r < count = 8k, eight rows at a time; `places` and `dots` are overwritten.

    Of rows `in_line` those `ahead` are asked for meanwhile.
    """
    widest()
    as_it_stands()
    d = X.shape[1]
    eights = d // 8 * 8
    rest = first_lanes(d - eights)
    begin = places[0]
    line = 64 // X.itemsize
    # rows with coefficient 0 are left out: they cost nothing, and 0 * NaN is never formed
    omitted = 0
    for r in range(count):
        omitted += int(dots[r] == 0.0)
    padded = count
    if omitted > 0:
        active = 0
        for r in range(count):
            places[active] = begin + r * d if in_line else places[r]
            dots[active] = dots[r]
            active += int(dots[r] != 0.0)
        padded = (active + 7) // 8 * 8
        in_line = False
        for r in range(active, padded):
            places[r] = places[0]
            dots[r] = 0.0
    last = zeros()
    for r in range(0, padded, 8):
        # one by one: unpacking tuples doubles the time to compile
        if in_line:
            p0 = begin + r * d
            if ahead > 0:
                for j in range(p0 + ahead * d, p0 + ahead * d + 8 * d, line):
                    fetch(X, j)
            p1 = p0 + d
            p2 = p1 + d
            p3 = p2 + d
            p4 = p3 + d
            p5 = p4 + d
            p6 = p5 + d
            p7 = p6 + d
        else:
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
        for j in range(0, eights, 8):
            near = multiply_add(zeros(), c0, load(X, p0 + j))
            far = multiply_add(load(out, j), c1, load(X, p1 + j))
            near = multiply_add(near, c2, load(X, p2 + j))
            far = multiply_add(far, c3, load(X, p3 + j))
            near = multiply_add(near, c4, load(X, p4 + j))
            far = multiply_add(far, c5, load(X, p5 + j))
            near = multiply_add(near, c6, load(X, p6 + j))
            far = multiply_add(far, c7, load(X, p7 + j))
            store(out, j, plus(near, far))
        if eights < d:
            near = multiply_add(zeros(), c0, load_first(X, p0 + eights, rest))
            last = multiply_add(last, c1, load_first(X, p1 + eights, rest))
            near = multiply_add(near, c2, load_first(X, p2 + eights, rest))
            last = multiply_add(last, c3, load_first(X, p3 + eights, rest))
            near = multiply_add(near, c4, load_first(X, p4 + eights, rest))
            last = multiply_add(last, c5, load_first(X, p5 + eights, rest))
            near = multiply_add(near, c6, load_first(X, p6 + eights, rest))
            last = multiply_add(last, c7, load_first(X, p7 + eights, rest))
            last = plus(last, near)
    if eights < d:
        store_first(out, eights, rest, plus(load_first(out, eights, rest), last))


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

    A tile of rows, 8k of them, stays in the second cache between its two uses, for the scores and for the sum. Memory
    that is read in its order comes by itself while long rows are scored. Short rows that follow are asked for while a
    tile is added up, and of the rows of an `index` those `ahead` of the ones that are scored. Returns the sum of the
    slopes s_i, clipped and weighted.
    """
    d = X.shape[1]
    whole = index.size == 0
    tile = min(tile, max(stop - start + 7, 8) // 8 * 8)
    places = np.empty(tile + ahead, np.intp)
    dots = np.empty(tile)
    targets = np.empty(tile)
    multipliers = np.empty(tile)
    reciprocals = np.empty(tile)
    shares = np.empty(tile)
    later = tile if d * X.itemsize < SHORT else 0
    total_of_slopes = 0.0
    for first in range(start, stop, tile):
        count = min(tile, stop - first)
        if whole and count == tile:
            places[0] = first * d
            score_rows(X, places, tile, 0, True, w, dots)
            total_of_slopes += coefficients(
                code, parameters, dots, tile, y, scales, inverses, weights, first, offset, clip
            )
            add_rows(X, places, tile, later, True, dots, out)
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
            add_rows(X, places, filled, 0, False, dots, out)
    return total_of_slopes
