r"""Noisy mini-batch stochastic gradient descent (Bassily, Feldman, Talwar & Thakurta 2019, Algorithm 1; the DP-SGD of
Yu et al. 2020 with its step decay).

    B_t ~ sampling,   g_t = (1/b) sum_{i in B_t} clip(grad l(w_t; z_i), C) + N(0, sigma^2 I),     b = expected size
    w_{t+1} = Pi( w_t - eta_t (g_t + grad r(w_t)) ),   t < T;        release the average, or the last iterate

Theorem 3.2 of Bassily et al., with M the radius of the domain:

    T = min(n/8, epsilon^2 n^2 / (32 d log(1/delta))),    b = max(n sqrt(epsilon/(4T)), 1),    eta = M/(L sqrt(T))

Privacy: T sampled Gaussian releases, composed numerically. Poisson batches are the default (they need less noise under
both relations); fixed-size batches without replacement are accounted under replace-one. An empty batch gets its noise
like any other. Convexity plays no part in it.

`calibration="paper"` is Algorithm 1: sigma^2 = 8 T L^2 log(1/delta) / (n^2 epsilon^2), which was proved for batches
drawn with replacement by a theorem about Poisson batches; the certificate states what it gives for the batches that are
drawn. What is `None` comes from Theorem 3.2 then, and its conditions are checked: a domain of radius M, epsilon <= 1,
delta <= 1/n^2,  beta <= (L/M) min(sqrt(n/2), epsilon n / (2 sqrt(2 d log(1/delta)))),  and equal steps, eta <= 2/beta.

The schedules of Yu et al. 2020 are settings: eta_t = 1/(nu t) is `step_size=1/nu, rate=Inverse()` with a public nu
(see `sordino.curvature`), and their experiments' DP-SGD is `rate=HalvedMidway(), release="last"`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.budget import Budget
from sordino.methods.descend import descend
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Constant, Rate
from sordino.methods.schedule import Descent, balanced_batch, balanced_descent, expected_radius
from sordino.methods.settings import (
    Drawn,
    batches_of,
    calibrated,
    check_settings,
    clip_of,
    require_conditions,
    require_delta,
    require_given,
    require_paper_setting,
)
from sordino.oracle.protocol import Oracle
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem, Problem


@dataclass(frozen=True)
class NoisySGD:
    """Noise in every step, on a batch of the records. What is `None` comes from the theorem where the average is
    released, and where the last iterate is, from balancing the predicted error (see `methods.schedule`): the descent of
    `NoisyGradientDescent` with the smallest batches that cost no more noise. On a network everything must be given.

    `radius` is a public guess of |w*|; `None` takes the domain's radius as the theorem does, and guesses where there is
    none. Runs side by side (a stack as `start`) share their batches, so they are alike but not independent.
    """

    steps: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    rate: Rate = field(default_factory=Constant)
    clip: float | None = None
    sampling: Drawn = "poisson"
    release: Literal["average", "last"] = "average"
    radius: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        self._check(problem, budget)
        n, d = problem.records, problem.dim
        (T, eta, C), b = self._descent(problem, budget)
        sampling = batches_of(self.sampling, b, n)
        Delta = budget.relation.distance * C

        def plan_with(noise: GaussianNoise) -> DescentPlan:
            return DescentPlan(T, eta, C, sampling, n, noise, self.rate, release=self.release)

        if self.calibration == "paper":
            # sigma is on the mean over the batch
            sigma = math.sqrt(8 * T * math.log(1 / budget.delta)) * problem.constants.L / (n * budget.epsilon)
            return plan_with(GaussianNoise(Delta, sigma * sampling.expected_size(n), d))
        return calibrated(lambda multiplier: plan_with(GaussianNoise.at(multiplier, Delta, d)), budget)

    def _check(self, problem: AnyProblem, budget: Budget) -> None:
        if not isinstance(problem, NetworkProblem):
            problem.require("noisy SGD", "smooth")
        require_delta("noisy SGD", budget)
        require_paper_setting(self.calibration, budget, "Bassily et al. 2019")
        require_given(self, problem, "steps", "batch_size", "step_size", "clip")
        check_settings(
            self,
            positive=("step_size", "radius", "clip"),
            whole=("steps", "batch_size"),
            chosen={"release": Literal["average", "last"], "sampling": Drawn},
        )

    def _descent(self, problem: AnyProblem, budget: Budget) -> tuple[Descent, int]:
        if isinstance(problem, NetworkProblem):
            return Descent(self.steps or 0, self.step_size or 0.0, clip_of(problem, self.clip)), self.batch_size or 0
        theorem = self.release == "average" or self.calibration == "paper"
        descent, b = (self._theorem if theorem else self._balanced)(problem, budget)
        if self.calibration == "paper" and not (self.steps and self.batch_size and self.step_size):
            self._require_conditions(problem, budget, descent.step_size)
        return descent, b

    def _require_conditions(self, problem: Problem, budget: Budget, eta: float) -> None:
        (L, beta, _), n, d = problem.constants, problem.records, problem.dim
        M = min(problem.domain.radius, self.radius or math.inf)
        spread = math.sqrt(d * math.log(1 / budget.delta))
        most = L / M * min(math.sqrt(n / 2), budget.epsilon * n / (2 * math.sqrt(2) * spread))
        require_conditions(
            "Theorem 3.2 of Bassily et al. 2019",
            (problem.convex, "a convex objective"),
            (math.isfinite(problem.domain.radius), "a bounded domain, such as Ball(radius)"),
            (self.release == "average", "the average to be released: give release='average'"),
            (budget.epsilon <= 1, f"epsilon of at most 1, and it is {budget.epsilon:g}"),
            (budget.delta <= n**-2, f"delta of at most 1/n^2 = {n**-2:.3g}, and it is {budget.delta:g}"),
            (beta <= most, f"a smoothness beta of at most {most:.4g} at this n, d and budget, and it is {beta:.4g}"),
            # what the condition on beta is there for (Lemma 3.4), where numbers are given
            (eta * beta <= 2, f"steps of at most 2/beta = {2 / beta:.4g}, and they are {eta:.4g}"),
            (isinstance(self.rate, Constant), "steps that are all alike: leave rate out"),
        )

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
        return Descent(T, eta, clip_of(problem, self.clip)), b

    def _balanced(self, problem: Problem, budget: Budget) -> tuple[Descent, int]:
        if self.steps and self.step_size:
            descent = Descent(self.steps, self.step_size, clip_of(problem, self.clip))
        else:
            clip = None if self.clip is None else clip_of(problem, self.clip)
            descent = balanced_descent(problem, budget, self.steps, self.step_size, self.radius, clip, "every step")
        return descent, self.batch_size or balanced_batch(problem, budget, descent)
