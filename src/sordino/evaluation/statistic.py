"""What every evaluation is: noise planned from public facts, sums over held-out records, and measures made of them.

A statistic's settings stand in the certificate, so `verify` plans it again and finds the same measures in what was
released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from sordino.budget import Budget
from sordino.evaluation.measure import Measure
from sordino.evaluation.outcomes import Outcomes, Query
from sordino.methods.settings import require_delta
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Event, compose, repeat
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut


@dataclass(frozen=True)
class Sums:
    """What leaves the records: sums with noise, and the edges and the threshold that earlier answers led to."""

    sums: tuple[float, ...]
    edges: tuple[float, ...] = ()
    threshold: float | None = None


@dataclass(frozen=True)
class Findings:
    """Measures, the interesting ones first, and what has to be said beside them."""

    measures: tuple[Measure, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class SumPlan:
    """The noise of one sum, and how many such sums there are, later ones chosen in view of earlier answers."""

    noise: GaussianNoise
    times: int = 1

    @property
    def event(self) -> Event:
        return repeat(self.noise.event, self.times)


@dataclass(frozen=True)
class StatisticPlan:
    """In their order."""

    sums: tuple[SumPlan, ...]

    @property
    def event(self) -> Event:
        return compose(*(one.event for one in self.sums))


class Statistic(Protocol):
    """Settings of an evaluation, chosen before a record is read. `needs` is what `run` asks."""

    needs: ClassVar[type[Outcomes]]

    @property
    def calibration(self) -> str: ...

    def plan(self, problem: HeldOut, budget: Budget) -> StatisticPlan: ...
    def run(self, plan: StatisticPlan, problem: HeldOut, oracle: Outcomes, randomness: Randomness) -> Sums: ...

    def found(self, problem: HeldOut, budget: Budget, released: Sums) -> Findings:
        """What the sums say; no record is looked at."""
        ...


def planned_noise(queries: tuple[tuple[Query, float, int], ...], budget: Budget) -> StatisticPlan:
    """The least noise on queries with these shares of the budget's mu^2, each asked so many times."""
    require_delta("an evaluation", budget, "give a delta well below one over the number of records")

    def at(multiplier: float) -> StatisticPlan:
        sums = (
            SumPlan(
                GaussianNoise.at(
                    multiplier * math.sqrt(times / share), query.sensitivity(budget.relation), query.width
                ),
                times,
            )
            for query, share, times in queries
        )
        return StatisticPlan(tuple(sums))

    return at(calibrate(lambda multiplier: at(multiplier).event, budget))


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: it is how sure intervals are, above 0 and below 1, such as .95.")


def check_loss_bound(bound: float | None) -> None:
    if bound is not None and not 0 < bound < float("inf"):
        raise ValueError(f"log_loss_bound is {bound}: it must be a positive finite number; above it losses are cut.")
