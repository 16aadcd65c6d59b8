"""Whoever trains on records twice is warned, whatever became of their order and number; the certificate never tells."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score

from sordino import (
    NoisyGradientDescent,
    PrivacyWarning,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLogisticRegression,
    Schema,
)
from sordino.estimators import releases

FEW = NoisyGradientDescent(steps=2)


@pytest.fixture
def records():
    X = np.random.default_rng().uniform(-1, 1, size=(600, 3))
    return X, (X[:, 0] > 0).astype(int)


def logistic(**settings):
    return PrivateLogisticRegression(**{"epsilon": 1.0, "row_norm": 2.0, "classes": [0, 1], "method": FEW, **settings})


def numbers(go):
    """The numbers of the releases that somebody was warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        go()
    said = [str(w.message) for w in seen if issubclass(w.category, PrivacyWarning)]
    return [int(text.split("release number ")[1].split()[0]) for text in said if "release number" in text]


def test_the_first_release_is_nothing_to_warn_of(records):
    assert numbers(lambda: logistic().fit(*records)) == []


def test_a_plan_that_is_refused_is_no_release(records):
    def wrong_then_right():
        with pytest.raises(ValueError, match="step_size is -1"):
            logistic(method=NoisyGradientDescent(steps=2, step_size=-1.0)).fit(*records)
        logistic().fit(*records)

    assert numbers(wrong_then_right) == []


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8])
def test_many_rows_are_known_by_the_numbers_of_few(kind):
    """Of which compiled code makes hashes, and NumPy of few: records are known again in a part of them."""
    X = (9 * np.random.default_rng().normal(size=(50_000, 3))).astype(kind)
    X[7] *= -0.0 if kind is not np.int8 else 0
    assert X.size > releases._MANY
    hashes = releases._hashes(np.asfortranarray(X))
    np.testing.assert_array_equal(hashes[:100], releases._hashes(X[:100]))
    np.testing.assert_array_equal(hashes, releases._hashes(sparse.csr_array(X)))


@pytest.mark.parametrize("once", [0, 900, 3000, 60_000])
def test_the_sample_is_that_of_all_rows_however_many_occur_again(once):
    rng = np.random.default_rng()
    X = np.concatenate([rng.normal(size=(once, 2)), np.repeat(rng.normal(size=(30_000, 2)), 2, axis=0)])
    hashes, counts = np.unique(releases._hashes(X), return_counts=True)
    prints, repeated = releases._prints(rng.permutation(X))
    if once:
        np.testing.assert_array_equal(prints, hashes[counts == 1][: releases._KEPT])
    assert repeated == pytest.approx(60_000 / len(X) if once else 0.5, abs=0.05)


SHUFFLED = np.random.default_rng(1).permutation(600)
AGAIN = {
    "the same": lambda X, y: (X, y),
    "shuffled": lambda X, y: (X[SHUFFLED], y[SHUFFLED]),
    "without one record": lambda X, y: (X[1:], y[1:]),
    "one record changed": lambda X, y: (np.vstack([X[:-1], 1e-9 + X[-1:]]), y),
    "a tenth": lambda X, y: (X[SHUFFLED[:60]], y[SHUFFLED[:60]]),
    "among others": lambda X, y: (np.vstack([X, np.cos(9 * X)]), np.tile(y, 2)),
    "as floats of half the size": lambda X, y: (X.astype(np.float32).astype(np.float64).astype(np.float32), y),
    "sparse": lambda X, y: (sparse.csr_array(X), y),
    "other labels": lambda X, y: (X, 1 - y),
}


@pytest.mark.parametrize("name", AGAIN)
def test_the_second_is_known_by_its_rows(records, name):
    X, y = records
    if name == "as floats of half the size":
        X = X.astype(np.float32).astype(np.float64)
    first = logistic().fit(X, y).certificate_
    fitted = []
    assert numbers(lambda: fitted.append(logistic().fit(*AGAIN[name](X, y)))) == [2]
    assert first.notes == fitted[0].certificate_.notes == ()


def test_another_estimator_on_the_same_records_is_a_release_too(records):
    X, y = records
    logistic().fit(X, y)
    other = PrivateHuberRegressor(epsilon=1.0, row_norm=2.0, target_bound=1.0, method=FEW)
    assert numbers(lambda: other.fit(X, X[:, 1])) == [2]


def test_other_records_are_not_taken_for_these(records):
    """Also where rows of few values occur often, and disjoint parts of a table look alike."""
    X, y = records
    logistic().fit(X, y)
    assert numbers(lambda: logistic().fit(np.sin(7 * X), y)) == []
    rng = np.random.default_rng()
    answers = rng.integers(0, 2, size=(4000, 13)).astype(float)
    half, label = answers[:2000], np.tile([0, 1], 1000)
    logistic().fit(half, label)
    assert numbers(lambda: logistic().fit(answers[2000:], label)) == []
    assert numbers(lambda: logistic().fit(half[::-1], label)) == [2]
    coins = rng.integers(0, 2, size=(4000, 3)).astype(float)
    logistic().fit(coins[:2000], label)
    assert numbers(lambda: logistic().fit(coins[2000:], label)) == []
    assert numbers(lambda: logistic().fit(coins[1999::-1], label)) == [2]


def test_the_ordinary_routes(records):
    X, y = records
    # five overlapping folds: the second and all after it
    assert numbers(lambda: cross_val_score(logistic(), X, y, cv=5)) == [2, 3, 4, 5]
    assert len(numbers(lambda: CalibratedClassifierCV(logistic(), cv=3).fit(X, y))) == 3
    search = GridSearchCV(logistic(), {"l2": [0.0, 0.1]}, cv=2)
    assert len(numbers(lambda: search.fit(X, y))) == 5


def test_two_disjoint_folds_are_one_release_each(records):
    assert numbers(lambda: cross_val_score(logistic(), *records, cv=2)) == []


@pytest.mark.slow
def test_releases_in_workers_count(records):
    X, y = records
    search = GridSearchCV(logistic(), {"l2": [0.0, 0.1]}, cv=2, n_jobs=2)
    # four in the workers, which warn on their own standard error; the refit is here
    assert numbers(lambda: search.fit(X, y)) == [5]


@pytest.mark.slow
def test_nothing_readable_is_on_the_disk_and_nothing_stays(records):
    X, y = records
    logistic().fit(X, y)
    prints, _ = releases._prints(X)
    written = b"".join(path.read_bytes() for path in releases._folder().iterdir())
    assert prints.size == 600
    assert not any(value.tobytes() in written for value in prints)
    program = (
        "import os\nos.environ.pop('SORDINO_SESSION', None)\nfrom sordino.estimators import releases\n"
        "import numpy as np\nreleases.count_release(np.eye(5))\n"
        "assert len(list(releases._folder().iterdir())) == 1\nprint(releases._folder())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    folder = releases.Path(done.stdout.strip())
    assert folder.name.startswith("sordino-")
    assert not folder.exists()


def test_a_disk_that_is_full_takes_no_release_away(records, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(releases.Path, "mkdir", full)
    assert logistic().fit(*records).coef_.shape == (1, 3)


def test_a_sample_that_is_gone_since_it_was_listed_takes_no_release_away(records):
    logistic().fit(*records)
    gone = releases._folder() / "0-0.seen"
    gone.symlink_to("nowhere")
    try:
        assert numbers(lambda: logistic().fit(*records)) == [2]
    finally:
        gone.unlink()


def test_an_additive_model_is_another_release_on_the_same_records(records):
    X, y = records
    classifier = PrivateAdditiveClassifier(1.0, ranges=(-1, 1), classes=[0, 1], method=FEW)
    regressor = PrivateAdditiveRegressor(1.0, ranges=(-1, 1), target_range=(0, 1), method=FEW)
    assert numbers(lambda: classifier.fit(X, y)) == []
    assert numbers(lambda: logistic().fit(X, y)) == [2]
    assert numbers(lambda: regressor.fit(X, y)) == [3]
    assert numbers(lambda: regressor.fit(np.cos(9 * X), y)) == []


def test_and_so_it_is_of_a_table(records):
    X, y = records
    names = ["a", "b", "c"]
    columns = "".join(f"{name} = {{ low = -1, high = 1 }}\n" for name in names)
    schema = Schema.from_toml(f"[target]\ncolumn = 'y'\nclasses = ['0', '1']\n[columns]\n{columns}")
    table = dict(zip(names, X.T, strict=True)) | {"y": y.astype(str)}
    plain = PrivateLogisticRegression(1.0, schema=schema, method=FEW)
    additive = PrivateAdditiveClassifier(1.0, schema=schema, method=FEW)
    assert numbers(lambda: plain.fit(table)) == []
    assert numbers(lambda: additive.fit(table)) == [2]
