"""What a step of preparation is: noise planned from public facts, one or more sums over rows, another map of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sordino.budget import Relation
from sordino.oracle.protocol import RowsOracle
from sordino.oracle.rows import PreparedRows
from sordino.privacy.events import Event
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness


@dataclass(frozen=True)
class StepPlan:
    """The noise of one sum, and how many sums there are, later ones possibly chosen in view of earlier answers."""

    noise: GaussianNoise
    times: int

    @property
    def event(self) -> Event:
        return self.noise.event


@runtime_checkable
class Preparation(Protocol):
    """Settings of a step. `share` is its part of mu^2, what the budget is in Gaussian differential privacy.

    `plan` is a pure function of public facts; `run` asks for the planned sums and for nothing else.
    """

    @property
    def share(self) -> float: ...

    def plan(self, columns: int, records: int, relation: Relation, mu: float) -> StepPlan: ...

    def run(
        self, plan: StepPlan, rows: PreparedRows, records: int, oracle: RowsOracle, randomness: Randomness
    ) -> PreparedRows:
        """The rows to go on with. `oracle` makes `rows`, and `records` is their public number."""
        ...


def check_share(step: object, share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"share of {type(step).__name__} is {share}: it is a part of the budget, above 0 and below 1.")
