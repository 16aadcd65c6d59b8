"""The estimators whose loss has a kink."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sordino import (
    NoisyGradientDescent,
    NoisySGD,
    OutputPerturbation,
    PrivateLinearSVC,
    PrivateLinearSVR,
    PrivateQuantileRegressor,
    ProximalSmoothing,
    verify,
)
from sordino.losses import EpsilonInsensitive, Hinge, Pinball

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 4))
    return X, np.where(X @ [3.0, -2.0, 1.0, 0.0] + 0.5 + 0.3 * rng.logistic(size=4000) > 0, "yes", "no")


@pytest.fixture(scope="module")
def numeric():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(4000, 3))
    return X, X @ [3.0, -2.0, 1.0] + 4 + rng.normal(size=4000)


def svc(**settings):
    return PrivateLinearSVC(
        **{"epsilon": 1.0, "row_norm": 2.0, "classes": ["no", "yes"], "random_state": 0, **settings}
    )


def quantiles(**settings):
    return PrivateQuantileRegressor(
        **{"epsilon": 2.0, "row_norm": 1.8, "target_bound": 10.0, "random_state": 0, **settings}
    )


def svr(**settings):
    return PrivateLinearSVR(**{"epsilon": 2.0, "row_norm": 1.8, "target_bound": 10.0, "random_state": 0, **settings})


def test_support_vectors_classify(binary):
    X, y = binary
    model = svc(random_state=None).fit(X, y)
    assert model.score(X, y) > 0.87
    assert model.coef_.shape == (1, 4)
    assert not hasattr(model, "predict_proba")
    assert model.certificate_.method.method == ProximalSmoothing()
    assert model.certificate_.problem.loss == Hinge()
    assert all(finding.holds for finding in verify(model.certificate_))


@pytest.mark.parametrize("q", [0.1, 0.8])
def test_quantiles_are_where_they_should_be(numeric, q):
    X, y = numeric
    models = [quantiles(epsilon=5.0, quantile=q, random_state=seed).fit(X, y) for seed in range(3)]
    below = np.mean([(y < model.predict(X)).mean() for model in models])
    assert below == pytest.approx(q, abs=0.02)
    # without the shift by (tau - 1/2)/s they are further away
    shifts = [10 * (q - 0.5) / model.certificate_.plan["inner"]["sharpness"] for model in models]
    unshifted = [(y < model.predict(X) - shift).mean() for model, shift in zip(models, shifts, strict=True)]
    assert abs(np.mean(unshifted) - q) > abs(below - q) + 0.002
    model = quantiles(quantile=q, random_state=None).fit(X, y)
    assert (y < model.predict(X)).mean() == pytest.approx(q, abs=0.1)
    assert model.certificate_.problem.loss == Pinball(q, 1.0)
    assert all(finding.holds for finding in verify(model.certificate_))


def test_support_vectors_regress(numeric):
    X, y = numeric
    model = svr(tolerance=1.0, random_state=None).fit(X, y)
    assert model.score(X, y) > 0.75
    # a tenth of the bound in units of the bound
    assert model.certificate_.problem.loss == EpsilonInsensitive(0.1, 1.0)
    assert all(finding.holds for finding in verify(model.certificate_))


def test_without_a_bound_on_the_targets(numeric):
    X, y = numeric
    model = svr(target_bound=None, epsilon=5.0).fit(X, y - 4)
    assert model.score(X, y - 4) > 0.5


@pytest.mark.parametrize("make", [quantiles, svr])
def test_the_unit_of_the_target_does_not_matter(numeric, make):
    X, y = numeric
    short = {"method": ProximalSmoothing(NoisyGradientDescent(steps=50))}
    scaled = {"target_bound": 1e4} | ({"tolerance": 100.0} if make is svr else {})
    small, large = make(**short).fit(X, y), make(**short, **scaled).fit(X, 1e3 * y)
    np.testing.assert_allclose(1e3 * small.predict(X), large.predict(X), rtol=1e-6)


def test_sparse_and_dense_agree(binary, numeric):
    short = {"method": ProximalSmoothing(NoisyGradientDescent(steps=50))}
    for model, (X, y) in ((svc(**short), binary), (quantiles(**short), numeric), (svr(**short), numeric)):
        X = np.where(np.abs(X) < 0.5, 0, X)
        dense = model.fit(X, y).coef_
        np.testing.assert_allclose(dense, model.fit(sparse.csr_matrix(X), y).coef_, atol=1e-6)


def test_pure_guarantees_perturb_the_output(binary, numeric):
    for model, (X, y), least in (
        (svc(delta=0.0, epsilon=5.0), binary, 0.8),
        (quantiles(delta=0.0, epsilon=5.0), numeric, 0.5),
    ):
        model.fit(X, y)
        assert isinstance(model.certificate_.method.inner, OutputPerturbation)
        assert model.certificate_.delta == 0
        assert model.score(X, y) > least


@pytest.mark.parametrize(
    "method",
    [
        ProximalSmoothing(NoisySGD(steps=50, batch_size=200)),
        ProximalSmoothing(NoisyGradientDescent(steps=30, calibration="paper"), sharpness=2.0),
    ],
    ids=["sgd", "paper"],
)
def test_methods_of_ones_own(binary, method):
    X, y = binary
    model = svc(method=method, random_state=None).fit(X, y)
    assert model.certificate_.method == method
    assert all(finding.holds for finding in verify(model.certificate_))


def test_add_remove(binary):
    X, y = binary
    assert svc(relation="add_remove", records=5000).fit(X, y).score(X, y) > 0.87


def test_bad_settings_get_a_sentence(binary, numeric):
    X, y = numeric
    with pytest.raises(ValueError, match="quantile is 1"):
        quantiles(quantile=1.0).fit(X, y)
    with pytest.raises(ValueError, match="tolerance is -"):
        svr(tolerance=-1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"needs a smooth objective.*or ProximalSmoothing, which smooths a kink"):
        svc(method=NoisyGradientDescent()).fit(*binary)
    with pytest.raises(ValueError, match="Only binary classification is supported: there are 3 classes"):
        svc(classes=["maybe", "no", "yes"]).fit(*binary)
