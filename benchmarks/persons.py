r"""Protecting persons against group privacy: the same guarantee for everybody with up to k records, bought twice.

    python benchmarks/persons.py [--runs 10]

`group` trains on records with (epsilon/k, delta (e^(epsilon/k) - 1)/(e^epsilon - 1)), which is (epsilon, delta) for
whoever has k records; `mean`, `capped` and `sum` are the contributions of `sordino.oracle.person_blocks`, the last with
the law's mean number of records as its public guess. All four take the method that the planner chooses on public
facts. N persons, logistic regression with an effect of its own for every person; everybody has k records, or Zipf's
number of them, cut at k. The figure is the log-loss on other persons' records above that of a fit without privacy, its
mean over runs and that mean's standard error.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from _results import keep
from scipy.stats import zipf
from sklearn.linear_model import LogisticRegression

from sordino.budget import Budget
from sordino.losses import Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.persons import Persons
from sordino.oracle.rows import Rows
from sordino.planner import choose
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit, Problem

PERSONS, FEATURES, EPSILON, DELTA = 1000, 10, 1.0, 1e-5
ALIKE = 0.5
"""Correlation of the rows of one person."""
ROWS = Rows(2.0, 0.4)


def sizes(k: int, uneven: bool, rng: np.random.Generator) -> Any:
    return np.minimum(rng.zipf(1.8, PERSONS), k) if uneven else np.full(PERSONS, k)


def typical(k: int, uneven: bool) -> float:
    """The expected number of records, from the law and not from anybody's records: sum_{j <= k} P(K >= j)."""
    return float(zipf(1.8).sf(np.arange(k)).sum()) if uneven else float(k)


def drawn(counts: Any, truth: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    owners = np.repeat(np.arange(len(counts)), counts)
    own = rng.normal(size=(len(counts), FEATURES))[owners]
    X = math.sqrt(ALIKE) * own + math.sqrt(1 - ALIKE) * rng.normal(size=(len(owners), FEATURES))
    X /= math.sqrt(FEATURES)
    scores = X @ truth + 0.5 * rng.normal(size=len(counts))[owners]
    return X, np.where(scores + rng.logistic(size=len(owners)) > 0, 1.0, -1.0), owners


def log_loss(w: Any, X: Any, y: Any) -> float:
    (coefficients,), (intercept,) = ROWS.to_raw(w, 1)
    return float(np.logaddexp(0, -y * (X @ coefficients + intercept)).mean())


def trained(X: Any, y: Any, owners: Any, how: str, k: int, guess: float, seeds: Any) -> tuple[str, list[Any]]:
    if how == "group":
        problem = Problem(len(y), FEATURES + 1, Logistic())
        budget = Budget(EPSILON / k, DELTA * math.expm1(EPSILON / k) / math.expm1(EPSILON))
    else:
        problem = Problem(PERSONS, FEATURES + 1, Logistic(), person=PersonUnit(k, how, guess if how == "sum" else None))
        budget = Budget(EPSILON, DELTA)
    method = choose(problem, budget)
    plan = method.plan(problem, budget)
    found = []
    for seed in seeds:
        randomness = Randomness.seeded(seed)
        persons = None if problem.person is None else Persons.of(owners, problem.person, randomness)
        oracle = linear_oracle(X, y, problem, ROWS, persons=persons)
        found.append(method.run(plan, problem, oracle, randomness).weights)
    return type(method).__name__, found


def cell(k: int, uneven: bool, runs: int) -> dict[str, Any]:
    """Several data sets, on each of which all four are trained."""
    excess: dict[str, list[float]] = {"group": [], "mean": [], "capped": [], "sum": []}
    methods: dict[str, str] = {}
    for run in range(runs):
        rng = np.random.default_rng([run, k, uneven])
        truth = rng.normal(size=FEATURES) * 2
        X, y, owners = drawn(sizes(k, uneven, rng), truth, rng)
        X_other, y_other, _ = drawn(np.ones(20_000, dtype=int), truth, rng)
        open_fit = LogisticRegression(C=1e3, max_iter=1000).fit(X, y)
        least = np.logaddexp(0, -y_other * open_fit.decision_function(X_other)).mean()
        for how, found in excess.items():
            methods[how], weights = trained(X, y, owners, how, k, typical(k, uneven), range(3 * run, 3 * run + 3))
            found.append(float(np.mean([log_loss(w, X_other, y_other) - least for w in weights])))
    return {
        "k": k,
        "records": "uneven" if uneven else "even",
        "method": methods,
        "excess_log_loss": {how: round(float(np.mean(found)), 5) for how, found in excess.items()},
        "standard_error": {how: round(float(np.std(found) / math.sqrt(runs)), 5) for how, found in excess.items()},
        "better_than_group_in": {
            how: round(float(np.mean(np.less(excess[how], excess["group"]))), 2) for how in ("mean", "capped", "sum")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    cells = []
    for uneven in (False, True):
        for k in (1, 2, 5, 10, 20):
            cells.append(cell(k, uneven, runs))
            figures = cells[-1]["excess_log_loss"]
            print(f"{cells[-1]['records']:7} k={k:2}", {how: f"{1e3 * value:.1f}" for how, value in figures.items()})
    figures = {
        "persons": PERSONS,
        "features": FEATURES,
        "epsilon": EPSILON,
        "delta": DELTA,
        "runs": runs,
        "cells": cells,
    }
    keep("persons", figures)


if __name__ == "__main__":
    main()
