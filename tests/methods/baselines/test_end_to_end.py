"""Every baseline through an estimator: trained, certified, verified, written and read back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sordino import PrivateHuberRegressor, PrivateLogisticRegression, verify
from sordino.certificate import Certificate
from sordino.methods import AdaptiveGradientDescent, BassilySmithThakurta, PermutationSGD

# the same records are used many times here
pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

BASELINES = {
    "noisy SGD": BassilySmithThakurta(batch_size=200),
    "noisy SGD, Poisson": BassilySmithThakurta(batch_size=200, sampling="poisson"),
    "permutation SGD": PermutationSGD(),
    "adaptive": AdaptiveGradientDescent(),
}


def records(n=2000):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, (X @ [3.0, -2.0, 0.0] + 0.3 * rng.logistic(size=n) > 0).astype(int)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", BASELINES)
def test_fit_certify_verify(name, form):
    X, y = records()
    model = PrivateLogisticRegression(
        epsilon=2.0, delta=1e-5, row_norm=np.sqrt(3), classes=[0, 1], l2=0.01, method=BASELINES[name]
    ).fit(form(X), y)
    assert model.score(X, y) > 0.8
    again = Certificate.from_json(model.certificate_.to_json())
    assert again.epsilon == 2.0
    assert all(finding.holds for finding in verify(again)), verify(again)


@pytest.mark.parametrize("method", [BassilySmithThakurta(200), PermutationSGD(), AdaptiveGradientDescent()])
def test_printed_constants_are_certified_for_what_they_give(method):
    X, y = records()
    kind = type(method)
    settings = {**vars(method), "calibration": "paper"}
    model = PrivateHuberRegressor(
        epsilon=1.0, delta=1e-5, row_norm=np.sqrt(3), target_bound=1.0, l2=0.1, method=kind(**settings)
    ).fit(X, 2.0 * y - 1)
    certificate = model.certificate_
    assert certificate.epsilon < 1.0
    assert "truly give" in " ".join(certificate.notes)
    assert all(finding.holds for finding in verify(certificate)), verify(certificate)


def test_several_classes():
    X, _ = records()
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    for name in ("permutation SGD", "adaptive"):
        model = PrivateLogisticRegression(
            epsilon=8.0, delta=1e-5, row_norm=np.sqrt(3), classes=[0, 1, 2], method=BASELINES[name]
        ).fit(X, y)
        assert model.score(X, y) > 0.6


def test_pure_permutation_sgd():
    X, y = records()
    model = PrivateLogisticRegression(
        epsilon=4.0, delta=0.0, row_norm=np.sqrt(3), classes=[0, 1], l2=0.05, method=PermutationSGD()
    ).fit(X, y)
    assert model.certificate_.delta == 0
    assert all(finding.holds for finding in verify(model.certificate_))


@pytest.mark.slow
def test_adding_and_removing_records():
    X, y = records()
    for method in (BassilySmithThakurta(200, sampling="poisson"), AdaptiveGradientDescent()):
        model = PrivateLogisticRegression(
            epsilon=2.0,
            delta=1e-5,
            row_norm=np.sqrt(3),
            classes=[0, 1],
            method=method,
            relation="add_remove",
            records=1900,
        ).fit(X, y)
        assert model.certificate_.relation == "add_remove"
        assert all(finding.holds for finding in verify(model.certificate_))
    with pytest.raises(ValueError, match="number of records is private"):
        PrivateLogisticRegression(
            row_norm=2.0, classes=[0, 1], method=PermutationSGD(), relation="add_remove", records=1900
        ).fit(X, y)
