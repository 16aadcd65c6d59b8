r"""How often a search repeats itself: a public law, drawn in secret.

Releasing the best of K private runs costs little more than one of them, far less than sqrt(K) times the noise, when K
is random and nobody learns it (Liu & Talwar 2019; Papernot & Steinke 2022).

    poisson        P(K = k) = e^-m m^k / k!,  k >= 0           the cheapest up to a dozen runs; K = 0 happens
    geometric      P(K = k) = gamma (1 - gamma)^(k - 1)        gamma = 1/m
    logarithmic    P(K = k) = (1 - gamma)^k / (k log(1/gamma)) (1/gamma - 1) / log(1/gamma) = m;  the cheapest for many

The last two are the truncated negative binomials of shape 1 and 0. K is drawn by comparing 128 secret bits with the
law's sums in fifty digits: what is drawn is within 1e-35 of the law in total variation.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.privacy.events import LAWS, Approximate, Event, Selected
from sordino.privacy.randomness import Randomness

MOST_RUNS = 200
"""The largest mean number of runs."""

_BITS = 128
_DIGITS = 50
_NOTHING = Decimal("1e-39")
_DISTANCE = 1e-35


@dataclass(frozen=True)
class Repetitions:
    """One value draws the number of runs and states the event, so they cannot disagree."""

    mean: float
    law: str = "poisson"

    def __post_init__(self) -> None:
        if not 1 <= self.mean <= MOST_RUNS:
            raise ValueError(f"mean_runs is {self.mean}: it must lie between 1 and {MOST_RUNS}.")
        if self.law not in LAWS:
            raise ValueError(f"law is {self.law!r}: it must be one of {', '.join(map(repr, LAWS))}.")

    def event(self, *runs: Event) -> Event:
        """Of keeping the best run, each of which is as private as one of `runs`."""
        return Approximate(Selected(runs, self.mean, self.law), _DISTANCE)

    def draw(self, count: int, randomness: Randomness) -> NDArray[np.int64]:
        """As many independent numbers of runs."""
        sums = _sums(self.mean, self.law)
        words = randomness.noise.words(2 * count).tolist()
        drawn = [
            _FIRST[self.law] + bisect_right(sums, (high << 64) | low)
            for high, low in zip(words[::2], words[1::2], strict=True)
        ]
        return np.array(drawn, dtype=np.int64)


_FIRST = {"poisson": 0, "geometric": 1, "logarithmic": 1}
"""The least number of runs."""


@lru_cache(maxsize=32)
def stopping(mean: float, law: str) -> float:
    """gamma of the truncated negative binomials, for a mean number of runs."""
    if law == "geometric":
        return 1 / mean
    if mean < 1 + 1e-9:
        return 1.0
    from scipy.optimize import brentq

    # (e^t - 1)/t = mean with t = log(1/gamma): less than mean near 0, more at 3 log(mean)
    low, high = 1e-3 * math.log(mean), 3 * math.log(mean)
    return math.exp(-float(brentq(lambda t: math.expm1(t) / t - mean, low, high, xtol=1e-15)))


@lru_cache(maxsize=32)
def _sums(mean: float, law: str) -> tuple[int, ...]:
    """floor(2^128 P(K <= k)) for k = first, first + 1, .. until nothing is left."""
    with localcontext() as context:
        context.prec = _DIGITS
        whole = Decimal(2) ** _BITS
        sums: list[int] = []
        total, k, mass = Decimal(0), _FIRST[law], _first_mass(mean, law)
        while 1 - total > _NOTHING:
            total += mass
            sums.append(int(total * whole))
            k += 1
            mass *= _ratio(mean, law, k)
        return tuple(sums)


def _first_mass(mean: float, law: str) -> Decimal:
    if law == "poisson":
        return (-Decimal(mean)).exp()
    gamma = Decimal(stopping(mean, law))
    if law == "geometric" or gamma == 1:
        return gamma
    return (1 - gamma) / -gamma.ln()


def _ratio(mean: float, law: str, k: int) -> Decimal:
    """P(K = k) / P(K = k - 1)."""
    if law == "poisson":
        return Decimal(mean) / k
    decay = 1 - Decimal(stopping(mean, law))
    return decay if law == "geometric" else decay * (k - 1) / k
