"""What every method is: a pure `plan` on public facts, and a `run` that follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Budget, Relation
from sordino.privacy.events import Event
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

Array = NDArray[np.float64]

Calibration = Literal["tight", "paper", "given"]
"""Where the noise comes from: the least that earns the budget; the constants a paper prints, whose true cost is then
stated; or a multiplier the method was given, whose cost is stated and must stay within the budget."""


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves the private side, and what happened to produce it."""

    weights: NDArray[np.float64]
    event: Event
    chosen: int | None = None
    """Which setting of a search the weights come from."""


class Plan(Protocol):
    """A frozen dataclass with every number of the run. It is public."""

    @property
    def event(self) -> Event: ...


class Method(Protocol):
    """`start` is a data-independent first iterate; a stack of them (k x dim) makes k independent runs."""

    calibration: Calibration

    def plan(self, problem: Problem, budget: Budget) -> Any: ...
    def run(
        self, plan: Any, problem: Problem, oracle: Any, randomness: Randomness, start: Array | None = None
    ) -> Release: ...


def require_delta(method: str, budget: Budget, instead: str) -> None:
    """Gaussian noise never gives delta = 0."""
    if budget.pure:
        raise ValueError(f"delta is 0, but {method} adds Gaussian noise and needs delta > 0: {instead}.")


def require_paper_setting(calibration: Calibration, budget: Budget, papers: str) -> None:
    if calibration not in ("tight", "paper"):
        raise ValueError(f"calibration is {calibration!r}: it must be 'tight' or 'paper'.")
    if calibration == "paper" and budget.relation is not Relation.REPLACE_ONE:
        raise ValueError(
            f"calibration='paper' with relation {budget.relation}: {papers} states its noise for replace_one only; "
            "use calibration='tight'."
        )
