"""The functions that formulas of one score are written with.

Called with arrays they are NumPy's. The compiled kernels put versions for single numbers in their place
(`sordino.oracle.kernels.slopes`), so that a formula is written once and serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Number = Any
"""An array, or a single number inside a compiled kernel."""

Formula = Callable[..., Number]
"""Of a score, a target, and parameters."""


def where(condition: Number, then: Number, otherwise: Number) -> Number:
    return np.where(condition, then, otherwise)


def maximum(a: Number, b: Number) -> Number:
    return np.maximum(a, b)


def clip(a: Number, low: Number, high: Number) -> Number:
    return np.minimum(np.maximum(a, low), high)


def sign(a: Number) -> Number:
    return np.sign(a)


def exp(a: Number) -> Number:
    """For a <= 0 only: the kernels' version knows no other."""
    return np.exp(a)


def sigmoid(a: Number) -> Number:
    """1 / (1 + exp(-a)), without overflow."""
    # from -709 on down it is as good as zero, and exp(-a) no longer a number
    return 1.0 / (1.0 + np.exp(np.minimum(-a, 709.0)))


def log(a: Number) -> Number:
    """For a > 0 only."""
    return np.log(a)


def log1p(a: Number) -> Number:
    return np.log1p(a)
