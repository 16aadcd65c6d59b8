r"""Whole numbers that nobody knows, of a discrete Gaussian law, from coins that the members toss together.

The law. A table (Walker 1977) of 2^7 columns cuts probabilities into multiples of 2^-79: a uniform column c names two
numbers, and a coin of bias theta_c = sum_i 2^-i T[c, i] decides between them. The coin is the T[c, G], where G is the
position of the first head in a row of fair coins: P(G = i) = 2^-i. So everything comes from 7 + 72 fair coins, each of
them shared among the members, and the arithmetic on them never opens anything:

    1. one-hot vector e of the column from its 7 bits        (products of bits)
    2. theta's digits, first and second number               (linear in e: no communication)
    3. one-hot vector of G                                   (prefix products of the 72 coins)
    4. coin = <one-hot of G, digits>,   X = second + coin (first - second).

What is drawn is exactly the table's law, and the table's distance to the discrete Gaussian is computed, not estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.federation.field import P, Words
from sordino.privacy.randomness import Stream

Whole = NDArray[np.int64]

COLUMN_BITS = 7
GROUPS, GROUP = 9, 8
COIN_BITS = GROUPS * GROUP
SCALE = 6.4
"""The table's discrete Gaussian: its 127 numbers reach to ten standard deviations."""

_CHUNK = 4096  # coordinates at a time: the shares in flight stay within some 10 MB


class Arithmetic(Protocol):
    """Products and coins on shared field elements. Linear functions of shares need no communication."""

    def coins(self, count: int, size: int) -> Words:
        """Shares of fair bits that nobody knows, `count` rows of `size`."""
        ...

    def products(self, a: Words, b: Words) -> Words:
        """Shares of sum_j a[j] b[j], over the first axis."""
        ...

    def constant(self, value: int, shape: tuple[int, ...]) -> Words: ...


@dataclass(frozen=True, eq=False)
class Table:
    """2^7 columns: two numbers each, and the binary digits of the probability of the first."""

    first: Whole
    second: Whole
    digits: NDArray[np.uint8]
    distance: float
    """Total variation distance to the discrete Gaussian of parameter `SCALE`, rounded up."""


@dataclass(frozen=True)
class JointSampler:
    """Draws `spacing` X, with X from the table."""

    spacing: int

    @property
    def distance(self) -> float:
        return table().distance

    @property
    def scale(self) -> float:
        """Of the discrete Gaussian on the multiples of `spacing`."""
        return SCALE * self.spacing

    def draw(self, shape: tuple[int, ...], stream: Stream) -> Whole:
        """The same law, by one who sees it."""
        count = int(np.prod(shape))
        words = stream.words(3 * count).reshape(3, count)
        column = (words[0] & np.uint64((1 << COLUMN_BITS) - 1)).astype(np.intp)
        coins = np.unpackbits(np.ascontiguousarray(words[1:].T).view(np.uint8), axis=1)[:, :COIN_BITS]
        T = table()
        heads = coins.any(axis=1)
        coin = heads & (T.digits[column, coins.argmax(axis=1)] == 1)
        drawn: Whole = np.where(coin, T.first[column], T.second[column]).reshape(shape)
        return self.spacing * drawn

    def shares(self, size: int, arithmetic: Arithmetic) -> Words:
        """This member's shares of `size` independent draws."""
        parts = [_draw(min(_CHUNK, size - start), arithmetic) for start in range(0, size, _CHUNK)]
        from sordino.federation.field import combine

        return combine(np.concatenate(parts)[None], np.array([self.spacing % P], dtype=np.uint64))


def _draw(size: int, arithmetic: Arithmetic) -> Words:
    from sordino.federation.field import combine
    from sordino.federation.field_kernels import select

    T = table()
    coins = arithmetic.coins(COLUMN_BITS + COIN_BITS, size)
    e = _one_hot(coins[:COLUMN_BITS], arithmetic)
    digits = np.empty((COIN_BITS, size), dtype=np.uint64)
    select(T.digits, e, digits)

    # before[g, i]: no head among the first i coins of group g
    tails = arithmetic.constant(1, (GROUPS, GROUP, size))
    before = _prefix(_minus(tails, coins[COLUMN_BITS:].reshape(GROUPS, GROUP, size)), arithmetic)
    one = arithmetic.constant(1, (GROUPS, 1, size))
    heads = _minus(np.concatenate([one, before[:, :-1]], axis=1), before)
    # within each group the digit at the first head, or 0; and whether the groups before have no head at all
    found = arithmetic.products(*(np.moveaxis(x, 1, 0) for x in (heads, digits.reshape(heads.shape))))
    reached = np.concatenate([one[:1, 0], _prefix(before[None, :-1, -1], arithmetic)[0]])
    coin = arithmetic.products(reached, found)

    second = combine(e, (T.second % P).astype(np.uint64))
    gap = combine(e, ((T.first - T.second) % P).astype(np.uint64))
    return _plus(second, arithmetic.products(coin[None], gap[None]))


def _one_hot(bits: Words, arithmetic: Arithmetic) -> Words:
    """2^k rows from k bits; row c is 1 where the bits spell c, the first of them highest."""
    if len(bits) == 1:
        return np.concatenate([_minus(arithmetic.constant(1, bits.shape), bits), bits])
    half = len(bits) // 2
    high, low = _one_hot(bits[:half], arithmetic), _one_hot(bits[half:], arithmetic)
    # rows and columns of the outer product add up to the factors, so its last row and column need no product
    a, b = np.broadcast_arrays(high[:-1, None], low[None, :-1])
    inner = arithmetic.products(a[None], b[None])
    right = _minus(high[:-1, None], _total(inner, axis=1)[:, None])
    rows = np.concatenate([inner, right], axis=1)
    last = _minus(low[None], _total(rows, axis=0)[None])
    return np.concatenate([rows, last]).reshape(-1, bits.shape[-1])


def _prefix(x: Words, arithmetic: Arithmetic) -> Words:
    """Products of the first 1, 2, .., 8 along the second axis, in three rounds (Sklansky 1960)."""
    x = x.copy()
    width, size = x.shape[1:]
    step = 1
    while step < width:
        blocks = x.reshape(len(x), width // (2 * step), 2 * step, size)
        right, left = blocks[:, :, step:], blocks[:, :, step - 1 : step]
        a, b = np.broadcast_arrays(right, left)
        blocks[:, :, step:] = arithmetic.products(a[None], b[None])
        step *= 2
    return x


def _plus(a: Words, b: Words) -> Words:
    total = a + b
    return np.where(total >= P, total - np.uint64(P), total)


def _minus(a: Words, b: Words) -> Words:
    return _plus(a, np.uint64(P) - b)


def _total(a: Words, axis: int) -> Words:
    total = np.zeros(np.delete(a.shape, axis), dtype=np.uint64)
    for part in np.moveaxis(a, axis, 0):
        total = _plus(total, part)
    return total


@lru_cache(maxsize=1)
def table() -> Table:
    """Built in 80 digits; the areas are whole multiples of 2^-79 that add up to one exactly."""
    reach, unit = (1 << COLUMN_BITS) // 2 - 1, 1 << (COLUMN_BITS + COIN_BITS)
    with localcontext(prec=80):
        # terms beyond 200 are below 10^-210
        mass = [(-Decimal(k * k) / (2 * Decimal(SCALE) ** 2)).exp() for k in range(201)]
        theta = mass[0] + 2 * sum(mass[1:])
        probability = {k: mass[abs(k)] / theta for k in range(-200, 201)}
        areas = {k: int((probability[k] * unit).to_integral_value()) for k in range(-reach, reach + 1)}
        areas[0] += unit - sum(areas.values())
        distance = sum(abs(Decimal(areas.get(k, 0)) / unit - p) for k, p in probability.items()) / 2
    first, second, thresholds = _alias(areas)
    digits = [[threshold >> (COIN_BITS - 1 - i) & 1 for i in range(COIN_BITS)] for threshold in thresholds]
    return Table(
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64),
        np.array(digits, dtype=np.uint8),
        float(distance) * (1 + 1e-9),
    )


def _alias(areas: dict[int, int]) -> tuple[list[int], list[int], list[int]]:
    """Columns of equal height, shared by at most two numbers each; one that holds a single number has threshold 0."""
    columns, capacity = 1 << COLUMN_BITS, 1 << COIN_BITS
    spare = columns - len(areas)
    first, left = [*areas, *[0] * spare], [*areas.values(), *[0] * spare]
    second, thresholds = list(first), [0] * columns
    small = [c for c in range(columns) if left[c] < capacity]
    large = [c for c in range(columns) if left[c] >= capacity]
    while small:
        poor, rich = small.pop(), large[-1]
        second[poor], thresholds[poor] = first[rich], left[poor]
        left[rich] -= capacity - left[poor]
        if left[rich] < capacity:
            small.append(large.pop())
    return first, second, thresholds
