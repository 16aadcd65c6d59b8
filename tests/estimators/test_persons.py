"""`person` at `fit`: arrays, columns of tables in memory and in files, and on the command line."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sordino
from sordino.budget import Budget
from sordino.certificate import Certificate, verify
from sordino.cli.app import app
from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.networks import PrivateMLPClassifier, PrivateMLPRegressor
from sordino.estimators.regressors import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVR,
    PrivateQuantileRegressor,
)
from sordino.estimators.search import PrivateSearch
from sordino.files import Arrays, EncodedTable, Table
from sordino.ledger.ledger import Ledger
from sordino.methods import NoisyGradientDescent, ObjectivePerturbation
from sordino.privacy.ledger_context import charged_to
from sordino.problem import PersonUnit
from sordino.train import PrivacyWarning

PERSONS = 150


def panel():
    """Between one and six visits of everybody, in no order."""
    rng = np.random.default_rng(3)
    owners = rng.permutation(np.repeat(np.arange(PERSONS), rng.integers(1, 7, PERSONS)))
    age = rng.uniform(20, 80, len(owners))
    ill = np.where((age - 50) / 10 + rng.logistic(size=len(owners)) > 0, "yes", "no")
    return pd.DataFrame({"who": [f"p{i}" for i in owners], "age": age, "ill": ill})


TABLE = panel()
SCHEMA = """
[target]
column = "ill"
classes = ["no", "yes"]

[columns]
age = { low = 20, high = 80 }
"""


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        # the same records are released again and again here
        warnings.filterwarnings("ignore", message="This is release number", category=PrivacyWarning)
        yield


def schema(folder):
    (folder / "schema.toml").write_text(SCHEMA)
    return sordino.Schema.load(folder / "schema.toml")


def classifier(**more):
    return PrivateLogisticRegression(epsilon=2.0, random_state=4, **more)


def same(one, other):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)
    assert one.certificate_.problem == other.certificate_.problem


def test_a_ledger_does_not_add_persons_and_records_up(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("panel", Budget(9.0, 1e-4))
    X, y, bounds = TABLE[["age"]], TABLE["ill"], {"row_norm": 100.0, "classes": ["no", "yes"], "delta": 1e-5}
    with charged_to(ledger, "panel"):
        classifier(**bounds).fit(X, y, person=TABLE["who"].to_numpy(), records_per_person=3)
        with pytest.raises(ValueError, match="protect every person, and this one protects every record"):
            classifier(**bounds).fit(X, y)
    assert [entry.unit for entry in ledger.entries("panel")] == ["person"]


def test_a_column_is_no_feature_and_says_what_an_array_says():
    X, y = TABLE[["age"]], TABLE["ill"]
    bounds = {"row_norm": 80.0, "classes": ["no", "yes"]}
    by_array = classifier(**bounds).fit(X, y, person=TABLE["who"].to_numpy(), records_per_person=3)
    problem = by_array.certificate_.problem
    assert (problem.records, problem.person.most_records) == (PERSONS, 3)
    assert by_array.certificate_.delta == 1 / PERSONS**2
    assert by_array.n_features_in_ == 1
    for table in (TABLE, pl.from_pandas(TABLE)):
        wide = table.drop(columns="ill") if isinstance(table, pd.DataFrame) else table.drop("ill")
        by_name = classifier(**bounds).fit(wide, y.to_numpy(), person="who", records_per_person=3)
        same(by_name, by_array)
        assert list(by_name.feature_names_in_) == ["age"]
    assert all(f.holds for f in verify(by_array.certificate_) if "operating system" not in f.sentence)


def test_tables_with_a_schema_in_memory_and_in_files(tmp_path):
    public = schema(tmp_path)
    arrow = pa.Table.from_pandas(TABLE)
    pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=100)
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "more").mkdir()
    for number, start in enumerate(range(0, len(TABLE), 200)):
        pq.write_table(arrow.slice(start, 200), tmp_path / "more" / f"{number}.parquet")
    fitted = [
        classifier(schema=public).fit(data, person="who", records_per_person=2)
        for data in (
            TABLE,
            arrow,
            EncodedTable(tmp_path / "t.parquet", public),
            EncodedTable(tmp_path / "t.csv", public),
            EncodedTable(tmp_path / "t.csv", public, memory=0.0),
            EncodedTable(tmp_path / "more", public, memory=0.0),
        )
    ]
    assert fitted[0].certificate_.problem.records == PERSONS
    for other in fitted[1:]:
        same(fitted[0], other)


def test_files_of_numbers(tmp_path):
    numbers = TABLE.assign(ill=(TABLE["ill"] == "yes").astype(float), who=TABLE["who"].str[1:].astype(int))
    pq.write_table(pa.Table.from_pandas(numbers), tmp_path / "t.parquet")
    np.save(tmp_path / "X.npy", numbers[["age"]].to_numpy())
    np.save(tmp_path / "y.npy", numbers["ill"].to_numpy())
    arrays = Arrays(tmp_path / "X.npy", tmp_path / "y.npy")
    bounds = {"row_norm": 80.0, "classes": [0, 1]}
    one = classifier(**bounds).fit(Table(tmp_path / "t.parquet", "ill", ["age"]), person="who", records_per_person=3)
    other = classifier(**bounds).fit(arrays, person=numbers["who"], records_per_person=3)
    same(one, other)
    with pytest.raises(ValueError, match="a column that is among the features"):
        classifier(**bounds).fit(Table(tmp_path / "t.parquet", "ill"), person="who")
    with pytest.raises(ValueError, match="Arrays has no columns with names"):
        classifier(**bounds).fit(arrays, person="who")


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateLinearSVC(row_norm=80.0, classes=[-1, 1]),
        PrivateHuberRegressor(row_norm=80.0, target_bound=1.0),
        PrivateLinearRegression(row_norm=80.0, target_bound=1.0),
        PrivateQuantileRegressor(row_norm=80.0, target_bound=1.0),
        PrivateLinearSVR(row_norm=80.0, target_bound=1.0),
        PrivateSearch(
            PrivateLogisticRegression(row_norm=80.0, classes=[-1, 1]), {"method": [NoisyGradientDescent(steps=3)]}
        ),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_linear_estimator_protects_persons(estimator):
    y = np.where(TABLE["ill"] == "yes", 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        fitted = estimator.fit(TABLE[["age"]], y, person=TABLE["who"], records_per_person=2)
    certificate = fitted.certificate_
    assert (certificate.problem.records, certificate.problem.unit) == (PERSONS, "person")
    assert all(finding.holds for finding in verify(Certificate.from_json(certificate.to_json())))


def test_what_is_refused():
    X, y = TABLE[["age"]].to_numpy(), TABLE["ill"].to_numpy()
    bounds = {"row_norm": 80.0, "classes": ["no", "yes"]}
    for words, given in {
        "nothing says whose the records are": {"records_per_person": 3},
        "has no columns with names": {"person": "who"},
        "identifiers for": {"person": TABLE["who"].to_numpy()[:-1]},
        "missing identifier": {"person": TABLE["who"].where(TABLE.index > 0)},
        "records_per_person is 0": {"person": TABLE["who"], "records_per_person": 0},
        "a model of one person": {"person": np.zeros(len(y), dtype=int)},
    }.items():
        with pytest.raises(ValueError, match=words):
            classifier(**bounds).fit(X, y, **given)
    with pytest.raises(ValueError, match="higher rank"):
        classifier(method=ObjectivePerturbation(), **bounds).fit(X, y, person=TABLE["who"], records_per_person=2)
    with pytest.raises(ValueError, match="the true number of persons is private"):
        classifier(relation="add_remove", **bounds).fit(X, y, person=TABLE["who"])
    with pytest.raises(ValueError, match="nobody"):
        classifier(**bounds).fit(TABLE[["age"]], y, person="nobody")
    for words, given in {
        "typical_records is None": {"person": TABLE["who"], "contribution": "sum"},
        "nothing else is": {"person": TABLE["who"], "typical_records": 3},
        "it must be 'mean', 'capped' or 'sum'": {"person": TABLE["who"], "contribution": "median"},
        "nothing says whose": {"contribution": "sum", "typical_records": 3},
    }.items():
        with pytest.raises(ValueError, match=words):
            classifier(**bounds).fit(X, y, **given)
    with pytest.raises(ValueError, match="a person's clipped sum is none"):
        PrivateLinearSVC(**bounds).fit(X, y, person=TABLE["who"], contribution="sum", typical_records=3)
    network = PrivateMLPClassifier(row_norm=80.0, classes=["no", "yes"])
    for words, given in {
        "records_per_person is missing": {"person": TABLE["who"]},
        "the gradient of a whole person is not formed": {"person": TABLE["who"], "contribution": "sum"},
        "nothing says whose": {"records_per_person": 3},
    }.items():
        with pytest.raises(ValueError, match=words):
            network.fit(X, y, **given)


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateLogisticRegression(row_norm=80.0, classes=[-1, 1]),
        PrivateHuberRegressor(row_norm=80.0, target_bound=1.0),
        PrivateLinearRegression(row_norm=80.0, target_bound=1.0),
        PrivateSearch(
            PrivateLogisticRegression(row_norm=80.0, classes=[-1, 1]), {"method": [NoisyGradientDescent(steps=3)]}
        ),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_clipped_sums(estimator):
    y = np.where(TABLE["ill"] == "yes", 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        fitted = estimator.fit(TABLE[["age"]], y, person=TABLE["who"], contribution="sum", typical_records=3.5)
    certificate = Certificate.from_json(fitted.certificate_.to_json())
    assert certificate.problem.person == PersonUnit(None, "sum", 3.5)
    assert all(finding.holds for finding in verify(certificate))
    assert any("divided by 3.5 and clipped as one" in sentence for sentence in certificate.enforced)
    assert "the guess that a person has 3.5 records does not come from the records" in certificate.assumed


@pytest.mark.parametrize("contribution", ["mean", "capped"])
@pytest.mark.parametrize("kind", [PrivateMLPClassifier, PrivateMLPRegressor])
def test_networks_protect_persons(kind, contribution):
    y = np.where(TABLE["ill"] == "yes", 1, -1)
    stated = {"classes": [-1, 1]} if kind is PrivateMLPClassifier else {"target_bound": 1.0}
    network = kind(2.0, row_norm=80.0, hidden_layer_sizes=(4,), epochs=2, batch_size=50, **stated)
    fitted = network.fit(TABLE[["who", "age"]], y, person="who", records_per_person=3, contribution=contribution)
    certificate = Certificate.from_json(fitted.certificate_.to_json())
    assert (certificate.problem.records, certificate.problem.unit) == (PERSONS, "person")
    assert certificate.delta == 1 / PERSONS**2
    assert certificate.problem.person == PersonUnit(3, contribution)
    assert all(finding.holds for finding in verify(certificate))


def test_the_command_line(tmp_path):
    schema(tmp_path)
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    common = [str(tmp_path / "t.csv"), "--schema", str(tmp_path / "schema.toml"), "--epsilon", "2", "--delta", "1e-6"]
    run = CliRunner().invoke(
        app, ["fit", *common, "--out", str(tmp_path / "m.sordino"), "--person", "who", "--per-person", "3"]
    )
    assert run.exit_code == 0, run.output
    text = " ".join(run.output.split())
    assert "replacing all records of any one person" in text
    assert "It protects one person" in text
    assert "not used" not in text
    checked = CliRunner().invoke(app, ["verify", str(tmp_path / "m.sordino")])
    assert checked.exit_code == 0, checked.output
    refused = CliRunner().invoke(app, ["fit", *common, "--out", str(tmp_path / "n.sordino"), "--per-person", "3"])
    assert refused.exit_code != 0
    planned = CliRunner().invoke(
        app, ["plan", "--records", "5000", "--features", "9", "--epsilon", "1", "--per-person", "5"]
    )
    assert planned.exit_code == 0, planned.output
    assert "one person moves the mean gradient" in " ".join(planned.output.split())
    assert "Not objective perturbation" in planned.output
    summed = ["--contribution", "sum", "--typical-records", "3"]
    run = CliRunner().invoke(app, ["fit", *common, "--out", str(tmp_path / "s.sordino"), "--person", "who", *summed])
    assert run.exit_code == 0, run.output
    assert "the guess that a person has 3 records" in " ".join(run.output.split())
    planned = CliRunner().invoke(app, ["plan", "--records", "5000", "--features", "9", "--epsilon", "1", *summed])
    assert planned.exit_code == 0, planned.output
    text = " ".join(planned.output.split())
    for method in ("objective perturbation", "output perturbation"):
        assert f"Not {method}" in text
    assert "a person's clipped sum is none" in text
