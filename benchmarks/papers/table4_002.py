r"""Table 4 and Figure 2 of Yu, Zhang, Chen, Yin & Liu 2020: accuracy of private logistic and softmax regression.

    python benchmarks/papers/table4_002.py --data FOLDER [--runs 20] [--only Adult,MNIST]

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

import argparse
import math
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from _results import RESULTS, data_directory, keep
from _table4_data import SOURCES, Data

from sordino import Budget, NoisyGradientDescent, NoisySGD, Problem
from sordino.estimators.linear import INTERCEPT
from sordino.methods import HalvedMidway
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FullBatch
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness

SPLITS = 4
STEPS = (50, 200, 800)
RIDGE = 1e-4
CURVE = (0.1, 0.3, 1.0, 3.0)

# non-private, AMP, Out-SGD, DP-SGD, DP-GD; RCV1 with 50,000 records where we have 12,337
PRINTED = {"Adult": (84.8, 79.3, 77.4, 80.4, 80.9), "MNIST": (91.9, 71.9, 69.4, 87.5, 88.6)}
PRINTED["RCV1 subset"] = (93.5, 64.5, 66.7, 70.4, 74.9)
GOALS = {("Adult", 0.1): 82.3, ("MNIST", 1.0): 90.0, ("RCV1 subset", 0.1): 70.0, ("RCV1 subset", 1.0): 91.0}
BUDGETS = {"Adult": (0.1,), "MNIST": (1.0,), "RCV1 subset": (0.1, 1.0)}


@dataclass(frozen=True, eq=False)
class Task:
    """One split, stated and ready to be trained on."""

    data: Data
    ridge: float = 0.0

    @property
    def rows(self) -> Rows:
        return Rows(self.data.bound, INTERCEPT if self.data.intercept else 0.0)

    @property
    def problem(self) -> Problem:
        n, d = self.data.X.shape
        return Problem(n, d + self.rows.has_intercept, self.data.loss, penalty=Ridge(self.ridge))

    def budget(self, epsilon: float) -> Budget:
        return Budget(epsilon, 1 / self.problem.records**2)

    def accuracies(self, method: Any, epsilon: float, runs: int, seed: int) -> tuple[np.ndarray, Any]:
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


def best_of_grid(name: str, data: Data, epsilon: float) -> dict[str, int]:
    """Which settings do best on the held-out fifth, two runs each."""
    task = Task(held_out(data), RIDGE)
    found = {}
    for column, methods in grid(name, task.problem.records).items():
        scores = [task.accuracies(method, epsilon, 2, 100 + i)[0].mean() for i, method in enumerate(methods)]
        found[column] = int(np.argmax(scores))
    return found


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
        "runs": len(together),
        **settings,
    }


def measure(name: str, split: Any, epsilons: tuple[float, ...], runs: int) -> dict[str, Any]:
    splits = 1 if name.startswith("RCV1") else min(2 if name.startswith("MNIST") else SPLITS, runs)
    each = max(1, runs // splits)
    found: dict[str, Any] = {}
    datas = [split(seed) for seed in range(splits)]
    for epsilon in epsilons:
        columns: dict[str, list[np.ndarray]] = {}
        last: dict[str, Any] = {}
        chosen = best_of_grid(name, datas[0], epsilon) if name in PRINTED else {}
        for seed, data in enumerate(datas):
            n = len(data.y)
            ways = {**plans(name), **{column: grid(name, n)[column][i] for column, i in chosen.items()}}
            for column, method in ways.items():
                task = Task(data, RIDGE if column.endswith("grid") else 0.0)
                scores, last[column] = task.accuracies(method, epsilon, each, seed)
                columns.setdefault(column, []).append(scores)
        found[f"epsilon {epsilon:g}"] = {column: summary(scores, last[column]) for column, scores in columns.items()}
    found["records"], found["features"] = len(datas[0].y), datas[0].X.shape[1]
    found["not private"] = 100 * not_private(datas[0])
    found["curve"] = {
        f"{epsilon:g}": summary(*_one(Task(datas[0]), plans(name)["DP-SGD, plan"], epsilon, min(each, 2)))
        for epsilon in CURVE
    }
    return found


def _one(task: Task, method: Any, epsilon: float, runs: int) -> tuple[list[np.ndarray], Any]:
    scores, plan = task.accuracies(method, epsilon, runs, 7)
    return [scores], plan


def noise_of_a_tenth() -> float:
    """Noise on the mean gradient with Poisson batches of a tenth, over that with all records: MNIST, T = 800."""
    from sordino.losses import Softmax

    n = 52_000
    problem, budget = Problem(n, 785, Softmax(10)), Budget(1.0, 1 / n**2)
    tenth = NoisySGD(800, n // 10, 1.0, release="last").plan(problem, budget).noise.std / (n // 10)
    return tenth / (NoisyGradientDescent(800, 1.0).plan(problem, budget).noise.std / n)


def main() -> None:
    from _table4_report import write

    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default=",".join(SOURCES).replace(", ", "+"))
    asked = parser.parse_args()
    folder = data_directory()
    names = [name.replace("+", ", ") for name in asked.only.split(",")]
    found: dict[str, Any] = {"runs": asked.runs, "noise of a tenth": noise_of_a_tenth()}
    for name in names:
        start = time.perf_counter()
        family = name.split(",")[0]
        found[name] = measure(name, SOURCES[name](folder), BUDGETS[family], asked.runs)
        found[name]["seconds"] = time.perf_counter() - start
        print(f"{name}: {found[name]['seconds']:.0f} s", flush=True)
    if set(names) == set(SOURCES):
        keep("papers/table4_002", found)
        write(found, RESULTS / "papers", PRINTED, GOALS)
    else:
        write(found, None, PRINTED, GOALS)


if __name__ == "__main__":
    main()
