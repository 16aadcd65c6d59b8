"""What releases take from a budget, as numbers that add up. `privacy.filter` says how a release becomes one.

It needs no accountant, so that whoever only adds up what is known need not wait for one to load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sordino.budget import Budget
from sordino.privacy.gaussian_profile import gdp_epsilon, gdp_mu

RESERVE = 0.01
"""The share of delta set aside for leaks and distances, where nothing else is asked for."""


class BudgetExceeded(RuntimeError):
    """The next release would cost more than is left; it has not happened."""


@dataclass(frozen=True)
class Charge:
    """What one release, or all of them together, takes. `epsilon` is infinite unless everything was pure."""

    mu: float = 0.0
    epsilon: float = 0.0
    leak: float = 0.0
    total_variation: float = 0.0


def total(charges: Iterable[Charge]) -> Charge:
    all_ = list(charges)
    return Charge(
        math.hypot(*(one.mu for one in all_)),
        math.fsum(one.epsilon for one in all_),
        math.fsum(one.leak for one in all_),
        math.fsum(one.total_variation for one in all_),
    )


def epsilon_of(taken: Charge, cap: Budget, reserve: float = RESERVE) -> float:
    """The least epsilon that a cap with this one's delta must have for `taken` to stay inside; never less than true."""
    if cap.pure or math.isinf(taken.mu) or not within_reserve(taken, cap, reserve):
        return taken.epsilon
    return min(taken.epsilon, gdp_epsilon(taken.mu, (1 - reserve) * cap.delta))


def room(taken: Charge, cap: Budget, releases: int) -> float:
    """The largest epsilon that each of so many further releases may have at the cap's delta; 0 when nothing is left.

    It is enough for releases with Gaussian noise, or with pure noise where the cap is pure. Others need a smaller one.
    """
    if cap.pure:
        share = max(0.0, (cap.epsilon - taken.epsilon) / releases)
        while share > 0 and math.fsum([taken.epsilon, *[share] * releases]) > cap.epsilon:
            share = math.nextafter(share, 0.0)
        return share
    left = gdp_mu(cap.epsilon, (1 - RESERVE) * cap.delta) ** 2 - taken.mu * taken.mu
    # a millionth less, for what rounding and a lattice's distance will add
    return gdp_epsilon(math.sqrt(left / releases) * (1 - 1e-6), cap.delta) if left > 0 else 0.0


def within_reserve(taken: Charge, cap: Budget, reserve: float) -> bool:
    """Whether leaks and distances fit into what was set aside for them."""
    return taken.leak + (1 + math.exp(min(cap.epsilon, 700.0))) * taken.total_variation <= reserve * cap.delta
