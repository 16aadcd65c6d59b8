"""`sordino fit` on folders of files, in memory and read piece by piece."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sordino.model_file import read_model

WIDE = '[target]\ncolumn = "income"\nclasses = ["low", "high"]\n[columns]\njob = { values = ["clerk", "smith"'


@pytest.fixture(scope="module")
def parts(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of people.parquet in three files of two kinds."""
    table, out = pq.read_table(folder / "people.parquet"), tmp_path_factory.mktemp("parts")
    pq.write_table(table.slice(0, 500), out / "1.parquet", row_group_size=123)
    pa.feather.write_feather(table.slice(500, 300), out / "2.feather", chunksize=100)
    pq.write_table(table.slice(800), out / "3.parquet")
    return out


def coefficients(sordino: Any, data: Path, schema: Path, out: Path, *more: object) -> Any:
    run = sordino("fit", data, "--schema", schema, "--epsilon", 3, "--seed", 7, "--out", out, *more)
    assert run.code == 0, run.errors
    return read_model(out).coef


@pytest.mark.parametrize("memory", [0, 1])
def test_a_folder_is_the_table_it_holds(folder: Path, parts: Path, tmp_path: Path, sordino: Any, memory: int) -> None:
    schema = folder / "schema.toml"
    want = coefficients(sordino, folder / "people.parquet", schema, tmp_path / "1")
    found = coefficients(sordino, parts, schema, tmp_path / "2", "--memory", memory)
    np.testing.assert_array_equal(found, want)
    if memory == 0:
        np.testing.assert_array_equal(
            coefficients(sordino, folder / "people.parquet", schema, tmp_path / "3", "--memory", 0), want
        )


@pytest.mark.parametrize(
    ("target", "more"),
    [
        ('column = "price"\nlow = 1200\nhigh = 1800', ()),
        ('column = "grade"\nclasses = [1, 2, 3]', ()),
        ('column = "income"\nclasses = ["low", "high"]', ("--method", "noisy-sgd")),
    ],
)
def test_other_targets_and_methods(
    folder: Path, parts: Path, tmp_path: Path, sordino: Any, target: str, more: tuple[str, ...]
) -> None:
    schema = tmp_path / "s.toml"
    schema.write_text(f'[target]\n{target}\n[columns]\nage = {{ low = 20, high = 80, missing = "middle" }}\n')
    want = coefficients(sordino, folder / "people.parquet", schema, tmp_path / "1", *more)
    found = coefficients(sordino, parts, schema, tmp_path / "2", "--memory", 0, *more)
    np.testing.assert_array_equal(found, want)


def test_a_wide_schema_is_sparse(folder: Path, parts: Path, tmp_path: Path, sordino: Any) -> None:
    schema = tmp_path / "s.toml"
    schema.write_text(WIDE + "".join(f', "v{k}"' for k in range(300)) + "], other = true }\n")
    want = coefficients(sordino, folder / "people.parquet", schema, tmp_path / "1")
    found = coefficients(sordino, parts, schema, tmp_path / "2", "--memory", 0)
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-9)


def test_a_private_release_is_verified(folder: Path, parts: Path, tmp_path: Path, sordino: Any) -> None:
    out = tmp_path / "m.sordino"
    run = sordino(
        *("fit", parts, "--schema", folder / "schema.toml", "--epsilon", 2, "--delta", 1e-5, "--out", out),
        *("--memory", 0, "--relation", "add_remove", "--records", 1000),
    )
    assert run.code == 0, run.errors
    assert "1237" not in run.text
    assert "not used: id, price, grade." in run.text
    assert sordino("verify", out).code == 0


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            'age = { low = 20, high = 80, missing = "middle" }\njob = { values = ["clerk", "smith"] }',
            "column 'job' has",
        ),
        ("age = { low = 20, high = 80 }", "column 'age' has no number in"),
        ("height = { low = 20, high = 80 }", "lacks 1 of the columns that are needed: 'height'"),
    ],
)
def test_records_that_the_schema_does_not_allow(
    parts: Path, tmp_path: Path, sordino: Any, schema: str, sentence: str
) -> None:
    (tmp_path / "s.toml").write_text(f'[target]\ncolumn = "income"\nclasses = ["low", "high"]\n[columns]\n{schema}\n')
    run = sordino(
        *("fit", parts, "--schema", tmp_path / "s.toml", "--epsilon", 1, "--out", tmp_path / "m", "--memory", 0)
    )
    assert run.code == 2
    assert sentence in run.errors
    assert "baker" not in run.errors


@pytest.mark.parametrize("memory", [0, 1])
def test_every_kind_of_file_is_the_same_table(folder: Path, tmp_path: Path, sordino: Any, memory: int) -> None:
    """Fitted, and predicted as `fit` recommends, with the same results to the last bit."""
    table = pq.read_table(folder / "people.parquet")
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(2):
        pa.csv.write_csv(table.slice(700 * number, 700), parts / f"{number}.csv")
    pa.feather.write_feather(table, tmp_path / "people.arrow")
    found = {}
    for data in (folder / "people.csv", folder / "people.parquet", tmp_path / "people.arrow", parts):
        out = tmp_path / "m.sordino"
        weights = coefficients(sordino, data, folder / "schema.toml", out, "--memory", memory)
        run = sordino("predict", out, data, "--out", tmp_path / "p.csv")
        assert run.code == 0, run.errors
        assert "1237 predictions" in run.text
        found[data.name] = (weights.tolist(), (tmp_path / "p.csv").read_text())
    assert all(result == found["people.csv"] for result in found.values())


def test_a_folder_with_a_foreign_file(folder: Path, tmp_path: Path, sordino: Any) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t.xlsx").write_text("PK")
    run = sordino(
        *("fit", tmp_path / "data", "--schema", folder / "schema.toml", "--epsilon", 1, "--out", tmp_path / "m")
    )
    assert run.code == 2
    assert "t.xlsx has a name that ends in none of .csv" in run.errors


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parts", "people.csv"])
def test_on_the_workers_of_a_cluster(folder: Path, parts: Path, tmp_path: Path, sordino: Any, name: str) -> None:
    schema, data = folder / "schema.toml", parts if name == "parts" else folder / name
    want = coefficients(sordino, data, schema, tmp_path / "1")
    found = coefficients(sordino, data, schema, tmp_path / "2", "--cluster", "local", "--workers", 2)
    np.testing.assert_array_equal(found, want)


def test_a_cluster_of_nobody(folder: Path, parts: Path, tmp_path: Path, sordino: Any) -> None:
    arguments = ("fit", parts, "--schema", folder / "schema.toml", "--epsilon", 1, "--out", tmp_path / "m")
    run = sordino(*arguments, "--cluster", "local", "--workers", 0)
    assert run.code == 2
    assert "there must be one worker at least" in run.errors


def test_workers_without_a_cluster(folder: Path, parts: Path, tmp_path: Path, sordino: Any) -> None:
    arguments = ("fit", parts, "--schema", folder / "schema.toml", "--epsilon", 1, "--out", tmp_path / "m")
    run = sordino(*arguments, "--workers", 2)
    assert run.code == 2
    assert "--workers is 2, and they are a cluster's" in run.errors


def test_where_no_cluster_is_ray_does_not_ask_for_minutes(
    folder: Path, parts: Path, tmp_path: Path, sordino: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("it asks, and prints how it goes"))
    arguments = ("fit", parts, "--schema", folder / "schema.toml", "--epsilon", 1, "--out", tmp_path / "m")
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"):
        run = sordino(*arguments, "--cluster", address)
        assert run.code == 2
        assert f"no Ray cluster at '{address}' (" in run.errors


def test_without_ray_a_cluster_is_a_sentence(
    folder: Path, parts: Path, tmp_path: Path, sordino: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    arguments = ("fit", parts, "--schema", folder / "schema.toml", "--epsilon", 1, "--out", tmp_path / "m")
    run = sordino(*arguments, "--cluster", "local")
    assert run.code == 2
    assert "pip install 'sordino[cluster]'" in run.errors
