"""Estimators fitted on files: the model that the same records give in memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stored
from sordino import (
    DPSGD,
    NoisyGradientDescent,
    NoisySGD,
    PrivacyWarning,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearch,
    ProximalSmoothing,
    verify,
)
from sordino.files import Arrays, Table
from sordino.oracle.files import source as source_module

RECORDS = 3000

# the same records are fitted in memory and from files
pytestmark = pytest.mark.filterwarnings("ignore:This is release number")


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).uniform(-1, 1, (RECORDS, 4))


def labels(X, names):
    rng = np.random.default_rng(1)
    scores = X @ np.array([[3, -2, 1, 0], [-3, 2, 0, 1], [0, 0, 2, -2]]).T + 0.3 * rng.logistic(size=(len(X), 3))
    return np.array(names)[scores[:, : len(names)].argmax(axis=1)]


SMOOTHED = ProximalSmoothing(NoisyGradientDescent(20))
CLASSIFIERS = {
    "logistic": (PrivateLogisticRegression, ["no", "yes"], "auto"),
    "softmax": (PrivateLogisticRegression, [1, 2, 5], NoisyGradientDescent(20)),
    "hinge": (PrivateLinearSVC, [0, 1], SMOOTHED),
    "in order": (PrivateLogisticRegression, ["no", "yes"], DPSGD(20, 400, 0.5, sampling="in_order")),
}


@pytest.mark.parametrize("form", ["parquet_folder", "parquet_lists", "arrow", "npy"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(tmp_path, features, name, form):
    kind, classes, method = CLASSIFIERS[name]
    y = labels(features, classes)
    model = kind(epsilon=2.0, row_norm=2.0, classes=classes, method=method, random_state=0)
    memory = model.fit(features, y)
    coefficients, intercepts = memory.coef_.copy(), memory.intercept_.copy()
    files = model.fit(stored.FORMS[form](tmp_path, features, y))
    np.testing.assert_array_equal(files.coef_, coefficients)
    np.testing.assert_array_equal(files.intercept_, intercepts)
    assert files.classes_.tolist() == classes
    assert files.n_features_in_ == 4
    assert files.score(features, y) > 0.6


@pytest.mark.parametrize("kind", [PrivateHuberRegressor, PrivateLinearRegression, PrivateQuantileRegressor])
def test_regressors(tmp_path, features, kind):
    y = features @ [3.0, -2.0, 1.0, 0.0] + 4
    method = SMOOTHED if kind is PrivateQuantileRegressor else NoisyGradientDescent(20)
    model = kind(epsilon=2.0, row_norm=2.0, target_bound=12.0, method=method, random_state=0)
    want = model.fit(features, y).coef_.copy()
    np.testing.assert_array_equal(model.fit(stored.parquet(tmp_path, features, y)).coef_, want)


def test_the_certificate_is_the_same_and_holds(tmp_path, features):
    y = labels(features, [0, 1])
    model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1])
    memory = model.fit(features, y).certificate_
    files = model.fit(stored.npy(tmp_path, features, y)).certificate_
    assert all(finding.holds for finding in verify(files))
    assert (files.event, files.plan, files.problem) == (memory.event, memory.plan, memory.problem)
    assert (files.enforced, files.assumed) == (memory.enforced, memory.assumed)


def test_batches_and_many_blocks(tmp_path, features, monkeypatch):
    monkeypatch.setattr(source_module, "_NUMBERS", 1)
    y = labels(features, [0, 1])
    model = PrivateLogisticRegression(2.0, row_norm=2.0, classes=[0, 1], method=NoisySGD(20, 200), random_state=0)
    want = model.fit(features, y).coef_.copy()
    np.testing.assert_allclose(model.fit(stored.parquet_folder(tmp_path, features, y)).coef_, want, rtol=1e-6)


def test_a_search(tmp_path, features):
    y = labels(features, [0, 1])
    grid = {"method": [NoisyGradientDescent(3), NoisyGradientDescent(6)], "l2": [0.0, 0.1]}
    search = PrivateSearch(PrivateLogisticRegression(2.0, row_norm=2.0, classes=[0, 1], random_state=0), grid)
    want = search.fit(features, y).best_params_, search.best_estimator_.coef_.copy()
    found = search.fit(stored.parquet(tmp_path, features, y))
    assert found.best_params_ == want[0]
    np.testing.assert_array_equal(found.best_estimator_.coef_, want[1])


def test_the_number_of_records_is_a_stand_in_under_add_remove(tmp_path, features):
    y = labels(features, [0, 1])
    source = stored.npy(tmp_path, features, y)
    model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], relation="add_remove", records=2500)
    assert model.fit(source).certificate_.problem.records == 2500
    with pytest.raises(ValueError, match="records is required"):
        model.set_params(records=None).fit(source)


def test_what_is_missing_or_too_much_is_a_sentence(tmp_path, features):
    y = labels(features, [0, 1])
    source = stored.npy(tmp_path, features, y)
    model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1])
    with pytest.raises(ValueError, match="bring their targets along, and y was given"):
        model.fit(source, y)
    with pytest.raises(TypeError, match=r"X holds records in files \(Arrays\), which are fitted and evaluated as such"):
        PrivateLogisticRegression(row_norm=2.0, classes=[0, 1]).fit(features, y).predict(source)
    with pytest.raises(ValueError, match="classes is required for records in files"):
        model.set_params(classes=None).fit(source)
    with pytest.raises(ValueError, match="at least one label is not among the 2 given classes"):
        model.set_params(classes=[0, 3]).fit(source)
    with pytest.raises(ValueError, match="bring their targets along"):
        PrivateHuberRegressor(row_norm=2.0).fit(source, y)


def test_texts_are_no_targets_of_a_regression(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="numbers are needed"):
        PrivateHuberRegressor(row_norm=2.0).fit(Table(tmp_path / "t.parquet", "y"))


def test_a_second_release_is_noticed(tmp_path, features):
    y = labels(features, [0, 1])
    stored.npy(tmp_path, features, y)
    model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1])
    model.fit(Arrays(tmp_path / "X.npy", tmp_path / "y.npy"))
    with pytest.warns(PrivacyWarning, match="release number 2 on these records"):
        model.fit(Arrays(tmp_path / "X.npy", tmp_path / "y.npy"))


@pytest.mark.slow
def test_neither_pyarrow_nor_ray_is_needed_for_records_in_memory(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(4))
    np.save(tmp_path / "y.npy", [0, 1, 0, 1])
    code = """
import sys
sys.modules["pyarrow"] = sys.modules["ray"] = None
import numpy as np
from sordino import PrivateLogisticRegression
from sordino.files import Arrays, Table
model = PrivateLogisticRegression(row_norm=1.0, classes=[0, 1])
model.fit(np.eye(4), [0, 1, 0, 1])
model.fit(Arrays("X.npy", "y.npy"))
try:
    Table("t.parquet", "y")
except ModuleNotFoundError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert run.stdout == "pyarrow is needed for Parquet and Arrow files: pip install 'sordino[files]'.\n"


def test_neither_pyarrow_nor_ray_is_loaded_with_sordino():
    code = "import sys, sordino, sordino.files, sordino.oracle.linear; print({'pyarrow', 'ray'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "set()\n"
