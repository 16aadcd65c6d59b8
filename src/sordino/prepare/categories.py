r"""Which values occur in columns of categories that nobody could list, then a method on rows that have them.

    c_v + N(0, s^2)   for every value v that occurs, in c_v records;     told is its name, where that is above

    tau = 1 + s Phi^-1(1 - delta_0),

in alphabetical order, at most so many as the schema has room for. Everything else is "other".

Privacy, for one column, with t = -log(1 - delta_0) and H(., m) the profile of a Gaussian shift of m. Of a record that
is replaced one count falls by 1 and another rises by 1. Where both values have other records in either data set, that
is a Gaussian release of shift sqrt(2)/s. A value that a single record has is told with probability delta_0, which gives
everything away, and else its absence is seen with probability 1 - delta_0 instead of 1: where one of the two values is
such, the profile is delta_0 + (1 - delta_0) H(e + t, 1/s) one way and H(e - t, 1/s) the other way; where both are,
delta_0. Since -H' <= 1 - H,

    H(e - t) <= t + (1 - t) H(e),

so that every case is below  t + (1 - t) H(e, sqrt(2)/s):  a `Leak` of probability t beside a Gaussian release. Where a
record is added or removed it is the same with a shift of 1/s. k columns are k of them, each with noise of its own.

The lattice of the noise moves tau by at most a step, which is added; its distance from the Gaussian counts for the 2k
counts that differ, because all others have the same law in both data sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scipy.special import ndtri

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.methods import Method, RepeatedSelection
from sordino.methods.protocol import AnyMethod, AnyProblem, Calibration, Release, StepEvents, planned
from sordino.methods.schedule import gaussian_allowance
from sordino.methods.settings import require_linear
from sordino.methods.within import plan_within
from sordino.oracle.protocol import Oracle, UncodedOracle
from sordino.oracle.statistics import ValueCounts
from sordino.prepare.prepared import left_for_training, require_gaussian
from sordino.prepare.protocol import check_share
from sordino.privacy.events import Composed, Event, Leak
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.words import plan_card

LEAKS = 1e-3
"""Of delta, for all columns. A ledger has a hundredth of its own for leaks, so that several such releases fit; a
hundred times as much would lower the threshold by a tenth."""


@dataclass(frozen=True)
class Categories:
    """Find the values of the schema's columns that have `discover`, for this share of mu^2."""

    share: float = 0.1

    def __post_init__(self) -> None:
        check_share(self, self.share)


@dataclass(frozen=True)
class DiscoveredPlan:
    """The noise of every count, the count above which a value is told, and what follows."""

    noise: GaussianNoise
    threshold: float
    leak: Leak
    columns: int
    inner: Any
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        return Composed(((self.noise.event, 1), (self.leak, self.columns), (self.inner.event, 1)))

    _repr_html_ = plan_card


@dataclass(frozen=True)
class Discovered:
    """The values of so many `columns` first, then `method` on rows that have them."""

    method: AnyMethod
    categories: Categories
    columns: int

    needs: ClassVar[type[Oracle]] = UncodedOracle

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method) or isinstance(self.method, Discovered):
            raise ValueError(f"method is {self.method!r}: values are discovered once, for a method that trains.")
        if not isinstance(self.categories, Categories):
            raise ValueError(f"categories is {self.categories!r}: it must be a Categories(share).")
        if isinstance(self.columns, bool) or not isinstance(self.columns, int) or self.columns < 1:
            raise ValueError(f"columns is {self.columns!r}: values are discovered of one column at least.")
        if isinstance(self.method, RepeatedSelection):
            raise ValueError(
                "a search repeats its runs, and values are discovered once: list them in the schema, or choose the "
                "settings without a search."
            )
        if self.method.calibration != "tight":
            raise ValueError(
                f"{type(self.method).__name__} with noise that is not calibrated to the budget cannot share it with a "
                "discovery of categories: leave its calibration and its noise_multiplier out, or list the values."
            )

    @property
    def calibration(self) -> Calibration:
        return self.method.calibration

    def plan(self, problem: AnyProblem, budget: Budget) -> DiscoveredPlan:
        problem = require_linear(problem, "a discovery of categories")
        require_gaussian(budget)
        k, mu = self.columns, gaussian_allowance(problem.dim, budget)
        sensitivity = ValueCounts(k).sensitivity(budget.relation)
        noise = GaussianNoise.at(1 / (mu * math.sqrt(self.categories.share)), sensitivity, 2 * k)
        single = LEAKS * budget.delta / k
        threshold, leak = threshold_for(noise, single), leak_of(single)
        found = plan_within(
            left_for_training(problem, budget, self.categories.share),
            budget,
            lambda left: DiscoveredPlan(noise, threshold, leak, k, planned(self.method, problem, left)),
        )
        if found is None:
            raise ValueError(
                f"{type(self.method).__name__} cannot be brought within what a discovery of categories leaves of the "
                "budget: list the values."
            )
        return found

    def run(
        self,
        plan: DiscoveredPlan,
        problem: AnyProblem,
        oracle: UncodedOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        found = oracle.values(plan.noise, plan.threshold, randomness)
        trained = self.method.run(plan.inner, problem, oracle.coded(found), randomness, start)
        return replace(trained, event=plan.event, found=found)


def threshold_for(noise: GaussianNoise, single: float) -> float:
    """1 + s Phi^-1(1 - delta_0): a value of a single record is above it with probability `single` at most."""
    # with room for the rounding of the quantile
    return 1 - noise.std * float(ndtri(single)) * (1 + 1e-9) + noise.step


def leak_of(single: float) -> Leak:
    """-log(1 - delta_0)."""
    return Leak(-math.log1p(-single) * (1 + 1e-9))
