"""The worked examples of a rare class and of counts run as they stand, and show what they are there to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def output(example: str) -> str:
    path = Path(__file__).parents[1] / "examples" / example
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow
def test_a_rare_class_is_ranked_nearly_as_well_as_without_privacy():
    text = output("rare_class.py")
    rows = re.findall(r"^(.+?) +AUC (\S+) +of the ill are found (\S+)$", text, re.MULTILINE)
    found = {name: (float(area), float(recall)) for name, area, recall in rows}
    open_, private, balanced = found["not private"], found["epsilon 1"], found["epsilon 1, balanced"]
    assert private[0] >= 0.95 * open_[0]
    assert balanced[0] >= 0.9 * open_[0]
    # weights move the point at which the class is predicted
    assert balanced[1] > private[1] + 0.3


@pytest.mark.slow
def test_counts_over_different_times_are_predicted():
    text = output("counts.py")
    assert "(1, 1e-06)-differential privacy" in text
    assert "count as if they were so large" in text
    seen, predicted = map(float, re.search(r"(\d+) claims; (\d+) are predicted", text).groups())
    assert predicted == pytest.approx(seen, rel=0.15)
    assert float(re.search(r"true rate: (\S+)", text).group(1)) > 0.95
