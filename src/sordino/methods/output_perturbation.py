r"""Output-perturbation gradient descent (Zhang, Zheng, Mou & Wang 2017, Algorithm 1).

    w_{t+1} = w_t - eta * grad F(w_t),   t < T;        release  w_T + z

Privacy (replace-one).  A step is c-Lipschitz, c = max(|1 - eta mu|, |1 - eta beta|), and one record moves it by at
most eta Delta_g, Delta_g = 2L/n. So w_T has l2-sensitivity

    Delta = eta Delta_g * sum_{t<T} c^t,      attained by the losses  +-L w + (mu/2) w^2.

Not for add/remove: there n is private and a public count stands in for it, so the objective may be steeper than beta by
any factor, and its steps need not contract.

delta = 0:  density of z  ~ exp(-epsilon |z| / Delta).      delta > 0:  z ~ N(0, sigma^2 I) by the exact Gaussian law.

`calibration="paper"` takes Theorems 2 and 3 as printed: Delta = 5L(1 + beta/mu)/(n beta) and 3LT/(beta n), and
sigma^2 = 2 log(2/delta) Delta^2 / epsilon^2, which falls short of the nominal guarantee at large epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino.budget import Budget, Relation
from sordino.methods.protocol import Array, Calibration, Release, require_paper_setting
from sordino.oracle.protocol import ExactOracle
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Event
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import steps


@dataclass(frozen=True)
class OutputPerturbationPlan:
    """Every number of the theorem."""

    steps: int
    step_size: float
    sensitivity: float
    noise: GaussianNoise | L2LaplaceNoise

    @property
    def event(self) -> Event:
        return self.noise.event


@dataclass(frozen=True)
class OutputPerturbation:
    """Descend without noise, then draw it once. `steps=None` and `step_size=None` take the theorem's numbers.

    `radius` is a public guess of |w*|, needed for the theorem's T when neither the penalty nor the domain bounds it.
    """

    steps: int | None = None
    step_size: float | None = None
    radius: float | None = None
    calibration: Calibration = "tight"

    def plan(self, problem: Problem, budget: Budget) -> OutputPerturbationPlan:
        problem.require("output perturbation", "convex", "smooth")
        require_paper_setting(self.calibration, budget, "Zhang et al. 2017")
        if budget.relation is not Relation.REPLACE_ONE:
            raise ValueError(
                f"relation is {budget.relation}: output perturbation needs steps that contract, which a private number "
                "of records cannot promise; use replace_one, or noisy gradient descent."
            )
        _, beta, mu = problem.constants
        # Theorem 2: eta = 1/(mu + beta);  Theorem 3: eta = 1/beta
        eta = self.step_size or (1 / (mu + beta) if mu > 0 else 1 / beta)
        if eta > 2 / beta:
            raise ValueError(
                f"step_size is {eta}: output perturbation needs at most 2/beta = {2 / beta:g}, above which a step "
                "no longer contracts and the sensitivity is unbounded."
            )
        T = self.steps or _steps(problem, budget, _radius(problem, self.radius), self.calibration)
        if self.calibration == "paper":
            return _paper_plan(problem, budget, T, eta)
        Delta = sensitivity(problem, T, eta)
        return OutputPerturbationPlan(T, eta, Delta, _noise(Delta, budget, problem.dim))

    def run(
        self,
        plan: OutputPerturbationPlan,
        problem: Problem,
        oracle: ExactOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        w = problem.start() if start is None else start
        for _ in steps(plan.steps):
            w = problem.domain.project(w - plan.step_size * (oracle.gradient(w) + problem.penalty.gradient(w)))
        # projecting once more is free: it does not look at the records
        return Release(problem.domain.project(plan.noise.perturb(w, randomness)), plan.event)


def sensitivity(problem: Problem, T: int, eta: float) -> float:
    """Delta = eta Delta_g (1 + c + .. + c^{T-1}), and never more than the domain's diameter."""
    _, beta, mu = problem.constants
    c = max(abs(1 - eta * mu), abs(1 - eta * beta))
    # (1 - c^T)/(1 - c) without cancellation
    powers = T if c >= 1 else -math.expm1(T * math.log(c)) / (1 - c) if c > 0 else 1.0
    return min(eta * problem.gradient_sensitivity(Relation.REPLACE_ONE) * powers, 2 * problem.domain.radius)


def _noise(Delta: float, budget: Budget, dim: int) -> GaussianNoise | L2LaplaceNoise:
    if budget.pure:
        return L2LaplaceNoise(Delta, budget.epsilon, dim)
    multiplier = calibrate(lambda m: GaussianNoise.at(m, Delta, dim).event, budget)
    return GaussianNoise.at(multiplier, Delta, dim)


def _paper_plan(problem: Problem, budget: Budget, T: int, eta: float) -> OutputPerturbationPlan:
    """The printed noise, on the true sensitivity: the event then says what that noise is worth."""
    L, beta, mu = problem.constants
    n, d, epsilon = problem.records, problem.dim, budget.epsilon
    # Theorem 2 asks for the Lipschitz constant of the penalised loss on the ball of radius 2D
    printed = 5 * (L + 2 * mu * problem.radius) * (1 + beta / mu) / (n * beta) if mu > 0 else 3 * L * T * eta / n
    true = sensitivity(problem, T, eta)
    if budget.pure:
        return OutputPerturbationPlan(T, eta, true, L2LaplaceNoise(true, epsilon * true / printed, d))
    std = math.sqrt(2 * math.log(2 / budget.delta)) * printed / epsilon
    return OutputPerturbationPlan(T, eta, true, GaussianNoise(true, std, d))


def _radius(problem: Problem, guess: float | None) -> float:
    return min(problem.radius, math.inf if guess is None else guess)


def _steps(problem: Problem, budget: Budget, D: float, calibration: Calibration) -> int:
    """The T that balances the optimisation error against the noise."""
    L, beta, mu = problem.constants
    n, d, epsilon, delta = problem.records, problem.dim, budget.epsilon, budget.delta
    if not math.isfinite(D):
        raise ValueError(
            "steps is not given and nothing bounds the weights: give `steps`, a public guess `radius` of |w*|, "
            "a Ball domain, or a Ridge penalty."
        )
    if mu > 0:
        # Theorem 2: T = (mu + beta)^2 / (2 mu beta) * log(mu^2 n^2 epsilon^2 D^2 / (L^2 d log(1/delta)))
        spread = d * d if budget.pure else d * math.log(1 / delta)
        return math.ceil(
            (mu + beta) ** 2 / (2 * mu * beta) * math.log(max(math.e, (mu * n * epsilon * D / L) ** 2 / spread))
        )
    if calibration == "paper":
        # Theorem 3: T^3 = 2 beta^2 D^2 n^2 epsilon^2 / (9 L^2 d(d+1)), or / (18 L^2 d log(2/delta))
        spread = 9 * d * (d + 1) if budget.pure else 18 * d * math.log(2 / delta)
        cube = 2 * (beta * D * n * epsilon / L) ** 2 / spread
    else:
        # minimise  beta D^2/(2T) + v beta/2 (2LT/(beta n))^2,  v = per-coordinate variance of unit-sensitivity noise;
        # the trace of the Hessian, at most beta for these losses, stands where the theorem has d beta
        variance = (d + 1) / epsilon**2 if budget.pure else 1 / gdp_mu(epsilon, delta) ** 2
        cube = (beta * D * n / L) ** 2 / (8 * variance)
    return max(1, math.ceil(math.cbrt(cube)))
