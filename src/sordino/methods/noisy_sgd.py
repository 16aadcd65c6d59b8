r"""Noisy mini-batch stochastic gradient descent (Bassily, Feldman, Talwar & Thakurta 2019, Algorithm 1; the DP-SGD of
Yu et al. 2020 with its step decay).

    B_t ~ sampling,   g_t = (1/b) sum_{i in B_t} clip(grad l(w_t; z_i), C) + N(0, sigma^2 I),     b = expected size
    w_{t+1} = Pi( w_t - eta_t (g_t + grad r(w_t)) ),   t < T;        release the average, or the last iterate

Theorem 3.2 of Bassily et al., with M the radius of the domain:

    T = min(n/8, epsilon^2 n^2 / (32 d log(1/delta))),    b = max(n sqrt(epsilon/(4T)), 1),    eta = M/(L sqrt(T))

Privacy: T sampled Gaussian releases, composed numerically. Poisson batches are the default (they need less noise under
both relations); fixed-size batches without replacement are accounted under replace-one. An empty batch gets its noise
like any other. Convexity plays no part in it.

`calibration="paper"` takes sigma^2 = 8 T L^2 log(1/delta) / (n^2 epsilon^2), which was proved for batches drawn with
replacement by a theorem about Poisson batches; the certificate states what it gives for the batches that are drawn.

The schedules of Yu et al. 2020 are settings: eta_t = 1/(nu t) is `step_size=1/nu, decay="inverse"` with a public nu
(see `sordino.curvature`), and their experiments' DP-SGD is `decay="halved midway", release="last"`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sordino.budget import Budget
from sordino.methods.protocol import Calibration, Release, require_delta, require_paper_setting
from sordino.methods.schedule import Descent, balanced_batch, balanced_descent, expected_radius
from sordino.oracle.protocol import Array, Oracle
from sordino.oracle.query import Gradient
from sordino.oracle.sampling import FixedSize, Poisson
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Event, repeat
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import steps

Decay = Literal["constant", "halved midway", "inverse", "inverse root"]
"""eta_t / eta_1: 1; 1 then 1/2 in the second half; 1/t; 1/sqrt(t)."""

Released = Literal["average", "last"]
Drawn = Literal["poisson", "fixed_size"]


@dataclass(frozen=True)
class NoisySGDPlan:
    """Every number of the run. `noise` is added to sums of clipped gradients over a batch."""

    steps: int
    step_size: float
    decay: Decay
    clip: float
    sampling: Poisson | FixedSize
    records: int
    release: Released
    noise: GaussianNoise

    @property
    def event(self) -> Event:
        return _event(self.noise, self.sampling, self.records, self.steps)


@dataclass
class _State:
    """The iterate, the sum of all iterates and their number, which an interruption can make less than T."""

    w: Array
    total: Array
    taken: int


@dataclass(frozen=True)
class NoisySGD:
    """Noise in every step, on a batch of the records. What is `None` comes from the theorem where the average is
    released, and where the last iterate is, from balancing the predicted error (see `methods.schedule`): the descent of
    `NoisyGradientDescent` with the smallest batches that cost no more noise.

    `radius` is a public guess of |w*|; `None` takes the domain's radius as the theorem does, and guesses where there is
    none. Runs side by side (a stack as `start`) share their batches, so they are alike but not independent.
    """

    steps: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    decay: Decay = "constant"
    clip: float | None = None
    sampling: Drawn = "poisson"
    release: Released = "average"
    radius: float | None = None
    calibration: Calibration = "tight"

    def plan(self, problem: Problem, budget: Budget) -> NoisySGDPlan:
        problem.require("noisy SGD", "smooth")
        require_delta("noisy SGD", budget, "use OutputPerturbation for a pure guarantee, or give a delta")
        require_paper_setting(self.calibration, budget, "Bassily et al. 2019")
        self._check()
        n, d = problem.records, problem.dim
        theorem = self.release == "average" or self.calibration == "paper"
        (T, eta, C), b = (self._theorem if theorem else self._balanced)(problem, budget)
        sampling = self._sampling(b, n)
        Delta = budget.relation.distance * C
        if self.calibration == "paper":
            # sigma is on the mean over the batch
            sigma = math.sqrt(8 * T * math.log(1 / budget.delta)) * problem.constants.L / (n * budget.epsilon)
            noise = GaussianNoise(Delta, sigma * sampling.expected_size(n), d)
        else:
            multiplier = calibrate(lambda m: _event(GaussianNoise.at(m, Delta, d), sampling, n, T), budget)
            noise = GaussianNoise.at(multiplier, Delta, d)
        return NoisySGDPlan(T, eta, self.decay, C, sampling, n, self.release, noise)

    def run(
        self,
        plan: NoisySGDPlan,
        problem: Problem,
        oracle: Oracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        b = plan.sampling.expected_size(problem.records)
        w = problem.start() if start is None else start
        state = _State(w, np.zeros_like(w), 0)
        for t in steps(plan.steps, state):
            w = state.w
            batch = oracle.draw(plan.sampling, randomness)
            g = oracle.release(Gradient(at=w, clip=plan.clip, batch=batch), plan.noise, randomness) / b
            eta = plan.step_size * decay(plan.decay, t, plan.steps)
            state.w = problem.domain.project(w - eta * (g + problem.penalty.gradient(w)))
            state.total += state.w
            state.taken += 1
        return Release(state.total / state.taken if plan.release == "average" else state.w, plan.event)

    def _check(self) -> None:
        for name, kinds in (("decay", Decay), ("release", Released), ("sampling", Drawn)):
            if getattr(self, name) not in get_args(kinds):
                known = ", ".join(map(repr, get_args(kinds)))
                raise ValueError(f"{name} is {getattr(self, name)!r}: it must be one of {known}.")
        for name in ("steps", "batch_size", "step_size", "radius", "clip"):
            given = getattr(self, name)
            if given is not None and not (math.isfinite(given) and given > 0):
                raise ValueError(f"{name} is {given}: it must be positive, or None for the default.")
            if name in ("steps", "batch_size") and given is not None and given != int(given):
                raise ValueError(f"{name} is {given}: it must be a whole number.")

    def _clip(self, L: float) -> float:
        # contributions never exceed L, so a larger clip would only be paid for
        return L if self.clip is None else min(L, self.clip)

    def _theorem(self, problem: Problem, budget: Budget) -> tuple[Descent, int]:
        """Theorem 3.2: T, eta and b."""
        L, n, d = problem.constants.L, problem.records, problem.dim
        most = (budget.epsilon * n) ** 2 / (32 * d * math.log(1 / budget.delta))
        T = self.steps or max(1, math.ceil(min(n / 8, most)))
        # M: the guess, the domain's radius, or what the weights are expected to measure
        M = problem.domain.radius if self.radius is None else self.radius
        M = min(M, problem.domain.radius) if math.isfinite(M) else expected_radius(problem)
        eta = self.step_size or M / (L * math.sqrt(T))
        b = self.batch_size or min(n, math.ceil(max(n * math.sqrt(budget.epsilon / (4 * T)), 1)))
        return Descent(T, eta, self._clip(L)), b

    def _balanced(self, problem: Problem, budget: Budget) -> tuple[Descent, int]:
        L = problem.constants.L
        if self.steps and self.step_size:
            descent = Descent(self.steps, self.step_size, self._clip(L))
        else:
            clip = None if self.clip is None else self._clip(L)
            descent = balanced_descent(problem, budget, self.steps, self.step_size, self.radius, clip, "every step")
        return descent, self.batch_size or balanced_batch(problem, budget, descent)

    def _sampling(self, batch_size: int, records: int) -> Poisson | FixedSize:
        if batch_size < 1 or batch_size > records:
            raise ValueError(f"batch_size is {batch_size}: it must lie between 1 and the {records} records.")
        return Poisson(batch_size / records) if self.sampling == "poisson" else FixedSize(batch_size)


def decay(kind: Decay, t: int, T: int) -> float:
    """eta_t / eta_1 at step t = 0, .., T - 1."""
    match kind:
        case "constant":
            return 1.0
        case "halved midway":
            return 1.0 if t < T / 2 else 0.5
        case "inverse":
            return 1 / (t + 1)
        case "inverse root":
            return 1 / math.sqrt(t + 1)


def _event(noise: GaussianNoise, sampling: Poisson | FixedSize, records: int, T: int) -> Event:
    return repeat(sampling.event(noise.event, records), T)
