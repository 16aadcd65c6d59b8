"""Whatever is wrong with the input: one sentence, exit code 2, no traceback, no file, no cell repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SECRET = "4711"
TARGET = '[target]\ncolumn = "y"\nclasses = ["a", "b"]\n'
SCHEMA = TARGET + '[columns]\nage = { low = 0, high = 9 }\njob = { values = ["p", "q"] }\n'
TABLE = "age,job,y\n" + "1,p,a\n2,q,b\n" * 50


def fit(sordino: Any, folder: Path, *extra: object, table: str = TABLE, schema: str = SCHEMA) -> Any:
    (folder / "t.csv").write_text(table)
    (folder / "s.toml").write_text(schema)
    budget = () if "--epsilon" in extra else ("--epsilon", 1)
    out = () if "--out" in extra else ("--out", folder / "m.sordino")
    return sordino("fit", folder / "t.csv", "--schema", folder / "s.toml", *budget, *out, *extra)


def assert_refused(run: Any, sentence: str) -> None:
    assert run.code == 2, run
    assert sentence in run.errors
    assert run.errors.startswith("Error: ")
    assert run.errors.count("\n") == 1
    assert "Traceback" not in run.errors
    assert SECRET not in run.errors + run.text


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("", "t.csv has no records: the file is empty."),
        ("age,job,y\n", "t.csv has no records."),
        ("age,jobs,y\n1,p,a\n", "lacks 1 of the columns that are needed: 'job' (column 2 has a similar name)"),
        ("age,job\n1,p\n", "lacks 1 of the columns that are needed: 'y'"),
        (TABLE + f"3,{SECRET},a\n", "column 'job' has a missing or unlisted value in at least one record: list it"),
        (TABLE + f"{SECRET}x,p,a\n", "column 'age' has text that is not a number in at least one record"),
        (TABLE + "nan,p,a\n,q,b\n", "column 'age' has no number in at least one record"),
        (TABLE + "inf,p,a\n", "column 'age' has an infinite number in at least one record"),
        (TABLE + f"1,p,{SECRET}\n", "column 'y' has no label among the schema's `classes` in at least one record"),
        (TABLE + f"1,{SECRET}\n", "a line with more or fewer fields than its header"),
        (TABLE + f'"{SECRET},p,a\n', "t.csv"),
    ],
)
def test_a_table_that_does_not_fit(sordino: Any, tmp_path: Path, table: str, sentence: str) -> None:
    assert_refused(fit(sordino, tmp_path, table=table), sentence)
    assert not (tmp_path / "m.sordino").exists()


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (("--epsilon", 0), "epsilon is 0.0: it must be a positive finite number"),
        (("--epsilon", -1), "epsilon is -1.0"),
        (("--epsilon", "nan"), "epsilon is nan"),
        (("--epsilon", "inf"), "epsilon is inf"),
        (("--delta", 1), "delta is 1.0: it must lie in [0, 1)"),
        (("--delta", -0.1), "delta is -0.1"),
        (("--delta", "nan"), "delta is nan"),
        (("--delta", 0, "--method", "noisy-gradient-descent"), "delta is 0, but noisy gradient descent adds Gaussian"),
        (("--method", "noisy-gradient-decent"), "Did you mean noisy-gradient-descent?"),
        (("--l2", -1), "l2 is -1.0"),
        (("--records", 5), "records is 5"),
        (("--seed", -3), "seed is -3"),
        (("--out", "/no such folder/m.sordino"), "/no such folder is not a folder"),
        (("--certificate", "/no such folder/c.json"), "/no such folder is not a folder"),
    ],
)
def test_an_option_that_does_not_fit(sordino: Any, tmp_path: Path, extra: Any, sentence: str) -> None:
    run = fit(sordino, tmp_path, *extra)
    if "--seed" in extra:
        run = type(run)(run.code, run.text, run.errors.split("\n", 1)[1])
    assert_refused(run, sentence)
    assert not (tmp_path / "m.sordino").exists()


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (SCHEMA.replace(', "b"]', "]"), "s.toml: [target]: the target has 1 class"),
        (TARGET, "s.toml: the schema has no [columns] table"),
        ("[target", "s.toml: the schema is not TOML"),
    ],
)
def test_a_schema_that_does_not_fit(sordino: Any, tmp_path: Path, schema: str, sentence: str) -> None:
    assert_refused(fit(sordino, tmp_path, schema=schema), sentence)


def test_files_that_cannot_be_read(sordino: Any, tmp_path: Path, model: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1" + SECRET.encode() * 20 + b"PAR1")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    for name, sentence in (
        ("absent.csv", "absent.csv: No such file or directory."),
        ("folder.csv", "folder.csv"),
        ("damaged.parquet", "damaged.parquet is damaged"),
        ("t.xlsx", "save the table as one of them"),
    ):
        arguments = ("--schema", tmp_path / "s.toml", "--epsilon", 1, "--out", tmp_path / "m")
        assert_refused(sordino("fit", tmp_path / name, *arguments), sentence)
        assert_refused(sordino("predict", model, tmp_path / name, "--out", tmp_path / "p.csv"), sentence)
    assert_refused(
        sordino(
            "fit", tmp_path / "t.csv", "--schema", tmp_path / "absent.toml", "--epsilon", 1, "--out", tmp_path / "m"
        ),
        "absent.toml: No such file or directory.",
    )
    assert_refused(sordino("verify", tmp_path / "absent.json"), "absent.json: No such file or directory.")
    assert_refused(
        sordino("predict", tmp_path / "absent", tmp_path / "t.csv", "--out", tmp_path / "p"),
        "No such file or directory.",
    )


def test_more_or_fewer_columns_when_predicting(sordino: Any, tmp_path: Path, model: Path) -> None:
    (tmp_path / "fewer.csv").write_text("age,job\n30,clerk\n")
    run = sordino("predict", model, tmp_path / "fewer.csv", "--out", tmp_path / "p.csv")
    assert_refused(run, "fewer.csv lacks 1 of the columns that are needed: 'member'")
    assert not (tmp_path / "p.csv").exists()
    (tmp_path / "more.csv").write_text("age,job,member,height\n30,clerk,yes,180\n")
    run = sordino("predict", model, tmp_path / "more.csv", "--out", tmp_path / "p.csv")
    assert run.code == 0
    assert run.text.startswith("1 prediction of ")


def test_a_file_that_is_not_a_model(sordino: Any, tmp_path: Path, folder: Path) -> None:
    run = sordino("predict", folder / "people.csv", folder / "people.csv", "--out", tmp_path / "p.csv")
    assert_refused(run, "people.csv: this is not a Sordino model file")


def test_a_model_without_a_schema_cannot_read_a_table(sordino: Any, tmp_path: Path, model: Path, folder: Path) -> None:
    from types import SimpleNamespace

    from sordino.model_file import read_model, save_model

    loaded = read_model(model)
    bare = SimpleNamespace(
        coef_=loaded.coef, intercept_=loaded.intercept, classes_=loaded.classes, certificate_=loaded.certificate
    )
    save_model(bare, tmp_path / "bare.sordino")
    run = sordino("predict", tmp_path / "bare.sordino", folder / "people.csv", "--out", tmp_path / "p.csv")
    assert_refused(run, "bare.sordino has no schema")
