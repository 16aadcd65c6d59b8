"""Comparing a random number with an exponential, in whole numbers, to the last bit that matters."""

from __future__ import annotations

import math
from fractions import Fraction

from sordino.privacy.randomness import Stream


def lies_below(whole: int, fraction: int, height: Fraction, exponent: Fraction, stream: Stream) -> bool:
    """Whether whole + U < height exp(-exponent), U uniform in [0, 1): `fraction` is its first 64 bits, more follow."""
    bits = 64
    while True:
        low = Fraction((whole << bits) + fraction, 1 << bits)
        exp_low, exp_high = exp_bounds(exponent, bits + 64)
        if low + Fraction(1, 1 << bits) <= height * exp_low:
            return True
        if low >= height * exp_high:
            return False
        fraction = fraction << 64 | int(stream.words(1)[0])
        bits += 64


def exp_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Rationals below and above exp(-x), x >= 0, closer together than 2^-bits.   exp(-x) = exp(-x/2^h)^(2^h)."""
    h = math.ceil(x).bit_length()
    precision = bits + 2 * h + 16
    one = 1 << precision
    t = math.floor(x * one / (1 << h))
    total, term, n = 0, one, 0
    while term:
        total += -term if n % 2 else term
        n += 1
        term = term * t // (n * one)
    # in units of 2^-precision: t is short by 1 at most, every term by 2, what is left out by 3
    error = 2 * n + 4
    low, high = total - error, total + error
    for _ in range(h):
        low, high = low * low >> precision, (high * high >> precision) + 1
    return Fraction(low, one), Fraction(high, one)
