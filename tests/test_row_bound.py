"""Rows are predicted where they were trained on: within what preparation released, in memory and from a file."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from sordino import PrivateLinearRegression, PrivateLogisticRegression
from sordino.estimators.saved import load_model
from sordino.model_file import read_model, save_model
from sordino.oracle.rows import PreparedRows, Rows
from sordino.row_bound import RowBound, linear_scores

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

RNG = np.random.default_rng(0)
N, D = 300, 4
X = RNG.normal(size=(N, D)) + 1.5
y = (X[:, 0] > 1.5).astype(int)
SCALES = {"none": np.full(D, 0.3), "columns": np.array([0.2, 0.5, 1.0, 0.1]), "matrix": RNG.normal(size=(D, D))}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_scores_are_those_of_the_rows_that_were_trained_on(name, outputs):
    """By the weights for prepared rows, whose norm is kept as the oracle keeps it."""
    given, centre = Rows(6.0, 0.3), X.mean(axis=0)
    rows = PreparedRows(1.0, 0.3, 1.0, centre, SCALES[name])
    w = RNG.normal(size=(outputs, D + 1))
    moved = rows.applied(X)
    kept = moved * rows.scales(np.linalg.norm(moved, axis=1))[:, None]
    assert 0 < (np.linalg.norm(moved, axis=1) > 1).mean() < 1
    trained = kept @ w[:, :-1].T + 0.3 * w[:, -1]
    coef, intercept = given.to_raw(rows.to_given(w.ravel(), outputs, given), outputs)
    for form in (np.asarray, sparse.csr_array):
        np.testing.assert_allclose(rows.row_bound.kept(form(X)) @ coef.T + intercept, trained, atol=1e-9)


def test_sparse_rows_stay_sparse():
    bound = RowBound(np.zeros(D), np.full(D, 0.3))
    kept = bound.kept(sparse.csr_array(X))
    assert sparse.issparse(kept)
    np.testing.assert_allclose(kept.toarray(), bound.kept(X))


MODELS = {
    "classes": PrivateLogisticRegression(2.0, row_norm=6.0, classes=[0, 1], prepare=["centre", "norm quantile"]),
    "numbers": PrivateLinearRegression(2.0, row_norm=6.0, target_bound=1.0, prepare=["centre", "norm quantile"]),
    "whitened": PrivateLogisticRegression(
        2.0, row_norm=6.0, classes=[0, 1], prepare=["centre", "whitening", "norm quantile"]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_prepared_model_keeps_rows_within_what_it_released(name, tmp_path):
    model = MODELS[name].fit(X, y)
    bound = model.row_bound_
    score = model.decision_function if hasattr(model, "decision_function") else model.predict
    far = X + 1e3 * (X - bound.centre)
    much_farther = X + 1e6 * (X - bound.centre)
    np.testing.assert_allclose(score(far), score(much_farther), rtol=1e-5)
    save_model(model, tmp_path / "m")
    again, read = load_model(tmp_path / "m"), read_model(tmp_path / "m")
    np.testing.assert_array_equal(model.predict(far), again.predict(far))
    np.testing.assert_array_equal(model.predict(far), read.predict(far))


@pytest.mark.parametrize("scale", [np.array([0.5, 2.0, 0.1]), np.array([[0.5, 0.1, 0], [0, 2.0, 0], [0.3, 0, 0.1]])])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_scores_are_those_of_rows_within_the_bound(scale, kind):
    """Many more rows than are worked on at a time."""
    rng = np.random.default_rng(0)
    rows, coef = rng.normal(scale=3.0, size=(50_000, 3)).astype(kind), rng.normal(size=(2, 3))
    bound = RowBound(np.array([0.3, -1.0, 2.0]), scale)
    close = {"rtol": 1e-9 if kind is np.float64 else 1e-4, "atol": 1e-9 if kind is np.float64 else 1e-4}
    np.testing.assert_allclose(linear_scores(rows, coef, bound), bound.kept(rows) @ coef.T, **close)
    np.testing.assert_allclose(linear_scores(rows, coef, None), rows @ coef.T, **close)
    thin = sparse.csr_array(rows[:100])
    np.testing.assert_allclose(linear_scores(thin, coef, bound), bound.kept(rows[:100]) @ coef.T, **close)
    assert linear_scores(rows, coef, bound).dtype == linear_scores(thin, coef, None).dtype == np.float64


def test_other_models_are_linear_everywhere(tmp_path):
    model = PrivateLogisticRegression(row_norm=6.0, classes=[0, 1], prepare=None).fit(X, y)
    assert model.row_bound_ is None
    rise = model.decision_function(1e3 * X) - model.intercept_
    np.testing.assert_allclose(rise, 1e3 * (model.decision_function(X) - model.intercept_))
    save_model(model, tmp_path / "m")
    assert read_model(tmp_path / "m").row_bound is None


@pytest.mark.parametrize(
    ("centre", "scale"),
    [
        (np.zeros(2), np.ones(3)),
        (np.zeros(2), np.ones((2, 3))),
        (np.zeros((2, 2)), np.ones(2)),
        (np.array([0.0, math.nan]), np.ones(2)),
        (np.zeros(2), np.array([1.0, math.inf])),
    ],
)
def test_what_is_no_bound(centre, scale):
    with pytest.raises(ValueError, match="the bound on rows"):
        RowBound(centre, scale)
