r"""Full-batch noisy gradient descent, DP-GD (Zhou et al. 2020, Algorithm 1; Yu et al. 2020, Algorithm 1).

    g_t = (1/n) sum_i clip(grad l(w_t; z_i), C) + N(0, sigma^2 I)
    w_{t+1} = Pi( w_t - eta (g_t + grad r(w_t)) ),   t < T

One record moves the sum by Delta = 2C (replace-one) or C (add/remove). With multiplier m = n sigma / Delta the cost is
A_T/m in Gaussian differential privacy, where A_T depends on what is released:

    last or random iterate, convex, replace-one:       the least of sqrt(T) and the last-iterate factors of
                                                       Bok, Su & Altschuler 2024 (see privacy.last_iterate)
    anything else:                                     A_T = sqrt(T)

The factors need steps that contract. Under add/remove that cannot be promised: the sum over the true records, whose
number is private, divided by the public one may be steeper than beta.

A random iterate stops at an index drawn without looking at the records and is accounted as the longest run. Clipping
below the Lipschitz constant keeps the gradient of a convex smooth (Huberised) loss when there is one score per record;
with several scores it does not, and composition is used.

`calibration="paper"` takes sigma = 2 sqrt(2) L sqrt(T log(1/delta)) / (n epsilon) (Yu et al. 2020, Theorem 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sordino.budget import Budget
from sordino.methods.protocol import Array, Calibration, Release, require_delta, require_paper_setting
from sordino.methods.schedule import Descent, Paid, amplification, balanced_descent
from sordino.oracle.protocol import Oracle
from sordino.oracle.query import Gradient
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Approximate, Event, GaussianDP, flatten, repeat
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import steps

Released = Literal["last", "average", "random", "trajectory"]


@dataclass(frozen=True)
class NoisyGradientDescentPlan:
    """Every number of the run. `amplification` is A_T; `noise` is added to sums of clipped gradients."""

    steps: int
    step_size: float
    clip: float
    release: Released
    amplification: float
    noise: GaussianNoise

    @property
    def event(self) -> Event:
        return _event(self.noise, self.steps, self.amplification)


@dataclass(frozen=True)
class NoisyGradientDescent:
    """Noise in every step. What is `None` among `steps`, `step_size` and `clip` balances the predicted error on public
    facts alone; `clip` is the Lipschitz constant where the other two are given.

    `radius` is a public guess of |w*| for that balance, used where neither the penalty nor the domain bounds it.
    """

    steps: int | None = None
    step_size: float | None = None
    clip: float | None = None
    release: Released = "last"
    radius: float | None = None
    calibration: Calibration = "tight"

    def plan(self, problem: Problem, budget: Budget) -> NoisyGradientDescentPlan:
        problem.require("noisy gradient descent", "smooth")
        require_delta("noisy gradient descent", budget, "use OutputPerturbation for a pure guarantee, or give a delta")
        require_paper_setting(self.calibration, budget, "Yu et al. 2020")
        if self.release not in ("last", "average", "random", "trajectory"):
            raise ValueError(f"release is {self.release!r}: it must be 'last', 'average', 'random' or 'trajectory'.")
        L = problem.constants.L
        T, eta, C = self._descent(problem, budget)
        A = amplification(problem, budget.relation, T, eta, C, self._paid)
        Delta, d = budget.relation.distance * C, problem.dim
        if self.calibration == "paper":
            std = 2 * math.sqrt(2) * L * math.sqrt(T * math.log(1 / budget.delta)) / budget.epsilon
            noise = GaussianNoise(Delta, std, d)
        else:
            multiplier = calibrate(lambda m: _event(GaussianNoise.at(m, Delta, d), T, A), budget)
            noise = GaussianNoise.at(multiplier, Delta, d)
        return NoisyGradientDescentPlan(T, eta, C, self.release, A, noise)

    def run(
        self,
        plan: NoisyGradientDescentPlan,
        problem: Problem,
        oracle: Oracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        n, eta, project = problem.records, plan.step_size, problem.domain.project
        last = plan.steps
        if plan.release == "random":
            last = int(randomness.sampling.generator.integers(1, plan.steps, endpoint=True))
        w = problem.start() if start is None else start
        path = [w] if plan.release == "trajectory" else []
        total = np.zeros_like(w)
        for _ in steps(last):
            g = oracle.release(Gradient(at=w, clip=plan.clip), plan.noise, randomness) / n
            w = project(w - eta * (g + problem.penalty.gradient(w)))
            if plan.release == "average":
                total += w
            if plan.release == "trajectory":
                path.append(w)
        if plan.release == "average":
            w = total / last
        return Release(np.stack(path) if path else w, plan.event)

    def _descent(self, problem: Problem, budget: Budget) -> Descent:
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps is {self.steps}: at least one step is needed.")
        if self.step_size is not None and not self.step_size > 0:
            raise ValueError(f"step_size is {self.step_size}: it must be positive.")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip is {self.clip}: it must be a positive bound on a record's gradient norm.")
        L = problem.constants.L
        # contributions never exceed L, so a larger clip would only be paid for
        clip = None if self.clip is None else min(L, self.clip)
        if self.calibration == "paper" and clip is None:
            clip = L
        if self.steps and self.step_size:
            return Descent(self.steps, self.step_size, L if clip is None else clip)
        return balanced_descent(problem, budget, self.steps, self.step_size, self.radius, clip, self._paid)

    @property
    def _paid(self) -> Paid:
        return "last iterate" if self.release in ("last", "random") else "every step"


def _event(noise: GaussianNoise, T: int, A: float) -> Event:
    if math.sqrt(T) == A:
        return repeat(noise.event, T)
    _, distance = flatten(noise.event)
    return Approximate(GaussianDP(A / noise.multiplier), T * distance)
