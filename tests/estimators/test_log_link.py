"""Regression of counts and of costs: what they learn, what they say, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import PoissonRegressor

from sordino import (
    ObjectivePerturbation,
    PrivateGammaRegressor,
    PrivatePoissonRegressor,
    Schema,
    load_model,
    read_model,
    report,
    save_model,
    verify,
    verify_model,
)
from sordino.losses import Gamma, Poisson
from sordino.tabular.columns import Number, NumberTarget

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

TRUE = np.array([0.8, -0.6, 0.0])
SCHEMA = Schema(NumberTarget("visits", 0.0, 20.0), {name: Number(-1.0, 1.0) for name in "abc"})


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(8000, 3))
    mean = np.exp(X @ TRUE + 0.7)
    return X, rng.poisson(mean).astype(float), np.maximum(rng.gamma(2.0, mean / 2.0), 0.01)


def counts(**settings):
    return PrivatePoissonRegressor(**{"epsilon": 2.0, "row_norm": 1.8, "target_range": (0, 20), **settings})


def costs(**settings):
    return PrivateGammaRegressor(**{"epsilon": 2.0, "row_norm": 1.8, "target_range": (0.01, 60.0), **settings})


@pytest.mark.parametrize("person", [None, "everybody"])
def test_counts_are_learnt(records, person):
    X, y, _ = records
    whose = {} if person is None else {"person": np.arange(len(X))}
    model = counts(mean_guess=2.0).fit(X, y, **whose)
    np.testing.assert_allclose(model.coef_, TRUE, atol=0.25)
    assert np.mean(model.predict(X)) == pytest.approx(y.mean(), rel=0.1)
    assert all(finding.holds for finding in verify(model.certificate_))
    assert model.certificate_.problem.loss == Poisson(10.0, (2 + 3 * np.sqrt(2.0)) / 2)
    assert "beyond 6.24264 count as if they were so large; scores are logarithms, in units of 2." in str(
        model.certificate_.notes
    )


def test_costs_are_learnt_in_any_currency(records):
    X, _, y = records
    model = costs(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, TRUE, atol=0.3)
    assert np.mean(model.predict(X)) == pytest.approx(y.mean(), rel=0.15)
    pennies = costs(target_range=(1.0, 6000.0), random_state=0).fit(X, 100 * y)
    np.testing.assert_allclose(pennies.predict(X), 100 * model.predict(X), rtol=1e-6)
    assert model.certificate_.problem.loss == Gamma(0.01 / 6.0, 10.0, 4.0)


def test_without_noise_the_fit_is_that_of_scikit_learn(records):
    """Objective perturbation at an epsilon at which its noise is small, with slopes that are hardly ever clipped."""
    X, y, _ = records
    model = counts(epsilon=20.0, clip=12.0, mean_guess=2.0, method=ObjectivePerturbation(), prepare=None).fit(X, y)
    plain = PoissonRegressor(alpha=0.0, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=0.05)
    assert model.intercept_ == pytest.approx(plain.intercept_, abs=0.05)


def test_counts_over_different_times_are_rates_with_weights(records):
    X, _, _ = records
    rng = np.random.default_rng(1)
    years = rng.choice([0.1, 1.0], len(X))
    y = rng.poisson(np.exp(X @ TRUE + 0.7) * years)
    model = counts(weight_bound=1.0, mean_guess=2.0, target_range=(0, 30)).fit(X, y / years, years)
    np.testing.assert_allclose(model.coef_, TRUE, atol=0.35)
    assert np.sum(model.predict(X) * years) == pytest.approx(y.sum(), rel=0.15)


@pytest.mark.parametrize("kind", [PrivatePoissonRegressor, PrivateGammaRegressor])
def test_a_model_file_knows_the_link(records, kind, tmp_path):
    X, y, _ = records
    table = pa.table({**{name: X[:, k] for k, name in enumerate("abc")}, "visits": np.maximum(y, 0.5)})
    schema = SCHEMA if kind is PrivatePoissonRegressor else Schema(NumberTarget("visits", 0.5, 20.0), SCHEMA.columns)
    for number, model in enumerate(
        (
            kind(2.0, schema=schema).fit(table),
            kind(2.0, row_norm=1.8, target_range=(0.5, 20.0), mean_guess=3.0, clip=2.0, weight_bound=2.0).fit(
                X, np.maximum(y, 0.5), np.ones(len(X))
            ),
        )
    ):
        rows, path = (table, X)[number], tmp_path / str(number)
        save_model(model, path)
        loaded, again = read_model(path), load_model(path)
        assert loaded.link == "log"
        assert type(again) is kind
        np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
        np.testing.assert_allclose(loaded.predict(X), model.predict(rows), rtol=1e-12)
        assert model.predict(rows).min() > 0
        assert all(finding.holds for finding in verify_model(loaded))
        assert again.get_params()["mean_guess"] == pytest.approx(model._coding().unit)
        if number == 1:
            assert again.get_params()["clip"] == pytest.approx(2.0)
            assert again.weight_bound == 2.0
        report(path, tmp_path / f"{number}.html")
        assert "A prediction is the exponential of their sum" in (tmp_path / f"{number}.html").read_text()


def test_a_file_cannot_be_given_another_link(records, tmp_path):
    import zipfile

    X, y, _ = records
    save_model(counts().fit(X, y), tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    body = json.loads(members["model.json"])
    assert body["version"] == 5
    from sordino import archive as packing, wire

    for changed in ({"link": "identity"}, {"version": 3}, {"link": "probit"}):
        other = {**body, **changed}
        other.pop("digest")
        if changed.get("version") == 3:
            other.pop("link")
        text = json.dumps({**other, "digest": wire.digest(other)}, indent=1)
        (tmp_path / "f").write_bytes(packing.pack({**members, "model.json": text.encode()}))
        try:
            findings = verify_model(read_model(tmp_path / "f"))
        except ValueError:
            continue
        assert not all(finding.holds for finding in findings)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (counts(target_range=None), r"target_range=\(low, high\) is required"),
        (costs(target_range=None), r"target_range=\(low, high\) is required"),
        (counts(target_range=(-1, 5)), "begins at -1: counts are not negative"),
        (costs(target_range=(0, 5)), "begins at 0: costs are positive; begin above 0"),
        (counts(mean_guess=0.0), "mean_guess is 0.0: a guess of the mean of y is positive"),
        (counts(mean_guess="two"), "mean_guess is 'two': it must be a number"),
        (counts(clip=0.0), r"clip is 0\.0: it must be a positive finite number"),
        (costs(clip="wide"), "clip is 'wide': it must be a number"),
        (counts(schema=SCHEMA, row_norm=None), "leave target_range"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_record_is_read(model, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        model.fit(None, None)
