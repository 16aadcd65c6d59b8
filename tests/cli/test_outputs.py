"""Every command that writes: what it reads, and what is not its own earlier result, stays, and no budget is spent."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BUDGET = ("--epsilon", 2, "--delta", 1e-5)


@pytest.fixture
def home(folder: Path, model: Path, sordino: Any, tmp_path: Path) -> Path:
    """A folder with everything `fit` reads, and results of another model."""
    for name in ("people.csv", "people.parquet", "schema.toml"):
        shutil.copy(folder / name, tmp_path / name)
    shutil.copy(model, tmp_path / "other.sordino")
    shutil.copy(folder / "certificate.json", tmp_path / "other.json")
    os.link(tmp_path / "people.csv", tmp_path / "copy.csv")
    (tmp_path / "link.csv").symlink_to("people.csv")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "inside").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert sordino("ledger", "open", tmp_path / "ledger", "people", *BUDGET).code == 0
    return tmp_path


def contents(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}


def assert_refused(run: Any, home: Path, before: dict[str, bytes]) -> None:
    assert run.code == 2, run
    assert run.errors.startswith("Error: ")
    assert run.errors.count("\n") == 1
    assert contents(home) == before
    assert (home / "link.csv").is_symlink()
    assert stat.S_ISFIFO((home / "pipe").stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def fit(sordino: Any, home: Path, *outputs: object) -> Any:
    charged = ("--ledger", home / "ledger", "--dataset", "people")
    return sordino("fit", home / "people.csv", "--schema", home / "schema.toml", *BUDGET, *charged, *outputs)


NOT_A_PLACE = (
    *("people.csv", "schema.toml", "ledger", "copy.csv", "link.csv", "notes.txt", "people.parquet"),
    *("inside", "pipe", "absent/m", "inside/../people.csv", "/dev/null"),
)


@pytest.mark.parametrize("name", [*NOT_A_PLACE, "other.json"])
def test_fit_writes_its_model_over_nothing_else(sordino: Any, home: Path, name: str) -> None:
    before = contents(home)
    assert_refused(fit(sordino, home, "--out", home / name), home, before)


@pytest.mark.parametrize("name", [*NOT_A_PLACE, "other.sordino", "other.json", "m.sordino", "inside/../m.sordino"])
def test_fit_writes_its_certificate_over_nothing_else(sordino: Any, home: Path, name: str) -> None:
    before = contents(home)
    assert_refused(fit(sordino, home, "--out", home / "m.sordino", "--certificate", home / name), home, before)


def test_fit_replaces_a_model_and_its_certificate(sordino: Any, home: Path) -> None:
    before = contents(home)
    run = fit(sordino, home, "--out", home / "other.sordino", "--certificate", home / "other.json")
    assert run.code == 0, run.errors
    changed = {name for name, content in contents(home).items() if before.get(name) != content}
    assert changed == {"other.sordino", "other.json", "ledger"}


def test_fit_writes_nothing_among_the_records(sordino: Any, home: Path) -> None:
    (home / "records").mkdir()
    shutil.move(home / "people.parquet", home / "records" / "people.parquet")
    out = home / "records" / "m.sordino"
    run = sordino("fit", home / "records", "--schema", home / "schema.toml", *BUDGET, "--out", out)
    assert run.code == 2
    assert "that is read: write a model file elsewhere." in run.errors
    assert os.listdir(home / "records") == ["people.parquet"]


@pytest.mark.parametrize("name", [*NOT_A_PLACE, "other.sordino", "other.json"])
def test_predict_writes_over_nothing_else(sordino: Any, home: Path, name: str) -> None:
    before = contents(home)
    run = sordino("predict", home / "other.sordino", home / "people.csv", "--out", home / name)
    assert_refused(run, home, before)


def test_predict_replaces_predictions_but_not_those_it_reads(sordino: Any, home: Path) -> None:
    out = home / "predictions.csv"
    for _ in range(2):
        assert sordino("predict", home / "other.sordino", home / "people.csv", "--out", out).code == 0
    before = contents(home)
    assert_refused(sordino("predict", home / "other.sordino", out, "--out", out), home, before)


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_plan_draws_over_nothing_but_its_plot(
    sordino: Any, home: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    one = SimpleNamespace(name="a method", feasible=True, excess=0.1, bound=None, noise=1.0, passes=1)
    monkeypatch.setattr("sordino.planner.candidates", lambda *_: [one])
    plan = ("plan", "--records", 1000, "--features", 3, "--epsilon", 1, "--method", "output-perturbation", "--plot")
    plot = home / f"plot.{ending}"
    for _ in range(2):
        assert sordino(*plan, plot).code == 0
    (home / f"mine.{ending}").write_bytes(b"a picture of mine")
    before = contents(home)
    for name in (f"mine.{ending}", *NOT_A_PLACE):
        assert_refused(sordino(*plan, home / name), home, before)


def test_the_demo_replaces_its_own_files_alone(tmp_path: Path) -> None:
    from sordino.demo import run

    for name in ("model.sordino", "certificate.json", "report.html"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(FileExistsError, match=f"{name} exists and is not"):
            run(tmp_path, 1)
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).unlink()
