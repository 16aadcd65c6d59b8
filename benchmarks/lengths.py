"""How far noise may move a score: the bounds on a descent's length, measured on some tables and judged on others.

    python benchmarks/lengths.py --data FOLDER --measure KIND [--until HH:MM]       goes on
    python benchmarks/lengths.py --fit                                              the choice, from the cells there are

A descent's noise moves the score of a row of full norm by a deviation p, if nothing pulls it back. Cells are mean
losses on records that were not trained on, relative to that of the class frequencies or of the mean, of descents with
a given p, prepared as `auto` would. KIND is `numbers`, `classes` (two, and the many of small tables) or `many`: tables
of many classes, of which the suite has three, and other columns of tables that it has, predicted from the rest.

A rule is a largest p where n mu/sqrt(d) is below a threshold, and another one elsewhere; for `many` it is p itself. It
is chosen by its mean over tables, and judged leave-one-table-out.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _choosing import counting_alike, keep_kind, left_out_in_turn, mean_loss, one_kind_at_a_time
from _results import RESULTS, data_directory, deadline
from _tables import Split, Table, frame, tables
from constants import FAMILIES
from tables import LengthAndClip, auto, scores, trivial

from sordino.budget import Budget
from sordino.linear_task import INTERCEPT_OF_CLASSES, INTERCEPT_OF_NUMBERS, LinearTask, class_coding, logistic
from sordino.losses import TYPICAL_RESIDUAL, Squared
from sordino.methods.schedule import gaussian_allowance
from sordino.oracle.rows import Rows
from sordino.prepare import default_preparation

KEPT = RESULTS / "lengths.json"
MOST_RECORDS, MOST_TESTED = 12_000, 4_000
LEFT_OUT = ("mnist", "rcv1", "a9a", "adult", "bank", "credit", "ijcnn1", "crashes", "law")
"""Pictures and texts, and tables of classes with more than 10,000 records, where p is not limited."""

EPSILONS = {"numbers": (0.1, 1.0, 0.5, 3.0), "classes": (0.1, 0.5), "many": (1.0, 0.1, 3.0, 0.5)}
DEVIATIONS = {
    "numbers": (0.09, 0.15, 0.22, 0.33),
    "classes": (0.3, 0.45, 0.65, 0.95),
    "many": (0.3, 0.45, 0.65, 0.95, 1.4, 2.0),
}
CLIPS = {"numbers": (TYPICAL_RESIDUAL,), "classes": (0.5,), "many": (0.5,)}
"""Of the target's bound, or of the Lipschitz constant."""

OF_MANY = ("digits", "leaves", "rooms")
OTHER_TARGETS = {
    ("adult", "occupation"): ("split",),
    ("adult", "relationship"): ("split",),
    ("adult", "education"): ("split", "education-num"),
    ("bank", "job"): (),
    ("bank", "month"): (),
    ("bank", "contact"): (),
    ("bike_hour", "season"): ("mnth", "instant", "dteday"),
    ("bike_hour", "weathersit"): ("instant", "dteday"),
    ("wine_quality", "quality"): (),
    ("creditcard_default", "EDUCATION"): ("ID",),
}
"""A column with many classes of a Parquet file, and columns that are left out."""
PLANNED = "planned"
"""The default, whatever its p is."""

THRESHOLDS = (0.0, 10.0, 20.0, 40.0, math.inf)


def known_tables(kind: str) -> dict[str, Callable[[], Table]]:
    folder = data_directory()
    known = {name: make for name, make in tables(folder).items() if name not in LEFT_OUT}
    if kind != "many":
        return known
    others = {
        f"{name}, {target}": partial(frame, partial(_read, folder, name), target, without)
        for (name, target), without in OTHER_TARGETS.items()
    }
    return {name: known[name] for name in OF_MANY} | others


def _read(folder: Path, name: str) -> Any:
    import pandas as pd

    return pd.read_parquet(folder / f"{name}.parquet")


def _is_of(kind: str, table: Table) -> bool:
    return kind == "many" or (table.classes == 0) == (kind == "numbers")


# --- Measuring ---


def shortened(split: Split) -> Split:
    n, m = min(MOST_RECORDS, split.X.shape[0]), min(MOST_TESTED, len(split.test_targets))
    return split._replace(
        X=split.X[:n], y=split.y[:n], test_rows=split.test_rows[:m], test_targets=split.test_targets[:m]
    )


def relative_loss(split: Split, epsilon: float, deviation: float, clip: float) -> float:
    """Of a descent with this p, prepared as `auto` is."""
    n, d = split.X.shape
    budget = Budget(epsilon, 1 / n**2)
    if split.classes:
        task = LinearTask(
            logistic(split.classes), Rows(split.row_norm, INTERCEPT_OF_CLASSES), class_coding(range(split.classes))
        )
    else:
        task = LinearTask(Squared(1.0, clip), Rows(split.row_norm, INTERCEPT_OF_NUMBERS))
    problem = task.problem(n, d)
    steps = list(default_preparation(problem, budget, True)) or None
    method = LengthAndClip(clip=clip * (problem.constants.L if split.classes else 1.0), deviation=deviation)
    model = auto(split, epsilon, method=method, prepare=steps, **({} if split.classes else {"clip": clip}))
    found, base = scores(split, model)[0], trivial(split)[0]
    return found / base if split.classes else (1 - found) / (1 - base)


def measure(kind: str, until: str | None) -> None:
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept, end = whole.setdefault(kind, {}), deadline(until)
    known = known_tables(kind)
    made: dict[str, Table] = {}
    for epsilon, name in itertools.product(EPSILONS[kind], known):
        table = made.setdefault(name, known[name]())
        if not _is_of(kind, table):
            continue
        runs = 4 if len(table.y) < 20_000 else 3
        splits = [shortened(table.split(number)) for number in range(runs)]
        n, d = splits[0].X.shape
        row = kept.setdefault(name, {"records": n, "features": d, "classes": table.classes, "cells": {}})
        cells = row["cells"].setdefault(str(epsilon), {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for clip, deviation in itertools.product(CLIPS[kind], DEVIATIONS[kind]):
                if f"{clip} {deviation}" not in cells:
                    losses = [relative_loss(split, epsilon, deviation, clip) for split in splits]
                    cells[f"{clip} {deviation}"] = [round(loss, 4) for loss in losses]
            if kind == "many" and PLANNED not in cells:
                found = [scores(split, auto(split, epsilon))[0] / trivial(split)[0] for split in splits]
                cells[PLANNED] = [round(loss, 4) for loss in found]
        keep_kind(KEPT, kind, kept)
        print(epsilon, name, {key: round(float(np.mean(runs)), 3) for key, runs in cells.items()}, flush=True)
        if datetime.now() >= end:
            return


# --- Choosing ---


def fit(kind: str, kept: dict[str, Any]) -> dict[str, Any]:
    """Mean relative loss under a largest p below a threshold of n mu/sqrt(d) and another one from there on."""
    clip = CLIPS[kind][0]
    cells: list[Any] = []
    before: list[Any] = []
    for name, row in kept.items():
        for epsilon, found in row["cells"].items():
            if all(f"{clip} {p}" in found for p in DEVIATIONS[kind]):
                n, d = row["records"], row["features"]
                x = n * gaussian_allowance(d + 1, Budget(float(epsilon), 1 / n**2)) / math.sqrt(d)
                before.append(np.mean(found.get(PLANNED, math.nan)))
                family_of = FAMILIES.get(name, name.split(", ")[0])
                cells.append((family_of, x, {p: np.mean(found[f"{clip} {p}"]) for p in DEVIATIONS[kind]}))
    rules = [rule for rule in itertools.product(THRESHOLDS, DEVIATIONS[kind], DEVIATIONS[kind]) if rule[1] <= rule[2]]
    losses = np.array([[of[few if x < at else many] for at, few, many in rules] for _, x, of in cells])
    family = np.array([name for name, *_ in cells])
    weight = counting_alike(family)
    held_out, chosen = left_out_in_turn(losses, family, weight)
    together = mean_loss(losses, weight)
    least = DEVIATIONS[kind][0]
    return {
        "rule: threshold, largest p below, and above": _finite(rules[int(together.argmin())]),
        "mean relative loss": {
            **({"before": float(mean_loss(np.array(before)[:, None], weight)[0])} if kind == "many" else {}),
            "under the rule that all choose": float(together.min()),
            "every table under the rule that the others choose": float(mean_loss(held_out[:, None], weight)[0]),
            **{f"p = {p} everywhere": float(together[rules.index((0.0, least, p))]) for p in DEVIATIONS[kind]},
        },
        "best ten": [[*_finite(rules[at]), round(float(together[at]), 4)] for at in together.argsort()[:10]],
        "chosen without": {name: _finite(rules[best]) for name, best in chosen.items()},
        "cells": len(cells),
    }


def _finite(rule: tuple[float, ...]) -> list[float | None]:
    return [None if math.isinf(one) else one for one in rule]


if __name__ == "__main__":
    one_kind_at_a_time(KEPT, EPSILONS, measure, fit)
