r"""How long to descend, from public facts alone.

For a quadratic picture of the objective with T steps of size eta, tau = eta T:

    bias(tau)    = (1/2) R0^2 max_{mu <= lambda <= beta} lambda (1 - eta lambda)^{2T}
    noise(tau)   = (1/2) eta sigma^2 d (1 - (1 - eta h)^{2T}) / (2 - eta h),     h = mu + tr(Hessian)/d

with sigma the noise on the mean gradient that the budget asks for after T steps. At a given tau more and smaller steps
change neither by much, so tau is chosen first, with eta = 1/beta, and then T.

R0 guesses |w*|. It is a guess for accuracy's sake: a wrong one costs accuracy, never privacy.
"""

from __future__ import annotations

import math

import numpy as np

from sordino.budget import Budget, Relation
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.accountants.objective import largest_shift
from sordino.privacy.calibrate import calibrate
from sordino.privacy.last_iterate import last_iterate_factor
from sordino.privacy.noise import GaussianNoise
from sordino.problem import Problem

FEWEST_STEPS = 25
MOST_STEPS = 2000

_TYPICAL_MARGIN = 1.5
"""The score of a confident prediction: odds of four or five to one."""


def expected_radius(problem: Problem, guess: float | None = None) -> float:
    """R0: the guess, or a score of typical size spread over features of comparable size, within the public bound."""
    if guess is None:
        score = min(getattr(problem.loss, "target_bound", math.inf), _TYPICAL_MARGIN)
        guess = score * math.sqrt(problem.features) / problem.row_norm
    return min(guess, problem.radius)


def predicted_excess(problem: Problem, relation: Relation, mu_G: float, T: int, eta: float, R0: float) -> float:
    """bias + noise of T steps of size eta whose last iterate is released at mu_G in Gaussian differential privacy."""
    _, beta, mu = problem.constants
    d = problem.dim
    c = max(abs(1 - eta * mu), abs(1 - eta * beta))
    Delta_g = problem.gradient_sensitivity(relation)
    A = last_iterate_factor(T, c, 2 * problem.domain.radius / (eta * Delta_g)) if problem.convex else math.sqrt(T)
    sigma = Delta_g * A / mu_G
    h = mu + problem.loss.trace(problem.row_norm) / d
    noise = 0.5 * eta * sigma**2 * d * (1 - abs(1 - eta * h) ** (2 * T)) / (2 - eta * h)
    return _bias(problem, T, eta, R0) + noise


def _bias(problem: Problem, T: int, eta: float, R0: float) -> float:
    _, beta, mu = problem.constants
    # the maximum of lambda (1 - eta lambda)^{2T} inside [mu, beta] is at 1/(eta (2T + 1))
    turning = min(max(1 / (eta * (2 * T + 1)), mu), beta)
    return 0.5 * R0**2 * max(h * abs(1 - eta * h) ** (2 * T) for h in (turning, beta))


def predicted_output_excess(problem: Problem, budget: Budget, T: int, eta: float, R0: float) -> float:
    """bias of T exact steps of size eta, and the noise that covers the distance one record moves their end."""
    _, beta, mu = problem.constants
    c = max(abs(1 - eta * mu), abs(1 - eta * beta))
    Delta = eta * problem.gradient_sensitivity(budget.relation) * (T if c >= 1 else (1 - c**T) / (1 - c))
    d = problem.dim
    # per-coordinate variance of noise for sensitivity one: (d + 1)/epsilon^2 for the l2-Laplace, 1/mu_G^2 for Gaussian
    variance = (d + 1) / budget.epsilon**2 if budget.pure else 1 / gdp_mu(budget.epsilon, budget.delta) ** 2
    trace = problem.loss.trace(problem.row_norm) + mu * d
    return _bias(problem, T, eta, R0) + 0.5 * trace * variance * Delta**2


def added_convexity(problem: Problem, budget: Budget, R0: float) -> tuple[float, float]:
    r"""(Lambda_x, predicted excess) of objective perturbation, the least over a grid of Lambda_x.

    excess = Lambda_x R0^2/(2n) + (1/2) (sigma/n)^2 d / (h + Lambda_x/n),     h = mu + tr(Hessian)/d
    """
    L, _, mu = problem.constants
    n, d = problem.records, problem.dim
    smoothness = problem.loss.smoothness(problem.row_norm)
    h = mu + problem.loss.trace(problem.row_norm) / d

    def excess(added: float) -> float:
        kappa = smoothness / (n * mu + added)
        m = largest_shift(budget.epsilon, budget.delta, kappa)
        if m == 0:
            return math.inf
        sigma = budget.relation.distance * L / m
        return added * R0**2 / (2 * n) + 0.5 * (sigma / n) ** 2 * d / (h + added / n)

    # the Jacobian alone costs log(1 + kappa), so kappa must stay well below epsilon
    least = smoothness / math.expm1(budget.epsilon)
    grid = [0.0] if n * mu > 2 * least else []
    grid += [float(added) for added in least * np.geomspace(1.05, 1e5, 120)]
    best = min(grid, key=excess)
    return best, excess(best)


def balanced_descent(
    problem: Problem, budget: Budget, steps: int | None, step_size: float | None, radius: float | None
) -> tuple[int, float]:
    """(T, eta) of the least predicted excess; a number that is given stays as it is."""
    beta = problem.constants.beta
    R0 = expected_radius(problem, radius)
    # of one release on its lattice, which is what even a huge epsilon can buy
    mu_G = 1 / calibrate(lambda m: GaussianNoise.at(m, 1.0, problem.dim).event, budget)

    def excess(T: int, eta: float) -> float:
        return predicted_excess(problem, budget.relation, mu_G, T, eta, R0)

    lengths = np.unique(np.geomspace(1, 1e5, 250).astype(int))
    if step_size is not None:
        candidates = [int(T) for T in lengths if T <= MOST_STEPS]
        return min(candidates, key=lambda T: excess(T, step_size)), step_size
    tau = min((int(T) for T in lengths), key=lambda T: excess(T, 1 / beta)) / beta
    T = steps or min(max(math.ceil(tau * beta), FEWEST_STEPS), MOST_STEPS)
    # a longer step than 1/beta makes up for missing steps, up to where descent stays stable
    return T, min(tau / T, 1.9 / beta)
