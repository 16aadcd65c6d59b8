"""Every wrong input x the sentence it gets: what it is about by its name, what is needed, and no cell of a record."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sordino import (
    DPSGD,
    NoisyGradientDescent,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
    PrivateMLPRegressor,
)
from sordino.budget import Budget
from sordino.losses import Logistic
from sordino.methods.protocol import planned
from sordino.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::sordino.train.PrivacyWarning")

X = np.random.default_rng(8).uniform(-1, 1, (40, 2))
LABELS, NUMBERS = (X[:, 0] > 0).astype(int), X[:, 0]
FEW = NoisyGradientDescent(steps=2)
HUGE = 10**400
DAYS = np.array(["2024-05-01"] * len(X), dtype="datetime64[D]")
SECRET = 0.123454321
"""In a cell of a record: no sentence may quote it."""

CLASSIFIERS = {
    "logistic": lambda **given: PrivateLogisticRegression(**{"method": FEW, **given}),
    "svc": lambda **given: PrivateLinearSVC(**{"method": FEW, **given}),
    "network": lambda **given: PrivateMLPClassifier(**{"epochs": 1, **given}),
}
REGRESSORS = {
    "huber": lambda **given: PrivateHuberRegressor(**{"method": FEW, **given}),
    "least squares": lambda **given: PrivateLinearRegression(**{"method": FEW, **given}),
    "network": lambda **given: PrivateMLPRegressor(**{"epochs": 1, **given}),
}
COMMON = {"row_norm": 2.0, "delta": 1e-6}

NO_NUMBERS = {
    "text": "1",
    "huge": HUGE,
    "one number in an array": np.array([1.0]),
    "yes": True,
    "complex": 1 + 0j,
    "not a number": float("nan"),
    "a list": [1.0],
}


def classifier(kind, X=X, y=LABELS, **given):
    return CLASSIFIERS[kind](**{**COMMON, "classes": [0, 1], **given}).fit(X, y)


def regressor(kind, X=X, y=NUMBERS, **given):
    return REGRESSORS[kind](**{**COMMON, "target_bound": 1.0, **given}).fit(X, y)


@pytest.mark.parametrize("what", NO_NUMBERS)
@pytest.mark.parametrize("name", ["epsilon", "delta", "row_norm", "l2"])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_parameter_that_is_no_number_is_named(kind, name, what):
    with pytest.raises((TypeError, ValueError), match=f"{name} is "):
        classifier(kind, **{name: NO_NUMBERS[what]})


@pytest.mark.parametrize("what", NO_NUMBERS)
@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_bound_of_targets_that_is_no_number_is_named(kind, what):
    with pytest.raises((TypeError, ValueError), match="target_bound is "):
        regressor(kind, target_bound=NO_NUMBERS[what])


@pytest.mark.parametrize("what", NO_NUMBERS)
def test_public_facts_that_are_no_numbers_are_named(what):
    wrong = NO_NUMBERS[what]
    for name, build in {
        "epsilon": lambda: Budget(wrong),
        "delta": lambda: Budget(1.0, wrong),
        "row_norm": lambda: Problem(10, 2, Logistic(), wrong),
        "records": lambda: Problem(HUGE if what == "huge" else wrong, 2, Logistic()),
        "step_size": lambda: NoisyGradientDescent(2, wrong).plan(Problem(10, 2, Logistic()), Budget(1.0, 1e-6)),
    }.items():
        # True is a whole number to Python, and one record is what a problem of one record says
        if (name, what) != ("records", "yes"):
            with pytest.raises((TypeError, ValueError), match=f"{name} is "):
                build()


CHOICES = {
    "fit_intercept": (["no", 2, None, np.array([True])], "it must be True or False"),
    "intervals": (["yes", 1, None], "intervals is "),
    "classes": ([{0: "no", 1: "yes"}, "01", 5, [0, [1]], []], "it must be a list of the labels"),
    "records": (["40", 2.5, HUGE], "records is "),
    "random_state": (["3", 2.5], "random_state is a "),
    "method": (["best", 3, None], "method is .*: it must be 'auto' or a method such as"),
    "relation": (["neighbours", None], "relation is "),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_that_is_none_is_named(name):
    given, sentence = CHOICES[name]
    for wrong in given:
        with pytest.raises((TypeError, ValueError), match=sentence):
            classifier("logistic", **{"relation": "add_remove", "records": 40, name: wrong})


def test_classes_may_be_any_collection():
    listed = classifier("logistic", classes=[0, 1])
    for same in ({0, 1}, (1, 0), np.array([0, 1]), range(2), {0: "", 1: ""}.keys()):
        assert classifier("logistic", classes=same).classes_.tolist() == listed.classes_.tolist()


def spoiled(values, cell):
    changed = np.array(values, dtype=object)
    changed.flat[0], changed.flat[1] = cell, SECRET
    return changed


MASKED = np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) == 0)
SPARSE = sparse.csr_matrix(np.where(X == X[0, 0], np.nan, X))
LONG = np.where(X == X[0, 0], np.longdouble("1e400"), X)
TABLES = {
    "a huge whole number": (spoiled(X, HUGE), "too large for a double"),
    "huge in a list": (spoiled(X, HUGE).tolist(), "too large for a double"),
    "a text": (spoiled(X, "abc"), "a text that is not a number"),
    "rows of two lengths": ([[1.0, SECRET], [2.0]] * 20, "rows of different lengths"),
    "dates": (np.column_stack([DAYS, DAYS]), "dates or times"),
    "times": (np.column_stack([DAYS, DAYS]) - DAYS[0], "dates or times"),
    "a mask": (MASKED, "is a masked array"),
    "a mask of nothing": (np.ma.masked_array(X), "is a masked array"),
    "missing": (spoiled(X, np.nan).astype(float), "contains NaN or infinite numbers"),
    "missing in pandas' own numbers": (pd.DataFrame(spoiled(X, pd.NA)).astype("Float64"), "contains NaN or infinite"),
    "infinite": (spoiled(X, np.inf).astype(float), "contains NaN or infinite numbers"),
    "more than a double holds": (LONG, "too large for a double"),
    "complex": (X + 0j, "Complex data not supported"),
    "one row": (spoiled(X, 1.0).astype(float)[0], "Reshape your data"),
    "one dimension too many": (X[None], "Reshape your data"),
    "nothing": (None, "X is None"),
}


def refused(sentence, call):
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        call()
    said = str(caught.value)
    assert str(SECRET)[:6] not in said
    assert "sklearn" not in said
    assert "HistGradient" not in said


@pytest.mark.parametrize("what", TABLES)
def test_tables_that_are_no_finite_numbers(what):
    table, sentence = TABLES[what]
    for kind in CLASSIFIERS:
        refused(sentence, lambda kind=kind: classifier(kind, X=table))
    for kind in REGRESSORS:
        refused(sentence, lambda kind=kind: regressor(kind, X=table))
    refused(sentence, lambda: FITTED.predict(table))


@pytest.mark.parametrize("table", [SPARSE, sparse.csr_matrix(LONG)], ids=["missing", "too large"])
def test_a_sparse_table_with_a_number_that_is_not_finite(table):
    refused("contains NaN or infinite numbers", lambda: classifier("logistic", X=table))


FITTED = classifier("logistic")

TARGETS = {
    "missing in pandas' own numbers": (pd.Series(spoiled(NUMBERS, None)).astype("Float64"), "contains NaN or infinite"),
    "a huge whole number": (spoiled(NUMBERS, HUGE), "too large for a double"),
    "a text": (spoiled(NUMBERS, "abc"), "a text that is not a number"),
    "dates": (DAYS, "dates or times"),
    "a mask": (np.ma.masked_array(NUMBERS, mask=NUMBERS > 0), "is a masked array"),
    "missing": (spoiled(NUMBERS, np.nan).astype(float), "contains NaN or infinite numbers"),
}


@pytest.mark.parametrize("what", TARGETS)
@pytest.mark.parametrize("kind", REGRESSORS)
def test_targets_that_are_no_finite_numbers(kind, what):
    targets, sentence = TARGETS[what]
    refused(sentence, lambda: regressor(kind, y=targets))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_labels_under_a_mask(kind):
    refused("y is a masked array", lambda: classifier(kind, y=np.ma.masked_array(LABELS, mask=X[:, 1] > 0)))


WITHOUT = """
import importlib.abc, sys
missing, call = sys.argv[1:]
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
try:
    exec(call)
except ImportError as error:
    print(error)
"""
EXTRAS = {
    "torch": ("import sordino.torch", "sordino[torch]"),
    "mpyc": ("from sordino.federation import sharing; sharing._mpyc()", "sordino[federation]"),
    "ray": ("from sordino.cluster import connected; connected('local', 2).__enter__()", "sordino[cluster]"),
    "pyarrow": ("from sordino.files import Table; Table('x.parquet', 'y')", "sordino[files]"),
    "jinja2": ("import sordino; sordino.report('model', 'page.html')", "sordino[report]"),
    "statsmodels": ("from sordino.datasets import load_redbook; load_redbook()", "sordino[demo]"),
}


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_says_which_extra_brings_it(package):
    call, extra = EXTRAS[package]
    run = subprocess.run([sys.executable, "-c", WITHOUT, package, call], capture_output=True, text=True)
    assert extra in run.stdout, run.stdout + run.stderr


@pytest.mark.parametrize("kind", ["logistic", "network"])
def test_a_class_of_methods_is_not_its_settings(kind):
    with pytest.raises(TypeError, match=r"method is the class DPSGD: give settings of it, such as DPSGD\(\)\."):
        classifier(kind, method=DPSGD)
    with pytest.raises(TypeError, match="method is the class DPSGD"):
        planned(DPSGD, Problem(10, 2, Logistic()), Budget(1.0, 1e-6))


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("dtype", ["string", "Int64", "category"])
def test_a_label_that_is_missing_among_pandas_own(kind, dtype):
    named = pd.Series(LABELS, dtype="Int64").where(np.arange(len(LABELS)) > 0)
    with pytest.raises(ValueError, match="y contains NaN or another missing label"):
        classifier(kind, y=named.astype(dtype), classes=["0", "1"] if dtype == "string" else [0, 1])


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_two_columns_of_one_name(kind):
    with pytest.raises(ValueError, match="two columns of X have the same name") as refused:
        classifier(kind, X=pd.DataFrame(X, columns=["4711", "4711"]))
    assert "4711" not in str(refused.value)


def test_a_label_of_another_kind_is_told_what_a_kind_is():
    with pytest.raises(ValueError, match="The number 1 and the text '1' are different labels"):
        classifier("logistic", classes=["0", "1"])
