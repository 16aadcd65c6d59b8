"""The worked example of a regression with intervals runs as it stands, and its intervals are near the truth."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "intervals.py"


@pytest.mark.slow
def test_every_coefficient_has_an_interval_around_the_truth():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = re.findall(r"from +(\S+) to +(\S+) +\(truly (\S+)\)", run.stdout)
    assert len(found) == 3
    for low, high, truth in (map(float, one) for one in found):
        # six standard errors to either side: the records, which are the same in every run, take one of them
        assert abs(truth - (low + high) / 2) < 1.5 * (high - low)
    # schooling is told apart from nothing
    assert float(found[1][0]) > 0
    assert "on average, from" in run.stdout
