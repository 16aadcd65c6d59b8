r"""The prime field of p = 2^61 - 1 in machine words, and Shamir's sharing over it (Shamir 1979).

A secret x is the value at 0 of a polynomial of degree t with uniform coefficients; member i holds its value at i + 1.
Any t of the values are uniform and tell nothing; t + 1 of them give x back. Sums of shares are shares of the sum.

    share_i = x + c_1 (i+1) + .. + c_t (i+1)^t  mod p,        x = sum_i lambda_i share_i,
    lambda_i = prod_{j != i} x_j / (x_j - x_i)  over the points x_i = i + 1 that take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.privacy.randomness import Stream

P = (1 << 61) - 1
LIMIT = P // 2
"""Whole numbers up to this magnitude have a representative of their own."""

Words = NDArray[np.uint64]
Whole = NDArray[np.int64]


def to_field(values: Whole) -> Words:
    """Whole numbers modulo p."""
    return np.ascontiguousarray(np.mod(values, np.int64(P))).view(np.uint64)


def to_whole(elements: Words) -> Whole:
    """The representatives nearest to zero."""
    signed = elements.view(np.int64)
    return np.where(signed > LIMIT, signed - P, signed)


def uniform(stream: Stream, shape: tuple[int, ...]) -> Words:
    """Uniform elements of the field: 61 bits, and again where they are all ones."""
    words = stream.words(int(np.prod(shape))) >> np.uint64(3)
    while (again := np.flatnonzero(words == P)).size:
        words[again] = stream.words(again.size) >> np.uint64(3)
    return words.reshape(shape)


def share(secret: Words, degree: int, members: int, stream: Stream) -> Words:
    """A row of shares for every member."""
    from sordino.federation.field_kernels import evaluate

    coefficients = uniform(stream, (degree, *secret.shape))
    out = np.empty((members, *secret.shape), dtype=np.uint64)
    evaluate(secret.reshape(-1), coefficients.reshape(degree, secret.size), out.reshape(members, secret.size))
    return out


def combine(shares: Words, weights: Words) -> Words:
    """sum_i weights_i shares_i mod p, over the first axis."""
    from sordino.federation.field_kernels import weighted_sum

    out = np.empty(shares.shape[1:], dtype=np.uint64)
    weighted_sum(shares.reshape(len(shares), -1), weights, out.reshape(-1))
    return out


def reconstruct(shares: Words, holders: Sequence[int], degree: int) -> Words:
    """The secret from the shares of `holders`, one row each.

    Shares beyond the first degree + 1 must lie on the same polynomial: otherwise one of them was altered.
    """
    used, spare = tuple(holders[: degree + 1]), holders[degree + 1 :]
    if len(used) <= degree:
        raise ValueError(f"{len(used)} shares of a polynomial of degree {degree}: {degree + 1} are needed.")
    for row, holder in enumerate(spare, start=degree + 1):
        expected = combine(shares[: degree + 1], weights_at(used, holder + 1))
        if not np.array_equal(expected, shares[row]):
            raise ValueError(
                "the members' shares do not fit together, nothing was opened: a member computed something else, or a "
                "message was altered."
            )
    return combine(shares[: degree + 1], weights_at(used, 0))


@lru_cache(maxsize=1024)
def weights_at(holders: tuple[int, ...], x: int) -> Words:
    """Lagrange's weights, for the value at x."""
    points = [holder + 1 for holder in holders]
    weights = []
    for i in points:
        above, below = 1, 1
        for j in points:
            if j != i:
                above, below = above * (x - j) % P, below * (i - j) % P
        weights.append(above * pow(below, -1, P) % P)
    return np.array(weights, dtype=np.uint64)
