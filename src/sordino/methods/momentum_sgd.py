r"""DP-SGD with momentum and a schedule of step sizes (Abadi et al. 2016), the reference for non-convex problems.

    B_t ~ sampling,   g_t = (1/b) sum_{i in B_t} clip(grad l(w_t; z_i), C) + N(0, sigma^2 I) + grad r(w_t)
    m_t = rho m_{t-1} + g_t,      w_{t+1} = Pi( w_t - eta_t m_t ),   t < T

Released is the last iterate, the average, or a moving average (`methods.descend`).

Privacy: T sampled Gaussian releases, composed numerically; the rest is computed from them and from public numbers.
Nothing is assumed of the loss. Both relations with Poisson batches, replace-one with batches of fixed size.

Correlated noise (DP-FTRL; Kairouz et al. 2021) takes back in later steps a part of what earlier ones added. Records in
their order need no coins, and the run is one Gaussian release of everything; drawn ones have turns in groups, and the
run is as many sampled releases as a group has turns (`privacy.correlation`, `methods.correlated`). Replace-one alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.budget import Budget
from sordino.methods.correlated import Batching, NoiseKind, noisy_batches
from sordino.methods.descend import descend
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Constant, Rate
from sordino.methods.schedule import Descent, balanced_batch, balanced_descent
from sordino.methods.settings import (
    Clipping,
    calibrated,
    check_calibration,
    check_settings,
    clip_of,
    require_delta,
    require_given,
    settle_calibration,
    softening_of,
)
from sordino.methods.updates import Momentum, Plain
from sordino.oracle.protocol import Oracle
from sordino.problem import NetworkProblem

Smoothed = Literal["last", "average", "moving average"]


@dataclass(frozen=True)
class DPSGD:
    """Noise in every step, on a batch of the records. What is `None` balances the predicted error of a linear model
    (see `methods.schedule`); on a network nothing may be.

    `noise_multiplier` fixes the standard deviation of the noise on a sum, in units of the clip; the run is refused if
    that costs more than the budget. With `clipping="automatic"` every gradient of a network is scaled to the clip, and
    a clip of 1 is as good as any. Runs side by side (a stack as `start`) share their batches, so they are alike but not
    independent.

    `sampling="in_order"` takes one batch after the other as the records stand, for files that are read in order and
    where drawing cannot be kept secret; shuffle a sorted table before. Its noise is correlated unless `noise` says
    otherwise. With Poisson batches `noise="correlated"` takes the number of `bands` that leaves the least error, which
    may be 1. A run with correlated noise keeps no checkpoints.
    """

    steps: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    clip: float | None = None
    momentum: float = 0.0
    rate: Rate = field(default_factory=Constant)
    sampling: Batching = "poisson"
    release: Smoothed = "last"
    noise_multiplier: float | None = None
    calibration: Calibration = "tight"
    clipping: Clipping = "norm"
    noise: NoiseKind = "auto"
    bands: int | None = None

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def __post_init__(self) -> None:
        settle_calibration(self)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        require_delta("DP-SGD", budget)
        check_calibration(self, "Abadi et al. 2016 leave the constants of their theorem about noise unnamed")
        require_given(self, problem, "steps", "batch_size", "step_size", "clip")
        check_settings(
            self,
            positive=("step_size", "clip", "noise_multiplier"),
            whole=("steps", "batch_size", "bands"),
            fractions=("momentum",),
            chosen={"sampling": Batching, "release": Smoothed, "clipping": Clipping, "noise": NoiseKind},
        )
        n = problem.records
        (T, eta, C), b = self._descent(problem, budget)
        sampling, noise_at = noisy_batches(self, T, b, C, problem, budget)
        update = Momentum(self.momentum) if self.momentum else Plain()
        softening = softening_of(self.clipping, problem)

        def plan_at(multiplier: float) -> DescentPlan:
            noise = noise_at(multiplier)
            return DescentPlan(
                T, eta, C, sampling, n, noise, self.rate, update, release=self.release, softening=softening
            )

        return calibrated(plan_at, budget, self.noise_multiplier)

    def _descent(self, problem: AnyProblem, budget: Budget) -> tuple[Descent, int]:
        clip = None if self.clip is None else clip_of(problem, self.clip)
        if self.steps and self.step_size and self.batch_size and clip:
            return Descent(self.steps, self.step_size, clip), self.batch_size
        if self.sampling == "in_order":
            if self.steps and self.step_size and self.batch_size:
                return Descent(self.steps, self.step_size, clip_of(problem, None)), self.batch_size
            raise ValueError(
                "DP-SGD on records in order needs steps, batch_size and step_size: what balances the error of drawn "
                "batches does not hold for them. An epoch has records / batch_size steps."
            )
        assert not isinstance(problem, NetworkProblem)
        problem.require("DP-SGD without a step size, steps, batch size and clip", "smooth")
        # in the long run momentum makes a step 1/(1 - rho) times as long
        reach = 1 / (1 - self.momentum)
        step = None if self.step_size is None else self.step_size * reach
        T, eta, C = balanced_descent(problem, budget, self.steps, step, None, clip, "every step")
        T = self.steps or T
        return Descent(T, eta / reach, C), self.batch_size or balanced_batch(problem, budget, Descent(T, eta, C))
