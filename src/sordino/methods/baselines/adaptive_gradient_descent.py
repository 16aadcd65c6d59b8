r"""DP-AGD: gradient descent that adapts what it spends on a step (Lee & Kifer 2018), corrected.

    g = sum_i clip(grad l(w; z_i), C) + noise of precision rho
    j = noisy argmin over step lengths a_0 = 0 < .. < a_K of  sum_i min(l(w - a_j g'; z_i), C_obj),   g' along g
    j > 0:   w <- w - a_j g', and start again from a new gradient
    j = 0:   g is too noisy to descend along. Measure it again at precision gamma rho and average the two,
             g <- (rho g + gamma rho g_2) / ((1 + gamma) rho),    rho <- (1 + gamma) rho

until the next gradient and choice would exceed the budget. Directions include the penalty's gradient, scores its value,
both exact. Every ten steps the longest length becomes 1.1 times the longest one taken, never more than at first.

Privacy.  What is released next depends on what was released, so a filter decides: mu_t-GDP releases, chosen in view of
each other, are mu-GDP together if sum mu_t^2 <= mu^2 is checked before each of them (Smith & Thakurta 2022). A
gradient of precision rho has mu^2 = rho, a choice of `privacy.selection` what an (epsilon_nm, 0)-private release has.
The plan states mu, and so does the event, however little of it was spent. Both relations.

As published, of epsilon and delta in total: epsilon_nm = epsilon/(2 splits), and a first gradient with noise
C sqrt(2 log(1.25/delta)) / epsilon_nm. The public code adds the exponential noise of the choice where it must be
subtracted, for up to K times the claimed loss; moves by the candidate before the one it chose; and pays for gradients
twice. A choice by exponential noise costs epsilon_nm^2/2 in zCDP, and not a quarter of it.

`calibration="paper"` spends the rho of  rho + 2 sqrt(rho log(1/delta)) = epsilon, less than the budget is worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.methods.protocol import AnyProblem, Calibration, Release, StepEvents
from sordino.methods.schedule import expected_radius
from sordino.methods.settings import check_settings, clip_of, require_delta, require_linear
from sordino.oracle.protocol import ChoosingOracle, Oracle
from sordino.oracle.query import Choice, Gradient
from sordino.privacy.accountants import gdp_epsilon, gdp_mu
from sordino.privacy.events import Approximate, Event, GaussianDP, compose, flatten
from sordino.privacy.filter import PrivacyFilter
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum
from sordino.problem import Problem
from sordino.progress import steps
from sordino.words import plan_card

SHORTENED_EVERY = 10


@dataclass(frozen=True)
class AdaptiveGradientDescentPlan:
    """Every number of the run. `kept` is the budget of the filter, `rounds` more than it can ever allow.

    `distance` is set aside for the lattices of so many gradients.
    """

    kept: Budget
    rounds: int
    distance: float
    clip: float
    loss_clip: float
    candidates: int
    longest_step: float
    growth: float
    noise: GaussianNoise
    selection: NoisyMinimum
    step_events: ClassVar[StepEvents] = ()

    @property
    def reserve(self) -> float:
        """The share of delta that the distance may use up, and a hair more for the rounding of its sum."""
        return (1 + math.exp(self.kept.epsilon)) * self.distance / self.kept.delta * (1 + 1e-9)

    def filter(self) -> PrivacyFilter:
        return PrivacyFilter(self.kept, reserve=self.reserve)

    @property
    def event(self) -> Event:
        mu = gdp_mu(self.kept.epsilon, (1 - self.reserve) * self.kept.delta)
        return Approximate(GaussianDP(mu), self.distance)

    _repr_html_ = plan_card


@dataclass(frozen=True)
class AdaptiveGradientDescent:
    """Noisy gradients, step lengths by a private line search. More `splits` begin with less spent on each.

    `loss_clip=None` bounds a record's loss by four times its largest value at zero; `longest_step=None` is a sixteenth
    of `radius`, a public guess of |w*|.
    """

    splits: int = 60
    growth: float = 0.1
    candidates: int = 20
    clip: float | None = None
    loss_clip: float | None = None
    longest_step: float | None = None
    radius: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = ChoosingOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> AdaptiveGradientDescentPlan:
        problem = require_linear(problem, "adaptive gradient descent")
        require_delta("adaptive gradient descent", budget)
        check_settings(
            self,
            positive=("splits", "growth", "clip", "longest_step", "radius"),
            whole=("candidates",),
            chosen={"calibration": Literal["tight", "paper"]},
        )
        d, C = problem.dim, clip_of(problem, self.clip)
        C_obj = self._loss_clip(problem)
        # a hair less, for the rounding of whoever accounts for it again
        epsilon = self._spendable(budget) * (1 - 1e-8)
        epsilon_nm = budget.epsilon / (2 * self.splits)
        multiplier = math.sqrt(2 * math.log(1.25 / budget.delta)) / epsilon_nm
        noise = GaussianNoise.at(multiplier, budget.relation.distance * C, d)
        selection = NoisyMinimum(C_obj, epsilon_nm, budget.relation)
        # every round has a choice, whose mu is at least its epsilon up to 1
        rounds = math.ceil((gdp_mu(epsilon, budget.delta) / min(epsilon_nm, 1.0)) ** 2)
        plan = AdaptiveGradientDescentPlan(
            kept=Budget(epsilon, budget.delta, budget.relation),
            rounds=rounds,
            distance=rounds * flatten(noise.event)[1],
            clip=C,
            loss_clip=C_obj,
            candidates=self.candidates,
            longest_step=self.longest_step or expected_radius(problem, self.radius) / 16,
            growth=self.growth,
            noise=noise,
            selection=selection,
        )
        if not plan.filter().admits(compose(noise.event, selection.event)):
            raise ValueError(
                f"splits is {self.splits}: the first gradient and choice alone would exceed the budget; use more "
                "`splits`, which spend less on each."
            )
        return plan

    def run(
        self,
        plan: AdaptiveGradientDescentPlan,
        problem: AnyProblem,
        oracle: ChoosingOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        first = problem.start() if start is None else start
        ends = [_descend(plan, problem, oracle, randomness, w) for w in first.reshape(-1, problem.dim)]
        return Release(np.stack(ends).reshape(first.shape), plan.event)

    def _spendable(self, budget: Budget) -> float:
        if self.calibration == "tight":
            return budget.epsilon
        log = math.log(1 / budget.delta)
        root = math.sqrt(log + budget.epsilon) - math.sqrt(log)
        # rho-zCDP by Gaussian noise is sqrt(2 rho)-GDP
        return min(budget.epsilon, gdp_epsilon(math.sqrt(2) * root, budget.delta))

    def _loss_clip(self, problem: Problem) -> float:
        bound = 4 * problem.loss.at_zero if self.loss_clip is None else self.loss_clip
        if not (math.isfinite(bound) and bound > 0):
            raise ValueError(
                f"loss_clip is {self.loss_clip}, and {type(problem.loss).__name__} loss is {problem.loss.at_zero} at "
                "zero: give a positive `loss_clip`, above which a record's loss does not matter, or a target bound."
            )
        return bound


def _descend(
    plan: AdaptiveGradientDescentPlan, problem: AnyProblem, oracle: ChoosingOracle, randomness: Randomness, w: Array
) -> Array:
    n, penalty, project = problem.records, problem.penalty, problem.domain.project
    spending = plan.filter()
    # precisions are mu^2: what is wanted of a gradient, and what has been measured where w is
    wanted, had = plan.noise.multiplier**-2, 0.0
    g = np.zeros_like(w)
    longest, taken = plan.longest_step, []
    for _ in steps(plan.rounds):
        noise = GaussianNoise.at((wanted - had) ** -0.5, plan.noise.sensitivity, problem.dim)
        both = compose(noise.event, plan.selection.event)
        if not spending.admits(both):
            break
        spending.spend(both)
        # (rho g + gamma rho g_2) / ((1 + gamma) rho), or the first measurement alone
        measured = oracle.release(Gradient(w, plan.clip), noise, randomness)
        g, had = (had * g + (wanted - had) * measured) / wanted, wanted

        direction = g + n * penalty.gradient(w)
        lengths = np.linspace(0.0, longest, plan.candidates + 1)
        points = project(w - lengths[:, None] * (direction / np.linalg.norm(direction)))
        j = oracle.choose(Choice(points, plan.loss_clip, n * penalty.value(points)), plan.selection, randomness)
        if j == 0:
            wanted = (1 + plan.growth) * had
            continue
        w, had = points[j], 0.0
        taken.append(lengths[j])
        if len(taken) == SHORTENED_EVERY:
            longest, taken = min(1.1 * max(taken), plan.longest_step), []
    return w
