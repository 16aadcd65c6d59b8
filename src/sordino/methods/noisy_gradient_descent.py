r"""Full-batch noisy gradient descent, DP-GD (Zhou et al. 2020, Algorithm 1; Yu et al. 2020, Algorithm 1).

    g_t = (1/n) sum_i clip(grad l(w_t; z_i), C) + N(0, sigma^2 I)
    w_{t+1} = Pi( w_t - eta (g_t + grad r(w_t)) ),   t < T;      or by momentum,  V <- m V + g_t,  w <- w - eta V

One record moves the sum by Delta = 2C (replace-one) or C (add/remove). With multiplier m = n sigma / Delta the cost is
A_T/m in Gaussian differential privacy, where A_T depends on what is released:

    last or random iterate, convex, replace-one:       the least of sqrt(T) and the last-iterate factors of
                                                       Bok, Su & Altschuler 2024 (see privacy.last_iterate)
    anything else:                                     A_T = sqrt(T)

Momentum is planned where it needs fewer steps and there is next to nothing to gain from the factors, as without a
penalty (`methods.schedule.heavy_ball`); every step is paid for then.

The factors need steps that contract. Under add/remove that cannot be promised: the sum over the true records, whose
number is private, divided by the public one may be steeper than beta. Nor can it where a person's sum is clipped as
one (see `oracle.person_blocks`).

`release="auto"` takes the last iterate, but for numbers, where every step is paid for anyway and records are not few,
a moving average of all of them (`methods.descend`), in which the noise of the last steps is smaller: what is computed
from paid releases costs nothing.

A random iterate stops at an index drawn without looking at the records and is accounted as the longest run. Clipping
below the Lipschitz constant keeps the gradient of a convex smooth (Huberised) loss when there is one score per record;
with several scores it does not, and composition is used.

`calibration="paper"` is Yu et al. 2020: sigma = 2 sqrt(2) L sqrt(T log(1/delta)) / (n epsilon), and where they are
`None` the step and length of Theorem 1, with mu, which is public, for the expected curvature nu:

    eta = 1/beta,      T = 2 log(n) / (eta mu)  and the last iterate;      T = n beta epsilon / sqrt(d)  and the average
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.budget import Budget
from sordino.methods.descend import descend
from sordino.methods.plan import DescentPlan, KeptOutput, Stop
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.schedule import Descent, HeavyBall, Paid, amplification, averages, balanced_descent, heavy_ball
from sordino.methods.settings import (
    Released,
    calibrated,
    check_settings,
    clip_of,
    kept_of,
    require_conditions,
    require_delta,
    require_given,
    require_paper_setting,
)
from sordino.methods.updates import Momentum, Plain
from sordino.oracle.protocol import Oracle
from sordino.oracle.sampling import FullBatch
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem, Problem
from sordino.wire import LATER

ReleasedOrAuto = Literal[Released, "auto"]


@dataclass(frozen=True)
class NoisyGradientDescent:
    """Noise in every step. What is `None` among `steps`, `step_size` and `clip` balances the predicted error on public
    facts alone; `clip` is the Lipschitz constant where the other two are given. On a network all three must be.

    `radius` is a public guess of |w*| for that balance, used where neither the penalty nor the domain bounds it. A plan
    in which every step is paid for lets noise move the score of a row of full norm by `least_deviation` at least
    (p in `methods.schedule`): the more, the longer it descends.
    """

    steps: int | None = None
    step_size: float | None = None
    clip: float | None = None
    release: ReleasedOrAuto = "last"
    radius: float | None = None
    calibration: Calibration = "tight"
    least_deviation: float | None = field(default=None, metadata=LATER)

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        self._check(problem, budget)
        T, eta, C, m = self._descent(problem, budget)
        A = math.sqrt(T) if m else amplification(problem, budget.relation, T, eta, C, self._paid)
        kept, stop = self._kept(problem, budget, paid_for=math.sqrt(T) <= A)
        Delta, d = budget.relation.distance * C, problem.dim

        def plan_with(noise: GaussianNoise) -> DescentPlan:
            return DescentPlan(
                steps=T,
                step_size=eta,
                clip=C,
                sampling=FullBatch(),
                records=problem.records,
                noise=noise,
                update=Momentum(m) if m else Plain(),
                stop=stop,
                release=kept,
                amplification=None if A == math.sqrt(T) else A,
            )

        if self.calibration == "paper":
            L, log = problem.constants.L, math.log(1 / budget.delta)
            return plan_with(GaussianNoise(Delta, 2 * math.sqrt(2) * L * math.sqrt(T * log) / budget.epsilon, d))
        return calibrated(lambda multiplier: plan_with(GaussianNoise.at(multiplier, Delta, d)), budget)

    def _check(self, problem: AnyProblem, budget: Budget) -> None:
        if not isinstance(problem, NetworkProblem):
            problem.require("noisy gradient descent", "smooth")
        require_delta("noisy gradient descent", budget)
        require_paper_setting(self.calibration, budget, "Yu et al. 2020")
        require_given(self, problem, "steps", "step_size", "clip")
        positive = ("step_size", "clip", "radius", "least_deviation")
        check_settings(self, positive, ("steps",), chosen={"release": ReleasedOrAuto})
        if self.least_deviation and (self.steps or self.step_size or self.radius or self.calibration == "paper"):
            raise ValueError(
                f"least_deviation is {self.least_deviation:g}, which is for a length that is planned: leave it out, or "
                "steps, step_size, radius and calibration."
            )

    def _descent(self, problem: AnyProblem, budget: Budget) -> HeavyBall:
        if isinstance(problem, NetworkProblem) or (self.steps and self.step_size):
            return HeavyBall(self.steps or 0, self.step_size or 0.0, clip_of(problem, self.clip), 0.0)
        if self.calibration == "paper":
            return HeavyBall(*self._theorem(problem, budget), 0.0)
        clip = None if self.clip is None else clip_of(problem, self.clip)
        free = self.release in ("last", "auto") and not (self.steps or self.step_size)
        least_p = self.least_deviation or 0.0
        if free and math.isinf(problem.domain.radius) and (problem.convex or problem.summed):
            return heavy_ball(problem, budget, self.radius, clip, least_p)
        asked = self.steps, self.step_size, self.radius, clip
        descent = balanced_descent(problem, budget, *asked, self._paid, least_p=least_p)
        return HeavyBall(*descent, 0.0)

    def _kept(self, problem: AnyProblem, budget: Budget, paid_for: bool) -> tuple[KeptOutput, Stop]:
        """What is released of the iterates, and where the run stops; `paid_for` says that every step is."""
        if self.release != "auto":
            return kept_of(self.release)
        averaged = paid_for and isinstance(problem, Problem) and averages(problem, budget)
        return kept_of("moving average" if averaged else "last")

    def _theorem(self, problem: Problem, budget: Budget) -> Descent:
        """Theorem 1 of Yu et al. 2020: eta, and T of what is released."""
        (_, beta, mu), n, d = problem.constants, problem.records, problem.dim
        eta = self.step_size or 1 / beta
        T = self.steps
        if T is None:
            last = self.release == "last"
            require_conditions(
                "Theorem 1 of Yu et al. 2020",
                (problem.convex, "a convex objective"),
                (self.release in ("last", "average"), "release='last' or release='average'"),
                (mu > 0 or not last, "a Ridge penalty for its last iterate: without one, give release='average'"),
                (eta <= 1 / beta, f"steps of at most 1/beta = {1 / beta:.4g}, and step_size is {eta:.4g}"),
                (last or eta == 1 / beta, "steps of 1/beta for its average: leave step_size out"),
            )
            T = math.ceil(2 * math.log(n) / (eta * mu) if last else n * beta * budget.epsilon / math.sqrt(d))
        return Descent(T, eta, clip_of(problem, self.clip))

    @property
    def _paid(self) -> Paid:
        return "last iterate" if self.release in ("last", "random", "auto") else "every step"
