"""Perceptrons in model files: the same predictions back, checked by `verify_model`, refused when they do not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sordino import archive, wire
from sordino.estimators.networks import PrivateMLPClassifier, PrivateMLPRegressor
from sordino.hidden_layers import HiddenLayers
from sordino.model_file import read_model, save_model, verify_model
from sordino.tabular import ClassTarget, Number, NumberTarget, Schema

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

COMMON = {"epsilon": 2.0, "delta": 1e-4, "row_norm": 1.5, "hidden_layer_sizes": (5, 4), "epochs": 2}
COLUMNS = {"a": Number(-1, 1), "b": Number(-1, 1)}


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).uniform(-1, 1, size=(200, 2))


@pytest.fixture(scope="module")
def two(rows):
    return PrivateMLPClassifier(**COMMON, classes=["no", "yes"]).fit(rows, np.where(rows[:, 0] > 0, "yes", "no"))


def there_and_back(estimator, tmp_path, schema=None):
    save_model(estimator, tmp_path / "model", schema)
    return read_model(tmp_path / "model")


def test_two_classes(two, rows, tmp_path):
    model = there_and_back(two, tmp_path)
    far = 3 * rows
    np.testing.assert_allclose(model.decision_function(far), two.decision_function(far), rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(far), two.predict_proba(far), rtol=1e-9)
    assert (model.predict(far) == two.predict(far)).all()
    assert all(finding.holds for finding in verify_model(model))


def test_many_classes(rows, tmp_path):
    estimator = PrivateMLPClassifier(**COMMON, classes=[1, 2, 3], activation="relu").fit(rows, 1 + (rows > 0).sum(1))
    model = there_and_back(estimator, tmp_path)
    np.testing.assert_allclose(model.predict_proba(rows), estimator.predict_proba(rows), rtol=1e-9)


@pytest.mark.parametrize("hidden", [(), (3,)])
def test_numbers_come_back_in_their_unit(rows, tmp_path, hidden):
    estimator = PrivateMLPRegressor(**{**COMMON, "hidden_layer_sizes": hidden}, target_bound=50.0).fit(
        rows, 50 * rows[:, 0]
    )
    model = there_and_back(estimator, tmp_path)
    np.testing.assert_allclose(model.predict(rows), estimator.predict(rows), rtol=1e-12)
    assert np.abs(model.predict(rows)).max() > 1
    assert all(finding.holds for finding in verify_model(model))


def test_with_a_schema(rows, tmp_path):
    schema = Schema(NumberTarget("price", -0.1, 0.1), COLUMNS)
    fitted = PrivateMLPRegressor(**{**COMMON, "row_norm": schema.row_norm}, target_bound=1.0).fit(rows, rows[:, 0])
    model = there_and_back(fitted, tmp_path, schema)
    np.testing.assert_allclose(model.predict(rows), fitted.predict(rows).clip(-0.1, 0.1))
    assert all(finding.holds for finding in verify_model(model))
    other = replace(model, hidden=replace(model.hidden, row_norm=9.0))
    assert "the schema's rows are not within" in verify_model(other)[1].sentence


def test_a_schema_of_other_columns(two, tmp_path):
    with pytest.raises(ValueError, match="other columns"):
        save_model(two, tmp_path / "model", Schema(ClassTarget("y", ("no", "yes")), {"a": Number(-1, 1)}))


def test_weights_of_another_shape_are_found(two, tmp_path):
    model = there_and_back(two, tmp_path)
    W, b = model.hidden.layers[0]
    wider = np.vstack([W, W[:1]]), np.append(b, 0.0)
    W2, b2 = model.hidden.layers[1]
    layers = (wider, (np.column_stack([W2, W2[:, 0]]), b2))
    finding = verify_model(replace(model, hidden=replace(model.hidden, layers=layers)))[0]
    assert not finding.holds
    linear = replace(model, hidden=None)
    assert not verify_model(linear)[0].holds


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        (((np.zeros((3, 2)), np.zeros(2)),), "do not fit 2 inputs"),
        (((np.zeros((3, 2)), np.zeros(3)), (np.zeros((3, 2)), np.zeros(3))), "do not fit 3 inputs"),
        (((np.full((3, 2), np.nan), np.zeros(3)),), "not all finite"),
    ],
)
def test_layers_that_do_not_fit(layers, sentence):
    with pytest.raises(ValueError, match=sentence):
        HiddenLayers(1.0, "tanh", layers)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"network": {"activation": "step", "row_norm": 1.0, "hidden": 2}}, "activation is 'step'"),
        ({"network": {"activation": "tanh", "row_norm": -1.0, "hidden": 2}}, "row_norm is -1.0"),
        ({"network": {"activation": "tanh", "row_norm": 1.0, "hidden": 3}}, "incomplete"),
        ({"network": {"activation": "tanh", "row_norm": 1.0, "hidden": 1}}, "takes 4 numbers, and 5 come"),
        ({"network": None}, "incomplete"),
        ({"version": 6}, "versions 3 to 5 are known here"),
    ],
)
def test_files_that_do_not_fit(two, tmp_path, change, sentence):
    save_model(two, tmp_path / "model")
    members = archive.unpack((tmp_path / "model").read_bytes(), lambda names: True)
    body = {**json.loads(members["model.json"]), **change}
    body.pop("digest")
    members["model.json"] = json.dumps({**body, "digest": wire.digest(body)}).encode()
    (tmp_path / "model").write_bytes(archive.pack(members))
    with pytest.raises(ValueError, match=sentence):
        read_model(tmp_path / "model")


def test_predictions_need_no_pytorch(two, tmp_path):
    save_model(two, tmp_path / "model")
    code = (
        "import sys; from sordino.model_file import read_model; "
        f"read_model({str(tmp_path / 'model')!r}).predict([[0.0, 0.5]]); "
        "assert not {'torch', 'numba', 'sklearn', 'safetensors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_command_line_predicts_and_verifies(rows, tmp_path):
    schema = Schema(ClassTarget("y", ("no", "yes")), COLUMNS)
    estimator = PrivateMLPClassifier(**{**COMMON, "row_norm": schema.row_norm}, classes=["no", "yes"])
    estimator.fit(rows, np.where(rows[:, 0] > 0, "yes", "no"))
    save_model(estimator, tmp_path / "model", schema)
    (tmp_path / "table.csv").write_text("a,b\n0.5,0.1\n-0.5,0.2\n")
    for arguments in (["verify", "model"], ["predict", "model", "table.csv", "--out", "out.csv"]):
        subprocess.run([sys.executable, "-m", "sordino", *arguments], check=True, cwd=tmp_path, capture_output=True)
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
