r"""DP-SGD with momentum and a schedule of step sizes (Abadi et al. 2016), the reference for non-convex problems.

    B_t ~ sampling,   g_t = (1/b) sum_{i in B_t} clip(grad l(w_t; z_i), C) + N(0, sigma^2 I) + grad r(w_t)
    m_t = rho m_{t-1} + g_t,      w_{t+1} = Pi( w_t - eta_t m_t ),   t < T;      release the last iterate or the average

Privacy: T sampled Gaussian releases, composed numerically; the rest is computed from them and from public numbers.
Nothing is assumed of the loss. Both relations with Poisson batches, replace-one with batches of fixed size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sordino.budget import Budget
from sordino.methods.batches import (
    Batches,
    Drawn,
    Stated,
    batches_of,
    calibration_of,
    check_settings,
    clip_of,
    first_iterate,
    releases,
    require_settings,
    sampled_noise,
)
from sordino.methods.protocol import Array, Calibration, Release, require_delta
from sordino.methods.rates import Constant, Rate
from sordino.methods.schedule import Descent, balanced_batch, balanced_descent
from sordino.oracle.protocol import Oracle
from sordino.oracle.query import Gradient
from sordino.privacy.events import Event
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem
from sordino.progress import steps

Released = Literal["last", "average"]


@dataclass(frozen=True)
class DPSGDPlan:
    """Every number of the run. `noise` is added to sums of clipped gradients over a batch."""

    steps: int
    step_size: float
    rate: Rate
    momentum: float
    clip: float
    sampling: Batches
    records: int
    release: Released
    noise: GaussianNoise

    @property
    def event(self) -> Event:
        return releases(self.sampling, self.noise, self.records, self.steps)


@dataclass
class _State:
    """w_t, m_{t-1}, and the sum of the iterates so far with their number."""

    w: Array
    m: Array
    total: Array
    taken: int


@dataclass(frozen=True)
class DPSGD:
    """Noise in every step, on a batch of the records. What is `None` balances the predicted error of a linear model
    (see `methods.schedule`); on a network nothing may be.

    `noise_multiplier` fixes the noise, as a multiple of how far one record moves a sum (2 clip under replace-one, clip
    under add/remove); the run is refused if that costs more than the budget. Runs side by side (a stack as `start`)
    share their batches, so they are alike but not independent.
    """

    steps: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    clip: float | None = None
    momentum: float = 0.0
    rate: Rate = field(default_factory=Constant)
    sampling: Drawn = "poisson"
    release: Released = "last"
    noise_multiplier: float | None = None

    @property
    def calibration(self) -> Calibration:
        return calibration_of(self.noise_multiplier)

    def plan(self, problem: Stated, budget: Budget) -> DPSGDPlan:
        require_delta("DP-SGD", budget, "use OutputPerturbation for a pure guarantee, or give a delta")
        require_settings(self, problem, "steps", "batch_size", "step_size", "clip")
        check_settings(
            self,
            positive=("step_size", "clip", "noise_multiplier"),
            whole=("steps", "batch_size"),
            fractions=("momentum",),
            chosen={"sampling": Drawn, "release": Released},
        )
        n = problem.records
        (T, eta, C), b = self._descent(problem, budget)
        sampling = batches_of(self.sampling, b, n)
        noise = sampled_noise(
            self.noise_multiplier,
            budget.relation.distance * C,
            problem.dim,
            lambda noise: releases(sampling, noise, n, T),
            budget,
        )
        return DPSGDPlan(T, eta, self.rate, self.momentum, C, sampling, n, self.release, noise)

    def run(
        self, plan: DPSGDPlan, problem: Stated, oracle: Oracle, randomness: Randomness, start: Array | None = None
    ) -> Release:
        b = plan.sampling.expected_size(plan.records)
        w = first_iterate(problem, start)
        state = _State(w, np.zeros_like(w), np.zeros_like(w), 0)
        for t in steps(plan.steps, state):
            w = state.w
            batch = oracle.draw(plan.sampling, randomness)
            g = oracle.release(Gradient(at=w, clip=plan.clip, batch=batch), plan.noise, randomness) / b
            state.m = plan.momentum * state.m + g + problem.penalty.gradient(w)
            state.w = problem.domain.project(w - plan.step_size * plan.rate.at(t, plan.steps) * state.m)
            state.total = state.total + state.w
            state.taken += 1
        return Release(state.total / state.taken if plan.release == "average" else state.w, plan.event)

    def _descent(self, problem: Stated, budget: Budget) -> tuple[Descent, int]:
        clip = None if self.clip is None else clip_of(problem, self.clip)
        if self.steps and self.step_size and self.batch_size and clip:
            return Descent(self.steps, self.step_size, clip), self.batch_size
        assert not isinstance(problem, NetworkProblem)
        problem.require("DP-SGD without a step size, steps, batch size and clip", "smooth")
        # in the long run momentum makes a step 1/(1 - rho) times as long
        reach = 1 / (1 - self.momentum)
        step = None if self.step_size is None else self.step_size * reach
        T, eta, C = balanced_descent(problem, budget, self.steps, step, None, clip, "every step")
        T = self.steps or T
        return Descent(T, eta / reach, C), self.batch_size or balanced_batch(problem, budget, Descent(T, eta, C))
