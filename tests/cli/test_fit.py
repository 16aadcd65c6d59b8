"""`sordino fit` and `sordino predict`, from a file to a file."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from sordino.model_file import read_model

RECORDS = 1237


def predictions(path: Path) -> dict[str, list[Any]]:
    return pa.csv.read_csv(path).to_pydict()


def column(folder: Path, name: str) -> list[Any]:
    return pa.csv.read_csv(folder / "people.csv")[name].to_pylist()


@pytest.mark.parametrize("table", ["people.csv", "people.parquet"])
def test_from_a_table_to_predictions(folder: Path, tmp_path: Path, sordino: Any, table: str) -> None:
    model, out = tmp_path / "m.sordino", tmp_path / "p.csv"
    run = sordino(
        "fit", folder / table, "--schema", folder / "schema.toml", "--epsilon", 3, "--delta", 1e-5, "--out", model
    )
    assert run.code == 0, run.errors
    assert "(3, 1e-05)-differential privacy: replacing any one record" in run.text
    assert f"the number of records, {RECORDS}, is public" in run.text
    assert f"sordino verify {model}" in run.text
    assert "does not mention, and that are not used: id, price, grade." in run.text

    run = sordino("verify", model)
    assert run.code == 0, run.text
    assert "VERIFIED: (3, 1e-05)-differential privacy" in run.text

    run = sordino("predict", model, folder / table, "--out", out)
    assert run.code == 0, run.errors
    assert f"{RECORDS} predictions of 'income'" in run.text
    found, truth = predictions(out), column(folder, "income")
    right = sum(p == t for p, t in zip(found["prediction"], truth, strict=True)) / RECORDS
    # the rule itself is right for about 0.9 of the records, the larger class for 0.5
    assert right > 0.85
    assert all(0.5 <= p <= 1 for p in found["probability"])


def test_a_table_without_the_target_is_enough_to_predict(model: Path, tmp_path: Path, sordino: Any) -> None:
    (tmp_path / "new.csv").write_text("member,job,age\nyes,clerk,80\nno,never seen,\n")
    run = sordino("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert run.code == 0, run.errors
    loaded = read_model(model)
    rows = [[1, 1, 0, 0, 1], [0, 0, 0, 1, -1]]
    assert predictions(tmp_path / "p.csv")["prediction"] == loaded.predict(rows).tolist()


def test_categories_that_nobody_could_list(folder: Path, tmp_path: Path, sordino: Any) -> None:
    schema, model, out = tmp_path / "s.toml", tmp_path / "m.sordino", tmp_path / "p.csv"
    text = (folder / "schema.toml").read_text()
    schema.write_text(re.sub(r"^job = .*$", "job = { discover = 5 }", text, flags=re.M))
    run = sordino("fit", folder / "people.csv", "--schema", schema, "--epsilon", 3, "--delta", 1e-5, "--out", model)
    assert run.code == 0, run.errors
    found = read_model(model).schema.columns["job"].values
    assert 2 <= len(found) <= 5
    assert set(found) <= set(column(folder, "job"))
    assert f"Values of 'job' that were found: {', '.join(found)}." in run.text
    assert sordino("verify", model).code == 0
    assert sordino("predict", model, folder / "people.csv", "--out", out).code == 0


def test_a_number_is_predicted_in_its_own_unit(folder: Path, tmp_path: Path, sordino: Any) -> None:
    schema, model, out = tmp_path / "s.toml", tmp_path / "m.sordino", tmp_path / "p.csv"
    schema.write_text(
        '[target]\ncolumn = "price"\nlow = 1200\nhigh = 1800\n'
        '[columns]\nage = { low = 20, high = 80, missing = "middle" }\n'
    )
    run = sordino("fit", folder / "people.csv", "--schema", schema, "--epsilon", 3, "--out", model)
    assert run.code == 0, run.errors
    assert sordino("verify", model).code == 0
    assert sordino("predict", model, folder / "people.csv", "--out", out).code == 0
    found, truth = predictions(out), column(folder, "price")
    assert list(found) == ["prediction"]
    assert all(1200 <= value <= 1800 for value in found["prediction"])
    error = sum(abs(p - t) for p, t in zip(found["prediction"], truth, strict=True)) / RECORDS
    # always the middle would be 150 off
    assert error < 30


def test_three_classes(folder: Path, tmp_path: Path, sordino: Any) -> None:
    schema, model, out = tmp_path / "s.toml", tmp_path / "m.sordino", tmp_path / "p.csv"
    schema.write_text(
        '[target]\ncolumn = "grade"\nclasses = [1, 2, 3]\n'
        '[columns]\nage = { low = 20, high = 80, missing = "middle" }\n'
    )
    run = sordino("fit", folder / "people.parquet", "--schema", schema, "--epsilon", 5, "--out", model)
    assert run.code == 0, run.errors
    assert sordino("verify", model).code == 0
    assert sordino("predict", model, folder / "people.parquet", "--out", out).code == 0
    assert set(predictions(out)["prediction"]) <= {1, 2, 3}
    assert read_model(model).classes.tolist() == [1, 2, 3]


def test_a_pure_guarantee_by_output_perturbation(folder: Path, tmp_path: Path, sordino: Any) -> None:
    model = tmp_path / "m.sordino"
    run = sordino(
        *("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 2, "--delta", 0),
        *("--method", "output-perturbation", "--l2", 0.1, "--out", model),
    )
    assert run.code == 0, run.errors
    assert "(2, 0)-differential privacy" in run.text
    assert sordino("verify", model).code == 0


def test_the_number_of_records_stays_private_under_add_remove(folder: Path, tmp_path: Path, sordino: Any) -> None:
    certificate = tmp_path / "c.json"
    arguments = ("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 2)
    arguments = (*arguments, "--relation", "add_remove", "--out", tmp_path / "m.sordino", "--certificate", certificate)
    refused = sordino(*arguments)
    assert refused.code == 2
    assert "records is required" in refused.errors
    run = sordino(*arguments, "--records", 1000)
    assert run.code == 0, run.errors
    assert "adding or removing any one record" in run.text
    assert "1000 is a public stand-in" in run.text
    for text in (refused.text, refused.errors, run.text, run.errors, certificate.read_text()):
        assert str(RECORDS) not in text


def test_a_seed_is_never_called_private(folder: Path, tmp_path: Path, sordino: Any) -> None:
    fit = ("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 2, "--seed", 7, "--out")
    first, second = sordino(*fit, tmp_path / "1"), sordino(*fit, tmp_path / "2")
    assert first.code == second.code == 0
    assert first.errors.count("NOT PRIVATE") == 2
    assert "differential privacy" not in first.text
    assert read_model(tmp_path / "1").coef.tolist() == read_model(tmp_path / "2").coef.tolist()
    run = sordino("verify", tmp_path / "1")
    assert run.code == 1
    assert "NOT VERIFIED" in run.errors


def test_a_full_disk_is_found_out_before_the_budget_is_spent(
    folder: Path, model: Path, tmp_path: Path, sordino: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, ledger = tmp_path / "m.sordino", tmp_path / "ledger"
    out.write_bytes(model.read_bytes())
    sordino("ledger", "open", ledger, "people", "--epsilon", 2, "--delta", 1e-5)
    lines = ledger.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    run = sordino(
        *("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 2, "--delta", 1e-5),
        *("--out", out, "--ledger", ledger, "--dataset", "people"),
    )
    assert run.code == 2
    assert "m.sordino cannot be written (No space left on device): name another place." in run.errors
    assert out.read_bytes() == model.read_bytes()
    assert ledger.read_bytes() == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "m.sordino"]


def test_an_unwise_budget_is_a_warning(folder: Path, tmp_path: Path, sordino: Any) -> None:
    run = sordino(
        *("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 20, "--delta", 0.01),
        *("--out", tmp_path / "m"),
    )
    assert run.code == 0
    assert "Warning: delta is 0.01, not below 1/n" in run.errors
    assert "Warning: epsilon is 20" in run.errors
    assert "train.py" not in run.errors


def test_the_certificate_file_is_the_one_in_the_model(model: Path, folder: Path) -> None:
    assert (folder / "certificate.json").read_text() == read_model(model).certificate_json
    assert json.loads(read_model(model).certificate_json)["statement"]["epsilon"] == 2


def test_a_model_can_be_signed(folder: Path, tmp_path: Path, sordino: Any) -> None:
    assert sordino("identity", "The Hospital", "--folder", tmp_path / "me").code == 0
    table = ("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 3)
    files = ("--out", tmp_path / "m.sordino", "--certificate", tmp_path / "c.json")
    run = sordino(*table, *files, "--sign", tmp_path / "me")
    assert run.code == 0, run.errors
    for path in (tmp_path / "m.sordino", tmp_path / "c.json"):
        told = sordino("verify", path, "--signer", tmp_path / "me" / "certificate.pem")
        assert told.code == 0, told.text
        assert "it is signed by The Hospital" in told.text
    # nobody's key is found out before a record is read
    run = sordino(*table, "--out", tmp_path / "n.sordino", "--sign", tmp_path)
    assert run.code == 2
    assert "sordino identity makes a key" in run.errors
    run = sordino(*table, "--out", tmp_path / "me" / "key.pem", "--sign", tmp_path / "me")
    assert run.code == 2


def test_intervals_from_a_table_to_predictions(folder: Path, tmp_path: Path, sordino: Any) -> None:
    model, out = tmp_path / "m.sordino", tmp_path / "p.csv"
    fit = ("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 5, "--out", model)
    # the categories of a column add up, so that a penalty is needed
    run = sordino(*fit, "--intervals", "--l2", 0.05)
    assert run.code == 0, run.errors
    assert "with intervals that hold 95 times in 100" in run.text
    ends = read_model(model).confidence_intervals()
    assert f"{ends.coef[0][0]:.4g}" in run.text
    assert sordino("verify", model).code == 0
    assert "this model and its intervals" in sordino("explain", model).text

    run = sordino("predict", model, folder / "people.csv", "--out", out, "--level", 0.9)
    assert run.code == 0, run.errors
    found = predictions(out)
    assert list(found) == ["prediction", "probability", "low", "high"]
    rows = zip(found["low"], found["probability"], found["high"], strict=True)
    assert all(0 <= low <= probability <= high <= 1 for low, probability, high in rows)

    run = sordino(*fit, "--intervals")
    assert run.code == 0, run.errors
    assert "No intervals: intervals were asked for and none is given" in run.errors
    run = sordino("predict", model, folder / "people.csv", "--out", out, "--level", 0.9)
    assert run.code == 2
    assert "whatever was said would be false" in run.errors


def test_a_plan_with_intervals(sordino: Any) -> None:
    run = sordino("plan", "--records", 20000, "--features", 4, "--epsilon", 1, "--intervals")
    assert run.code == 0, run.errors
    assert "Plan of WithIntervals" in run.text
    run = sordino("plan", "--records", 200, "--features", 4, "--epsilon", 1, "--intervals")
    assert run.code == 2
    assert "200 records are too few for intervals of 5 parameters" in run.errors


def test_counts_and_costs_by_name(folder: Path, tmp_path: Path, sordino: Any) -> None:
    schema, model, out = tmp_path / "s.toml", tmp_path / "m.sordino", tmp_path / "p.csv"
    schema.write_text(
        '[target]\ncolumn = "price"\nlow = 1000\nhigh = 2000\n'
        '[columns]\nage = { low = 20, high = 80, missing = "middle" }\n'
    )
    fit = ("fit", folder / "people.csv", "--schema", schema, "--epsilon", 8, "--seed", 1, "--out", model)
    for loss, note in (
        ("gamma", "A target of more than 2 times its prediction counts as if it were so large"),
        ("huber", "The loss is squared for residuals up to 125, in the target's own unit, and linear beyond."),
        ("squared", "Model:"),
    ):
        run = sordino(*fit, "--loss", loss)
        assert run.code == 0, run.errors
        assert note in " ".join(run.text.split())
        assert sordino("predict", model, folder / "people.csv", "--out", out).code == 0
        found, truth = predictions(out)["prediction"], column(folder, "price")
        error = sum(abs(p - t) for p, t in zip(found, truth, strict=True)) / RECORDS
        # always the middle would be 150 off
        assert error < 100, loss
    assert read_model(model).link == "identity"
    assert sordino(*fit[:-4], *fit[-2:], "--loss", "poisson").code == 0
    assert sordino("verify", model).code == 0
    assert read_model(model).link == "log"


def test_classes_that_count_more(folder: Path, tmp_path: Path, sordino: Any) -> None:
    model, out = tmp_path / "m.sordino", tmp_path / "p.csv"
    fit = ("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 3, "--out", model)
    shares = {}
    for weights in ("low=1,high=20", "high=1,low=20", "balanced"):
        run = sordino(*fit, "--class-weight", weights)
        assert run.code == 0, run.errors
        assert sordino("verify", model).code == 0
        assert sordino("predict", model, folder / "people.csv", "--out", out).code == 0
        shares[weights] = sum(p == "high" for p in predictions(out)["prediction"]) / RECORDS
    assert shares["low=1,high=20"] > shares["balanced"] > shares["high=1,low=20"]


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (("--loss", "poisson"), "loss is 'poisson', and the schema's target has classes"),
        (("--loss", "ridge"), "loss is 'ridge': it must be logistic, hinge, huber"),
        (("--class-weight", "high"), "class-weight is 'high': it must be balanced, or the classes"),
        (("--class-weight", "rich=2"), "such as no=1,yes=5"),
        (("--class-weight", "high=-2"), "none negative"),
    ],
)
def test_losses_and_weights_that_do_not_fit(
    folder: Path, tmp_path: Path, sordino: Any, extra: Any, sentence: str
) -> None:
    out = tmp_path / "m.sordino"
    run = sordino(
        "fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 3, "--out", out, *extra
    )
    assert run.code == 2, run.text
    assert sentence in " ".join(run.errors.split())
    assert not out.exists()


def test_the_probability_of_every_class(folder: Path, model: Path, tmp_path: Path, sordino: Any) -> None:
    out = tmp_path / "p.csv"
    predict = ("predict", model, folder / "people.csv", "--out", out)
    assert sordino(*predict).code == 0
    likeliest = predictions(out)
    # in the place of an earlier table of predictions
    assert sordino(*predict, "--probabilities").code == 0
    found = predictions(out)
    assert list(found) == ["prediction", "probability of high", "probability of low"]
    for label, high, low, top in zip(*found.values(), likeliest["probability"], strict=True):
        assert high + low == pytest.approx(1)
        assert {"high": high, "low": low}[label] == max(high, low) == pytest.approx(top)
    assert sordino(*predict).code == 0


def test_a_margin_has_no_probabilities(folder: Path, tmp_path: Path, sordino: Any) -> None:
    model, out = tmp_path / "m.sordino", tmp_path / "p.csv"
    fit = ("fit", folder / "people.csv", "--schema", folder / "schema.toml", "--epsilon", 3, "--loss", "hinge")
    assert sordino(*fit, "--out", model).code == 0
    assert sordino("predict", model, folder / "people.csv", "--out", out).code == 0
    assert list(predictions(out)) == ["prediction"]
    run = sordino("predict", model, folder / "people.csv", "--out", out, "--probabilities")
    assert run.code == 2
    assert "predicts classes by a margin, which has no probabilities" in " ".join(run.errors.split())


def test_a_number_has_no_probabilities(folder: Path, tmp_path: Path, sordino: Any) -> None:
    schema, model = tmp_path / "s.toml", tmp_path / "m.sordino"
    schema.write_text('[target]\ncolumn = "price"\nlow = 1200\nhigh = 1800\n[columns]\nmember = { boolean = true }\n')
    assert sordino("fit", folder / "people.csv", "--schema", schema, "--epsilon", 3, "--out", model).code == 0
    run = sordino("predict", model, folder / "people.csv", "--out", tmp_path / "p.csv", "--probabilities")
    assert run.code == 2
    assert "predicts a number, which has no probabilities" in " ".join(run.errors.split())


def test_a_column_without_a_name_is_told(sordino: Any, folder: Path, tmp_path: Path) -> None:
    """As pandas writes an index."""
    lines = (folder / "people.csv").read_text().splitlines()
    numbered = [f"{'' if place == 0 else place},{line}" for place, line in enumerate(lines)]
    (tmp_path / "numbered.csv").write_text("\n".join(numbered) + "\n")
    schema, out = folder / "schema.toml", tmp_path / "m.sordino"
    run = sordino("fit", tmp_path / "numbered.csv", "--schema", schema, "--epsilon", 1, "--out", out)
    assert run.code == 0, run.errors
    assert "that are not used: one without a name, " in run.text
