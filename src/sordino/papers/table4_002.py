r"""Table 4 and Figure 2 of Yu, Zhang, Chen, Yin & Liu 2020: accuracy of private logistic and softmax regression.

    sordino reproduce 002 table4 [--only adult]

delta = 1/n^2, replace-one, 80 % of the records for training (RCV1 has its own parts). Means over the runs, which share
four splits, on MNIST two. Three ways to set the numbers of a run:

    plan      what the library plans from n, the number of features and the budget alone: all of it is private
    printed   the noise and the numbers of the papers that the baselines come from
    grid      the paper's: T in {50, 200, 800}, eta in {.1, 1, 5} ({.2, 2, 10} for RCV1), clip 1 (.5), ridge 1e-4, the
              best on a fifth of the training records held out. Choosing so looks at records: not private, here as there

DP-SGD draws Poisson batches. Its grid takes a tenth of the records, twice the step, halved midway; its plan the
smallest batches that need no more noise. On MNIST DP-GD runs on such batches too, to save time: at equal T they need
the same noise on the mean gradient to three digits (`noise of a tenth`); eta = .1 is left out, it never gets anywhere.

What gradient perturbation is compared with: AMP and objective perturbation, which is its tight form; Out-SGD and output
perturbation of full descent. Their theorems ask for one score per record, but for the last one's, so that on MNIST they
train a classifier per digit with a tenth of epsilon and delta each, as the paper does, and with fewer runs.

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
from sordino.losses import Logistic
from sordino.methods import (
    ApproximateMinimaPerturbation,
    HalvedMidway,
    NoisyGradientDescent,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    PermutationSGD,
)
from sordino.methods.plan import DescentPlan
from sordino.methods.protocol import AnyMethod, Method, Plan, PlanT
from sordino.oracle import linear_oracle
from sordino.oracle.protocol import LinearOracle
from sordino.oracle.rows import Rows
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.plans import numbers, settings
from sordino.papers.table4_data import BUDGETS, CURVE, PRINTED, SOURCES, Data
from sordino.papers.table4_report import READING as READING, draw as draw, error_of, tables as tables
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

SEEDS = (
    "splits by seed 0 to 3; the noise of a split's runs by its seed (a digit's by 10 seed + digit), of the grid by "
    "100 + setting"
)
STALE = (
    "plans",
    "RCV1 subset, epsilon 0.1, DP-GD, plan",
    "Adult, epsilon 0.3, DP-SGD, plan",
    "Adult, epsilon 0.1, output perturbation, plan",
    "Adult, epsilon 0.1, AMP, printed",
)
WHOLE = False
RUNS, SPLITS, DIGIT_RUNS = 20, 4, 4
STEPS = (50, 200, 800)
BY_DIGIT = ("objective perturbation, plan", "Out-SGD, plan", "AMP, printed", "Out-SGD, printed")
RIDGE = 1e-4


@dataclass(frozen=True, eq=False)
class SplitTask:
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

    def accuracies(
        self, method: Method[PlanT, LinearOracle], epsilon: float, runs: int, seed: int
    ) -> tuple[np.ndarray, PlanT]:
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
    task = SplitTask(held_out(data), RIDGE)
    methods = grid(name, task.problem.records)[way]
    return int(np.argmax([task.accuracies(one, epsilon, 2, 100 + i)[0].mean() for i, one in enumerate(methods)]))


def plans(name: str) -> dict[str, Any]:
    """Settings that look at no record, of gradient perturbation and of what it is compared with."""
    batches = {"DP-SGD, plan": NoisySGD(release="last")}
    gradients = batches if name.startswith("MNIST") else {"DP-GD, plan": NoisyGradientDescent(), **batches}
    if name == "MNIST, deskewed":
        return gradients
    return {
        **gradients,
        "objective perturbation, plan": ObjectivePerturbation(),
        "output perturbation, plan": OutputPerturbation(),
        "Out-SGD, plan": PermutationSGD(),
        "AMP, printed": ApproximateMinimaPerturbation(),
        "Out-SGD, printed": PermutationSGD(calibration="paper"),
    }


def by_digit(data: Data, method: AnyMethod, epsilon: float, runs: int, seed: int) -> tuple[np.ndarray, Plan]:
    """Test accuracy where every class has a classifier and an equal part of epsilon and delta, and the largest score
    wins."""
    K, total = data.loss.outputs, []
    for k in range(K):
        one = SplitTask(replace(data, y=np.where(data.y == k, 1.0, -1.0), loss=Logistic()))
        problem, whole = one.problem, one.budget(epsilon)
        plan = method.plan(problem, replace(whole, epsilon=epsilon / K, delta=whole.delta / K))
        oracle = linear_oracle(data.X, one.data.y, problem, one.rows)
        start = np.zeros((runs, problem.dim))
        weights = method.run(plan, problem, oracle, Randomness.seeded(K * seed + k), start).weights
        raw = [one.rows.to_raw(w, 1) for w in weights]
        total.append([np.asarray(data.X_test @ c.T)[:, 0] + b for c, b in raw])
    guesses = np.array(total).argmax(axis=0)
    return np.array([(guess == data.y_test).mean() for guess in guesses]), plan


def not_private(data: Data) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=100.0, max_iter=100, fit_intercept=data.intercept).fit(data.X, data.y)
    return float(model.score(data.X_test, data.y_test))


def summary(scores: list[np.ndarray], plan: Plan) -> dict[str, Any]:
    together = 100 * np.concatenate(scores)
    return {
        "mean": float(together.mean()),
        "standard error": float(together.std(ddof=1) / math.sqrt(len(together))) if len(together) > 1 else None,
        "by split": [float(100 * one.mean()) for one in scores],
        "runs": len(together),
        **(settings(plan) if isinstance(plan, DescentPlan) else {}),
    }


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """By data set: every budget and way, of which Figure 2 is made, and what is reached without privacy."""

    @cache
    def splits(name: str) -> Callable[[int], Data]:
        return SOURCES[name](folder)

    def measured(name: str, epsilon: float, way: str) -> dict[str, Any]:
        return measure(name, splits(name), epsilon, way, SPLITS if quick else RUNS)

    found = {"noise of a tenth": cell(noise_of_a_tenth), "plans": cell(planned, splits)}
    for name in ("Adult", "RCV1 subset") if quick else SOURCES:
        budgets = BUDGETS[name.split(",")[0]]
        for epsilon in budgets if quick else CURVE:
            searched = grid(name, 1) if name in PRINTED and epsilon in budgets and not quick else ()
            for way in (*plans(name), *searched):
                found[f"{name}, epsilon {epsilon:g}, {way}"] = cell(measured, name, epsilon, way)
        found[f"{name}, not private"] = cell(without_privacy, splits, name)
    return found


def measure(name: str, split: Callable[[int], Data], epsilon: float, way: str, runs: int) -> dict[str, Any]:
    count = 1 if name.startswith("RCV1") else min(2 if name.startswith("MNIST") else SPLITS, runs)
    divided = name.startswith("MNIST") and way in BY_DIGIT
    runs = min(runs, DIGIT_RUNS) if divided else runs
    chosen = best_of_grid(name, split(0), epsilon, way) if way.endswith("grid") else 0
    scores = []
    for seed in range(count):
        data = split(seed)
        method = grid(name, len(data.y))[way][chosen] if way.endswith("grid") else plans(name)[way]
        task = SplitTask(data, RIDGE if way.endswith("grid") else 0.0)
        often = max(1, runs // count)
        trained = by_digit(data, method, epsilon, often, seed) if divided else None
        found, plan = trained or task.accuracies(method, epsilon, often, seed)
        scores.append(found)
    return summary(scores, plan)


Splits = Callable[[str], Callable[[int], Data]]


def planned(splits: Splits) -> dict[str, dict[str, Any]]:
    """The numbers of every plan that is made for a whole set, of which `make stale` trains a few alone."""
    found = {}
    # of other rows there are as many
    for name in (name for name in SOURCES if "," not in name):
        task = SplitTask(splits(name)(0))
        for epsilon in CURVE:
            for way, method in plans(name).items():
                if not (name == "MNIST" and way in BY_DIGIT):
                    plan = method.plan(task.problem, task.budget(epsilon))
                    found[f"{name}, epsilon {epsilon:g}, {way}"] = numbers(plan)
    return found


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
        columns = {"AMP": 1, "Out-SGD": 2, "DP-SGD": 3, "DP-GD": 4}
        its = columns.get(column.split(",")[0])
        printed = None if its is None else PRINTED[name.split(",")[0]][its]
        # the paper prints one budget of every data set
        at = float(epsilon) == BUDGETS[name.split(",")[0]][0]
        found[place] = Value(one["mean"], error_of(one), one["runs"], printed if at else None)
    return found


def noise_of_a_tenth() -> float:
    """Noise on the mean gradient with Poisson batches of a tenth, over that with all records: MNIST, T = 800."""
    from sordino.losses import Softmax

    n = 52_000
    problem, budget = Problem(n, 785, Softmax(10)), Budget(1.0, 1 / n**2)
    tenth = NoisySGD(800, n // 10, 1.0, release="last").plan(problem, budget).noise.std / (n // 10)
    return tenth / (NoisyGradientDescent(800, 1.0).plan(problem, budget).noise.std / n)
