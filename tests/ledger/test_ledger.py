"""Reserve, then spend: nothing touches the records that the file does not already know of."""

import json
import os
import signal
import sqlite3
import time
import warnings
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.ledger import postgres, sqlite
from sordino.ledger.kept_heads import KeptHead
from sordino.ledger.ledger import Ledger, State, whoami
from sordino.losses import Logistic
from sordino.methods import NoisyGradientDescent, OutputPerturbation
from sordino.privacy.accountants import guarantee
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import (
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    PoissonSampled,
    PureDP,
    compose,
    flatten,
    repeat,
)
from sordino.privacy.gaussian_profile import gdp_mu
from sordino.problem import Problem
from stored_lines import chained, put, rows

CAP = Budget(1.0, 1e-6)
FIFTH = GaussianDP(gdp_mu(1.0, 0.99e-6) / 5**0.5 * (1 - 1e-6))
"""Five fill the cap."""
SAMPLED = repeat(PoissonSampled(Gaussian(4.0), 0.05), 10)
REPLACE = Relation.REPLACE_ONE


@pytest.fixture
def ledger(address):
    ledger = Ledger(address)
    ledger.open("survey", CAP)
    return ledger


def spend(ledger, event, note=""):
    with ledger.reserve("survey", event, REPLACE, note):
        pass


def states(ledger):
    return [entry.state for entry in ledger.entries("survey")]


# what is counted


def test_a_block_that_ends_normally_is_spent(ledger):
    with ledger.reserve("survey", FIFTH, REPLACE, "first model") as reservation:
        assert states(ledger) == [State.RESERVED]
        assert reservation.state is State.RESERVED
    (entry,) = ledger.entries("survey")
    assert (entry.state, entry.note, entry.event, entry.dataset) == (State.SPENT, "first model", FIFTH, "survey")
    assert ledger.spent("survey") == FIFTH


def test_a_reservation_counts_before_it_is_entered(ledger):
    ledger.reserve("survey", FIFTH, REPLACE)
    assert ledger.spent("survey") == FIFTH


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_reservation_counted(ledger, error):
    with pytest.raises(error), ledger.reserve("survey", FIFTH, REPLACE):
        raise error
    assert states(ledger) == [State.RESERVED]
    assert ledger.spent("survey") == FIFTH


def test_only_an_explicit_release_gives_it_back(ledger):
    with ledger.reserve("survey", FIFTH, REPLACE) as reservation:
        reservation.release_unused()
    assert states(ledger) == [State.UNUSED]
    assert ledger.spent("survey") is None
    assert ledger.remaining("survey") == CAP


def test_what_is_settled_cannot_be_settled_again(ledger):
    with ledger.reserve("survey", FIFTH, REPLACE) as reservation:
        pass
    with pytest.raises(ValueError, match="spent already"):
        reservation.release_unused()
    assert states(ledger) == [State.SPENT]


def test_everything_spent_is_one_composition(ledger):
    for event in (FIFTH, SAMPLED, PureDP(0.01)):
        spend(ledger, event)
    assert flatten(ledger.spent("survey")) == flatten(compose(FIFTH, SAMPLED, PureDP(0.01)))


# what is refused


def test_five_fifths_fit_and_a_sixth_does_not(ledger):
    for _ in range(5):
        spend(ledger, FIFTH)
    with pytest.raises(
        BudgetExceeded, match=r"'survey' has epsilon 1 .* would have spent epsilon 1\.1.* nothing was run"
    ):
        spend(ledger, FIFTH)
    assert states(ledger) == [State.SPENT] * 5


def test_epsilons_are_composed_and_not_added(ledger):
    alone = guarantee(FIFTH, CAP.delta, REPLACE).epsilon
    assert 5 * alone > 2 * CAP.epsilon


def test_the_whole_cap_can_be_spent_at_once_and_is_then_gone(ledger):
    spend(ledger, GaussianDP(gdp_mu(CAP.epsilon, CAP.delta)))
    assert ledger.remaining("survey") is None
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        spend(ledger, Gaussian(1e6))


def test_a_sampled_release_that_fills_the_cap_is_accounted_exactly_when_it_is_the_first(ledger):
    event = repeat(PoissonSampled(Gaussian(2.0), 0.05), 30)
    cost = guarantee(event, CAP.delta, REPLACE).epsilon
    ledger.open("other", replace(CAP, epsilon=cost))
    with ledger.reserve("other", event, REPLACE):
        pass
    with pytest.raises(BudgetExceeded), ledger.reserve("other", event, REPLACE):
        pass


def test_what_was_spent_always_satisfies_the_cap(ledger):
    refused = 0
    for event in [GaussianDP(0.08), SAMPLED, PureDP(0.05), repeat(FixedSizeSampled(Gaussian(6.0), 0.1), 20)] * 4:
        try:
            spend(ledger, event)
        except BudgetExceeded:
            refused += 1
    assert 0 < refused < 13
    assert 0.5 < guarantee(ledger.spent("survey"), CAP.delta, REPLACE).epsilon <= 1


@pytest.mark.parametrize("releases", [1, 3])
def test_what_remains_can_be_spent(ledger, releases):
    spend(ledger, FIFTH)
    for _ in range(releases):
        share = ledger.remaining("survey", releases)
        assert share.delta == CAP.delta
        spend(ledger, GaussianDP(gdp_mu(share.epsilon, share.delta)))
        releases -= 1
    left = ledger.remaining("survey")
    assert left is None or left.epsilon < 0.01


@pytest.mark.parametrize("method", [OutputPerturbation(steps=20), NoisyGradientDescent(steps=30, step_size=1.0)])
@pytest.mark.parametrize("releases", [1, 4])
def test_plans_made_for_what_remains_are_admitted(ledger, method, releases):
    problem = Problem(1000, 8, Logistic())
    share = ledger.remaining("survey", releases)
    for _ in range(releases):
        spend(ledger, method.plan(problem, share).event)
    with pytest.raises(BudgetExceeded):
        spend(ledger, method.plan(problem, share).event)


def test_a_pure_cap_is_spent_by_addition(ledger):
    ledger.open("pure", Budget(1.0))
    for _ in range(10):
        with ledger.reserve("pure", PureDP(0.1), REPLACE):
            pass
    assert ledger.remaining("pure") is None
    ledger.open("fresh", Budget(1.0))
    with pytest.raises(BudgetExceeded, match="cannot be bounded at delta 0"):
        ledger.reserve("fresh", Gaussian(50.0), REPLACE)


def test_data_sets_do_not_share_a_budget(ledger):
    ledger.open("other", CAP)
    for _ in range(5):
        spend(ledger, FIFTH)
    assert ledger.remaining("other") == CAP
    assert set(ledger.datasets()) == {"survey", "other"}


def test_another_relation_is_refused(ledger):
    with pytest.raises(ValueError, match=r"stated under add_remove.*accounted under replace_one"):
        ledger.reserve("survey", FIFTH, Relation.ADD_REMOVE)
    with pytest.raises(ValueError, match="cannot be changed"):
        ledger.open("survey", replace(CAP, relation=Relation.ADD_REMOVE))
    assert ledger.entries("survey") == ()


@pytest.mark.parametrize(("first", "then"), [("person", "record"), ("record", "person")])
def test_promises_about_records_and_about_persons_do_not_add_up(ledger, first, then):
    with ledger.reserve("survey", FIFTH, REPLACE, reference="one", unit=first):
        pass
    for reference in ("", "one", "another"):
        with pytest.raises(ValueError, match=f"protect every {first}, and this one protects every {then}"):
            Ledger(ledger.address).reserve("survey", FIFTH, REPLACE, reference=reference, unit=then)
    with ledger.reserve("survey", FIFTH, REPLACE, unit=first):
        pass
    assert [entry.unit for entry in ledger.entries("survey")] == [first, first]
    assert ledger.check().reservations == 2


def test_what_was_given_back_promises_nothing(ledger):
    ledger.reserve("survey", FIFTH, REPLACE).release_unused()
    with ledger.reserve("survey", FIFTH, REPLACE, unit="person"):
        pass


def test_a_line_of_another_unit_is_not_believed(ledger):
    with ledger.reserve("survey", FIFTH, REPLACE, unit="person"):
        pass
    bodies = [body for _, body, _ in rows(ledger)]
    again = json.loads(bodies[2]) | {"number": 1, "unit": "record"}
    put(ledger, chained([*bodies, wire.canonical(again)]))
    with pytest.raises(ValueError, match=r"line 5 of .* is not one that this version writes"):
        Ledger(ledger.address).check()


def test_a_cap_cannot_be_raised_afterwards_but_may_be_repeated(ledger):
    ledger.open("survey", CAP)
    with pytest.raises(ValueError, match=r"open with epsilon 1 .*not with epsilon 2"):
        ledger.open("survey", replace(CAP, epsilon=2.0))
    assert ledger.datasets() == {"survey": CAP}


@pytest.mark.parametrize("ask", ["spent", "remaining", "entries"])
def test_an_unknown_data_set_is_a_sentence(ledger, ask):
    with pytest.raises(ValueError, match=r"'surveys' is not open \(open: 'survey'\)"):
        getattr(ledger, ask)("surveys")


def test_a_data_set_without_a_name_is_a_sentence(ledger):
    with pytest.raises(ValueError, match="needs a name"):
        ledger.open("", CAP)


def test_a_budget_that_is_none_is_a_sentence(ledger):
    with pytest.raises(TypeError, match="cap is 2: give a Budget"):
        ledger.open("another", 2)


def test_releases_that_are_none_is_a_sentence(ledger):
    with pytest.raises(ValueError, match="at least one"):
        ledger.remaining("survey", 0)


def fill_the_disk(monkeypatch):
    """What the two storages say when there is no room."""

    def sqlite_full(self, line):
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise full

    def postgres_full(self, line):
        raise psycopg.errors.DiskFull("could not extend file: No space left on device")

    monkeypatch.setattr(sqlite._Transaction, "append", sqlite_full)
    monkeypatch.setattr(postgres._Transaction, "append", postgres_full)


def test_a_mark_that_cannot_be_written_does_not_lose_the_model(ledger, monkeypatch):
    with pytest.warns(RuntimeWarning, match="counts all the same"), ledger.reserve("survey", FIFTH, REPLACE):
        fill_the_disk(monkeypatch)
    assert states(ledger) == [State.RESERVED]


def test_what_was_given_back_meanwhile_is_not_handed_out_without_a_mark(ledger, monkeypatch):
    reservation = ledger.reserve("survey", FIFTH, REPLACE)
    ledger.settle(0, State.UNUSED, "Ada", "surely dead")
    fill_the_disk(monkeypatch)
    with pytest.raises(OSError, match=r"full|No space"), reservation:
        pass
    assert states(ledger) == [State.UNUSED]


def test_a_reservation_that_cannot_be_written_is_none(ledger, monkeypatch):
    fill_the_disk(monkeypatch)
    touched = []
    with pytest.raises(OSError, match=r"full|No space"), ledger.reserve("survey", FIFTH, REPLACE):
        touched.append(1)
    assert not touched
    assert states(ledger) == []


# what somebody else did to the file


def test_a_changed_reservation_is_found_out(ledger):
    spend(ledger, FIFTH)
    lines = rows(ledger)
    number, body, check = lines[2]
    entry = json.loads(body)
    entry["event"]["mu"] /= 10
    put(ledger, [*lines[:2], (number, wire.canonical(entry), check), *lines[3:]])
    # this object has read the line before it was changed, and goes by that
    assert ledger.spent("survey") == FIFTH
    for ask in ("spent", "remaining", "entries", "statement"):
        with pytest.raises(ValueError, match=r"line 3 of .* was altered"):
            getattr(Ledger(ledger.address), ask)("survey")
    with pytest.raises(ValueError, match="altered"):
        spend(Ledger(ledger.address), FIFTH)
    with pytest.raises(ValueError, match="altered"):
        ledger.check()


@pytest.mark.parametrize("change", ["removed", "repeated", "moved", "renewed"])
def test_no_line_can_go_or_move(ledger, change):
    for _ in range(2):
        spend(ledger, FIFTH)
    header, opened, a, b, c, d = (body for _, body, _ in rows(ledger))
    lines = rows(ledger)
    if change == "renewed":
        # a check of its own that fits breaks the next line
        forged = chained([header, opened, a.replace('"note":""', '"note":"x"')])[-1]
        put(ledger, [*lines[:2], forged, *lines[3:]])
    else:
        bodies = {
            "removed": [header, opened, b, c, d],
            "repeated": [header, opened, a, a, b, c, d],
            "moved": [header, opened, a, c, b, d],
        }[change]
        checks = {body: check for _, body, check in lines}
        put(ledger, [(number, body, checks[body]) for number, body in enumerate(bodies, start=1)])
    with pytest.raises(ValueError, match=r"altered|emptied, cut or exchanged"):
        Ledger(ledger.address).spent("survey")


@pytest.mark.parametrize("left", [None, 0, 1, 2, 3, 4, 5])
def test_lines_taken_away_are_noticed_whatever_is_asked(ledger, left):
    spend(ledger, FIFTH)
    spend(ledger, FIFTH)
    lines = rows(ledger)
    assert len(lines) == 6
    if left is None and not ledger.address.startswith("postgresql:"):
        os.rename(ledger.address, f"{ledger.address}-away")
    else:
        put(ledger, lines[: left or 0])
    for book in (ledger, Ledger(ledger.address)):
        for ask in (
            lambda book=book: book.spent("survey"),
            lambda book=book: book.remaining("survey"),
            lambda book=book: spend(book, FIFTH),
            lambda book=book: book.open("survey", CAP),
            book.head,
            book.check,
        ):
            with pytest.raises(ValueError, match=r"emptied, cut or exchanged: it had 6 lines"):
                ask()
    if left is None and not ledger.address.startswith("postgresql:"):
        os.replace(f"{ledger.address}-away", ledger.address)
    put(ledger, lines)
    spend(ledger, FIFTH)


def test_a_ledger_written_anew_is_noticed(ledger):
    spend(ledger, FIFTH)
    bodies = [body.replace("survey", "surveys") for _, body, _ in rows(ledger)]
    put(ledger, chained([*bodies, *bodies[2:]]))
    with pytest.raises(ValueError, match="emptied, cut or exchanged"):
        ledger.datasets()
    with pytest.raises(ValueError, match="emptied, cut or exchanged"):
        Ledger(ledger.address).datasets()


def test_two_names_of_one_file_are_refused(tmp_path):
    """SQLite's locks go by the name: two programs could both spend the last of a budget."""
    ledger, other = Ledger(tmp_path / "ledger"), tmp_path / "other"
    ledger.open("survey", CAP)
    other.hardlink_to(ledger.address)
    for name in (ledger.address, other):
        with pytest.raises(ValueError, match="another name"):
            spend(Ledger(name), FIFTH)
    other.unlink()
    other.symlink_to(ledger.address)
    spend(Ledger(other), FIFTH)
    assert states(ledger) == [State.SPENT]


def test_a_storage_only_grows(ledger):
    """Against slips of the hand; whoever owns the storage can take the guard away."""
    if ledger.address.startswith("postgresql:"):
        for change in ("DELETE FROM", "TRUNCATE"):
            with pytest.raises(psycopg.Error, match="only grows"), psycopg.connect(ledger.address) as connection:
                connection.execute(f"{change} sordino_ledger")
        with pytest.raises(psycopg.Error, match="only grows"), psycopg.connect(ledger.address) as connection:
            connection.execute("UPDATE sordino_ledger SET body = ''")
        return
    with closing(sqlite3.connect(ledger.address)) as connection:
        for change in ("DELETE FROM entry", "UPDATE entry SET body = ''"):
            with pytest.raises(sqlite3.Error, match="only grows"):
                connection.execute(change)


def test_what_others_have_written_since_is_no_surprise(ledger, monkeypatch, tmp_path):
    mine = os.environ["XDG_STATE_HOME"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another user"))
    spend(ledger, FIFTH)
    monkeypatch.setenv("XDG_STATE_HOME", mine)
    assert ledger.spent("survey") == FIFTH


def test_a_head_kept_elsewhere_shows_what_both_files_hide(ledger, monkeypatch, tmp_path):
    spend(ledger, FIFTH)
    head = ledger.head()
    spend(ledger, FIFTH)
    assert ledger.extends(head)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    put(ledger, rows(ledger)[:2])
    again = Ledger(ledger.address)
    assert again.spent("survey") is None
    assert not again.extends(head)


def test_where_no_head_can_be_kept_the_release_goes_on_with_a_warning(ledger, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="could not be kept apart"):
        spend(ledger, FIFTH)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "folder"))
    assert states(ledger) == [State.SPENT]


def test_a_damaged_head_is_a_sentence(ledger, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Ledger(ledger.address).head()
    (file,) = (tmp_path / "state").glob("**/*.json")
    for content in (b"", b"[]", b'{"head": 1, "lines": 1}', b"[" * 60_000):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="was damaged"):
            ledger.head()


# what is not a ledger of ours


def forged(ledger, *entries):
    """Lines with checksums that fit: whoever writes to the storage can make them."""
    put(ledger, chained([*(body for _, body, _ in rows(ledger)), *map(wire.canonical, entries)]))


NOW = "2026-01-01T00:00:00+00:00"


def reserve_line(**changes):
    charge = {"kind": "Charge", "mu": 0.1, "epsilon": "inf", "leak": 0.0, "total_variation": 0.0}
    line = {"kind": "reserve", "number": 0, "dataset": "survey", "note": "", "created": NOW, "charge": charge}
    return {**line, "event": {"kind": "GaussianDP", "mu": 0.1}, **changes}


def test_a_line_in_the_form_of_earlier_versions_is_read(ledger):
    forged(ledger, reserve_line(), {"kind": "settle", "number": 0, "state": "spent", "created": NOW})
    (entry,) = ledger.entries("survey")
    assert (entry.state, entry.reference, entry.by, entry.settled[0].who) == (State.SPENT, "", "", "")


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "close"},
        {"kind": "open", "dataset": "x", "cap": 3},
        {"kind": "open", "dataset": "x", "cap": {"kind": "Budget", "epsilon": -1}},
        reserve_line(number=7),
        reserve_line(number=-1),
        reserve_line(dataset="nobody's"),
        reserve_line(charge=0.1),
        reserve_line(charge={"kind": "Charge", "nu": 1}),
        reserve_line(event={}),
        reserve_line(event={"kind": "Composed", "parts": 7}),
        {"kind": "settle", "number": 0, "state": "spent", "created": NOW},
        {"kind": "settle", "number": 0, "state": "forgotten", "created": NOW},
    ],
)
def test_a_line_that_is_none_of_ours_is_a_sentence(ledger, line):
    forged(ledger, line)
    for ask in (ledger.head, Ledger(ledger.address).check, lambda: Ledger(ledger.address).spent("survey")):
        with pytest.raises(ValueError, match=r"line 3 of .* is not one that this version writes"):
            ask()


@pytest.mark.parametrize(
    "content",
    [
        b"age,income\n41,52000\n",
        b'{"entry": {"n": 1}}',
        b"SQLite format 3\0" + b"x" * 4096,
        pytest.param(None, id="another database"),
    ],
)
def test_another_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "file"
    if content is None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE VIEW entry AS SELECT 1 AS number, '' AS body, '' AS digest")
        content = path.read_bytes()
    path.write_bytes(content)
    for ask in (Ledger(path).head, lambda: Ledger(path).open("survey", CAP)):
        with pytest.raises(ValueError, match="is not a ledger"):
            ask()
    assert path.read_bytes() == content


def test_what_is_no_file_or_has_no_folder_is_a_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="name an ordinary file"):
        Ledger(tmp_path / "pipe").datasets()
    with pytest.raises(FileExistsError, match="name an ordinary file"):
        Ledger(tmp_path / "pipe").open("survey", CAP)
    with pytest.raises(FileNotFoundError, match="folder does not exist"):
        Ledger(tmp_path / "nowhere" / "file").open("survey", CAP)
    assert Ledger(tmp_path / "none").datasets() == {}
    assert not (tmp_path / "none").exists()


def test_a_file_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        with Ledger(tmp_path / "ledger")._writing():
            modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("ledger*")}
    finally:
        os.umask(before)
    assert modes == {0o600}


def test_an_entry_that_is_too_long_is_a_sentence(ledger):
    with pytest.raises(ValueError, match="shorten its note"):
        ledger.reserve("survey", FIFTH, REPLACE, "x" * (1 << 20))
    assert states(ledger) == []


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:secret@host/ledger",
        "postgresql://host/ledger?password=secret",
        "postgresql://[",
        "postgres:x=1",
    ],
)
def test_an_address_with_a_password_or_without_a_sense_is_a_sentence(address):
    with pytest.raises(ValueError, match=r"holds no password|not an address") as caught:
        Ledger(address)
    assert "secret" not in str(caught.value)


# by whom, and by hand


def test_a_reservation_says_who_made_it_and_how_it_ended(ledger):
    spend(ledger, FIFTH, "a model")
    (entry,) = ledger.entries("survey")
    assert whoami() in entry.by
    assert str(os.getpid()) in entry.by
    (settled,) = entry.settled
    assert (settled.state, settled.who, settled.why) == (State.SPENT, whoami(), "")


def test_settled_by_hand_with_a_name_and_a_reason(ledger):
    ledger.reserve("survey", FIFTH, REPLACE)
    ledger.reserve("survey", FIFTH, REPLACE)
    ledger.settle(0, State.UNUSED, "Ada", "killed before it began: see the log")
    ledger.settle(1, State.SPENT, "Ada", "its model was used")
    given_back, spent = ledger.entries("survey")
    assert (given_back.state, spent.state) == (State.UNUSED, State.SPENT)
    assert (given_back.settled[0].who, given_back.settled[0].why) == ("Ada", "killed before it began: see the log")
    assert ledger.spent("survey") == FIFTH


@pytest.mark.parametrize("number", [0, 1])
def test_what_has_ended_is_not_settled_by_hand(ledger, number):
    spend(ledger, FIFTH)
    ledger.reserve("survey", FIFTH, REPLACE).release_unused()
    with pytest.raises(ValueError, match="already"):
        ledger.settle(number, State.UNUSED, "Ada", "why not")


@pytest.mark.parametrize(
    ("number", "state", "who", "why"),
    [
        (1, State.UNUSED, "Ada", "lost"),
        (-1, State.UNUSED, "Ada", "lost"),
        (0, State.UNUSED, " ", "lost"),
        (0, State.UNUSED, "Ada", ""),
        (0, State.RESERVED, "Ada", "lost"),
    ],
)
def test_a_settlement_without_a_name_a_reason_or_a_reservation_is_a_sentence(ledger, number, state, who, why):
    ledger.reserve("survey", FIFTH, REPLACE)
    with pytest.raises(ValueError, match="reservation"):
        ledger.settle(number, state, who, why)
    assert states(ledger) == [State.RESERVED]


def test_a_run_that_was_taken_for_dead_counts_when_it_ends(ledger):
    with ledger.reserve("survey", FIFTH, REPLACE):
        ledger.settle(0, State.UNUSED, "Ada", "surely dead")
    assert states(ledger) == [State.SPENT]


def test_a_run_that_was_taken_for_finished_may_end(ledger):
    with ledger.reserve("survey", FIFTH, REPLACE, reference="run 1"):
        ledger.settle(0, State.SPENT, "Ada", "it will release something")
    with pytest.raises(ValueError, match="already"):
        ledger.settle(0, State.UNUSED, "Ada", "why not")
    assert [settled.who for settled in ledger.entry(0).settled] == ["Ada", whoami()]


def test_two_runs_at_once_do_not_both_end_with_one_reservation(ledger):
    first, second = (ledger.reserve("survey", FIFTH, REPLACE, reference="run 1") for _ in range(2))
    released = []
    with first:
        released.append("first")
    with pytest.raises(ValueError, match="already"), second:
        released.append("second")  # and what it made is lost with it
    assert states(ledger) == [State.SPENT]


def test_a_run_that_was_taken_for_finished_cannot_be_given_back(ledger):
    reservation = ledger.reserve("survey", FIFTH, REPLACE)
    ledger.settle(0, State.SPENT, "Ada", "its model was used")
    with pytest.raises(ValueError, match="spent already"):
        reservation.release_unused()
    assert states(ledger) == [State.SPENT]


# the same run again


def test_a_reference_has_one_reservation(ledger):
    first = ledger.reserve("survey", FIFTH, REPLACE, reference="run 1")
    again = ledger.reserve("survey", FIFTH, REPLACE, reference="run 1")
    assert (first.number, again.number) == (0, 0)
    with again:
        pass
    assert ledger.reserve("survey", FIFTH, REPLACE, reference="run 1").state is State.SPENT
    assert ledger.reserve("survey", FIFTH, REPLACE, reference="run 2").number == 1
    assert states(ledger) == [State.SPENT, State.RESERVED]


def test_without_a_reference_every_reservation_is_another(ledger):
    assert [ledger.reserve("survey", FIFTH, REPLACE).number for _ in range(3)] == [0, 1, 2]
    assert [entry.reference for entry in ledger.entries("survey")] == ["", "", ""]
    assert ledger.reserve("survey", FIFTH, REPLACE, reference="").number == 3


def test_a_reference_of_something_else_is_refused(ledger):
    ledger.reserve("survey", FIFTH, REPLACE, reference="run 1")
    with pytest.raises(ValueError, match="stands for another release"):
        ledger.reserve("survey", SAMPLED, REPLACE, reference="run 1")


def test_a_reference_of_another_relation_is_refused(ledger):
    """The same event means other noise there."""
    ledger.reserve("survey", FIFTH, REPLACE, reference="run 1")
    with pytest.raises(ValueError, match="accounted under replace_one"):
        ledger.reserve("survey", FIFTH, Relation.ADD_REMOVE, reference="run 1")


def test_only_who_made_a_reservation_gives_it_back(ledger):
    ledger.reserve("survey", FIFTH, REPLACE, reference="run 1")
    with pytest.raises(ValueError, match="earlier part"):
        ledger.reserve("survey", FIFTH, REPLACE, reference="run 1").release_unused()
    assert states(ledger) == [State.RESERVED]


def test_a_reference_of_another_data_set_pays_nothing_here(ledger):
    ledger.open("other", CAP)
    ledger.reserve("survey", FIFTH, REPLACE, reference="run 1")
    ledger.reserve("other", FIFTH, REPLACE, reference="run 1")
    assert ledger.spent("other") == ledger.spent("survey") == FIFTH


def test_what_was_given_back_is_reserved_anew(ledger):
    ledger.reserve("survey", FIFTH, REPLACE, reference="run 1").release_unused()
    assert ledger.reserve("survey", FIFTH, REPLACE, reference="run 1").number == 1
    assert states(ledger) == [State.UNUSED, State.RESERVED]


# crashes


def in_a_child(work):
    """Run `work` in a process of its own; the exit status as `os.waitpid` tells it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads that do nothing here
        child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def die():
    os.kill(os.getpid(), signal.SIGKILL)


MOMENTS = ("before", "uncommitted", "committed")
INSTANTS = [(number, moment) for number in (1, 2) for moment in MOMENTS]


@pytest.mark.parametrize(("number", "moment"), INSTANTS)
def test_killed_at_any_instant_what_touched_the_records_is_counted(ledger, tmp_path, number, moment):
    """Line 1 is the reservation, line 2 marks it spent."""
    spend(ledger, FIFTH)
    touched = tmp_path / "touched"

    def work():
        calls = {"append": 0, "remember": 0}
        kind = type(ledger._store)
        transaction = sqlite._Transaction if kind is sqlite.SqliteStore else postgres._Transaction
        append, remember = transaction.append, KeptHead.remember

        def dying_append(self, line):
            calls["append"] += 1
            if calls["append"] == number and moment == "before":
                die()
            append(self, line)
            if calls["append"] == number and moment == "uncommitted":
                die()

        def dying_remember(self, mark):
            if calls["append"] == number and moment == "committed":
                die()
            remember(self, mark)

        transaction.append, KeptHead.remember = dying_append, dying_remember
        with ledger.reserve("survey", FIFTH, REPLACE):
            touched.touch()

    _, status = os.waitpid(in_a_child(work), 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL

    counted = len(ledger.entries("survey")) == 2
    assert touched.exists() == (number == 2)
    assert counted or not touched.exists()
    # and the file goes on as if nothing had been
    for _ in range(3 if counted else 4):
        spend(ledger, FIFTH)
    with pytest.raises(BudgetExceeded):
        spend(ledger, FIFTH)


def test_killed_from_outside_while_it_trains(ledger, tmp_path):
    started = tmp_path / "started"

    def work():
        with ledger.reserve("survey", FIFTH, REPLACE):
            started.touch()
            time.sleep(60)

    child = in_a_child(work)
    while not started.exists():
        time.sleep(0.01)
    # the file is not locked meanwhile
    spend(ledger, FIFTH)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert states(ledger) == [State.RESERVED, State.SPENT]


def test_processes_at_once_cannot_spend_more_than_there_is(ledger, tmp_path):
    gate = tmp_path / "gate"

    def work(name):
        while not gate.exists():
            time.sleep(0.001)
        for attempt in range(4):
            try:
                with ledger.reserve("survey", FIFTH, REPLACE, name):
                    (tmp_path / f"ran-{name}-{attempt}").touch()
            except BudgetExceeded:
                pass

    children = [in_a_child(lambda name=name: work(name)) for name in "abcd"]
    gate.touch()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(list(tmp_path.glob("ran-*"))) == 5
    assert states(ledger) == [State.SPENT] * 5


def test_processes_at_once_open_a_new_ledger_once(address, tmp_path):
    gate = tmp_path / "gate"

    def work():
        while not gate.exists():
            time.sleep(0.001)
        Ledger(address).open("survey", CAP)

    children = [in_a_child(work) for _ in range(4)]
    gate.touch()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(rows(Ledger(address))) == 2
