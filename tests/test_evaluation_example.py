"""The worked example of an evaluation runs as it stands: the recall that was asked for is the recall of new records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "evaluation.py"


@pytest.mark.slow
def test_a_rare_class_gets_the_recall_that_was_asked_for():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "(1, 1e-06)-differential privacy" in run.stdout
    before, after = map(float, re.search(r"(0\.\d+) as trained, (0\.\d+) by the threshold", run.stdout).groups())
    assert before < 0.5
    assert 0.75 <= after <= 0.92
