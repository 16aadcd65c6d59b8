"""Additive models are linear models of the rows that a schema with curves makes, with curves to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

from sordino import (
    NoisyGradientDescent,
    ObjectivePerturbation,
    OutputPerturbation,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearch,
    Schema,
    load_model,
    save_model,
    verify,
)
from sordino.files import EncodedTable
from sordino.model_file import read_model, verify_model
from sordino.tabular import Category, ClassTarget, Curves, Number, NumberTarget
from sordino.tabular.encode import encode_features

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

N = 3000
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (N, 3))
Y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=N)
LABELS = np.where(np.abs(X[:, 0]) > 0.5, "far", "near")
FEW = NoisyGradientDescent(steps=3)

COLUMNS = {"u": Number(-1, 1), "v": Number(-2, 2, "indicator"), "w": Category(("a", "b"), other=True)}
CLASSES = Schema(ClassTarget("where", ("far", "near")), COLUMNS)
PRICE = Schema(NumberTarget("price", -3, 3), COLUMNS)
FRAME = pd.DataFrame(
    {
        "u": X[:, 0],
        "v": np.where(X[:, 2] > 0.9, np.nan, X[:, 1]),
        "w": np.where(X[:, 2] > 0, "a", "z"),
        "where": LABELS,
        "price": Y,
        "who": np.arange(N) // 2,
    }
)


def classifier(**given: Any) -> PrivateAdditiveClassifier:
    return PrivateAdditiveClassifier(**{"ranges": (-1, 1), "classes": ["far", "near"], "method": FEW, **given})


def regressor(**given: Any) -> PrivateAdditiveRegressor:
    return PrivateAdditiveRegressor(**{"ranges": (-1, 1), "target_range": (-3, 3), "method": FEW, **given})


def test_what_no_line_can_follow_is_learnt_and_certified() -> None:
    model = PrivateAdditiveClassifier(2.0, ranges=(-1, 1), classes=["far", "near"]).fit(X, LABELS)
    line = PrivateLogisticRegression(2.0, row_norm=3**0.5, classes=["far", "near"]).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.85 > 0.7 > line.score(X, LABELS)
    number = PrivateAdditiveRegressor(2.0, ranges=(-1, 1), target_range=(-3, 3)).fit(X, Y)
    assert number.score(X, Y) > 0.7
    for fitted in (model, number):
        assert fitted.certificate_.epsilon == 2.0
        assert all(finding.holds for finding in verify(fitted.certificate_))


METHODS = {
    "auto": "auto",
    "descent": NoisyGradientDescent(steps=20),
    "output": OutputPerturbation(steps=20),
    "objective": ObjectivePerturbation(),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_linear_method_is_the_one_of_the_expanded_rows(method: str) -> None:
    """The plan sees the norm and the number of the rows' columns, and nothing else of a curve."""
    given = {"method": METHODS[method], "random_state": 3, "l2": 0.01}
    model = PrivateAdditiveClassifier(schema=CLASSES, pieces=8, interactions=[("u", "w")], **given).fit(FRAME)
    curved = Schema(CLASSES.target, COLUMNS, curves=Curves(8, (("u", "w"),)))
    rows = encode_features(curved, FRAME)
    by_hand = PrivateLogisticRegression(row_norm=curved.row_norm, classes=["far", "near"], **given)
    assert model.coef_.tolist() == by_hand.fit(rows, LABELS).coef_.tolist()
    assert model.certificate_.plan == by_hand.certificate_.plan
    assert model.certificate_.rows == by_hand.certificate_.rows
    assert model.predict(FRAME).tolist() == by_hand.predict(rows).tolist()


def test_arrays_and_data_frames_by_ranges() -> None:
    one = regressor(random_state=1).fit(X, Y)
    assert one.n_features_in_ == 3
    for ranges in ([(-1, 1)] * 3, np.array([[-1.0, 1.0]] * 3)):
        assert regressor(random_state=1, ranges=ranges).fit(X.tolist(), Y).coef_.tolist() == one.coef_.tolist()
    frame = pd.DataFrame(X, columns=["a", "b", "target"])
    for ranges in ((-1, 1), {"a": (-1, 1), "b": (-1, 1), "target": (-1, 1)}):
        for table in (frame, pl.from_pandas(frame)):
            named = regressor(random_state=1, ranges=ranges).fit(table, Y)
            assert named.coef_.tolist() == one.coef_.tolist()
            assert named.feature_names_in_.tolist() == ["a", "b", "target"]
            # by their names, not by their places
            assert named.predict(frame[["target", "a", "b"]]).tolist() == one.predict(X).tolist()
    assert one.predict(9 * X).max() <= 3
    fewer = regressor(ranges={"b": (-1, 1)}).fit(frame, Y)
    assert fewer.feature_names_in_.tolist() == ["b"]


def test_numbers_beyond_the_range_are_at_its_end() -> None:
    model = classifier().fit(X, LABELS)
    np.testing.assert_array_equal(
        model.decision_function(np.full((1, 3), 7.0)), model.decision_function(np.ones((1, 3)))
    )


@pytest.mark.parametrize("kind", ["array", "classes", "number", "curves in the schema"])
def test_a_saved_model_is_an_estimator_again(kind: str, tmp_path: Path) -> None:
    curved = Schema(CLASSES.target, COLUMNS, curves=Curves(4))
    model, table = {
        "array": (classifier().fit(X, LABELS), X),
        "classes": (PrivateAdditiveClassifier(schema=CLASSES, interactions=[("u", "w")], method=FEW).fit(FRAME), FRAME),
        "number": (PrivateAdditiveRegressor(schema=PRICE, pieces=4, method=FEW).fit(FRAME), FRAME),
        "curves in the schema": (PrivateAdditiveClassifier(schema=curved, method=FEW).fit(FRAME), FRAME),
    }[kind]
    save_model(model, tmp_path / "m")
    assert all(finding.holds for finding in verify_model(read_model(tmp_path / "m")))
    again = load_model(tmp_path / "m")
    assert type(again) is type(model)
    assert again.predict(table).tolist() == model.predict(table).tolist()
    assert [effect.scores.tolist() for effect in again.effects()] == [e.scores.tolist() for e in model.effects()]
    save_model(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert clone(model).get_params().keys() == again.get_params().keys()


def test_curves_that_are_altered_in_a_model_file_are_noticed(tmp_path: Path) -> None:
    """The schema is part of what the certificate is about, and its curves of the schema."""
    from dataclasses import replace

    model = PrivateAdditiveClassifier(schema=CLASSES, pieces=4, interactions=[("u", "v")], method=FEW).fit(FRAME)
    save_model(model, tmp_path / "m")
    loaded = read_model(tmp_path / "m")
    turned = replace(loaded.schema, curves=Curves(4, (("v", "u"),)))
    forged = replace(loaded, schema=turned, feature_names=turned.feature_names)
    assert any(not finding.holds for finding in verify_model(forged))


def test_texts_beside_columns_with_ranges_are_not_looked_at() -> None:
    """NumPy would quote one of them."""
    frame = pd.DataFrame({"u": X[:, 0], "who": [f"patient {k % 900}" for k in range(N)], "note": "private"})
    given = {"ranges": {"u": (-1, 1)}, "random_state": 3}
    by_texts = regressor(**given).fit(frame, Y, person="who", records_per_person=2)
    by_numbers = regressor(**given).fit(frame[["u"]], Y, person=frame["who"].to_numpy(), records_per_person=2)
    assert by_texts.coef_.tolist() == by_numbers.coef_.tolist()


def test_persons_files_and_searches(tmp_path: Path) -> None:
    protected = PrivateAdditiveClassifier(schema=CLASSES, method=FEW).fit(FRAME, person="who", records_per_person=2)
    assert protected.certificate_.problem.records == N // 2
    by_ranges = regressor().fit(FRAME[["u", "who"]], Y, person="who", records_per_person=2)
    assert by_ranges.feature_names_in_.tolist() == ["u"]
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    given = {"schema": CLASSES, "method": FEW, "random_state": 2}
    read = PrivateAdditiveClassifier(**given).fit(EncodedTable(tmp_path / "t.csv", CLASSES))
    streamed = PrivateAdditiveClassifier(**given).fit(EncodedTable(tmp_path / "t.csv", CLASSES, memory=0))
    for other in (read, streamed):
        np.testing.assert_allclose(other.coef_, PrivateAdditiveClassifier(**given).fit(FRAME).coef_, rtol=1e-9)
    search = PrivateSearch(PrivateAdditiveClassifier(3.0, schema=CLASSES), {"method": [FEW, NoisyGradientDescent(9)]})
    assert search.fit(FRAME).predict(FRAME).shape == (N,)


def test_a_plot_shows_the_effect_about_its_mean() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    model = PrivateAdditiveClassifier(schema=CLASSES, interactions=[("u", "w")], method=FEW).fit(FRAME)
    effect = model.effects()[0]
    assert effect.columns == ("u",)
    axes = model.plot("u")
    np.testing.assert_allclose(axes.lines[0].get_xdata(), effect.points[0])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), effect.scores[0] - effect.scores[0].mean())
    assert axes.get_xlabel() == "u"
    shown = model.plot("v", plt.subplots()[1])
    # a missing value stands apart
    assert [line.get_label() for line in shown.lines][1] == "(missing)"
    assert [tick.get_text() for tick in model.plot("w").get_xticklabels()] == ["a", "b", "(other)"]
    picture = model.plot("u x w").images[0].get_array()
    np.testing.assert_allclose(picture, model.effects()[-1].scores[0].T)
    with pytest.raises(ValueError, match="column is 'x': known are 'u', 'v', 'w', 'u x w'"):
        model.plot("x")
    plt.close("all")


@pytest.mark.parametrize(
    ("model", "data", "error", "sentence"),
    [
        (PrivateAdditiveClassifier(classes=["far", "near"]), X, ValueError, "schema and ranges are missing: give a"),
        (PrivateAdditiveClassifier(schema=CLASSES, ranges=(0, 1)), X, ValueError, "schema and ranges are both given"),
        (PrivateAdditiveClassifier(ranges=(-1, 1)), X, ValueError, "classes is required with ranges"),
        (PrivateAdditiveRegressor(ranges=(-1, 1)), X, ValueError, "target_range is None: with ranges a pair"),
        (regressor(target_range=(2, 1)), X, ValueError, "low < high"),
        (classifier(ranges=(1, -1)), X, ValueError, "low < high"),
        (classifier(ranges=3), X, ValueError, r"ranges is 3: give \(low, high\) for all columns"),
        (classifier(ranges=[(-1, 1)]), X, ValueError, "for each of the 3"),
        (classifier(ranges={"x0": "wide"}), X, ValueError, "the range of 'x0' is 'wide'"),
        (classifier(ranges={"income": (0, 1)}), FRAME, ValueError, "none of the columns that are needed: 'income'"),
        (classifier(pieces=10), X, ValueError, "pieces is 10: it must be a power of two"),
        (classifier(interactions=[("x0", "x9")]), X, ValueError, "interactions names 'x9'"),
        (classifier(interactions="x0"), X, ValueError, "a list of pairs of columns"),
        (classifier(), sparse.csr_matrix(X), TypeError, "Sparse data was passed"),
        (classifier(), np.where(X > 0.9, np.nan, X), ValueError, "contains NaN"),
        (classifier(), X[0], ValueError, "Expected 2D array"),
        (PrivateAdditiveClassifier(schema="a.toml"), FRAME, TypeError, "schema is a str: give a sordino.Schema"),
        (
            PrivateAdditiveClassifier(schema=Schema(CLASSES.target, COLUMNS, curves=Curves()), pieces=4),
            FRAME,
            ValueError,
            "the schema has curves of its own",
        ),
    ],
)
def test_what_does_not_go_together_is_a_sentence(model: Any, data: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        model.fit(data, Y if isinstance(model, PrivateAdditiveRegressor) else LABELS)


def test_more_that_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="ranges are for an array or data frame X with its targets y"):
        classifier().fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but PrivateAdditiveClassifier is expecting 3"):
        classifier().fit(X, LABELS).predict(X[:, :2])


def test_a_line_is_not_lost() -> None:
    """Where effects are straight, curves cost the noise on more weights, and little else."""
    y = X @ [1.0, -1.0, 0.5] + 0.2 * RNG.normal(size=N)
    curves = [PrivateAdditiveRegressor(ranges=(-1, 1), target_range=(-3, 3)).fit(X, y).score(X, y) for _ in range(3)]
    lines = [PrivateLinearRegression(row_norm=3**0.5, target_range=(-3, 3)).fit(X, y).score(X, y) for _ in range(3)]
    assert np.mean(curves) > np.mean(lines) - 0.08
