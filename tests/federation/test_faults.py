"""Members that are cut off at any instant: what was opened is recorded and counted once, and the run goes on."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest

from sordino.certificate import verify
from sordino.federation.lockstep import RecordedSum
from sordino.federation.mesh import MemberLost, Refused
from sordino.federation.record import Record
from sordino.federation.status import status_of
from sordino.federation.unopened import Contribution, UnopenedContribution
from sordino.methods import DPSGD, NoisyGradientDescent, NoisySGD
from sordino.privacy.events import flatten
from sordino.train import Trained
from three_owners import NAMES, Crash, found

STEPS = 4
METHOD = NoisyGradientDescent(steps=STEPS, step_size=1.0, release="average")
BATCHES = NoisySGD(steps=STEPS, batch_size=30, step_size=1.0, release="last")
IN_ORDER = DPSGD(steps=STEPS, batch_size=30, step_size=1.0, clip=1.0, sampling="in_order")
POINTS = (
    "before keeping",
    "before opening",
    "before the sum",
    "before seeing",
    "before signing",
    "before recording",
    "after recording",
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The weights of a run with the tests' seeds that nothing disturbed."""
    federation = found(tmp_path_factory.mktemp("whole"), METHOD)
    trained = federation.take_part()["north"]
    assert isinstance(trained, Trained), trained
    return trained.weights


@pytest.fixture
def opened(monkeypatch):
    """Every sum that any member ever saw, by step, whether it was recorded or not."""
    seen: dict[int, set[bytes]] = {}
    true = RecordedSum._see

    def spy(self, step, event, total):
        seen.setdefault(step, set()).add(total.tobytes())
        return true(self, step, event, total)

    monkeypatch.setattr(RecordedSum, "_see", spy)
    return seen


def cut_off(federation, names, point, step):
    """Let members crash at a point of a step; afterwards they write nothing more. Returns what mends them."""
    folders = {federation.home(name) for name in names}
    dead: set[int] = set()
    append, keep = Record.append, UnopenedContribution.keep

    def crash():
        dead.add(threading.get_ident())
        raise Crash

    def appending(self, kind, fact):
        mine = self._identity.folder in folders
        if mine and threading.get_ident() in dead:
            raise Crash
        here = mine and fact.get("step") == step
        before = {"opening": "before opening", "seen": "before seeing", "opened": "before recording"}
        after = {"opening": "before the sum", "seen": "before signing", "opened": "after recording"}
        if here and before.get(kind) == point:
            crash()
        line = append(self, kind, fact)
        if here and after.get(kind) == point:
            crash()
        return line

    def recording(self, contribution):
        if self._path.parent in folders and contribution.step == step and point == "before keeping":
            crash()
        keep(self, contribution)

    patched = pytest.MonkeyPatch()
    patched.setattr(Record, "append", appending)
    patched.setattr(UnopenedContribution, "keep", recording)
    return patched.undo


def require_one_history(federation, trained, opened):
    """All records hold the same sums, every step was opened to one value only, and the certificate says just that."""
    stories = [federation.summary(name) for name in federation.names]
    certificate = trained.certificate
    for summary in stories:
        assert len(summary.sums) == len(summary.events) == STEPS
        assert [total.tobytes() for total in summary.sums] == [total.tobytes() for total in stories[0].sums]
        leaves, distance = flatten(summary.event)
        stated, stated_distance = flatten(certificate.event)
        assert leaves == stated
        assert distance == pytest.approx(stated_distance)
    assert {step: len(sums) for step, sums in opened.items()} == dict.fromkeys(range(STEPS), 1)
    assert all(stories[0].sums[step].tobytes() in sums for step, sums in opened.items())


@pytest.mark.parametrize("point", POINTS)
def test_one_member_crashes_and_comes_back(tmp_path, uninterrupted, opened, point):
    federation = found(tmp_path, METHOD)
    mend = cut_off(federation, ["south"], point, 2)
    ended = federation.take_part()
    mend()
    assert isinstance(ended["south"], Crash)
    for name in ("north", "east"):
        assert isinstance(ended[name], MemberLost), ended[name]
        assert "Start run again at all members" in str(ended[name])
        assert federation.summary(name).stopped == str(ended[name])
    trained = federation.take_part()
    assert all(isinstance(one, Trained) for one in trained.values()), trained
    require_one_history(federation, trained["north"], opened)
    for one in trained.values():
        assert np.array_equal(one.weights, uninterrupted)
        assert any("cut off and went on 1 time;" in note for note in one.certificate.notes)


@pytest.mark.parametrize(
    ("names", "method"), [(NAMES, METHOD), pytest.param(("north", "east"), BATCHES, marks=pytest.mark.slow)]
)
def test_a_sum_that_was_seen_and_recorded_by_few_or_none_is_not_opened_to_another_value(
    tmp_path, opened, names, method
):
    federation = found(tmp_path, method)
    mend = cut_off(federation, names, "before recording", 1)
    ended = federation.take_part(seeds=False)
    mend()
    assert [isinstance(ended[name], Crash) for name in names] == [True] * len(names)
    # fresh noise from the operating system: only what was kept can make the sums equal
    trained = federation.take_part(seeds=False)
    assert all(isinstance(one, Trained) for one in trained.values()), trained
    require_one_history(federation, trained["north"], opened)
    assert len({one.weights.tobytes() for one in trained.values()}) == 1
    assert all(finding.holds for finding in verify(trained["east"].certificate))


def test_a_member_that_missed_the_signatures_of_a_sum_takes_them_from_another(tmp_path, opened):
    federation = found(tmp_path, METHOD)
    mend = cut_off(federation, ["east"], "before recording", 0)
    federation.take_part(seeds=False)
    mend()
    recorded = [len(federation.summary(name).sums) for name in federation.names]
    assert recorded == [1, 1, 0]
    assert federation.summary("east").in_flight
    # what may have been opened is counted as opened, here and where the next step had begun
    told = [status_of(federation.member_folder(name)).epsilon for name in ("east", "north")]
    assert 0 < told[0] <= told[1] < 2.0
    # not even what it added is needed any more
    (federation.home("east") / "pending").unlink()
    trained = federation.take_part(seeds=False)
    require_one_history(federation, trained["north"], opened)


@pytest.mark.parametrize("mode", ["distributed", "joint"])
@pytest.mark.parametrize("what", ["missing", "of another attempt", "of another step"])
def test_a_step_under_way_is_not_opened_with_other_numbers_than_were_added_to_it(tmp_path, opened, what, mode):
    federation = found(tmp_path, METHOD, mode=mode)
    mend = cut_off(federation, NAMES, "before recording", 1)
    federation.take_part(seeds=False)
    mend()
    path = federation.home("south") / "pending"
    kept = Contribution.from_bytes(path.read_bytes())
    path.unlink()
    if what == "of another attempt":
        path.write_bytes(replace(kept, values=kept.values + 1).to_bytes())
    elif what == "of another step":
        path.write_bytes(replace(kept, step=kept.step - 1).to_bytes())
    for ended in federation.take_part(seeds=False).values():
        assert isinstance(ended, Refused)
        assert "south stops: what it added to a step that was cut off" in str(ended)
    assert {step: len(sums) for step, sums in opened.items()} == {0: 1, 1: 1}
    # with the file everything goes on
    path.write_bytes(kept.to_bytes())
    trained = federation.take_part(seeds=False)
    require_one_history(federation, trained["north"], opened)


@pytest.mark.parametrize("point", ["before signing", "before recording"])
def test_a_folder_put_back_to_before_a_step_that_others_saw_does_not_open_it_again(tmp_path, opened, point):
    federation = found(tmp_path, METHOD)
    mend = cut_off(federation, NAMES, point, 1)
    federation.take_part(seeds=False)
    mend()
    home = federation.home("south")
    lines = (home / "record.jsonl").read_bytes().splitlines(keepends=True)
    newest = {name: (home / name).read_bytes() for name in ("record.jsonl", "pending")}
    # as south's disk was when it had opened the first sum and not yet begun the second
    last = next(number for number, line in enumerate(lines) if b'"kind": "opened"' in line)
    (home / "record.jsonl").write_bytes(b"".join(lines[: last + 1]))
    (home / "pending").unlink()
    for ended in federation.take_part(seeds=False).values():
        assert "south stops: its record is missing or was put back to an earlier state" in str(ended)
    assert {step: len(sums) for step, sums in opened.items()} == {0: 1, 1: 1}
    for name, content in newest.items():
        (home / name).write_bytes(content)
    require_one_history(federation, federation.take_part(seeds=False)["north"], opened)


def test_the_last_wall_before_a_step_is_opened_again(tmp_path, opened, monkeypatch):
    """Even a member that forgets to look at the start does not open the step with other numbers."""
    federation = found(tmp_path, METHOD)
    mend = cut_off(federation, NAMES, "before recording", 1)
    federation.take_part(seeds=False)
    mend()
    (federation.home("south") / "pending").unlink()
    monkeypatch.setattr("sordino.federation.handshake.LOST", "")
    ended = federation.take_part(seeds=False)
    assert "this member stops: what it added to a step that was cut off" in str(ended["south"])
    assert {step: len(sums) for step, sums in opened.items()} == {0: 1, 1: 1}


def test_a_member_that_adds_other_numbers_the_second_time_gets_no_signature(tmp_path, opened):
    federation = found(tmp_path, METHOD)
    mend = cut_off(federation, NAMES, "before recording", 1)
    federation.take_part(seeds=False)
    mend()
    # south cheats: its file and its record agree on other numbers
    path = federation.home("south") / "pending"
    kept = Contribution.from_bytes(path.read_bytes())
    path.write_bytes(replace(kept, values=kept.values + 1).to_bytes())
    cheating = pytest.MonkeyPatch()
    cheating.setattr(UnopenedContribution, "lacks", lambda self, summary: False)
    ended = federation.take_part(seeds=False)
    cheating.undo()
    for name in ("north", "east"):
        assert "step 2 opened another sum than before it was cut off" in str(ended[name])
        assert len(federation.summary(name).sums) == 1


def test_correlated_noise_is_opened_step_by_step_and_counted_once(tmp_path, opened):
    federation = found(tmp_path, IN_ORDER)
    trained = federation.take_part(seeds=False)
    assert all(isinstance(one, Trained) for one in trained.values()), trained
    require_one_history(federation, trained["north"], opened)
    assert all(finding.holds for finding in verify(trained["east"].certificate))
    assert status_of(federation.member_folder("east")).planned == STEPS


@pytest.mark.parametrize(("point", "step"), [("before opening", 0), ("before recording", 1), ("after recording", 2)])
def test_correlated_noise_does_not_go_on_without_what_was_added_before(tmp_path, opened, point, step):
    federation = found(tmp_path, IN_ORDER)
    mend = cut_off(federation, NAMES, point, step)
    federation.take_part(seeds=False)
    mend()
    before = {step: set(sums) for step, sums in opened.items()}
    told = status_of(federation.member_folder("north"))
    # whatever part of a run was seen, it is paid for as a whole
    assert told.epsilon == (0 if step == 0 else pytest.approx(2.0, rel=1e-3))
    assert told.words == "cut off; agree on another plan"
    for ended in federation.take_part(seeds=False).values():
        assert isinstance(ended, Refused), ended
        assert "agree on another plan" in str(ended)
    assert opened == before


def test_a_lost_member_is_not_waited_for_where_noise_is_correlated(tmp_path):
    federation = found(tmp_path, IN_ORDER)
    mend = cut_off(federation, ["south"], "before seeing", 1)
    ended = federation.take_part(seeds=False)
    mend()
    assert isinstance(ended["north"], MemberLost)
    assert "Start run again" not in str(ended["north"])
    assert "agree on another plan" in str(ended["north"])


def test_joint_noise_goes_on_with_the_noise_that_was_drawn(tmp_path, opened):
    federation = found(tmp_path, METHOD, mode="joint")
    mend = cut_off(federation, federation.names, "before recording", 1)
    federation.take_part(seeds=False)
    mend()
    trained = federation.take_part(seeds=False)
    assert all(isinstance(one, Trained) for one in trained.values()), trained
    require_one_history(federation, trained["north"], opened)


def test_joint_noise_that_some_have_and_some_have_not_ends_the_run(tmp_path, opened):
    federation = found(tmp_path, METHOD, mode="joint")
    kept = UnopenedContribution.keep
    patched = pytest.MonkeyPatch()

    def recording(self, contribution):
        if self._path.parent == federation.home("south") and contribution.step == 1 and contribution.shares is not None:
            raise Crash
        kept(self, contribution)

    patched.setattr(UnopenedContribution, "keep", recording)
    federation.take_part(seeds=False)
    patched.undo()
    for ended in federation.take_part(seeds=False).values():
        assert "step 2 was cut off when some members had drawn its joint noise" in str(ended)
    summary = federation.summary("north")
    assert (len(summary.sums), len(summary.events)) == (1, 2)
    assert set(opened) == {0}


def test_a_server_of_a_committee_crashes_and_comes_back(tmp_path, opened):
    members = (*NAMES, "first", "second", "third")
    federation = found(tmp_path, METHOD, names=members, records=(60, 40, 50), mode="committee")
    mend = cut_off(federation, ["second"], "before recording", 2)
    ended = federation.take_part(seeds=False)
    mend()
    assert isinstance(ended["second"], Crash)
    trained = federation.take_part(seeds=False)
    assert all(isinstance(one, Trained) for one in trained.values()), trained
    require_one_history(federation, trained["third"], opened)
    assert len({one.weights.tobytes() for one in trained.values()}) == 1


def test_a_run_that_was_cut_off_is_charged_to_a_ledger_once(tmp_path):
    from sordino.budget import Budget
    from sordino.ledger.ledger import Ledger

    federation = found(tmp_path, METHOD)
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", Budget(20.0, 1e-5))
    account = (str(tmp_path / "ledger"), "survey")
    reserve, settle, patched = Ledger.reserve, Ledger._append, pytest.MonkeyPatch()

    def crash_after(work):
        def worked(*arguments):
            work(*arguments)
            raise Crash

        return worked

    def states():
        return [entry.state.value for entry in ledger.entries("survey")]

    patched.setattr(Ledger, "reserve", crash_after(reserve))
    federation.take_part(ledger=account)
    assert states() == ["reserved"] * 3
    patched.setattr(Ledger, "reserve", reserve)
    mend = cut_off(federation, ["south"], "before the sum", 1)
    federation.take_part(ledger=account)
    mend()
    assert states() == ["reserved"] * 3
    # the run has ended, and its members have not heard of it
    patched.setattr(Ledger, "_append", crash_after(settle))
    federation.take_part(ledger=account)
    patched.undo()
    assert states() == ["spent"] * 3
    assert all(isinstance(one, Trained) for one in federation.take_part(ledger=account).values())
    assert states() == ["spent"] * 3


def test_all_records_put_back_open_nothing_that_was_paid_for_once(tmp_path, opened):
    """Nobody notices by comparing, but every member's ledger says that the run has ended."""
    from sordino.budget import Budget
    from sordino.ledger.ledger import Ledger

    federation = found(tmp_path, METHOD)
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", Budget(20.0, 1e-5))
    account = (str(tmp_path / "ledger"), "survey")
    mend = cut_off(federation, ["south"], "before keeping", 2)
    federation.take_part(ledger=account, seeds=False)
    mend()
    for name in federation.names:
        shutil.copytree(federation.home(name), tmp_path / f"copy of {name}")
    assert all(isinstance(one, Trained) for one in federation.take_part(ledger=account, seeds=False).values())
    for name in federation.names:
        shutil.rmtree(federation.home(name))
        shutil.copytree(tmp_path / f"copy of {name}", federation.home(name))
    ended = federation.take_part(ledger=account, seeds=False)
    assert not any(isinstance(one, Trained) for one in ended.values())
    assert any("record is an older copy" in str(one) for one in ended.values())
    assert {step: len(sums) for step, sums in opened.items()} == dict.fromkeys(range(STEPS), 1)
