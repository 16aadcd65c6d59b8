r"""Choosing settings in private: the best of a random number of runs (Liu & Talwar 2019; Papernot & Steinke 2022).

    split the records at random into a training part and a held-out part;  K ~ a public law, kept secret
    K times:   draw a setting uniformly, train with it on the training part,
               s = sum_{i held out} min(l(w; z_i), C) + N(0, std^2)
    release the w of the least s, and which setting it came from

Privacy.  The theorem is about a run that releases its score too, so a run is the pair (w, s), and both must be private.
The split does not look at the records. Under replace-one it picks positions, and the changed record stays where it is;
under add/remove it is one coin per record, which leaves the others where they were. So, given the split, two neighbours
differ in one part only:

    training part     w is as private as its method's event says, and s is computed from w and equal records;
    held-out part     w has the same law, and given w the sum moves by at most C, so s is a Gaussian release,

and a run costs the larger of the two, whichever setting it drew, not their sum. `Selected` states exactly that, and
its accountant what K runs cost. K must stay secret: it is in no output, and progress is not told while the search runs.
Every run is planned for the same (epsilon_1, delta), the largest epsilon_1 for which the whole search keeps the budget.

Runs on all records go side by side (`methods.descend`), which saves passes over the records: each has noise of its own,
and nothing in common with another one but the records. Runs on batches would have the batches of a stack in common, and
go one after the other.

Settings that differ in what the noise does not depend on (a penalty, a step size, a clip) are accounted for once. Those
on batches that differ in size or number take a fraction of a second each, for whoever plans and for whoever verifies,
so there is a limit to them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sordino.arrays import Array, Index
from sordino.budget import Budget, Relation
from sordino.methods.descend import can_go_beside, descend, descend_side_by_side
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyProblem, Calibration, Method, Plan, Release, StepEvents
from sordino.methods.settings import require_delta, require_linear
from sordino.oracle.protocol import LinearOracle, Oracle
from sordino.oracle.query import ClippedLoss
from sordino.oracle.sampling import FixedSize, Poisson
from sordino.penalties import Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.privacy.accountants.event_leaves import leaves_of, samplable
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Event, GaussianDP
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.privacy.repetitions import Repetitions
from sordino.problem import Problem
from sordino.progress import watching
from sordino.words import plan_card

MOST_SETTINGS, MOST_ACCOUNTED = 100, 4
"""Of a search, and of those among them that are on batches and differ in what is accounted for."""

_CLOSE = 0.99
"""The share of the budget that a search spends at least."""


@dataclass(frozen=True)
class Setting:
    """One to try: a method, and the ridge strength if it is not to be the problem's."""

    method: Method[Any, LinearOracle]
    l2: float | None = None

    def problem(self, problem: Problem) -> Problem:
        return problem if self.l2 is None else replace(problem, penalty=Ridge(self.l2))


@dataclass(frozen=True)
class RepeatedSelectionPlan:
    """Every number of the search. One run may cost `run_budget`; `plans` are the settings' for the training part."""

    run_budget: Budget
    plans: tuple[Plan, ...]
    repetitions: Repetitions
    held_out: FixedSize | Poisson
    held_out_records: int
    score_clip: float
    noise: GaussianNoise
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        return self.repetitions.event(*(plan.event for plan in self.plans), self.noise.event)

    _repr_html_ = plan_card


@dataclass(frozen=True)
class RepeatedSelection:
    """Trains with some of `settings`, and releases what predicts held-out records best.

    `mean_runs=None` is twice the number of settings: each is then tried at least once with probability 86 %. With the
    Poisson law it can happen that none is, and the first iterate is released. `score_clip` bounds a held-out record's
    loss; None is twice the loss of predicting nothing.
    """

    settings: tuple[Setting, ...] = ()
    mean_runs: float | None = None
    law: str = "poisson"
    held_out: float = 0.1
    score_clip: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = LinearOracle

    def plan(self, problem: AnyProblem, budget: Budget, run_epsilon: float | None = None) -> RepeatedSelectionPlan:
        """`run_epsilon` is what a plan already says that one run may cost: then it is checked, and not looked for."""
        problem = require_linear(problem, "a search")
        self._require(budget)
        C = 2 * problem.loss.at_zero if self.score_clip is None else self.score_clip
        if not 0 < C < math.inf:
            raise ValueError(
                f"score_clip is {C}: a held-out record's loss needs a positive finite bound; give `score_clip`, or a "
                "target bound."
            )
        repetitions = Repetitions(float(2 * len(self.settings) if self.mean_runs is None else self.mean_runs), self.law)
        held_out, count = self._held_out(problem, budget.relation)

        def search(epsilon_1: float) -> RepeatedSelectionPlan:
            one = replace(budget, epsilon=epsilon_1)
            plans = self._plans(replace(problem, records=problem.records - count), one)
            # a record adds between 0 and C to the sum, so replacing one moves it by C, not by 2C
            z = calibrate(lambda z: GaussianNoise.at(z, C, 1).event, one)
            return RepeatedSelectionPlan(one, plans, repetitions, held_out, count, C, GaussianNoise.at(z, C, 1))

        def spent(plan: RepeatedSelectionPlan) -> float:
            return epsilon(plan.event, budget.delta, budget.relation)

        if run_epsilon is not None:
            plan = search(run_epsilon)
            if spent(plan) > budget.epsilon:
                raise ValueError(f"a search whose runs cost epsilon {run_epsilon:.6g} costs more than the budget.")
            return plan

        # what any method with Gaussian noise makes of (epsilon_1, delta): a guess that is nearly always exact
        def gaussian(multiplier: float) -> Event:
            return repetitions.event(GaussianDP(gdp_mu(budget.epsilon / multiplier, budget.delta)))

        epsilon_1 = budget.epsilon / calibrate(gaussian, budget)
        within, beyond = 0.0, math.inf
        for attempt in itertools.count():
            plan = search(epsilon_1)
            costs = spent(plan)
            if costs <= budget.epsilon:
                within = epsilon_1
                if costs >= _CLOSE * budget.epsilon or beyond < within * (1 + 1e-3):
                    break
            else:
                beyond = epsilon_1
            # the whole often costs in proportion to a run; where it does not, halve what is between
            epsilon_1 *= (1 + _CLOSE) / 2 * budget.epsilon / costs
            if attempt > 5 or not within < epsilon_1 < beyond:
                epsilon_1 = math.sqrt((within or beyond / 100) * min(beyond, 100 * within or beyond))
        return plan

    def run(
        self,
        plan: RepeatedSelectionPlan,
        problem: AnyProblem,
        oracle: LinearOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        problem = require_linear(problem, "a search")
        first = problem.start() if start is None else start
        # searches side by side share the split; the runs of one search are independent, as the theorem asks
        starts = np.atleast_2d(first)
        best, chosen, least = starts.copy(), np.full(len(starts), -1), np.full(len(starts), np.inf)
        kept = replace(problem, records=problem.records - plan.held_out_records)
        training, scoring = oracle.divide(
            oracle.draw(plan.held_out, randomness), kept, replace(problem, records=plan.held_out_records)
        )
        runs = plan.repetitions.draw(len(starts), randomness)
        # of every run: its search, and its setting
        searches = np.repeat(np.arange(len(starts)), runs)
        drawn = randomness.noise.generator.integers(len(self.settings), size=len(searches))
        with watching(_say_nothing):
            for these, j, w in self._trained(plan, kept, training, randomness, starts, searches, drawn):
                scores = scoring.release(ClippedLoss(w, plan.score_clip), plan.noise, randomness)
                for search, s, found in zip(searches[these].tolist(), scores.tolist(), w, strict=True):
                    if s < least[search]:
                        best[search], chosen[search], least[search] = found, j, s
        weights = best.reshape(first.shape)
        return Release(weights, plan.event, int(chosen[0]) if first.ndim == 1 and chosen[0] >= 0 else None)

    def _trained(
        self,
        plan: RepeatedSelectionPlan,
        kept: Problem,
        training: LinearOracle,
        randomness: Randomness,
        starts: Array,
        searches: Index,
        drawn: Index,
    ) -> Iterator[tuple[Index, int, Array]]:
        """Some runs by their numbers, all with one setting, which one, and the weights they end with."""
        beside = {
            j: one
            for j, (setting, one) in enumerate(zip(self.settings, plan.plans, strict=True))
            if (drawn == j).any() and setting.method.run is descend and can_go_beside(one)
        }
        groups = [np.flatnonzero(drawn == j) for j in beside]
        descents = [
            (one, self.settings[j].problem(kept), starts[searches[these]])
            for (j, one), these in zip(beside.items(), groups, strict=True)
        ]
        for these, j, end in zip(groups, beside, descend_side_by_side(descents, training, randomness), strict=True):
            yield these, j, end.weights
        # where a stack has batches in common, no two runs of a search may be in it
        place = np.arange(len(searches)) - np.searchsorted(searches, searches)
        for number, j in itertools.product(range(int(place.max(initial=-1)) + 1), range(len(self.settings))):
            these = np.flatnonzero((place == number) & (drawn == j))
            if j not in beside and len(these):
                setting = self.settings[j]
                end = setting.method.run(
                    plan.plans[j], setting.problem(kept), training, randomness, starts[searches[these]]
                )
                yield these, j, end.weights

    def _held_out(self, problem: Problem, relation: Relation) -> tuple[FixedSize | Poisson, int]:
        count = round(self.held_out * problem.records)
        if not 1 <= count < problem.records:
            raise ValueError(
                f"held_out is {self.held_out}: of {problem.records} records at least one must be held out, and one "
                "kept for training."
            )
        # where the number of records is private, every record has its own coin
        return (FixedSize(count) if relation is Relation.REPLACE_ONE else Poisson(self.held_out)), count

    def _plans(self, kept: Problem, one: Budget) -> tuple[Plan, ...]:
        plans: list[Plan] = []
        on_batches: set[Event] = set()
        for setting in self.settings:
            name = type(setting.method).__name__
            plan = setting.method.plan(setting.problem(kept), one)
            if isinstance(plan, DescentPlan) and plan.release == "trajectory":
                raise ValueError(f"a setting with {name} releases its whole path: a search compares single models.")
            if not samplable(plan.event, one.relation):
                raise ValueError(
                    f"a setting with {name} has no Renyi divergence under {one.relation}, which "
                    "is what a search is accounted by: use a method with Gaussian noise, such as NoisyGradientDescent."
                )
            if leaves_of(plan.event, one.relation).sampled:
                on_batches.add(plan.event)
            if len(on_batches) > MOST_ACCOUNTED:
                raise ValueError(
                    f"more than {MOST_ACCOUNTED} settings are on batches and differ in their size, their number or "
                    "the noise they need, and each is accounted for by itself, by whoever verifies too: let them "
                    "differ in the penalty, the step size or the clip, or take all records in every step."
                )
            plans.append(plan)
        return tuple(plans)

    def _require(self, budget: Budget) -> None:
        require_delta("a search", budget, "a score with Gaussian noise is compared; give a delta")
        if self.calibration != "tight":
            raise ValueError(
                f"calibration is {self.calibration!r} with a search: its theorem prints no noise, only what the runs "
                "cost together; use calibration='tight'."
            )
        if not 1 <= len(self.settings) <= MOST_SETTINGS:
            raise ValueError(
                f"there are {len(self.settings)} settings: a search needs at least one Setting(method), and takes at "
                f"most {MOST_SETTINGS}."
            )
        for setting in self.settings:
            name = type(setting.method).__name__
            if isinstance(setting.method, RepeatedSelection):
                raise ValueError("a setting is a search itself: list its settings among the others.")
            if setting.method.calibration != "tight":
                raise ValueError(
                    f"a setting with {name} has calibration={setting.method.calibration!r}: a search fits the noise of "
                    "its runs to the whole budget; use calibration='tight'."
                )


def _say_nothing(done: int, planned: int) -> None:
    """Progress would tell how many runs there were."""
