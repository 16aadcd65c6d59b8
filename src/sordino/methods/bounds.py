"""What a theorem proves of a method, beside what is predicted of it.

A bound is computed from the plan, so from public facts alone: the theorem's last line with the steps, step size and
noise of this plan, in the constants of its proof where the theorem hides them. Where a premise does not hold the value
is what the formula gives, and proves nothing; `unmet` says which premise that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from sordino.budget import Budget
from sordino.methods.protocol import AnyProblem

FAILURE = 0.05
"""With what probability a bound may fail, where nothing else is asked for."""

Bounded = Literal[
    "excess empirical risk",
    "excess population risk",
    "squared empirical gradient norm",
    "squared population gradient norm",
    "error of every gradient",
]


@dataclass(frozen=True)
class Bound:
    """`of` is at most `value`: on average where `failure` is 0, else but for this probability."""

    theorem: str
    of: Bounded
    value: float
    failure: float = 0.0
    unmet: str = ""
    """The first premise that these public facts do not meet."""

    @property
    def holds(self) -> bool:
        return not self.unmet


@runtime_checkable
class HasBound(Protocol):
    """A method that a theorem bounds the error of."""

    def bound(self, problem: AnyProblem, budget: Budget, failure: float = FAILURE) -> tuple[Bound, ...]:
        """Every bound that is proven of the plan for this problem and budget."""
        ...


def first_unmet(*premises: tuple[bool, str]) -> str:
    return next((premise for holds, premise in premises if not holds), "")


def require_failure(failure: float) -> None:
    if not 0 < failure < 1:
        raise ValueError(f"failure is {failure}: with which probability a bound may fail must lie in (0, 1).")
