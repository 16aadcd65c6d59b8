r"""A class that one record in twenty has: what privacy leaves of the ranking, and what weights of classes do to it.

    python benchmarks/rare_class.py --data FOLDER [--runs 5]

Bank marketing, encoded by its public schema, with so many of the positives left out at random that 5 % remain. 12,000
or 30,000 records to train on, the others of the same mixture to judge by. The figure is the area under the ROC curve,
its mean over splits and that mean's standard error, and the share of positives that score above 0. Settings are the
estimator's defaults, but for the weights of classes and one preparation: ranges of this schema are far wider than most
records (a call may last 5,000 seconds, and most last 200), which is what column scales are for.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import data_directory, keep
from _tables import SCHEMAS
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from sordino import PrivateLogisticRegression, Schema, SchemaEncoder

RECORDS, RARE, DELTA = (12_000, 30_000), 0.05, 1e-6
EPSILONS = (0.5, 1.0, 3.0)
SCHEMA = SCHEMAS / "bank.toml"
SCALES = ["centre", "column scales", "norm quantile"]
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "1 : 0.3": {"class_weight": {1: 1.0, 0: 0.3}},
    "balanced": {"class_weight": "balanced"},
    "column scales": {"prepare": SCALES},
    "column scales, balanced": {"prepare": SCALES, "class_weight": "balanced"},
}


def table(folder: Path) -> tuple[Any, Any, float]:
    schema = Schema.load(SCHEMA)
    frame = pd.read_parquet(folder / "bank.parquet")
    y = (frame[schema.target.column] == schema.target.classes[1]).to_numpy().astype(int)
    return SchemaEncoder(schema).fit_transform(frame), y, schema.row_norm


def split(y: Any, run: int, records: int = RECORDS[0]) -> tuple[Any, Any]:
    """Numbers of the records to train on, and of those to judge by, with the same share of positives."""
    rng = np.random.default_rng(run)
    positives, negatives = rng.permutation(np.flatnonzero(y)), rng.permutation(np.flatnonzero(y == 0))
    kept = rng.permutation(np.concatenate([positives[: int(len(negatives) * RARE / (1 - RARE))], negatives]))
    return kept[:records], kept[records:]


def judged(model: Any, X: Any, y: Any) -> tuple[float, float]:
    scores = model.decision_function(X)
    return float(roc_auc_score(y, scores)), float(np.mean(scores[y == 1] > 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_known_args()[0].runs
    X, y, row_norm = table(data_directory())
    warnings.simplefilter("ignore")
    cells = [cell for records in RECORDS for cell in measured(X, y, row_norm, records, runs)]
    keep("rare_class", {"positives": RARE, "delta": DELTA, "runs": runs, "cells": cells}, "pandas")


def measured(X: Any, y: Any, row_norm: float, records: int, runs: int) -> Iterator[dict[str, Any]]:
    found: dict[tuple[str, float | None], list[tuple[float, float]]] = {}
    for run in range(runs):
        train, test = split(y, run, records)
        open_fit = LogisticRegression(C=100.0, max_iter=5000).fit(X[train], y[train])
        found.setdefault(("not private", None), []).append(judged(open_fit, X[test], y[test]))
        for name, settings in SETTINGS.items():
            for epsilon in EPSILONS:
                model = PrivateLogisticRegression(epsilon, DELTA, row_norm=row_norm, classes=[0, 1], **settings)
                model.fit(X[train], y[train])
                found.setdefault((name, epsilon), []).append(judged(model, X[test], y[test]))
    best = float(np.mean([area for area, _ in found["not private", None]]))
    for (name, epsilon), results in found.items():
        areas, recalls = np.array(results).T
        cell = {
            "records": records,
            "settings": name,
            "epsilon": epsilon,
            "auc": round(float(areas.mean()), 4),
            "standard_error": round(float(areas.std(ddof=1) / math.sqrt(runs)), 4),
            "of_not_private": round(float(areas.mean()) / best, 4),
            "recall_at_0": round(float(recalls.mean()), 3),
        }
        print(cell, flush=True)
        yield cell


if __name__ == "__main__":
    main()
