"""Private models of other libraries beside Sordino's, at the same guarantee, on the same records.

    python benchmarks/comparison.py --data FOLDER --peers PYTHON [--runs N]

`--peers` is the Python of an environment of its own, because diffprivlib needs an older scikit-learn:

    pip install diffprivlib==0.6.6 scikit-learn==1.7.2 interpret-core==0.7.8

A library that is not there is told as not measured. Every library is called as its documentation says, with the public
bounds that all of them are given (columns within [-1, 1], a bound on a row's norm, a bound on a target) and no other
setting.

    pure            epsilon alone, delta = 0         diffprivlib (objective perturbation, functional mechanism)
    approximate     epsilon, delta = 1/n^2           DP-EBM (boosting with Gaussian noise)

Scores are accuracy and R^2 on records that were held out; means over runs, each with noise of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

TABLES = ("breast", "german", "diabetes", "randhie")
EPSILONS = (1.0, 3.0)
LARGEST = 8_000
"""Training records: a boosted model of more takes minutes."""

PURE, APPROXIMATE = "pure", "approximate"
MODELS: dict[str, tuple[str, ...]] = {
    "trivial": (PURE, APPROXIMATE),
    "not private": (PURE, APPROXIMATE),
    "Sordino": (PURE, APPROXIMATE),
    "diffprivlib": (PURE,),
    "DP-EBM": (APPROXIMATE,),
}
HERE = ("trivial", "not private", "Sordino")


def load(folder: Path, name: str) -> dict[str, Any]:
    with np.load(folder / "tables" / f"{name}.npz") as file:
        X, y, test_rows, test_targets = (file[key].astype(float) for key in ("Xtr", "ytr", "Xte", "yte"))
        found = {
            "row_norm": float(file["rn"]),
            "target_bound": float(file["yb"]),
            "numbers": str(file["kind"]) == "reg",
        }
    some = np.random.default_rng(0).permutation(len(X))[:LARGEST]
    return {"X": X[some], "y": y[some], "test_rows": test_rows, "test_targets": test_targets, **found}


def score(data: dict[str, Any], predicted: Any) -> float:
    y = data["test_targets"]
    if data["numbers"]:
        return float(1 - ((predicted - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    return float((np.asarray(predicted) == y).mean())


def fitted(model: str, data: dict[str, Any], epsilon: float, delta: float) -> Any:
    """Predictions for the records that were held out."""
    X, y, numbers, row_norm, bound = (data[key] for key in ("X", "y", "numbers", "row_norm", "target_bound"))
    return _FITS[model](X, y, numbers, row_norm, bound, epsilon, delta).predict(data["test_rows"])


def _trivial(X: Any, y: Any, numbers: bool, *_: Any) -> Any:
    from sklearn.dummy import DummyClassifier, DummyRegressor

    return (DummyRegressor() if numbers else DummyClassifier()).fit(X, y)


def _not_private(X: Any, y: Any, numbers: bool, *_: Any) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    return (Ridge(1e-3) if numbers else LogisticRegression(C=10.0, max_iter=2000)).fit(X, y)


def _sordino(X: Any, y: Any, numbers: bool, row_norm: float, bound: float, epsilon: float, delta: float) -> Any:
    from sordino import PrivateLinearRegression, PrivateLogisticRegression

    if numbers:
        return PrivateLinearRegression(epsilon, delta, row_norm=row_norm, target_bound=bound).fit(X, y)
    return PrivateLogisticRegression(epsilon, delta, row_norm=row_norm, classes=[0, 1]).fit(X, y.astype(int))


def _diffprivlib(X: Any, y: Any, numbers: bool, row_norm: float, bound: float, epsilon: float, delta: float) -> Any:
    from diffprivlib.models import LinearRegression, LogisticRegression

    if numbers:
        return LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-bound, bound)).fit(X, y)
    return LogisticRegression(epsilon=epsilon, data_norm=row_norm).fit(X, y)


def _ebm(X: Any, y: Any, numbers: bool, row_norm: float, bound: float, epsilon: float, delta: float) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "privacy_bounds": np.tile([-1.0, 1.0], (X.shape[1], 1)),
        "feature_types": ["continuous"] * X.shape[1],
        "random_state": None,
    }
    if numbers:
        given |= {"privacy_target_min": -bound, "privacy_target_max": bound}
        return DPExplainableBoostingRegressor(**given).fit(X, y)
    return DPExplainableBoostingClassifier(**given).fit(X, y.astype(int))


_FITS = {
    "trivial": _trivial,
    "not private": _not_private,
    "Sordino": _sordino,
    "diffprivlib": _diffprivlib,
    "DP-EBM": _ebm,
}


def measure(model: str, folder: Path, runs: int) -> dict[str, Any]:
    """Every cell of one library, in the environment that has it."""
    warnings.simplefilter("ignore")
    cells: dict[str, Any] = {}
    for name in TABLES:
        data = load(folder, name)
        n = len(data["X"])
        for kind in MODELS[model]:
            for epsilon in EPSILONS:
                scores, began = [], time.process_time()
                for _ in range(1 if model in ("trivial", "not private") else runs):
                    try:
                        predicted = fitted(model, data, epsilon, 0.0 if kind == PURE else n**-2.0)
                    except Exception as error:  # a library that refuses is a result too
                        cells[f"{name}, {kind}, {epsilon:g}"] = {"refused": f"{type(error).__name__}: {error}"[:200]}
                        break
                    scores.append(score(data, predicted))
                else:
                    cells[f"{name}, {kind}, {epsilon:g}"] = summary(scores, (time.process_time() - began) / len(scores))
    return cells


def summary(scores: list[float], cpu: float) -> dict[str, Any]:
    error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
    return {"score": round(float(np.mean(scores)), 4), "standard error": round(error, 4), "CPU seconds": round(cpu, 3)}


def versions(python: str, names: tuple[str, ...]) -> dict[str, str]:
    program = (
        "import json, sys; from importlib.metadata import version, PackageNotFoundError as N\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = version(name)\n"
        "    except N: pass\n"
        "print(json.dumps(found))"
    )
    run = subprocess.run([python, "-c", program, *names], check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(run.stdout))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--measure", choices=tuple(_FITS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, Path(given.data), given.runs)))
        return

    from _results import data_directory, keep, table

    folder, results = data_directory(), {}
    there = versions(given.peers, ("diffprivlib", "interpret-core", "scikit-learn"))
    needed = {"diffprivlib": "diffprivlib", "DP-EBM": "interpret-core"}
    for model in MODELS:
        if model in needed and needed[model] not in there:
            results[model] = "not measured"
        else:
            python = sys.executable if model in HERE else given.peers
            command = [python, __file__, "--measure", model, "--data", str(folder), "--runs", str(given.runs)]
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            results[model] = json.loads(run.stdout)
    lines = [("cell", " / ".join(MODELS), "")]
    for name in TABLES:
        for kind in (PURE, APPROXIMATE):
            for epsilon in EPSILONS:
                cell = f"{name}, {kind}, {epsilon:g}"
                lines.append((cell, " / ".join(_shown(results[model], cell) for model in MODELS), ""))
    table(lines)
    # without a peer there is nothing to compare with
    if any(name in there for name in needed.values()):
        facts = {"runs": given.runs, "peers": there, "largest": LARGEST}
        keep("comparison", {"settings": facts, "models": results})


def _shown(results: Any, cell: str) -> str:
    found = results.get(cell, {}) if isinstance(results, dict) else {}
    return f"{found['score']:.3f}" if "score" in found else "refused" if found else "-"


if __name__ == "__main__":
    main()
