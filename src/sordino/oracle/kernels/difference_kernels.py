r"""The same for two points at once: how far every record's gradient moved, and a share of the gradient itself.

Both gradients of a record are multiples of its row, so their difference is one too and is clipped like a gradient:

    m_i = weight_i ((1 - mix) clip(phi'(a_i) - phi'(b_i), near / |row_i|) + mix clip(phi'(a_i), C / |row_i|))

with a_i the score now and b_i the score at the earlier point. A score that is not a number makes what it enters zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.dense import add_rows, score_rows
from sordino.oracle.kernels.native import compiled
from sordino.oracle.kernels.slopes import LOGISTIC, SOFTMAX, Parameters, bounded, logistic_slope, score, slope
from sordino.oracle.kernels.stack import fraction, softmax
from sordino.oracle.kernels.vectors import widest


@compiled
def difference_coefficients(
    code: int,
    parameters: Parameters,
    dots: Array,
    earlier: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    offset: float,
    earlier_offset: float,
    near: float,
    clip: float,
    mix: float,
) -> float:
    """dots_i <- scale_i m_i, what raw row i is multiplied by. Returns the sum of the m_i."""
    widest()
    total = 0.0
    rest = 1.0 - mix
    if code == LOGISTIC:
        # a loop of its own, without branches, which the compiler turns into vector instructions
        for i in range(dots.size):
            s = logistic_slope(score(dots[i], scales[i], offset), y[i])
            before = logistic_slope(score(earlier[i], scales[i], earlier_offset), y[i])
            m = rest * bounded(s - before, near * inverses[i]) + mix * bounded(s, clip * inverses[i])
            m *= weights[i]
            total += m
            dots[i] = m * scales[i]
    else:
        for i in range(dots.size):
            a = score(dots[i], scales[i], offset)
            b = score(earlier[i], scales[i], earlier_offset)
            s = slope(code, parameters, a, y[i]) if a == a else math.nan
            before = slope(code, parameters, b, y[i]) if b == b else math.nan
            m = rest * bounded(s - before, near * inverses[i]) + mix * bounded(s, clip * inverses[i])
            m *= weights[i]
            total += m
            dots[i] = m * scales[i]
    return total


@compiled
def _softmax_differences(
    scores: Array,
    earlier: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    offsets: Array,
    earlier_offsets: Array,
    near: float,
    clip: float,
    mix: float,
    totals: Array,
) -> None:
    r"""scores <- scale_i ((1 - mix) f_i (p_i - q_i) + mix g_i (p_i - e_y)),   f and g the fractions that clip."""
    widest()
    classes, records = scores.shape
    top, total, total_before = np.empty(records), np.empty(records), np.empty(records)
    softmax(scores, scales, offsets, top, total)
    softmax(earlier, scales, earlier_offsets, top, total_before)
    moved, square = np.zeros(records), np.zeros(records)
    for i in range(records):
        total[i] = 1.0 / total[i]
        total_before[i] = 1.0 / total_before[i]
    for c in range(classes):
        for i in range(records):
            p = scores[c, i] * total[i]
            far = p - earlier[c, i] * total_before[i]
            p -= 1.0 if y[i] == c else 0.0
            scores[c, i] = p
            earlier[c, i] = far
            moved[i] += far * far
            square[i] += p * p
    for i in range(records):
        moved[i] = weights[i] * (1.0 - mix) * fraction(moved[i], near * inverses[i])
        square[i] = weights[i] * mix * fraction(square[i], clip * inverses[i])
    for c in range(classes):
        sum_of_class = 0.0
        for i in range(records):
            # not the plain sum: what is left out may be NaN
            m = moved[i] * earlier[c, i] if moved[i] > 0.0 else 0.0
            m += square[i] * scores[c, i] if square[i] > 0.0 else 0.0
            sum_of_class += m
            scores[c, i] = m * scales[i]
        totals[c] += sum_of_class


@compiled
def stack_differences(
    code: int,
    parameters: Parameters,
    outputs: int,
    scores: Array,
    earlier: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    offsets: Array,
    earlier_offsets: Array,
    near: float,
    clips: Array,
    mix: float,
    totals: Array,
) -> None:
    """`difference_coefficients` for every model, in place of `scores`; the sums of m are added to `totals`."""
    for m in range(clips.size):
        j, k, clip = m * outputs, (m + 1) * outputs, clips[m]
        if code == SOFTMAX:
            _softmax_differences(
                scores[j:k],
                earlier[j:k],
                y,
                scales,
                inverses,
                weights,
                offsets[j:k],
                earlier_offsets[j:k],
                near,
                clip,
                mix,
                totals[j:k],
            )
        else:
            totals[j] += difference_coefficients(
                code,
                parameters,
                scores[j],
                earlier[j],
                y,
                scales,
                inverses,
                weights,
                offsets[j],
                earlier_offsets[j],
                near,
                clip,
                mix,
            )


@compiled
def clipped_differences(
    X: NDArray[Any],
    index: NDArray[np.intp],
    start: int,
    stop: int,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    w: Array,
    since: Array,
    offset: float,
    earlier_offset: float,
    code: int,
    parameters: Parameters,
    near: float,
    clip: float,
    mix: float,
    tile: int,
    out: Array,
) -> float:
    """out += sum of m_i scale_i x_i over records start..stop of `index` (of all records where it is empty).

    A tile of rows stays in the second cache for both of its scores and the sum. Returns the sum of the m_i.
    """
    d = X.shape[1]
    whole = index.size == 0
    places = np.empty(tile, np.intp)
    dots = np.empty(tile)
    earlier = np.empty(tile)
    targets = np.empty(tile)
    multipliers = np.empty(tile)
    reciprocals = np.empty(tile)
    shares = np.empty(tile)
    total = 0.0
    for first in range(start, stop, tile):
        count = min(tile, stop - first)
        in_line = whole and count == tile
        for r in range(count):
            i = first + r if whole else index[first + r]
            places[r] = i * d
            targets[r] = y[i]
            multipliers[r] = scales[i]
            reciprocals[r] = inverses[i]
            shares[r] = weights[i]
        for r in range(count, tile):
            # the last tile is filled up with records that count for nothing
            places[r] = places[0]
            targets[r] = 0.0
            multipliers[r] = 0.0
            reciprocals[r] = 0.0
            shares[r] = 0.0
        score_rows(X, places, tile, 0, in_line, w, dots)
        score_rows(X, places, tile, 0, in_line, since, earlier)
        total += difference_coefficients(
            code,
            parameters,
            dots,
            earlier,
            targets,
            multipliers,
            reciprocals,
            shares,
            offset,
            earlier_offset,
            near,
            clip,
            mix,
        )
        add_rows(X, places, tile, 0, in_line, dots, out)
    return total
