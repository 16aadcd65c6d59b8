r"""How long to descend, and where to clip, from public facts alone.

A quadratic picture of the objective under gradient flow for a time tau = eta T, in which the Hessian's eigenvalues fall
like 1/j, as those of real data roughly do:

    lambda_j     = mu + tr(Hessian) / (j (1 + 1/2 + .. + 1/d)),      j = 1, .., d
    bias(tau)    : 1/bias = 1/(h F(0)) + 1/q,  q = (1/2) R0^2 max_{mu <= lambda <= beta} lambda exp(-2 tau lambda)
    noise(tau)   = (1/4) eta sigma^2 sum_j (1 - exp(-2 tau lambda_j))

with sigma the noise on the mean gradient that the budget asks for after T steps. Standing still costs h F(0) at most,
the part of F(0) that the best weights may win, however far away w* is: that keeps a hopeless descent short. At a given
tau more and smaller steps change neither term by much, so tau is chosen first, and then T.

Clipping below the Lipschitz constant saves noise in proportion and bends the loss (`clip_cost`), which matters the less
the shorter the descent. Below half of it records are clipped that are classified correctly by a little: that pays off
on texts with classes of equal size that are easily told apart, and where one class is rarer its records alone are
clipped (`benchmarks/texts.py`).

How far the noise of all steps moves the score of a row of full norm, if nothing pulls it back,

    p = R eta sigma sqrt T

is about 1 in this picture for classes and .3 of the target's bound for numbers, whatever n and d are. The picture
overrates long descents for targets that fill little of their range and for many classes of few records each:
`most_deviation` bounds p there. For texts of many words it sees no hope at a small epsilon, and p is next to nothing;
but how frequent two classes are can always be learnt, and takes a p of `LEAST_OF_CLASSES`.

R0 guesses |w*|. It is a guess for accuracy's sake: a wrong one costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Budget, Relation
from sordino.losses import Huber, Logistic, Softmax, Squared, unweighted
from sordino.methods.protocol import AnyProblem
from sordino.privacy.accountants.objective import largest_shift
from sordino.privacy.calibrate import calibrate
from sordino.privacy.last_iterate import last_iterate_factor
from sordino.privacy.noise import GaussianNoise
from sordino.problem import NetworkProblem, Problem

FEWEST_STEPS = 25
MOST_STEPS = 2000
LONGEST = 100_000
"""Steps of a plain descent that momentum may stand in for."""

MOST_BY_MOMENTUM, MOST_MOMENTUM = 250, 0.97
TIE = 0.1
"""Predictions closer than this are not told apart."""

STRIDE = 1.5
"""eta beta of the default step: long enough to save passes, short enough for the steepest direction to settle."""

LONGEST_STRIDE = 1.9
"""eta beta of a step that stands in for several, where their number is limited: at 2 descent is no longer stable."""

Paid = Literal["last iterate", "every step"]
"""What the noise is calibrated to: the end of a convex descent on all records, or all of its steps."""

CLIPS = (1.0, 0.75, 0.6, 0.5)
"""Fractions of the Lipschitz constant to choose from. At half of it no correctly classified record is clipped."""

FEW, FEW_OF_MANY_CLASSES = 20.0, 10.0
"""n mu/sqrt(d) below which records are few for their budget: the mean of their rows is known to a tenth, or a fifth, of
the bound on their norm at best."""

OF_NUMBERS, OF_FEW_NUMBERS, OF_FEW_OF_MANY_CLASSES = 0.22, 0.15, 0.45
"""The most p; for numbers in units of the target's bound. Chosen on public tables where each was judged by what the
others chose (`benchmarks/lengths.py`); for two classes bounds win nothing, and of many there are two small tables."""

LEAST_OF_CLASSES = 0.45
"""The least p for two classes, chosen on texts (`benchmarks/texts.py`): other tables are planned to have more."""

MOST_EPSILON = 20.0
"""Predictions take no more than this, and objective perturbation buys no more: beyond it the lattice on which noise
lives, not epsilon, limits what one buys."""

ATTAINABLE = 1.0
"""h: the part of F(0) that a plan hopes to win. The less, the shorter a descent whose noise drowns what is learnt."""

OUTPUT_SHARE = 0.01
"""Of objective perturbation: the shift of the output's noise relative to that of the objective's: 2 % of delta."""

TOLERANCE = 1e-10
"""Of its solver: the gradient norm of the mean objective, relative to L."""

_TYPICAL_MARGIN = 1.5
"""The score of a confident prediction: odds of four or five to one."""


def expected_radius(problem: Problem, guess: float | None = None) -> float:
    """R0: the guess, or a score of typical size spread over features of comparable size, within the public bound."""
    if guess is None:
        # targets lie half way to their bound
        score = min(getattr(problem.loss, "target_bound", math.inf) / 2, _TYPICAL_MARGIN)
        # two classes with a score each share the difference between them
        scores = max(1.0, problem.loss.outputs / 2)
        guess = score * math.sqrt(problem.features * scores) / problem.row_norm
    return min(guess, problem.radius)


@lru_cache(maxsize=64)
def clip_cost(fraction: float) -> float:
    r"""What clipping a logistic loss at `fraction` of its Lipschitz constant costs in the end: the mean of KL(p, q).

    A class of probability p >= 1/2 is predicted with q where  p (1 - q) = (1 - p) min(q, fraction): a little too sure.
    All p between 1/2 and 1 are taken to be equally common.
    """
    p = (np.arange(2000) + 0.5) / 4000 + 0.5
    miss = np.where(p <= fraction, 1 - p, fraction * (1 - p) / p)
    return float(np.mean(p * np.log(p / (1 - miss)) + (1 - p) * np.log((1 - p) / miss)))


def predicted_excess(
    problem: Problem,
    relation: Relation,
    mu_G: float,
    T: int,
    eta: float,
    R0: float,
    clip: float | None = None,
    paid: Paid = "last iterate",
) -> float:
    """bias + noise of T steps of size eta, released at mu_G in Gaussian differential privacy."""
    L, _, mu = problem.constants
    C = L if clip is None else clip
    sigma = relation.distance * C / problem.records * amplification(problem, relation, T, eta, C, paid) / mu_G
    count, share = _spectrum(problem.dim)
    settled = -np.expm1(-2 * eta * T * (mu + share * problem.loss.trace(problem.row_norm)))
    noise = 0.25 * eta * sigma**2 * float(count @ settled)
    bias = descent_bias(problem, T, eta, R0)
    bent = clip_cost(C / L) * (1 - bias / _standing(problem)) if C < L and _can_clip(problem) else 0.0
    return bias + noise + bent


def amplification(problem: AnyProblem, relation: Relation, T: int, eta: float, C: float, paid: Paid) -> float:
    """A_T: what T steps on all records cost in Gaussian differential privacy, in units of one of them."""
    # under add/remove nobody may know how many records there are, hence how steep their sum is
    counted = relation is Relation.REPLACE_ONE
    if paid == "every step" or isinstance(problem, NetworkProblem) or not (counted and problem.convex):
        return math.sqrt(T)
    L, beta, mu = problem.constants
    if eta > 2 / beta or (C < L and problem.loss.outputs > 1):
        return math.sqrt(T)
    c = max(abs(1 - eta * mu), abs(1 - eta * beta))
    # how many one-record steps the domain is wide
    width = 2 * problem.domain.radius / (eta * relation.distance * C / problem.records)
    return last_iterate_factor(T, c, width)


def descent_bias(problem: Problem, T: int, eta: float, R0: float) -> float:
    """What T exact steps leave of a quadratic."""
    _, beta, mu = problem.constants
    tau = eta * T
    # the maximum of lambda exp(-2 tau lambda) inside [mu, beta] is at 1/(2 tau)
    steepest = min(max(1 / (2 * tau), mu), beta)
    return at_most_standing(problem, 0.5 * R0**2 * steepest * math.exp(-2 * tau * steepest))


def at_most_standing(problem: Problem, q: float) -> float:
    """1/bias = 1/(h F(0)) + 1/q."""
    return q / (1 + q / _standing(problem))


def _standing(problem: Problem) -> float:
    return ATTAINABLE * problem.loss.at_zero


def _clips(problem: Problem) -> tuple[float, ...]:
    """The fractions of L that make sense for this loss and these records."""
    if not _can_clip(problem):
        return (problem.usual_clip / problem.constants.L,)
    return CLIPS


def _can_clip(problem: Problem) -> bool:
    """Whether it is known what clipping below the usual costs; of a person's sum it is not."""
    return isinstance(problem.loss, Logistic | Softmax) and not problem.summed


@lru_cache(maxsize=64)
def _spectrum(dim: int, power: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many of `dim` eigenvalues, and which share of the trace each of them has, when they fall like j^-power."""
    edges = np.unique(np.geomspace(1, dim + 1, 100).round().astype(int))
    count = np.diff(edges).astype(float)
    size = np.sqrt(edges[:-1] * (edges[1:] - 1.0)) ** -power
    return count, size / (count * size).sum()


@lru_cache(maxsize=64)
def added_convexity(problem: Problem, budget: Budget, R0: float) -> tuple[float, float]:
    r"""(Lambda_x, predicted excess) of objective perturbation, the least over a grid of Lambda_x.

    excess = bias + (1/2) (sigma/n)^2 sum_j lambda_j / (lambda_j + Lambda_x/n)^2 + (1/2) sigma_o^2 sum_j lambda_j,
    1/bias = 1/(h F(0)) + 1/q,    q = Lambda_x R0^2/(2n),    sigma_o the noise of the output, which grows as 1/Lambda

    The last term is next to nothing at a small epsilon. At one of 20 it is what keeps Lambda_x from being so small that
    the output drowns, and that no solver finds it.

    The flattest directions count most here, and in real data they are flatter than 1/j has it: lambda_j falls like
    1/j^2. On bank marketing, credit cards and bike sharing that halves what a wrong Lambda_x costs.
    """
    L, _, mu = problem.constants
    n, d = problem.records, problem.dim
    smoothness = problem.loss.smoothness(problem.row_norm)
    count, share = _spectrum(d, power=2)
    eigenvalues = mu + share * problem.loss.trace(problem.row_norm)

    @cache
    def excess(added: float) -> float:
        kappa = smoothness / (n * mu + added)
        m = largest_shift(budget.epsilon, budget.delta, kappa)
        if m == 0:
            return math.inf
        sigma = budget.relation.distance * L / m
        q = added * R0**2 / (2 * n)
        spread = float(count @ (eigenvalues / (eigenvalues + added / n) ** 2))
        output = 2 * TOLERANCE * L * n / ((n * mu + added) * m * OUTPUT_SHARE)
        noise = (sigma / n) ** 2 * spread + output**2 * float(count @ eigenvalues)
        return at_most_standing(problem, q) + 0.5 * noise

    # the Jacobian alone costs log(1 + kappa), so kappa must stay well below epsilon
    growth = math.expm1(min(budget.epsilon, 50.0))
    least = smoothness / growth
    grid = [float(added) for added in least * np.geomspace(1.05, max(1e5, 10 * growth), 120)]
    # smooth in the logarithm: roughly first, then around the best
    at, step = min(range(0, len(grid), 8), key=lambda place: excess(grid[place])), 4
    while step:
        near = [place for place in (at - step, at, at + step) if 0 <= place < len(grid)]
        at, step = min(near, key=lambda place: excess(grid[place])), step // 2
    best = min([grid[at], *([0.0] if n * mu > 2 * least else [])], key=excess)
    return best, excess(best)


def most_deviation(problem: Problem, budget: Budget) -> float:
    """The most p of a descent that pays for every step; infinite where nothing is known."""
    if problem.summed:
        return math.inf
    x, loss = _room(problem, budget), unweighted(problem.loss)
    if isinstance(loss, Squared | Huber):
        return (OF_FEW_NUMBERS if x < FEW else OF_NUMBERS) * loss.target_bound
    return OF_FEW_OF_MANY_CLASSES if isinstance(loss, Softmax) and x < FEW_OF_MANY_CLASSES else math.inf


def averages(problem: Problem, budget: Budget) -> bool:
    """Whether a mean of iterates that are paid for is worth more than the last: for numbers, where records are not few.

    Descents of few records are short, and a mean of theirs is the end of a shorter one (`benchmarks/averages.py`).
    """
    return isinstance(unweighted(problem.loss), Squared | Huber) and _room(problem, budget) >= FEW


def _room(problem: Problem, budget: Budget) -> float:
    """n mu/sqrt(d)."""
    return problem.records * gaussian_allowance(problem.dim, budget) / math.sqrt(problem.features)


def least_deviation(problem: Problem) -> float:
    """The least p of a descent that pays for every step; a penalty keeps descents as short as it wants them."""
    known = isinstance(unweighted(problem.loss), Logistic) and problem.constants.mu == 0 and not problem.summed
    return LEAST_OF_CLASSES if known else 0.0


class Descent(NamedTuple):
    steps: int
    step_size: float
    clip: float


def deviation(problem: Problem, budget: Budget, descent: Descent) -> float:
    """p = R tau Delta/(n mu_G), where every step is paid for: sigma = (Delta/n) sqrt T/mu_G."""
    Delta = budget.relation.distance * descent.clip
    travel = problem.row_norm * descent.steps * descent.step_size
    return travel * Delta / (problem.records * gaussian_allowance(problem.dim, budget))


def balanced_descent(
    problem: Problem,
    budget: Budget,
    steps: int | None = None,
    step_size: float | None = None,
    radius: float | None = None,
    clip: float | None = None,
    paid: Paid = "last iterate",
    longest: int = MOST_STEPS,
    least_p: float = 0.0,
) -> Descent:
    """T, eta and C of the least predicted excess, in at most `longest` steps; a number that is given stays as it is.

    Where every step is paid for and nobody guesses |w*|, within the bounds on p, and at `least_p` at least.
    """
    L, beta, _ = problem.constants
    R0 = expected_radius(problem, radius)
    mu_G = gaussian_allowance(problem.dim, budget)
    clips = [L * fraction for fraction in _clips(problem)] if clip is None else [clip]
    # a longer step than usual makes up for missing steps, up to where descent stays stable
    most = longest * LONGEST_STRIDE / STRIDE if step_size is None else longest
    lengths = np.unique(np.geomspace(1, most, 150).astype(int))
    eta = STRIDE / beta if step_size is None else step_size

    def excess(choice: tuple[int, float]) -> float:
        T, C = choice
        return predicted_excess(problem, budget.relation, mu_G, T, eta, R0, C, paid)

    T, C = min(((int(T), C) for C in clips for T in lengths), key=excess)
    if step_size is not None:
        return Descent(T, step_size, C)
    tau = T * eta
    if paid == "every step" and radius is None:
        p = deviation(problem, budget, Descent(T, eta, C))
        within = min(max(p, least_deviation(problem), least_p), most_deviation(problem, budget))
        if within != p:
            tau *= within / p
            T = math.ceil(tau / eta)
    T = steps or min(max(T, FEWEST_STEPS), longest)
    return Descent(T, min(tau / T, LONGEST_STRIDE / beta), C)


class HeavyBall(NamedTuple):
    """V <- decay V + g,  w <- w - step_size V."""

    steps: int
    step_size: float
    clip: float
    decay: float


def heavy_ball(
    problem: Problem, budget: Budget, radius: float | None = None, clip: float | None = None, least_p: float = 0.0
) -> HeavyBall:
    r"""The balanced descent in fewer steps, by momentum m; plain where it is short already.

    With  eta/(1 - m) = tau/T  the gradients and the noise add up to those of plain descent of length tau, up to the
    last 1/(1 - m) steps, and as every step is paid for, A_T = sqrt T, the noise of the sum does not depend on T:

        T = 4 sqrt(beta tau), at least 25 and at most 250,      m = 1 - (1.5/beta) T/tau, at most .97

    and more steps where eta would pass half of what is stable, (1 + m)/beta. On five tables that is 3.6 to 9 times
    fewer steps at losses within .002; half as many steps cost up to .004.

    With a penalty the end of a plain descent may cost less than its steps: where the prediction tells the two
    apart, it is plain.
    """
    _, beta, mu = problem.constants
    T, eta, C = balanced_descent(problem, budget, None, None, radius, clip, "every step", LONGEST, least_p)
    if mu > 0:
        plain = balanced_descent(problem, budget, None, None, radius, clip)
        R0, mu_G = expected_radius(problem, radius), gaussian_allowance(problem.dim, budget)

        def excess(descent: Descent, paid: Paid) -> float:
            return predicted_excess(problem, budget.relation, mu_G, *descent[:2], R0, descent.clip, paid)

        if excess(Descent(T, eta, C), "every step") > (1 + TIE) * excess(plain, "last iterate"):
            return HeavyBall(*plain, 0.0)
    tau = T * eta
    fewer = min(max(math.ceil(4 * math.sqrt(beta * tau)), FEWEST_STEPS), MOST_BY_MOMENTUM)
    m = min(1 - STRIDE / beta * fewer / tau, MOST_MOMENTUM)
    if m <= 0:
        return HeavyBall(T, eta, C, 0.0)
    fewer = max(fewer, math.ceil((1 - m) / (1 + m) * tau * beta))
    return HeavyBall(fewer, (1 - m) * tau / fewer, C, m)


def balanced_batch(problem: Problem, budget: Budget, descent: Descent) -> int:
    r"""The smallest expected size of Poisson batches with which a descent is about as good as on all records.

    T sampled releases need the noise of T full ones once it is a few times a record's contribution, sigma b >= 3 Delta.
    What sampling itself adds has covariance (C^2/b) Cov(x) at most. It must be small where it matters, either beside
    the noise's sigma^2 I or beside the loss's own scale C^2/beta:

        (C^2/b) sum_j share_j^2 <= sigma^2 / 10     or     eta C^2 / (4b) <= (C^2/beta) / 4000,
        share_j = lambda_j / tr(Hessian)
    """
    T, eta, C = descent
    Delta = budget.relation.distance * C
    sigma = Delta * math.sqrt(T) / (problem.records * gaussian_allowance(problem.dim, budget))
    count, share = _spectrum(problem.dim)
    beside_noise = C**2 * float(count @ share**2) / (0.1 * sigma**2)
    beside_loss = 1000 * eta * problem.constants.beta
    return min(problem.records, math.ceil(max(3 * Delta / sigma, min(beside_noise, beside_loss))))


@lru_cache(maxsize=64)
def gaussian_allowance(dim: int, budget: Budget) -> float:
    """mu of one release on its lattice, which is what even a huge epsilon can buy."""
    return 1 / calibrate(lambda m: GaussianNoise.at(m, 1.0, dim).event, budget)
