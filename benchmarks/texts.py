"""How texts are prepared and clipped: measured on some texts, and judged on others.

    python benchmarks/texts.py --texts FOLDER [--later] [--until HH:MM]      goes on
    python benchmarks/texts.py --fit                                         the choice, from the cells there are

A text is a sparse row with more columns than there are records. Cells are mean log-losses of two classes on texts that
were not trained on, relative to that of the class frequencies, and accuracies. A setting is a clip, a fraction of the
Lipschitz constant, and what is paid for frequent columns (`sordino.prepare.FrequentColumns`): its share of the budget,
its threshold, and the quantile of the norms after it. Lengths are planned, or such that noise moves the score of a row
of full norm by a deviation p. Settings are chosen by their mean over texts, and judged leave-one-text-out. RCV1 has no
say: `benchmarks/tables.py` reports on it.

Later settings are of the rule that was chosen so: words divided by a power of their released sizes, and training that
begins at the frequency of a class (`sordino.prepare.StartingScore`), in steps as they are or shortened, with a constant
column of another size. They have more runs, and are chosen and judged among themselves; and so are rules for the least
p from some epsilon on, where n mu is 130 to 196, 603 to 914, 1164 to 1766 and 3248 to 4948 at the four epsilons.

FOLDER has, under the names they have there: rt-polarity.pos and rt-polarity.neg (sentences of film reviews; Pang and
Lee 2005), test.csv of AG News, and train_text.txt and train_labels.txt of TweetEval in the folders offensive and hate.
Every one is coded twice, by hashed counts of words and pairs of words, and by their logarithms times inverse document
frequencies without pairs and stop words. Two more are made up: words fall by Zipf's law, and classes are equal or one
to six.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _choosing import left_out_in_turn
from _results import RESULTS, deadline, provenance
from _tables import Table
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from tables import LengthAndClip, auto, scores, trivial

from sordino.budget import Budget
from sordino.methods import NoisyGradientDescent
from sordino.methods.schedule import gaussian_allowance
from sordino.prepare import FrequentColumns, NormQuantile, StartingScore
from sordino.prepare.choice import LEAST_SHARE, SHORTENED

KEPT = RESULTS / "texts.json"
EPSILONS, RUNS = (1.0, 0.1, 3.0, 0.5), 2
COLUMNS = 2**15


class Setting(NamedTuple):
    clip: float
    share: float = 0.0
    threshold: float = 0.0
    quantile: float = 0.0
    deviation: float = 0.0
    power: float = 0.0
    column: float = 0.0
    shortened: bool = False

    @property
    def name(self) -> str:
        paid = f", share {self.share}, threshold {self.threshold}, quantile {self.quantile}" if self.share else ""
        length = f", p = {self.deviation}" if self.deviation else ""
        begun = f", begun{', shortened' if self.shortened else ''}, column {self.column}" if self.column else ""
        return f"clip {self.clip}{paid}{length}{f', power {self.power}' if self.power else ''}{begun}"

    def steps(self, records: int, columns: int, epsilon: float) -> Any:
        if not self.share:
            return None
        words = FrequentColumns(self.share, self.threshold, self.power), NormQuantile(quantile=self.quantile)
        if not self.column:
            return list(words)
        strength = records * gaussian_allowance(columns + 1, Budget(epsilon, 1 / records**2))
        shortening = min(1.0, SHORTENED / strength) if self.shortened else 0.0
        return [StartingScore(LEAST_SHARE, shortening, self.column), *words]

    @property
    def method(self) -> NoisyGradientDescent:
        return (
            LengthAndClip(clip=self.clip, deviation=self.deviation)
            if self.deviation
            else NoisyGradientDescent(clip=self.clip)
        )


SETTINGS = (
    *(Setting(clip) for clip in (0.09, 0.25, 0.35, 0.5)),
    *(Setting(0.5, share, 2.0, 0.4) for share in (0.1, 0.2, 0.35)),
    *(Setting(0.5, 0.2, threshold, 0.4) for threshold in (1.5, 3.0)),
    *(Setting(0.5, 0.2, 2.0, quantile) for quantile in (0.25, 0.6)),
    *(Setting(0.5, 0.2, 2.0, 0.4, deviation) for deviation in (0.15, 0.3, 0.45, 0.6, 0.9)),
    Setting(0.25, 0.2, 2.0, 0.4),
)
RULE = Setting(0.5, 0.2, 2.0, 0.4)
BEGUN = RULE._replace(column=0.1, shortened=True)
LATER = (
    RULE,
    *(RULE._replace(power=power) for power in (0.15, 0.25, 0.4)),
    *(RULE._replace(column=column) for column in (0.1, 0.28)),
    *(RULE._replace(power=power, column=0.1) for power in (0.15, 0.25, 0.4)),
    RULE._replace(power=0.25, column=0.28),
    *(BEGUN._replace(power=power) for power in (0.0, 0.25)),
)
DEVIATIONS = (0.6, 0.9, 1.3)
LONGER = tuple(BEGUN._replace(deviation=p) for p in (0.45, *DEVIATIONS))
RUNS_OF_LATER = 4


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
    X = sparse.csr_array((weights[at], at, np.cumsum([0, *map(len, drawn)])), shape=(records, words))
    return Table(_of_norm_one(X), y, 1.0, 2)


def _of_norm_one(X: Any) -> Any:
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1 / np.where(norms > 0, norms, 1)) @ X)


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8", errors="replace").split("\n")[:-1]


def read(folder: Path) -> Iterator[tuple[str, list[str], Any]]:
    good, bad = _lines(folder / "rt-polarity.pos"), _lines(folder / "rt-polarity.neg")
    yield "reviews", [*good, *bad], np.repeat([1.0, 0.0], [len(good), len(bad)])
    with (folder / "test.csv").open(encoding="utf-8") as file:
        news = list(csv.reader(file))
    topics, told = np.array([int(row[0]) for row in news]), [f"{row[1]} {row[2]}" for row in news]
    yield "news, world and sports", told, (topics <= 2).astype(float)
    yield "news, sports", told, (topics == 2).astype(float)
    for name in ("offensive", "hate"):
        labels = np.array([float(line) for line in _lines(folder / name / "train_labels.txt")])
        yield name, _lines(folder / name / "train_text.txt"), labels


def coded(texts: list[str], by_rarity: bool) -> Any:
    settings: Any = {"stop_words": "english"} if by_rarity else {"ngram_range": (1, 2)}
    X = HashingVectorizer(n_features=COLUMNS, alternate_sign=False, norm=None, **settings).transform(texts)
    return _of_norm_one(TfidfTransformer(sublinear_tf=True).fit_transform(X) if by_rarity else X)


def known_texts(folder: Path) -> dict[str, Table]:
    found = {"Zipf": zipf(1, 0.5), "Zipf, rare": zipf(2, 0.15)}
    for (name, texts, y), by_rarity in itertools.product(read(folder), (False, True)):
        found[f"{name}, {'by rarity' if by_rarity else 'counts'}"] = Table(coded(texts, by_rarity), y, 1.0, 2)
    return found


# --- Measuring ---


def cell(table: Table, epsilon: float, setting: Setting, run: int) -> list[float]:
    """Log-loss relative to that of the class frequencies, and accuracy."""
    split = table.split(run)
    model = auto(split, epsilon, method=setting.method, prepare=setting.steps(*split.X.shape, epsilon))
    loss, accuracy = scores(split, model)
    return [round(loss / trivial(split)[0], 4), round(accuracy, 4)]


def measure(folder: Path, until: str | None, later: bool) -> None:
    """What is not kept yet. The later settings, all of them, are kept apart: they were measured by newer code."""
    whole = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept = whole.setdefault("later", {}) if later else whole
    settings, runs = (LATER + LONGER, RUNS_OF_LATER) if later else (SETTINGS, RUNS)
    known, end = known_texts(folder), deadline(until)
    for epsilon, (name, table) in itertools.product(EPSILONS, known.items()):
        cells = kept.setdefault("texts", {}).setdefault(name, {}).setdefault(str(epsilon), {})
        for setting in settings:
            if setting.name not in cells:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    cells[setting.name] = [cell(table, epsilon, setting, run) for run in range(runs)]
        kept.update(provenance())
        KEPT.write_text(json.dumps(whole, separators=(",", ":")) + "\n")
        print(epsilon, name, {key: np.mean(runs, axis=0).round(3).tolist() for key, runs in cells.items()}, flush=True)
        if datetime.now() >= end:
            return


# --- Choosing ---


def fit(kept: dict[str, Any], epsilons: Sequence[float], settings: Sequence[Setting]) -> dict[str, Any]:
    """Mean relative loss and accuracy of every setting, and what all other texts choose for each."""
    # the same words in two codings are one text
    cells = [(name.partition(",")[0], row[str(one)]) for name, row in kept.items() for one in epsilons]
    names = [setting.name for setting in settings]
    found = np.array([[np.mean(of[name], axis=0) for name in names] for _, of in cells])
    family = np.array([name for name, _ in cells])

    @cache
    def chosen(without: str) -> int:
        return int(found[family != without, :, 0].mean(axis=0).argmin())

    held_out = np.array([found[place, chosen(str(name))] for place, name in enumerate(family)])
    return {
        "mean relative loss and accuracy": dict(zip(names, found.mean(axis=0).round(4).tolist(), strict=True)),
        "every text under the setting that the others choose": held_out.mean(axis=0).round(4).tolist(),
        "chosen without": {str(name): names[chosen(str(name))] for name in sorted(set(family))},
        "cells": len(cells),
    }


def lengths(kept: dict[str, Any]) -> dict[str, Any]:
    """Descents with a p of their own from some epsilon on: the mean relative loss and accuracy of every such rule."""
    cells = [(name.partition(",")[0], e, kept[name][str(e)]) for name in kept for e in EPSILONS]
    rules = [(p, least) for p in DEVIATIONS for least in (*sorted(EPSILONS), math.inf)]
    found = np.array(
        [
            [np.mean(of[(BEGUN._replace(deviation=p) if e >= least else BEGUN).name], axis=0) for p, least in rules]
            for _, e, of in cells
        ]
    )
    family, said = np.array([name for name, *_ in cells]), [f"{p} from epsilon {least}" for p, least in rules]
    held_out, chosen = left_out_in_turn(found[:, :, 0], family)
    return {
        "mean relative loss and accuracy": dict(zip(said, found.mean(axis=0).round(4).tolist(), strict=True)),
        "every text under the rule that the others choose": round(float(held_out.mean()), 4),
        "chosen without": {name: said[best] for name, best in chosen.items()},
        "cells": len(cells),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--later", action="store_true", help="the later settings")
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    if asked.texts:
        measure(asked.texts, asked.until, asked.later)
    if asked.fit:
        whole = json.loads(KEPT.read_text())
        later, plain = whole["later"], [setting for setting in LATER if not setting.power]
        for kept, name, settings in (
            (whole, "fitted", SETTINGS),
            (later, "fitted", LATER),
            (later, "fitted without powers", plain),
        ):
            complete = [one for one in EPSILONS if all(str(one) in row for row in kept["texts"].values())]
            kept[name] = {str(epsilon): fit(kept["texts"], [epsilon], settings) for epsilon in complete}
            kept[name]["one setting for all of these"] = fit(kept["texts"], complete, settings)
        later["fitted lengths"] = lengths(later["texts"])
        KEPT.write_text(json.dumps(whole, separators=(",", ":")) + "\n")
        print(json.dumps({"fitted": whole["fitted"], "later": {**later, "texts": None}}, indent=1))


if __name__ == "__main__":
    main()
