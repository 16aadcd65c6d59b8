"""`sordino report` and `sordino explain`: the same words in both and in `verify`; a sentence for bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from html_pages import text_of
from sordino.budget import Budget
from sordino.ledger.ledger import Ledger
from sordino.model_file import read_model
from sordino.privacy.events import Gaussian
from sordino.reporting import Evaluation, Measure
from sordino.words import HEADINGS, explain


def test_report_explain_and_verify_use_the_same_words(sordino: Any, model: Path, tmp_path: Path) -> None:
    explained, verified = sordino("explain", model), sordino("verify", model)
    written = sordino("report", model, "-o", tmp_path / "report.html")
    assert explained.code == verified.code == written.code == 0, written.errors
    page = text_of((tmp_path / "report.html").read_text())
    for heading, sentence in explain(read_model(model).certificate):
        for text in (explained.text, verified.text, page):
            assert heading in text
            assert sentence in text
    assert len(explained.text.strip().splitlines()) == len(HEADINGS) == 5


def test_a_certificate_is_explained_as_its_model_is(sordino: Any, model: Path, folder: Path) -> None:
    assert sordino("explain", folder / "certificate.json").text == sordino("explain", model).text


def test_everything_that_is_given_is_on_the_page(sordino: Any, model: Path, folder: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger")
    ledger.open("survey 2024", Budget(5.0, 1e-5))
    certificate = read_model(model).certificate
    with ledger.reserve("survey 2024", certificate.event, certificate.relation, "the model"):
        pass
    Evaluation(certificate.weights, "public ones", (Measure("right", 0.7),)).save(tmp_path / "evaluation.json")
    run = sordino(
        *("report", model, "--out", tmp_path / "report.html", "--title", "For the office"),
        *("--schema", folder / "schema.toml", "--ledger", tmp_path / "a.ledger", "--dataset", "survey 2024"),
        *("--evaluation", tmp_path / "evaluation.json"),
    )
    assert run.code == 0, run.errors
    page = text_of((tmp_path / "report.html").read_text())
    for part in ("For the office", "survey 2024", "public ones", "this model's reservation 0"):
        assert part in page


@pytest.fixture
def seeded(sordino: Any, folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "seeded.sordino"
    run = sordino(
        *("fit", folder / "people.parquet", "--schema", folder / "schema.toml", "--epsilon", 2, "--delta", 1e-5),
        *("--out", path, "--seed", 3),
    )
    assert run.code == 0, run.errors
    return path


def test_what_does_not_hold_ends_with_one_and_says_so(sordino: Any, seeded: Path, tmp_path: Path) -> None:
    run = sordino("report", seeded, "-o", tmp_path / "report.html")
    assert run.code == 1
    assert "NOT VERIFIED" in run.errors
    assert "This model is not private." in (tmp_path / "report.html").read_text()
    run = sordino("explain", seeded)
    assert run.code == 1
    assert "Nothing is promised" in run.text


def test_a_ledger_entry_is_explained(sordino: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = Ledger(path)
    ledger.open("survey", Budget(2.0, 1e-6))
    with ledger.reserve("survey", Gaussian(10.0), Budget(1.0).relation, "a mean"):
        pass
    run = sordino("explain", path, "--number", 0)
    assert run.code == 0, run.errors
    assert len(run.text.strip().splitlines()) == 5
    assert "Reservation 0 (a mean) of the data set survey is spent" in run.text
    assert "of a cap of epsilon 2" in run.text
    assert "name a reservation in it" in sordino("explain", path).errors
    assert "there is no reservation 7" in sordino("explain", path, "--number", 7).errors


@pytest.mark.parametrize("command", ["report", "explain"])
def test_a_file_that_is_neither_gets_a_sentence(sordino: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.csv").write_text("age,y\n4711,a\n")
    run = sordino(command, tmp_path / "notes.csv", *(("-o", tmp_path / "r.html") if command == "report" else ()))
    assert run.code in (1, 2)
    assert "not a certificate" in run.errors
    assert "4711" not in run.text + run.errors
    assert not (tmp_path / "r.html").exists()
