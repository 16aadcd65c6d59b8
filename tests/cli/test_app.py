"""The program as a whole: how it starts, what it imports, and how it ends when run as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from sordino.tabular import Schema

HEAVY = ("numpy", "scipy", "sklearn", "numba", "pyarrow", "pandas", "dp_accounting")


def program(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sordino", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_lists_the_commands_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "sys.argv = ['sordino', '--help']\n"
        "from sordino.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('HEAVY', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in ("fit", "predict", "verify", "account", "plan", "schema"):
        assert command in done.stdout
    assert "HEAVY []" in done.stdout


def test_version(sordino: Any) -> None:
    run = sordino("--version")
    assert (run.code, run.text) == (0, f"sordino {version('sordino')}\n")


def test_as_a_program_on_a_terminal(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.sordino"
    fit = program(
        *("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 2, "--out", model),
        *("--method", "noisy-gradient-descent"),
        FORCE_COLOR="1",  # Rich then takes the pipe for a terminal
        COLUMNS="200",
    )
    assert fit.returncode == 0, fit.stderr
    assert "differential privacy" in fit.stdout
    # steps, time and budget
    assert "Training" in fit.stderr
    assert "steps" in fit.stderr
    assert "epsilon 2" in fit.stderr
    verify = program("verify", model)
    assert verify.returncode == 0, verify.stderr
    assert "VERIFIED" in verify.stdout


def test_a_refusal_as_a_program(folder: Path, tmp_path: Path) -> None:
    done = program("fit", folder / "people.csv", "--schema", tmp_path / "absent.toml", "--epsilon", 1, "--out", "m")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"Error: {tmp_path / 'absent.toml'}: No such file or directory.\n"


def test_without_the_libraries_of_the_command_line() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom sordino.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr == "The command line needs typer, which is not installed: pip install 'sordino[cli]'.\n"


def test_a_bug_keeps_its_traceback(sordino: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Path) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Schema, "load", broken)
    with pytest.raises(ZeroDivisionError):
        sordino("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 1, "--out", folder / "m")


def test_what_pyarrow_says_is_not_passed_on(sordino: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    def quoting(_: Path) -> None:
        raise pa.ArrowInvalid("could not convert '4711'")

    monkeypatch.setattr(Schema, "load", quoting)
    run = sordino(
        "fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 1, "--out", folder / "m"
    )
    assert (run.code, run.errors) == (2, "Error: the table could not be read.\n")


def test_a_schema_to_fill_in(sordino: Any) -> None:
    run = sordino("schema", "age", "hours per week", "--target", "income")
    assert run.code == 0
    filled = run.text.replace("age = { }", "age = { low = 0, high = 9 }").replace("= { }", "= { boolean = true }")
    schema = Schema.from_toml(filled.replace("classes = []", 'classes = ["a", "b"]'))
    assert list(schema.columns) == ["age", "hours per week"]
    assert schema.target.column == "income"


def test_a_table_is_no_name_of_a_column(sordino: Any) -> None:
    run = sordino("schema", "people.csv", "--target", "income")
    assert (run.code, run.text) == (2, "")
    assert "people.csv is a table: give the names of its columns" in run.errors
