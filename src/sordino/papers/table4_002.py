r"""Table 4 and Figure 2 of Yu, Zhang, Chen, Yin & Liu 2020: accuracy of private logistic and softmax regression.

    sordino reproduce 002 table4 [--only adult]

delta = 1/n^2, replace-one, 80 % of the records for training (RCV1 has its own parts). Means over the runs, which share
four splits, on MNIST two. Two ways to set the numbers of a run:

    plan      what the library plans from n, the number of features and the budget alone: all of it is private
    grid      the paper's: T in {50, 200, 800}, eta in {.1, 1, 5} ({.2, 2, 10} for RCV1), clip 1 (.5), ridge 1e-4, the
              best on a fifth of the training records held out. Choosing so looks at records: not private, here as there

DP-SGD draws Poisson batches. Its grid takes a tenth of the records, twice the step, halved midway; its plan the
smallest batches that need no more noise. On MNIST DP-GD runs on such batches too, to save time: at equal T they need
the same noise on the mean gradient to three digits (`noise of a tenth`); eta = .1 is left out, it never gets anywhere.

Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sordino.budget import Budget
from sordino.linear_task import INTERCEPT_OF_CLASSES
from sordino.methods import HalvedMidway, NoisyGradientDescent, NoisySGD
from sordino.methods.protocol import AnyMethod
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FullBatch
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.table4_data import BUDGETS, CURVE, PRINTED, SOURCES, Data
from sordino.papers.table4_report import READING as READING, draw as draw, tables as tables
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

SEEDS = (
    "splits by seed 0 to 3; the noise of a split's runs by its seed, of the curve by 7, of the grid by 100 + setting"
)
STALE = "RCV1 subset, epsilon 0.1, DP-GD, plan"
RUNS, SPLITS = 20, 4
STEPS = (50, 200, 800)
RIDGE = 1e-4


@dataclass(frozen=True, eq=False)
class Task:
    """One split, stated and ready to be trained on."""

    data: Data
    ridge: float = 0.0

    @property
    def rows(self) -> Rows:
        return Rows(self.data.bound, INTERCEPT_OF_CLASSES if self.data.intercept else 0.0)

    @property
    def problem(self) -> Problem:
        n, d = self.data.X.shape
        return Problem(n, d + self.rows.has_intercept, self.data.loss, penalty=Ridge(self.ridge))

    def budget(self, epsilon: float) -> Budget:
        return Budget(epsilon, 1 / self.problem.records**2)

    def accuracies(self, method: AnyMethod, epsilon: float, runs: int, seed: int) -> tuple[np.ndarray, Any]:
        """Test accuracy of `runs` models trained side by side, and their plan."""
        problem = self.problem
        plan = method.plan(problem, self.budget(epsilon))
        oracle = linear_oracle(self.data.X, self.data.y, problem, self.rows)
        start = np.zeros((runs, problem.dim))
        weights = method.run(plan, problem, oracle, Randomness.seeded(seed), start).weights
        return np.array([self.score(w) for w in weights]), plan

    def score(self, w: np.ndarray) -> float:
        K = self.data.loss.outputs
        coefficients, intercepts = self.rows.to_raw(w, K)
        scores = np.asarray(self.data.X_test @ coefficients.T) + intercepts
        predicted = np.sign(scores[:, 0]) if K == 1 else scores.argmax(axis=1)
        return float((predicted == self.data.y_test).mean())


def held_out(data: Data) -> Data:
    """A fifth of the training records in the place of the test records."""
    order = np.random.default_rng(1).permutation(len(data.y))
    cut = int(0.8 * len(order))
    train, test = np.sort(order[:cut]), np.sort(order[cut:])
    return replace(data, X=data.X[train], y=data.y[train], X_test=data.X[test], y_test=data.y[test])


def grid(name: str, n: int) -> dict[str, list[Any]]:
    """The paper's settings of both methods, for n training records."""
    texts = name.startswith("RCV1")
    clip, etas = (0.5, (0.2, 2.0, 10.0)) if texts else (1.0, (1.0, 5.0) if name == "MNIST" else (0.1, 1.0, 5.0))
    tenth = round(n / 10)
    full = [
        NoisySGD(T, tenth, eta, clip=clip, release="last")
        if name == "MNIST"
        else NoisyGradientDescent(T, eta, clip=clip)
        for T in STEPS
        for eta in etas
    ]
    batches = [
        NoisySGD(T, tenth, 2 * eta, rate=HalvedMidway(), clip=clip, release="last") for T in STEPS for eta in etas
    ]
    return {"DP-GD, grid": full, "DP-SGD, grid": batches}


def best_of_grid(name: str, data: Data, epsilon: float, way: str) -> int:
    """Which setting does best on the held-out fifth, two runs each."""
    task = Task(held_out(data), RIDGE)
    methods = grid(name, task.problem.records)[way]
    return int(np.argmax([task.accuracies(one, epsilon, 2, 100 + i)[0].mean() for i, one in enumerate(methods)]))


def plans(name: str) -> dict[str, Any]:
    """The library's own settings."""
    batches = {"DP-SGD, plan": NoisySGD(release="last")}
    return batches if name.startswith("MNIST") else {"DP-GD, plan": NoisyGradientDescent(), **batches}


def not_private(data: Data) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=100.0, max_iter=100, fit_intercept=data.intercept).fit(data.X, data.y)
    return float(model.score(data.X_test, data.y_test))


def summary(scores: list[np.ndarray], plan: Any) -> dict[str, Any]:
    together = 100 * np.concatenate(scores)
    settings = {
        "steps": plan.steps,
        "step size": plan.step_size,
        "clip": plan.clip,
        "batch": "all" if isinstance(plan.sampling, FullBatch) else plan.sampling.expected_size(plan.records),
    }
    return {
        "mean": float(together.mean()),
        "standard error": float(together.std(ddof=1) / math.sqrt(len(together))) if len(together) > 1 else None,
        "by split": [float(100 * one.mean()) for one in scores],
        "runs": len(together),
        **settings,
    }


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """By data set: every budget and way, the curve of Figure 2, and what is reached without privacy."""

    @cache
    def splits(name: str) -> Callable[[int], Data]:
        return SOURCES[name](folder)

    def measured(name: str, epsilon: float, way: str) -> dict[str, Any]:
        return measure(name, splits(name), epsilon, way, SPLITS if quick else RUNS)

    found = {"noise of a tenth": cell(noise_of_a_tenth)}
    for name in ("Adult", "RCV1 subset") if quick else SOURCES:
        for epsilon in BUDGETS[name.split(",")[0]]:
            for way in (*plans(name), *(grid(name, 1) if name in PRINTED and not quick else ())):
                found[f"{name}, epsilon {epsilon:g}, {way}"] = cell(measured, name, epsilon, way)
        for epsilon in CURVE:
            found[f"{name}, curve {epsilon:g}"] = cell(on_the_curve, splits, name, epsilon)
        found[f"{name}, not private"] = cell(without_privacy, splits, name)
    return found


def measure(name: str, split: Callable[[int], Data], epsilon: float, way: str, runs: int) -> dict[str, Any]:
    count = 1 if name.startswith("RCV1") else min(2 if name.startswith("MNIST") else SPLITS, runs)
    chosen = best_of_grid(name, split(0), epsilon, way) if way.endswith("grid") else 0
    scores = []
    for seed in range(count):
        data = split(seed)
        method = grid(name, len(data.y))[way][chosen] if way.endswith("grid") else plans(name)[way]
        task = Task(data, RIDGE if way.endswith("grid") else 0.0)
        found, plan = task.accuracies(method, epsilon, max(1, runs // count), seed)
        scores.append(found)
    return summary(scores, plan)


Splits = Callable[[str], Callable[[int], Data]]


def on_the_curve(splits: Splits, name: str, epsilon: float) -> dict[str, Any]:
    scores, plan = Task(splits(name)(0)).accuracies(plans(name)["DP-SGD, plan"], epsilon, 2, 7)
    return summary([scores], plan)


def without_privacy(splits: Splits, name: str) -> dict[str, Any]:
    data = splits(name)(0)
    return {"records": len(data.y), "features": data.X.shape[1], "accuracy": 100 * not_private(data)}


def values(known: Known) -> dict[str, Value]:
    found = {}
    for place, one in known.items():
        name, _, way = place.rpartition(", epsilon ")
        if not name:
            continue
        epsilon, _, column = way.partition(", ")
        columns = {"DP-SGD": 3, "DP-GD": 4}
        printed = PRINTED[name.split(",")[0]][columns[column.split(",")[0]]]
        # the paper prints one budget of every data set
        at = float(epsilon) == BUDGETS[name.split(",")[0]][0]
        found[place] = Value(one["mean"], _error(one), one["runs"], printed if at else None)
    return found


def _error(one: dict[str, Any]) -> float | None:
    """Over splits, whose runs share their records, where there are several."""
    means = one.get("by split", ())
    if len(means) > 1:
        return float(np.std(means, ddof=1) / math.sqrt(len(means)))
    error: float | None = one["standard error"]
    return error


def noise_of_a_tenth() -> float:
    """Noise on the mean gradient with Poisson batches of a tenth, over that with all records: MNIST, T = 800."""
    from sordino.losses import Softmax

    n = 52_000
    problem, budget = Problem(n, 785, Softmax(10)), Budget(1.0, 1 / n**2)
    tenth = NoisySGD(800, n // 10, 1.0, release="last").plan(problem, budget).noise.std / (n // 10)
    return tenth / (NoisyGradientDescent(800, 1.0).plan(problem, budget).noise.std / n)
