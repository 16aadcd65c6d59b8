"""Loops over records on the processor: a few numbers per record, for which operations of PyTorch would cost more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import all_written, compiled, stream_line

Array = NDArray[np.float64]


@compiled
def finite(numbers: Array) -> bool:
    spoiled = 0
    for i in range(numbers.size):
        spoiled += not abs(numbers[i]) < math.inf
    return spoiled == 0


@compiled
def copy(source: Array, target: NDArray[Any]) -> None:
    for i in range(source.size):
        target[i] = source[i]


@compiled
def stream(source: Array, target: NDArray[np.float32]) -> None:
    """The same for a target that other cores have read from and that begins on a cache line."""
    lines = source.size // 16 * 16
    for i in range(0, lines, 16):
        stream_line(target, source, i)
    for i in range(lines, source.size):
        target[i] = source[i]
    all_written()


@compiled
def square_norms(rows: NDArray[Any], rounding: float, lost: float, squares: Array) -> None:
    """|row_i|^2 (1 + rounding) + lost."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            x = np.float64(rows[i, j])
            total += x * x
        squares[i] = total * (1.0 + rounding) + lost


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
def clip_factors(
    squares: Array,
    losses: tuple[NDArray[Any], ...],
    clips: tuple[float, ...],
    largest: tuple[float, ...],
    shares: tuple[float, ...],
    factors: NDArray[Any],
    usable: NDArray[np.bool_],
) -> int:
    """factors_ki = share_k min(1, clip_k / |g_ki|), or 0 for records that count for nothing; how many those are.

    They have a loss that is not finite or a square beyond the largest that counts; NaN is beyond everything.
    """
    spoiled = 0
    for i in range(usable.size):
        counts = True
        for each in losses:
            counts = counts and abs(each[i]) < math.inf
        for k in range(squares.shape[0]):
            counts = counts and squares[k, i] <= largest[k]
        for k in range(squares.shape[0]):
            factors[k, i] = shares[k] * (clips[k] / max(math.sqrt(squares[k, i]), clips[k])) if counts else 0.0
        usable[i] = counts
        spoiled += not counts
    return spoiled
