"""The worked example of persons with several records runs as it stands, and is private for persons."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "panel.py"


@pytest.mark.slow
def test_the_panel_is_fitted_for_persons_and_better_than_a_guess():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "replacing all records of any one person by any others" in run.stdout
    persons, area = re.search(r"(\d+) persons; AUC (0\.\d+)", run.stdout).groups()
    assert int(persons) > 4000
    # it is .654 without privacy
    assert float(area) > 0.55
