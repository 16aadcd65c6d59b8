"""Where training begins, and when the intercept is all that is learnt: measured on some tables and judged on others.

    python benchmarks/intercept.py --data FOLDER --measure KIND [--until HH:MM]       goes on
    python benchmarks/intercept.py --fit                                            the choice, from the cells there are

Parts of public tables, with 300 to 6,000 records, so that n mu (with mu what the budget is in Gaussian differential
privacy) covers what small tables have. Cells are mean losses on records that were not trained on, relative to that of
the class frequencies or of the mean, of `auto`: `before`, from zero; from a starting score with a share of the budget
and a power of 4p(1-p) in its steps, both by rules of n mu; `constant`, the score alone; and with constant columns of
other sizes than the library's. KIND is `classes` or `numbers`.

A rule is an n mu below which a model is constant, and for two classes an n mu sqrt(share) that their frequency is given
and an n mu up to which steps are shortened by all of 4p(1-p). It is chosen by its mean over tables, and judged
leave-one-table-out.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from unittest.mock import patch

import numpy as np
from _choosing import counting_alike, keep_kind, left_out_in_turn, mean_loss, one_kind_at_a_time
from _results import RESULTS, data_directory, deadline
from _tables import Split, Table, tables
from constants import FAMILIES
from tables import auto, scores, trivial

from sordino.budget import Budget
from sordino.linear_task import INTERCEPT_OF_CLASSES, INTERCEPT_OF_NUMBERS, LinearTask, class_coding, logistic
from sordino.losses import TYPICAL_RESIDUAL, Squared
from sordino.methods import ConstantModel
from sordino.methods.schedule import gaussian_allowance
from sordino.oracle.rows import Rows
from sordino.prepare import StartingScore, default_preparation
from sordino.prepare.choice import LEAST_SHARE, MOST_SHARE

KEPT = RESULTS / "intercept.json"
MOST_TESTED = 4_000
LEFT_OUT = ("mnist", "rcv1", "digits", "leaves", "rooms", "a9a")
"""Pictures, texts and many classes, and one table of which another one has the same records."""

PARTS = {
    "classes": ((300, 0.1, 6), (800, 0.1, 6), (2000, 0.1, 3), (6000, 0.1, 2), (2000, 1.0, 1), (6000, 1.0, 1)),
    "numbers": ((300, 0.1, 4), (1000, 0.1, 4), (4000, 0.1, 2), (1000, 1.0, 2), (4000, 1.0, 1)),
}
"""Records at most, epsilon, runs."""

CONSTANTS = (0.0, 15.0, 30.0, 45.0, 60.0)
FREQUENCIES, SHORTENINGS = (5.0, 8.0, 12.0), (0.0, 100.0)
COLUMNS_OF_CLASSES, COLUMNS_OF_NUMBERS = (0.2, 0.4), (0.28, 0.56)
SHARES = (0.02, 0.05, 0.1)

Fit = Callable[[Split, float], Any]


# --- Measuring ---


def strength(split: Split, epsilon: float) -> float:
    """n mu."""
    n, d = split.X.shape
    return n * gaussian_allowance(d + 1, Budget(epsilon, 1 / n**2))


def begun(split: Split, epsilon: float, first: tuple[StartingScore, ...]) -> Any:
    """`auto` with these steps before its preparation of rows."""
    n, d = split.X.shape
    if split.classes:
        task = LinearTask(logistic(2), Rows(split.row_norm, INTERCEPT_OF_CLASSES), class_coding(range(2)))
    else:
        task = LinearTask(Squared(1.0, TYPICAL_RESIDUAL), Rows(split.row_norm, INTERCEPT_OF_NUMBERS))
    rows = default_preparation(task.problem(n, d), Budget(epsilon, 1 / n**2), True)
    return auto(split, epsilon, prepare=[*first, *rows] or None)


def by_rule(frequency: float, shortened: float) -> Fit:
    def fit(split: Split, epsilon: float) -> Any:
        of = strength(split, epsilon)
        share = min(max((frequency / of) ** 2, LEAST_SHARE), MOST_SHARE)
        return begun(split, epsilon, (StartingScore(share, min(1.0, shortened / of)),))

    return fit


def with_column(size: float, fit: Fit) -> Fit:
    def patched(split: Split, epsilon: float) -> Any:
        where, name = ("classifiers", "CLASSES") if split.classes else ("regressors", "NUMBERS")
        with patch(f"sordino.estimators.{where}.INTERCEPT_OF_{name}", size):
            return fit(split, epsilon)

    return patched


def settings(kind: str) -> dict[str, Fit]:
    def from_zero(split: Split, epsilon: float) -> Any:
        return begun(split, epsilon, ())

    if kind == "classes":
        usual = by_rule(8.0, 100.0)
        return {
            "before": from_zero,
            "constant": lambda split, epsilon: auto(split, epsilon, method=ConstantModel()),
            **{f"{f:g} {s:g}": by_rule(f, s) for f, s in itertools.product(FREQUENCIES, SHORTENINGS)},
            **{f"column {size}": with_column(size, usual) for size in COLUMNS_OF_CLASSES},
        }

    def shared(share: float) -> Fit:
        return lambda split, epsilon: begun(split, epsilon, (StartingScore(share),))

    return {
        "before": from_zero,
        "constant": lambda split, epsilon: auto(split, epsilon, method=ConstantModel()),
        **{f"share {share}": shared(share) for share in SHARES},
        **{f"column {size}": with_column(size, shared(0.05)) for size in COLUMNS_OF_NUMBERS},
    }


def relative_loss(split: Split, epsilon: float, fit: Fit) -> float:
    found, base = scores(split, fit(split, epsilon))[0], trivial(split)[0]
    return found / base if split.classes else (1 - found) / (1 - base)


def parts(table: Table, records: int, runs: int) -> Iterator[Split]:
    for number in range(runs):
        split = table.split(number)
        n, m = min(records, split.X.shape[0]), min(MOST_TESTED, len(split.test_targets))
        yield split._replace(
            X=split.X[:n], y=split.y[:n], test_rows=split.test_rows[:m], test_targets=split.test_targets[:m]
        )


def measure(kind: str, until: str | None) -> None:
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept, end = whole.setdefault(kind, {}), deadline(until)
    known = {name: make for name, make in tables(data_directory()).items() if name not in LEFT_OUT}
    made: dict[str, Table] = {}
    for (records, epsilon, runs), name in itertools.product(PARTS[kind], known):
        table = made.setdefault(name, known[name]())
        # a part that is nearly as large as the one before it says nothing new
        if (table.classes == 0) != (kind == "numbers") or 3 * len(table.y) // 4 < 0.7 * records:
            continue
        splits = list(parts(table, records, runs))
        cells = kept.setdefault(name, {}).setdefault(f"{records} {epsilon}", {})
        cells["n mu"] = round(strength(splits[0], epsilon), 2)
        for setting, fit in settings(kind).items():
            if setting not in cells:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    cells[setting] = [round(relative_loss(split, epsilon, fit), 4) for split in splits]
        keep_kind(KEPT, kind, kept)
        shown = {key: round(float(np.mean(runs)), 3) for key, runs in cells.items()}
        print(records, epsilon, name, shown, flush=True)
        if datetime.now() >= end:
            return


# --- Choosing ---


def rules_of(kind: str) -> dict[str, Callable[[dict[str, Any]], str]]:
    """Every rule by its name: which setting it takes in a cell."""

    def rule(below: float, rest: str) -> Callable[[dict[str, Any]], str]:
        return lambda cell: "constant" if cell["n mu"] < below else rest

    if kind == "numbers":
        begun = {name: rule(0.0, name) for name in settings(kind)}
        return begun | {f"constant below {at:g}, before": rule(at, "before") for at in CONSTANTS[1:]}
    rests = [f"{f:g} {s:g}" for f, s in itertools.product(FREQUENCIES, SHORTENINGS)]
    known = {f"constant below {at:g}, {rest}": rule(at, rest) for at, rest in itertools.product(CONSTANTS, rests)}
    columns = {f"column {size}": rule(CONSTANTS[2], f"column {size}") for size in COLUMNS_OF_CLASSES}
    return {"before": lambda cell: "before", **known, **columns}


def fit(kind: str, kept: dict[str, Any]) -> dict[str, Any]:
    rules = rules_of(kind)
    wanted = set(settings(kind))
    cells = [(FAMILIES.get(name, name), cell) for name, of in kept.items() for cell in of.values() if wanted <= {*cell}]
    losses = np.array([[np.mean(cell[choose(cell)]) for choose in rules.values()] for _, cell in cells])
    family, names = np.array([name for name, _ in cells]), list(rules)
    weight = counting_alike(family)
    held_out, chosen = left_out_in_turn(losses, family, weight)
    together = mean_loss(losses, weight)
    bands = {}
    for low, high in itertools.pairwise((0.0, 15.0, 30.0, 45.0, 100.0, 200.0, 1000.0, math.inf)):
        inside = np.array([low <= cell["n mu"] < high for _, cell in cells])
        if inside.any():
            of = {
                key: np.mean([np.mean(cell[key]) for (_, cell), here in zip(cells, inside, strict=True) if here])
                for key in wanted
            }
            bands[f"n mu from {low:g}"] = {"cells": int(inside.sum())} | {
                key: round(float(of[key]), 4) for key in settings(kind)
            }
    return {
        "rule": names[int(together.argmin())],
        "mean relative loss": {
            "under the rule that all choose": float(together.min()),
            "every table under the rule that the others choose": float(mean_loss(held_out[:, None], weight)[0]),
            "before": float(together[names.index("before")]),
        },
        "best ten": [[names[at], round(float(together[at]), 4)] for at in together.argsort()[:10]],
        "all": {name: round(float(together[at]), 4) for at, name in enumerate(names)},
        "by n mu": bands,
        "chosen without": {name: names[best] for name, best in chosen.items()},
        "cells": len(cells),
    }


if __name__ == "__main__":
    one_kind_at_a_time(KEPT, PARTS, measure, fit)
