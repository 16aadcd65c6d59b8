r"""The best score without features: how frequent a class is, or the mean of the targets.

    m = (1/n) sum_i y_i + noise,  |y_i| <= 1;      score  E = E[y | m]  of a number, and of two classes, whose
                                                   targets are -1 and 1,  log(p/(1-p)),  p = (1 + E)/2

Privacy: a release of one number, which one record moves by 2/n, or by 1/n where it is added or removed; n is public, or
the stand-in for it is. In one dimension Laplace's noise is the smallest: its deviation of sqrt(2)/epsilon sensitivities
is less than half of a Gaussian's at any usual delta, and it needs none.

The true mean lies between -1 and 1 wherever the noise puts it, so the score is that of its expectation given m, if all
means were equally likely before: the noise's law around m, cut off at -1 and 1. For two classes that is the probability
with the least expected log-loss.

Where  n mu  is small, with mu what the budget is in Gaussian differential privacy, this is the best that can be learnt:
see `sordino.prepare.choice`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scipy.special import ndtr

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.losses import Loss
from sordino.methods.plan import OneReleasePlan
from sordino.methods.protocol import AnyProblem, Calibration, Release
from sordino.methods.settings import require_linear
from sordino.oracle.protocol import Oracle, RowsOracle
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import TargetSum
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem


@dataclass(frozen=True)
class ConstantModel:
    """One number, the same score for every row; the weights of the features are 0."""

    calibration: ClassVar[Calibration] = "tight"
    needs: ClassVar[type[Oracle]] = RowsOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> OneReleasePlan:
        asked = TargetSum.of_loss(require_linear(problem, "a constant model").loss)
        return OneReleasePlan(L2LaplaceNoise(asked.sensitivity(budget.relation), budget.epsilon, 1))

    def run(
        self,
        plan: OneReleasePlan,
        problem: AnyProblem,
        oracle: RowsOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        assert isinstance(problem, Problem)
        first = problem.start() if start is None else start
        weights = first * 0
        for one in weights.reshape(-1, problem.dim):
            one[:] = constant_weights(released_mean(problem, oracle, plan.noise, randomness), problem, oracle.rows)
        return Release(problem.domain.project(weights), plan.event)


def released_mean(
    problem: Problem, oracle: RowsOracle, noise: GaussianNoise | L2LaplaceNoise, randomness: Randomness
) -> float:
    """E[mean of the targets | the released one] in units of their bound, within its ends: scores stay finite."""
    n = problem.records
    m = float(oracle.release(TargetSum.of_loss(problem.loss), noise, randomness)[0]) / n
    if isinstance(noise, L2LaplaceNoise):
        expected = mean_of_laplace(m, noise.scale / n)
    else:
        expected = mean_of_normal(m, noise.std / n)
    most = 1 - 1 / n
    return min(max(expected, -most), most)


def mean_of_laplace(m: float, b: float) -> float:
    """Of the law ~ exp(-|x - m|/b) between -1 and 1."""
    # how far outside m lies says nothing: the law in between is the same
    m = min(max(m, -1.0), 1.0)
    below, above = (1 + m) / b, (1 - m) / b
    moment = (1 + below) * math.exp(-below) - (1 + above) * math.exp(-above)
    return m - b * moment / (math.expm1(-below) + math.expm1(-above))


def mean_of_normal(m: float, s: float) -> float:
    """Of a normal law around m with deviation s between -1 and 1."""
    # what lies further outside says no more; under add/remove n may be a bad guess
    m = min(max(m, -1 - 2 * s), 1 + 2 * s)
    a, b = (-1 - m) / s, (1 - m) / s
    phi_a, phi_b = (math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (a, b))
    return m + s * (phi_a - phi_b) / float(ndtr(b) - ndtr(a))


def constant_weights(mean: float, problem: Problem, rows: Rows) -> Array:
    """Those of the best constant score where targets have this mean: of the constant column alone."""
    if not rows.has_intercept:
        raise ValueError("a constant score is one of the intercept: use fit_intercept=True.")
    weights = problem.start()
    weights[-1] = best_score(problem.loss, mean) / rows.intercept
    return weights


def best_score(loss: Loss, mean: float) -> float:
    """log(p/(1-p)) = 2 artanh(mean) for two classes; the mean itself, in the targets' unit, for a number."""
    bound = TargetSum.of_loss(loss).bound
    return 2 * math.atanh(mean) if bound is None else mean * bound
