"""The search as an estimator: one certificate for everything, and no warning."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression

from sordino import (
    Certificate,
    NoisyGradientDescent,
    PrivateHuberRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearch,
    ProximalSmoothing,
    load_model,
    save_model,
    verify,
    wire,
)

pytestmark = pytest.mark.filterwarnings("ignore:This is release number")

METHODS = [NoisyGradientDescent(5, 0.01), NoisyGradientDescent(60, 2.0)]


@pytest.fixture(scope="module")
def binary():
    # records of no other test: a second release on the same ones would be warned about
    rng = np.random.default_rng(6001)
    X = rng.uniform(-1, 1, size=(6000, 3))
    return X, np.where(X @ [3.0, -2.0, 1.0] + 0.3 * rng.logistic(size=6000) > 0, "yes", "no")


def classifier(**settings):
    return PrivateLogisticRegression(
        **{"epsilon": 1.0, "row_norm": np.sqrt(3), "classes": ["no", "yes"], "random_state": 7, **settings}
    )


@pytest.fixture(scope="module")
def fitted(binary):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return PrivateSearch(classifier(), {"method": METHODS, "l2": [0.0, 2.0]}).fit(*binary)


def test_it_finds_the_setting_that_works(fitted, binary):
    assert fitted.best_params_ == {"method": METHODS[1], "l2": 0.0}
    assert fitted.score(*binary) > 0.9
    assert set(fitted.predict(binary[0][:50])) == {"no", "yes"}
    assert fitted.predict_proba(binary[0][:5]).shape == (5, 2)
    assert fitted.decision_function(binary[0][:5]).shape == (5,)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.n_features_in_ == 3


def test_one_certificate_covers_the_search(fitted):
    certificate = Certificate.from_json(fitted.certificate_.to_json())
    assert certificate.epsilon == 1.0
    assert certificate.delta == 1 / 6000**2
    assert type(certificate.method).__name__ == "RepeatedSelection"
    findings = verify(certificate)
    # a seed is for tests, and the only thing that does not hold
    assert [finding.sentence for finding in findings if not finding.holds] == [findings[-1].sentence]
    assert "seeded" in findings[-1].sentence
    assert any("rdp of selections accountant confirms" in finding.sentence for finding in findings)


def test_what_is_saved_is_the_model_that_was_found(fitted, binary, tmp_path):
    with pytest.raises(ValueError, match=r"a PrivateSearch is saved, .* as the model that it found: give its best_est"):
        save_model(fitted, tmp_path / "m.sordino")
    assert save_model(fitted.best_estimator_, tmp_path / "m.sordino") == fitted.certificate_
    assert np.array_equal(load_model(tmp_path / "m.sordino").predict(binary[0]), fitted.predict(binary[0]))


def test_a_certificate_for_fewer_runs_than_were_made_does_not_verify(fitted):
    body = json.loads(fitted.certificate_.to_json())
    body["method"]["mean_runs"] = 2.0
    # the digest is no signature: whoever changes the file can compute it
    del body["digest"]
    forged = Certificate.from_json(json.dumps({**body, "digest": wire.digest(body)}))
    assert not verify(forged)[0].holds


def test_the_number_of_runs_is_nowhere(fitted):
    """It is drawn in secret and must stay there: not an attribute, and the same file for other draws."""
    public = {**vars(fitted), **vars(fitted.best_estimator_)}
    assert not any("runs" in name for name in public if name != "mean_runs")


def test_sparse_rows(binary):
    X, y = binary
    found = PrivateSearch(classifier(), {"method": METHODS}, mean_runs=6).fit(sparse.csr_array(X), y)
    assert found.score(X, y) > 0.9


def test_regression():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(6000, 2))
    y = X @ [2.0, -1.0] + 0.1 * rng.normal(size=6000)
    search = PrivateSearch(
        PrivateHuberRegressor(1.0, row_norm=np.sqrt(2), target_bound=4.0, threshold=2.0, random_state=1),
        {"l2": [0.0, 3.0]},
        law="geometric",
    )
    assert is_regressor(search)
    assert not hasattr(search, "predict_proba")
    assert search.fit(X, y).score(X, y) > 0.8
    assert search.best_params_ == {"method": "auto", "l2": 0.0}


@pytest.mark.parametrize("kind", ["signs", "numbers"])
def test_a_loss_with_a_kink_is_smoothed(kind):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(6000, 2))
    scores = X @ [2.0, -1.0] + 0.1 * rng.normal(size=6000)
    given = {"epsilon": 1.0, "row_norm": np.sqrt(2), "random_state": 1}
    estimator = (
        PrivateLinearSVC(classes=[-1, 1], **given)
        if kind == "signs"
        else PrivateQuantileRegressor(quantile=0.5, target_bound=4.0, **given)
    )
    search = PrivateSearch(estimator, {"l2": [0.0, 3.0]}).fit(X, np.sign(scores) if kind == "signs" else scores)
    assert search.best_params_ == {"method": "auto", "l2": 0.0}
    assert all(isinstance(one.method, ProximalSmoothing) for one in search.certificate_.method.settings)
    assert [finding.holds for finding in verify(search.certificate_)][:-1] == [True] * (
        len(verify(search.certificate_)) - 1
    )
    assert np.corrcoef(search.predict(X), scores)[0, 1] > 0.7


def test_what_is_no_number_of_runs_is_not_the_default(binary):
    with pytest.raises(ValueError, match=r"mean_runs is 0\.0: it must lie between 1 and"):
        PrivateSearch(classifier(), {"l2": [0.0, 0.1]}, mean_runs=0).fit(*binary)


def test_the_form_of_scikit_learn():
    search = PrivateSearch(classifier(), {"l2": [0.0]}, held_out=0.2)
    again = clone(search)
    assert again is not search
    assert again.get_params()["estimator__epsilon"] == 1.0
    assert is_classifier(again)
    again.set_params(estimator__epsilon=0.5)
    assert again.estimator.epsilon == 0.5
    assert search.estimator.epsilon == 1.0


@pytest.mark.parametrize(
    ("estimator", "grid", "error", "sentence"),
    [
        (LogisticRegression(), {"l2": [0.0]}, TypeError, "a search needs a private one"),
        (3, {"l2": [0.0]}, TypeError, "estimator is a int: a search needs a private one"),
        (classifier(), {"steps": [1, 2]}, ValueError, "param_grid names 'steps'"),
        (classifier(), {"epsilon": [1, 2], "l2": [0.0]}, ValueError, "param_grid names 'epsilon'"),
        (classifier(), {}, ValueError, "param_grid names nothing"),
        (classifier(), {"l2": []}, ValueError, "an empty list"),
        (classifier(), {"method": ["magic"]}, ValueError, "'auto' or a method"),
        (classifier(), {"method": [3]}, TypeError, "'auto' or a method"),
    ],
)
def test_refusals(binary, estimator, grid, error, sentence):
    with pytest.raises(error, match=sentence):
        PrivateSearch(estimator, grid).fit(*binary)
