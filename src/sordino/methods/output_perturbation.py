r"""Output-perturbation gradient descent (Zhang, Zheng, Mou & Wang 2017, Algorithm 1).

    w_{t+1} = w_t - eta * grad F(w_t),   t < T;        release  w_T + z

Privacy (replace-one).  A step is c-Lipschitz, c = max(|1 - eta mu|, |1 - eta beta|), and one record moves it by at
most eta Delta_g, Delta_g = 2L/n. So w_T has l2-sensitivity

    Delta = eta Delta_g * sum_{t<T} c^t,      attained by the losses  +-L w + (mu/2) w^2.

Not for add/remove: there n is private and a public count stands in for it, so the objective may be steeper than beta by
any factor, and its steps need not contract.

delta = 0:  density of z  ~ exp(-epsilon |z| / Delta).      delta > 0:  z ~ N(0, sigma^2 I) by the exact Gaussian law.

Length.  Strongly convex: Theorem 2's T. Else the T of the least predicted excess over the minimum,

    bias(T) + (1/2) tr(Hessian) v Delta^2,      v = variance of a coordinate's noise for sensitivity one,

with D = |w*| guessed, bias(T) = D^2/(2 eta T) for a convex loss, and D^2/(4 e eta T) for one that is quadratic, which
gradient flow leaves at worst; and never more than standing still, F(0). Stopping early is better here than a ridge of
one's own or an average of the iterates: at equal sensitivity S what they leave of a direction of curvature h is
exp(-S h), 1/(1 + S h) and (1 - exp(-2 S h))/(2 S h).

`calibration="paper"` takes Theorems 2 and 3 as printed, with the constants of their proofs where T has none:

    mu > 0:    eta = 1/(mu + beta),    Delta = 5L(1 + beta/mu)/(n beta),    L that of the penalised loss where |w| <= 2D
    mu = 0:    eta = 1/beta,           Delta = 3LT/(beta n),
               T^3 = 2 (beta D n epsilon / L)^2 / (9 d (d+1)),   or  / (18 d log(2/delta))  where delta > 0

and sigma^2 = 2 log(2/delta) Delta^2 / epsilon^2, which falls short of the nominal guarantee at large epsilon. D must be
a bound: from the penalty, the domain or `radius`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.losses import Huber, Loss, Squared
from sordino.methods.bounds import FAILURE, Bound, first_unmet, require_failure
from sordino.methods.protocol import AnyProblem, Calibration, Release, StepEvents
from sordino.methods.schedule import at_most_standing, descent_bias, expected_radius
from sordino.methods.settings import require_conditions, require_linear, require_paper_setting
from sordino.oracle.protocol import ExactOracle, Oracle
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.calibrate import noise_for
from sordino.privacy.events import Event
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import steps
from sordino.words import plan_card

_MOST_STEPS = 100_000
"""No plan is longer."""

Schedule = Literal["constant", "decreasing", "square root", "strongly convex"]


@dataclass(frozen=True)
class OutputPerturbationPlan:
    """Every number of the theorem. Steps go through `batches` of all records in turns, one of all of them here.

    `step_size` is the first one, and `offset` the n^a of decreasing ones.
    """

    steps: int
    step_size: float
    sensitivity: float
    noise: GaussianNoise | L2LaplaceNoise
    batches: int = 1
    schedule: Schedule = "constant"
    offset: float = 0.0
    step_events: ClassVar[StepEvents] = ()

    @property
    def event(self) -> Event:
        return self.noise.event

    _repr_html_ = plan_card


@dataclass(frozen=True)
class OutputPerturbation:
    """Descend without noise, then draw it once. `steps=None` and `step_size=None` take the theorem's numbers.

    `radius` is a public guess of |w*|. `None` takes the bound that the penalty gives, or with printed constants the
    domain, and else the guess of `methods.schedule`.
    """

    steps: int | None = None
    step_size: float | None = None
    radius: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = ExactOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> OutputPerturbationPlan:
        problem = require_linear(problem, "output perturbation", "convex", "smooth")
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
        if self.calibration == "paper":
            self._require_conditions(problem, eta)
        T = self.steps or _steps(problem, budget, eta, self._radius(problem), self.calibration)
        if self.calibration == "paper":
            return _paper_plan(problem, budget, T, eta)
        Delta = sensitivity(problem, T, eta)
        return OutputPerturbationPlan(T, eta, Delta, noise_for(Delta, budget, problem.dim))

    def run(
        self,
        plan: OutputPerturbationPlan,
        problem: AnyProblem,
        oracle: ExactOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        w, together = one_of_equal(problem.start() if start is None else start)
        for _ in steps(plan.steps):
            w = problem.domain.project(w - plan.step_size * (oracle.gradient(w) + problem.penalty.gradient(w)))
        w = np.repeat(w, together, axis=0) if together > 1 else w
        # projecting once more is free: it does not look at the records
        return Release(problem.domain.project(plan.noise.perturb(w, randomness)), plan.event)

    def bound(self, problem: AnyProblem, budget: Budget, failure: float = FAILURE) -> tuple[Bound, ...]:
        r"""Theorems 2 and 3, and for mu > 0 what follows about the population.

            mu > 0:    (beta/2) exp(-2 mu beta T/(mu + beta)^2) D^2 + (beta/2) E|z|^2
            mu = 0:    2 beta D^2/T                               + (beta/2) E|z|^2

        The population's is sqrt(2 L^2 E/(mu g)) + 4 L^2/(g mu n), E the bound above, by Markov's inequality and (18)
        of Shalev-Shwartz, Shamir, Srebro & Sridharan 2009, each failing with probability g = failure/2.
        """
        require_failure(failure)
        plan = self.plan(problem, budget)
        problem = require_linear(problem, "output perturbation", "convex", "smooth")
        L, beta, mu = problem.constants
        T, eta, n = plan.steps, plan.step_size, problem.records
        D = min(problem.radius, math.inf if self.radius is None or mu > 0 else self.radius)
        squared = _second_moment(plan.noise, problem.dim)
        left = beta / 2 * math.exp(-2 * mu * beta * T / (mu + beta) ** 2) * D**2 if mu > 0 else 2 * beta * D**2 / T
        usual = 1 / (mu + beta)
        unmet = first_unmet(
            (math.isfinite(D), "a bound on |w*|: a bounded domain, a Ridge penalty, or `radius` without one"),
            (math.isclose(eta, usual), f"steps of {usual:.4g}, and the plan's are {eta:.4g}"),
        )
        theorem = f"Theorem {2 if mu > 0 else 3} of Zhang et al. 2017"
        empirical = Bound(theorem, "excess empirical risk", left + beta / 2 * squared, 0.0, unmet)
        if mu == 0:
            return (empirical,)
        g, steepest = failure / 2, L + 2 * mu * D
        value = math.sqrt(2 * steepest**2 * empirical.value / (mu * g)) + 4 * steepest**2 / (g * mu * n)
        return empirical, Bound(f"corollary of {theorem}", "excess population risk", value, failure, unmet)

    def _require_conditions(self, problem: Problem, eta: float) -> None:
        _, beta, mu = problem.constants
        # the printed T has D in it, and where mu > 0 the printed noise
        bounded = math.isfinite(problem.radius) or (mu == 0 and (self.radius or self.steps) is not None)
        require_conditions(
            f"Theorem {2 if mu > 0 else 3} of Zhang et al. 2017",
            (
                bounded,
                "a bound on |w*|: a bounded domain, a target bound with a Ridge penalty, or `radius` without one",
            ),
            (
                self.steps is not None or eta <= (1 + 1e-12) / (beta + mu),
                f"steps of at most {1 / (beta + mu):.4g}, and step_size is {eta:.4g}",
            ),
        )

    def _radius(self, problem: Problem) -> float:
        """D: what the theorems ask for, a bound on |w*|, where there is one; else, and to balance by, a guess."""
        theorem = problem.constants.mu > 0 or self.calibration == "paper"
        if self.radius is None and theorem and math.isfinite(problem.radius):
            return problem.radius
        return expected_radius(problem, self.radius)


def one_of_equal(start: Array) -> tuple[Array, int]:
    """Runs that start at one point stay together until the noise: one stands for all, and how many it stands for."""
    alike = start.ndim == 2 and len(start) > 1 and bool((start == start[0]).all())
    return (start[:1], len(start)) if alike else (start, 1)


def population_ridge(problem: Problem, budget: Budget, radius: float, failure: float = FAILURE) -> float:
    r"""mu of the corollary on the population for a convex loss (end of section 3.1):  mu = sqrt(2C)/R,

        C = L sqrt(beta d) / (n epsilon failure),     which minimises   mu R^2/2 + C/mu.

    Printed without the 1/R, whose bound then has R^2 + 1 where it says R.
    """
    require_failure(failure)
    L, beta, _ = problem.constants
    C = L * math.sqrt(beta * problem.dim) / (problem.records * budget.epsilon * failure)
    return math.sqrt(2 * C) / radius


def _second_moment(noise: GaussianNoise | L2LaplaceNoise, dim: int) -> float:
    """E|z|^2: d sigma^2, or d (d + 1) times the squared scale."""
    if isinstance(noise, L2LaplaceNoise):
        return float(dim * (dim + 1) * noise.scale**2)
    return float(dim * noise.std**2)


def sensitivity(problem: Problem, T: int, eta: float) -> float:
    """Delta = eta Delta_g (1 + c + .. + c^{T-1}), and never more than the domain's diameter."""
    _, beta, mu = problem.constants
    c = max(abs(1 - eta * mu), abs(1 - eta * beta))
    # (1 - c^T)/(1 - c) without cancellation
    powers = T if c >= 1 else -math.expm1(T * math.log(c)) / (1 - c) if c > 0 else 1.0
    return min(eta * problem.gradient_sensitivity(Relation.REPLACE_ONE) * powers, 2 * problem.domain.radius)


def _paper_plan(problem: Problem, budget: Budget, T: int, eta: float) -> OutputPerturbationPlan:
    """The printed noise, on the true sensitivity: the event then says what that noise is worth."""
    L, (_, beta, mu) = _printed_slope(problem), problem.constants
    n, d, epsilon = problem.records, problem.dim, budget.epsilon
    printed = 5 * L * (1 + beta / mu) / (n * beta) if mu > 0 else 3 * L * T * eta / n
    true = sensitivity(problem, T, eta)
    if budget.pure:
        return OutputPerturbationPlan(T, eta, true, L2LaplaceNoise(true, epsilon * true / printed, d))
    std = math.sqrt(2 * math.log(2 / budget.delta)) * printed / epsilon
    return OutputPerturbationPlan(T, eta, true, GaussianNoise(true, std, d))


def _printed_slope(problem: Problem) -> float:
    """L as printed: Theorem 2 has that of the penalised loss, where |w| <= 2D."""
    L, _, mu = problem.constants
    return L + 2 * mu * problem.radius if mu > 0 else L


def predicted_output_excess(problem: Problem, budget: Budget, T: int, eta: float, D: float) -> float:
    """bias of T exact steps of size eta, and the noise that covers the distance one record moves their end."""
    return _excess(problem, unit_variance(budget, problem.dim), T, eta, D)


def unit_variance(budget: Budget, dim: int) -> float:
    """v: (d + 1)/epsilon^2 for the l2-Laplace, 1/mu_G^2 for the Gaussian."""
    return (dim + 1) / budget.epsilon**2 if budget.pure else gdp_mu(budget.epsilon, budget.delta) ** -2


def _excess(problem: Problem, variance: float, T: int, eta: float, D: float) -> float:
    mu = problem.constants.mu
    exponential = mu > 0 or _quadratic(problem.loss)
    bias = descent_bias(problem, T, eta, D) if exponential else at_most_standing(problem, D**2 / (2 * eta * T))
    # the trace is at most beta_l R^2 for these losses, where the theorem has d beta
    trace = problem.loss.trace(problem.row_norm) + mu * problem.dim
    return bias + 0.5 * trace * variance * sensitivity(problem, T, eta) ** 2


def _quadratic(loss: Loss) -> bool:
    """Whether it is, for predictions within the range of the targets."""
    return isinstance(loss, Squared) or (isinstance(loss, Huber) and loss.threshold >= loss.target_bound)


def _steps(problem: Problem, budget: Budget, eta: float, D: float, calibration: Calibration) -> int:
    """The T that balances the optimisation error against the noise."""
    L, beta, mu = problem.constants
    L = _printed_slope(problem) if calibration == "paper" else L
    n, d, epsilon, delta = problem.records, problem.dim, budget.epsilon, budget.delta
    if mu > 0:
        # Theorem 2: T = (mu + beta)^2 / (2 mu beta) * log(mu^2 n^2 epsilon^2 D^2 / (L^2 d log(1/delta)))
        spread = d * d if budget.pure else d * math.log(1 / delta)
        return math.ceil(
            (mu + beta) ** 2 / (2 * mu * beta) * math.log(max(math.e, (mu * n * epsilon * D / L) ** 2 / spread))
        )
    if calibration == "paper":
        # Theorem 3: T^3 = 2 beta^2 D^2 n^2 epsilon^2 / (9 L^2 d(d+1)), or / (18 L^2 d log(2/delta))
        spread = 9 * d * (d + 1) if budget.pure else 18 * d * math.log(2 / delta)
        return max(1, math.ceil(math.cbrt(2 * (beta * D * n * epsilon / L) ** 2 / spread)))
    variance = unit_variance(budget, d)
    lengths = np.unique(np.geomspace(1, _MOST_STEPS, 300).astype(int)).tolist()
    return int(min(lengths, key=lambda T: _excess(problem, variance, T, eta, D)))
