"""What `import sordino` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

from sklearn.base import BaseEstimator

import sordino
from sordino import estimators
from sordino.methods import METHODS


def test_every_name_is_there():
    assert {getattr(sordino, name).__name__ for name in sordino.__all__} == set(sordino.__all__)
    assert set(sordino.__all__) < set(dir(sordino))


def test_every_method_and_estimator_is_offered():
    modules = [import_module(f"sordino.estimators.{module.name}") for module in iter_modules(estimators.__path__)]
    private = {
        name
        for module in modules
        for name, kind in vars(module).items()
        if name.startswith("Private") and isinstance(kind, type) and issubclass(kind, BaseEstimator)
    }
    assert len(private) > 10
    assert {*METHODS, *private} <= set(sordino.__all__)


def test_an_unknown_name_is_refused():
    assert not hasattr(sordino, "NoSuchThing")


def test_nothing_is_loaded_before_it_is_used():
    code = "import sys, sordino; print(sorted({'numpy', 'scipy', 'sklearn', 'numba', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_small_fit_ends_without_the_compiler():
    code = """
import sys
import numpy as np
from sordino import PrivateLogisticRegression
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(20_000, 5))
PrivateLogisticRegression(row_norm=5**0.5, classes=[0, 1]).fit(X, rng.integers(0, 2, 20_000)).predict(X)
print('numba' in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
