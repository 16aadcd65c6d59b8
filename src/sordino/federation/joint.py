r"""Whole numbers that nobody knows, of a discrete Gaussian law, from coins that the members toss together.

The law. A table (Walker 1977) of 2^7 columns cuts probabilities into multiples of 2^-75: a uniform column c names two
numbers, and a coin of bias theta_c = sum_i 2^-i T[c, i] decides between them. The coin is the T[c, G], where G is the
position of the first head in a row of fair coins: P(G = i) = 2^-i. So everything comes from 7 + 68 fair coins, each of
them shared among the members (`mpyc_joint`), and the arithmetic on them opens nothing.

What is drawn is exactly the table's law, and the table's distance to the discrete Gaussian is computed, not estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Whole
from sordino.privacy.randomness import Stream

Words = NDArray[np.uint64]
"""Shares: elements of a field of at most 64 bits."""

JOINT_BITS = 7
GROUPS, GROUP = 4, 17
COIN_BITS = GROUPS * GROUP
SCALE = 6.4
"""The table's discrete Gaussian: its 127 numbers reach to ten standard deviations."""


class Arithmetic(Protocol):
    """Draws on shares."""

    def drawn(self, size: int, spacing: int) -> Words:
        """This member's shares of `size` independent draws from the table, times `spacing`."""
        ...


@dataclass(frozen=True, eq=False)
class AliasTable:
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
        column = (words[0] & np.uint64((1 << JOINT_BITS) - 1)).astype(np.intp)
        coins = np.unpackbits(np.ascontiguousarray(words[1:].T).view(np.uint8), axis=1)[:, :COIN_BITS]
        T = table()
        heads = coins.any(axis=1)
        coin = heads & (T.digits[column, coins.argmax(axis=1)] == 1)
        drawn: Whole = np.where(coin, T.first[column], T.second[column]).reshape(shape)
        return self.spacing * drawn

    def shares(self, size: int, arithmetic: Arithmetic) -> Words:
        """This member's shares of `size` independent draws."""
        return arithmetic.drawn(size, self.spacing)


@lru_cache(maxsize=1)
def table() -> AliasTable:
    """Built in 80 digits; the areas are whole multiples of 2^-75 that add up to one exactly."""
    reach, unit = (1 << JOINT_BITS) // 2 - 1, 1 << (JOINT_BITS + COIN_BITS)
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
    return AliasTable(
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64),
        np.array(digits, dtype=np.uint8),
        float(distance) * (1 + 1e-9),
    )


def _alias(areas: dict[int, int]) -> tuple[list[int], list[int], list[int]]:
    """Columns of equal height, shared by at most two numbers each; one that holds a single number has threshold 0."""
    columns, capacity = 1 << JOINT_BITS, 1 << COIN_BITS
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
