r"""Whole numbers by their law, from secret bits: how many of a million coins fall on heads.

A law with one peak is known from the ratios of its neighbouring probabilities, which are ratios of whole numbers:

    binomial            P(k+1) / P(k) = (n - k) q / ((k + 1) (1 - q))
    hypergeometric      P(k+1) / P(k) = (K - k) (m - k) / ((k + 1) (N - K - m + k + 1))

From the peak outwards the ratios are multiplied in whole numbers until nothing is left, and 128 random bits are
compared with the sums. What is rounded, left out, or falls between two of 2^128 numbers is less than `DISTANCE` in
total variation, for up to a hundred million entries. NumPy's own binomials are computed in double precision.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from sordino.privacy.randomness import Stream

DISTANCE = 1e-30

_PEAK = 1 << 192
_BITS = 128

_CountTable = tuple[int, list[int]]
"""The least number that occurs, and the sums of the weights from there on."""


def binomial(trials: int, rate: float, stream: Stream) -> int:
    """How many of so many independent coins of probability `rate`, a double taken at its exact value."""
    return trials if rate == 1 else _draw(_binomial(trials, rate), stream)


def hypergeometric(population: int, marked: int, drawn: int, stream: Stream) -> int:
    """How many marked ones are in a uniform subset of so many."""
    return _draw(_hypergeometric(population, marked, drawn), stream)


@lru_cache(maxsize=64)
def _binomial(n: int, q: float) -> _CountTable:
    heads, all_ = Fraction(q).as_integer_ratio()
    tails = all_ - heads
    return _table((n + 1) * heads // all_, 0, n, lambda k: ((n - k) * heads, (k + 1) * tails))


def _hypergeometric(N: int, K: int, m: int) -> _CountTable:
    return _table(
        min((m + 1) * (K + 1) // (N + 2), m, K),
        max(0, m - (N - K)),
        min(m, K),
        lambda k: ((K - k) * (m - k), (k + 1) * (N - K - m + k + 1)),
    )


def _table(peak: int, low: int, high: int, ratio: Callable[[int], tuple[int, int]]) -> _CountTable:
    """`ratio(k)` is P(k+1) / P(k), as two whole numbers."""
    up: list[int] = []
    weight = _PEAK
    for k in range(peak, high):
        more, less = ratio(k)
        weight = weight * more // less
        if not weight:
            break
        up.append(weight)
    down: list[int] = []
    weight = _PEAK
    for k in range(peak - 1, low - 1, -1):
        more, less = ratio(k)
        weight = weight * less // more
        if not weight:
            break
        down.append(weight)
    total, sums = 0, []
    for weight in [*reversed(down), _PEAK, *up]:
        total += weight
        sums.append(total)
    return peak - len(down), sums


def _draw(table: _CountTable, stream: Stream) -> int:
    first, sums = table
    high, low = stream.words(2).tolist()
    return first + bisect_right(sums, ((high << 64 | low) * sums[-1]) >> _BITS)
