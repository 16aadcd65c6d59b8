"""Arithmetic modulo 2^61 - 1, compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., object])

_P = np.uint64((1 << 61) - 1)
_LOW = np.uint64(0xFFFFFFFF)
_3, _32, _61 = np.uint64(3), np.uint64(32), np.uint64(61)


def _kernel(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@_kernel
def _reduce(a: np.uint64) -> np.uint64:
    """a mod p for a < 2^63."""
    # 2^61 = 1 mod p
    a = (a & _P) + (a >> _61)
    return a - _P if a >= _P else a


@_kernel
def _times(a: np.uint64, b: np.uint64) -> np.uint64:
    """a b mod p for a, b < p."""
    # a b = high 2^64 + low in halves of 32 bits, and 2^64 = 8 mod p
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    corner = a0 * b0
    middle = a0 * b1 + a1 * b0 + (corner >> _32)
    low = (middle << _32) | (corner & _LOW)
    high = a1 * b1 + (middle >> _32)
    return _reduce((low & _P) + (low >> _61) + (high << _3))


@_kernel
def evaluate(secret: Words, coefficients: Words, out: Words) -> None:
    """out[i, k] = secret_k + sum_j coefficients[j, k] (i + 1)^(j + 1), by Horner's rule."""
    degree = coefficients.shape[0]
    for i in range(out.shape[0]):
        x = np.uint64(i + 1)
        for k in range(secret.size):
            y = np.uint64(0)
            for j in range(degree - 1, -1, -1):
                y = _times(_reduce(y + coefficients[j, k]), x)
            out[i, k] = _reduce(y + secret[k])


@_kernel
def weighted_sum(shares: Words, weights: Words, out: Words) -> None:
    for k in range(out.size):
        total = np.uint64(0)
        for i in range(shares.shape[0]):
            total = _reduce(total + _times(shares[i, k], weights[i]))
        out[k] = total


@_kernel
def products(a: Words, b: Words, out: Words) -> None:
    """out_k = sum_j a[j, k] b[j, k]."""
    for k in range(out.size):
        total = np.uint64(0)
        for j in range(a.shape[0]):
            total = _reduce(total + _times(a[j, k], b[j, k]))
        out[k] = total


@_kernel
def inverse_roots(squares: Words, out: Words) -> None:
    """out_k = squares_k^((p-3)/4): its square is 1/squares_k.   (p - 3)/4 = 2^59 - 1."""
    for k in range(out.size):
        a = squares[k]
        power = a
        for _ in range(58):
            power = _times(_times(power, power), a)
        out[k] = power


@_kernel
def select(digits: NDArray[np.uint8], one_hot: Words, out: Words) -> None:
    """out[i, k] = sum_c digits[c, i] one_hot[c, k]."""
    for i in range(out.shape[0]):
        out[i] = 0
        for c in range(one_hot.shape[0]):
            if digits[c, i]:
                for k in range(out.shape[1]):
                    out[i, k] = _reduce(out[i, k] + one_hot[c, k])
