"""Support vector machines by closed-form proximal steps on a9a: what a step costs, and what the model is worth.

    python benchmarks/hinge.py --data FOLDER

A private step is a noisy sum of clipped gradients and an update. Steps of the smoothed hinge loss and of the logistic
loss take turns on the same records, so that a busy machine slows both; figures are medians over the rounds. The inner
loop that a closed form replaces is timed in its cheapest form: on the scores alone, for all records at once.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _results import data_directory, keep, table
from scipy import sparse

from sordino import Budget, PrivateLinearSVC, Problem, ProximalSmoothing
from sordino.losses import Hinge, Logistic, MoreauSmoothed
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.privacy.randomness import Randomness

ROUNDS, STEPS, RUNS = 40, 25, 10
ROWS = Rows(math.sqrt(14), 0.4)


def load(folder: Path, part: str) -> tuple[Any, np.ndarray]:
    path = folder / f"a9a_{part}.npz"
    return sparse.load_npz(path).tocsr(), np.load(path)["y"]


def step_times(X: Any, y: np.ndarray) -> dict[str, Any]:
    """Seconds per private step, and hinge over logistic."""
    problem = Problem(X.shape[0], X.shape[1] + 1, Hinge())
    plan = ProximalSmoothing().plan(problem, Budget(1.0, 1 / problem.records**2))
    records = linear_oracle(X, y, problem, ROWS)
    oracles = {"hinge": records.under(MoreauSmoothed(Hinge(), plan.sharpness)), "logistic": records.under(Logistic())}
    randomness, inner = Randomness.system(), plan.inner
    weights = {name: np.zeros(problem.dim) for name in oracles}

    def seconds(name: str) -> float:
        w, oracle = weights[name], oracles[name]
        start = time.perf_counter()
        for _ in range(STEPS):
            g = oracle.release(Gradient(w, inner.clip), inner.noise, randomness) / problem.records
            w = w - inner.step_size * g
        weights[name] = w
        return (time.perf_counter() - start) / STEPS

    rounds = [{name: seconds(name) for name in oracles} for _ in range(ROUNDS)][1:]
    return {
        **{f"seconds, {name}": statistics.median(one[name] for one in rounds) for name in oracles},
        "hinge / logistic": statistics.median(one["hinge"] / one["logistic"] for one in rounds),
        "rounds": ROUNDS - 1,
        "steps in a round": STEPS,
    }


def inner_loop(y: np.ndarray, sharpness: float) -> dict[str, float]:
    """argmin_p phi(p) + (s/2)(p - a)^2 by subgradient steps 1/(s k), until every slope is within 1 % of L."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=len(y))
    smoothed = MoreauSmoothed(Hinge(), sharpness)
    start = time.perf_counter()
    want = smoothed.slope(a, y)
    closed = time.perf_counter() - start
    p, k = a.copy(), 0
    start = time.perf_counter()
    while k < 10_000:
        k += 1
        p = p - (Hinge().slope(p, y) + sharpness * (p - a)) / (sharpness * k)
        if np.abs(sharpness * (a - p) - want).max() <= 0.01:
            break
    return {"inner steps": k, "inner loop / closed form": (time.perf_counter() - start) / closed}


def accuracy(folder: Path) -> dict[str, Any]:
    """Test accuracy with the defaults: replace-one, delta = 1/n^2, and the same settings for every epsilon."""
    from sklearn.svm import LinearSVC

    (X, y), (X_test, y_test) = load(folder, "train"), load(folder, "test")
    found: dict[str, Any] = {"runs": RUNS, "row_norm": "sqrt(14): fourteen 0/1 attributes", "delta": "1/n^2"}
    for epsilon in (0.1, 1.0):
        models = [
            PrivateLinearSVC(epsilon=epsilon, row_norm=math.sqrt(14), classes=[-1, 1]).fit(X, y) for _ in range(RUNS)
        ]
        scores, plan = [model.score(X_test, y_test) for model in models], models[0].certificate_.plan
        found[f"epsilon {epsilon}"] = {
            "mean": statistics.mean(scores),
            "standard deviation": statistics.stdev(scores),
            "least": min(scores),
            "sharpness": plan["sharpness"],
            "steps": plan["inner"]["steps"],
        }
    found["not private"] = LinearSVC(loss="hinge", max_iter=20_000).fit(X, y).score(X_test, y_test)
    return found


def main() -> None:
    folder = data_directory()
    warnings.simplefilter("ignore")
    X, y = load(folder, "train")
    y = y.astype(float)
    steps, scores = step_times(X, y), accuracy(folder)
    loop = inner_loop(y, scores["epsilon 1.0"]["sharpness"])
    keep("hinge", {"a private step on a9a": steps, "the prox of a9a's records": loop, "accuracy on a9a": scores})
    table(
        [
            ("figure", "measured", "goal"),
            ("seconds a private step, hinge", f"{steps['seconds, hinge']:.5f}", ""),
            ("seconds a private step, logistic", f"{steps['seconds, logistic']:.5f}", ""),
            ("hinge / logistic", f"{steps['hinge / logistic']:.2f}", "<= 1.3"),
            ("inner steps that a closed form saves", f"{loop['inner steps']}", ""),
            ("inner loop / closed form", f"{loop['inner loop / closed form']:.0f}", ""),
            *(
                (f"a9a accuracy, epsilon {e}", f"{scores[f'epsilon {e}']['mean']:.4f}", f">= {goal}")
                for e, goal in ((0.1, 0.820), (1.0, 0.845))
            ),
            ("a9a accuracy, not private", f"{scores['not private']:.4f}", ""),
        ]
    )


if __name__ == "__main__":
    main()
