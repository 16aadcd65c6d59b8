"""How good is the default? Every table x every epsilon: not private, trivial, and `auto`, on records it has not seen.

    python benchmarks/tables.py --data FOLDER [--quick] [--tables NAME ..] [--runs N]

The guarantee is (epsilon, 1/n^2), replace-one. Classification is judged by log-loss and accuracy, regression by R^2.
Every cell is written as soon as it is measured, and a later call goes on from there; a cell of another commit or other
settings is measured again. Nothing of a test set reaches a plan.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _results import RESULTS, data_directory, environment
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score

from sordino import PrivateLinearRegression, PrivateLogisticRegression
from sordino.tabular import Schema

EPSILONS = (0.1, 0.5, 1.0, 3.0)
SCHEMAS = Path(__file__).parent / "papers" / "schemas"
KEPT = RESULTS / "tables.json"
LARGEST_TEST = 15_000

Array = NDArray[Any]


class Split(NamedTuple):
    """`classes` is 0 for a regression, whose targets lie in [-1, 1]."""

    X: Array
    y: Array
    test_rows: Array
    test_targets: Array
    row_norm: float
    classes: int


def stored(folder: Path, name: str) -> Split:
    """Encoded by public ranges, and split once."""
    with np.load(folder / "tables" / f"{name}.npz") as file:
        X, y, test_rows, test_targets = (file[key].astype(float) for key in ("Xtr", "ytr", "Xte", "yte"))
        kind, bound, row_norm = str(file["kind"]), float(file["yb"]), float(file["rn"])
    if kind == "reg":
        return Split(X, y / bound, test_rows, test_targets / bound, row_norm, 0)
    return Split(X, y, test_rows, test_targets, row_norm, int(max(y.max(), test_targets.max())) + 1)


def libsvm(folder: Path, name: str, row_norm: float, first: int | None = None, dense: bool = True) -> Split:
    parts = []
    for part in ("train", "test"):
        path = folder / f"{name}_{part}.npz"
        X = sparse.load_npz(path).tocsr().astype(np.float64)
        parts += [X.toarray() if dense else X, (np.load(path)["y"] > 0).astype(float)]
    X, y, test_rows, test_targets = parts
    return Split(X[:first], y[:first], test_rows[:LARGEST_TEST], test_targets[:LARGEST_TEST], row_norm, 2)


def described(folder: Path, name: str, schema: str) -> Split:
    """A Parquet file and its public schema: a quarter of the records, drawn once, is the test set."""
    import pyarrow.parquet as parquet

    from sordino.tabular.encode import encode_features, encode_target

    public = Schema.load(SCHEMAS / f"{schema}.toml")
    records = parquet.read_table(folder / f"{name}.parquet")
    X, y = np.asarray(encode_features(public, records)), encode_target(public, records)
    classes = 0
    if public.task == "classification":
        labels = list(public.target.classes)
        classes, y = len(labels), np.array([labels.index(label) for label in y], dtype=float)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: 3 * len(y) // 4], order[3 * len(y) // 4 :]
    return Split(X[train], y[train], X[test], y[test], public.row_norm, classes)


def mnist(folder: Path) -> Split:
    with np.load(folder / "mnist.npz") as file:
        X, test_rows = (file[key].reshape(-1, 784) / 255 for key in ("x_train", "x_test"))
        # images are scaled to norm one, each by itself
        X, test_rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, test_rows))
        return Split(X, file["y_train"].astype(float), test_rows, file["y_test"].astype(float), 1.0, 10)


def tables(folder: Path) -> dict[str, Callable[[], Split]]:
    return {
        "breast": lambda: stored(folder, "breast"),
        "german": lambda: stored(folder, "german"),
        "digits": lambda: stored(folder, "digits"),
        "a9a-3000": lambda: libsvm(folder, "a9a", math.sqrt(14), 3000),
        "compas": lambda: stored(folder, "compas"),
        "credit": lambda: described(folder, "creditcard_default", "creditcard"),
        "a9a": lambda: libsvm(folder, "a9a", math.sqrt(14)),
        "bank": lambda: described(folder, "bank", "bank"),
        "adult": lambda: described(folder, "adult", "adult"),
        "ijcnn1": lambda: libsvm(folder, "ijcnn1", math.sqrt(22)),
        "rcv1": lambda: libsvm(folder, "rcv1_subset", 1.0, dense=False),
        "mnist": lambda: mnist(folder),
        "diabetes": lambda: stored(folder, "diabetes"),
        "wine": lambda: described(folder, "wine_quality", "wine"),
        "bike": lambda: described(folder, "bike_hour", "bike"),
        "randhie": lambda: stored(folder, "randhie"),
        "diamonds": lambda: stored(folder, "diamonds"),
    }


QUICK = ("breast", "german", "diabetes", "bike")


def scores(split: Split, model: Any) -> dict[str, float]:
    if not split.classes:
        return {"R^2": float(r2_score(split.test_targets, np.clip(model.predict(split.test_rows), -1, 1)))}
    probabilities = np.clip(model.predict_proba(split.test_rows), 1e-12, 1.0)
    return {
        "log-loss": float(log_loss(split.test_targets, probabilities, labels=np.arange(split.classes))),
        "accuracy": float((probabilities.argmax(axis=1) == split.test_targets).mean()),
    }


def trivial(split: Split) -> dict[str, float]:
    """The mean, or the frequencies of the classes."""
    if not split.classes:
        return {"R^2": float(r2_score(split.test_targets, np.full(len(split.test_targets), split.y.mean())))}
    shares = np.bincount(split.y.astype(int), minlength=split.classes) / len(split.y)
    told = np.tile(shares, (len(split.test_targets), 1))
    return {
        "log-loss": float(log_loss(split.test_targets, told, labels=np.arange(split.classes))),
        "accuracy": float((split.test_targets == shares.argmax()).mean()),
    }


def not_private(split: Split) -> dict[str, float]:
    model = LogisticRegression(C=10, max_iter=300) if split.classes else Ridge(1e-3)
    return scores(split, model.fit(split.X, split.y))


def auto(split: Split, epsilon: float, settings: dict[str, Any]) -> Any:
    if split.classes:
        classes = range(split.classes)
        model: Any = PrivateLogisticRegression(epsilon, row_norm=split.row_norm, classes=classes, **settings)
    else:
        model = PrivateLinearRegression(epsilon, row_norm=split.row_norm, target_bound=1.0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(split.X, split.y)


def measure(split: Split, epsilon: float, runs: int, settings: dict[str, Any]) -> dict[str, Any]:
    began, found, model = time.perf_counter(), [], None
    for _ in range(runs):
        model = auto(split, epsilon, settings)
        found.append(scores(split, model))
    error = {name: float(np.std([one[name] for one in found], ddof=1) / math.sqrt(runs)) for name in found[0]}
    assert model is not None
    return {
        **{name: float(np.mean([one[name] for one in found])) for name in found[0]},
        "standard error over runs": error if runs > 1 else None,
        "runs": runs,
        "seconds a run": (time.perf_counter() - began) / runs,
        "method": _shown(model.certificate_.method),
    }


def _shown(method: Any) -> str:
    inner = getattr(method, "method", None)
    return type(method).__name__ + (f"({_shown(inner)})" if inner is not None else "")


def runs_for(records: int) -> int:
    return 12 if records < 10_000 else 3


def commit() -> str:
    told = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=RESULTS)
    return told.stdout.strip()


def relative_loss(kept: dict[str, Any]) -> dict[str, float]:
    """Mean over tables of two classes of log-loss / that of the class frequencies, for every epsilon and in all."""
    cells: dict[str, list[float]] = {}
    for table in kept.values():
        if "log-loss" in table["trivial"] and table["classes"] == 2:
            for epsilon, cell in table["auto"].items():
                cells.setdefault(epsilon, []).append(cell["log-loss"] / table["trivial"]["log-loss"])
    means = {epsilon: float(np.mean(found)) for epsilon, found in cells.items()}
    return {**means, "all": float(np.mean(np.concatenate(list(cells.values()))))} if cells else {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--quick", action="store_true", help="four small tables and three runs, kept nowhere")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--settings", default="{}", help='of the estimators, as JSON: {"prepare": null}; kept nowhere')
    asked = parser.parse_args()
    folder, settings = data_directory(), json.loads(asked.settings)
    known = tables(folder)
    keeping = not (asked.quick or settings)
    whole = json.loads(KEPT.read_text()) if keeping and KEPT.exists() else {}
    kept = whole.get("tables", {}) if whole.get("commit") == commit() else {}
    for name in asked.tables or (QUICK if asked.quick else known):
        split = known[name]()
        n, d = split.X.shape
        first = {"records": n, "features": d, "classes": split.classes, "row norm": split.row_norm}
        row = kept.setdefault(name, {**first, "trivial": trivial(split), "not private": not_private(split), "auto": {}})
        for epsilon in asked.epsilons:
            if str(epsilon) not in row["auto"]:
                runs = asked.runs or (3 if asked.quick else runs_for(n))
                row["auto"][str(epsilon)] = cell = measure(split, epsilon, runs, settings)
                print(name, f"{n} x {d}", epsilon, json.dumps(cell), flush=True)
                whole = {
                    "environment": environment(),
                    "commit": commit(),
                    "command": " ".join(sys.argv),
                    "date": datetime.now(UTC).isoformat(timespec="seconds"),
                    "guarantee": "(epsilon, 1/n^2), replace-one",
                    "relative log-loss, two classes": relative_loss(kept),
                    "tables": kept,
                }
                if keeping:
                    KEPT.write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps({"relative log-loss": relative_loss(kept)}))


if __name__ == "__main__":
    main()
