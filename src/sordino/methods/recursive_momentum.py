r"""Stochastic recursive momentum, DP-SRM (Wang, Jayaraman, Evans & Gu 2019, Algorithm 1).

    v_0 = (1/b_0) sum_{i in B_0} clip(grad l(w_0; z_i), C_1) + u_0
    w_{t+1} = Pi( w_t - eta_t (v_t + grad r(w_t)) ),   t = 0, .., T - 1
    v_{t+1} = (1 - gamma) v_t + (1/b) sum_{i in B} [ (1 - gamma) clip(grad l(w_{t+1}; z_i) - grad l(w_t; z_i), C_2)
                                                     + gamma clip(grad l(w_{t+1}; z_i), C_1) ] + u_{t+1}
    release w_T, or one of w_1, .., w_T drawn uniformly

v_t estimates the gradient of the data term alone; the penalty's gradient is exact and costs nothing. A step size that
is not given follows the paper's rule, under which no difference of gradients exceeds zeta:

    eta_t = min( zeta / (beta |v_t + grad r(w_t)|), 1/(2 beta) ),     C_2 = zeta

Theorem 4.4, with G = C_1, D_F <= F(0) by the public bound on the loss at zero, and the constants of its proof:

    zeta = sqrt(G / (n epsilon)) (beta D_F d log(1/delta))^{1/4},
    T = 4 n epsilon sqrt(beta D_F) / (G sqrt(d log(1/delta)))
    b_0 = G^2 / (zeta^2 beta D_F),    b = G^2 / zeta,    gamma = sqrt(2) zeta

Privacy.  One record moves a sum by Delta_0 = 2 C_1 or by Delta = 2((1 - gamma) C_2 + gamma C_1) (replace-one; half of
that under add/remove). w_T needs v_0, .., v_{T-1}: one release of the first kind and T - 1 of the second, composed
numerically. The paper counts T where v_0, .., v_T are T + 1, and section 6.1 prints the weights of C_1 and C_2
exchanged. With noise z Delta on the later sums the noise in v_t grows to the variance

    (z Delta / b)^2 A,     A = 1 + (1 - gamma)^2 + .. + (1 - gamma)^{2(T-1)},

so a v_0 with less noise than that gains nothing for long: it gets as much, or z Delta_0 / b_0 where that is more.

`calibration="paper"` takes the noise of Theorem 4.1 (the listing of the algorithm has epsilon^2 for its epsilon),

    sigma_0^2 = 14 T C_1^2 alpha / (a n^2 epsilon),
    sigma^2 = 14 T ((1 - gamma) C_2 + gamma C_1)^2 alpha / (a n^2 epsilon),
    alpha = 1 + log(1/delta) / ((1 - a) epsilon),

at the a in (0, 1) that asks for the least noise. Its side condition on alpha fails in the paper's own experiments, and
the certificate states what the noise is worth without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from sordino.budget import Budget
from sordino.methods.batches import (
    Batches,
    Drawn,
    Stated,
    batches_of,
    check_settings,
    clip_of,
    first_iterate,
    require_settings,
    stopping_round,
)
from sordino.methods.protocol import Array, Calibration, Release, require_delta, require_paper_setting
from sordino.methods.rates import Constant, Rate
from sordino.oracle.protocol import RecursiveOracle
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Composed, Event
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem
from sordino.progress import steps

Released = Literal["last", "random"]


@dataclass(frozen=True)
class RecursiveMomentumPlan:
    """Every number of the run. `first_noise` is added to the first sum, `noise` to the others.

    With a `reach` (zeta / beta) a step is never longer than that, and `step_size` is the factor 1/(2 beta).
    """

    steps: int
    step_size: float
    reach: float | None
    rate: Rate
    mix: float
    clip: float
    difference_clip: float
    first_sampling: Batches
    sampling: Batches
    records: int
    release: Released
    first_noise: GaussianNoise
    noise: GaussianNoise

    @property
    def event(self) -> Event:
        first = self.first_sampling.event(self.first_noise.event, self.records)
        if self.steps == 1:
            return first
        return Composed(((first, 1), (self.sampling.event(self.noise.event, self.records), self.steps - 1)))


@dataclass
class _State:
    """w_t, w_{t-1} and v_{t-1}, and after how many steps the iterate is the one to release."""

    w: Array
    before: Array
    v: Array
    stop: int


class _Numbers(NamedTuple):
    steps: int
    step_size: float
    reach: float | None
    mix: float
    clip: float
    difference_clip: float
    first_batch: int
    batch_size: int


@dataclass(frozen=True)
class RecursiveMomentum:
    """A running estimate of the gradient, corrected by how far each record's gradient moved since the last step.

    What is `None` comes from the theorem; `first_batch=None` is four batches where the batch size is given.
    `difference_clip` and `mix` are C_2 and gamma. On a network everything but the first batch must be given.
    `noise_multiplier` fixes the noise of all sums but the first as a multiple of how far one record moves them, and the
    run is refused if that costs more than the budget. Runs side by side (a stack as `start`) share their batches and
    the number of the iterate.
    """

    steps: int | None = None
    batch_size: int | None = None
    first_batch: int | None = None
    step_size: float | None = None
    clip: float | None = None
    difference_clip: float | None = None
    mix: float | None = None
    rate: Rate = field(default_factory=Constant)
    sampling: Drawn = "poisson"
    release: Released = "last"
    noise_multiplier: float | None = None
    calibration: Calibration = "tight"

    def __post_init__(self) -> None:
        if self.noise_multiplier is not None and self.calibration == "tight":
            object.__setattr__(self, "calibration", "given")

    def plan(self, problem: Stated, budget: Budget) -> RecursiveMomentumPlan:
        require_delta("recursive momentum", budget, "use OutputPerturbation for a pure guarantee, or give a delta")
        self._check(problem, budget)
        n, d = problem.records, problem.dim
        numbers = self._numbers(problem, budget)
        first, others = (batches_of(self.sampling, b, n) for b in (numbers.first_batch, numbers.batch_size))
        distance = budget.relation.distance
        moved = (1 - numbers.mix) * numbers.difference_clip + numbers.mix * numbers.clip

        def plan_with(first_noise: GaussianNoise, noise: GaussianNoise) -> RecursiveMomentumPlan:
            return RecursiveMomentumPlan(
                *numbers[:3], self.rate, *numbers[3:6], first, others, n, self.release, first_noise, noise
            )

        # z_0 Delta_0 / b_0 = (z Delta / b) sqrt(A)
        grown = math.sqrt(_accumulated(numbers.mix, numbers.steps))
        ratio = max(1.0, moved / numbers.clip * first.expected_size(n) / others.expected_size(n) * grown)

        def plan_at(z: float) -> RecursiveMomentumPlan:
            first_noise = GaussianNoise.at(ratio * z, distance * numbers.clip, d)
            return plan_with(first_noise, GaussianNoise.at(z, distance * moved, d))

        if self.calibration == "paper":
            # on means over a batch, per unit of the contribution
            sigma = _printed(n, numbers.steps, budget)
            return plan_with(
                GaussianNoise(distance * numbers.clip, sigma * numbers.clip * first.expected_size(n), d),
                GaussianNoise(distance * moved, sigma * moved * others.expected_size(n), d),
            )
        if self.noise_multiplier is not None:
            return plan_at(self.noise_multiplier)
        return plan_at(calibrate(lambda z: plan_at(z).event, budget))

    def run(
        self,
        plan: RecursiveMomentumPlan,
        problem: Stated,
        oracle: RecursiveOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        w = first_iterate(problem, start)
        state = _State(w, w, np.zeros_like(w), stop=plan.steps)
        for t in steps(plan.steps, state):
            if t == 0 and plan.release == "random":
                state.stop = stopping_round(plan.steps, randomness)
            if t >= state.stop:
                break
            w = state.w
            state.v = _estimate(plan, oracle, randomness, state, t)
            direction = state.v + problem.penalty.gradient(w)
            eta = plan.step_size * plan.rate.at(t, plan.steps)
            if plan.reach is not None:
                # min(zeta / (beta |direction|), eta), for every run of a stack
                length = np.linalg.norm(direction, axis=-1, keepdims=True)
                eta = np.minimum(plan.reach / np.maximum(length, 1e-300), eta)
            state.before, state.w = w, problem.domain.project(w - eta * direction)
        return Release(state.w, plan.event)

    def _check(self, problem: Stated, budget: Budget) -> None:
        require_settings(self, problem, "steps", "batch_size", "step_size", "clip", "difference_clip", "mix")
        check_settings(
            self,
            positive=("step_size", "clip", "difference_clip", "noise_multiplier"),
            whole=("steps", "batch_size", "first_batch"),
            chosen={"sampling": Drawn, "release": Released},
        )
        if self.mix is not None and not 0 <= self.mix <= 1:
            raise ValueError(f"mix is {self.mix}: it weighs the gradient against its difference and lies in [0, 1].")
        if (self.noise_multiplier is None) == (self.calibration == "given"):
            raise ValueError(
                f"calibration is {self.calibration!r} and noise_multiplier is {self.noise_multiplier}: give a "
                "multiplier or ask for 'tight' or 'paper' noise, not both."
            )
        if self.calibration != "given":
            require_paper_setting(self.calibration, budget, "Wang et al. 2019")

    def _numbers(self, problem: Stated, budget: Budget) -> _Numbers:
        """Theorem 4.4, where nothing else is said."""
        n, G = problem.records, clip_of(problem, self.clip)
        T, b, eta, zeta, gamma = self.steps, self.batch_size, self.step_size, self.difference_clip, self.mix
        b0 = self.first_batch if b is None else self.first_batch or min(n, 4 * b)
        if not (T is None or b is None or b0 is None or eta is None or zeta is None or gamma is None):
            return _Numbers(T, eta, None, gamma, G, zeta, b0, b)
        assert not isinstance(problem, NetworkProblem)
        problem.require("recursive momentum without step size, clips, mix, batch size and steps", "smooth")
        beta, spread = problem.constants.beta, problem.dim * math.log(1 / budget.delta)
        F, n_eps = problem.loss.at_zero, n * budget.epsilon
        if not math.isfinite(F):
            raise ValueError(
                f"{type(problem.loss).__name__} loss has no public bound at zero, which recursive momentum's numbers "
                "follow from: give it a target bound, or give steps, sizes, clips and mix."
            )
        zeta = zeta or math.sqrt(G / n_eps) * (beta * F * spread) ** 0.25
        return _Numbers(
            steps=T or math.ceil(4 * n_eps * math.sqrt(beta * F / spread) / G),
            step_size=eta or 1 / (2 * beta),
            reach=zeta / beta if eta is None else None,
            mix=min(1.0, math.sqrt(2) * zeta) if gamma is None else gamma,
            clip=G,
            difference_clip=zeta,
            first_batch=b0 or min(n, math.ceil(G**2 / (zeta**2 * beta * F))),
            batch_size=b or min(n, math.ceil(G**2 / zeta)),
        )


def _estimate(
    plan: RecursiveMomentumPlan, oracle: RecursiveOracle, randomness: Randomness, state: _State, t: int
) -> Array:
    """v_t, from v_{t-1} and what the records say of the last step."""
    sampling = plan.sampling if t else plan.first_sampling
    batch, b = oracle.draw(sampling, randomness), sampling.expected_size(plan.records)
    gradient = Gradient(state.w, plan.clip, batch)
    if t == 0:
        return oracle.release(gradient, plan.first_noise, randomness) / b
    difference = Difference(state.w, state.before, plan.difference_clip, batch)
    moved = oracle.release(Recursion(difference, gradient, plan.mix), plan.noise, randomness)
    return (1 - plan.mix) * state.v + moved / b


def _accumulated(mix: float, T: int) -> float:
    """A: the variance of v after T releases, in units of what each adds."""
    kept = (1 - mix) ** 2
    return T if kept == 1 else (1 - kept**T) / (1 - kept)


def _printed(n: int, T: int, budget: Budget) -> float:
    """sqrt(14 T alpha / (a n^2 epsilon)) at the a that makes alpha / a least."""
    c = math.log(1 / budget.delta) / budget.epsilon
    # minimise (1 + c/(1-a))/a:  a^2 - 2 (1 + c) a + (1 + c) = 0
    a = (1 + c) - math.sqrt(c * (1 + c))
    alpha = 1 + c / (1 - a)
    return math.sqrt(14 * T * alpha / (a * budget.epsilon)) / n
