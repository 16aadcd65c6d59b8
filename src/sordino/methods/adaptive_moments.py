r"""DP-RMSProp and DP-Adam (Zhou, Chen, Hong, Wu & Banerjee 2020, Algorithm 1).

    g_t = (1/b) sum_{i in B_t} clip(grad l(w_t; z_i), G) + N(0, sigma^2 I) + grad r(w_t)
    m_t = g_t  (RMSProp),     m_t = beta_1 m_{t-1} + (1 - beta_1) g_t  (Adam)
    psi_t = beta_2 psi_{t-1} + (1 - beta_2) g_t^2,      v_t = min(psi_t, lambda)      coordinate by coordinate
    w_{t+1} = Pi( w_t - eta_t m_t / (sqrt(v_t) + nu) ),   t < T;      release the last iterate, or one drawn uniformly

psi_t is cut from above: the noise inflates it, and steps would vanish. `moments="corrected"` divides m_t and psi_t by
1 - beta_1^{t+1} and 1 - beta_2^{t+1}, which the paper does not. `moments="unbiased"` does so too, and takes the noise
off psi_t instead of cutting it (DP-AdamBC; Tang, Shpilevskiy & Lecuyer 2024), with s the noise on a coordinate of g_t
and a floor three standard deviations above what noise alone leaves (`methods.updates`):

    w_{t+1} = Pi( w_t - eta_t m_t / sqrt(max(psi_t - s^2, floor_t)) )

It pays where gradients stand out from the noise in some coordinates. Where they do so in none, every coordinate is at
the floor, and the method is descent.

Theorem 3 is about an iterate drawn uniformly and all records in every step. With G and beta the Lipschitz and
smoothness constants, and Adam's step as the proof's own quadratic gives it (printed with 1/2 under the root, it would
allow any step as beta_1 -> 0):

    T = n epsilon / (G sqrt(d log(1/delta)))
    RMSProp    eta = nu / (4 beta)
    Adam       eta = (sqrt(1/4 + 4k) - 1/2) nu / (4 k beta) = nu / (beta (sqrt(1/4 + 4k) + 1/2)),
               k = beta_1 / (1 - beta_1)^2

Its bound is proportional to (sqrt(lambda) + nu) / nu, so nu = sqrt(lambda) is within a factor two of the best. Such
steps are short, and hardly adaptive. Where the last iterate is released, the balance of `methods.schedule` takes their
place: nu = s, the noise on a coordinate of g_t, and eta = 2 s times the balanced step, so that a coordinate in which
the noise hides the gradient moves as in a balanced descent, and one in which it does not moves less. With unbiased
moments the root of the last floor is in the place of 2 s.

Privacy: T sampled Gaussian releases, composed numerically (in closed form where batches hold all records). The theorem
about it leaves its constants unnamed. Moments are computed from noisy gradients alone, and the drawn iterate's number
does not depend on the records, so both are free; the longest run is accounted for. Nothing is assumed of the loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.budget import Budget
from sordino.methods.bounds import FAILURE, Bound, first_unmet, require_failure
from sordino.methods.descend import descend
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyProblem, Calibration
from sordino.methods.rates import Constant, Rate
from sordino.methods.schedule import MOST_STEPS, Descent, balanced_descent
from sordino.methods.settings import (
    Clipping,
    Drawn,
    batches_of,
    calibrated,
    check_calibration,
    check_settings,
    clip_of,
    kept_of,
    loss_at_zero,
    require_delta,
    require_given,
    require_linear,
    settle_calibration,
    softening_of,
)
from sordino.methods.updates import Moments, MomentsKind, moment_floor
from sordino.oracle.protocol import Oracle
from sordino.oracle.sampling import FullBatch
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem

Released = Literal["last", "moving average", "random"]


@dataclass(frozen=True)
class DPRMSProp:
    """Steps divided by the root of a running mean of squared noisy gradients.

    What is `None` among `steps`, `step_size`, `clip` and `stabiliser` (nu) comes from the theorem where a random
    iterate is released (two thousand steps at most), and balances the predicted error where the last one is;
    `batch_size=None` is all records. On a network only the stabiliser may be `None`. `noise_multiplier` fixes the
    standard deviation of the noise on a sum, in units of the clip, and the run is refused if that costs more than the
    budget. With `clipping="automatic"` every gradient of a network is scaled to the clip. Runs side by side (a stack as
    `start`) share their batches and the number of the iterate.
    """

    steps: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    clip: float | None = None
    square_decay: float = 0.99
    ceiling: float = 1.0
    stabiliser: float | None = None
    moments: MomentsKind = "plain"
    rate: Rate = field(default_factory=Constant)
    sampling: Drawn = "poisson"
    release: Released = "last"
    noise_multiplier: float | None = None
    calibration: Calibration = "tight"
    clipping: Clipping = "norm"

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def __post_init__(self) -> None:
        settle_calibration(self)

    @property
    def mean_decay(self) -> float:
        return 0.0

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        return _plan(self, problem, budget)

    def bound(self, problem: AnyProblem, budget: Budget, failure: float = FAILURE) -> tuple[Bound, ...]:
        r"""Of the empirical gradient (Theorem 5), the error of every noisy one (2) and the population's gradient (3).

            alpha = sqrt(d) s sqrt(2 log(2 d T/failure))  (5),     sqrt(d) s (1 + sqrt(2 log(4 d T/failure)))  (2, 3)
            squared norm  <=  (sqrt(lambda) + nu) ( 4 F(0)/(eta T) + 3 alpha^2/nu )

        s is the noise on a coordinate of a mean gradient.
        """
        return _bound(self, problem, budget, failure)


@dataclass(frozen=True)
class DPAdam:
    """`DPRMSProp` with a running mean of the noisy gradients in the place of the last one. Settings as there."""

    steps: int | None = None
    batch_size: int | None = None
    step_size: float | None = None
    clip: float | None = None
    mean_decay: float = 0.9
    square_decay: float = 0.999
    ceiling: float = 1.0
    stabiliser: float | None = None
    moments: MomentsKind = "plain"
    rate: Rate = field(default_factory=Constant)
    sampling: Drawn = "poisson"
    release: Released = "last"
    noise_multiplier: float | None = None
    calibration: Calibration = "tight"
    clipping: Clipping = "norm"

    needs: ClassVar[type[Oracle]] = Oracle
    run = staticmethod(descend)

    def __post_init__(self) -> None:
        settle_calibration(self)

    def plan(self, problem: AnyProblem, budget: Budget) -> DescentPlan:
        return _plan(self, problem, budget)

    def bound(self, problem: AnyProblem, budget: Budget, failure: float = FAILURE) -> tuple[Bound, ...]:
        r"""As of `DPRMSProp`, with Theorem 6 in the place of 5 and

        squared norm  <=  (sqrt(lambda) + nu)/(1 - beta_1) ( 2 F(0)/(eta T) + alpha^2/((1 - beta_1) nu) )
        """
        return _bound(self, problem, budget, failure)


def _plan(method: DPRMSProp | DPAdam, problem: AnyProblem, budget: Budget) -> DescentPlan:
    require_delta(type(method).__name__, budget)
    check_calibration(method, "Theorem 1 of Zhou et al. 2020 leaves the constants c_1 and c_2 of its noise unnamed")
    require_given(method, problem, "steps", "batch_size", "step_size", "clip")
    check_settings(
        method,
        positive=("step_size", "clip", "ceiling", "stabiliser", "noise_multiplier"),
        whole=("steps", "batch_size"),
        fractions=("mean_decay", "square_decay"),
        chosen={"sampling": Drawn, "release": Released, "moments": MomentsKind, "clipping": Clipping},
    )
    if method.moments == "unbiased" and (method.stabiliser is not None or method.release == "random"):
        raise ValueError(
            "moments is 'unbiased', where the noise itself stands in for a stabiliser and no theorem is about a random "
            "iterate: leave `stabiliser` and `release` out."
        )
    n, d = problem.records, problem.dim
    T, step, G = _descent(method, problem, budget)
    sampling = batches_of(method.sampling, method.batch_size or n, n)
    kept, stop = kept_of(method.release)
    softening = softening_of(method.clipping, problem)
    theorem = method.release == "random" and not isinstance(problem, NetworkProblem)

    def plan_at(multiplier: float) -> DescentPlan:
        noise = GaussianNoise.at(multiplier, budget.relation.distance * G, d)
        # s, the noise on a coordinate of a mean gradient
        s = noise.std / sampling.expected_size(n)
        nu = method.stabiliser or (math.sqrt(method.ceiling) if theorem else s)
        size = math.sqrt(moment_floor(s, method.square_decay, T - 1)) if method.moments == "unbiased" else s + nu
        eta = method.step_size or (longest_step(method, problem.constants.beta, nu) if theorem else step * size)
        update = Moments(method.mean_decay, method.square_decay, method.ceiling, nu, method.moments)
        return DescentPlan(T, eta, G, sampling, n, noise, method.rate, update, stop, kept, softening=softening)

    return calibrated(plan_at, budget, method.noise_multiplier)


def _bound(method: DPRMSProp | DPAdam, problem: AnyProblem, budget: Budget, failure: float) -> tuple[Bound, ...]:
    plan = method.plan(problem, budget)
    problem = require_linear(problem, type(method).__name__, "smooth")
    require_failure(failure)
    L, beta, _ = problem.constants
    n, p, T, eta = problem.records, problem.dim, plan.steps, plan.step_size
    assert isinstance(plan.update, Moments)
    root, nu, decay = math.sqrt(method.ceiling), plan.update.stabiliser, method.mean_decay
    sigma = plan.noise.std / plan.sampling.expected_size(n)
    at_zero = loss_at_zero(problem, type(method).__name__, "steps, step size and clip")

    def squared(alpha: float) -> float:
        # (35) with the quarter that (32) lacks, and (49)
        if isinstance(method, DPRMSProp):
            return (root + nu) * (4 * at_zero / (eta * T) + 3 * alpha**2 / nu)
        return (root + nu) / (1 - decay) * (2 * at_zero / (eta * T) + alpha**2 / ((1 - decay) * nu))

    longest = longest_step(method, beta, nu)
    plain = (
        (method.release == "random", "a random iterate: release='random'"),
        (isinstance(plan.sampling, FullBatch), "all records in every step"),
        (plan.clip >= L, f"gradients as they are, and {plan.clip:.4g} clips those of up to {L:.4g}"),
        (eta <= longest * (1 + 1e-12), f"steps of at most {longest:.4g}, and they are {eta:.4g}"),
        (method.moments == "plain" and isinstance(method.rate, Constant), "plain moments and steps all alike"),
        (problem.penalty.smoothness == 0, "an objective without a penalty"),
        (not math.isfinite(problem.domain.radius), "weights anywhere, without a domain"),
    )
    mu = math.sqrt(2 * math.log(4 * p * T / failure))
    least = 2 * math.log(8 / budget.delta) / budget.epsilon**2
    # ln(26/sigma) is not positive where sigma is that large, and any delta will do
    most = sigma * math.exp(-(mu**2) / 2) / (13 * math.log(26 / sigma)) if sigma < 26 else math.inf
    premises = (
        (budget.epsilon <= sigma / 13, f"epsilon of at most sigma/13 = {sigma / 13:.3g}, and it is {budget.epsilon:g}"),
        (budget.delta <= most, f"delta of at most {most:.3g}, and it is {budget.delta:.3g}"),
        (n >= least, f"at least {least:.4g} records, and there are {n}"),
    )
    error = math.sqrt(p) * sigma * (1 + mu)
    own = math.sqrt(p) * sigma * math.sqrt(2 * math.log(2 * p * T / failure))
    fifth = "5" if isinstance(method, DPRMSProp) else "6"
    return (
        Bound(
            f"Theorem {fifth} of Zhou et al. 2020",
            "squared empirical gradient norm",
            squared(own),
            failure,
            first_unmet(*plain),
        ),
        Bound("Theorem 2 of Zhou et al. 2020", "error of every gradient", error, failure, first_unmet(*premises)),
        Bound(
            "Theorem 3 of Zhou et al. 2020",
            "squared population gradient norm",
            squared(error),
            failure,
            first_unmet(*plain, *premises),
        ),
    )


def _descent(method: DPRMSProp | DPAdam, problem: AnyProblem, budget: Budget) -> Descent:
    """T, G, and the step that a balanced descent would take."""
    if isinstance(problem, NetworkProblem) or (method.steps and method.step_size and method.clip):
        return Descent(method.steps or 0, math.nan, clip_of(problem, method.clip))
    problem.require(f"{type(method).__name__} without steps, step size and clip", "smooth")
    if method.release != "random":
        clip = None if method.clip is None else clip_of(problem, method.clip)
        return balanced_descent(problem, budget, method.steps, None, None, clip, "every step")
    G, n, d = clip_of(problem, method.clip), problem.records, problem.dim
    T = n * budget.epsilon / (G * math.sqrt(d * math.log(1 / budget.delta)))
    return Descent(method.steps or max(1, min(MOST_STEPS, math.ceil(T))), math.nan, G)


def longest_step(method: DPRMSProp | DPAdam, beta: float, nu: float) -> float:
    """The step condition of Theorem 3."""
    if isinstance(method, DPRMSProp):
        return nu / (4 * beta)
    k = method.mean_decay / (1 - method.mean_decay) ** 2
    return nu / (beta * (math.sqrt(1 / 4 + 4 * k) + 1 / 2))
