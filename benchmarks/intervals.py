r"""How often intervals of 95 % hold what they are about, over n, d, epsilon, methods and losses.

    python benchmarks/intervals.py [--runs 400] [--only huber] [--seed 0]

Records are drawn anew for every run, and so is the noise. Rows are uniform in a box inside of the row bound, so that
none is scaled down. Logistic and Huber regression and least squares are true models with known coefficients; Huber's
residuals have Student's law with three degrees of freedom and a size that depends on the row, and "wrong logistic" has
labels whose probability is no logistic function of any score, with a penalty, so that its coefficients are those of two
million records. A cell counts all coefficients and the intercept of all runs whose intervals were not refused, and the
predictions for 20 rows. The standard error of a coverage is that of the mean over runs.

Cells are kept one by one; those of the same code, runs and seed are not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from _results import RESULTS, keep, provenance
from scipy.optimize import minimize
from scipy.special import expit

from sordino.budget import Budget
from sordino.inference import WithIntervals
from sordino.intervals import coefficient_intervals, score_intervals
from sordino.linear_task import LinearTask
from sordino.losses import Huber, Logistic, Squared
from sordino.methods import NoisyGradientDescent, ObjectivePerturbation, OutputPerturbation, SufficientStatistics
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness

LEVEL, DELTA = 0.95, 1e-5
SIZE, INTERCEPT = 2.45, -0.5
ROWS = Rows(1.0, 0.28)
METHODS = {
    "objective perturbation": WithIntervals(ObjectivePerturbation()),
    "noisy gradient descent": WithIntervals(NoisyGradientDescent(25)),
    "output perturbation": WithIntervals(OutputPerturbation()),
    "sufficient statistics": WithIntervals(SufficientStatistics()),
}
LOSSES = {
    "logistic": (Logistic(), 0.0),
    "wrong logistic": (Logistic(), 0.01),
    "huber": (Huber(0.25, 1.0), 0.0),
    "least squares": (Squared(1.0, 0.25), 0.0),
}


@dataclass(frozen=True)
class Cell:
    method: str
    loss: str
    n: int
    d: int
    epsilon: float


GRID = [
    *((n, 3, epsilon) for n in (2_000, 10_000, 30_000) for epsilon in (1.0, 3.0)),
    (10_000, 3, 0.5),
    *((30_000, 10, epsilon) for epsilon in (0.5, 1.0, 3.0)),
]
CELLS = [
    *(
        Cell(method, "logistic", *where)
        for method in ("objective perturbation", "noisy gradient descent")
        for where in GRID
    ),
    *(Cell("output perturbation", "logistic", *where) for where in ((10_000, 3, 1.0), (30_000, 3, 1.0))),
    *(Cell("sufficient statistics", "least squares", *where) for where in GRID),
    *(
        Cell(method, loss, 10_000, 3, epsilon)
        for loss in ("huber", "wrong logistic")
        for method in ("objective perturbation", "noisy gradient descent")
        for epsilon in (1.0, 3.0)
    ),
]


def drawn(loss: str, n: int, d: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    scores = X @ slopes(loss, d) + intercept(loss)
    match loss:
        case "logistic":
            return X, np.where(rng.random(n) < expit(scores), 1.0, -1.0)
        case "wrong logistic":
            probability = 0.1 + 0.6 * (scores > 0) + 0.2 * np.abs(X[:, 0]) * math.sqrt(d)
            return X, np.where(rng.random(n) < probability, 1.0, -1.0)
        case "huber":
            return X, scores + 0.1 * (0.5 + np.abs(X[:, 0]) * math.sqrt(d)) * rng.standard_t(3, n)
    return X, scores + 0.1 * rng.normal(size=n)


def slopes(loss: str, d: int) -> Any:
    # numbers stay within their bound, but for tails
    return (SIZE if "logistic" in loss else 0.15 * math.sqrt(3)) * (-1.0) ** np.arange(d)


def intercept(loss: str) -> float:
    return INTERCEPT if "logistic" in loss else -0.1


@cache
def truth(loss: str, d: int) -> Any:
    """The coefficients and the intercept that intervals are about."""
    if loss != "wrong logistic":
        return np.append(slopes(loss, d), intercept(loss))
    X, y = drawn(loss, 2_000_000, d, np.random.default_rng(0))
    rows = np.column_stack([X * ROWS.factor, np.full(len(X), ROWS.intercept)])
    l2 = LOSSES[loss][1]

    def objective(w: Any) -> tuple[float, Any]:
        m = y * (rows @ w)
        return float(np.logaddexp(0, -m).mean() + l2 / 2 * w @ w), -(y * expit(-m)) @ rows / len(y) + l2 * w

    w = minimize(objective, np.zeros(d + 1), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15}).x
    coefficients, constant = ROWS.to_raw(w, 1)
    return np.append(coefficients, constant)


def measured(cell: Cell, runs: int, seed: int) -> dict[str, Any]:
    loss, l2 = LOSSES[cell.loss]
    task = LinearTask(loss, ROWS, penalty=Ridge(l2))
    problem, budget, method = task.problem(cell.n, cell.d), Budget(cell.epsilon, DELTA), METHODS[cell.method]
    about = truth(cell.loss, cell.d)
    at = drawn(cell.loss, 20, cell.d, np.random.default_rng(1))[0]
    facts = {**vars(cell), "runs": runs}
    try:
        plan = method.plan(problem, budget)
    except ValueError as refusal:
        return {**facts, "given": 0, "refused_beforehand": str(refusal)}
    held: list[float] = []
    predictions: list[float] = []
    widths: list[float] = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, cell.n, cell.d])
        oracle = task.oracle(*drawn(cell.loss, cell.n, cell.d, rng), problem, budget.relation)
        released = method.run(plan, problem, oracle, Randomness.seeded(seed * 1_000_003 + run))
        if released.covariance is None:
            continue
        coef, constant = task.to_raw(released.weights)
        S = task.covariance_to_raw(released.covariance)
        ends = np.vstack(coefficient_intervals(coef[0], float(constant[0]), S, LEVEL))
        held.append(float(np.mean((ends[:, 0] <= about) & (about <= ends[:, 1]))))
        scores = at @ about[:-1] + about[-1]
        low, high = score_intervals(at, at @ coef[0] + constant[0], S, LEVEL).T
        predictions.append(float(np.mean((low <= scores) & (scores <= high))))
        widths.append(float(np.median(ends[:-1, 1] - ends[:-1, 0])))
    if not held:
        return {**facts, "given": 0}
    return {
        **facts,
        "given": len(held),
        "coverage": round(float(np.mean(held)), 4),
        "standard_error": round(float(np.std(held) / math.sqrt(len(held))), 4),
        "prediction_coverage": round(float(np.mean(predictions)), 4),
        "width": round(float(np.median(widths)), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="", help="cells whose name has this text; the others stay as kept")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    path = RESULTS / "intervals.json"
    cells = {name(one): one for one in json.loads(path.read_text())["cells"]} if path.exists() else {}
    how = {"runs": given.runs, "seed": given.seed, "commit": provenance()["commit"]}
    for cell in CELLS:
        known = cells.get(name(vars(cell)), {})
        if given.only not in name(vars(cell)) or all(known.get(key) == value for key, value in how.items()):
            continue
        started = time.perf_counter()
        found = measured(cell, given.runs, given.seed)
        cells[name(found)] = {**found, **how}
        print(*(f"{value}" for value in found.values()), f"{time.perf_counter() - started:.0f} s", flush=True)
        keep("intervals", {"level": LEVEL, "delta": DELTA, "cells": [cells[key] for key in sorted(cells)]})


def name(cell: dict[str, Any]) -> str:
    return "{loss}, {method}, d = {d:02}, n = {n:06}, epsilon {epsilon}".format(**cell)


if __name__ == "__main__":
    main()
