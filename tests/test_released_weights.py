"""A certificate is about the weights that were released, in the form in which they are handed out, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sordino import (
    NoisyGradientDescent,
    PrivateHuberRegressor,
    PrivateLinearSVR,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearch,
    ProximalSmoothing,
    verify,
)
from sordino.budget import Budget
from sordino.methods import DPSGD
from sordino.model_file import load_model, released_weights, save_model, verify_model

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, size=(300, 3))
LABELS = (X[:, 0] > 0).astype(int)
FEW = NoisyGradientDescent(steps=2)
SMOOTHED = ProximalSmoothing(FEW)


MODELS = {
    "two classes": (PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], method=FEW), LABELS),
    "three classes": (PrivateLogisticRegression(row_norm=2.0, classes=[0, 1, 2], method=FEW), LABELS),
    "no intercept": (PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], method=FEW, fit_intercept=False), LABELS),
    "a number in its unit": (PrivateHuberRegressor(row_norm=2.0, target_bound=7.0, method=FEW), 7 * X[:, 0]),
    "a shifted intercept": (
        PrivateQuantileRegressor(row_norm=2.0, target_bound=3.0, quantile=0.8, method=SMOOTHED),
        3 * X[:, 1],
    ),
    "without a bound": (PrivateLinearSVR(row_norm=2.0, method=SMOOTHED), X[:, 1]),
    "searched": (PrivateSearch(PrivateLogisticRegression(row_norm=2.0, classes=[0, 1]), {"l2": [0.1, 1.0]}), LABELS),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_file_is_verified_with_its_weights_only(name, tmp_path):
    estimator, y = MODELS[name]
    fitted = estimator.fit(X, y)
    fitted = getattr(fitted, "best_estimator_", fitted)
    save_model(fitted, tmp_path / "m")
    model = load_model(tmp_path / "m")
    assert all(finding.holds for finding in verify_model(model)), verify_model(model)
    assert {key: array.tolist() for key, array in model.released.items()} == {
        key: array.tolist() for key, array in released_weights(fitted).items()
    }
    if model.classes is not None:
        exchanged = replace(model, classes=model.classes[::-1])
        assert [finding.holds for finding in verify_model(exchanged)].count(False) == 1
    fitted.intercept_ = fitted.intercept_ + 1e-12
    save_model(fitted, tmp_path / "m")
    assert [f.sentence for f in verify_model(load_model(tmp_path / "m")) if not f.holds] == [
        "the weights are not the ones that the certificate was issued for."
    ]


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
def test_a_network_by_the_names_of_its_state(kind, tmp_path):
    torch = pytest.importorskip("torch")
    from sordino.torch import fit, weights_of

    model = torch.nn.Linear(3, 1).to(getattr(torch, kind))
    inputs = torch.as_tensor(X).to(getattr(torch, kind))
    targets = torch.as_tensor(LABELS).to(getattr(torch, kind))

    def loss(outputs, targets):
        return torch.nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none")

    method = DPSGD(clip=1.0, step_size=0.1)
    fitted = fit(
        model, loss, (inputs, targets), method=method, budget=Budget(1.0, 1e-5), steps=3, batch_size=30,
        checkpoint=tmp_path / "run",
    )  # fmt: skip
    assert all(finding.holds for finding in verify(fitted.certificate, weights_of(model)))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    again = torch.nn.Linear(3, 1).to(getattr(torch, kind))
    again.load_state_dict(torch.load(tmp_path / "model.pt"))
    assert all(finding.holds for finding in verify(fitted.certificate, weights_of(again)))
    with torch.no_grad():
        again.bias += 0.25
    assert not all(finding.holds for finding in verify(fitted.certificate, weights_of(again)))
