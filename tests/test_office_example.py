"""The worked example of a data office, on every storage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "office.py"


@pytest.mark.slow
def test_two_analysts_an_officer_and_a_stranger(address: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    run = subprocess.run([sys.executable, EXAMPLE, address], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for sentence in (
        "request 0 waits",
        "request 1 waits",
        "refused by Olga",
        "the follow-up needs what is left",
        "Intact: 12 lines, 11 of them signed, 1 reservation.",
        "Report: ",
    ):
        assert sentence in run.stdout, run.stdout
    (page,) = tmp_path.glob("office-*/report.html")
    assert "survey 2026" in page.read_text()
