"""Table 1 of Wang, Jayaraman, Evans & Gu 2019, measured: see `rates`.

The objective has the paper's penalty that is not convex, 1e-3 sum_j w_j^2/(1 + w_j^2). Among m owners of n records each
the plan is that of m n records (Theorem 5.2), so the last line of the table is the one before it.
"""

from __future__ import annotations

import math
from typing import Any

from sordino.budget import Budget
from sordino.methods import NoisyGradientDescent, RandomRoundSGD, RecursiveMomentum
from sordino.papers.rates import Rates, Row
from sordino.penalties import BoundedPenalty
from sordino.problem import Problem

SEEDS = "records by (n, d, set), noise by 1000 set + run"
STALE = ("DP-SRM, n = 1000, d = 20, epsilon = 0.5", "RRPSGD, n = 1000, d = 20, epsilon = 0.5")
WHOLE = False

READING = """
Norms of the gradient fall with n nearly as promised (RRPSGD and DP-GD), those of DP-SRM and all of them in epsilon by
less: at these sizes they are far below their bounds, and part of what is left is the penalty's and the path's, not the
noise's. They do not grow with d: mean gradients of rows of norm one without a preferred direction shrink as 1/sqrt(d),
which the worst case of the theorem does not.

The numbers of gradients have the table's exponents, because they are the theorem's own numbers: that of DP-SRM is 3/2
in n where its first term rules. RRPSGD is run for as many rounds as its noise is worth, (n epsilon)^2/d gradients,
instead of n^2.
"""


def gradient_descent(problem: Problem, budget: Budget) -> Any:
    """Wang, Ye & Xu 2017: T = n epsilon sqrt(beta F(0)) / (L sqrt(d log(1/delta))), eta = 1/beta, a random iterate."""
    L, beta, _ = problem.constants
    root = math.sqrt(problem.dim * math.log(1 / budget.delta))
    T = math.ceil(problem.records * budget.epsilon * math.sqrt(beta * problem.loss.at_zero) / (L * root))
    return NoisyGradientDescent(T, 1 / beta, release="random")


_PENALTY = BoundedPenalty(1e-3)
_RATES = Rates(
    (
        Row(
            "RRPSGD",
            lambda problem, budget: RandomRoundSGD(),
            "norm",
            (-0.5, 0.25, -0.5),
            (2, -1, 2),
            _PENALTY,
        ),
        Row("DP-GD", gradient_descent, "norm", (-0.5, 0.25, -0.5), (2, -0.5, 1), _PENALTY),
        Row(
            "DP-SRM",
            lambda problem, budget: RecursiveMomentum(release="random"),
            "norm",
            (-0.5, 0.25, -0.5),
            (1.5, -0.75, 1.5),
            _PENALTY,
        ),
    )
)
cells, values, tables, draw = _RATES.cells, _RATES.values, _RATES.tables, _RATES.draw
