"""`sordino evaluate`: from files to an evaluation that is verified, explained, reported, charged and decided by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from html_pages import text_of
from sordino.budget import Budget
from sordino.evaluation_file import Evaluation
from sordino.ledger.ledger import Ledger
from sordino.model_file import read_model
from sordino.words import explain


@pytest.fixture(scope="module")
def evaluation(sordino: Any, model: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evaluated") / "evaluation.json"
    run = sordino(
        *("evaluate", model, folder / "people.csv", "--epsilon", 5, "--delta", 1e-5, "--out", path),
        *("--positive", "high", "--recall", 0.9, "--description", "1,237 people of a made-up table"),
    )
    assert run.code == 0, run.errors
    for part in ("accuracy", "recall of high", "threshold for a recall of 0.9", "high taken for low", "(5, 1e-05)"):
        assert part in run.text
    return path


def test_it_is_verified_and_explained(sordino: Any, evaluation: Path) -> None:
    verified, explained = sordino("verify", evaluation), sordino("explain", evaluation)
    assert verified.code == explained.code == 0, verified.errors
    assert "VERIFIED: (5, 1e-05)-differential privacy" in verified.text
    certificate = Evaluation.load(evaluation).certificate
    assert certificate is not None
    for _, sentence in explain(certificate):
        assert sentence in verified.text
        assert sentence in explained.text
    assert "Whoever sees this evaluation learns little" in explained.text


def test_a_changed_measure_is_not_verified(sordino: Any, evaluation: Path, tmp_path: Path) -> None:
    found = Evaluation.load(evaluation)
    text = found.to_json().replace(f'"value": {found.measures[0].value}', '"value": 0.999999', 1)
    text = text.replace(f'"high": {found.measures[0].high}', '"high": 0.9999999', 1)
    (tmp_path / "forged.json").write_text(text)
    run = sordino("verify", tmp_path / "forged.json")
    assert run.code == 1
    assert "do not follow from what was released" in run.text


def test_a_public_evaluation_has_nothing_to_verify(sordino: Any, tmp_path: Path) -> None:
    Evaluation("ab" * 32, "public ones", ()).save(tmp_path / "public.json")
    run = sordino("verify", tmp_path / "public.json")
    assert run.code == 1
    assert "no certificate" in run.errors


def test_the_report_shows_it_with_its_price(sordino: Any, model: Path, evaluation: Path, tmp_path: Path) -> None:
    run = sordino("report", model, "-o", tmp_path / "report.html", "--evaluation", evaluation)
    assert run.code == 0, run.errors
    page = text_of((tmp_path / "report.html").read_text())
    for part in (
        "1,237 people of a made-up table",
        "Confusion matrix",
        "Calibration",
        "protected by itself: (5, 1e-05)",
    ):
        assert part in page
    assert "Nothing is promised about this evaluation" not in page


def test_predictions_by_the_chosen_threshold(
    sordino: Any, model: Path, folder: Path, evaluation: Path, tmp_path: Path
) -> None:
    for name, given in (("own.csv", ()), ("chosen.csv", ("--evaluation", evaluation))):
        run = sordino("predict", model, folder / "people.parquet", "--out", tmp_path / name, *given)
        assert run.code == 0, run.errors
    true = pyarrow.csv.read_csv(folder / "people.csv")["income"].to_pylist()
    said = pyarrow.csv.read_csv(tmp_path / "chosen.csv")["prediction"].to_pylist()
    recall = sum(a == b == "high" for a, b in zip(true, said, strict=True)) / true.count("high")
    assert 0.8 <= recall <= 1
    # as many as the evaluation says, up to its noise
    share = next(one for one in Evaluation.load(evaluation).measures if one.name == "share predicted high, there")
    assert share.low is not None
    assert share.high is not None
    assert share.low <= said.count("high") / len(said) <= share.high


@pytest.fixture
def another(sordino: Any, folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "another.sordino"
    run = sordino(
        *("fit", folder / "people.parquet", "--schema", folder / "schema.toml", "--epsilon", 2, "--delta", 1e-5),
        *("--out", path),
    )
    assert run.code == 0, run.errors
    return path


def test_the_evaluation_of_another_model_decides_nothing(
    sordino: Any, another: Path, folder: Path, evaluation: Path, tmp_path: Path
) -> None:
    run = sordino("predict", another, folder / "people.csv", "--out", tmp_path / "p.csv", "--evaluation", evaluation)
    assert run.code == 2
    assert "an evaluation of another model" in run.errors
    run = sordino("report", another, "-o", tmp_path / "report.html", "--evaluation", evaluation)
    assert run.code == 2
    assert "the evaluation is of another model" in run.errors


def test_it_is_charged_and_signed(sordino: Any, model: Path, folder: Path, tmp_path: Path) -> None:
    assert sordino("identity", "office", "--folder", tmp_path / "office").code == 0
    ledger = Ledger(tmp_path / "a.ledger")
    ledger.open("held out", Budget(1.0, 1e-5))
    out = tmp_path / "evaluation.json"
    asked = (
        *("evaluate", model, folder / "people.csv", "--epsilon", 0.8, "--delta", 1e-5, "--out", out),
        *("--sign", tmp_path / "office", "--ledger", tmp_path / "a.ledger", "--dataset", "held out"),
    )
    run = sordino(*asked)
    assert run.code == 0, run.errors
    certificate = Evaluation.load(out).certificate
    assert certificate is not None
    (entry,) = ledger.entries("held out")
    assert entry.model == certificate.weights
    assert sordino("verify", out, "--signer", tmp_path / "office" / "certificate.pem").code == 0
    again = sordino(*asked)
    assert again.code == 2
    assert len(ledger.entries("held out")) == 1


def test_persons_and_a_seed(sordino: Any, model: Path, folder: Path, tmp_path: Path) -> None:
    run = sordino(
        *("evaluate", model, folder / "people.csv", "--epsilon", 1, "--out", tmp_path / "e.json"),
        *("--person", "id", "--per-person", 2, "--seed", 3),
    )
    assert run.code == 0, run.errors
    assert "NOT PRIVATE" in run.errors
    assert "all records of any one person" in run.errors
    assert sordino("verify", tmp_path / "e.json").code == 1


def test_a_model_of_a_number(sordino: Any, folder: Path, tmp_path: Path) -> None:
    schema = (
        (folder / "schema.toml")
        .read_text()
        .replace('column = "income"\nclasses = ["low", "high"]', 'column = "price"\nlow = 1000\nhigh = 2000')
    )
    (tmp_path / "schema.toml").write_text(schema)
    fitted = sordino(
        "fit",
        folder / "people.csv",
        "--schema",
        tmp_path / "schema.toml",
        "--epsilon",
        3,
        "--out",
        tmp_path / "m.sordino",
    )
    assert fitted.code == 0, fitted.errors
    given = ("evaluate", tmp_path / "m.sordino", folder / "people.csv", "--epsilon", 3, "--out", tmp_path / "e.json")
    run = sordino(*given, "--error-bound", 300)
    assert run.code == 0, run.errors
    assert "RMSE" in run.text
    assert sordino("verify", tmp_path / "e.json").code == 0
    run = sordino(*given, "--recall", 0.9)
    assert run.code == 2
    assert "recall was given, and a model of a number has none" in run.errors


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--epsilon", -1), "epsilon is -1"),
        (("--epsilon", 1, "--recall", 90), "recall is 90"),
        (("--epsilon", 1, "--positive", "rich"), "positive is 'rich'"),
        (("--epsilon", 1, "--recall", 0.5, "--precision", 0.5), "give one of"),
        (("--epsilon", 1, "--ledger", "x"), "go together"),
        (("--epsilon", 1, "--relation", "add_remove"), "records is required"),
        (("--epsilon", 1, "--person", "nobody"), "nobody"),
    ],
)
def test_bad_input_gets_a_sentence(
    sordino: Any, model: Path, folder: Path, tmp_path: Path, given: Any, sentence: str
) -> None:
    run = sordino("evaluate", model, folder / "people.csv", "--out", tmp_path / "e.json", *given)
    assert run.code == 2
    assert sentence in run.errors
    assert not (tmp_path / "e.json").exists()


def test_it_does_not_write_over_what_it_reads(sordino: Any, model: Path, folder: Path) -> None:
    before = model.read_bytes()
    run = sordino("evaluate", model, folder / "people.csv", "--epsilon", 1, "--out", model)
    assert run.code == 2
    assert model.read_bytes() == before
    assert read_model(model).schema is not None
