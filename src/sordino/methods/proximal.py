r"""Proximal smoothing: losses with a kink, by any method for smooth ones (Bassily, Feldman, Talwar & Thakurta 2019,
section 4, ProxGD).

    phi_s(a) = min_p phi(p) + (s/2)(p - a)^2,    s = beta/R^2;        run `inner` on  l_s(w; x, y) = phi_s(<w, x>, y)

Privacy: that of `inner` on the smoothed problem. Its L is the one of the loss itself (see `losses.moreau`; the paper's
2L is loose), so smoothing costs no noise, and it is convex and smooth, which is what the last iterate of full-batch
descent needs to be cheaper than the whole path.

Utility: with M the radius of the domain (or a guess of |w*|), smoothing costs at most L^2/(2 beta) and

    beta = (L/M) min( sqrt(n)/4, epsilon n / (8 sqrt(d log(1/delta))) )      gives the paper's 24 M L max(.., ..).

`calibration="paper"` is Theorem 4.4: that beta, and Theorem 3.2 for losses of slope 2L, with half the step and twice
the noise that L needs. The correct L halves what noisy SGD costs there; `calibration="tight"` doubles beta, which
halves what smoothing costs as well and is still within what Theorem 3.2 allows. Where delta = 0, the size of the
l2-Laplace noise, d, stands for sqrt(d log(1/delta)). The noise at the end of full-batch descent depends on the length
eta T of its path, not on the number of its steps, so there beta balances L^2/(8 beta) (a quarter of the records being
near the kink) against the predicted excess of as many steps as a sharp loss needs (see `methods.schedule`).

As the prox has a closed form there is no inner loop: a step costs what a step of logistic regression costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.losses import MoreauSmoothed, Weighted, unweighted
from sordino.losses.kinked import Kinked
from sordino.methods.noisy_gradient_descent import NoisyGradientDescent
from sordino.methods.noisy_sgd import NoisySGD
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyProblem, Calibration, Guided, Method, Plan, Release, StepEvents
from sordino.methods.schedule import (
    FEWEST_STEPS,
    LONGEST_STRIDE,
    MOST_STEPS,
    STRIDE,
    TIE,
    balanced_descent,
    expected_radius,
    predicted_excess,
)
from sordino.methods.settings import require_linear
from sordino.oracle.protocol import LinearOracle, Oracle
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.events import Event
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.words import plan_card

SHARPER = tuple(2 ** (k / 2) for k in range(18))
"""Multiples of the printed beta to choose from."""


@dataclass(frozen=True)
class ProximalSmoothingPlan:
    """s, and the plan of the inner method for the smoothed problem."""

    sharpness: float
    inner: Plan

    @property
    def event(self) -> Event:
        return self.inner.event

    @property
    def step_events(self) -> StepEvents:
        return self.inner.step_events

    _repr_html_ = plan_card


@dataclass(frozen=True)
class ProximalSmoothing:
    """`inner` on the Moreau envelope of a loss with a kink. `sharpness=None` takes the theorem's, or balances it.

    The theorem is about the average of `NoisySGD`. `NoisyGradientDescent` is the default because it does better, on a9a
    (hinge), bike sharing and wine quality (absolute, pinball and insensitive loss) at epsilon 0.1 and 1: shorter steps
    follow a sharper loss at no cost in noise. `NoisySGD(release="last")` comes close and reads the records less often.
    `calibration` is that of `inner`, and "paper" by itself is the theorem's `NoisySGD(calibration="paper")`.
    """

    inner: Method[Any, LinearOracle] = field(default_factory=NoisyGradientDescent)
    sharpness: float | None = None
    calibration: Calibration = "tight"

    needs: ClassVar[type[Oracle]] = LinearOracle

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Method):
            raise ValueError(f"inner is {self.inner!r}: it must be a method such as NoisyGradientDescent().")
        if self.calibration == "paper" and self.inner == NoisyGradientDescent():
            object.__setattr__(self, "inner", NoisySGD(calibration="paper"))
        if self.calibration not in ("tight", self.inner.calibration):
            raise ValueError(
                f"calibration is {self.calibration!r} and that of inner is {self.inner.calibration!r}: inner draws the "
                "noise, so give it the calibration and leave this one out."
            )
        object.__setattr__(self, "calibration", self.inner.calibration)

    def plan(self, problem: AnyProblem, budget: Budget) -> ProximalSmoothingPlan:
        problem = require_linear(problem, "proximal smoothing")
        if not isinstance(unweighted(problem.loss), Kinked):
            raise ValueError(
                f"{type(problem.loss).__name__} loss has no kink to smooth: use {type(self.inner).__name__} by itself."
            )
        problem.require("proximal smoothing", "convex")
        sharpness = self._sharpness(problem, budget) if self.sharpness is None else self.sharpness
        plan = self.inner.plan(_smoothed(problem, sharpness), budget)
        if isinstance(self.inner, NoisySGD) and self.calibration == "paper":
            plan = _for_twice_the_slope(plan, step_given=self.inner.step_size is not None)
        return ProximalSmoothingPlan(sharpness, plan)

    def run(
        self,
        plan: ProximalSmoothingPlan,
        problem: AnyProblem,
        oracle: LinearOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        smoothed = _smoothed(require_linear(problem, "proximal smoothing"), plan.sharpness)
        return self.inner.run(plan.inner, smoothed, oracle.under(smoothed.loss), randomness, start)

    def _sharpness(self, problem: Problem, budget: Budget) -> float:
        L, n, d = problem.constants.L, problem.records, problem.dim
        guess = self.inner.radius if isinstance(self.inner, Guided) else None
        M = problem.domain.radius if math.isfinite(problem.domain.radius) else expected_radius(problem, guess)
        spread = d if budget.pure else math.sqrt(d * math.log(1 / budget.delta))
        # beta of section 4, over R^2
        printed = L / M * min(math.sqrt(n) / 4, budget.epsilon * n / (8 * spread)) / problem.row_norm**2
        if self.calibration == "paper":
            return printed
        inner = self.inner
        if isinstance(inner, NoisyGradientDescent) and inner.steps is inner.step_size is None and not budget.pure:
            return _balanced(problem, budget, printed, expected_radius(problem, guess))
        return 2 * printed


def _smoothed(problem: Problem, sharpness: float, envelope: type[MoreauSmoothed] = MoreauSmoothed) -> Problem:
    """On the envelope of the loss: where classes have weights, on that of the loss they weigh."""
    loss = problem.loss
    smooth = envelope(unweighted(loss), sharpness)  # type: ignore[arg-type]
    return replace(problem, loss=replace(loss, base=smooth) if isinstance(loss, Weighted) else smooth)


def _for_twice_the_slope(plan: DescentPlan, step_given: bool) -> DescentPlan:
    """Lemma 4.3 has 2L for the envelope's L, and Theorem 3.2 eta ~ 1/L and sigma ~ L. The true slopes stay below L."""
    noise = GaussianNoise(plan.noise.sensitivity, 2 * plan.noise.std, plan.noise.dim)
    return replace(plan, step_size=plan.step_size * (1 if step_given else 0.5), noise=noise)


@dataclass(frozen=True)
class _Anchored(MoreauSmoothed):
    """What standing still costs is the loss at zero and not the envelope, which a blunt one has next to nothing of."""

    @property
    def at_zero(self) -> float:
        return self.base.at_zero


def anchored(problem: Problem, sharpness: float) -> Problem:
    """The smoothed problem, for predictions."""
    return _smoothed(problem, sharpness, _Anchored)


def smoothing_cost(problem: Problem, sharpness: float) -> float:
    """L^2/(8 beta): a quarter of the records near the kink, where smoothing costs L^2/(2 beta)."""
    return problem.constants.L**2 / (8 * sharpness * problem.row_norm**2)


def _balanced(problem: Problem, budget: Budget, printed: float, R0: float) -> float:
    """The least sharpness whose predicted excess, smoothing included, is within a tenth of the best."""
    first = balanced_descent(anchored(problem, printed), budget, radius=R0)
    tau = first.steps * first.step_size
    mu_G = gdp_mu(budget.epsilon, budget.delta)

    def excess(sharpness: float) -> float:
        smoothed = anchored(problem, sharpness)
        beta = smoothed.constants.beta
        T = min(max(math.ceil(tau * beta / STRIDE), FEWEST_STEPS), MOST_STEPS)
        descent = predicted_excess(smoothed, budget.relation, mu_G, T, min(tau / T, LONGEST_STRIDE / beta), R0)
        return descent + smoothing_cost(problem, sharpness)

    found = [(printed * times, excess(printed * times)) for times in SHARPER]
    best = min(total for _, total in found)
    # where predictions are not told apart, the smoother loss, which needs fewer steps
    return next(sharpness for sharpness, total in found if total <= (1 + TIE) * best)
