"""Tables of every library go in at `fit` and at `predict`, and the schema decides what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline

import sordino
from sordino import Schema, load_model, save_model, verify
from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.encoder import SchemaEncoder
from sordino.estimators.networks import PrivateMLPClassifier, PrivateMLPRegressor
from sordino.estimators.regressors import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVR,
    PrivateQuantileRegressor,
)
from sordino.files import EncodedTable
from sordino.methods import NoisyGradientDescent, ProximalSmoothing
from sordino.model_file import read_model, verify_model
from sordino.tabular import Boolean, Category, ClassTarget, Date, Number, NumberTarget, Ordinal
from sordino.tabular.encode import encode_features

pytestmark = pytest.mark.filterwarnings("ignore::sordino.PrivacyWarning")

N = 300
COLUMNS = {
    "age": Number(20, 80, missing="indicator"),
    "job": Category(("clerk", "smith"), other=True),
    "since": Date("2020-01-01", "2020-12-31"),
    "likes": Ordinal(("no", "partly", "yes")),
    "member": Boolean(),
}
CLASSES = Schema(ClassTarget("income", ("high", "low")), COLUMNS)
WHOLE = Schema(ClassTarget("grade", (1, 2, 10)), COLUMNS)
PRICE = Schema(NumberTarget("price", 1000, 3000), COLUMNS)


def people() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.uniform(20, 80, N)
    return pd.DataFrame(
        {
            "price": 1000 + 25 * age,
            "income": np.where(age > 50, "high", "low"),
            "grade": rng.choice([1, 2, 10], N),
            "age": np.where(rng.random(N) < 0.1, np.nan, age),
            "job": rng.choice(["clerk", "smith", "baker"], N),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, N), "D"),
            "likes": pd.Categorical(rng.choice(["no", "partly", "yes"], N)),
            "member": rng.random(N) < 0.5,
            "not used": [{"mixed": k} if k % 2 else "text" for k in range(N)],
        }
    )


def assert_verified(model: Any) -> None:
    """But for the seed, which makes a test's model not private."""
    assert [f.sentence for f in verify(model.certificate_) if not f.holds and "seed" not in f.sentence] == []


FRAMES = {
    "pandas": lambda frame: frame,
    "pandas with arrow": lambda frame: frame.drop(columns="not used").convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda frame: pl.from_pandas(frame.drop(columns="not used")),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame.drop(columns="not used")),
    "dictionary": lambda frame: {name: frame[name].to_numpy() for name in frame},
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_table_gives_the_same_model(kind: str) -> None:
    frame = people()
    want = PrivateLogisticRegression(1.0, 1e-5, schema=CLASSES, random_state=4).fit(
        pa.table({name: frame[name] for name in (*COLUMNS, "income")})
    )
    table = FRAMES[kind](frame)
    model = PrivateLogisticRegression(1.0, 1e-5, schema=CLASSES, random_state=4).fit(table)
    assert model.coef_.tolist() == want.coef_.tolist()
    assert model.predict(table).tolist() == want.predict(frame).tolist()
    assert model.feature_names_in_.tolist() == list(COLUMNS)
    assert model.n_features_in_ == len(COLUMNS)
    assert model.classes_.tolist() == ["high", "low"]
    assert_verified(model)
    by_hand = PrivateLogisticRegression(
        1.0, 1e-5, row_norm=CLASSES.row_norm, classes=["low", "high"], random_state=4
    ).fit(encode_features(CLASSES, frame), frame["income"])
    assert by_hand.coef_.tolist() == want.coef_.tolist()


def test_the_target_may_be_given_by_itself() -> None:
    frame = people()
    whole = PrivateLogisticRegression(1.0, 1e-5, schema=WHOLE, random_state=4).fit(frame)
    for y in (frame["grade"], frame["grade"].to_numpy(), pl.Series(frame["grade"].to_list()), frame["grade"].tolist()):
        apart = PrivateLogisticRegression(1.0, 1e-5, schema=WHOLE, random_state=4).fit(frame[list(COLUMNS)], y)
        assert apart.coef_.tolist() == whole.coef_.tolist()
    assert whole.classes_.tolist() == [1, 2, 10]
    assert whole.predict(frame).dtype.kind == "i"
    assert 0 <= whole.score(frame, frame["grade"]) <= 1


DESCENT = NoisyGradientDescent(steps=60)
REGRESSORS = {
    PrivateHuberRegressor: {"threshold": 250.0, "method": DESCENT},
    PrivateLinearRegression: {"method": DESCENT},
    PrivateQuantileRegressor: {"quantile": 0.4, "method": ProximalSmoothing(DESCENT)},
    PrivateLinearSVR: {"tolerance": 100.0, "method": ProximalSmoothing(DESCENT)},
}


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_number_is_predicted_in_its_own_unit_and_range(kind: Any, tmp_path: Path) -> None:
    frame = people()
    by_schema = kind(50.0, 1e-5, schema=PRICE, random_state=1, **REGRESSORS[kind]).fit(frame)
    X = encode_features(PRICE, frame)
    by_range = kind(
        50.0, 1e-5, row_norm=PRICE.row_norm, target_range=(1000, 3000), random_state=1, **REGRESSORS[kind]
    ).fit(X, frame["price"])
    assert by_schema.coef_.tolist() == by_range.coef_.tolist()
    assert by_schema.intercept_ == by_range.intercept_
    np.testing.assert_array_equal(by_schema.predict(frame), by_range.predict(X).clip(1000, 3000))
    assert abs(np.corrcoef(by_schema.predict(frame), frame["price"])[0, 1]) > 0.5
    for model in (by_schema, by_range):
        said = [*model.certificate_.enforced, *model.certificate_.assumed]
        assert "targets are clipped to the range from 1000 to 3000" in said
        assert "the target range from 1000 to 3000 does not come from the records" in said
        assert_verified(model)
    # an origin moves with the range, to rounding
    moved = kind(50.0, 1e-5, row_norm=PRICE.row_norm, target_bound=1000, random_state=1, **REGRESSORS[kind]).fit(
        X, frame["price"] - 2000
    )
    np.testing.assert_allclose(moved.predict(X) + 2000, by_range.predict(X), rtol=1e-9)
    save_model(by_range, tmp_path / "m")
    again = load_model(tmp_path / "m").get_params()
    wanted = by_range.get_params()
    for name in ("target_range", "row_norm", *REGRESSORS[kind]):
        assert again[name] == (wanted[name] if name == "method" else pytest.approx(wanted[name])), name


def fitted(kind: str, frame: Any) -> Any:
    given = {"epsilon": 2.0, "delta": 1e-5}
    network = {**given, "epochs": 1, "hidden_layer_sizes": (3,)}
    return {
        "two classes": lambda: PrivateLogisticRegression(**given, schema=CLASSES),
        "three classes": lambda: PrivateLogisticRegression(**given, schema=WHOLE, relation="add_remove", records=N),
        "margins": lambda: PrivateLinearSVC(**given, schema=CLASSES),
        "number": lambda: PrivateHuberRegressor(**given, schema=PRICE, threshold=250.0, method=DESCENT),
        "network of classes": lambda: PrivateMLPClassifier(**network, schema=WHOLE),
        "network of numbers": lambda: PrivateMLPRegressor(**network, schema=PRICE),
    }[kind]().fit(frame)


@pytest.mark.parametrize(
    "kind", ["two classes", "three classes", "margins", "number", "network of classes", "network of numbers"]
)
def test_a_saved_model_is_an_estimator_again(kind: str, tmp_path: Path) -> None:
    frame = people()
    model = fitted(kind, frame)
    save_model(model, tmp_path / "m.sordino")
    again = load_model(tmp_path / "m.sordino")
    assert type(again) is type(model)
    assert is_classifier(again) == is_classifier(model)
    assert again.schema == model.schema
    assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    for table in (frame, pl.from_pandas(frame.drop(columns="not used"))):
        assert again.predict(table).tolist() == model.predict(table).tolist()
    shared = {"epsilon", "delta", "schema", "row_norm", "relation", "records", "l2", "hidden_layer_sizes", "activation"}
    for name in shared & set(model.get_params()):
        assert again.get_params()[name] == model.get_params()[name], name
    clone(again)
    # what is saved again is the same model to the last bit, and still the one that the certificate speaks of
    save_model(again, tmp_path / "again.sordino")
    assert (tmp_path / "again.sordino").read_bytes() == (tmp_path / "m.sordino").read_bytes()
    assert all(finding.holds for finding in verify_model(read_model(tmp_path / "m.sordino")))


def test_a_model_of_arrays_is_an_estimator_again_too(tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, size=(N, 2)), columns=["u", "v"])
    model = PrivateLogisticRegression(2.0, 1e-5, row_norm=2.0, classes=[0, 1]).fit(X, (X["u"] > 0).astype(int))
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.predict_proba(X).tolist() == model.predict_proba(X).tolist()
    assert again.feature_names_in_.tolist() == ["u", "v"]
    assert again.n_features_in_ == 2


def test_an_encoder_is_a_step_that_looks_at_one_record() -> None:
    frame = people()
    encoder = SchemaEncoder(CLASSES).set_output(transform="pandas")
    rows = encoder.fit_transform(frame)
    assert list(rows.columns) == list(CLASSES.feature_names) == encoder.get_feature_names_out().tolist()
    np.testing.assert_array_equal(rows.to_numpy(), encode_features(CLASSES, frame))
    np.testing.assert_array_equal(SchemaEncoder(CLASSES).transform(frame.iloc[7:8]), rows.to_numpy()[7:8])
    pipeline = make_pipeline(
        SchemaEncoder(CLASSES),
        PrivateLogisticRegression(1.0, 1e-5, row_norm=CLASSES.row_norm, classes=["high", "low"], random_state=4),
    )
    whole = PrivateLogisticRegression(1.0, 1e-5, schema=CLASSES, random_state=4).fit(frame)
    assert pipeline.fit(frame, frame["income"])[-1].coef_.tolist() == whole.coef_.tolist()
    assert clone(pipeline)[0].schema == CLASSES


def test_a_table_on_disk(tmp_path: Path) -> None:
    frame = people().drop(columns="not used")
    frame.to_csv(tmp_path / "t.csv", index=False)
    want = PrivateLogisticRegression(1.0, 1e-5, schema=CLASSES, random_state=4).fit(frame)
    for memory in (0, 2**30):
        model = PrivateLogisticRegression(1.0, 1e-5, schema=CLASSES, random_state=4)
        model.fit(EncodedTable(tmp_path / "t.csv", CLASSES, memory))
        np.testing.assert_allclose(model.coef_, want.coef_, rtol=1e-12)
    with pytest.raises(ValueError, match="with the same schema"):
        want.fit(EncodedTable(tmp_path / "t.csv", PRICE))


def test_a_sketch_has_names_and_types_and_no_cell() -> None:
    """Two tables with the same columns and nothing else in common have the same sketch, which must be filled in."""
    frame = people().drop(columns="not used")
    sketch = Schema.sketch(frame, target="income")
    for line in (
        'column = "income"',
        'age = { low = "?", high = "?" }',
        'since = { low = "?", high = "?" }',
        "job = { values = [] }",
        "member = { boolean = true }",
    ):
        assert line in sketch
    assert Schema.sketch(frame.iloc[:0], target="income") == sketch
    assert Schema.sketch(pl.from_pandas(frame), target="income") == sketch
    assert Schema.sketch(pa.Table.from_pandas(frame), target="income") == sketch
    with pytest.raises(ValueError, match="a number is needed, known without"):
        Schema.from_toml(sketch)
    assert '[target]\ncolumn = "price"\nlow = "?"' in Schema.sketch(frame, target="price")
    with pytest.raises(ValueError, match="none of the columns that are needed: 'incomes'"):
        Schema.sketch(frame, target="incomes")


def test_two_columns_of_one_name_are_told_without_the_name() -> None:
    """It may stand in the table alone, whose header may be a record."""
    frame = people().rename(columns={"not used": "4711"})
    twice = pd.concat([frame, frame[["4711"]]], axis=1)
    with pytest.raises(ValueError, match="two columns of the table have the same name") as refused:
        PrivateLogisticRegression(schema=CLASSES).fit(twice)
    assert "4711" not in str(refused.value)


def test_a_file_is_not_given_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"the data is a str: .* is sordino.files.EncodedTable\(path, schema\)"):
        PrivateLogisticRegression(schema=CLASSES).fit("people.csv")
    with pytest.raises(TypeError, match=r"schema is a str: give a sordino\.Schema"):
        EncodedTable("people.csv", "schema.toml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "data", "error", "sentence"),
    [
        (PrivateLogisticRegression(schema=PRICE), "table", ValueError, "predicts classes"),
        (PrivateHuberRegressor(schema=CLASSES), "table", ValueError, "predicts a number"),
        (PrivateLogisticRegression(schema="s.toml"), "table", TypeError, r"give a sordino.Schema, such as Schema.load"),
        (
            PrivateLogisticRegression(schema=CLASSES),
            "array",
            TypeError,
            "a ndarray: with a schema, give",
        ),
        (PrivateLogisticRegression(schema=CLASSES), "fewer", ValueError, "lacks 1 of the columns .*: 'age'"),
        (PrivateLogisticRegression(schema=CLASSES, classes=["a", "b"]), "table", ValueError, "leave `classes` out"),
        (PrivateLogisticRegression(schema=CLASSES, row_norm=1.0), "table", ValueError, "leave row_norm out"),
        (PrivateHuberRegressor(schema=PRICE, target_range=(0, 1)), "table", ValueError, "leave target_range"),
        (PrivateHuberRegressor(row_norm=1, target_range=(1, 0)), "array", ValueError, "the lower one first"),
        (PrivateHuberRegressor(row_norm=1, target_range=3), "array", ValueError, "target_range is 3: two finite"),
        (PrivateHuberRegressor(row_norm=1, target_range=(0, 1), target_bound=1), "array", ValueError, "one of them"),
        (PrivateLinearRegression(row_norm=1), "array", ValueError, "is required: a bound on"),
    ],
)
def test_what_does_not_go_together_is_a_sentence(model: Any, data: str, error: Any, sentence: str) -> None:
    frame = people()
    X, y = {
        "table": (frame, None),
        "fewer": (frame.drop(columns="age"), None),
        "array": (np.zeros((N, 2)), np.linspace(0, 1, N)),
    }[data]
    with pytest.raises(error, match=sentence):
        model.fit(X, y)


def test_the_schema_is_at_the_front_door() -> None:
    assert sordino.Schema is Schema
    assert sordino.SchemaEncoder is SchemaEncoder


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_numbers_of_a_table_need_no_schema(kind: Any) -> None:
    """The names of its columns are known again at `predict`, and wrong ones are noticed."""
    numbers = np.random.default_rng(5).uniform(-1, 1, (60, 2))
    table, other = (kind({name: numbers[:, 0], "b": numbers[:, 1]}) for name in ("a", "c"))
    y = (numbers[:, 0] > 0).astype(int)
    model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], method=NoisyGradientDescent(steps=2)).fit(table, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert np.array_equal(model.predict(table), model.predict(pd.DataFrame(numbers, columns=["a", "b"])))
    assert sordino.private_score(model, table, y, epsilon=1.0).measures
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(other)
