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

at the a in (0, 1) that asks for the least noise. Where numbers come from Theorem 4.4, batches must be of fixed size and
a random iterate be released, as printed, and a must meet the side condition

    alpha - 1 <= (2/3) s log(n/(b alpha (1 + s))),     s = 3.5 T alpha min(b, b_0)^2 / (a n^2 epsilon) >= .7,

printed with b_0 for b_0^2. (Its proof asks the same of the first sum with n/b_0, which then hardly ever holds.) No a
meets it in the paper's own experiments. Where every number is given the condition is left aside, and the
certificate states what the noise is worth without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from sordino.budget import Budget
from sordino.methods.descend import descend
from sordino.methods.plan import DescentPlan, FirstSum
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Constant, Rate
from sordino.methods.settings import (
    Drawn,
    batches_of,
    calibrated,
    check_calibration,
    check_settings,
    clip_of,
    kept_of,
    loss_at_zero,
    require_conditions,
    require_delta,
    require_given,
    require_paper_setting,
    settle_calibration,
)
from sordino.methods.updates import Recursive
from sordino.oracle.protocol import Oracle
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem


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
    `noise_multiplier` fixes the standard deviation of the noise on all sums but the first, in units of what they are
    clipped at, and the run is refused if that costs more than the budget. Runs side by side (a stack as `start`) share
    their batches and the number of the iterate.
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
    release: Literal["last", "random"] = "last"
    noise_multiplier: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def __post_init__(self) -> None:
        settle_calibration(self)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        require_delta("recursive momentum", budget)
        self._check(problem, budget)
        n, d = problem.records, problem.dim
        numbers = self._numbers(problem, budget)
        T, C, gamma = numbers.steps, numbers.clip, numbers.mix
        first, others = (batches_of(self.sampling, b, n) for b in (numbers.first_batch, numbers.batch_size))
        moved = (1 - gamma) * numbers.difference_clip + gamma * C
        Delta_0, Delta = budget.relation.distance * C, budget.relation.distance * moved
        kept, stop = kept_of(self.release)

        def plan_with(first_noise: GaussianNoise, noise: GaussianNoise) -> DescentPlan:
            return DescentPlan(
                steps=T,
                step_size=numbers.step_size,
                clip=C,
                sampling=others,
                records=n,
                noise=noise,
                rate=self.rate,
                update=Recursive(gamma, numbers.difference_clip, numbers.reach),
                stop=stop,
                release=kept,
                first=FirstSum(first, first_noise),
            )

        if self.calibration == "paper":
            # on means over a batch, per unit of the contribution
            sigma = self._printed(problem, budget, numbers)
            return plan_with(
                GaussianNoise(Delta_0, sigma * C * first.expected_size(n), d),
                GaussianNoise(Delta, sigma * moved * others.expected_size(n), d),
            )
        # z_0 Delta_0 / b_0 = (z Delta / b) sqrt(A)
        grown = math.sqrt(_accumulated(gamma, T))
        ratio = max(1.0, moved / C * first.expected_size(n) / others.expected_size(n) * grown)
        return calibrated(
            lambda z: plan_with(GaussianNoise.at(ratio * z, Delta_0, d), GaussianNoise.at(z, Delta, d)),
            budget,
            self.noise_multiplier,
        )

    def _check(self, problem: AnyProblem, budget: Budget) -> None:
        require_given(self, problem, "steps", "batch_size", "step_size", "clip", "difference_clip", "mix")
        check_settings(
            self,
            positive=("step_size", "clip", "difference_clip", "noise_multiplier"),
            whole=("steps", "batch_size", "first_batch"),
            chosen={"sampling": Drawn, "release": Literal["last", "random"]},
        )
        if self.mix is not None and not 0 <= self.mix <= 1:
            raise ValueError(f"mix is {self.mix}: it weighs the gradient against its difference and lies in [0, 1].")
        check_calibration(self)
        if self.calibration != "given":
            require_paper_setting(self.calibration, budget, "Wang et al. 2019")

    def _numbers(self, problem: AnyProblem, budget: Budget) -> _Numbers:
        """Theorem 4.4, where nothing else is said."""
        n, G = problem.records, clip_of(problem, self.clip)
        T, b, eta, zeta, gamma = self.steps, self.batch_size, self.step_size, self.difference_clip, self.mix
        b0 = self.first_batch if b is None else self.first_batch or min(n, 4 * b)
        if not (T is None or b is None or b0 is None or eta is None or zeta is None or gamma is None):
            return _Numbers(T, eta, None, gamma, G, zeta, b0, b)
        assert not isinstance(problem, NetworkProblem)
        problem.require("recursive momentum without step size, clips, mix, batch size and steps", "smooth")
        beta, spread = problem.constants.beta, problem.dim * math.log(1 / budget.delta)
        F = loss_at_zero(problem, "recursive momentum", "steps, sizes, clips and mix")
        n_eps = n * budget.epsilon
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

    def _printed(self, problem: AnyProblem, budget: Budget, numbers: _Numbers) -> float:
        """sqrt(14 T alpha / (a n^2 epsilon)) at the a that makes alpha / a least."""
        c, n = math.log(1 / budget.delta) / budget.epsilon, problem.records
        # minimise (1 + c/(1-a))/a:  a^2 - 2 (1 + c) a + (1 + c) = 0
        a = (1 + c) - math.sqrt(c * (1 + c))
        given = (self.steps, self.batch_size, self.step_size, self.difference_clip, self.mix)
        if None in given:
            # alpha / a rises to both sides of its minimum, and s with it to the left
            allowed = [
                b for b in np.geomspace(a, 1e-6 * a, 2000).tolist() if _meets_the_condition(b, n, numbers, budget)
            ]
            require_conditions(
                "Theorems 4.1 and 4.4 of Wang et al. 2019",
                (self.sampling == "fixed_size", "batches without replacement: give sampling='fixed_size'"),
                (self.release == "random", "a random iterate: give release='random'"),
                (bool(allowed), "a side condition on alpha that nothing meets at this n, d and budget"),
            )
            a = allowed[0]
        return math.sqrt(14 * numbers.steps * _alpha(a, budget) / (a * budget.epsilon)) / n


def _accumulated(mix: float, T: int) -> float:
    """A: the variance of v after T releases, in units of what each adds."""
    kept = (1 - mix) ** 2
    return T if kept == 1 else (1 - kept**T) / (1 - kept)


def _alpha(a: float, budget: Budget) -> float:
    return 1 + math.log(1 / budget.delta) / ((1 - a) * budget.epsilon)


def _meets_the_condition(a: float, n: int, numbers: _Numbers, budget: Budget) -> bool:
    """The side condition of Theorem 4.1."""
    alpha, b = _alpha(a, budget), numbers.batch_size
    s = 3.5 * numbers.steps * alpha * min(b, numbers.first_batch) ** 2 / (a * n**2 * budget.epsilon)
    return s >= 0.7 and alpha - 1 <= 2 / 3 * s * math.log(n / (b * alpha * (1 + s)))
