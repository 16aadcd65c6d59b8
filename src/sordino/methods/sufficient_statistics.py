r"""Least squares from one release of its sufficient statistics: one pass over the records.

    (A, b h) = sum_i (r_i r_i^T, b r_i y_i) + N(0, s^2 I);     w = U [ U^T h / max(e, s sqrt(2d)) ],   A = U diag(e) U^T

Privacy: a Gaussian release of one vector, in the coordinates in which a symmetric matrix has its Frobenius norm; how
far one record moves it is derived in `oracle.statistics` (b = 1: sqrt(4.5) of a unit row and target, where two releases
would need sqrt 6). The rest is computed from it.

The noise of A has a spectral norm of about s sqrt(2d). Directions in which the records add up to less than that are
lost in it, and are divided by that much; the others are not shrunk, as a ridge would. On seven tables it beats AdaSSP
(Wang 2018) in 27 of 28 cells, with its constants corrected, and loses to clipped descent in most: it is for records
that can be read once, at least 500 sqrt(d)/mu of them, and at most some fifty columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.losses import Squared
from sordino.methods.plan import OneReleasePlan
from sordino.methods.protocol import AnyProblem, Calibration, Release
from sordino.methods.settings import require_delta, require_linear
from sordino.oracle.protocol import Oracle, RowsOracle
from sordino.oracle.statistics import CrossMoments, matrix_of
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

WEIGHT = 1.0
"""b: of the cross moments beside the second moments."""


@dataclass(frozen=True)
class SufficientStatistics:
    """Second moments of the rows and their products with the targets, once, with noise; then algebra.

    With `squares` those of the targets too, from which the size of the residuals follows: where a record is replaced
    they cost nothing.
    """

    squares: bool = False

    calibration: ClassVar[Calibration] = "tight"
    needs: ClassVar[type[Oracle]] = RowsOracle

    def plan(self, problem: AnyProblem, budget: Budget) -> OneReleasePlan:
        asked = self.asked(problem)
        require_delta("a release of sufficient statistics", budget)
        width = asked.width(problem.dim, intercept=False)
        return OneReleasePlan.within(budget, asked.sensitivity(budget.relation), width)

    def run(
        self,
        plan: OneReleasePlan,
        problem: AnyProblem,
        oracle: RowsOracle,
        randomness: Randomness,
        start: Array | None = None,
    ) -> Release:
        asked = self.asked(problem)
        first = problem.start() if start is None else start
        found = [
            solved(moments(oracle.release(asked, plan.noise, randomness), asked, problem), plan.noise.std, problem)
            for _ in np.atleast_2d(first)
        ]
        return Release(problem.domain.project(np.stack(found).reshape(first.shape)), plan.event)

    def asked(self, problem: AnyProblem) -> CrossMoments:
        problem = require_linear(problem, "a release of sufficient statistics")
        if not isinstance(problem.loss, Squared) or not isinstance(problem.penalty, Ridge):
            raise ValueError(
                f"sufficient statistics are those of least squares with a Ridge penalty, and the loss is "
                f"{type(problem.loss).__name__}: use noisy gradient descent."
            )
        return CrossMoments(WEIGHT, problem.loss, self.squares)


class ReleasedMoments(NamedTuple):
    """What was told: A, h, and the squares' sum, in the rows' and the targets' own units."""

    A: Array
    h: Array
    squares: float


def moments(told: Array, asked: CrossMoments, problem: AnyProblem) -> ReleasedMoments:
    assert isinstance(problem, Problem)
    d, R, Y = problem.dim, problem.row_norm, asked.loss.target_bound
    size = d * (d + 1) // 2
    squares = float(told[-1]) if asked.squares else math.nan
    return ReleasedMoments(
        R**2 * matrix_of(told[:size], d), R * Y / asked.weight * told[size : size + d], Y**2 * squares
    )


def solved(told: ReleasedMoments, s: float, problem: AnyProblem) -> Array:
    """The least squares. No eigenvalue counts for less than s sqrt(2d), the size of the noise in the second moments."""
    assert isinstance(problem, Problem)
    floor = s * math.sqrt(2 * problem.dim)
    eigenvalues, U = np.linalg.eigh(told.A)
    ridge = problem.records * problem.penalty.convexity
    found: Array = U @ ((U.T @ told.h) / (np.maximum(eigenvalues, floor * problem.row_norm**2) + ridge))
    return found
