r"""Random-round private SGD, RRPSGD (Zhang, Zheng, Mou & Wang 2017, Algorithm 2).

    draw R in {1, .., T},     P(R = t + 1) ~ 2 eta_t - beta eta_t^2
    g_t = (1/b) sum_{i in B_t} clip(grad l(w_t; z_i), C) + N(0, sigma^2 I) + grad r(w_t)
    w_{t+1} = Pi( w_t - eta_t g_t ),   t < R;        release w_R

Theorem 5 is about one record per step and T = n^2. With D_F^2 = 2 F(0)/beta from the public bound on the loss at zero,

    sigma^2 = 4 L^2 log(3n/delta) log(2/delta) / epsilon^2,    s^2 = 4 L^2 + d sigma^2,    eta = min(1/beta, D_F/(s n)).

Its proof holds for batches of b and T rounds with s^2 = C^2/b + d sigma^2 and eta = min(1/beta, D_F/(s sqrt(T))). The
noise that T rounds cost grows like sigma^2 = T Delta^2/(n mu)^2, Delta = 2C under replace-one and mu the budget in
Gaussian differential privacy. It outweighs what the batches add from

    T b = (n C mu / Delta)^2 / d =: K

on, where more rounds gain little: that is T where it is not given. Nor does b matter there, up to the
C sqrt(2K)/(beta D_F) with which the step is 1/beta: that is b where it is not given.

Privacy: R is drawn before and without the records, and T rounds are accounted for, sampled Gaussian releases composed
numerically. `calibration="paper"` runs the original, whose Theorem 4 is for epsilon <= 1; the certificate states its
true cost, some six times less than claimed at n = 32561 and epsilon = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from sordino.budget import Budget
from sordino.methods.bounds import FAILURE, Bound, Bounded, first_unmet, require_failure
from sordino.methods.descend import descend
from sordino.methods.plan import Batches, DescentPlan, WeightedStep
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Constant, Rate
from sordino.methods.settings import (
    Drawn,
    batches_of,
    calibrated,
    check_settings,
    clip_of,
    loss_at_zero,
    require_conditions,
    require_delta,
    require_given,
    require_linear,
    require_paper_setting,
)
from sordino.oracle.protocol import Oracle
from sordino.oracle.sampling import FixedSize, Poisson
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem, Problem


@dataclass(frozen=True)
class RandomRoundSGD:
    """Noisy SGD that stops after a random number of rounds. What is `None` follows from the theorem.

    On a network, where beta is unknown, everything must be given and R is drawn in proportion to the step sizes. Runs
    side by side (a stack as `start`) share their batches and R.
    """

    steps: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    clip: float | None = None
    rate: Rate = field(default_factory=Constant)
    sampling: Drawn = "poisson"
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        require_delta("random-round SGD", budget)
        require_paper_setting(self.calibration, budget, "Zhang et al. 2017")
        require_given(self, problem, "steps", "batch_size", "step_size", "clip")
        check_settings(self, positive=("step_size", "clip"), whole=("steps", "batch_size"), chosen={"sampling": Drawn})
        if not isinstance(problem, NetworkProblem):
            problem.require("random-round SGD", "smooth")
        n, d, C = problem.records, problem.dim, self._clip(problem)
        T, sampling = self._rounds(problem, budget)
        Delta = budget.relation.distance * C
        beta = 0.0 if isinstance(problem, NetworkProblem) else problem.constants.beta

        def plan_with(noise: GaussianNoise) -> DescentPlan:
            eta = self.step_size or self._step(problem, noise, sampling, T)
            return DescentPlan(T, eta, C, sampling, n, noise, self.rate, stop=WeightedStep(beta))

        if self.calibration == "paper":
            log = math.log(3 * n / budget.delta) * math.log(2 / budget.delta)
            plan = plan_with(GaussianNoise(Delta, 2 * C * math.sqrt(log) / budget.epsilon, d))
        else:
            plan = calibrated(lambda multiplier: plan_with(GaussianNoise.at(multiplier, Delta, d)), budget)
        if plan.step_size * beta >= 2:
            raise ValueError(
                f"step_size is {plan.step_size}: random-round SGD needs one below 2/beta = {2 / beta:g}, or rounds "
                "would have negative probabilities."
            )
        return plan

    def bound(self, problem: AnyProblem, budget: Budget, failure: float = FAILURE) -> tuple[Bound, ...]:
        r"""Theorem 5, with D_F^2 = 2 F(0)/beta and s^2 the variance of a noisy gradient, and Theorem 6: the sum of (1)
        to (5) in its proof, for T rounds, a = noise on a mean gradient and l = log(3/failure).

            5:    beta (D_F^2 + s^2 T eta^2) / (T (2 eta - beta eta^2))
            6:    ( F(0) + 2 beta eta^2 T L^2 + (eta - beta eta^2) L^2 sqrt(12 T l)
                    + (eta + beta eta^2) L a sqrt(6 k T l) + (beta/2) a^2 eta^2 (d T + 2 sqrt(d T l) + 2 l) )
                  / (T (eta - beta eta^2/2)),      k = 1/(1 - exp(-2))

        The paper has k = 1/(1 - exp(-2/d)), about d/2, for a martingale whose differences are Gaussian in one
        direction: the smaller one suffices.
        """
        require_failure(failure)
        plan = self.plan(problem, budget)
        problem = require_linear(problem, "random-round SGD", "smooth")
        L, beta, _ = problem.constants
        T, eta, b = plan.steps, plan.step_size, plan.sampling.expected_size(problem.records)
        d, a, log = problem.dim, plan.noise.std / b, math.log(3 / failure)
        at_zero = loss_at_zero(problem, "random-round SGD", "steps, batch size and step size")
        s2 = L**2 * (4 if self.calibration == "paper" else 1) / b + d * a**2
        weight = T * (2 * eta - beta * eta**2)
        fifth = beta * (2 * at_zero / beta + s2 * T * eta**2) / weight
        k = -1 / math.expm1(-2)
        total = (
            at_zero
            + 2 * beta * eta**2 * T * L**2
            + (eta - beta * eta**2) * L**2 * math.sqrt(12 * T * log)
            + (eta + beta * eta**2) * L * a * math.sqrt(6 * k * T * log)
            + beta / 2 * a**2 * eta**2 * (d * T + 2 * math.sqrt(d * T * log) + 2 * log)
        )
        plain = (
            (problem.penalty.smoothness == 0, "an objective without a penalty"),
            (not math.isfinite(problem.domain.radius), "weights anywhere, without a domain"),
            (plan.clip >= L, f"gradients as they are, and {plan.clip:.4g} clips those of up to {L:.4g}"),
            (isinstance(self.rate, Constant), "steps that are all alike"),
        )
        bounded = (not isinstance(plan.sampling, Poisson), "batches of fixed size")
        name = "Theorem {} of Zhang et al. 2017"
        of: Bounded = "squared empirical gradient norm"
        return (
            Bound(name.format(5), of, fifth, 0.0, first_unmet(*plain)),
            Bound(
                name.format(6),
                of,
                total / (weight / 2),
                failure,
                first_unmet(*plain, bounded, (eta <= 1 / beta, "steps of at most 1/beta")),
            ),
        )

    def _clip(self, problem: AnyProblem) -> float:
        # the printed noise is for gradients as they are
        return problem.constants.L if self.calibration == "paper" else clip_of(problem, self.clip)

    def _rounds(self, problem: AnyProblem, budget: Budget) -> tuple[int, Batches]:
        n = problem.records
        if self.calibration == "paper":
            if self.batch_size not in (None, 1) or self.clip is not None:
                raise ValueError("calibration='paper' draws one record per step and does not clip: leave both out.")
            if self.steps is None:
                fits = budget.epsilon <= 1
                condition = f"epsilon of at most 1, and it is {budget.epsilon:g}"
                require_conditions("Theorems 4 and 5 of Zhang et al. 2017", (fits, condition))
            return self.steps or n**2, FixedSize(1)
        if self.steps and self.batch_size:
            return self.steps, batches_of(self.sampling, self.batch_size, n)
        C, beta = self._clip(problem), problem.constants.beta
        # K = (n C mu / Delta)^2 / d,    b = C sqrt(2K) / (beta D_F)
        K = (n * gdp_mu(budget.epsilon, budget.delta) / budget.relation.distance) ** 2 / problem.dim
        size = K / self.steps if self.steps else C * math.sqrt(2 * K) / (beta * _first_gap(problem))
        b = self.batch_size or min(n, max(1, math.ceil(size)))
        return self.steps or max(1, math.ceil(K / b)), batches_of(self.sampling, b, n)

    def _step(self, problem: AnyProblem, noise: GaussianNoise, sampling: Batches, T: int) -> float:
        beta, b = problem.constants.beta, sampling.expected_size(problem.records)
        spread = self._clip(problem) ** 2 * (4 if self.calibration == "paper" else 1)
        s = math.sqrt(spread / b + problem.dim * (noise.std / b) ** 2)
        # the theorem's n is the root of its T
        root = problem.records if self.calibration == "paper" else math.sqrt(T)
        return min(1 / beta, _first_gap(problem) / (s * root))


def _first_gap(problem: AnyProblem) -> float:
    """D_F = sqrt(2 (F(0) - F*)/beta), with F* >= 0."""
    assert isinstance(problem, Problem)
    at_zero = loss_at_zero(problem, "random-round SGD", "steps, batch size and step size")
    return math.sqrt(2 * at_zero / problem.constants.beta)
