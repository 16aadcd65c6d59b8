r"""The l2-Laplace law as a sum of Gaussians whose weights are whole numbers.

    exp(-|z|)  ~  int_0^inf  a^d exp(-a^2/2)  a^-d exp(-|z|^2 / 2a^2)  da,

a Gaussian of standard deviation a, where a has the chi law of d + 1 degrees of freedom. With a = log(1 + e^t) the
integrand in t is analytic in a strip around the real line, however small or large |z| is, so the sum over t = h j has
the integral's value up to a factor 1 +- e^(-pi^2 / h), and h = 1/8. Hence a mixture of Gaussians at countably many a
is the l2-Laplace law, up to that factor.

What is drawn: the a_j as doubles, and a_j^d exp(-a_j^2/2) a'(t_j), rounded to a part in 10^12, in units of 2^-1200 of
the largest. 1,280 random bits are compared with their sums, of which 64 mostly decide. Only an a of probability below
2^-1100 cannot occur.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.privacy.randomness import Stream

_STEP = 1 / 8
_LOWEST = -40.0  # in t: such an a is lost beside the rounding to a lattice
_REACH = 45.0  # in a: exp(-45^2/2) is 2^-1460
_UNIT_BITS, _BITS = 1200, 1280


class Mixture(NamedTuple):
    """The standard deviations, the sums of their probabilities in units of 2^-1280, and the first 64 bits of these."""

    deviations: Array
    sums: list[int]
    leading: NDArray[np.uint64]


def deviations(dim: int, count: int, stream: Stream) -> Array:
    """Independent standard deviations, each of a Gaussian in `dim` dimensions."""
    mixture = laplace(dim)
    words = stream.words(count)
    low = np.searchsorted(mixture.leading, words, side="left")
    high = np.searchsorted(mixture.leading, words, side="right")
    for i in np.flatnonzero(low != high).tolist():
        # the first bits are those of a sum: the others decide
        number = int(words[i])
        for word in stream.words(_BITS // 64 - 1).tolist():
            number = number << 64 | word
        low[i] = bisect_right(mixture.sums, number)
    return mixture.deviations[low]


@lru_cache(maxsize=16)
def laplace(dim: int) -> Mixture:
    centre = math.sqrt(dim)
    # t = log(e^a - 1), the inverse of a = log(1 + e^t)
    first = _LOWEST if centre <= _REACH + 1 else centre - _REACH
    t = np.arange(math.floor(first / _STEP), math.ceil((centre + _REACH) / _STEP)) * _STEP
    a = np.logaddexp(0.0, t)
    # log of a^d exp(-a^2/2) relative to its largest value, at a = sqrt(d), and of a' = 1 / (1 + e^-t)
    away = a - centre
    near = np.abs(away) < centre / 2
    ratio = np.where(near, np.log1p(np.where(near, away, 0.0) / centre), np.log(a / centre))
    logs = dim * ratio - away * (a + centre) / 2 - np.logaddexp(0.0, -t)
    weights = [_whole(log / math.log(2)) for log in (logs - logs.max()).tolist()]
    kept = [j for j, weight in enumerate(weights) if weight]
    total, sum_, sums = sum(weights), 0, []
    for j in kept:
        sum_ += weights[j]
        sums.append((sum_ << _BITS) // total)
    leading = np.array([each >> (_BITS - 64) for each in sums[:-1]], dtype=np.uint64)
    return Mixture(a[kept], sums, leading)


def _whole(exponent: float) -> int:
    """2^(exponent + 1200), rounded down, for an exponent up to 0."""
    whole = math.floor(exponent)
    return int(math.ldexp(2.0 ** (exponent - whole), 60)) << _UNIT_BITS >> 60 - whole
