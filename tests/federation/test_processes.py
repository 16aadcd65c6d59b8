"""Three owners in processes of their own, on the command line: from keys to a verified model, killed and paused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sordino.certificate import Certificate
from sordino.cli.app import app
from sordino.methods import NoisyGradientDescent
from sordino.model_file import read_model
from sordino.privacy.events import flatten
from three_owners import NAMES, found

pytestmark = pytest.mark.slow

STEPS = 12
METHOD = NoisyGradientDescent(steps=STEPS, step_size=1.0, release="average")
SLOWLY = """
import time
from sordino.federation.lockstep import RecordedSum
true = RecordedSum.open_sum
def slowly(self, values, joint=None):
    if not self.knows:
        time.sleep(0.25)
    return true(self, values, joint)
RecordedSum.open_sum = slowly
"""


@pytest.fixture
def federation(tmp_path):
    federation = found(tmp_path, METHOD)
    yield federation
    federation.stop()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    federation = found(tmp_path_factory.mktemp("whole"), METHOD)
    return federation.take_part()["north"].weights


def require_whole(federation, uninterrupted):
    """Everybody has the model of a run that nothing disturbed, and a certificate of just what was opened."""
    stories = [federation.summary(name) for name in NAMES]
    sums = [b"".join(total.tobytes() for total in summary.sums) for summary in stories]
    assert len(set(sums)) == 1
    models = [read_model(federation.home(name) / "model") for name in NAMES]
    plan = federation.member_folder("north").signed_plan.plan
    coef, intercept = plan.rows.to_raw(uninterrupted, 1)
    for name, summary, model in zip(NAMES, stories, models, strict=True):
        assert np.array_equal(model.coef, coef)
        assert np.array_equal(model.intercept, intercept)
        assert len(summary.sums) == STEPS
        certificate = Certificate.load(federation.home(name) / "certificate.json")
        assert flatten(summary.event)[0] == flatten(certificate.event)[0]
        assert sum(flatten(certificate.event)[0].values()) == STEPS
        assert summary.finished is not None


def test_without_a_disturbance_anyone_can_verify_the_model(federation):
    federation.start_all(seed=False)
    for name, (code, out, errors) in federation.end_all(180).items():
        assert code == 0, errors
        assert "(2, 1e-05)-differential privacy" in out
        assert f"{name}: plan" in out
    for name in NAMES:
        told = CliRunner().invoke(app, ["verify", str(federation.home(name) / "model")])
        assert told.exit_code == 0, told.stdout
        assert "VERIFIED" in told.stdout
        told = CliRunner().invoke(app, ["federation", "status", "--folder", str(federation.home(name))])
        assert f"{name}: finished" in told.stdout
        assert f"Sums opened: {STEPS} of {STEPS}" in told.stdout


def test_the_example_runs(tmp_path):
    script = Path(__file__).parents[2] / "examples" / "federation" / "local.sh"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    told = subprocess.run(["sh", script, tmp_path], env=environment, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    assert "Sums opened: 30 of 30" in told.stdout
    assert "VERIFIED: (2, 1e-06)-differential privacy" in told.stdout


def test_an_owner_is_killed_twice(federation, uninterrupted):
    for name, steps in (("south", 3), ("north", 7)):
        federation.start_all(watch=SLOWLY, patience=120, wait=180)
        federation.wait_for(name, steps, 180)
        # the others can be asked meanwhile
        told = CliRunner().invoke(app, ["federation", "status", "--folder", str(federation.home("east"))])
        assert "east: under way" in told.stdout
        federation.running[name].send_signal(signal.SIGKILL)
        ended = federation.end_all(180)
        assert ended[name][0] == -signal.SIGKILL
        told = CliRunner().invoke(app, ["federation", "status", "--folder", str(federation.home(name))])
        assert f"{name}: cut off; run goes on from here" in told.stdout
        for other in set(NAMES) - {name}:
            code, _, errors = ended[other]
            assert code == 2
            assert "was lost" in errors
            assert "Start run again at all members" in errors
    federation.start_all(patience=120, wait=180)
    assert [code for code, _, _ in federation.end_all(180).values()] == [0, 0, 0]
    require_whole(federation, uninterrupted)
    notes = json.loads((federation.home("east") / "certificate.json").read_text())["notes"]
    assert any("cut off and went on 2 times" in note for note in notes)


def test_an_owner_is_paused_beyond_the_others_patience(federation, uninterrupted):
    federation.start_all(watch=SLOWLY, patience=15, wait=180)
    federation.wait_for("east", 2, 180)
    federation.running["east"].send_signal(signal.SIGSTOP)
    for name in ("north", "south"):
        code, _, errors = federation.end(name, 180)
        assert code == 2
        assert "no answer from east" in errors or "was lost" in errors
    federation.running["east"].send_signal(signal.SIGCONT)
    code, _, errors = federation.end("east", 180)
    assert code == 2
    assert "Start run again at all members" in errors
    federation.start_all(patience=120, wait=180)
    assert [code for code, _, _ in federation.end_all(180).values()] == [0, 0, 0]
    require_whole(federation, uninterrupted)
