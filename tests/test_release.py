"""One path: what has no price is not run, what is refused costs nothing, what costs more than planned is withheld."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest

from one_release import CAP, WHOLE, Records, Released, run
from sordino.budget import Budget, Relation
from sordino.checkpoint import Checkpoint, RunRecorder
from sordino.curvature import curvature, private_curvature
from sordino.ledger import ledger as ledgers
from sordino.ledger.ledger import Ledger, State
from sordino.losses import Logistic
from sordino.methods import AdaptiveGradientDescent, NoisyGradientDescent, RepeatedSelection, Setting
from sordino.oracle import linear_oracle
from sordino.oracle.query import Choice, Gradient
from sordino.oracle.rows import Rows
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import GaussianDP, PureDP
from sordino.privacy.ledger_context import charged_to
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum
from sordino.release import release
from sordino.train import train
from test_checkpoint import BUDGET, METHOD, N, oracle, problem


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", CAP)
    return ledger


def states(ledger):
    return [entry.state for entry in ledger.entries("survey")]


class Unpriced:
    """An event that no accountant knows."""


def test_what_has_no_price_is_not_run(ledger):
    with charged_to(ledger, "survey"), pytest.raises(ValueError, match="no accountant supports"):
        release(Unpriced(), CAP, "no price", Records(), run)
    assert states(ledger) == []


def test_a_run_is_charged_and_says_what_it_cost(ledger):
    with charged_to(ledger, "survey"):
        outcome, earned = release(WHOLE, CAP, "a number", Records(), run)
    assert (outcome.value, earned.epsilon) == (1.0, pytest.approx(1.0))
    (entry,) = ledger.entries("survey")
    assert (entry.event, entry.note, entry.state) == (WHOLE, "a number", State.SPENT)


@pytest.mark.parametrize("starts", [1, 3])
def test_a_certificate_is_about_one_model(ledger, starts):
    """Methods make as many models of a stack of first iterates, every one a release."""
    with charged_to(ledger, "survey"), pytest.raises(ValueError, match="as many models"):
        train(problem(), BUDGET, METHOD, oracle(), start=np.zeros((starts, problem().dim)))
    assert states(ledger) == []


def test_what_does_not_fit_is_not_run(ledger):
    asked = []
    with charged_to(ledger, "survey"):
        release(WHOLE, CAP, "first", Records(), run)
        with pytest.raises(BudgetExceeded):
            release(WHOLE, CAP, "second", Records(), asked.append)
    assert asked == []


@pytest.mark.parametrize("more", [GaussianDP(1.01 * WHOLE.mu), PureDP(1.1)])
def test_what_costs_more_than_was_set_aside_is_withheld(ledger, more):
    with charged_to(ledger, "survey"), pytest.raises(RuntimeError, match="withheld"):
        release(WHOLE, CAP, "more", Records(), lambda records: Released(records.total(), more))
    # the records were used, so it counts
    assert ledger.remaining("survey") is None


def test_what_costs_less_is_certified_as_less(ledger):
    less = GaussianDP(WHOLE.mu / 2)
    _, earned = release(WHOLE, CAP, "less", Records(), lambda records: Released(records.total(), less))
    assert earned.epsilon < 0.6


class TestRefusals:
    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
    def test_before_the_first_question_costs_nothing(self, ledger, error):
        def refuse(records):
            raise error

        with charged_to(ledger, "survey"), pytest.raises(error):
            release(WHOLE, CAP, "refused", Records(), refuse)
        (entry,) = ledger.entries("survey")
        assert (entry.state, entry.settled[0].why) == (State.UNUSED, f"{error.__name__} before a record was used")
        assert ledger.remaining("survey") == CAP

    @pytest.mark.parametrize("ask", [lambda records: records.total(), lambda records: records.total])
    def test_from_the_first_question_on_it_counts(self, ledger, ask):
        def fail(records):
            ask(records)
            raise ValueError

        with charged_to(ledger, "survey"), pytest.raises(ValueError):  # noqa: PT011
            release(WHOLE, CAP, "failed", Records(), fail)
        assert states(ledger) == [State.RESERVED]

    def test_records_that_cannot_answer_at_all_cost_nothing(self, ledger):
        with charged_to(ledger, "survey"), pytest.raises(AttributeError):
            release(WHOLE, CAP, "refused", Records(), lambda records: records.median())
        assert ledger.remaining("survey") == CAP

    def test_a_method_that_cannot_be_kept(self, tmp_path, ledger):
        ledger.open("train", BUDGET)
        counted = oracle()
        method = NoisyGradientDescent(release="last")
        with (
            charged_to(ledger, "train"),
            pytest.raises(ValueError, match="cannot be kept or watched"),
        ):
            train(problem(), BUDGET, method, counted, recorder=RunRecorder(Checkpoint(tmp_path / "run")))
        assert counted.answers == 0
        assert ledger.remaining("train") == BUDGET


class Lying(NoisyGradientDescent):
    """Plans half the noise that it should."""

    def plan(self, problem, budget):
        plan = super().plan(problem, budget)
        return replace(plan, noise=replace(plan.noise, std=plan.noise.std / 2))


@pytest.mark.parametrize("method", [Lying(steps=5), NoisyGradientDescent(steps=5)])
def test_a_plan_with_too_little_noise_is_not_run(ledger, method):
    """The last wall before the records: whatever a method claims, its event is accounted for."""
    ledger.open("train", BUDGET)
    counted = oracle()
    with charged_to(ledger, "train"):
        if isinstance(method, Lying):
            with pytest.raises(RuntimeError, match=r"planned noise for epsilon .* where 2 was asked for; nothing was"):
                train(problem(), BUDGET, method, counted)
        else:
            train(problem(), BUDGET, method, counted)
    assert (counted.answers > 0) == (len(ledger.entries("train")) > 0) == (not isinstance(method, Lying))


# everything that is computed from records goes this way


def a_search(x, y):
    settings = (Setting(NoisyGradientDescent(steps=2)),)
    return train(problem(), BUDGET, RepeatedSelection(settings), linear(x, y))


def linear(x, y):
    return linear_oracle(x, y, problem(), Rows(2.0), BUDGET.relation)


RELEASES = {
    "model": lambda x, y: train(problem(), BUDGET, NoisyGradientDescent(steps=5), linear(x, y)),
    "search": a_search,
    "filtered": lambda x, y: train(problem(), BUDGET, AdaptiveGradientDescent(), linear(x, y)),
    "curvature": lambda x, y: private_curvature(x, y, problem(), Rows(2.0), BUDGET),
}


@pytest.mark.parametrize("name", RELEASES)
def test_everything_is_charged(ledger, name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 3)), rng.choice([-1.0, 1.0], N)
    ledger.open("all", BUDGET)
    with charged_to(ledger, "all"):
        RELEASES[name](x, y)
        assert [entry.state for entry in ledger.entries("all")] == [State.SPENT]
        with pytest.raises(BudgetExceeded):
            RELEASES[name](x, y)
    assert len(ledger.entries("all")) == 1


ANSWERS = {
    "a sum": lambda on: on.release(Gradient(np.zeros(3), 1.0), GaussianNoise(9.0, 2.0, 3), Randomness.system()),
    "a pure sum": lambda on: on.release(Gradient(np.zeros(3), 1.0), L2LaplaceNoise(2.0, 1.0, 3), Randomness.system()),
    "a choice": lambda on: on.choose(
        Choice(np.zeros((2, 3)), 1.0, np.zeros(2)), NoisyMinimum(2.0, 1.0), Randomness.system()
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_a_part_of_no_release_is_refused_where_everything_is_charged(ledger, name):
    on = linear(np.ones((N, 3)), np.ones(N))
    ANSWERS[name](on)
    with charged_to(ledger, "survey"):
        with pytest.raises(RuntimeError, match="a part of no release"):
            ANSWERS[name](on)
        release(WHOLE, CAP, "paid for", on, lambda records: Released(ANSWERS[name](records)))
        with pytest.raises(RuntimeError, match="a part of no release"):
            ANSWERS[name](on)
    assert states(ledger) == [State.SPENT]


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_callback_asks_is_no_part_of_the_release(ledger, name):
    on = linear(np.ones((N, 3)), np.ones(N))
    seen = []

    def ask(moment):
        seen.append(ANSWERS[name](on))

    ledger.open("all", BUDGET)
    with charged_to(ledger, "all"), pytest.raises(RuntimeError, match="a part of no release"):
        train(problem(), BUDGET, WHOLE_BATCH, oracle(), recorder=RunRecorder(callbacks=[ask]))
    assert seen == []


def test_a_measurement_without_noise_is_refused_where_everything_is_charged(ledger):
    x, y = np.ones((4, 2)), np.ones(4)
    with charged_to(ledger, "survey"), pytest.raises(ValueError, match="everything that is computed from them is"):
        curvature(x, y, Logistic())
    curvature(x, y, Logistic())


def test_another_relation_is_refused_and_costs_nothing(ledger):
    other = Budget(1.0, 1e-6, Relation.ADD_REMOVE)
    with charged_to(ledger, "survey"), pytest.raises(ValueError, match="plan again"):
        private_curvature(np.ones((N, 3)), np.ones(N), problem(), Rows(2.0), other)
    assert states(ledger) == []


# cut off between a reservation and the run's own journal

WHOLE_BATCH = replace(METHOD, batch_size=N)
"""Accounted for in no time."""


def killed_at(place, folder, ledger):
    """A run in a process of its own that is killed at `place`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads that do nothing here
        child = os.fork()
    if child == 0:
        from sordino.checkpoint_folder import Held

        note, reserve = Held.note, ledgers.Ledger.reserve

        def dying_note(self, line):
            if place == f"before {line['kind']}":
                os.kill(os.getpid(), signal.SIGKILL)
            note(self, line)
            if place == f"after {line['kind']}":
                os.kill(os.getpid(), signal.SIGKILL)

        def dying_reserve(*args):
            if place == "before the reservation":
                os.kill(os.getpid(), signal.SIGKILL)
            held = reserve(*args)
            if place == "after the reservation":
                os.kill(os.getpid(), signal.SIGKILL)
            return held

        Held.note, ledgers.Ledger.reserve = dying_note, dying_reserve
        try:
            with charged_to(ledger, "run"):
                train(problem(), BUDGET, WHOLE_BATCH, oracle(), recorder=RunRecorder(Checkpoint(folder, 1, "auto")))
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


FEW = ["after the reservation", "before begun"]
MANY = ["before the reservation", "before reserving", "after reserving", "after begun", "before kept", "after kept"]
PLACES = [*FEW, *(pytest.param(place, marks=pytest.mark.slow) for place in MANY)]


@pytest.mark.parametrize("place", PLACES)
def test_a_run_is_charged_once_however_often_it_is_killed(tmp_path, ledger, place):
    ledger.open("run", BUDGET)
    # what only happens when a run begins cannot kill it twice
    for _ in range(1 if place in ("after begun", "after reserving") else 3):
        killed_at(place, tmp_path / "run", ledger)
    with charged_to(ledger, "run"):
        train(problem(), BUDGET, WHOLE_BATCH, oracle(), recorder=RunRecorder(Checkpoint(tmp_path / "run", 1, "auto")))
    assert [entry.state for entry in ledger.entries("run")] == [State.SPENT]


def test_another_run_in_the_same_folder_is_another_reservation(tmp_path, ledger):
    ledger.open("run", Budget(9.0, 1e-3))
    killed_at("after the reservation", tmp_path / "run", ledger)
    recorder = RunRecorder(Checkpoint(tmp_path / "run"))
    with charged_to(ledger, "run"):
        train(problem(), BUDGET, replace(WHOLE_BATCH, step_size=0.1), oracle(), recorder=recorder)
        train(
            problem(),
            BUDGET,
            replace(WHOLE_BATCH, step_size=0.1),
            oracle(),
            recorder=RunRecorder(Checkpoint(tmp_path / "two")),
        )
    assert [entry.state for entry in ledger.entries("run")] == [State.RESERVED, State.SPENT, State.SPENT]


def test_an_older_copy_of_a_folder_cannot_spend_the_same_reservation_again(tmp_path, ledger):
    ledger.open("run", BUDGET)
    killed_at("after the reservation", tmp_path / "run", ledger)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with charged_to(ledger, "run"):
        train(problem(), BUDGET, WHOLE_BATCH, oracle(), recorder=RunRecorder(Checkpoint(tmp_path / "run")))
        counted = oracle()
        with pytest.raises(RuntimeError, match="spent by a run that has ended"):
            train(problem(), BUDGET, WHOLE_BATCH, counted, recorder=RunRecorder(Checkpoint(tmp_path / "copy")))
    assert counted.answers == 0


def test_a_run_that_cannot_go_on_gives_nothing_back(tmp_path):
    """Its earlier part has used the records, and was seen."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("run", BUDGET)
    folder = tmp_path / "run"

    def watch(moment):
        moment.weights()
        raise KeyboardInterrupt

    with charged_to(ledger, "run"):
        with pytest.raises(KeyboardInterrupt):
            train(problem(), BUDGET, METHOD, oracle(), recorder=RunRecorder(Checkpoint(folder), [watch]))
        (kept,) = folder.glob("state-*")
        kept.unlink()
        with pytest.raises(ValueError, match="missing or damaged"):
            train(problem(), BUDGET, METHOD, oracle(), recorder=RunRecorder(Checkpoint(folder, resume=True)))
    assert ledger.entry(0).state is State.RESERVED


def test_a_reference_pays_for_one_release(ledger):
    with charged_to(ledger, "survey"):
        release(WHOLE, CAP, "first", Records(), run, "the same")
        with pytest.raises(RuntimeError, match="with its own reference"):
            release(WHOLE, CAP, "again", Records(), run, "the same")
    assert states(ledger) == [State.SPENT]


# the ledger cannot be written any more once the run has ended


def failing(*_):
    raise OSError(28, "No space left on device")


def test_a_reference_buys_no_second_release_when_the_first_cannot_be_marked(ledger, monkeypatch):
    handed_out = []
    with charged_to(ledger, "survey"):
        with monkeypatch.context() as broken:
            broken.setattr(ledgers.Ledger, "_append", failing)
            with pytest.raises(OSError, match="withheld: see to the ledger, then run again with the same reference"):
                handed_out.append(release(WHOLE, CAP, "first", Records(), run, "the same"))
        handed_out.append(release(WHOLE, CAP, "again", Records(), run, "the same"))
        with pytest.raises(RuntimeError, match="with its own reference"):
            handed_out.append(release(WHOLE, CAP, "third", Records(), run, "the same"))
    assert len(handed_out) == 1
    assert states(ledger) == [State.SPENT]


def test_a_checkpoint_gives_what_could_not_be_marked_in_the_end(tmp_path, ledger, monkeypatch):
    ledger.open("run", BUDGET)
    with charged_to(ledger, "run"):
        with monkeypatch.context() as broken:
            broken.setattr(ledgers.Ledger, "_append", failing)
            with pytest.raises(OSError, match="withheld"):
                train(problem(), BUDGET, WHOLE_BATCH, oracle(), recorder=RunRecorder(Checkpoint(tmp_path / "run")))
        counted = oracle()
        train(problem(), BUDGET, WHOLE_BATCH, counted, recorder=RunRecorder(Checkpoint(tmp_path / "run", resume=True)))
    assert counted.answers == 0
    assert [entry.state for entry in ledger.entries("run")] == [State.SPENT]


def test_what_is_only_watched_cannot_be_gone_on_with(ledger):
    ledger.open("run", BUDGET)
    with charged_to(ledger, "run"):
        train(
            problem(),
            BUDGET,
            WHOLE_BATCH,
            oracle(),
            recorder=RunRecorder(callbacks=[lambda moment: None]),
            reference="one",
        )
    assert ledger.entry(0).reference == ""


# what a run that is stopped was charged


def test_who_stops_a_run_is_told_what_was_charged(ledger):
    def stopped(records):
        raise KeyboardInterrupt

    def stopped_later(records):
        run(records)
        raise KeyboardInterrupt

    for stop, told in ((stopped, "Not charged: no record was used"), (stopped_later, "Charged: reservation 1 stays")):
        with charged_to(ledger, "survey"), pytest.raises(KeyboardInterrupt) as caught:
            release(WHOLE, CAP, "a number", Records(), stop)
        assert told in "".join(caught.value.__notes__)
    assert states(ledger) == [State.UNUSED, State.RESERVED]
