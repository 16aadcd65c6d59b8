"""Loops over records on the processor: a few numbers per record, for which operations of PyTorch would cost more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled, exact, pointer
from sordino.privacy.pieces import each
from sordino.privacy.team import Team

PIECE = 1 << 14
"""Coordinates that one thread takes at a time."""

ROWS = 32
"""Records whose norms one thread takes at a time."""


@compiled
def copy(source: Array, target: NDArray[Any], team: Team) -> bool:
    """Returns whether all numbers are finite."""
    finite = np.empty((source.size + PIECE - 1) // PIECE, dtype=np.bool_)
    each(_copy_piece, finite.size, (source, target, finite), team)
    return bool(finite.all())


@compiled
def _copy_piece(piece: int, source: Array, target: NDArray[Any], finite: NDArray[np.bool_]) -> None:
    some = slice(piece * PIECE, (piece + 1) * PIECE)
    given, kept = source[some], target[some]
    spoiled = 0
    for i in range(given.size):
        kept[i] = given[i]
        spoiled += not abs(given[i]) < math.inf
    finite[piece] = spoiled == 0


@exact
def add_on_grid(parts: NDArray[Any], total: Array, pivot: float, first: bool, team: Team) -> None:
    """Add the rows of `parts`, rounded to whole multiples of a step, where `pivot` is 1.5 * 2^52 steps.

    Next to the pivot doubles are one step apart, so that adding it rounds, and taking it away again is exact. The first
    ones are added to zero, whatever `total` holds.
    """
    each(_add_piece, (total.size + PIECE - 1) // PIECE, (parts, total, pivot, first), team)


@exact
def _add_piece(piece: int, parts: NDArray[Any], total: Array, pivot: float, first: bool) -> None:
    for start in range(piece * PIECE, min((piece + 1) * PIECE, total.size), 2048):
        some = total[start : start + 2048]
        if first:
            some[:] = 0.0
        for k in range(len(parts)):
            part = parts[k, start : start + 2048]
            for i in range(some.size):
                some[i] += (np.float64(part[i]) + pivot) - pivot


@exact
def add_words(total: Array, words: NDArray[Any], rows: NDArray[Any], weights: NDArray[Any]) -> None:
    """total_w += weight_i row_it wherever record i has word w at place t.

    A pass has refused words beyond the table; what stands behind it in memory stays as it is all the same.
    """
    for i in range(words.shape[0]):
        weight = np.float64(weights[i])
        for t in range(words.shape[1]):
            word = words[i, t]
            if 0 <= word < total.shape[0]:
                for j in range(total.shape[1]):
                    total[word, j] += weight * np.float64(rows[i, t, j])


@compiled
def clip_factors(
    sides: NDArray[np.int64],
    rounding: Array,
    inner: NDArray[np.int64],
    terms: NDArray[np.int64],
    coefficients: Array,
    squares: NDArray[np.int64],
    losses: NDArray[np.int64],
    shares: Array,
    longest: float,
    room: float,
    totals: Array,
    factors: NDArray[Any],
    usable: NDArray[np.bool_],
    count: int,
    team: Team,
) -> int:
    """factors_ki = share_k min(1, clip_k / |g_ki|), or 0 for records that count for nothing; how many those are.

    With a softening s of the share they are share_k clip_k / (|g_ki| + s).

    `sides` are tensors of the factors' dtype, by address and row length, with `rounding` (factor, term) of their
    squared norms; `inner` are the inner products of two sides each. A term (share, one, other) adds coefficient * one *
    other to the squared norms of a share; one and other are 0 for the number 1, k + 1 for side k and -1 - k for inner
    product k. `squares` (share, address) are squared norms that are known. A share is (factor, clip, largest square
    that counts, softening); `longest` is the largest squared norm of a side that counts, and `room` is for the rounding
    of what follows.

    A record counts for nothing when a loss is not finite or a square beyond the largest; NaN is beyond everything. So
    does a row from `count` on, which is no record.
    """
    records = usable.size
    known = np.ones((1 + len(sides) + len(inner), records))
    each(_measure, (records + ROWS - 1) // ROWS, (sides, rounding, inner, factors, known), team)
    totals[:] = 0.0
    for k in range(len(squares)):
        totals[squares[k, 0]] += carray(pointer(squares[k, 1]), records, totals.dtype)
    for k in range(len(terms)):
        _add_product(totals[terms[k, 0]], coefficients[k], known[terms[k, 1]], known[terms[k, 2]])
    totals *= 1.0 + room
    usable[:] = True
    for k in range(len(losses)):
        loss = carray(pointer(losses[k]), records, factors.dtype)
        for i in range(records):
            usable[i] &= abs(loss[i]) < math.inf
    for k in range(len(sides)):
        for i in range(records):
            usable[i] &= known[1 + k, i] <= longest
    for k in range(len(shares)):
        for i in range(records):
            usable[i] &= totals[k, i] <= shares[k, 2]
    for k in range(len(shares)):
        factor, clip, softening = shares[k, 0], shares[k, 1], shares[k, 3]
        for i in range(records):
            norm = math.sqrt(totals[k, i])
            length = norm + softening if softening > 0.0 else max(norm, clip)
            factors[k, i] = factor * (clip / length) if usable[i] and i < count else 0.0
    return records - int(usable.sum())


@compiled
def _measure(
    piece: int, sides: NDArray[np.int64], rounding: Array, inner: NDArray[np.int64], factors: NDArray[Any], known: Array
) -> None:
    records = known.shape[1]
    some = slice(piece * ROWS, min((piece + 1) * ROWS, records))
    for k in range(len(sides)):
        rows = carray(pointer(sides[k, 0]), (records, sides[k, 1]), factors.dtype)
        _square_norms(rows[some], rounding[k, 0], rounding[k, 1], known[1 + k, some])
    for k in range(len(inner)):
        one, other = inner[k, 0], inner[k, 1]
        first = carray(pointer(sides[one, 0]), (records, sides[one, 1]), factors.dtype)
        second = carray(pointer(sides[other, 0]), (records, sides[other, 1]), factors.dtype)
        _inner_products(first[some], second[some], known[-1 - k, some])


@compiled
def _square_norms(rows: NDArray[Any], rounding: float, lost: float, squares: Array) -> None:
    """|row_i|^2 (1 + rounding) + lost."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            x = np.float64(rows[i, j])
            total += x * x
        squares[i] = total * (1.0 + rounding) + lost


@compiled
def _inner_products(rows: NDArray[Any], others: NDArray[Any], products: Array) -> None:
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += np.float64(rows[i, j]) * np.float64(others[i, j])
        products[i] = total


@compiled
def _add_product(total: Array, coefficient: float, first: Array, second: Array) -> None:
    for i in range(total.size):
        total[i] += coefficient * first[i] * second[i]
