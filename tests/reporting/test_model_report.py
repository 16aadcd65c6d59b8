"""A report for any model: everything on it comes from the files it is made from, and bad ones get a sentence."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sordino
from html_pages import elements, text_of
from sordino.budget import Budget
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.estimators.regressors import PrivateHuberRegressor
from sordino.formatting import number
from sordino.identity import Identity
from sordino.ledger.ledger import Ledger
from sordino.methods import NoisyGradientDescent, OutputPerturbation
from sordino.model_file import read_model, save_model
from sordino.prepare import PREPARATIONS, Centre, NormQuantile
from sordino.privacy.ledger_context import charged_to
from sordino.reporting import Evaluation, Measure, report
from sordino.reporting.bounds import learnt
from sordino.reporting.coefficients import noise_deviation
from sordino.tabular.schema import Schema

MARKUP = '<img src=x onerror="alert(1)">'
DATASET = f"survey {MARKUP}"

SCHEMA = Schema.from_toml("""
[target]
column = "income"
classes = ["low", "high"]

[columns]
age = { low = 20, high = 80 }
member = { boolean = true }
job = { values = ["clerk", "smith"], other = true }

[sources]
age = "the register's age limits"
""")

pytestmark = pytest.mark.filterwarnings("ignore::sordino.PrivacyWarning")

rng = np.random.default_rng(5)
ROWS = np.column_stack([rng.uniform(-1, 1, (400, 2)), np.eye(3)[rng.integers(0, 3, 400)]])
LABELS = np.where(ROWS[:, 0] > 0, "high", "low")


def trained(**settings: Any) -> PrivateLogisticRegression:
    settings = {
        "method": OutputPerturbation(steps=5),
        "row_norm": SCHEMA.row_norm,
        "classes": ["low", "high"],
        **settings,
    }
    return PrivateLogisticRegression(1.0, **settings).fit(ROWS, LABELS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A charged model, and the ledger it is charged to."""
    folder = tmp_path_factory.mktemp("report")
    ledger = Ledger(folder / "survey.ledger")
    ledger.open(DATASET, Budget(3.0, 1e-3))
    with charged_to(ledger, DATASET):
        charged = trained(delta=1e-5)
    save_model(charged, folder / "charged.sordino")
    save_model(charged, folder / "model.sordino", SCHEMA)
    return folder


def page_of(path: Path, model: Any, **arguments: Any) -> str:
    report(model, path / "report.html", **arguments)
    page = (path / "report.html").read_text(encoding="utf-8")
    assert not {"script", "img"} & {tag for tag, _ in elements(page)}
    return page


def top_of(page: str) -> str:
    return text_of(page[: page.index("<main>")])


def row(page: str, name: str) -> list[str]:
    """The cells of the first row that is named so."""
    for body in re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL):
        cells = [text_of(cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", body, re.DOTALL)]
        if cells and cells[0] == name:
            return cells[1:]
    raise AssertionError(f"no row {name}")


def test_it_is_there_by_its_plain_name() -> None:
    assert sordino.report is report


def test_the_model_is_told_by_its_digests_and_date(folder: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, folder / "model.sordino")
    model = read_model(folder / "model.sordino")
    assert row(page, "digest of the model") == [model.certificate.weights]
    content = (folder / "model.sordino").read_bytes()
    assert row(page, "SHA-256 of the model file") == [hashlib.sha256(content).hexdigest()]
    assert row(page, "released")[0][:10] == model.certificate.created[:10]


def test_every_bound_says_where_it_came_from(folder: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, folder / "model.sordino")
    assert row(page, "age") == ["20 to 80", "the register's age limits"]
    assert row(page, "member")[0] == "true or false"
    assert row(page, "job")[0] == "clerk, smith, any other"
    assert row(page, "income (to be predicted)")[0] == "low, high"
    assert "does not say" in row(page, "job")[1]
    assert "follows from the schema" in row(page, "norm of a record's row")[1]
    assert row(page, "number of records")[0] == "400"


def test_a_bound_that_was_paid_for_says_so_and_none_is_taken_for_given(tmp_path: Path) -> None:
    paid = PrivateLogisticRegression(1.0, row_norm=2.0, prepare=[Centre(share=0.2), NormQuantile(quantile=0.7)])
    page = page_of(tmp_path, paid.fit(rng.uniform(-1, 1, (400, 2)), np.array([0, 1] * 200)))
    bound, where = row(page, "norm of a prepared row")
    assert "70 %" in bound
    assert "learnt from the records with noise" in where
    assert "20 %" in row(page, "centre of the rows")[1]
    assert "but for those that are paid for" in text_of(page)
    assert row(page, "trained by")[0].split(",")[0].endswith("on prepared rows")
    assert "but for those that are paid for" not in text_of(page_of(tmp_path, trained()))


@pytest.mark.parametrize("step", PREPARATIONS.values())
def test_every_step_of_preparation_has_words(step: type) -> None:
    assert all(learnt(step()))


def test_without_a_schema_the_analyst_gave_the_bounds(tmp_path: Path) -> None:
    model = PrivateHuberRegressor(1.0, row_norm=3.0, target_bound=7.5, method=NoisyGradientDescent(steps=2))
    page = page_of(tmp_path, model.fit(rng.uniform(-1, 1, (50, 3)), rng.uniform(-7, 7, 50)))
    assert row(page, "norm of a record's row") == ["at most 3", "given by the analyst"]
    assert row(page, "size of a target") == ["at most 7.5", "given by the analyst"]
    assert row(page, "feature 1")
    read = trained_with_labels_read()
    assert "read from the records" in row(page_of(tmp_path, read), "class labels")[1]


def trained_with_labels_read() -> PrivateLogisticRegression:
    model = PrivateLogisticRegression(1.0, row_norm=2.0, method=OutputPerturbation(steps=5))
    return model.fit(rng.uniform(-1, 1, (60, 2)), np.array([0, 1] * 30))


def test_a_schema_beside_the_model_brings_its_sources_and_must_be_the_same(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(replace(SCHEMA, sources={"member": "a law"}).to_toml())
    page = page_of(tmp_path, folder / "model.sordino", schema=tmp_path / "schema.toml")
    assert row(page, "member")[1] == "a law"
    other = replace(SCHEMA, columns={**SCHEMA.columns, "member": SCHEMA.columns["age"]})
    with pytest.raises(ValueError, match="another one than the model carries"):
        report(folder / "model.sordino", tmp_path / "report.html", schema=other)


def test_the_noise_of_a_coefficient_is_the_one_that_was_drawn() -> None:
    """Trained twice from the same records by a method that draws once, weights differ by their noise alone."""
    models = [trained(delta=1e-5, method=OutputPerturbation(steps=5)) for _ in range(40)]
    stated = noise_deviation(models[0].certificate_)
    assert stated is not None
    measured = np.std([model.coef_[0] for model in models], axis=0, ddof=1)
    # 40 runs x 5 coefficients: the mean of 5 such variances lies within 40 % of the truth all but never
    assert np.sqrt(np.mean(measured**2)) == pytest.approx(stated, rel=0.25)


def test_coefficients_have_their_noise_or_a_sentence_that_it_is_not_known(folder: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, folder / "model.sordino")
    assert len(row(page, "job=clerk")) == 2
    assert "The noise alone moves each of them" in text_of(page)
    page = page_of(tmp_path, trained(delta=1e-5, method=NoisyGradientDescent(steps=3)))
    assert len(row(page, "feature 1")) == 1
    assert "No error is known for them" in text_of(page)


def test_many_coefficients_are_not_all_shown(tmp_path: Path) -> None:
    model = PrivateLogisticRegression(1.0, row_norm=1.0, classes=[0, 1, 2], method=NoisyGradientDescent(steps=2))
    model.fit(rng.uniform(-0.1, 0.1, (30, 50)), np.array([0, 1, 2] * 10))
    page = page_of(tmp_path, model)
    assert "The 40 largest coefficients; 110 more are in the model file" in text_of(page)
    assert re.search(r"<th scope=\"row\"[^>]*>[012]: feature \d+</th>", page)


def test_the_ledger_is_told_and_its_names_are_text(folder: Path, tmp_path: Path) -> None:
    ledger = Ledger(folder / "survey.ledger")
    page = page_of(tmp_path, folder / "charged.sordino", ledger=folder / "survey.ledger")
    assert "The ledger does not know" not in page
    assert f"The data set: {DATASET}" in text_of(page)
    assert row(page, "this model's reservation") == ["0"]
    assert row(page, "head of the ledger") == [ledger.head()]
    assert row(page, "cap, for everything ever released") == ["epsilon 3, delta 0.001"]
    left = ledger.remaining(DATASET)
    assert left is not None
    assert float(row(page, "one more release may ask for")[0].split()[-1]) == pytest.approx(left.epsilon, rel=1e-5)
    assert 0.5 < float(row(page, "spent and reserved, at most")[0].split()[-1]) < 3.0


def test_a_reservation_that_names_another_model_is_not_taken_for_its_own(folder: Path, tmp_path: Path) -> None:
    """Of the same event, with weights of its own: without this one charge would pass for two."""
    again = trained(delta=1e-5)
    page = page_of(tmp_path, again, ledger=folder / "survey.ledger", dataset=DATASET)
    assert row(page, "this model's reservation") == ["none"]
    assert "The ledger does not know this model." in top_of(page)
    assert "Reservation 0 is for a release like it and names another model" in top_of(page)


def test_a_ledger_shows_a_card_in_notebooks(folder: Path) -> None:
    ledger = Ledger(folder / "survey.ledger")
    shown = ledger._repr_html_()
    assert "<img" not in shown
    assert "Reservations: 1, 0 of them open." in shown
    assert number(ledger.statement(DATASET).spent) in shown


def test_a_ledger_that_does_not_know_the_model_is_told_at_the_top(folder: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "other.ledger")
    ledger.open("other", Budget(1.0, 1e-6))
    page = page_of(tmp_path, folder / "model.sordino", ledger=ledger)
    assert "The ledger does not know this model." in top_of(page)
    ledger.open("third", Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="name the data set"):
        report(folder / "model.sordino", tmp_path / "report.html", ledger=ledger)
    with pytest.raises(ValueError, match="does not exist"):
        report(folder / "model.sordino", tmp_path / "report.html", ledger=tmp_path / "none.ledger")
    with pytest.raises(ValueError, match="no ledger is given"):
        report(folder / "model.sordino", tmp_path / "report.html", dataset="other")


def test_an_evaluation_is_shown_with_its_intervals_and_of_this_model_alone(folder: Path, tmp_path: Path) -> None:
    digest = read_model(folder / "model.sordino").certificate.weights
    measures = (Measure(f"right {MARKUP}", 0.7, 0.6, 0.8, 0.95, MARKUP), Measure("error", 12.5))
    evaluation = Evaluation(digest, MARKUP, measures, (MARKUP,))
    evaluation.save(tmp_path / "evaluation.json")
    page = page_of(tmp_path, folder / "model.sordino", evaluation=tmp_path / "evaluation.json")
    assert "0.6 to 0.8 (95 %)" in text_of(page)
    assert "no error is known" in text_of(page)
    with pytest.raises(ValueError, match="of another model"):
        report(folder / "model.sordino", tmp_path / "report.html", evaluation=replace(evaluation, model="ab" * 32))


def test_names_of_features_and_classes_are_text(tmp_path: Path) -> None:
    schema = Schema.from_toml(
        f"[target]\ncolumn = '{MARKUP}'\nclasses = ['{MARKUP}', 'b']\n"
        f"[columns]\n'{MARKUP}x' = {{ low = 0, high = 1 }}\n"
        f"k = {{ values = ['{MARKUP}', 'v'] }}\n[sources]\nk = '{MARKUP}'\n"
    )
    model = PrivateLogisticRegression(
        1.0, row_norm=schema.row_norm, classes=[MARKUP, "b"], method=OutputPerturbation(steps=2)
    )
    model.fit(rng.uniform(-0.5, 0.5, (40, 3)), np.array([MARKUP, "b"] * 20))
    save_model(model, tmp_path / "model.sordino", schema)
    page = page_of(tmp_path, tmp_path / "model.sordino", title=MARKUP, summary=MARKUP)
    assert page.count("&lt;img") >= 8


def test_a_certificate_alone_is_enough(folder: Path, tmp_path: Path) -> None:
    certificate = read_model(folder / "model.sordino").certificate
    certificate.save(tmp_path / "certificate.json")
    for given in (certificate, tmp_path / "certificate.json"):
        page = page_of(tmp_path, given)
        assert "The released model" not in page
        assert row(page, "digest of the model") == [certificate.weights]


def test_a_signed_model_names_its_signer_and_an_unsigned_one_says_so(tmp_path: Path) -> None:
    model = trained(delta=1e-5)
    assert "Nobody has signed this." in top_of(page_of(tmp_path, model))
    model.certificate_ = model.certificate_.sign(Identity.create(tmp_path / "me", f"City {MARKUP}"))
    page = page_of(tmp_path, model)
    assert "Nobody has signed this." not in page
    assert f"signed in the name of City {MARKUP}" in text_of(page)


def test_a_seeded_model_is_not_private_and_says_so_first(tmp_path: Path) -> None:
    page = page_of(tmp_path, trained(delta=1e-5, random_state=1))
    assert "This model is not private." in top_of(page)
    assert "Nothing is promised" in text_of(page)


def test_a_model_with_other_weights_does_not_verify_and_says_so_first(folder: Path, tmp_path: Path) -> None:
    model = read_model(folder / "model.sordino")
    page = page_of(tmp_path, replace(model, coef=2 * model.coef))
    assert "The verification of this certificate failed." in top_of(page)
    assert "passed" not in page


def test_what_cannot_be_read_is_refused_with_a_sentence_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    content = (folder / "model.sordino").read_bytes()
    (tmp_path / "damaged.sordino").write_bytes(content.replace(b"epsilon", b"epsilom", 1))
    (tmp_path / "notes.txt").write_text("age,y\n4711,a\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff")
    for name, sentence in (
        ("damaged.sordino", "damaged"),
        ("notes.txt", "not a certificate"),
        ("picture.png", "neither"),
    ):
        with pytest.raises(ValueError, match=sentence) as told:
            report(tmp_path / name, tmp_path / "report.html")
        assert "4711" not in str(told.value)
    with pytest.raises(ValueError, match="without a certificate"):
        report(PrivateLogisticRegression(1.0, row_norm=1.0), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_it_writes_over_nothing_but_an_earlier_report(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text("<p>mine</p>")
    with pytest.raises(FileExistsError, match="not a report"):
        report(folder / "model.sordino", tmp_path / "notes.html")
    with pytest.raises(FileExistsError, match="not a report"):
        report(folder / "model.sordino", folder / "model.sordino")
    with pytest.raises(FileExistsError, match="read or kept"):
        report(folder / "model.sordino", tmp_path / "new.html", schema=tmp_path / "new.html")
    page_of(tmp_path, folder / "model.sordino")
    page_of(tmp_path, folder / "model.sordino")
