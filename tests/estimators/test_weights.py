"""Weights of classes and of records: what they do, what is said of them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

from sordino import (
    NoisyGradientDescent,
    NoisyNewton,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    Schema,
    SufficientStatistics,
    load_model,
    report,
    save_model,
    verify,
)
from sordino.budget import Budget
from sordino.cli.app import app
from sordino.files import Arrays, EncodedTable, Table
from sordino.ledger.ledger import Ledger
from sordino.losses import Hinge, Logistic, Softmax, Squared, Weighted
from sordino.methods import ConstantModel
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import ClassCounts
from sordino.prepare import ClassBalance, Prepared
from sordino.privacy.ledger_context import charged_to
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.tabular import ClassTarget, Number
from sordino.train import train

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

FEW = NoisyGradientDescent(20)


@pytest.fixture(scope="module")
def rare():
    """One in ten is ill."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 3))
    return X, np.where(X @ [3.0, -2.0, 1.0] - 3.4 + rng.logistic(size=4000) > 0, "ill", "well")


def logistic(**settings):
    return PrivateLogisticRegression(
        **{"epsilon": 2.0, "row_norm": 2.0, "classes": ["ill", "well"], "random_state": 0, **settings}
    )


def share_ill(model, X):
    return np.mean(model.predict(X) == "ill")


def test_public_numbers_move_the_point_at_which_a_class_is_predicted(rare):
    X, y = rare
    plain, heavy = logistic().fit(X, y), logistic(class_weight={"ill": 9, "well": 1}).fit(X, y)
    assert share_ill(heavy, X) > share_ill(plain, X) + 0.1
    assert heavy.certificate_.problem.loss == Weighted(Logistic(), (1.0, 1 / 9))
    # only ratios count, and a class that is not named counts 1
    again = logistic(class_weight={"well": 1 / 9}).fit(X, y)
    np.testing.assert_allclose(again.coef_, heavy.coef_, rtol=1e-9)
    assert all(finding.holds for finding in verify(heavy.certificate_)[:-1])


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
@pytest.mark.parametrize("prepare", ["auto", None])
def test_balanced_is_counted_and_paid_for_in_the_same_certificate(rare, kind, prepare, tmp_path):
    X, y = rare
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("table", Budget(3.0, 1e-5))
    settings = {"row_norm": 2.0, "classes": ["ill", "well"], "prepare": prepare}
    with charged_to(ledger, "table"):
        model = kind(2.0, 1e-6, **settings, class_weight="balanced").fit(X, y)
    method, certificate = model.certificate_.method, model.certificate_
    rows = ("Centre", "NormQuantile", "ColumnScales", "NormQuantile") if prepare == "auto" else ()
    assert isinstance(method, Prepared)
    assert tuple(type(step).__name__ for step in method.preparation) == ("ClassBalance", *rows)
    assert all(finding.holds for finding in verify(certificate))
    (entry,) = ledger.entries("table")
    assert entry.event == certificate.event
    assert share_ill(model, X) > share_ill(kind(2.0, 1e-6, **settings).fit(X, y), X) + 0.05


def test_balanced_on_sparse_rows_and_for_three_classes(rare):
    X, y = rare
    thin = logistic(class_weight="balanced").fit(sparse.csr_array(np.where(np.abs(X) < 0.3, 0.0, X)), y)
    assert thin.certificate_.method.preparation == (ClassBalance(),)
    assert share_ill(thin, X) > 0.12
    rng = np.random.default_rng(1)
    grade = np.where(y == "ill", "c", np.where(rng.random(len(y)) < 0.5, "a", "b"))
    model = logistic(classes=["a", "b", "c"], class_weight="balanced").fit(X, grade)
    assert model.certificate_.method.preparation[0] == ClassBalance(3)
    assert np.mean(model.predict(X) == "c") > 0.15


@pytest.mark.parametrize(("loss", "weights"), [(Logistic(), (1.0, 0.25)), (Softmax(3), (1.0, 0.5, 0.5))])
def test_the_weights_are_those_of_the_noisy_counts(loss, weights):
    X = np.ones((1000, 1))
    numbers = np.repeat(np.arange(len(weights)), [200, 800] if len(weights) == 2 else [200, 400, 400])
    y = np.where(numbers > 0, 1.0, -1.0) if loss.outputs == 1 else numbers.astype(float)
    problem, step = Problem(1000, 1, loss), ClassBalance(len(weights))
    oracle = linear_oracle(X, y, problem, Rows(1.0))
    asked = ClassCounts(loss)
    plan = replace(
        step.plan(1, 1000, oracle.model.relation, 1.0), noise=GaussianNoise(2.0, 1e-6, asked.width(1, False))
    )
    found = step.weighted(loss, plan, 1000, oracle, Randomness.seeded(0))
    np.testing.assert_allclose(found.weights, weights, rtol=1e-6)
    # where the noise is as large as a count, nobody knows which class is rare
    drowned = replace(plan, noise=GaussianNoise(2.0, 150.0, asked.width(1, False)))
    assert set(step.weighted(loss, drowned, 1000, oracle, Randomness.seeded(0)).weights) == {1.0}


def test_a_preparation_that_fits_no_classes_is_refused():
    method = Prepared(FEW, (ClassBalance(),))
    for loss, words in ((Softmax(3), "3 of them are needed"), (Squared(1.0, 0.5), "not a loss of classes")):
        with pytest.raises(ValueError, match=words):
            method.plan(Problem(100, 3, loss), Budget(1.0, 1e-6))
    for trained, words in ((NoisyNewton(), "the loss is Weighted"), (ConstantModel(), "the loss is Weighted")):
        with pytest.raises(ValueError, match=words):
            Prepared(trained, (ClassBalance(),)).plan(Problem(100, 3, Logistic()), Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="there are two at least"):
        ClassBalance(1)
    with pytest.raises(ValueError, match="counting classes adds Gaussian noise"):
        logistic(delta=0.0, class_weight="balanced").fit(np.ones((10, 2)), np.resize(["ill", "well"], 10))


def test_a_record_counts_its_weight(rare):
    """With hardly any noise: a weight of 0 leaves a record out, and up to n two halves are a whole."""
    X, y = rare
    settings = {"epsilon": 500.0, "prepare": None, "method": NoisyGradientDescent(50, 1.0), "weight_bound": 2.0}
    healthy = np.where(y == "well", 0.1, 2.0)
    by_record = logistic(**settings).fit(X, y, healthy)
    by_class = logistic(**settings, class_weight={"well": 0.05}).fit(X, y)
    np.testing.assert_allclose(by_record.coef_, by_class.coef_, rtol=1e-2)
    cut = logistic(**settings).fit(X, y, np.where(y == "well", 0.1, 1e9))
    np.testing.assert_allclose(by_record.coef_, cut.coef_, rtol=1e-9)
    (said,) = (text for text in by_record.certificate_.enforced if "weight" in text)
    assert said == "a record counts its weight, cut to the range from 0 to 2 and divided by 2, which is public"
    assert all(finding.holds for finding in verify(by_record.certificate_)[:-1])


def test_weights_in_regression_and_in_one_pass():
    """Two populations with opposite slopes: those that count for nothing are not seen."""
    rng = np.random.default_rng(2)
    X, which = rng.uniform(-1, 1, size=(4000, 1)), np.arange(4000) % 2
    y = np.where(which, 3.0, -3.0) * X[:, 0]
    for model in (
        PrivateHuberRegressor(5.0, row_norm=1.0, target_bound=3.0, weight_bound=1.0, random_state=0),
        PrivateLinearRegression(5.0, row_norm=1.0, target_bound=3.0, weight_bound=1.0, random_state=0),
        PrivateLinearRegression(
            *(5.0, 1e-6),
            row_norm=1.0,
            target_bound=3.0,
            weight_bound=1.0,
            method=SufficientStatistics(),
            random_state=0,
        ),
    ):
        assert model.fit(X, y, which.astype(float)).coef_[0] > 1.5
        assert model.fit(X, y, 1.0 - which).coef_[0] < -1.5
        assert abs(model.fit(X, y).coef_[0]) < 1.0


def test_weights_of_persons():
    """A person's records count their weights, and all of them together no more than one."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(3000, 2))
    y = np.where(X[:, 0] > 0, "well", "ill")
    model = logistic(weight_bound=1.0, method=FEW).fit(X, y, np.ones(3000), person=np.arange(3000) // 3)
    plain = logistic(method=FEW).fit(X, y, person=np.arange(3000) // 3)
    np.testing.assert_allclose(model.coef_, plain.coef_)
    assert model.certificate_.problem.unit == "person"


def test_a_saved_model_has_its_weights_again(rare, tmp_path):
    X, y = rare
    model = logistic(class_weight={"ill": 4.0}, weight_bound=3.0).fit(X, y, np.ones(len(X)))
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.class_weight == {"ill": 1.0, "well": 0.25}
    assert again.weight_bound == 3.0
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    balanced = PrivateLinearSVC(1.0, row_norm=2.0, classes=["ill", "well"], class_weight="balanced").fit(X, y)
    save_model(balanced, tmp_path / "b")
    np.testing.assert_array_equal(load_model(tmp_path / "b").predict(X), balanced.predict(X))


@pytest.mark.parametrize(
    ("settings", "weights", "sentence"),
    [
        ({"class_weight": "heavy"}, None, "class_weight is 'heavy': it must be None, 'balanced'"),
        ({"class_weight": [1, 2]}, None, "or a dictionary from labels"),
        ({"class_weight": {"sick": 2.0}}, None, "class_weight names 'sick', which is not among the classes"),
        ({"class_weight": {"ill": "much"}}, None, "class_weight of 'ill' is 'much': it must be a number"),
        ({"class_weight": {"ill": -1.0}}, None, "none negative and one positive"),
        ({"class_weight": {"ill": 0.0, "well": 0.0}}, None, "none negative and one positive"),
        ({}, np.ones(40), "weight_bound is required with sample_weight"),
        ({"weight_bound": 0.0}, np.ones(40), "weight_bound is 0.0: it must be a positive finite number"),
        ({"weight_bound": "1"}, np.ones(40), "weight_bound is '1': it must be a number"),
        ({"weight_bound": 1.0}, np.ones(39), r"sample_weight\.shape == \(39,\), expected \(40,\)"),
        ({"weight_bound": 1.0}, np.ones((40, 2)), "Sample weights must be 1D array or scalar"),
        ({"weight_bound": 1.0}, np.full(40, np.nan), "finite numbers, none of them negative"),
        ({"weight_bound": 1.0}, -np.ones(40), "finite numbers, none of them negative"),
        ({"weight_bound": 1.0}, ["seven"] * 40, "holds something that is not a number"),
    ],
)
def test_wrong_weights_are_refused_in_a_sentence(settings, weights, sentence):
    X, y = np.zeros((40, 2)), np.resize(["ill", "well"], 40)
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        logistic(**settings).fit(X, y, weights)
    assert "seven" not in str(caught.value)


@pytest.fixture(scope="module")
def weighted_table():
    """Two populations with opposite slopes, told apart by their weights alone."""
    rng = np.random.default_rng(5)
    age, counts = rng.uniform(0, 100, 3000), np.resize([4.0, 0.0], 3000)
    ill = np.where(counts > 0, age > 50, age < 50)
    return pd.DataFrame({"age": age, "counts": counts, "state": np.where(ill, "ill", "well")})


SCHEMA = Schema(ClassTarget("state", ("ill", "well")), {"age": Number(0, 100)})


def stored_table(folder, frame, form):
    if form == "parquet":
        frame.to_parquet(folder / "t.parquet")
        return folder / "t.parquet"
    frame.to_csv(folder / "t.csv", sep=";", decimal=",", index=False)
    return folder / "t.csv"


@pytest.mark.parametrize("memory", [2.0**30, 0.0], ids=["held", "streamed"])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_column_says_what_records_count_wherever_they_are(weighted_table, tmp_path, form, memory):
    """The table in memory, its column by name or as an array, and its file: the same released weights but for bits."""
    settings = {"epsilon": 3.0, "schema": SCHEMA, "weight_bound": 4.0, "random_state": 0, "method": FEW}
    path, kind = stored_table(tmp_path, weighted_table, form), PrivateLogisticRegression
    want = kind(**settings).fit(weighted_table, sample_weight=weighted_table["counts"].to_numpy())
    assert want.coef_[0, 0] < -1
    assert abs(kind(**settings).fit(weighted_table).coef_[0, 0]) < 1
    named = kind(**settings).fit(weighted_table, sample_weight="counts")
    np.testing.assert_array_equal(named.coef_, want.coef_)
    stored = kind(**settings).fit(EncodedTable(path, SCHEMA, memory), sample_weight="counts")
    np.testing.assert_allclose(stored.coef_, want.coef_, rtol=1e-9)
    assert stored.certificate_.enforced == want.certificate_.enforced
    assert stored.n_features_in_ == 1
    by_person = kind(**settings).fit(
        EncodedTable(path, SCHEMA, memory), sample_weight="counts", person=np.arange(3000) // 2
    )
    assert by_person.coef_[0, 0] < -0.5


def test_a_column_of_numbers_or_of_a_frame_without_a_schema(weighted_table, tmp_path):
    frame = weighted_table.assign(
        state=np.where(weighted_table["state"] == "ill", 1, 0), age=weighted_table["age"] / 100
    )
    frame.to_parquet(tmp_path / "t.parquet")
    settings = {"classes": [0, 1], "weight_bound": 4.0, "method": FEW}
    in_files = logistic(**settings).fit(Table(tmp_path / "t.parquet", "state", ["age"]), sample_weight="counts")
    in_memory = logistic(**settings).fit(frame[["age", "counts"]], frame["state"], sample_weight="counts")
    assert list(in_memory.feature_names_in_) == ["age"]
    np.testing.assert_allclose(in_files.coef_, in_memory.coef_, rtol=1e-9)
    # weights of classes are the loss's, and go wherever records are
    for weight in ({1: 3.0}, "balanced"):
        logistic(**settings, class_weight=weight).fit(Table(tmp_path / "t.parquet", "state", ["age"]))


@pytest.mark.parametrize(
    ("column", "cells", "sentence"),
    [
        ("age", None, "column 'age' is to hold the weights, and the schema has it as a feature or as the target"),
        ("state", None, "column 'state' is to hold the weights"),
        ("weight", None, "lacks 1 of the columns|none of the columns that are needed"),
        ("counts", np.nan, "column 'counts' has a weight that is missing, negative or infinite"),
        ("counts", -1.5, "column 'counts' has a weight that is missing, negative or infinite"),
        ("counts", np.inf, "column 'counts' has a weight that is missing, negative or infinite"),
        ("counts", "seven", "column 'counts' has text that is not a number"),
        ("counts", True, "column 'counts' holds bool values: numbers are needed"),
    ],
)
@pytest.mark.parametrize("stored", [False, True], ids=["frame", "file"])
def test_a_column_that_holds_no_weights_is_refused_without_its_cells(
    weighted_table, tmp_path, column, cells, sentence, stored
):
    frame = weighted_table.copy()
    if cells is not None:
        some = frame["counts"].astype(str if isinstance(cells, str) else object)
        some.iloc[7] = cells
        frame["counts"] = some if isinstance(cells, str) else some.astype(type(cells))
    X = frame
    if stored:
        frame.to_parquet(tmp_path / "t.parquet")
        X = EncodedTable(tmp_path / "t.parquet", SCHEMA)
    model = PrivateLogisticRegression(1.0, schema=SCHEMA, weight_bound=4.0)
    with pytest.raises(ValueError, match=sentence) as caught:
        model.fit(X, sample_weight=column)
    assert "seven" not in str(caught.value)
    assert "1.5" not in str(caught.value)


def test_a_column_named_where_there_are_none_or_as_a_feature(tmp_path):
    pd.DataFrame({"a": np.zeros(40), "w": np.ones(40), "y": [0, 1] * 20}).to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "X.npy", np.zeros((40, 1)))
    np.save(tmp_path / "y.npy", np.resize([0, 1], 40))
    for X, y, words in (
        (np.zeros((40, 2)), np.resize([0, 1], 40), "sample_weight names a column, and X is a ndarray, which has no"),
        (Arrays(tmp_path / "X.npy", tmp_path / "y.npy"), None, "sample_weight names a column, and Arrays has no"),
        (Table(tmp_path / "t.parquet", "y"), None, "sample_weight names a column that is among the features"),
    ):
        with pytest.raises(ValueError, match=words):
            logistic(classes=[0, 1], weight_bound=1.0).fit(X, y, sample_weight="w")


def test_on_the_command_line(weighted_table, tmp_path):
    path = stored_table(tmp_path, weighted_table, "csv")
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())

    def run(*more):
        given = ["fit", str(path), "--schema", str(tmp_path / "schema.toml"), "--epsilon", "3", "--method"]
        return CliRunner().invoke(app, [*given, "noisy-gradient-descent", "--out", str(tmp_path / "m"), *more])

    told = run("--weight", "counts", "--weight-bound", "4")
    assert told.exit_code == 0, told.output
    assert "not used" not in told.output
    model = load_model(tmp_path / "m")
    assert model.weight_bound == 4.0
    assert model.coef_[0, 0] < -1
    assert all(finding.holds for finding in verify(model.certificate_))
    for more, words in (
        (("--weight", "counts"), "--weight and --weight-bound go together"),
        (("--weight-bound", "4"), "--weight and --weight-bound go together"),
        (("--weight", "age", "--weight-bound", "4"), "is to hold the weights"),
        (("--weight", "counts", "--weight-bound", "-4"), "must be a positive finite number"),
        (("--weight", "counts", "--weight-bound", "4", "--intervals"), "every record counts one"),
    ):
        refused = run(*more)
        assert refused.exit_code == 2
        assert words in " ".join(refused.output.split())


def test_a_forged_weight_does_not_verify(rare):
    X, y = rare
    certificate = logistic(class_weight="balanced", random_state=None).fit(X, y).certificate_
    method = certificate.method
    for forged in (
        replace(certificate, method=replace(method, preparation=(ClassBalance(2, 0.2), *method.preparation[1:]))),
        replace(certificate, method=replace(method, preparation=method.preparation[1:])),
    ):
        assert not all(finding.holds for finding in verify(forged))
    with pytest.raises(ValueError, match="classes have weights"):
        replace(certificate.problem, loss=Weighted(Squared(1.0, 0.5), (1.0, 1.0)))


def test_the_hinge_is_smoothed_under_its_weights(rare):
    X, y = rare
    model = PrivateLinearSVC(2.0, row_norm=2.0, classes=["ill", "well"], class_weight={"ill": 9}, prepare=None)
    assert model.fit(X, y).certificate_.problem.loss == Weighted(Hinge(), (1.0, 1 / 9))
    assert share_ill(model, X) > 0.12


def test_training_by_hand_with_weights():
    """Rows, problem and oracle, as research uses them."""
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-1, 1, size=(500, 2)), rng.choice([-1.0, 1.0], 500)
    problem = Problem(500, 2, Logistic())
    oracle = linear_oracle(X, y, problem, Rows(2.0), Budget(1.0, 1e-6).relation, None, np.full(500, 0.5))
    assert np.isfinite(train(problem, Budget(1.0, 1e-6), FEW, oracle, rows=Rows(2.0)).weights).all()


def test_a_report_has_the_bounds_of_weights(rare, tmp_path):
    X, y = rare
    model = logistic(class_weight={"ill": 4.0}, weight_bound=3.0, method=FEW).fit(X, y, np.ones(len(X)))
    save_model(model, tmp_path / "m")
    report(tmp_path / "m", tmp_path / "m.html")
    text = (tmp_path / "m.html").read_text()
    for words in ("weight of a record", "at most 3", "weights of the classes", "1, 0.25"):
        assert words in text
