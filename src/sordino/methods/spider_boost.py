r"""Private SpiderBoost (Arora, Bassily, Gonzalez, Guzman, Menart and Ullah 2023), for runs judged by a gradient's norm.

    t multiple of q:   v_t = (1/b_1) ( sum_{i in B} clip(grad l(w_t; z_i), C_1) + u_t )
    otherwise:         v_t = v_{t-1} + (1/b_2) ( sum_{i in B} clip(grad l(w_t; z_i) - grad l(w_{t-1}; z_i), C_2) + u_t )
    w_{t+1} = Pi( w_t - eta_t (v_t + grad r(w_t)) ),   t = 0, .., T - 1
    release w_T, or one of w_1, .., w_T drawn uniformly

Before it was built, the method was measured on linear models beside noisy gradient descent and did not win, by the loss
or by the gradient's norm: the error of v_t is the same for q steps on end, so that it adds up, and only directions that
are steep enough to settle within q steps gain. DP-SRM (`recursive_momentum`) is its cousin without periods.

The paper lets C_2, and the noise with it, follow the length of each step. Here both are planned, and steps are no
longer than C_2/beta unless their size is given, so that no difference of gradients is clipped:

    eta_t = min( C_2 / (beta |v_t + grad r(w_t)|), 1/(2 beta) )

Privacy.  One record moves the first kind of sum by Delta_1 = 2 C_1 and the second by Delta_2 = 2 C_2 (replace-one; half
of that under add/remove), whatever was released before. w_T needs ceil(T/q) sums of the first kind and T - ceil(T/q) of
the second, composed numerically.

Numbers that are not given (own).  On all records, with multipliers z_1 and z_2 that together buy mu in Gaussian
differential privacy, a coordinate of v_t has the mean variance (Delta_1/n)^2 (z_1^2 + (q - 1) x^2 z_2^2), where
x = C_2/(sqrt(2) C_1); by Cauchy and Schwarz it is least at

    z_2 = z_1/sqrt(x),      q = 1/x - 1:        V = 4 x (1 - x) T (Delta_1/(n mu))^2.

Steps of length r = C_2/beta have a mean gradient norm of at most F(0)/(r T) + beta r/2 + 2 sqrt(d V), since each wins
r(|grad F| - 2 |error|) - beta r^2/2. The first and the last term depend on the path's length s = r T, and

    s = (2 F(0)/A)^{2/3},       A = 2 sqrt(d) (Delta_1/(n mu)) sqrt(2 sqrt(2) beta/C_1)

balances them; r = 2 F(0)/(beta s) makes the second as large as the first, and is more where T would exceed 2000.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.budget import Budget
from sordino.methods.descend import descend
from sordino.methods.plan import DescentPlan, FirstSum
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Constant, Rate
from sordino.methods.schedule import MOST_STEPS, gaussian_allowance
from sordino.methods.settings import (
    Drawn,
    batches_of,
    calibrated,
    check_settings,
    clip_of,
    kept_of,
    loss_at_zero,
    require_delta,
    require_given,
)
from sordino.methods.updates import Recursive
from sordino.oracle.protocol import Oracle
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem


@dataclass(frozen=True)
class SpiderBoost:
    """A gradient every `period` steps, corrected in between by how far each record's gradient moved.

    `difference_clip` and `period` are C_2 and q; `first_batch` is that of a period's first step, by default all
    records, or four batches where a batch size is given. On a network everything but these two must be given.
    """

    steps: int | None = None
    batch_size: int | None = None
    first_batch: int | None = None
    step_size: float | None = None
    clip: float | None = None
    difference_clip: float | None = None
    period: int | None = None
    rate: Rate = field(default_factory=Constant)
    sampling: Drawn = "poisson"
    release: Literal["last", "random"] = "last"

    calibration: ClassVar[Calibration] = "tight"
    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        require_delta("SpiderBoost", budget)
        self._check(problem)
        n, d = problem.records, problem.dim
        C1 = clip_of(problem, self.clip)
        T, C2 = self._length(problem, budget, C1)
        eta, reach = self.step_size, None
        if eta is None:
            beta = problem.constants.beta
            eta, reach = 1 / (2 * beta), C2 / beta
        b2 = self.batch_size or n
        b1 = self.first_batch or (n if self.batch_size is None else min(n, 4 * b2))
        x = C2 / (math.sqrt(2) * C1)
        q = self.period or max(2, round(1 / x - 1))
        first, others = (batches_of(self.sampling, b, n) for b in (b1, b2))
        Delta_1, Delta_2 = (budget.relation.distance * clip for clip in (C1, C2))
        # z_2/b_2 = z_1/(b_1 sqrt(x)); a small batch is hidden by sampling only as long as there is noise
        ratio = max(1.0, b2 / b1 / math.sqrt(x))
        kept, stop = kept_of(self.release)
        return calibrated(
            lambda z: DescentPlan(
                steps=T,
                step_size=eta,
                clip=C1,
                sampling=others,
                records=n,
                noise=GaussianNoise.at(ratio * z, Delta_2, d),
                rate=self.rate,
                update=Recursive(0.0, C2, reach, q),
                stop=stop,
                release=kept,
                first=FirstSum(first, GaussianNoise.at(z, Delta_1, d), every=q),
            ),
            budget,
        )

    def _check(self, problem: AnyProblem) -> None:
        require_given(self, problem, "steps", "batch_size", "step_size", "clip", "difference_clip")
        check_settings(
            self,
            positive=("step_size", "clip", "difference_clip"),
            whole=("steps", "batch_size", "first_batch", "period"),
            chosen={"sampling": Drawn, "release": Literal["last", "random"]},
        )
        if self.period == 1:
            raise ValueError("period is 1: every sum would be a gradient's own. Use DPSGD, or a period of at least 2.")

    def _length(self, problem: AnyProblem, budget: Budget, C1: float) -> tuple[int, float]:
        """T and C_2."""
        T, C2 = self.steps, self.difference_clip
        if T is not None and C2 is not None and self.step_size is not None:
            return T, C2
        assert not isinstance(problem, NetworkProblem)
        problem.require("SpiderBoost without step size, steps and difference clip", "smooth")
        beta = problem.constants.beta
        if T is not None and C2 is not None:
            return T, C2
        F = loss_at_zero(problem, "SpiderBoost", "steps and difference clip")
        noise = budget.relation.distance * C1 / (problem.records * gaussian_allowance(problem.dim, budget))
        A = 2 * math.sqrt(problem.dim) * noise * math.sqrt(2 * math.sqrt(2) * beta / C1)
        s = (2 * F / A) ** (2 / 3)
        if C2 is None:
            r = s / T if T is not None else max(2 * F / (beta * s), s / MOST_STEPS)
            # a longer one would leave nothing to a gradient's own sum
            C2 = min(beta * r, C1)
        return T or min(MOST_STEPS, math.ceil(s * beta / C2)), C2
