"""What releases take from a budget, as numbers that add up. `privacy.filter` says how a release becomes one.

It needs no accountant, so that whoever only adds up what is known need not wait for one to load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


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
