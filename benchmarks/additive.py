"""Do curves pay? The linear model, the additive one, and a private explainable boosting machine, on unseen records.

    make peers && .venv-peers/bin/python benchmarks/additive.py --data FOLDER [--quick] [--tables NAME ..] [--runs N]

Every table has a public schema, the same ranges and categories for all three. The guarantee is (epsilon, 1/n^2), for
the library's own models under replace-one; interpret-core states its (epsilon, delta) for adding or removing a record,
and reads which categories occur from the records, so it is given less to do. Classification is judged by log-loss and
accuracy, regression by R^2. Settings are the defaults of all three.

What was tried while the curves were designed was tried on made-up functions: of the tables here only `friedman` was
seen then. Without interpret-core its column is left out, and nothing is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from _results import RESULTS, data_directory, provenance
from sklearn.metrics import log_loss, r2_score

from sordino import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
)
from sordino.tabular import Category, ClassTarget, Date, Number

EPSILONS = (0.5, 1.0, 3.0)
SCHEMAS = Path(__file__).parents[1] / "src" / "sordino" / "papers" / "schemas"

HOURS = """
[target]
column = "cnt"
low = 0
high = 1000
[columns]
temp = { low = 0, high = 1 }
hum = { low = 0, high = 1 }
windspeed = { low = 0, high = 1 }
mnth = { low = 1, high = 12 }
hr = { low = 0, high = 23 }
weekday = { low = 0, high = 6 }
yr = { values = [0, 1] }
holiday = { values = [0, 1] }
workingday = { values = [0, 1] }
weathersit = { values = [1, 2, 3, 4] }
"""
"""Bike sharing with the calendar as numbers, as somebody would write it down who does not think of their effects."""


class Split(NamedTuple):
    schema: Schema
    train: pa.Table
    test: pa.Table
    targets: np.ndarray


def split(schema: Schema, records: pa.Table) -> Split:
    """A quarter of the records, drawn once, is the test set."""
    order = np.random.default_rng(0).permutation(records.num_rows)
    train, test = (records.take(part) for part in np.split(order, [3 * len(order) // 4]))
    return Split(schema, train, test, np.asarray(test.column(schema.target.column).to_pylist()))


def stored(folder: Path, name: str, schema: Schema) -> Split:
    return split(schema, pyarrow.parquet.read_table(folder / f"{name}.parquet"))


def friedman() -> Split:
    """10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 and noise (Friedman 1991): additive but for one pair."""
    rng = np.random.default_rng(7)
    X = rng.random((20_000, 10))
    y = 10 * np.sin(math.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    table = pa.table({**{f"x{k}": X[:, k] for k in range(10)}, "y": y + rng.normal(size=len(y))})
    numbers = "".join(f"x{k} = {{ low = 0, high = 1 }}\n" for k in range(10))
    return split(Schema.from_toml('[target]\ncolumn = "y"\nlow = 0\nhigh = 30\n[columns]\n' + numbers), table)


def tables(folder: Path) -> dict[str, Callable[[], Split]]:
    return {
        "friedman": friedman,
        "bike, the calendar as numbers": lambda: stored(folder, "bike_hour", Schema.from_toml(HOURS)),
        "bike": lambda: stored(folder, "bike_hour", Schema.load(SCHEMAS / "bike.toml")),
        "wine": lambda: stored(folder, "wine_quality", Schema.load(SCHEMAS / "wine.toml")),
        "adult": lambda: stored(folder, "adult", Schema.load(SCHEMAS / "adult.toml")),
        "bank": lambda: stored(folder, "bank", Schema.load(SCHEMAS / "bank.toml")),
        "credit": lambda: stored(folder, "creditcard_default", Schema.load(SCHEMAS / "creditcard.toml")),
    }


def linear(part: Split, epsilon: float) -> Any:
    kind = PrivateLogisticRegression if part.schema.task == "classification" else PrivateLinearRegression
    return kind(epsilon, schema=part.schema).fit(part.train)


def additive(part: Split, epsilon: float) -> Any:
    kind = PrivateAdditiveClassifier if part.schema.task == "classification" else PrivateAdditiveRegressor
    return kind(epsilon, schema=part.schema).fit(part.train)


class Boosted:
    """interpret-core's model behind the same two calls, told the same ranges."""

    def __init__(self, part: Split, epsilon: float) -> None:
        from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

        self._schema = part.schema
        columns, target = part.schema.columns.items(), part.schema.target
        numbers = {name: column for name, column in columns if isinstance(column, Number | Date)}
        common = {
            "feature_names": [name for name, _ in columns],
            "feature_types": ["continuous" if name in numbers else "nominal" for name, _ in columns],
            "privacy_bounds": {name: (column.low, column.high) for name, column in numbers.items()},
            "epsilon": epsilon,
            "delta": 1 / part.train.num_rows**2,
        }
        y = np.asarray(part.train.column(target.column).to_pylist())
        if isinstance(target, ClassTarget):
            self._model = DPExplainableBoostingClassifier(**common)
        else:
            self._model = DPExplainableBoostingRegressor(
                **common, privacy_target_min=target.low, privacy_target_max=target.high
            )
            y = np.clip(y.astype(float), *target.range)
        self._model.fit(self._cells(part.train), y)
        self.classes_ = getattr(self._model, "classes_", None)

    def predict(self, table: pa.Table) -> np.ndarray:
        return np.clip(self._model.predict(self._cells(table)), *self._schema.target.range)

    def predict_proba(self, table: pa.Table) -> np.ndarray:
        return self._model.predict_proba(self._cells(table))

    def _cells(self, table: pa.Table) -> np.ndarray:
        cells = np.empty((table.num_rows, len(self._schema.columns)), dtype=object)
        for place, (name, column) in enumerate(self._schema.columns.items()):
            told = table.column(name).to_pylist()
            cells[:, place] = [str(cell).strip() for cell in told] if isinstance(column, Category) else told
        return cells


def scores(part: Split, model: Any) -> dict[str, float]:
    if part.schema.task == "regression":
        return {"R^2": float(r2_score(part.targets, model.predict(part.test)))}
    probabilities = np.clip(model.predict_proba(part.test), 1e-12, 1.0)
    labels = list(model.classes_)
    return {
        "log-loss": float(log_loss(part.targets, probabilities, labels=labels)),
        "accuracy": float((np.asarray(labels)[probabilities.argmax(axis=1)] == part.targets).mean()),
    }


def measure(part: Split, make: Callable[[Split, float], Any], epsilon: float, runs: int) -> dict[str, Any]:
    found, began = [], time.perf_counter()
    for _ in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(scores(part, make(part, epsilon)))
    return {
        "mean": {name: float(np.mean([one[name] for one in found])) for name in found[0]},
        "standard error over runs": {
            name: float(np.std([one[name] for one in found], ddof=1) / math.sqrt(runs)) for name in found[0]
        },
        "runs": runs,
        "seconds a run": (time.perf_counter() - began) / runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--quick", action="store_true", help="two tables and two runs, kept nowhere")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    known = tables(data_directory())
    models = {"linear": linear, "additive": additive}
    peer = find_spec("interpret") is not None
    if peer:
        models["boosting machine of interpret-core"] = Boosted
    kept: dict[str, Any] = {}
    for name in asked.tables or (["friedman", "wine"] if asked.quick else known):
        part = known[name]()
        cells = kept[name] = {"records": part.train.num_rows, "columns": len(part.schema.columns)}
        for epsilon in asked.epsilons:
            for kind, make in models.items():
                runs = 2 if asked.quick else asked.runs
                cell = cells.setdefault(str(epsilon), {})[kind] = measure(part, make, epsilon, runs)
                print(name, epsilon, kind, json.dumps(cell), flush=True)
        if peer and not asked.quick:
            told = {**provenance("interpret-core", "pyarrow"), "guarantee": "(epsilon, 1/n^2)", "tables": kept}
            (RESULTS / "additive.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
