r"""Draws from the table of `joint` that nobody sees, computed on shares modulo p = 2^64 - 2^32 + 1.

Coins. Each of t + 1 dealers shares omega^(c_i) with its own uniform c_i; the product is omega^c with a uniform c that
no t members know. With omega = -1 it is the sign of a fair coin. With omega of order 2^k it holds k coins at once, the
binary digits of c, and "the first i are all zero" is

    P_i = [2^i divides c] = prod_{l<i} (1 + omega^(c 2^(k-1-l))) / 2,

by one squaring and one product for each i: cheaper than coins one by one. The position of the first one in c is the G
of the table. Columns c = (i, j) of the table are a pair of one-hot vectors h, l, and with q the one-hot vector of G in
four groups of coins, of which R_a says that group a is reached,

    X = sum_i h_i (second_i(l) + sum_a R_a sum_b q_ab U_iab(l)),     U_c = T[c, G] (first_c - second_c),

where everything of l is linear. A sum of products is reshared once. Nothing is opened.
"""

from __future__ import annotations

import secrets
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sordino.federation.joint import GROUP, GROUPS, JOINT_BITS, Words, table
from sordino.federation.sharing import Elements, Field, Sharing

PRIME = (1 << 64) - (1 << 32) + 1
WORDS = Field(PRIME, 8)
_HALF = (PRIME + 1) // 2
_HIGH = 2  # bits of i; the others are j's
_CHUNK = 1024  # coordinates at a time: the shares in flight stay within some 30 MB


class MpycArithmetic:
    """Products and coins of one member, tossed by the first t + 1 of them."""

    def __init__(self, sharing: Sharing) -> None:
        members, tolerates = sharing.mesh.members, sharing.degree
        if 2 * tolerates + 1 > members:
            raise ValueError(
                f"{members} members and {tolerates} who may pool what they saw: products of shares, and with them "
                f"joint noise, need at least {2 * tolerates + 1} members."
            )
        self._sharing = sharing
        self._dealers = range(tolerates + 1)

    def drawn(self, size: int, spacing: int) -> Words:
        """This member's shares of `size` draws from the table, times `spacing`."""
        parts = [_draw(min(_CHUNK, size - start), self) for start in range(0, size, _CHUNK)]
        shares: Words = (spacing * np.concatenate(parts) % PRIME).astype(np.uint64)
        return shares

    def roots(self, orders: list[int], size: int) -> Elements:
        """A row of uniform powers of a root of unity, for each of these orders."""
        mine = np.zeros((len(orders), size), dtype=object)
        if self._sharing.mesh.me in self._dealers:
            for row, order in zip(mine, orders, strict=True):
                root = _root(order)
                row[:] = [pow(root, secrets.randbelow(order), PRIME) for _ in range(size)]
        product, *factors = self._sharing.dealt(mine, self._dealers)
        for factor in factors:
            product = self.products(product, factor)
        return product

    def products(self, a: Elements, b: Elements) -> Elements:
        return self.reshared(a * b)

    def reshared(self, degree_2t: Elements) -> Elements:
        """Shares of degree t again, after a sum of products."""
        return self._sharing.reshared(degree_2t % PRIME)


def _draw(size: int, arithmetic: MpycArithmetic) -> Elements:
    orders = [1 << GROUP] * GROUPS + [2] * JOINT_BITS
    drawn = arithmetic.roots(orders, size)
    q, reached = _first_ones(drawn[:GROUPS], arithmetic)
    bits = (1 - drawn[GROUPS:]) * _HALF % PRIME
    h = one_hot(bits[:_HIGH], arithmetic)
    low = one_hot(bits[_HIGH:], arithmetic)

    second, gaps = _weights()
    U = linear(gaps, low).reshape(len(h), GROUPS, GROUP, size)
    Z = arithmetic.reshared((q[None] * U).sum(axis=2))
    W = arithmetic.reshared((reached[None] * Z).sum(axis=1))
    return arithmetic.reshared((h * (linear(second, low) + W)).sum(axis=0))


def _first_ones(x: Elements, arithmetic: MpycArithmetic) -> tuple[Elements, Elements]:
    """One-hot vectors of the lowest digit that is one, in every group; and whether those before it are all zero."""
    powers = [x]
    for _ in range(GROUP - 1):
        powers.append(arithmetic.products(powers[-1], powers[-1]))
    # P_0 = 1, P_1, .., P_k
    zeros = [np.ones_like(x), (1 + powers.pop()) * _HALF % PRIME]
    while powers:
        zeros.append(arithmetic.products(zeros[-1], (1 + powers.pop()) * _HALF % PRIME))
    q = np.stack([before - after for before, after in pairwise(zeros)], axis=1)
    reached = [zeros[0][:1], zeros[-1][:1]]
    for group in range(1, GROUPS - 1):
        reached.append(arithmetic.products(reached[-1], zeros[-1][group : group + 1]))
    return q, np.concatenate(reached)


def one_hot(bits: Elements, arithmetic: MpycArithmetic) -> Elements:
    """2^k rows from k bits; row c is 1 where the bits spell c, the first of them highest."""
    if len(bits) == 1:
        return np.concatenate([1 - bits, bits])
    half = len(bits) // 2
    high, low = one_hot(bits[:half], arithmetic), one_hot(bits[half:], arithmetic)
    # rows and columns of the outer product add up to the factors, so its last row and column need no product
    inner = arithmetic.products(high[:-1, None], low[None, :-1])
    rows = np.concatenate([inner, high[:-1, None] - inner.sum(axis=1)[:, None]], axis=1)
    last = low[None] - rows.sum(axis=0)[None]
    return np.concatenate([rows, last]).reshape(-1, bits.shape[-1]) % PRIME


def linear(weights: NDArray[np.float64], shares: Elements) -> Elements:
    """weights @ shares for small whole weights, exactly: shares in three limbs, so that no sum exceeds 2^53."""
    words = shares.astype(np.uint64)
    limbs = [(words >> np.uint64(shift)) & np.uint64((1 << 22) - 1) for shift in (0, 22, 44)]
    low, middle, high = ((weights @ limb.astype(np.float64)).astype(np.int64) for limb in limbs)
    total: Elements = (low + (middle << 22)).astype(object) + (high.astype(object) << 44)
    reduced: Elements = total % PRIME
    return reduced


@lru_cache(maxsize=1)
def _weights() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The table as it meets l: rows i for the second numbers, rows (i, digit) for the digits times the gaps."""
    T = table()
    i, j = 1 << _HIGH, 1 << (JOINT_BITS - _HIGH)
    second = T.second.reshape(i, j).astype(np.float64)
    gaps = (T.digits * (T.first - T.second)[:, None]).reshape(i, j, -1)
    return second, np.moveaxis(gaps, 1, 2).reshape(-1, j).astype(np.float64)


@lru_cache(maxsize=4)
def _root(order: int) -> int:
    # 7 generates the units modulo p
    return pow(7, (PRIME - 1) // order, PRIME)
