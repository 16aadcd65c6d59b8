"""The clipped sum of gradients of one model, in one pass over a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled, fetch
from sordino.oracle.kernels.slopes import Parameters, coefficients


@compiled
def add_rows(X: NDArray[Any], rows: NDArray[np.intp], dots: Array, out: Array) -> None:
    """out += sum_r dots_r X[rows_r], eight rows at a time; `rows` and `dots`, of length 8k, are overwritten."""
    d = X.shape[1]
    # rows with coefficient 0 are left out: they cost nothing, and 0 * NaN is never formed
    zeros = 0
    for r in range(dots.size):
        zeros += int(dots[r] == 0.0)
    padded = dots.size
    if zeros > 0:
        active = 0
        for r in range(dots.size):
            rows[active] = rows[r]
            dots[active] = dots[r]
            active += int(dots[r] != 0.0)
        padded = (active + 7) // 8 * 8
        for r in range(active, padded):
            rows[r] = rows[0]
            dots[r] = 0.0
    for r in range(0, padded, 8):
        # scalars one by one: unpacking tuples doubles the time to compile
        i0 = rows[r]
        i1 = rows[r + 1]
        i2 = rows[r + 2]
        i3 = rows[r + 3]
        i4 = rows[r + 4]
        i5 = rows[r + 5]
        i6 = rows[r + 6]
        i7 = rows[r + 7]
        c0 = dots[r]
        c1 = dots[r + 1]
        c2 = dots[r + 2]
        c3 = dots[r + 3]
        c4 = dots[r + 4]
        c5 = dots[r + 5]
        c6 = dots[r + 6]
        c7 = dots[r + 7]
        for j in range(d):
            near = (c0 * X[i0, j] + c1 * X[i1, j]) + (c2 * X[i2, j] + c3 * X[i3, j])
            far = (c4 * X[i4, j] + c5 * X[i5, j]) + (c6 * X[i6, j] + c7 * X[i7, j])
            out[j] += near + far


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

    A tile of rows stays in the nearest cache between its two uses: for the scores, and for the sum, which takes eight
    at a time. Short rows are scored in pairs, which share a pass over the weights; two at once are too much for the
    processor to foresee, so the rows `ahead` of them are asked for in advance. Long rows (`ahead` = 0) are scored one
    by one, which keeps the memory streaming. Returns the sum of the slopes s_i, clipped and weighted.
    """
    d = X.shape[1]
    line = 64 // X.itemsize
    whole = index.size == 0
    rows = np.empty(tile, np.intp)
    dots = np.empty(tile)
    targets = np.empty(tile)
    multipliers = np.empty(tile)
    reciprocals = np.empty(tile)
    shares = np.empty(tile)
    total = 0.0
    for first in range(start, stop, tile):
        count = min(tile, stop - first)
        if whole and count == tile:
            for r in range(tile):
                rows[r] = first + r
            some_targets = y[first : first + tile]
            some_scales = scales[first : first + tile]
            some_inverses = inverses[first : first + tile]
            some_weights = weights[first : first + tile]
        else:
            for r in range(count):
                i = first + r if whole else index[first + r]
                rows[r] = i
                targets[r] = y[i]
                multipliers[r] = scales[i]
                reciprocals[r] = inverses[i]
                shares[r] = weights[i]
            for r in range(count, tile):
                # the last tile is filled up with records that count for nothing
                rows[r] = rows[0]
                targets[r] = 0.0
                multipliers[r] = 0.0
                reciprocals[r] = 0.0
                shares[r] = 0.0
            some_targets = targets
            some_scales = multipliers
            some_inverses = reciprocals
            some_weights = shares
        if ahead == 0:
            for r in range(tile):
                i = rows[r]
                dot = 0.0
                for j in range(d):
                    dot += X[i, j] * w[j]
                dots[r] = dot
        else:
            for r in range(0, tile, 2):
                for later in range(first + r + ahead, min(first + r + ahead + 2, stop)):
                    i = later if whole else index[later]
                    for j in range(0, d, line):
                        fetch(X, i * d + j)
                i0 = rows[r]
                i1 = rows[r + 1]
                dot0 = 0.0
                dot1 = 0.0
                for j in range(d):
                    dot0 += X[i0, j] * w[j]
                    dot1 += X[i1, j] * w[j]
                dots[r] = dot0
                dots[r + 1] = dot1
        total += coefficients(
            code, parameters, dots, some_targets, some_scales, some_inverses, some_weights, offset, clip
        )
        add_rows(X, rows, dots, out)
    return total
