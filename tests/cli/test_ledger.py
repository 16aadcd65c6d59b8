"""A budget for a data set, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

METHOD = ("--method", "noisy-gradient-descent")


def fit(sordino: Any, folder: Path, out: Path, ledger: Path, epsilon: float) -> Any:
    options = ("--epsilon", epsilon, "--delta", 1e-6, "--ledger", ledger, "--dataset", "people", *METHOD)
    return sordino("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--out", out, *options)


def test_fits_are_charged_until_the_budget_is_spent(folder: Path, tmp_path: Path, sordino: Any) -> None:
    ledger, model = tmp_path / "ledger", tmp_path / "m.sordino"
    assert sordino("ledger", "open", ledger, "people", "--epsilon", 2, "--delta", 1e-6).code == 0
    assert fit(sordino, folder, model, ledger, 1.0).code == 0
    before = model.read_bytes()
    refused = fit(sordino, folder, model, ledger, 2.0)
    assert refused.code == 2
    assert "so nothing was run" in refused.errors
    assert model.read_bytes() == before
    shown = sordino("ledger", "show", ledger).text
    assert shown.count("spent") == 1
    assert "One more release may ask for epsilon" in shown


def test_what_is_refused(folder: Path, tmp_path: Path, sordino: Any) -> None:
    ledger, model = tmp_path / "ledger", tmp_path / "m.sordino"
    assert "is not open" in fit(sordino, folder, model, ledger, 1.0).errors
    options = ("--schema", folder / "schema.toml", "--epsilon", 1, "--out", model, "--ledger", ledger)
    assert "go together" in sordino("fit", folder / "people.csv", *options).errors
    assert "does not exist" in sordino("ledger", "show", tmp_path / "none").errors
    assert not model.exists()
