r"""Proximal smoothing: losses with a kink, by any method for smooth ones (Bassily, Feldman, Talwar & Thakurta 2019,
section 4, ProxGD).

    phi_s(a) = min_p phi(p) + (s/2)(p - a)^2,    s = beta/R^2;        run `inner` on  l_s(w; x, y) = phi_s(<w, x>, y)

Privacy: that of `inner` on the smoothed problem. Its L is the one of the loss itself (see `losses.moreau`; the paper's
2L is loose), so smoothing costs no noise, and it is convex and smooth, which is what the last iterate of full-batch
descent needs to be cheaper than the whole path.

Utility: with M the radius of the domain (or a guess of |w*|), smoothing costs at most L^2/(2 beta) and

    beta = (L/M) min( sqrt(n)/4, epsilon n / (8 sqrt(d log(1/delta))) )      gives the paper's 24 M L max(.., ..).

The correct L halves what noisy SGD costs there; `calibration="tight"` doubles beta, which halves what smoothing costs
as well and is still within what Theorem 3.2 allows. Where delta = 0, the size of the l2-Laplace noise, d, stands for
sqrt(d log(1/delta)).

As the prox has a closed form there is no inner loop: a step costs what a step of logistic regression costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from sordino.budget import Budget
from sordino.losses import MoreauSmoothed
from sordino.losses.kinked import Kinked
from sordino.methods.noisy_gradient_descent import NoisyGradientDescent
from sordino.methods.protocol import Array, Calibration, Release
from sordino.methods.schedule import expected_radius
from sordino.oracle.protocol import ScoredOracle
from sordino.privacy.events import Event
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

FOLLOWED = 500
"""Steps of descent whose cost is worth a sharper loss."""


@dataclass(frozen=True)
class ProximalSmoothingPlan:
    """s, and the plan of the inner method for the smoothed problem."""

    sharpness: float
    inner: Any

    @property
    def event(self) -> Event:
        event: Event = self.inner.event
        return event


@dataclass(frozen=True)
class ProximalSmoothing:
    """`inner` on the Moreau envelope of a loss with a kink. `sharpness=None` takes the theorem's.

    The theorem is about `NoisySGD`. `NoisyGradientDescent` is the default because it does better: on a9a (hinge), bike
    sharing and wine quality (absolute, pinball, insensitive loss) at epsilon 0.1 and 1. The last iterate of full-batch
    descent pays for less than all its steps, and shorter steps follow a sharper loss at no cost in noise, which sampled
    and averaged ones do not. So where the theorem's beta needs few of its steps, a larger one is taken.
    """

    inner: Any = field(default_factory=NoisyGradientDescent)
    sharpness: float | None = None

    def __post_init__(self) -> None:
        if not (hasattr(self.inner, "plan") and hasattr(self.inner, "run")):
            raise ValueError(f"inner is {self.inner!r}: it must be a method such as NoisyGradientDescent().")

    @property
    def calibration(self) -> Calibration:
        calibration: Calibration = self.inner.calibration
        return calibration

    def plan(self, problem: Problem, budget: Budget) -> ProximalSmoothingPlan:
        if not isinstance(problem.loss, Kinked):
            raise ValueError(
                f"{type(problem.loss).__name__} loss has no kink to smooth: use {type(self.inner).__name__} by itself."
            )
        problem.require("proximal smoothing", "convex")
        if self.sharpness is not None:
            return self._plan(problem, budget, self.sharpness)
        s = self._theorem(problem, budget) / problem.row_norm**2
        plan = self._plan(problem, budget, s)
        steps = plan.inner.steps
        # at a given length of the descent, sharpness is proportional to the number of steps
        if self._free and steps < FOLLOWED:
            return self._plan(problem, budget, s * FOLLOWED / steps)
        return plan

    def run(
        self,
        plan: ProximalSmoothingPlan,
        problem: Problem,
        oracle: ScoredOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        smoothed = _smoothed(problem, plan.sharpness)
        release: Release = self.inner.run(plan.inner, smoothed, oracle.under(smoothed.loss), randomness, start)
        return release

    def _plan(self, problem: Problem, budget: Budget, sharpness: float) -> ProximalSmoothingPlan:
        return ProximalSmoothingPlan(sharpness, self.inner.plan(_smoothed(problem, sharpness), budget))

    @property
    def _free(self) -> bool:
        """Whether the inner method chooses the length of a full-batch descent by itself."""
        inner = self.inner
        return (
            isinstance(inner, NoisyGradientDescent)
            and inner.steps is inner.step_size is None
            and inner.calibration == "tight"
        )

    def _theorem(self, problem: Problem, budget: Budget) -> float:
        """beta of section 4, twice that where it need not be the printed one."""
        L, n, d = problem.constants.L, problem.records, problem.dim
        M = problem.domain.radius
        if not math.isfinite(M):
            M = expected_radius(problem, getattr(self.inner, "radius", None))
        spread = d if budget.pure else math.sqrt(d * math.log(1 / budget.delta))
        printed = L / M * min(math.sqrt(n) / 4, budget.epsilon * n / (8 * spread))
        return printed if self.calibration == "paper" else 2 * printed


def _smoothed(problem: Problem, sharpness: float) -> Problem:
    return replace(problem, loss=MoreauSmoothed(problem.loss, sharpness))  # type: ignore[arg-type]
