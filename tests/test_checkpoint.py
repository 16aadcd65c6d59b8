from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from sordino.budget import Budget
from sordino.certificate import verify
from sordino.checkpoint import Checkpoint, RunRecorder
from sordino.checkpoint_folder import read_summary
from sordino.ledger.ledger import Ledger, State
from sordino.losses import Logistic
from sordino.methods import NoisyGradientDescent, NoisySGD, OutputPerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.accountants import epsilon
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import repeat
from sordino.privacy.ledger_context import charged_to
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.train import train

N, T = 60, 20
BUDGET = Budget(2.0, 1e-3)
METHOD = NoisySGD(steps=T, batch_size=20, step_size=0.5, release="last")
AVERAGE = NoisySGD(steps=T, batch_size=20, step_size=0.5)
DESCENTS = [NoisyGradientDescent(T, 0.5, release=release) for release in ("average", "trajectory")]


class Cut(Exception):
    """Stands in for a crash: leaves the run in the middle of a step's end."""


class Counting:
    """An oracle that counts its answers."""

    def __init__(self, oracle):
        self.oracle, self.answers = oracle, 0

    def draw(self, sampling, randomness):
        return self.oracle.draw(sampling, randomness)

    def release(self, query, noise, randomness):
        self.answers += 1
        return self.oracle.release(query, noise, randomness)


def problem(records=N, l2=0.1):
    return Problem(records, 3, Logistic(), penalty=Ridge(l2))


def oracle(records=N):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(records, 3)), rng.choice([-1.0, 1.0], records)
    return Counting(linear_oracle(X, y, problem(records), Rows(2.0), BUDGET.relation))


def run(folder, *callbacks, resume=False, every=1, randomness=None, method=METHOD, budget=BUDGET, given=None, on=None):
    recorder = RunRecorder(Checkpoint(folder, every, resume), callbacks)
    return train(given or problem(), budget, method, on or oracle(), randomness, recorder=recorder)


def cut_at(step, *, look=()):
    def callback(moment):
        if moment.step in look:
            moment.weights()
        if moment.step == step:
            raise Cut

    return callback


def cut(folder, step, **settings):
    """A run that ends with a crash after `step`."""
    look = settings.pop("look", ())
    with pytest.raises(Cut):
        run(folder, cut_at(step, look=look), **settings)


@pytest.mark.parametrize("method", [METHOD, AVERAGE, *DESCENTS])
@pytest.mark.parametrize("step", [1, 7, T])
def test_with_the_same_randomness_a_cut_run_equals_an_uncut_one(tmp_path, method, step):
    whole = train(problem(), BUDGET, method, oracle(), Randomness.seeded(3)).weights
    randomness = Randomness.seeded(3)
    cut(tmp_path / "run", step, method=method, randomness=randomness)
    again = run(tmp_path / "run", resume=True, method=method, randomness=randomness)
    np.testing.assert_array_equal(again.weights, whole)


def test_watching_and_keeping_change_nothing(tmp_path):
    whole = train(problem(), BUDGET, METHOD, oracle(), Randomness.seeded(3))
    kept = run(tmp_path / "run", lambda moment: moment.weights(), randomness=Randomness.seeded(3))
    np.testing.assert_array_equal(kept.weights, whole.weights)
    assert kept.certificate.event == whole.certificate.event
    assert kept.certificate.notes == whole.certificate.notes


def test_steps_nobody_saw_cost_nothing(tmp_path):
    cut(tmp_path / "run", 17, every=5)
    counted = oracle()
    again = run(tmp_path / "run", resume=True, every=5, on=counted)
    assert counted.answers == 5  # from 15 to 20
    assert read_summary(tmp_path / "run").lost == ()
    assert all(finding.holds for finding in verify(again.certificate))
    assert "went on 1 time." in again.certificate.notes[0]


def test_steps_that_were_seen_count_although_they_are_lost(tmp_path):
    cut(tmp_path / "run", 9, every=5, look=(1, 8))
    assert read_summary(tmp_path / "run").seen == 8
    counted = oracle()
    with pytest.warns(RuntimeWarning, match="ends at step 18 of 20"):
        again = run(tmp_path / "run", resume=True, every=5, on=counted)
    # the first look wrote a checkpoint at 1, so the next one was at 6: steps 7 and 8 were seen and lost
    assert read_summary(tmp_path / "run").lost == ((6, 8),)
    assert counted.answers == 18 - 6
    assert 8 + counted.answers == T
    assert again.certificate.event == METHOD.plan(problem(), BUDGET).event
    assert all(finding.holds for finding in verify(again.certificate))
    assert "2 of the planned 20 steps had been seen and were lost" in again.certificate.notes[0]


@pytest.mark.filterwarnings("ignore:the run ends at step")
def test_interruptions_add_up_until_no_step_is_left(tmp_path):
    cut(tmp_path / "run", 10, every=30, look=(10,))
    # steps 11 and 12 are seen and lost four times; then they are the last ones, and kept
    for _ in range(5):
        cut(tmp_path / "run", 12, every=30, look=(12,), resume=True)
    counted = oracle()
    last = run(tmp_path / "run", resume=True, every=30, on=counted)
    assert counted.answers == 0
    summary = read_summary(tmp_path / "run")
    assert (summary.lost, summary.kept.step) == (((10, 12),) * 4, 12)
    assert all(finding.holds for finding in verify(last.certificate))


def test_an_average_is_over_the_steps_that_were_taken(tmp_path):
    path = []
    with pytest.raises(Cut):
        run(tmp_path / "run", lambda m: path.append(m.weights()), cut_at(6), every=4, method=AVERAGE)
    del path[5:]  # the first look kept step 1, so the next checkpoint was at 5
    with pytest.warns(RuntimeWarning, match="step 19"):
        again = run(tmp_path / "run", lambda m: path.append(m.weights()), resume=True, every=4, method=AVERAGE)
    assert len(path) == 19
    np.testing.assert_allclose(again.weights, np.mean(path, axis=0), rtol=1e-12)


def test_a_run_that_ended_gives_its_model_again(tmp_path):
    first = run(tmp_path / "run", every=7)
    counted = oracle()
    again = run(tmp_path / "run", resume="auto", every=7, on=counted)
    np.testing.assert_array_equal(again.weights, first.weights)
    assert counted.answers == 0


def test_what_was_spent_so_far(tmp_path):
    told = []

    def callback(moment):
        if moment.step in (5, T):
            told.append((moment.step, moment.planned, moment.epsilon))

    run(tmp_path / "run", callback)
    plan = METHOD.plan(problem(), BUDGET)
    step = plan.event.parts[0][0]
    assert told[0] == (5, T, epsilon(repeat(step, 5), BUDGET.delta, BUDGET.relation))
    assert told[1][2] == pytest.approx(BUDGET.epsilon, rel=1e-3)


def test_lost_steps_are_in_what_was_spent(tmp_path):
    told = []
    cut(tmp_path / "run", 9, every=20, look=(1, 9))
    with pytest.warns(RuntimeWarning):
        run(tmp_path / "run", lambda m: told.append(m.epsilon) if m.step == 2 else None, resume=True, every=20)
    step = METHOD.plan(problem(), BUDGET).event.parts[0][0]
    assert told == [epsilon(repeat(step, 10), BUDGET.delta, BUDGET.relation)]


def test_weights_are_noted_before_they_are_shown(tmp_path):
    def callback(moment):
        moment.weights()
        assert read_journal(tmp_path / "run")[-1]["entry"]["step"] == moment.step

    # the run holds the journal's lock, so the test reads the file itself
    run(tmp_path / "run", callback, every=6)
    kinds = [line["entry"].get("kind") for line in read_journal(tmp_path / "run")]
    assert kinds.count("kept") == 5  # at 1, 7, 13, 19 and the end
    assert kinds.count("kept") + kinds.count("shown") == T


def read_journal(folder):
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def test_a_moment_ends_with_its_callback():
    moments = []
    train(problem(), BUDGET, METHOD, oracle(), recorder=RunRecorder(callbacks=[moments.append]))
    with pytest.raises(ValueError, match="step 3 has passed"):
        moments[2].weights()


def test_known_noise_marks_the_whole_run(tmp_path):
    cut(tmp_path / "run", 4, randomness=Randomness.seeded(0))
    certificate = run(tmp_path / "run", resume=True).certificate
    assert "not private" in certificate.randomness


def test_keys_are_not_written(tmp_path):
    randomness = Randomness.system()
    cut(tmp_path / "run", 4, randomness=randomness)
    written = b"".join(file.read_bytes() for file in (tmp_path / "run").iterdir())
    for key in (randomness.noise._key, randomness.sampling._key):
        assert key not in written
        assert key.hex().encode() not in written


def test_one_state_file_is_left(tmp_path):
    run(tmp_path / "run")
    assert len(list((tmp_path / "run").glob("state-*.safetensors"))) == 1


class TestLedger:
    @pytest.fixture
    def ledger(self, tmp_path):
        ledger = Ledger(tmp_path / "ledger")
        ledger.open("survey", BUDGET)
        return ledger

    def test_a_run_that_goes_on_is_charged_once(self, tmp_path, ledger):
        with charged_to(ledger, "survey"):
            cut(tmp_path / "run", 9, every=5, look=(1, 8))
            assert [entry.state for entry in ledger.entries("survey")] == [State.RESERVED]
            with pytest.warns(RuntimeWarning, match="ends at step"):
                run(tmp_path / "run", resume=True)
            assert [entry.state for entry in ledger.entries("survey")] == [State.SPENT]
            # ended: its model again, for nothing
            with pytest.warns(RuntimeWarning, match="ends at step"):
                run(tmp_path / "run", resume=True)
        assert len(ledger.entries("survey")) == 1

    def test_a_run_begun_without_a_ledger_is_charged_when_it_goes_on(self, tmp_path, ledger):
        cut(tmp_path / "run", 9)
        with charged_to(ledger, "survey"):
            run(tmp_path / "run", resume=True)
        assert [entry.state for entry in ledger.entries("survey")] == [State.SPENT]

    def test_a_reservation_of_something_else_is_not_taken_up(self, tmp_path, ledger):
        other = Ledger(tmp_path / "other")
        other.open("survey", Budget(20.0, 1e-3))
        other.reserve("survey", METHOD.plan(problem(), Budget(1.0, 1e-3)).event, BUDGET.relation)
        with charged_to(ledger, "survey"):
            cut(tmp_path / "run", 9)
        with charged_to(other, "survey"):
            run(tmp_path / "run", resume=True)
        assert [entry.state for entry in other.entries("survey")] == [State.RESERVED, State.SPENT]

    def test_a_refused_run_leaves_nothing_behind(self, tmp_path, ledger):
        with charged_to(ledger, "survey"):
            run(tmp_path / "first")
            with pytest.raises(BudgetExceeded):
                run(tmp_path / "second")
        assert read_summary(tmp_path / "second").facts is None


class TestRefusals:
    def test_a_recorder_records_one_run(self, tmp_path):
        recorder = RunRecorder(Checkpoint(tmp_path / "run"))
        train(problem(), BUDGET, METHOD, oracle(), recorder=recorder)
        with pytest.raises(ValueError, match="make a new one for every run"):
            train(problem(), BUDGET, METHOD, oracle(), recorder=recorder)

    def test_nothing_to_go_on_from(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"no checkpoint in .* to go on from"):
            run(tmp_path / "run", resume=True)
        assert not (tmp_path / "run").exists()

    def test_a_run_that_is_there(self, tmp_path):
        cut(tmp_path / "run", 3)
        with pytest.raises(FileExistsError, match="holds a run already: resume=True goes on with it"):
            run(tmp_path / "run")

    def test_auto_begins_and_goes_on(self, tmp_path):
        cut(tmp_path / "run", 3, resume="auto")
        run(tmp_path / "run", resume="auto")
        assert read_summary(tmp_path / "run").resumes == 1

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"given": problem(N + 1), "on": oracle(N + 1)}, "60 records, and there are 61 now"),
            ({"given": problem(l2=0.2)}, "another model or problem"),
            ({"budget": Budget(1.9, 1e-3)}, "another budget"),
            ({"method": NoisySGD(steps=T, batch_size=20, step_size=0.4, release="last")}, "other settings"),
        ],
    )
    def test_another_run(self, tmp_path, change, sentence):
        cut(tmp_path / "run", 3)
        with pytest.raises(ValueError, match=sentence):
            run(tmp_path / "run", resume=True, **change)

    @pytest.mark.parametrize("damage", ["missing", "cut short", "altered"])
    def test_damaged_arrays(self, tmp_path, damage):
        cut(tmp_path / "run", 3)
        (file,) = (tmp_path / "run").glob("state-*")
        content = file.read_bytes()
        file.unlink()
        if damage != "missing":
            file.write_bytes(content[:-3] if damage == "cut short" else content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(ValueError, match="missing or damaged, so the run cannot go on from step 3"):
            run(tmp_path / "run", resume=True)

    def test_a_damaged_journal(self, tmp_path):
        cut(tmp_path / "run", 3)
        journal = tmp_path / "run" / "journal.jsonl"
        journal.write_text(journal.read_text().replace('"step": 2', '"step": 1'))
        with pytest.raises(ValueError, match="altered or damaged"):
            run(tmp_path / "run", resume=True)

    @pytest.mark.parametrize(
        "method",
        [NoisyGradientDescent(steps=9), OutputPerturbation(steps=9), OutputPerturbation(steps=1)],
    )
    def test_methods_that_hide_what_is_between_their_steps(self, tmp_path, method):
        with pytest.raises(ValueError, match="checkpoint and the callbacks out"):
            run(tmp_path / "run", method=method, on=oracle().oracle)

    def test_two_processes(self, tmp_path):
        def second(moment):
            with pytest.raises(RuntimeError, match="another process is training"):
                run(tmp_path / "run", resume=True)
            raise Cut

        with pytest.raises(Cut):
            run(tmp_path / "run", second)

    def test_a_place_that_cannot_be(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            run(tmp_path / "no" / "run")
        (tmp_path / "file").write_text("")
        with pytest.raises((FileExistsError, NotADirectoryError), match="file"):
            run(tmp_path / "file")

    @pytest.mark.parametrize("settings", [{"every": 0}, {"resume": "perhaps"}])
    def test_settings(self, settings):
        with pytest.raises(ValueError, match=r"it must be|at least one"):
            Checkpoint("run", **settings)


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from test_checkpoint import *

def callback(moment):
    if moment.step % 3 == 0:
        moment.weights()
    print(moment.step, flush=True)
    time.sleep(0.002)

run({folder!r}, callback, resume="auto", every=4)
print("ended", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_steps(tmp_path, seed):
    """kill -9 at any instant: the run goes on, and never are more than T steps seen."""
    rng = np.random.default_rng(seed)
    folder = tmp_path / "run"
    code = CHILD.format(tests=str(Path(__file__).parent), folder=str(folder))
    ended, kills = False, 0
    while not ended:
        child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True)
        first = child.stdout.readline()
        if kills < 5 and first.strip().isdigit():
            time.sleep(rng.uniform(0, 0.03))
            os.kill(child.pid, signal.SIGKILL)
            kills += 1
        rest = child.stdout.read()
        child.wait()
        ended = "ended" in first + rest
        summary = read_summary(folder)
        assert summary.kept is None or (folder / summary.kept.file).exists()
    assert kills > 0
    summary = read_summary(folder)
    assert summary.kept.step + sum(r - s for s, r in summary.lost) <= T
    with pytest.warns(RuntimeWarning) if summary.lost else nullcontext():
        model = run(folder, resume=True, every=4)
    assert np.isfinite(model.weights).all()
    assert all(finding.holds for finding in verify(model.certificate))
