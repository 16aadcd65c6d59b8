r"""DP-SGD with momentum and a schedule of step sizes (Abadi et al. 2016), the reference for non-convex problems.

    B_t ~ sampling,   g_t = (1/b) sum_{i in B_t} clip(grad l(w_t; z_i), C) + N(0, sigma^2 I) + grad r(w_t)
    m_t = rho m_{t-1} + g_t,      w_{t+1} = Pi( w_t - eta_t m_t ),   t < T

With `clipping="adaptive"` a step also counts how many of its batch have gradients within the clip, and the clip follows
their median (Andrew, Thakkar, McMahan & Ramaswamy 2021). Gradients in units of the clip, times a, and half a record of
the count, times b, with a^2 + b^2/4 = 1, are one vector of d + 1 numbers in which a record has length 1 at most: one
Gaussian release, whatever the clip is by then. The count has noise of 1/20 of a batch, so that with z the
multiplier of the release and sigma_b = batch/20 the gradients' is

    z / a = (z^-2 - sigma_b^-2)^(-1/2) under replace-one,       (z^-2 - (2 sigma_b)^-2)^(-1/2) under add/remove.

Released is the last iterate, the average, or a moving average (`methods.descend`).

Privacy: T sampled Gaussian releases, composed numerically; the rest is computed from them and from public numbers.
Nothing is assumed of the loss. Both relations with Poisson batches, replace-one with batches of fixed size.

Correlated noise (DP-FTRL; Kairouz et al. 2021) takes back in later steps a part of what earlier ones added. Records in
their order need no coins, and the run is one Gaussian release of everything; drawn ones have turns in groups, and the
run is as many sampled releases as a group has turns (`privacy.correlation`, `methods.correlated`). Replace-one alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from sordino.budget import Budget
from sordino.methods.correlated import Batching, NoiseKind, in_order_descent, noisy_batches
from sordino.methods.descend import descend
from sordino.methods.network_schedule import (
    ENOUGH_NOISE,
    NetworkBatches,
    network_batches,
    network_clip,
    network_step,
)
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Constant, Rate
from sordino.methods.schedule import Descent, balanced_batch, balanced_descent
from sordino.methods.settings import (
    batches_of,
    calibrated,
    check_calibration,
    check_settings,
    clip_of,
    require_delta,
    require_given,
    settle_calibration,
    softening_of,
)
from sordino.methods.updates import Momentum, Plain, QuantileClip
from sordino.oracle.protocol import Oracle
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem

Smoothed = Literal["last", "average", "moving average"]
DPSGDClipping = Literal["norm", "automatic", "adaptive"]

COUNT_NOISE = 1 / 20
"""Of the count of gradients within an adaptive clip, in batches."""


@dataclass(frozen=True)
class DPSGD:
    """Noise in every step, on a batch of the records. What is `None` balances the predicted error of a linear model
    (see `methods.schedule`), and on a network follows from the number of records, the number of weights and the budget
    (see `methods.network_schedule`).

    With `clipping="automatic"` every gradient of a network is scaled to the clip, 1 where none is given.
    `clipping="adaptive"` begins with a clip and follows the median of their norms; there nothing may be `None`.

    `noise_multiplier` fixes the standard deviation of the noise on a sum, in units of the clip; the run is refused if
    that costs more than the budget. Runs side by side (a stack as `start`) share their batches, so they are alike but
    not independent.

    `sampling="in_order"` takes one batch after the other as the records stand, for files that are read in order and
    where drawing cannot be kept secret; shuffle a sorted table before. Its noise is correlated where that leaves less
    error, unless `noise` says otherwise, and what is `None` is planned for four readings of the records. With Poisson
    batches `noise="correlated"` takes the number of `bands` that leaves the least error, which may be 1. A run with
    correlated noise keeps no checkpoints.
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
    clipping: DPSGDClipping = "norm"
    noise: NoiseKind = "auto"
    bands: int | None = None

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def __post_init__(self) -> None:
        settle_calibration(self)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        require_delta("DP-SGD", budget)
        check_calibration(self, "Abadi et al. 2016 leave the constants of their theorem about noise unnamed")
        if not self.plans_networks:
            require_given(self, problem, "steps", "batch_size", "step_size", "clip")
        check_settings(
            self,
            positive=("step_size", "clip", "noise_multiplier"),
            whole=("steps", "batch_size", "bands"),
            fractions=("momentum",),
            chosen={"sampling": Batching, "release": Smoothed, "clipping": DPSGDClipping, "noise": NoiseKind},
        )
        if isinstance(problem, NetworkProblem) and None in (self.steps, self.batch_size, self.step_size, self.clip):
            return self._network_plan(problem, budget)
        n = problem.records
        (T, eta, C), b = self._descent(problem, budget)
        if self.clipping == "adaptive":
            return self._adaptive_plan(problem, budget, Descent(T, eta, C), b)
        sampling, noise_at = noisy_batches(self, T, b, C, problem, budget)
        update = Momentum(self.momentum) if self.momentum else Plain()
        softening = softening_of(self.clipping, problem)

        def plan_at(multiplier: float) -> DescentPlan:
            noise = noise_at(multiplier)
            return DescentPlan(
                T, eta, C, sampling, n, noise, self.rate, update, release=self.release, softening=softening
            )

        return calibrated(plan_at, budget, self.noise_multiplier)

    @property
    def plans_networks(self) -> bool:
        """Whether what is None on a network follows from public facts."""
        return self.clipping != "adaptive" and self.draws_alone

    @property
    def draws_alone(self) -> bool:
        """Whether batches are drawn, and every step has noise of its own."""
        return self.sampling != "in_order" and self.noise != "correlated"

    def _adaptive_plan(self, problem: AnyProblem, budget: Budget, descent: Descent, batch_size: int) -> DescentPlan:
        if not isinstance(problem, NetworkProblem) or problem.person is not None:
            raise ValueError(
                "clipping is 'adaptive', which counts the gradients of a network's records that are within the clip: "
                "on linear models, whose contributions have a known bound, and for persons use another clipping."
            )
        if not self.draws_alone:
            raise ValueError(
                "clipping is 'adaptive' with correlated noise, which later steps could not take back once the clip has "
                "moved: use sampling='poisson' and independent noise."
            )
        (T, eta, C), n = descent, problem.records
        sampling = batches_of("fixed_size" if self.sampling == "fixed_size" else "poisson", batch_size, n)
        batch = sampling.expected_size(n)

        def plan_at(multiplier: float) -> DescentPlan:
            noise = GaussianNoise.at(multiplier, budget.relation.distance, problem.dim + 1)
            b = min(noise.std / (COUNT_NOISE * batch), 1.999)
            update = QuantileClip(self.momentum, C, b)
            return DescentPlan(T, eta, C, sampling, n, noise, self.rate, update, release=self.release)

        plan = calibrated(plan_at, budget, self.noise_multiplier)
        if not plan.noise.std < 1.999 * COUNT_NOISE * batch:
            raise ValueError(
                f"clipping is 'adaptive', and a count of gradients with noise of {COUNT_NOISE * batch:g} records "
                f"leaves nothing of a release with noise of {plan.noise.std:g}: use larger batches, fewer steps, or "
                "clipping='automatic'."
            )
        return plan

    def network_batches(self, problem: NetworkProblem, budget: Budget, epochs: float | None = None) -> NetworkBatches:
        """The steps and the batches of a network, in so many epochs if no number of steps is given."""

        def plan_at(batches: NetworkBatches) -> DescentPlan:
            T, b = batches
            enough = DPSGD(T, b, 1.0, 1.0, sampling=self.sampling, noise_multiplier=ENOUGH_NOISE)
            return enough.plan(problem, budget)

        return network_batches(problem.records, budget, plan_at, self.steps, self.batch_size, epochs)

    def _network_plan(self, problem: NetworkProblem, budget: Budget) -> DescentPlan:
        T, b = self.network_batches(problem, budget)
        step = 1.0 if self.step_size is None else self.step_size
        clip = self.clip or (1.0 if self.clipping == "automatic" else network_clip(problem.dim))
        plan = replace(self, steps=T, batch_size=b, step_size=step, clip=clip).plan(problem, budget)
        if self.step_size is not None:
            return plan
        return replace(plan, step_size=network_step(plan, self.momentum, self.rate))

    def _descent(self, problem: AnyProblem, budget: Budget) -> tuple[Descent, int]:
        clip = None if self.clip is None else clip_of(problem, self.clip)
        if self.steps and self.step_size and self.batch_size and clip:
            return Descent(self.steps, self.step_size, clip), self.batch_size
        if self.sampling == "in_order":
            if self.steps and self.step_size and self.batch_size:
                return Descent(self.steps, self.step_size, clip_of(problem, None)), self.batch_size
            assert not isinstance(problem, NetworkProblem)
            problem.require("DP-SGD without a step size, steps and batch size", "smooth")
            return in_order_descent(self, problem, budget)
        assert not isinstance(problem, NetworkProblem)
        problem.require("DP-SGD without a step size, steps, batch size and clip", "smooth")
        # in the long run momentum makes a step 1/(1 - rho) times as long
        reach = 1 / (1 - self.momentum)
        step = None if self.step_size is None else self.step_size * reach
        T, eta, C = balanced_descent(problem, budget, self.steps, step, None, clip, "every step")
        T = self.steps or T
        return Descent(T, eta / reach, C), self.batch_size or balanced_batch(problem, budget, Descent(T, eta, C))
