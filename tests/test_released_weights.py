"""A certificate is about the weights that were released, in the form in which they are handed out, and no others."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fuzz import mutations
from fuzz.readers import packed
from sordino import (
    NoisyGradientDescent,
    PrivateHuberRegressor,
    PrivateLinearSVR,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearch,
    ProximalSmoothing,
    archive,
    verify,
)
from sordino.budget import Budget
from sordino.identity import Identity
from sordino.methods import DPSGD
from sordino.model_file import read_model, released_weights, save_model, verify_model
from sordino.tabular import Boolean, Category, ClassTarget, Number, Schema

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
    "prepared": (PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], prepare=["centre", "norm quantile"]), LABELS),
    "searched": (PrivateSearch(PrivateLogisticRegression(row_norm=2.0, classes=[0, 1]), {"l2": [0.1, 1.0]}), LABELS),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_file_is_verified_with_its_weights_only(name, tmp_path):
    estimator, y = MODELS[name]
    fitted = estimator.fit(X, y)
    fitted = getattr(fitted, "best_estimator_", fitted)
    save_model(fitted, tmp_path / "m")
    model = read_model(tmp_path / "m")
    assert all(finding.holds for finding in verify_model(model)), verify_model(model)
    assert {key: array.tolist() for key, array in model.released.items()} == {
        key: array.tolist() for key, array in released_weights(fitted).items()
    }
    if model.classes is not None:
        exchanged = replace(model, classes=model.classes[::-1])
        assert [finding.holds for finding in verify_model(exchanged)].count(False) == 1
    fitted.intercept_ = fitted.intercept_ + 1e-12
    save_model(fitted, tmp_path / "m")
    assert [f.sentence for f in verify_model(read_model(tmp_path / "m")) if not f.holds] == [
        "the model is not the one that the certificate was issued for."
    ]


@pytest.mark.slow
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


# whatever a model file says: altered by a forger, who makes all digests of the file anew

SCHEMA = Schema(
    target=ClassTarget("ill", ("no", "yes")),
    columns={"age": Number(18, 90), "ward": Category(("a", "b"), other=True), "smokes": Boolean()},
)


def with_schema():
    rows = np.random.default_rng(6).uniform(-0.3, 0.3, (300, SCHEMA.width))
    model = PrivateLogisticRegression(row_norm=SCHEMA.row_norm, classes=["no", "yes"], method=FEW)
    return model.fit(rows, np.where(LABELS, "yes", "no")), SCHEMA


def with_names():
    model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], method=FEW)
    return model.fit(pd.DataFrame(X, columns=list("abc")), LABELS), None


def a_network():
    pytest.importorskip("torch")
    from sordino import PrivateMLPClassifier

    settings = {"epochs": 1, "batch_size": 100, "clip": 1.0, "step_size": 0.1}
    model = PrivateMLPClassifier(row_norm=2.0, hidden_layer_sizes=(2,), classes=[0, 1, 2], **settings)
    return model.fit(X, np.arange(len(X)) % 3), None


FILES = {"a schema": with_schema, "names": with_names, "a network": a_network}
SEALS = {"digest", "members"}


def other(value):
    """One that is as good."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.25
        case "tanh" | "relu":
            return {"tanh": "relu", "relu": "tanh"}[value]
        case str():
            return f"{value}x"
    return {"value": value}


def without_a_finding(path):
    """Whether a forged file would be believed."""
    try:
        return all(finding.holds for finding in verify_model(read_model(path)))
    except ValueError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_field_of_a_model_file_is_bound_by_its_certificate(name, tmp_path):
    fitted, schema = FILES[name]()
    file = tmp_path / "m"
    save_model(fitted, file, schema)
    assert without_a_finding(file)
    members = archive.unpack(file.read_bytes(), lambda names: True)
    body = json.loads(members["model.json"])
    forged = {}
    for path in mutations.places({key: value for key, value in body.items() if key not in SEALS}):
        value = mutations.at(body, path)
        if not path or isinstance(value, dict):
            continue
        if isinstance(value, list):
            forged[f"model.json {path} reversed"] = members, mutations.with_value(body, path, value[::-1])
        else:
            forged[f"model.json {path}"] = members, mutations.with_value(body, path, other(value))
    for member in members.keys() - {"model.json", "certificate.json", "schema.toml"}:
        array = archive.to_array(members[member]).copy()
        array.flat[-1] += 1e-9
        forged[member] = {**members, member: archive.from_array(array)}, body
    text = members.get("schema.toml", b"").decode()
    for word in re.finditer(r"\d+(\.\d+)?|true|false|\w+", text):
        exchanged = {"true": "false", "false": "true"}.get(word[0], f"{word[0]}9")
        altered = text[: word.start()] + exchanged + text[word.end() :]
        forged[f"schema.toml {word}"] = {**members, "schema.toml": altered.encode()}, body
    assert len(forged) > 5
    believed = []
    for what, (some, said) in forged.items():
        (tmp_path / "forged").write_bytes(packed(some, json.dumps(said)))
        if without_a_finding(tmp_path / "forged"):
            believed.append(what)
    assert believed == []


def test_a_signature_is_about_the_schema_too(tmp_path):
    fitted, schema = with_schema()
    me = Identity.create(tmp_path / "me", "City Hospital")
    signed = save_model(fitted, tmp_path / "m", schema, me)
    assert read_model(tmp_path / "m").certificate == signed
    assert without_a_finding(tmp_path / "m")
    fitted.certificate_ = fitted.certificate_.sign(me)
    with pytest.raises(ValueError, match="let save_model sign it"):
        save_model(fitted, tmp_path / "again", schema)
