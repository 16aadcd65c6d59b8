"""Does the planner choose well? Its choice against every feasible method, by measured excess risk.

    python benchmarks/planner.py --data FOLDER

Ten problems that played no part in making the predictions. The excess risk F(w) - min F is measured on the records,
which is for research: nothing of it reaches the planner.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _results import data_directory, keep, table
from scipy import sparse

from sordino.budget import Budget, Relation
from sordino.losses import Huber, Logistic, Loss
from sordino.methods.solvers import newton
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.planner import candidates, choose
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

RUNS = 24
WITHIN = 1.15


def synthetic(n: int, d: int, spread: float, seed: int) -> tuple[Any, np.ndarray, Loss, float]:
    """Rows with a decaying spectrum, labels from a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -spread
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = rng.normal(size=d) * 3
    return X, np.where(X @ w + rng.logistic(size=n) > 0, 1.0, -1.0), Logistic(), 1.0


def stored(folder: Path, name: str, bound: float) -> tuple[Any, np.ndarray, Loss, float]:
    path = folder / f"{name}_train.npz"
    return sparse.load_npz(path).tocsr().astype(np.float64), np.load(path)["y"].astype(float), Logistic(), bound


def wine(folder: Path) -> tuple[Any, np.ndarray, Loss, float]:
    """Quality from 0 to 10 against eleven measurements, each divided by a generous public bound."""
    import pyarrow.parquet as parquet

    frame = parquet.read_table(folder / "wine_quality.parquet").to_pandas()
    bounds = np.array([16, 2, 2, 70, 1, 300, 450, 1.1, 5, 2.5, 16])
    X = frame.select_dtypes("number").drop(columns="quality").to_numpy() / bounds
    return X, frame["quality"].to_numpy() / 5 - 1, Huber(0.25, 1.0), math.sqrt(X.shape[1])


def problems(folder: Path) -> dict[str, tuple[Callable[[], tuple[Any, np.ndarray, Loss, float]], float, float]]:
    """Name: records, strength of the penalty, epsilon."""
    return {
        "synthetic 5,000 x 20": (lambda: synthetic(5_000, 20, 0.5, 1), 1e-2, 1.0),
        "synthetic 50,000 x 50": (lambda: synthetic(50_000, 50, 0.5, 2), 1e-3, 0.5),
        "synthetic 20,000 x 100": (lambda: synthetic(20_000, 100, 1.0, 3), 1e-1, 0.1),
        "synthetic 100,000 x 10": (lambda: synthetic(100_000, 10, 0.0, 4), 1e-4, 1.0),
        "synthetic 2,000 x 5": (lambda: synthetic(2_000, 5, 0.0, 5), 5e-2, 2.0),
        "a9a, weak penalty": (lambda: stored(folder, "a9a", math.sqrt(14)), 1e-3, 1.0),
        "a9a, strong penalty": (lambda: stored(folder, "a9a", math.sqrt(14)), 1e-2, 0.2),
        "ijcnn1, weak penalty": (lambda: stored(folder, "ijcnn1", math.sqrt(22)), 1e-4, 0.5),
        "ijcnn1, strong penalty": (lambda: stored(folder, "ijcnn1", math.sqrt(22)), 1e-2, 2.0),
        "wine": (lambda: wine(folder), 1e-2, 1.0),
    }


def measure(X: Any, y: np.ndarray, loss: Loss, bound: float, mu: float, epsilon: float) -> dict[str, Any]:
    n = len(y)
    problem = Problem(n, X.shape[1], loss, penalty=Ridge(mu))
    budget = Budget(epsilon, 1 / n**2)
    oracle: Any = linear_oracle(X, y, problem, Rows(bound), Relation.REPLACE_ONE)

    def risk(w: np.ndarray) -> np.ndarray:
        return oracle.value(w) + problem.penalty.value(w)

    def curvature(w: np.ndarray) -> Any:
        product = oracle.curvature_product(w)
        return lambda v: product(v) + mu * v

    best = newton(lambda w: oracle.gradient(w) + mu * w, curvature, problem.start(), 1e-9)
    least = float(risk(best))
    rows = {}
    for one in candidates(problem, budget):
        if not one.feasible:
            rows[one.name] = {"reason": one.reason}
            continue
        start = np.zeros((RUNS, problem.dim))
        weights = one.method.run(one.plan, problem, oracle, Randomness.system(), start).weights
        excess = risk(weights) - least
        rows[one.name] = {
            "predicted": one.excess,
            "measured": float(excess.mean()),
            "standard error": float(excess.std() / math.sqrt(RUNS)),
        }
    chosen = type(choose(problem, budget)).__name__
    names = {type(one.method).__name__: one.name for one in candidates(problem, budget)}
    measured = {name: row["measured"] for name, row in rows.items() if "measured" in row}
    return {
        "records": n,
        "features": X.shape[1],
        "mu": mu,
        "epsilon": epsilon,
        "methods": rows,
        "chosen": names[chosen],
        "best": min(measured, key=measured.__getitem__),
        "ratio": measured[names[chosen]] / min(measured.values()),
    }


def main() -> None:
    folder = data_directory()
    found = {name: measure(*load(), mu, epsilon) for name, (load, mu, epsilon) in problems(folder).items()}
    good = sum(one["ratio"] <= WITHIN for one in found.values())
    keep("planner", {"runs": RUNS, "within 15 %": good, "problems": found}, "dp-accounting")
    table(
        [
            ("problem", "chosen (measured over best)", "best"),
            *((name, f"{one['chosen']} ({one['ratio']:.2f})", one["best"]) for name, one in found.items()),
            (f"within {WITHIN} of the best", f"{good} of {len(found)}", "goal: >= 8"),
        ]
    )


if __name__ == "__main__":
    main()
