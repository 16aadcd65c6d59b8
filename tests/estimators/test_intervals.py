"""Intervals from an estimator to a file and back: one certificate, one entry of a ledger, and never a false one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import clone

from html_pages import text_of
from sordino import (
    NoisyGradientDescent,
    PrivateAdditiveClassifier,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    load_model,
    report,
    save_model,
    sentences,
    verify,
)
from sordino.budget import Budget
from sordino.certificate import Certificate
from sordino.ledger.ledger import Ledger
from sordino.model_file import model_of, read_model, released_weights, verify_model
from sordino.privacy.ledger_context import charged_to
from sordino.privacy.randomness import SYSTEM
from sordino.tabular import Number, NumberTarget, Schema
from sordino.words import explain

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

N, D = 4000, 3
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (N, D))
LABELS = (X @ [2.0, -1.0, 0.0] + RNG.logistic(size=N) > 0).astype(int)
COSTS = 100 + 20 * X @ [1.0, -0.5, 0.0] + 5 * RNG.normal(size=N)
NORM = math.sqrt(D)

MODELS = {
    "logistic": lambda **given: PrivateLogisticRegression(3.0, row_norm=NORM, classes=[0, 1], intervals=True, **given),
    "huber": lambda **given: PrivateHuberRegressor(3.0, row_norm=NORM, target_range=(0, 200), intervals=True, **given),
    "least squares": lambda **given: PrivateLinearRegression(
        3.0, row_norm=NORM, target_range=(0, 200), intervals=True, **given
    ),
    "descent": lambda **given: PrivateLogisticRegression(
        3.0, row_norm=NORM, classes=[0, 1], intervals=True, method=NoisyGradientDescent(), **given
    ),
}
TRUTH = {"logistic": [2.0, -1.0, 0.0, 0.0], "huber": [20.0, -10.0, 0.0, 100.0]}
TRUTH |= {"least squares": TRUTH["huber"], "descent": TRUTH["logistic"]}


def targets(name):
    return LABELS if name in ("logistic", "descent") else COSTS


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return request.param, MODELS[request.param](random_state=1).fit(X, targets(request.param))


def test_they_are_in_the_units_of_the_records(fitted):
    """Five deviations hold the truth for sure; a wrong unit would not."""
    name, model = fitted
    ends = model.confidence_intervals(2 * norm.cdf(5) - 1)
    low, high = np.vstack(ends).T
    assert ((low <= TRUTH[name]) & (TRUTH[name] <= high)).all()
    errors = model.standard_errors_
    np.testing.assert_allclose(high - low, 10 * errors, rtol=1e-6)
    # 20 and 10 are told apart from nothing, and not by an error that is nothing
    assert (np.abs(model.coef_.ravel()[:2]) > 5 * errors[:2]).all()
    assert (errors > 1e-4 * np.abs(TRUTH[name]).max()).all()


def test_a_prediction_has_the_interval_of_its_score(fitted):
    name, model = fitted
    rows = X[:5]
    S, scores = model.covariance_, rows @ model.coef_.ravel() + model.intercept_
    padded = np.column_stack([rows, np.ones(5)])
    reach = norm.ppf(0.95) * np.sqrt(np.diag(padded @ S @ padded.T))
    want = np.column_stack([scores - reach, scores + reach])
    want = expit(want) if name in ("logistic", "descent") else want
    np.testing.assert_allclose(model.predict_interval(rows, 0.9), want, rtol=1e-9)
    np.testing.assert_allclose(model.predict_interval(sparse.csr_array(rows), 0.9), want, rtol=1e-9)


def test_one_certificate_tells_of_all_of_it(fitted):
    model = fitted[1]
    certificate = model.certificate_
    findings = verify(certificate, released_weights(model))
    # seeded: that, and nothing else, is found wanting
    assert [finding.holds for finding in findings].count(False) == 1
    assert sentences.INTERVALS_COVERED() in certificate.notes
    assert "Whoever sees this model and its intervals" in explain(replace(certificate, randomness=SYSTEM)).promised
    silent = Certificate.from_json(replace(certificate, notes=()).to_json())
    assert [finding.holds for finding in verify(silent)].count(False) == 2
    if certificate.plan["newton"]:
        # less noise in a curvature than was planned
        newton = [dict(step) for step in certificate.plan["newton"]]
        newton[-1]["curvature"] = {**newton[-1]["curvature"], "std": 0.9 * newton[-1]["curvature"]["std"]}
        forged = replace(certificate, plan={**certificate.plan, "newton": newton})
        assert "gives other numbers" in verify(forged)[0].sentence


def test_a_file_carries_them_and_is_bound_to_them(fitted, tmp_path):
    model = fitted[1]
    save_model(model, tmp_path / "m")
    loaded, again = read_model(tmp_path / "m"), load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.covariance, model.covariance_)
    for one in (loaded, again):
        for mine, theirs in zip(one.confidence_intervals(0.8), model.confidence_intervals(0.8), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_allclose(one.predict_interval(X[:3]), model.predict_interval(X[:3]), rtol=1e-12)
    assert again.intervals is True
    assert "its intervals follow from sums that the certificate counts." in [
        finding.sentence for finding in verify_model(loaded) if finding.holds
    ]
    for changed in (0.5 * loaded.covariance, None):
        held = [finding.holds for finding in verify_model(replace(loaded, covariance=changed))]
        assert held.count(False) == 2
    with pytest.raises(ValueError, match="the covariance is not that"):
        replace(loaded, covariance=loaded.covariance[:-1, :-1])


def test_intervals_that_nobody_paid_for_are_found():
    plain = PrivateLogisticRegression(3.0, row_norm=NORM, classes=[0, 1], method=NoisyGradientDescent(2)).fit(X, LABELS)
    with pytest.raises(ValueError, match="fit it with intervals=True"):
        plain.confidence_intervals()
    plain.covariance_ = np.eye(D + 1)
    plain.certificate_ = plain.certificate_.about(released_weights(plain))
    wrong = [finding.sentence for finding in verify_model(model_of(plain)) if not finding.holds]
    assert wrong == ["its intervals do not follow from sums that the certificate counts."]


def test_one_entry_of_a_ledger_pays_for_both(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.open("survey", Budget(3.0, 1e-6))
    with charged_to(ledger, "survey"):
        MODELS["logistic"](delta=1e-6).fit(X, LABELS)
    (entry,) = ledger.entries("survey")
    assert "WithIntervals" in entry.note


def test_few_records_are_refused_before_anything_is_spent(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.open("survey", Budget(3.0, 1e-6))
    with charged_to(ledger, "survey"), pytest.raises(ValueError, match="100 records are too few"):
        MODELS["logistic"](delta=1e-6).fit(X[:100], LABELS[:100])
    assert not ledger.entries("survey")


def test_where_noise_wins_there_is_a_model_and_a_sentence(tmp_path):
    copied = np.column_stack([X[:, 0], X[:, 0], X[:, 1]])
    model = MODELS["logistic"]().fit(copied, LABELS)
    save_model(model, tmp_path / "m")
    loaded = read_model(tmp_path / "m")
    for one in (model, loaded, load_model(tmp_path / "m")):
        with pytest.raises(ValueError, match="whatever was said would be false"):
            one.confidence_intervals()
        with pytest.raises(ValueError, match="whatever was said would be false"):
            one.predict_interval(copied[:2])
    assert all(finding.holds for finding in verify_model(loaded))
    report(tmp_path / "m", tmp_path / "report.html")
    page = text_of((tmp_path / "report.html").read_text())
    assert "Intervals were asked for and none is given" in page
    assert "nothing: no interval would be true" in page


def test_the_report_has_them_for_every_coefficient(fitted, tmp_path):
    name, model = fitted
    report(model, tmp_path / "report.html")
    page = text_of((tmp_path / "report.html").read_text())
    ends = model.confidence_intervals(0.95).coef
    for low, high in ends:
        assert f"{low:.3g} to {high:.3g}".replace("-", "−") in page
    if name == "logistic":
        low, high = np.exp(ends[0])
        assert f"× {low:.3g} to × {high:.3g}" in page
    assert "over other records like these and other noise" in page


def test_a_table_with_a_schema(tmp_path):
    table = pd.DataFrame(X, columns=["age", "hours", "rooms"]).assign(cost=COSTS)
    schema = Schema(NumberTarget("cost", 0, 200), {name: Number(-1, 1) for name in ("age", "hours", "rooms")})
    model = PrivateLinearRegression(3.0, schema=schema, intervals=True).fit(table)
    ends = model.predict_interval(table[:4])
    predicted = model.predict(table[:4])
    assert ((ends[:, 0] < predicted) & (predicted < ends[:, 1])).all()
    save_model(model, tmp_path / "m")
    np.testing.assert_allclose(load_model(tmp_path / "m").predict_interval(table[:4]), ends)


def test_they_are_a_parameter_like_any_other():
    model = MODELS["logistic"]()
    assert clone(model).get_params()["intervals"] is True
    with pytest.raises(TypeError, match="intervals is 'yes': it must be True or False"):
        clone(model).set_params(intervals="yes").fit(X, LABELS)
    with pytest.raises(ValueError, match="do not go together"):
        clone(model).set_params(prepare=["centre"]).fit(X, LABELS)
    with pytest.raises(ValueError, match="needs a smooth objective"):
        PrivateLinearSVC(row_norm=NORM, classes=[0, 1], intervals=True).fit(X, LABELS)
    for level in (0.0, 1.0, 95, "a"):
        with pytest.raises((TypeError, ValueError), match="level is "):
            model.fit(X, LABELS).confidence_intervals(level)


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], method=NoisyGradientDescent(steps=2)),
        PrivateHuberRegressor(row_norm=2.0, target_range=(0, 1), method=NoisyGradientDescent(steps=2)),
        PrivateAdditiveClassifier(ranges=(-1, 1), classes=[0, 1], method=NoisyGradientDescent(steps=2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_without_intervals_can_be_listed_and_shown(model):
    """Notebooks and completion ask for every attribute; one that is not there is no error of theirs."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (400, 2))
    for shown in (model, clone(model).fit(X, (X[:, 0] > 0).astype(int))):
        assert "standard_errors_" not in dir(shown)
        assert type(model).__name__ in shown._repr_html_()
    with pytest.raises(ValueError, match="this model has no intervals: fit it with intervals=True"):
        shown.confidence_intervals()
    with pytest.raises(AttributeError, match="this model has no intervals"):
        _ = shown.standard_errors_
