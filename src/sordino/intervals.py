"""Normal intervals of a linear model, from the covariance of its coefficients and, last, its intercept.

Each of them holds what it is about with the stated probability, over other records and other noise; several together
hold with less.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from sordino.arrays import Array
from sordino.given import require_number


class Intervals(NamedTuple):
    """Low and high end of every coefficient (features x 2), and of the intercept."""

    coef: Array
    intercept: Array


def coefficient_intervals(coef: Array, intercept: float, covariance: Array, level: float) -> Intervals:
    ends = _around(np.append(coef, intercept), np.diag(covariance), level)
    return Intervals(ends[:-1], ends[-1])


def score_intervals(X: Any, scores: Array, covariance: Array, level: float) -> Array:
    """Low and high end of the score of every row, dense or sparse: records x 2."""
    moved = X @ covariance[:-1, :-1]
    own = X.multiply(moved).sum(axis=1) if hasattr(X, "multiply") else np.einsum("ij,ij->i", X, moved)
    variances = np.asarray(own).ravel() + 2 * (X @ covariance[:-1, -1]) + covariance[-1, -1]
    return _around(scores, variances, level)


def _around(values: Array, variances: Array, level: float) -> Array:
    require_number("level", level)
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: it is how often an interval shall hold, between 0 and 1, such as 0.95.")
    z = NormalDist().inv_cdf((1 + level) / 2)
    # a variance may round to less than nothing
    reach = z * np.sqrt(np.maximum(variances, 0.0))
    return np.column_stack([values - reach, values + reach])
