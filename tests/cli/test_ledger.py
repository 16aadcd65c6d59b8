"""A budget for a data set, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sordino.budget import Budget, Relation
from sordino.ledger.journal import Journal
from sordino.ledger.ledger import Ledger, whoami
from sordino.privacy.events import GaussianDP
from stored_lines import put, rows

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


@pytest.fixture
def cut_off(tmp_path: Path) -> Path:
    """A ledger with a reservation that a crash left open."""
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.open("people", Budget(2.0, 1e-6))
    ledger.reserve("people", GaussianDP(0.1), Relation.REPLACE_ONE, "first model")
    return path


def test_a_reservation_is_explained(cut_off: Path, sordino: Any) -> None:
    shown = sordino("ledger", "show", cut_off, "--number", 0).text
    entry = Ledger(cut_off).entries("people")[0]
    for part in (
        "first model",
        entry.by,
        entry.reference,
        entry.created,
        "GaussianDP",
        "It counts",
        "--as spent|unused",
    ):
        assert part in shown
    assert "no reservation 1" in sordino("ledger", "show", cut_off, "--number", 1).errors


@pytest.mark.parametrize("verdict", ["spent", "unused"])
def test_settled_by_hand(cut_off: Path, sordino: Any, verdict: str) -> None:
    settle = ("ledger", "settle", cut_off, 0, "--as", verdict, "--why", "the power failed")
    told = sordino(*settle, "--who", "Ada")
    assert told.code == 0
    assert f"Reservation 0 of people is {verdict}" in told.text
    for shown in (sordino("ledger", "show", cut_off).text, sordino("ledger", "show", cut_off, "--number", 0).text):
        assert "Ada" in shown
        assert "power" in shown
    assert (Ledger(cut_off).spent("people") is None) == (verdict == "unused")
    again = sordino(*settle)
    assert (again.code, "already" in again.errors) == (2, True)


def test_a_name_is_written_down_even_if_none_is_given(cut_off: Path, sordino: Any) -> None:
    assert sordino("ledger", "settle", cut_off, 0, "--as", "spent", "--why", "its model was used").code == 0
    assert Ledger(cut_off).entries("people")[0].settled[0].who == whoami()
    assert sordino("ledger", "settle", cut_off, 0, "--as", "spent", "--why", " ").code == 2


def test_a_head_kept_elsewhere(cut_off: Path, tmp_path: Path, sordino: Any, monkeypatch: Any) -> None:
    head = sordino("ledger", "head", cut_off).text.strip()
    assert head == Ledger(cut_off).head()
    sordino("ledger", "settle", cut_off, 0, "--as", "spent", "--why", "its model was used")
    checked = sordino("ledger", "check", cut_off, "--head", head)
    assert (checked.code, "1 reservation." in checked.text) == (0, True)
    put(Ledger(cut_off), rows(Ledger(cut_off))[:2])
    for command in (("check", cut_off), ("show", cut_off), ("head", cut_off)):
        assert "emptied, cut or exchanged" in sordino("ledger", *command).errors
    # and where the state kept apart is lost too
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert sordino("ledger", "check", cut_off).code == 0
    for lost in (head, ""):
        checked = sordino("ledger", "check", cut_off, "--head", lost)
        assert (checked.code, "does NOT hold" in checked.errors) == (1, True)


def test_a_ledger_that_was_removed_is_not_called_new(cut_off: Path, sordino: Any) -> None:
    cut_off.unlink()
    assert "emptied, cut or exchanged" in sordino("ledger", "show", cut_off).errors
    opened = sordino("ledger", "open", cut_off, "people", "--epsilon", 2, "--delta", 1e-6)
    assert (opened.code, "emptied, cut or exchanged" in opened.errors) == (2, True)


def test_an_office_on_the_command_line(address: str, tmp_path: Path, sordino: Any) -> None:
    for name in ("olga", "ada"):
        assert sordino("identity", name, "--folder", tmp_path / name).code == 0
    as_olga = ("--identity", tmp_path / "olga")
    certificates = {name: tmp_path / name / "certificate.pem" for name in ("olga", "ada")}
    assert sordino("ledger", "admit", address, certificates["olga"], "--as", "officer", *as_olga).code == 0
    assert "analyst" in sordino("ledger", "admit", address, certificates["ada"], "--as", "analyst", *as_olga).text
    limits = ("--per-year", 1.5, "--expires", "2999-12-31", "--approval")
    assert sordino("ledger", "open", address, "people", "--epsilon", 2, "--delta", 1e-6, *limits, *as_olga).code == 0
    ledger = Ledger(address, tmp_path / "ada")
    for mu in (0.1, 0.2):
        ledger.request("people", GaussianDP(mu), Relation.REPLACE_ONE, f"mu {mu}")
    shown = sordino("ledger", "show", address).text
    assert "Request 0 of ada, which would protect every record, waits for an officer: mu 0.1" in shown
    assert "may not decide" in sordino("ledger", "approve", address, 0, "--identity", tmp_path / "ada").errors
    assert sordino("ledger", "approve", address, 0, *as_olga).code == 0
    assert sordino("ledger", "refuse", address, 1, "--why", "too much", *as_olga).code == 0
    with ledger.reserve("people", GaussianDP(0.1), Relation.REPLACE_ONE, "a model") as reservation:
        reservation.model = "5d1c" * 16
    told = json.loads(sordino("ledger", "show", address, "--json").text)
    (people,) = told["datasets"]
    stands = ledger.statement("people")
    assert (people["spent"], people["left"], people["reservations"]) == (stands.spent, stands.left, 1)
    assert people["entries"][0]["model"] == "5d1c" * 16
    assert told["head"] == ledger.head()
    shown = sordino("ledger", "show", address).text
    for words in ("Spent: epsilon", "of 1.5; one more", "Request 1 of ada, mu 0.2: refused, by olga. too much"):
        assert words in shown
    checked = sordino("ledger", "check", address, "--head", told["head"])
    assert (checked.code, "Officer: olga" in checked.text) == (0, True)
    assert sordino("ledger", "preview", address, "people").text.count("\n") > 5
    assert f"{ledger.buys('people', 0.3)} more of epsilon 0.3" in (
        sordino("ledger", "preview", address, "people", "--epsilon", 0.3).text
    )


def test_the_first_version_is_imported(tmp_path: Path, sordino: Any) -> None:
    now = {"created": "2025-01-01T00:00:00+00:00"}
    cap = {"kind": "Budget", "epsilon": 2.0, "delta": 1e-6, "relation": "replace_one"}
    with Journal(tmp_path / "old", {"format": "sordino ledger", "version": 1}).writing() as writer:
        writer.append({"kind": "open", "dataset": "people", "cap": cap, **now})
    assert "sordino ledger import" in sordino("ledger", "show", tmp_path / "old").errors
    assert "2 lines" in sordino("ledger", "import", tmp_path / "old", tmp_path / "new").text
    assert "people" in sordino("ledger", "show", tmp_path / "new").text
