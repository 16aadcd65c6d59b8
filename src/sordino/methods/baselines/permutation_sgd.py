r"""Bolt-on permutation SGD (Wu, Li, Kumar, Chaudhuri, Jha & Naughton 2017): ordinary training, noise once at the end.

    one public permutation of the records, cut into N batches;  k passes over them in that order
    w_{t+1} = Pi( w_t - eta_t ( mean_{i in B_t} grad l(w_t; z_i) + grad r(w_t) ) ),   t = 1, .., kN;   release w + z

Privacy (replace-one).  With eta_t <= 2/beta a step is c_t-Lipschitz, c_t = max(|1 - eta_t mu|, |1 - eta_t beta|) <= 1,
and the replaced record adds at most 2 L eta_t / |B_t| in the k steps whose batch it is in. So

    Delta = max over batches of   sum over its steps t of   (2 L eta_t / |B_t|) prod_{s > t} c_s,

whatever the permutation. It is computed as it stands, and is at most what is known in closed form, b = min |B_t|:

    convex, constant           2 k L eta / b
    convex, decreasing         (4L/(beta b)) sum_{j<k} 1/(jN + 1 + n^a)            eta_t = 2/(beta (t + n^a))
    convex, square root        (4L/(beta b)) sum_{j<k} 1/(sqrt(jN + 1) + n^a)      eta_t = 2/(beta (sqrt(t) + n^a))
    strongly convex, constant  (2 L eta/b) (1 - c^{kN}) / (1 - c^N),               attained by  +-L w + (mu/2) w^2
    strongly convex            2L/(b N mu) = 2L/(n mu) where b divides n           eta_t = min(1/beta, 1/(mu t))

The last one is the same for every b. A well-known implementation divides it by b once more: at n = 64, b = 8, k = 3,
mu = 0.1, beta = 1.1 two neighbours end 0.2866 apart, where that would allow 0.0391.

Under add/remove the number of records is private, and with it the batches and the number of steps: refused.

delta = 0:  density of z  ~ exp(-epsilon |z| / Delta).      delta > 0:  z ~ N(0, sigma^2 I) by the exact Gaussian law.
`calibration="paper"` takes the closed forms (without 1 - c^{kN}) and sigma^2 = 2 log(1.25/delta) Delta^2 / epsilon^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget, Relation
from sordino.methods.output_perturbation import OutputPerturbationPlan, Schedule, one_of_equal, unit_variance
from sordino.methods.protocol import AnyProblem, Calibration, Release
from sordino.methods.schedule import expected_radius
from sordino.methods.settings import require_linear, require_paper_setting
from sordino.oracle.protocol import ExactOracle, Oracle
from sordino.privacy.calibrate import noise_for
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import steps

_MOST_UPDATES = 10**7
"""Every one of them has a step size of its own, which is written down."""


@dataclass(frozen=True)
class PermutationSGD:
    """Train without noise, then draw it once. `schedule=None` is the strongly convex one, or constant where mu = 0.

    `step_size` is for constant steps: `None` balances the predicted error, with `radius` a public guess of |w*|; with
    printed constants it is their 1/sqrt(n). Batches hold `batch_size` records, or a few more if that does not divide n.
    """

    passes: int = 10
    batch_size: int = 50
    schedule: Schedule | None = None
    step_size: float | None = None
    exponent: float = 0.5
    radius: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = ExactOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> OutputPerturbationPlan:
        problem = require_linear(problem, "permutation SGD", "convex", "smooth")
        if budget.relation is not Relation.REPLACE_ONE:
            raise ValueError(
                "permutation SGD under add_remove: there the number of records is private, and with it the batches "
                "and the number of steps; use replace_one, or OutputPerturbation."
            )
        require_paper_setting(self.calibration, budget, "Wu et al. 2017")
        n, d = problem.records, problem.dim
        k, b = self.passes, self.batch_size
        if k < 1 or not 1 <= b <= n or k != int(k) or b != int(b):
            raise ValueError(
                f"passes is {k} and batch_size is {b}: whole numbers are needed, at least one pass over batches of "
                f"between 1 and the {n} records."
            )
        N, offset = n // b, float(n) ** self.exponent
        if k * N > _MOST_UPDATES:
            raise ValueError(f"{k} passes over {N} batches are {k * N} steps: take larger batches or fewer passes.")
        schedule, eta = self._schedule(problem, budget, k * N)
        etas = step_sizes(schedule, eta, offset, k * N, problem)
        Delta = permutation_sensitivity(problem, etas, N)
        if self.calibration == "paper":
            noise = _printed_noise(Delta, closed_form(schedule, problem, eta, offset, k, N), budget, d)
        else:
            noise = noise_for(Delta, budget, d)
        return OutputPerturbationPlan(k * N, float(etas[0]), Delta, noise, N, schedule, offset)

    def run(
        self,
        plan: OutputPerturbationPlan,
        problem: AnyProblem,
        oracle: ExactOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        n, N = problem.records, plan.batches
        order = randomness.sampling.generator.permutation(n).astype(np.intp)
        batches = [np.sort(batch) for batch in np.array_split(order, N)]
        etas = step_sizes(plan.schedule, plan.step_size, plan.offset, plan.steps, problem).tolist()
        w, together = one_of_equal(problem.start() if start is None else start)
        for t in steps(len(etas)):
            batch = batches[t % N]
            # the oracle divides by n
            g = oracle.gradient(w, batch) * (n / len(batch))
            w = problem.domain.project(w - etas[t] * (g + problem.penalty.gradient(w)))
        w = np.repeat(w, together, axis=0) if together > 1 else w
        # projecting once more is free: it does not look at the records
        return Release(problem.domain.project(plan.noise.perturb(w, randomness)), plan.event)

    def _schedule(self, problem: Problem, budget: Budget, T: int) -> tuple[Schedule, float]:
        _, beta, mu = problem.constants
        schedule = self.schedule or ("strongly convex" if mu > 0 else "constant")
        if schedule not in ("constant", "decreasing", "square root", "strongly convex"):
            raise ValueError(
                f"schedule is {schedule!r}: it must be 'constant', 'decreasing', 'square root' or 'strongly convex'."
            )
        if schedule == "strongly convex" and mu == 0:
            raise ValueError("the strongly convex schedule needs a Ridge penalty: give one, or another schedule.")
        if self.step_size is not None and schedule != "constant":
            raise ValueError(f"step_size is for constant steps: leave it out with schedule {schedule!r}.")
        if not 0 <= self.exponent < 1:
            raise ValueError(f"exponent is {self.exponent}: the offset n^exponent needs one in [0, 1).")
        eta = self._balanced_step(problem, budget, T) if self.step_size is None else self.step_size
        if not 0 < eta <= 2 / beta:
            raise ValueError(
                f"step_size is {eta}: permutation SGD needs a positive one of at most 2/beta = {2 / beta:g}, above "
                "which a step no longer contracts."
            )
        return schedule, eta

    def _balanced_step(self, problem: Problem, budget: Budget, T: int) -> float:
        L, beta, _ = problem.constants
        n, D = problem.records, expected_radius(problem, self.radius)
        if self.calibration == "paper":
            return min(1 / math.sqrt(n), 1 / beta)
        # minimise  D^2/(2 tau) + v beta/2 (2 L tau/n)^2  over tau = eta T,  v = variance of noise per unit of Delta^2
        v = unit_variance(budget, problem.dim)
        tau = float((D * n / L) ** (2 / 3) / (8 * v * beta) ** (1 / 3))
        return min(tau / T, 1 / beta)


def step_sizes(schedule: Schedule, eta: float, offset: float, T: int, problem: AnyProblem) -> Array:
    """eta_t at t = 1, .., T."""
    _, beta, mu = problem.constants
    t = np.arange(1.0, T + 1)
    match schedule:
        case "constant":
            etas = np.full(T, eta)
        case "decreasing":
            etas = 2 / (beta * (t + offset))
        case "square root":
            etas = 2 / (beta * (np.sqrt(t) + offset))
        case "strongly convex":
            etas = np.minimum(1 / beta, 1 / (mu * t))
    return etas


def permutation_sensitivity(problem: Problem, etas: Array, N: int) -> float:
    """Delta for steps `etas` over N batches of nearly equal size, and never more than the domain's diameter."""
    L, beta, mu = problem.constants
    c = np.maximum(abs(1 - etas * mu), abs(1 - etas * beta))
    # prod_{s > t} c_s, the last one empty
    later = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
    sizes = np.array([len(part) for part in np.array_split(np.arange(problem.records), N)])
    moved = (2 * L * etas * later).reshape(-1, N) / sizes
    # the products have as many roundings as there are steps
    return min(float(moved.sum(axis=0).max()) * (1 + 1e-15 * len(etas) + 1e-12), 2 * problem.domain.radius)


def closed_form(schedule: Schedule, problem: Problem, eta: float, offset: float, k: int, N: int) -> float:
    """Delta as printed, the strongly convex one as it should be."""
    L, beta, mu = problem.constants
    b = problem.records // N
    first = np.arange(k) * N + 1.0
    match schedule:
        case "constant":
            c = max(abs(1 - eta * mu), abs(1 - eta * beta))
            return 2 * L * eta / b * (k if c == 1 else 1 / (1 - c**N))
        case "decreasing":
            return 4 * L / (beta * b) * float((1 / (first + offset)).sum())
        case "square root":
            return 4 * L / (beta * b) * float((1 / (np.sqrt(first) + offset)).sum())
        case "strongly convex":
            return 2 * L / (problem.records * mu)


def _printed_noise(Delta: float, printed: float, budget: Budget, dim: int) -> GaussianNoise | L2LaplaceNoise:
    """The printed noise, on the true sensitivity: the event then says what that noise is worth."""
    if budget.pure:
        return L2LaplaceNoise(Delta, budget.epsilon * Delta / printed, dim)
    return GaussianNoise(Delta, math.sqrt(2 * math.log(1.25 / budget.delta)) * printed / budget.epsilon, dim)
