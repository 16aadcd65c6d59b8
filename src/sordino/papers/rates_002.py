"""Table 1 of Yu, Zhang, Chen, Yin & Liu 2020, measured: see `rates`.

Theorems 1 and 2 take mu, the curvature that is public, for nu. Theorem 2's constant is not printed, so its noise is the
least; its (n epsilon)^2 steps on one record each are up to four million, at a quarter of the other rows' n, and run in
the loop of `table3_baseline`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sordino.budget import Budget
from sordino.methods import (
    DescentPlan,
    Inverse,
    InverseRoot,
    NoisyGradientDescent,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
)
from sordino.papers.rates import GRID, Rates, Row
from sordino.papers.table3_baseline import descend
from sordino.penalties import Ridge
from sordino.problem import Problem

SEEDS = "records by (n, d, set), noise by 1000 set + run, that of DP-SGD by the set"
STALE = (
    "DP-GD, strongly convex, n = 1000, d = 20, epsilon = 0.5",
    "objective perturbation, convex, n = 1000, d = 20, epsilon = 0.5",
    "DP-SGD, strongly convex, n = 1000, d = 20, epsilon = 0.5",
)
WHOLE = False
RADIUS = 3.0
"""D, the length of w0."""

READING = """
The exponents of strongly convex problems are about those of the table for all perturbations, as they must be where the
error is noise seen through a quadratic. For convex ones the table has sqrt(p)/(n epsilon) against the 2/3 of output
perturbation; here curvature is the same in all directions and not small, so that the expected curvature rules: what is
measured of DP-GD and objective perturbation is steeper in n and epsilon than the convex rate, towards the second term
of the table's minimum.

DP-SGD has a quarter of the other rows' n: Theorem 2 takes (n epsilon)^2 steps on one record each, and four million are
enough. Strongly convex, its exponents are the theorem's. Convex, its errors are no power: where n or epsilon is small
they are above the .05 to .1 that zero weights lose at d = 20, since noise carries the weights as far as the steps go,
and from n = 1,000 to 4,000 they fall like n^-1.8. The exponents in the table are averages over both; that of d is .47
between errors that are largest at d = 20 and 40.
"""


def one_record_a_step(problem: Problem, budget: Budget) -> NoisySGD:
    """Theorem 2: T = (n epsilon)^2, eta_t = 1/(mu t), or D/(G sqrt(t)) with G = L sqrt(1 + p sigma^2) where mu = 0."""
    L, _, mu = problem.constants
    T = math.ceil((problem.records * budget.epsilon) ** 2)
    if mu > 0:
        return NoisySGD(T, 1, 1 / mu, Inverse(), sampling="fixed_size", release="last")
    method = NoisySGD(T, 1, 1.0, InverseRoot(), sampling="fixed_size", release="last")
    sigma = method.plan(problem, budget).noise.std / L
    return replace(method, step_size=RADIUS / (L * math.sqrt(1 + problem.dim * sigma**2)))


def ends(plan: DescentPlan, problem: Problem, X: np.ndarray, y: np.ndarray, seed: int, runs: int) -> np.ndarray:
    """Of runs side by side, which share their batches: what moves them apart is noise."""
    return descend(X, y, problem, plan.steps, 1, plan.noise.std, plan.step_size, runs, seed)


_QUARTER = tuple(n / 4 for n in GRID["n"])
_RATES = Rates(
    (
        Row(
            "DP-GD, convex",
            lambda problem, budget: NoisyGradientDescent(release="average", calibration="paper"),
            "excess",
            (-1, 0.5, -1),
            (2, -0.5, 1),
        ),
        Row(
            "DP-GD, strongly convex",
            lambda problem, budget: NoisyGradientDescent(calibration="paper"),
            "excess",
            (-2, 1, -2),
            (1, 0, 0),
            Ridge(0.1),
        ),
        Row(
            "DP-SGD, convex",
            one_record_a_step,
            "excess",
            (-1, 0.5, -1),
            (2, 0, 2),
            sizes=_QUARTER,
            ends=ends,
        ),
        Row(
            "DP-SGD, strongly convex",
            one_record_a_step,
            "excess",
            (-2, 1, -2),
            (2, 0, 2),
            Ridge(0.1),
            sizes=_QUARTER,
            ends=ends,
        ),
        Row(
            "output perturbation, convex",
            lambda problem, budget: OutputPerturbation(radius=RADIUS, calibration="paper"),
            "excess",
            (-2 / 3, 1 / 3, -2 / 3),
            (5 / 3, -1 / 3, 2 / 3),
        ),
        Row(
            "output perturbation, strongly convex",
            lambda problem, budget: OutputPerturbation(calibration="paper"),
            "excess",
            (-2, 1, -2),
            (1, 0, 0),
            Ridge(0.1),
        ),
        Row(
            "objective perturbation, convex",
            lambda problem, budget: ObjectivePerturbation(radius=RADIUS),
            "excess",
            (-1, 0.5, -1),
        ),
        Row(
            "objective perturbation, strongly convex",
            lambda problem, budget: ObjectivePerturbation(),
            "excess",
            (-2, 1, -2),
            penalty=Ridge(0.1),
        ),
    )
)
cells, values, tables, draw = _RATES.cells, _RATES.values, _RATES.tables, _RATES.draw
