from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from sordino.budget import Budget
from sordino.certificate import verify
from sordino.checkpoint import Checkpoint, RunRecorder
from sordino.checkpoint_folder import read_summary
from sordino.methods import DPSGD, DPAdam, DPRMSProp, RandomRoundSGD, RecursiveMomentum
from sordino.oracle.torch import TorchOracle
from sordino.oracle.torch.parameters import parameter_count, parameter_vector
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem
from sordino.torch import fit
from sordino.train import train

N, T = 80, 15
BUDGET = Budget(2.0, 1e-4)
LOSS = nn.CrossEntropyLoss(reduction="none")
COMMON = {"steps": T, "batch_size": 20, "clip": 1.0}
METHODS = {
    "sgd": DPSGD(**COMMON, step_size=0.5, momentum=0.9, release="average"),
    "adam": DPAdam(**COMMON, step_size=0.02, moments="corrected"),
    "rmsprop": DPRMSProp(**COMMON, step_size=0.02),
    "recursive": RecursiveMomentum(**COMMON, step_size=0.5, difference_clip=0.5, mix=0.3, first_batch=40),
}


class Cut(Exception):
    pass


def small(width=4):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def data(n=N):
    rng = np.random.default_rng(0)
    return TensorDataset(
        torch.tensor(rng.normal(size=(n, 3)), dtype=torch.float32), torch.tensor(rng.integers(0, 2, size=n))
    )


def cut_at(step, look=()):
    def callback(moment):
        if moment.step in look:
            moment.weights()
        if moment.step == step:
            raise Cut

    return callback


def run(folder, *callbacks, model=None, resume=False, every=1, dataset=None, **settings):
    given = {"method": METHODS["adam"], "budget": BUDGET, **settings}
    place = Checkpoint(folder, every, resume)
    return fit(model or small(), LOSS, dataset or data(), callbacks=callbacks, checkpoint=place, **given)


@pytest.mark.parametrize("name", METHODS)
def test_with_the_same_randomness_a_cut_run_equals_an_uncut_one(tmp_path, name):
    method, model = METHODS[name], small()
    problem = NetworkProblem(N, parameter_count(model))
    oracle = TorchOracle(model, LOSS, data(), problem)

    def go(randomness, recorder=None):
        start = parameter_vector(model)
        return train(problem, BUDGET, method, oracle, randomness, start=start, recorder=recorder).weights

    whole = go(Randomness.seeded(1))
    randomness = Randomness.seeded(1)
    for step in (1, 4, T):
        place = Checkpoint(tmp_path / "run", every=1, resume="auto")
        with pytest.raises(Cut):
            go(randomness, RunRecorder(place, [cut_at(step)]))
    again = go(randomness, RunRecorder(Checkpoint(tmp_path / "run", resume=True)))
    np.testing.assert_array_equal(again, whole)


@pytest.mark.parametrize(
    "method", [RandomRoundSGD(**COMMON, step_size=0.5), DPAdam(**COMMON, step_size=0.02, release="random")]
)
def test_a_round_that_was_drawn_stays_drawn(tmp_path, method):
    first = run(tmp_path / "run", method=method, every=100)
    steps = read_summary(tmp_path / "run").kept
    again = run(tmp_path / "run", method=method, every=100, resume=True)
    assert steps.step == steps.numbers["stop"] == read_summary(tmp_path / "run").kept.step
    np.testing.assert_array_equal(parameter_vector(again.model), parameter_vector(first.model))


def test_a_model_goes_on_where_it_was(tmp_path):
    with pytest.raises(Cut):
        run(tmp_path / "run", cut_at(9, look=(2, 8)), every=5)
    with pytest.warns(RuntimeWarning, match="ends at step 14 of 15"):
        result = run(tmp_path / "run", every=5, resume=True)
    # the first look kept step 2, then 7 was kept: step 8 was seen and lost
    assert read_summary(tmp_path / "run").lost == ((7, 8),)
    assert all(finding.holds for finding in verify(result.certificate))
    assert "1 of the planned 15 steps" in result.certificate.notes[-1]


def test_a_seeded_run_goes_on_with_other_noise_and_says_that_it_is_seeded(tmp_path):
    def whole(folder):
        with pytest.raises(Cut):
            run(folder, cut_at(5), random_state=3)
        return run(folder, resume=True, random_state=3)

    one, other = whole(tmp_path / "one"), whole(tmp_path / "other")
    np.testing.assert_array_equal(parameter_vector(one.model), parameter_vector(other.model))
    uncut = run(tmp_path / "uncut", random_state=3)
    assert (parameter_vector(uncut.model) != parameter_vector(one.model)).any()
    assert "not private" in one.certificate.randomness


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": small(5)}, "another model"),
        ({"model": nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))}, "another model"),
        ({"dataset": data(N + 1)}, "80 records, and there are 81 now"),
        ({"budget": Budget(3.0, 1e-4)}, "another budget"),
        ({"method": METHODS["sgd"]}, "another method"),
    ],
)
def test_a_checkpoint_of_another_run(tmp_path, change, sentence):
    with pytest.raises(Cut):
        run(tmp_path / "run", cut_at(3))
    with pytest.raises(ValueError, match=sentence):
        run(tmp_path / "run", resume=True, **change)


def test_resuming_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="to go on from"):
        fit(small(), LOSS, data(), method=METHODS["adam"], budget=BUDGET, checkpoint=tmp_path / "run", resume=True)


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from test_resuming import *

def callback(moment):
    if moment.step % 2 == 0:
        moment.model()
        print("saw", moment.step, flush=True)
    time.sleep(0.003)

result = run({folder!r}, callback, resume="auto", every=4)
print("ended", flush=True)
"""


@pytest.mark.slow
def test_killed_at_random_steps(tmp_path):
    """kill -9 at any instant: everything a callback printed is in the books, and never more than T steps are."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "run"
    code = CHILD.format(tests=str(Path(__file__).parent), folder=str(folder))
    for kills in range(4):
        child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True)
        first = child.stdout.readline()
        if kills < 3:
            time.sleep(rng.uniform(0, 0.02))
            os.kill(child.pid, signal.SIGKILL)
        told = first + child.stdout.read()
        child.wait()
        summary = read_summary(folder)
        assert summary.seen >= max((int(line.split()[1]) for line in told.splitlines() if line != "ended"), default=0)
        assert summary.kept.step + sum(r - s for s, r in summary.lost) <= T
    assert told.endswith("ended\n")
    with pytest.warns(RuntimeWarning) if summary.lost else nullcontext():
        result = run(folder, resume=True, every=4)
    assert np.isfinite(parameter_vector(result.model)).all()
    assert all(finding.holds for finding in verify(result.certificate))
