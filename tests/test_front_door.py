"""What `import sordino` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import sordino
from sordino.estimators import __all__ as estimators
from sordino.methods import METHODS


def test_every_name_is_there():
    assert {getattr(sordino, name).__name__ for name in sordino.__all__} == set(sordino.__all__)
    assert set(sordino.__all__) < set(dir(sordino))


def test_every_method_and_estimator_is_offered():
    assert {*METHODS, *estimators} <= set(sordino.__all__)


def test_an_unknown_name_is_refused():
    assert not hasattr(sordino, "NoSuchThing")


def test_nothing_is_loaded_before_it_is_used():
    code = "import sys, sordino; print(sorted({'numpy', 'scipy', 'sklearn', 'numba', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
