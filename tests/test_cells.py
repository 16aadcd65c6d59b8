"""Whatever does not fit in a table, in files or in memory: no error, nor anything it carries, holds a cell.

Nor the number or the place of the records concerned: every case is tried with one and with three of them, and the
sentence is the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from sordino import files
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.estimators.networks import PrivateMLPClassifier, PrivateMLPRegressor
from sordino.estimators.regressors import PrivateHuberRegressor
from sordino.model_file import read_model, save_model
from sordino.oracle.files.encoded import EncodedTable
from sordino.oracle.files.memory import Memory
from sordino.tabular import Boolean, Category, ClassTarget, Number, NumberTarget, Schema
from sordino.tabular.encode import encode_features, encode_target
from sordino.tabular.read import open_table, read_features, read_records

SECRET = "4711"
N = 40
SCHEMA = Schema(ClassTarget("y", ("a", "b")), {"age": Number(0, 9), "job": Category(("p", "q")), "fit": Boolean()})
CLEAN = {"age": ["1", "2"] * 20, "job": ["p", "q"] * 20, "fit": ["yes", "no"] * 20, "y": ["a", "b"] * 20}

Case = Callable[[Path, int], object]


def with_cells(name: str, count: int, cell: Any = SECRET) -> dict[str, list[Any]]:
    """The clean table with `count` cells of a column that do not fit."""
    column = list(CLEAN[name])
    column[3 : 3 + count] = [cell] * count
    return {**CLEAN, name: column}


def csv(folder: Path, table: dict[str, list[Any]], header: bool = True) -> Path:
    lines = [",".join(table)] * header + [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder / "t.csv"


def parquet(folder: Path, table: Any, name: str = "t.parquet") -> Path:
    pa.parquet.write_table(pa.table(table), folder / name)
    return folder / name


def feather(folder: Path, table: Any) -> Path:
    pa.feather.write_feather(pa.table(table), folder / "t.arrow", compression="uncompressed")
    return folder / "t.arrow"


def encoded(table: Any, schema: Schema = SCHEMA) -> object:
    return encode_features(schema, table), encode_target(schema, table)


def from_csv(folder: Path, table: dict[str, list[Any]], header: bool = True) -> object:
    return read_records(open_table(csv(folder, table, header), SCHEMA), SCHEMA)


def rows(count: int, cell: Any = f"{SECRET}x") -> list[list[Any]]:
    return [[0.5, cell if k < count else -0.5] for k in range(N)]


def labels(count: int, cell: Any, rest: Any) -> list[Any]:
    return [cell] * count + [rest] * (N - count)


def classifier() -> Any:
    return PrivateLogisticRegression(1.0, 1e-6, row_norm=2.0, classes=["a", "b"])


def regressor() -> Any:
    return PrivateHuberRegressor(1.0, 1e-6, row_norm=2.0, target_bound=1.0)


def fitted() -> Any:
    return classifier().fit(np.array(rows(0), dtype=float), ["a", "b"] * 20)


def loaded(folder: Path) -> Any:
    estimator = SimpleNamespace(
        coef_=np.ones((1, 2)), intercept_=np.zeros(1), certificate_=SimpleNamespace(to_json=lambda: "{}")
    )
    save_model(estimator, folder / "m")
    return read_model(folder / "m")


def frame(names: list[str]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(np.array(rows(0), dtype=float), columns=names)


def network(**settings: Any) -> Any:
    return {"epochs": 1, "hidden_layer_sizes": (2,), "row_norm": 2.0, "delta": 1e-6, **settings}


CASES: dict[str, Case] = {
    "text for a number": lambda folder, k: from_csv(folder, with_cells("age", k, f"{SECRET}x")),
    "infinite number": lambda folder, k: from_csv(folder, with_cells("age", k, "inf")),
    "unlisted value": lambda folder, k: from_csv(folder, with_cells("job", k)),
    "neither true nor false": lambda folder, k: from_csv(folder, with_cells("fit", k)),
    "unknown class": lambda folder, k: from_csv(folder, with_cells("y", k)),
    "short lines": lambda folder, k: (
        folder.joinpath("t.csv").write_text("age,job,fit,y\n1,p,yes,a\n" + f"{SECRET},p\n" * k),
        read_features(open_table(folder / "t.csv", SCHEMA), SCHEMA),
    ),
    "no header": lambda folder, k: from_csv(folder, {**CLEAN, "age": [SECRET] * N}, header=False),
    "no header, and a value is a column's name": lambda folder, k: from_csv(
        folder, {**{**CLEAN, "age": [SECRET] * N}, "job": ["job"] * 40}, header=False
    ),
    "no header, and two cells are the same": lambda folder, k: from_csv(
        folder, {**{**CLEAN, "age": [SECRET] * N}, "job": [SECRET] * 40}, header=False
    ),
    "no header, and a cell is nearly a column's name": lambda folder, k: from_csv(
        folder, {**CLEAN, "age": ["job"] * 40, "y": [f"agee{SECRET}"] * 40}, header=False
    ),
    "in memory, mixed": lambda _, k: encoded(with_cells("age", k, int(SECRET))),
    "in memory, a record as names": lambda _, k: encoded({SECRET: [1], "q": ["p"], "no": ["yes"], "a": ["b"]}),
    "in memory, two names the same": lambda _, k: encoded(
        pa.table([["1"], ["p"], ["yes"], ["a"], ["x"], ["z"]], names=["age", "job", "fit", "y", SECRET, SECRET])
    ),
    "in memory, structs": lambda _, k: encoded({**CLEAN, "age": [{f"k{SECRET}": 1}] * 40}),
    "in memory, lists": lambda _, k: encoded({**CLEAN, "job": [[SECRET]] * 40}),
    "in memory, a number too large": lambda _, k: encoded(with_cells("age", k, 10**400)),
    "in memory, a broken text": lambda _, k: encoded(with_cells("age", k, f"\ud800{SECRET}")),
    "number target": lambda _, k: encode_target(
        Schema(NumberTarget("y", 0, 1), {"x": Boolean()}), {"y": [f"{SECRET}x"] * k + ["1"]}
    ),
    "encoded file": lambda folder, k: EncodedTable(parquet(folder, with_cells("job", k)), SCHEMA).check(),
    "encoded file, a record as names": lambda folder, k: EncodedTable(parquet(folder, {SECRET: [1], "p": [2]}), SCHEMA),
    "file, a record as names": lambda folder, k: files.Table(parquet(folder, {SECRET: [1.0], "y4": [0.0]}), "y"),
    "file, two names the same": lambda folder, k: files.Table(
        feather(folder, pa.table([[1.0], [2.0], [0.0]], names=[SECRET, SECRET, "y"])), "y"
    ),
    "folder, other names": lambda folder, k: (
        parquet(folder, {SECRET: [1.0], "y": [0.0]}, "1.parquet"),
        parquet(folder, {"x": [1.0], "y": [0.0]}, "2.parquet"),
        files.Table(folder, "y"),
    ),
    "folder, more names": lambda folder, k: (
        parquet(folder, {"x": [1.0], "y": [0.0]}, "1.parquet"),
        parquet(folder, {"x": [1.0], "y": [0.0], SECRET: [2.0]}, "2.parquet"),
        files.Table(folder, "y"),
    ),
    "file, structs": lambda folder, k: files.Table(parquet(folder, {"x": [{f"k{SECRET}": 1}], "y": [0.0]}), "y"),
    "file, unknown label": lambda folder, k: classifier().fit(
        files.Table(parquet(folder, {"x": [0.5] * N, "y": labels(k, SECRET, "a")}), "y")
    ),
    "classifier, text": lambda _, k: classifier().fit(rows(k), ["a", "b"] * 20),
    "classifier, text in an array": lambda _, k: classifier().fit(np.array(rows(k), dtype=object), ["a", "b"] * 20),
    "classifier, unknown label": lambda _, k: classifier().fit(rows(0), labels(k, SECRET, "a")),
    "classifier, missing label": lambda _, k: classifier().fit(rows(0), np.array(labels(k, None, "a"), dtype=object)),
    "classifier, label of another kind": lambda _, k: classifier().fit(
        rows(0), np.array(labels(k, int(SECRET), "a"), dtype=object)
    ),
    "regressor, text": lambda _, k: regressor().fit(rows(k), [0.5] * N),
    "regressor, text for a target": lambda _, k: regressor().fit(
        rows(0), np.array(labels(k, f"{SECRET}x", 0.5), dtype=object)
    ),
    "perceptron, text": lambda _, k: PrivateMLPClassifier(1.0, **network(classes=[0, 1])).fit(rows(k), [0, 1] * 20),
    "perceptron, unknown label": lambda _, k: PrivateMLPClassifier(1.0, **network(classes=["a", "b"])).fit(
        rows(0), labels(k, SECRET, "a")
    ),
    "perceptron, text for a target": lambda _, k: PrivateMLPRegressor(1.0, **network(target_bound=1.0)).fit(
        rows(0), np.array(labels(k, f"{SECRET}x", 0.5), dtype=object)
    ),
    "prediction, text": lambda _, k: fitted().predict(rows(k)),
    "prediction, text for a model file": lambda folder, k: loaded(folder).predict(rows(k)),
    "prediction, a record as names": lambda _, k: (
        classifier().fit(frame(["u", "v"]), ["a", "b"] * 20).predict(frame([SECRET, "v"]))
    ),
}


def told(error: BaseException | None) -> str:
    """Everything an error says, what led to it included."""
    if error is None:
        return ""
    notes = " ".join(getattr(error, "__notes__", ()))
    return f"{error} {error!r} {notes} {told(error.__cause__)} {told(error.__context__)}"


@pytest.mark.parametrize("case", CASES)
def test_no_cell_is_quoted(tmp_path: Path, case: str) -> None:
    sentences = set()
    for count in (1, 3):
        folder = tmp_path / str(count)
        folder.mkdir()
        with warnings.catch_warnings(record=True, action="always") as warned, pytest.raises(ValueError) as caught:  # noqa: PT011
            CASES[case](folder, count)
        assert str(caught.value).endswith(".")
        assert SECRET not in told(caught.value)
        assert not any(SECRET in str(warning.message) for warning in warned)
        sentences.add(str(caught.value).replace(str(folder), ""))
    assert len(sentences) == 1


def test_records_in_memory_are_not_in_the_words_for_their_source() -> None:
    source = Memory.of(np.full((3, 2), float(SECRET)), np.full(3, float(SECRET)))
    assert SECRET not in repr(source)


@pytest.mark.parametrize("kind", [parquet, feather])
@pytest.mark.parametrize(
    "column",
    [
        [None, *[0.25] * (N - 1)],
        [None] * N,
        pa.array([None, *[1] * (N - 1)], pa.int8()),
        pa.array([0.25] * N, pa.float32()),
        pa.array([None] * N, pa.float64()),
    ],
)
def test_a_null_is_not_a_number(tmp_path: Path, kind: Any, column: Any) -> None:
    """It counts as it would in memory, and its column may be beside others of any kind."""
    if isinstance(column, list) and not any(column):
        column = pa.array(column, pa.float64())
    table = pa.table({"u": [0.5] * N, "v": column, "y": ["a", "b"] * 20})
    model = classifier().fit(files.Table(kind(tmp_path, table), "y"))
    assert np.isfinite(model.coef_).all()
