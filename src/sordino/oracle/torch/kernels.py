"""Loops over records on the processor: a few numbers per record, for which an operation of PyTorch each costs more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled

Array = NDArray[np.float64]


@compiled
def square_norms(rows: NDArray[Any], squares: Array) -> None:
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            x = np.float64(rows[i, j])
            total += x * x
        squares[i] = total


@compiled
def inner_products(rows: NDArray[Any], others: NDArray[Any], products: Array) -> None:
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += np.float64(rows[i, j]) * np.float64(others[i, j])
        products[i] = total


@compiled
def add_product(total: Array, coefficient: float, first: Array, second: Array) -> None:
    for i in range(total.size):
        total[i] += coefficient * first[i] * second[i]


@compiled
def keep_within(usable: NDArray[np.bool_], values: NDArray[Any], limit: float) -> int:
    """Mark the records whose value is not a number or beyond the limit; how many are left out by now."""
    spoiled = 0
    for i in range(values.size):
        usable[i] = usable[i] and abs(values[i]) <= limit
        spoiled += not usable[i]
    return spoiled


@compiled
def clip_factors(squares: Array, clip: float, share: float, factors: NDArray[Any]) -> None:
    """share min(1, clip / |g_i|)."""
    for i in range(squares.size):
        factors[i] = share * (clip / max(math.sqrt(squares[i]), clip))
