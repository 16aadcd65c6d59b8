r"""The same for many scores of a record at once: a stack of models, or the classes of a softmax.

`scores` holds one row per score and one column per record of a block, so that every loop below runs along memory.
"""

from __future__ import annotations

import math

import numpy as np

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled
from sordino.oracle.kernels.slopes import SOFTMAX, Parameters, coefficients, exp, score, value
from sordino.oracle.kernels.vectors import widest


@compiled
def softmax(scores: Array, scales: Array, offsets: Array, top: Array, total: Array) -> None:
    """scores <- exp(a - max a), with max a in `top` and the sum of the exponentials in `total`."""
    widest()
    classes, records = scores.shape
    top[:] = -math.inf
    total[:] = 0.0
    for c in range(classes):
        for i in range(records):
            a = score(scores[c, i], scales[i], offsets[c])
            scores[c, i] = a
            # a score that is not a number must reach `top`, so that the whole record is dropped
            top[i] = top[i] if top[i] >= a else a
    for c in range(classes):
        for i in range(records):
            e = exp(scores[c, i] - top[i])
            scores[c, i] = e
            total[i] += e


@compiled
def fraction(square: float, bound: float) -> float:
    """What brings a vector of this squared length within the bound: 1 where it is; 0 where it is not finite."""
    length = math.sqrt(square)
    return 0.0 if not (length < math.inf and bound > 0.0) else (1.0 if length <= bound else bound / length)


@compiled
def _softmax_coefficients(
    scores: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    offsets: Array,
    clip: float,
    totals: Array,
) -> None:
    r"""scores <- scale_i weight_i f_i (p_i - e_y),   f_i = min(1, (C / |row_i|) / |p_i - e_y|)."""
    widest()
    classes, records = scores.shape
    top, total, square = np.empty(records), np.empty(records), np.zeros(records)
    softmax(scores, scales, offsets, top, total)
    for i in range(records):
        total[i] = 1.0 / total[i]
    for c in range(classes):
        for i in range(records):
            p = scores[c, i] * total[i] - (1.0 if y[i] == c else 0.0)
            scores[c, i] = p
            square[i] += p * p
    for i in range(records):
        square[i] = weights[i] * fraction(square[i], clip * inverses[i])
    for c in range(classes):
        # not straight into `totals`, which the compiler would have to keep up to date in memory
        sum_of_class = 0.0
        for i in range(records):
            s = square[i] * scores[c, i] if square[i] > 0.0 else 0.0
            sum_of_class += s
            scores[c, i] = s * scales[i]
        totals[c] += sum_of_class


@compiled
def stack_coefficients(
    code: int,
    parameters: Parameters,
    scores: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    offsets: Array,
    clips: Array,
    totals: Array,
) -> None:
    """`coefficients` for every model of a stack; the sums of weighted slopes are added to `totals`."""
    count = scores.shape[1]
    for j in range(scores.shape[0]):
        totals[j] += coefficients(
            code, parameters, scores[j], count, y, scales, inverses, weights, 0, offsets[j], clips[j]
        )


@compiled
def softmax_coefficients(
    outputs: int,
    scores: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    offsets: Array,
    clips: Array,
    totals: Array,
) -> None:
    """The same for a stack of softmax models, a kernel of its own: others need not wait until it is compiled."""
    for m in range(clips.size):
        j = m * outputs
        k = j + outputs
        _softmax_coefficients(scores[j:k], y, scales, inverses, weights, offsets[j:k], clips[m], totals[j:k])


@compiled
def stack_values(
    code: int,
    parameters: Parameters,
    outputs: int,
    scores: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    weights: Array,
    offsets: Array,
    cap: float,
    totals: Array,
) -> None:
    """Adds every model's losses, none above `cap`, to `totals`, each times its record's weight.

    Records that are not finite add nothing.
    """
    records = scores.shape[1]
    top, total = np.empty(records), np.empty(records)
    for j in range(0, scores.shape[0], outputs):
        if code == SOFTMAX:
            for i in range(records):
                # l = log sum_c exp(a_c) - a_y, with a_y taken before the scores are overwritten
                c = j + int(y[i])
                total[i] = score(scores[c, i], scales[i], offsets[c])
            chosen = total.copy()
            softmax(scores[j : j + outputs], scales, offsets[j : j + outputs], top, total)
        sum_of_model = 0.0
        for i in range(records):
            if code == SOFTMAX:
                loss = top[i] + math.log(total[i]) - chosen[i]
            else:
                a = score(scores[j, i], scales[i], offsets[j])
                loss = value(code, parameters, a, y[i])
            if inverses[i] > 0.0 and abs(loss) < math.inf:
                sum_of_model += weights[i] * (loss if loss < cap else cap)
        totals[j // outputs] += sum_of_model
