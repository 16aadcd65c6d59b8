"""What the kernels make of a block's scores, in NumPy: for blocks too small to be worth waiting for a compiler.

The formulas are the losses' own, which the kernels compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sordino.arrays import Array
from sordino.losses import unweighted
from sordino.oracle.block_queries import ClippedSum, QuadraticForm

if TYPE_CHECKING:
    from sordino.oracle.block import Bounded


def multipliers(asked: ClippedSum, scores: Array, part: Bounded, slopes: Array) -> Array:
    r"""What every raw row is multiplied by in a sum of clipped gradients, one row for every score.

    a_i = scale_i <x_i, w> + offset,    s_i = weight_i clip(phi'(a_i, y_i), C / |row_i|),    scale_i s_i

    `scores` are the <x_i, w>, of rows without usable features 0, and are overwritten. The sums of the s_i are added to
    `slopes`.
    """
    K = asked.loss.outputs
    # what is not finite counts for nothing, and a warning would tell that there is such a record
    with np.errstate(all="ignore"):
        limits = asked.clips[:, None] * part.inverses
        a = np.multiply(scores, part.scales, out=scores)
        a += asked.offsets[:, None]
        if isinstance(asked.loss, QuadraticForm):
            s = part.targets * a
        elif K == 1:
            s = unweighted(asked.loss).slope(a, part.targets)
        else:
            s = np.empty_like(a)
            for j in range(0, len(a), K):
                s[j : j + K] = unweighted(asked.loss).slope(a[j : j + K].T, part.targets).T
        if not np.isfinite(s.sum()):
            s = np.where(np.isfinite(s), s, 0.0)
        if K == 1:
            np.minimum(s, limits, out=s)
            np.maximum(s, np.negative(limits, out=limits), out=s)
        else:
            lengths = np.sqrt(np.square(s).reshape(-1, K, len(part)).sum(axis=1))
            s *= np.where(lengths > limits, limits / lengths, 1.0).repeat(K, axis=0)
    s *= part.weights
    slopes += s.sum(axis=-1)
    s *= part.scales
    return s
