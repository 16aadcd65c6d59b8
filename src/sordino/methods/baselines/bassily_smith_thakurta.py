r"""Noisy SGD of Bassily, Smith & Thakurta 2014 (Algorithm 1), and the mini-batch form Zhang et al. 2017 compare with.

    B_t: m records,   g_t = (1/m) sum_{i in B_t} grad l(w_t; z_i) + N(0, sigma^2 I),     t = 1, .., T = (n/m)^2
    w_{t+1} = Pi( w_t - eta_t (g_t + grad r(w_t)) );        release the last iterate

    eta_t = M / sqrt(t (L^2 + d sigma^2)),  M the radius of the domain;        1/(mu t) when mu-strongly convex

m = 1 is the algorithm as published: n^2 steps of one record each, for small data sets only. Larger batches give the
comparison of Zhang et al., who do not say how they translate it; T = (n/m)^2 is what fits their running times.

Privacy: T sampled Gaussian releases, composed numerically. Fixed-size batches (one uniform record, when m = 1) have a
meaning under replace-one only; Poisson batches under both relations.

`calibration="paper"` takes the printed noise, both times for a data term of Lipschitz constant L,

    m = 1:   sigma^2 = 32 L^2 log(n/delta) log(1/delta) / epsilon^2
    m > 1:   sigma^2 = (2L/m)^2 log(3n/(m delta)) log(2/delta) / epsilon^2,     the same argument at rate m/n,

8 to 17 and 3 to 6 times more than is needed at n = 32561. Not every closed form of this kind errs to that side:
4 L sqrt(T log(1/delta)) / (n epsilon), printed elsewhere, gives epsilon 13 for a nominal 2 with batches of fifty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sordino.budget import Budget
from sordino.methods.descend import descend
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Inverse, InverseRoot, Rate
from sordino.methods.schedule import expected_radius
from sordino.methods.settings import (
    Drawn,
    batches_of,
    calibrated,
    check_settings,
    require_delta,
    require_linear,
    require_paper_setting,
)
from sordino.oracle.protocol import Oracle
from sordino.privacy.noise import GaussianNoise
from sordino.problem import Problem


@dataclass(frozen=True)
class BassilySmithThakurta:
    """Noise in every step, steps that shrink. `steps=None` takes (n/m)^2, which is large.

    `radius` is a public guess of |w*|; `None` takes the domain's radius, and guesses where there is none. Runs side by
    side (a stack as `start`) share their batches, so they are alike but not independent.
    """

    batch_size: int = 50
    steps: int | None = None
    sampling: Drawn = "fixed_size"
    radius: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        name = "the noisy SGD of Bassily, Smith & Thakurta"
        problem = require_linear(problem, name, "convex")
        require_delta(name, budget)
        require_paper_setting(self.calibration, budget, "Bassily et al. 2014")
        check_settings(self, positive=("radius",), whole=("steps", "batch_size"), chosen={"sampling": Drawn})
        n, m, d, L = problem.records, self.batch_size, problem.dim, problem.constants.L
        sampling = batches_of(self.sampling, m, n)
        T = self.steps or math.ceil((n / m) ** 2)
        Delta = budget.relation.distance * L

        def plan_with(noise: GaussianNoise) -> DescentPlan:
            eta, rate = self._first_step(problem, noise.std / m)
            return DescentPlan(T, eta, L, sampling, n, noise, rate)

        if self.calibration == "paper":
            return plan_with(GaussianNoise(Delta, m * self._printed(problem, budget), d))
        return calibrated(lambda multiplier: plan_with(GaussianNoise.at(multiplier, Delta, d)), budget)

    def _first_step(self, problem: Problem, sigma: float) -> tuple[float, Rate]:
        L, _, mu = problem.constants
        if mu > 0:
            return 1 / mu, Inverse()
        bounded = problem.domain.radius if math.isfinite(problem.domain.radius) else None
        M = expected_radius(problem, self.radius if self.radius is not None else bounded)
        return M / math.sqrt(L**2 + problem.dim * sigma**2), InverseRoot()

    def _printed(self, problem: Problem, budget: Budget) -> float:
        """sigma on the mean over a batch."""
        L, n, m, epsilon, delta = problem.constants.L, problem.records, self.batch_size, budget.epsilon, budget.delta
        if m == 1:
            return L * math.sqrt(32 * math.log(n / delta) * math.log(1 / delta)) / epsilon
        return 2 * L / m * math.sqrt(math.log(3 * n / (m * delta)) * math.log(2 / delta)) / epsilon
