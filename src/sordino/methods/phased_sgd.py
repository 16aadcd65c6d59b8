r"""Phased SGD (Feldman, Koren and Talwar 2020): one pass over records in their order, without a secret about batches.

    phase i = 1, .., k has about n/2^i records, the last one all that are left, in batches of about m as they stand;
    u = w_{i-1};    u <- Pi( u - eta_i ( mean_{j in B} grad l(u; z_j) + grad r(u) ) ) for every batch,   eta_i = eta/4^i
    w_i = Pi( u + N(0, (z Delta_i)^2 I) );      release w_k

It is here for completeness: for records that are read once, in their order. Before it was built, the method was
measured beside one epoch of noisy SGD and did not win; `DPSGD(sampling="in_order")` is for the same streams.

Privacy (replace-one).  With eta_i <= 2/beta a step of a convex loss and penalty takes no two points further apart. Two
runs agree until the record that was replaced, whose batch B moves u by at most 2 L eta_i/|B|, and stay that near to the
phase's end: Delta_i = 2 L eta_i / min |B|, and what rounding adds in doubles (`_rounding`). A record is in one phase
alone, and the phases after it look at w_i and at records that both have. So the whole run is as private as its worst
phase, and not as all of them: one Gaussian release of multiplier z. Under add/remove one record more moves all that
stand behind it to other batches: refused.

The first step (own): the excess is at most  D^2/(2 eta_1 T_1) + (2/3) L^2 eta_1 + 32 d L^2 eta_1/(m^2 mu^2 T_1),  for
|w*| <= D, T_1 steps in the first phase and a budget of mu in Gaussian differential privacy: the distance that a phase
has to go is the noise of the one before it, and what that costs halves from phase to phase. eta_1 is where this is
least, and 1/beta at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.domains import Ball
from sordino.methods.protocol import AnyProblem, Calibration, Release, StepEvents
from sordino.methods.schedule import expected_radius, gaussian_allowance
from sordino.methods.settings import check_settings, require_delta, require_linear
from sordino.oracle.protocol import ExactOracle, Oracle
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Approximate, Event, Gaussian
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import steps
from sordino.words import plan_card

MOST_STEPS = 10_000
"""About so many where no batch size is given."""

MOST_PHASES = 8
"""The last one takes all records that are left. Steps of a further one would be 4^-8 of the first one's, which moves
nothing, and be hidden by noise that is hardly larger than what arithmetic rounds."""


LARGEST = 2.0**30
"""Of weights that noise is added to, in standard deviations: there are fewer phases where theirs could be larger."""


@dataclass(frozen=True)
class Phase:
    """Records `first` to `last`, which does not belong to it, in so many steps; `noise` is drawn once at its end."""

    first: int
    last: int
    steps: int
    step_size: float
    noise: GaussianNoise
    begins: float
    """At most so far from zero, by which rounding is reckoned: weights from further away are drawn back to there."""


@dataclass(frozen=True)
class PhasedSGDPlan:
    """Every number of a run."""

    phases: tuple[Phase, ...]
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        """Of the worst phase: a record is in one of them."""
        events = [phase.noise.event for phase in self.phases]
        return Approximate(
            Gaussian(min(phase.noise.multiplier for phase in self.phases)), max(e.total_variation for e in events)
        )

    _repr_html_ = plan_card


@dataclass(frozen=True)
class PhasedSGD:
    """One pass, with noise at the end of every phase. `step_size` is that of the first, a quarter of eta.

    `radius` is a public guess of |w*|, for a step size that is not given.
    """

    batch_size: int | None = None
    step_size: float | None = None
    radius: float | None = None

    calibration: ClassVar[Calibration] = "tight"
    needs: ClassVar[type[Oracle]] = ExactOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> PhasedSGDPlan:
        problem = self._require(problem, budget)
        L, beta, _ = problem.constants
        n, d = problem.records, problem.dim
        m = self.batch_size or math.ceil(n / MOST_STEPS)
        most = min(max(1, int(math.log2(n / m))), MOST_PHASES)
        # the first phase is as long in fewer phases, but where there is no other
        eta = self.step_size or self._step_size(problem, budget, m, _steps(_lengths(n, most)[0], m))
        if not eta <= 2 / beta:
            raise ValueError(
                f"step_size is {eta}: phased SGD needs at most 2/beta = {2 / beta:g}, above which a step may take two "
                "points further apart."
            )

        def plan_of(k: int) -> PhasedSGDPlan:
            lengths = _lengths(n, k)

            def plan_at(z: float) -> PhasedSGDPlan:
                phases, first, begins = [], 0, eta * L * _steps(lengths[0], m)
                for i, length in enumerate(lengths):
                    T, eta_i = _steps(length, m), eta / 4**i
                    # the smallest batch of a phase has length // T records
                    Delta = 2 * L * eta_i / (length // T) + _rounding(T, length // T, d, begins, eta_i * L)
                    phases.append(Phase(first, first + length, T, eta_i, GaussianNoise.at(z, Delta, d), begins))
                    first, begins = first + length, begins + eta_i * L * T + 10 * phases[-1].noise.std * math.sqrt(d)
                return PhasedSGDPlan(tuple(phases))

            return plan_at(calibrate(lambda z: plan_at(z).event, budget))

        def fits(phase: Phase) -> bool:
            """Wherever the phase ends: noise is refused beside what is larger, which would tell where that was."""
            end = min(phase.begins + phase.steps * phase.step_size * L, problem.domain.radius)
            return end <= LARGEST * phase.noise.std

        for plan in map(plan_of, range(most, 0, -1)):
            if all(map(fits, plan.phases)):
                return plan
        raise ValueError(
            f"{n:,} records at epsilon {budget.epsilon:g}: the noise of a phase would be too small to be added to "
            "weights in double precision. Use a smaller epsilon, or DPSGD."
        )

    def run(
        self,
        plan: PhasedSGDPlan,
        problem: AnyProblem,
        oracle: ExactOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        n, w = problem.records, problem.start() if start is None else start
        taken = steps(sum(phase.steps for phase in plan.phases))
        for phase in plan.phases:
            # w was released, in thought, so that this costs nothing
            w = Ball(phase.begins).project(w)
            places = np.arange(phase.first, phase.last, dtype=np.intp)
            for batch in np.array_split(places, phase.steps):
                next(taken)
                # the oracle divides by n
                g = oracle.gradient(w, batch) * (n / len(batch))
                w = problem.domain.project(w - phase.step_size * (g + problem.penalty.gradient(w)))
            w = problem.domain.project(phase.noise.perturb(w, randomness))
        # the last one is told too
        next(taken, None)
        return Release(w, plan.event)

    def _require(self, problem: AnyProblem, budget: Budget) -> Problem:
        require_delta("phased SGD", budget)
        problem = require_linear(problem, "phased SGD", "convex", "smooth")
        check_settings(self, positive=("step_size", "radius"), whole=("batch_size",))
        if budget.relation is not Relation.REPLACE_ONE:
            raise ValueError(
                f"relation is {budget.relation}: phased SGD goes by the places of records, and one record more or less "
                "moves all that stand behind it; use replace_one, or Poisson batches (DPSGD)."
            )
        if problem.person is not None:
            raise ValueError(
                "phased SGD goes by the places of records, and a person stands where their identifier puts them: "
                "another one in their stead would move others. Use Poisson batches (DPSGD)."
            )
        if self.batch_size is not None and self.batch_size > problem.records:
            raise ValueError(
                f"batch_size is {self.batch_size}: it must lie between 1 and the {problem.records} records."
            )
        return problem

    def _step_size(self, problem: Problem, budget: Budget, m: int, T: int) -> float:
        L, beta, _ = problem.constants
        mu, D = gaussian_allowance(problem.dim, budget), expected_radius(problem, self.radius)
        each = 2 / 3 + 32 * problem.dim / (m**2 * mu**2 * T)
        return min(D / (L * math.sqrt(2 * T * each)), 1 / beta)


def _lengths(records: int, phases: int) -> list[int]:
    """How many records every phase has."""
    ends = [0, *(records - records // 2**i for i in range(1, phases)), records]
    return [last - first for first, last in pairwise(ends)]


def _steps(length: int, batch: int) -> int:
    return max(1, length // batch)


def _rounding(steps: int, batch: int, dim: int, begins: float, longest: float) -> float:
    """How far apart rounding alone may take two runs: scores of dim, slopes of a batch and weights, in every step."""
    return steps * 2.0**-49 * (dim * (begins + steps * longest) + (batch + dim) * longest)
