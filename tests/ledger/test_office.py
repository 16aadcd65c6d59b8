"""Who may do what, on whose signature, within which limits; and a ledger of the first version goes on as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random

import psycopg
import pytest

from fuzz import mutations
from sordino import wire
from sordino.budget import Budget, Relation
from sordino.identity import Identity
from sordino.ledger import postgres, sqlite
from sordino.ledger.book import read_body, sign
from sordino.ledger.journal import Journal
from sordino.ledger.kept_heads import KeptHead, Mark
from sordino.ledger.ledger import ApprovalNeeded, Ledger, Role, State, Terms
from sordino.privacy.accountants import guarantee
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import Gaussian, GaussianDP, PoissonSampled, repeat
from sordino.privacy.gaussian_profile import gdp_mu
from sordino.privacy.ledger_context import charged_to
from stored_lines import chained, put, rows

CAP = Budget(2.0, 1e-6)
SMALL = GaussianDP(0.05)
REPLACE = Relation.REPLACE_ONE


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    names = ("Olga", "Ada", "Bob", "Eve")
    return {name: Identity.create(folder / name, name) for name in names}


@pytest.fixture
def office(address, people):
    """An officer, two analysts, and somebody who is no member; the same ledger in everybody's hands."""
    hands = {name: Ledger(address, identity) for name, identity in people.items()}
    hands["Olga"].admit(people["Olga"].face, Role.OFFICER)
    for name in ("Ada", "Bob"):
        hands["Olga"].admit(people[name].face, Role.ANALYST)
    hands["Olga"].open("survey", CAP)
    return hands


def spend(ledger, event=SMALL, dataset="survey"):
    with ledger.reserve(dataset, event, REPLACE) as reservation:
        pass
    return reservation


# roles

DEEDS = {
    "open": lambda ledger, people: ledger.open("other", CAP),
    "admit": lambda ledger, people: ledger.admit(people["Eve"].face, Role.READER),
    "reserve": lambda ledger, people: ledger.reserve("survey", SMALL, REPLACE),
    "request": lambda ledger, people: ledger.request("survey", SMALL, REPLACE),
    "approve": lambda ledger, people: ledger.approve(0),
    "settle another's": lambda ledger, people: ledger.settle(0, State.SPENT, "x", "y"),
    "give another's back": lambda ledger, people: ledger.settle(0, State.UNUSED, "x", "y"),
    "give one's own back by hand": lambda ledger, people: ledger.settle(1, State.UNUSED, "x", "y"),
}
MAY = {
    Role.OFFICER: {
        "open",
        "admit",
        "approve",
        "settle another's",
        "give another's back",
        "give one's own back by hand",
    },
    Role.ANALYST: {"reserve", "request"},
    Role.READER: set(),
    None: set(),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("role", MAY)
def test_a_role_may_do_what_it_may_and_nothing_else(office, people, role, deed):
    office["Ada"].request("survey", SMALL, REPLACE)
    office["Ada"].reserve("survey", SMALL, REPLACE)
    if role is not None:
        office["Olga"].admit(people["Bob"].face, Role.ANALYST)
        office["Bob"].reserve("survey", SMALL, REPLACE)
        office["Olga"].admit(people["Bob"].face, role)
    hand = office["Eve" if role is None else "Bob"]
    before = hand.head()
    if deed in MAY[role]:
        DEEDS[deed](hand, people)
        assert hand.head() != before
        return
    with pytest.raises((PermissionError, ValueError), match=r"may not|no member|there is no reservation"):
        DEEDS[deed](hand, people)
    assert hand.head() == before


def test_without_an_identity_nothing_is_written(office, address):
    with pytest.raises(PermissionError, match="signed by a member"):
        Ledger(address).open("other", CAP)
    # and everything can be read
    assert set(Ledger(address).datasets()) == {"survey"}


def test_the_first_officer_admits_oneself_and_the_last_one_stays(address, people, office):
    with pytest.raises(ValueError, match="keeps at least one"):
        office["Olga"].admit(people["Olga"].face, Role.ANALYST)
    assert Role.OFFICER in Ledger(address).members()[people["Olga"].face.fingerprint][1]


def test_nobody_makes_somebody_else_the_first_officer(address, people):
    with pytest.raises(PermissionError, match="admits"):
        Ledger(address, people["Ada"]).admit(people["Olga"].face, Role.OFFICER)


def test_what_is_signed_in_a_ledger_without_officers_says_by_whom(address, people):
    Ledger(address).open("survey", CAP)
    spend(Ledger(address, people["Ada"]))
    spend(Ledger(address))
    signed, unsigned = Ledger(address).entries("survey")
    assert (signed.signer, unsigned.signer) == (people["Ada"].face.fingerprint, "")
    assert Ledger(address).check().signed == 3


def test_a_run_in_a_block_is_signed(office, address, people):
    from one_release import CAP, Records, run
    from sordino.release import release

    office["Olga"].open("one", CAP)
    with charged_to(office["Ada"], "one"):
        release(run(Records()).event, CAP, "a number", Records(), run)
    (entry,) = Ledger(address).entries("one")
    assert (entry.signer, entry.state) == (people["Ada"].face.fingerprint, State.SPENT)


def test_an_identity_that_has_expired_signs_nothing(office, address, people, monkeypatch):
    later = datetime.now(UTC) + timedelta(days=400)
    for kind in (sqlite._Transaction, postgres._Transaction):
        monkeypatch.setattr(kind, "now", lambda self: later)
    with pytest.raises(PermissionError, match="had expired"):
        office["Ada"].reserve("survey", SMALL, REPLACE)


# signatures


def bodies(ledger):
    return [body for _, body, _ in rows(ledger)]


@pytest.mark.parametrize("change", ["content", "stripped", "another's name", "another place"])
def test_a_signature_holds_for_one_entry_at_one_place(office, address, people, change, monkeypatch, tmp_path):
    """Even for whoever makes all checks anew, and takes away the head that was kept."""
    spend(office["Ada"])
    spend(office["Ada"])
    lines = bodies(office["Ada"])
    entry = json.loads(lines[-2])
    if change == "content":
        entry["note"] = "something else"
    elif change == "stripped":
        del entry["signature"], entry["signer"]
    elif change == "another's name":
        entry["signer"] = people["Bob"].face.fingerprint
    if change == "another place":
        # the same model twice, as far as the office knows
        lines = [*lines[:-2], lines[-2], lines[-1]]
        lines.insert(4, lines.pop(3))
    else:
        lines[-2] = wire.canonical(entry)
    put(office["Ada"], chained(lines))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    for ask in (Ledger(address).head, Ledger(address).check):
        with pytest.raises(ValueError, match="is not one that this version writes"):
            ask()


def test_a_member_who_overspends_by_hand_is_found_out_by_a_check(office, address, people):
    """A signature makes an entry valid, not fair."""
    spend(office["Ada"])
    ledger, costs = office["Ada"], GaussianDP(gdp_mu(3.0, 1e-6))
    true = {"kind": "Charge", "mu": costs.mu, "epsilon": "inf", "leak": 0.0, "total_variation": 0.0}
    for told, match in (
        (true | {"mu": 0.01}, "less than it costs"),
        (true | {"mu": costs.mu * 1.01}, "would have spent"),
    ):
        before = rows(ledger)
        number, _, head = before[-1]
        made = json.loads(before[-2][1]) | {"number": 1, "event": wire.to_plain(costs), "charge": told}
        del made["signer"], made["signature"]
        body = wire.canonical(sign(made, head, people["Ada"]))
        put(ledger, [*before, chained([*bodies(ledger), body])[-1]])
        assert number + 1 == len(rows(ledger))
        with pytest.raises((ValueError, BudgetExceeded), match=match):
            Ledger(address).check()
        put(ledger, before)
        KeptHead(ledger.address).remember(Mark(number, head))
    assert Ledger(address).check().reservations == 1


# limits


def test_a_year_has_its_own_limit(address, monkeypatch):
    ledger = Ledger(address)
    ledger.open("survey", CAP, per_year=0.5)
    half = GaussianDP(gdp_mu(0.5, 1e-6))
    spend(ledger, half)
    with pytest.raises(BudgetExceeded, match=rf"in {datetime.now(UTC).year}: with this release"):
        spend(ledger)
    assert ledger.remaining("survey") is None
    (limit,) = ledger.statement("survey").this_year
    assert limit[1:] == (0.5, pytest.approx(0.5), 0.0)
    next_year = datetime.now(UTC) + timedelta(days=366)
    for kind in (sqlite._Transaction, postgres._Transaction):
        monkeypatch.setattr(kind, "now", lambda self: next_year)
    assert ledger.remaining("survey").epsilon == pytest.approx(0.5)
    spend(ledger, half)
    # the years add up in the total
    whole = ledger.statement("survey")
    assert 0.5 < whole.spent < 1.0
    assert Ledger(address).check().reservations == 2


def test_a_clock_that_was_set_back_gives_no_year_back(address, monkeypatch):
    ledger, today = Ledger(address), datetime.now(UTC)
    ledger.open("survey", CAP, per_year=0.5)
    ledger.open("past", CAP, expires=(today - timedelta(days=1)).date().isoformat())
    spend(ledger, GaussianDP(gdp_mu(0.5, 1e-6)))
    for kind in (sqlite._Transaction, postgres._Transaction):
        monkeypatch.setattr(kind, "now", lambda self: today - timedelta(days=400))
    with pytest.raises(BudgetExceeded, match=rf"in {today.year}: with this release"):
        spend(ledger)
    # nor does it say that there is anything left
    assert ledger.remaining("survey") is None
    assert ledger.buys("survey", 0.1) == 0
    assert ledger.statement("survey").left == 0 == Ledger(address).overview().statements[0].left
    with pytest.raises(ValueError, match="has expired on"):
        spend(ledger, dataset="past")
    assert Ledger(address).check().reservations == 1


def test_a_member_has_a_limit_of_their_own(office):
    office["Olga"].open("shared", CAP, per_member_year=0.5)
    half = GaussianDP(gdp_mu(0.5, 1e-6))
    spend(office["Ada"], half, "shared")
    with pytest.raises(BudgetExceeded, match="for one member in"):
        spend(office["Ada"], SMALL, "shared")
    spend(office["Bob"], half, "shared")
    assert office["Ada"].remaining("shared") is None
    assert office["Olga"].check().reservations == 2


def test_nothing_is_reserved_after_the_last_day(address, monkeypatch):
    ledger = Ledger(address)
    day = datetime.now(UTC).date()
    ledger.open("today", CAP, expires=day.isoformat())
    ledger.open("yesterday", CAP, expires=(day - timedelta(days=1)).isoformat())
    # a test that runs at midnight sees the day end
    moment = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=23, minutes=59)
    for kind in (sqlite._Transaction, postgres._Transaction):
        monkeypatch.setattr(kind, "now", lambda self: moment)
    spend(ledger, dataset="today")
    with pytest.raises(ValueError, match="has expired on"):
        spend(ledger, dataset="yesterday")
    assert ledger.entries("yesterday") == ()


@pytest.mark.parametrize(
    "terms", [{"per_year": 0.0}, {"per_year": 2.1}, {"per_member_year": -1.0}, {"expires": "tomorrow"}]
)
def test_terms_without_a_sense_are_a_sentence(tmp_path, terms):
    with pytest.raises(ValueError, match=r"lies between|write a day"):
        Ledger(tmp_path / "ledger").open("survey", CAP, **terms)


def test_terms_are_for_ever(address):
    ledger = Ledger(address)
    ledger.open("survey", CAP, per_year=1.0, expires="2999-01-01", approval=True)
    ledger.open("survey", CAP, per_year=1.0, expires="2999-01-01", approval=True)
    with pytest.raises(
        ValueError, match=r"at most epsilon 1 in a year, until 2999-01-01, with an officer's approval, not"
    ):
        ledger.open("survey", CAP)
    assert Ledger(address).statement("survey").terms == Terms(CAP, 1.0, None, "2999-01-01", True)


# requests


@pytest.fixture
def guarded(office):
    office["Olga"].open("guarded", CAP, approval=True)
    return office


def test_what_is_approved_may_run_once(guarded):
    for _ in range(2):
        with pytest.raises(ApprovalNeeded, match="request 0 waits"):
            spend(guarded["Ada"], dataset="guarded")
    # nobody else can use it, nor anything else be run with it
    guarded["Olga"].approve(0, "as in the protocol")
    with pytest.raises(ApprovalNeeded, match="request 1 waits"):
        spend(guarded["Bob"], dataset="guarded")
    with pytest.raises(ApprovalNeeded, match="request 2 waits"):
        spend(guarded["Ada"], GaussianDP(0.06), "guarded")
    spend(guarded["Ada"], dataset="guarded")
    with pytest.raises(ApprovalNeeded, match="request 3 waits"):
        spend(guarded["Ada"], dataset="guarded")
    assert [entry.state for entry in guarded["Ada"].entries("guarded")] == [State.SPENT]
    assert guarded["Olga"].check().reservations == 1


def test_what_was_approved_for_persons_does_not_run_for_records(guarded):
    guarded["Olga"].approve(guarded["Ada"].request("guarded", SMALL, REPLACE, unit="person").number)
    with pytest.raises(ApprovalNeeded, match="request 1 waits"):
        spend(guarded["Ada"], dataset="guarded")
    with guarded["Ada"].reserve("guarded", SMALL, REPLACE, unit="person"):
        pass
    guarded["Olga"].check()


def test_what_is_refused_says_why_until_it_is_asked_for_again(guarded):
    asked = guarded["Ada"].request("guarded", SMALL, REPLACE, "a first try")
    assert guarded["Ada"].request("guarded", SMALL, REPLACE).number == asked.number
    with pytest.raises(ValueError, match="with a reason"):
        guarded["Olga"].refuse(asked.number, " ")
    guarded["Olga"].refuse(asked.number, "too early")
    with pytest.raises(PermissionError, match=r"refused by Olga.*too early"):
        spend(guarded["Ada"], dataset="guarded")
    with pytest.raises(ValueError, match="was decided already"):
        guarded["Olga"].approve(asked.number)
    again = guarded["Ada"].request("guarded", SMALL, REPLACE)
    guarded["Olga"].approve(again.number)
    spend(guarded["Ada"], dataset="guarded")


def test_a_request_that_does_not_fit_is_not_even_asked(guarded):
    with pytest.raises(BudgetExceeded):
        spend(guarded["Ada"], GaussianDP(1.0), "guarded")
    assert guarded["Ada"].statement("guarded").requests == ()


def test_approval_does_not_make_room(guarded):
    large = GaussianDP(gdp_mu(1.5, 1e-6))
    for name in ("Ada", "Bob"):
        guarded["Olga"].approve(guarded[name].request("guarded", large, REPLACE).number)
    spend(guarded["Ada"], large, "guarded")
    with pytest.raises(BudgetExceeded):
        spend(guarded["Bob"], large, "guarded")


def test_nobody_decides_their_own_request(guarded, people):
    guarded["Olga"].admit(people["Ada"].face, Role.ANALYST, Role.OFFICER)
    asked = guarded["Ada"].request("guarded", SMALL, REPLACE)
    with pytest.raises(PermissionError, match="another officer"):
        guarded["Ada"].approve(asked.number)
    guarded["Olga"].approve(asked.number)


def test_a_crash_keeps_what_was_approved(guarded):
    guarded["Olga"].approve(guarded["Ada"].request("guarded", SMALL, REPLACE).number)
    first = guarded["Ada"].reserve("guarded", SMALL, REPLACE, reference="run 1")
    assert guarded["Ada"].reserve("guarded", SMALL, REPLACE, reference="run 1").number == first.number


# what is told


def test_a_statement_adds_up(address):
    ledger = Ledger(address)
    ledger.open("survey", CAP)
    assert (ledger.statement("survey").spent, ledger.statement("survey").left) == (0.0, 2.0)
    event = repeat(PoissonSampled(Gaussian(4.0), 0.05), 10)
    spend(ledger, event)
    alone = ledger.statement("survey")
    assert alone.spent == pytest.approx(guarantee(event, CAP.delta, REPLACE).epsilon, rel=1e-6)
    reservation = ledger.reserve("survey", SMALL, REPLACE)
    both = ledger.statement("survey")
    assert alone.spent < both.spent < CAP.epsilon
    assert both.left < alone.left
    assert [entry.number for entry in both.open] == [reservation.number]
    assert [entry.number for entry in both.recent] == [0, 1]
    assert both.left == ledger.remaining("survey").epsilon


def test_a_model_is_named(address):
    ledger = Ledger(address)
    ledger.open("survey", CAP)
    with ledger.reserve("survey", SMALL, REPLACE) as reservation:
        reservation.model = "first"
    assert ledger.entry(0).model == "first"
    reservation.name_model("second")
    assert (ledger.entry(0).model, ledger.statement("survey").recent[0].model) == ("second", "second")
    length = len(rows(ledger))
    reservation.name_model("second")
    assert len(rows(ledger)) == length


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 1.99, 2.0, 2.1])
def test_a_preview_buys_what_it_says(address, epsilon):
    ledger = Ledger(address)
    ledger.open("survey", CAP)
    count = ledger.buys("survey", epsilon)
    fits = [ledger.remaining("survey", n) for n in (count, count + 1) if n]
    assert fits[-1] is None or fits[-1].epsilon < epsilon
    assert count == 0 or fits[0].epsilon >= epsilon


# the book that is kept


@pytest.fixture
def kept_often(monkeypatch):
    monkeypatch.setattr("sordino.ledger.ledger._KEEP_EVERY", 1)


def test_a_book_that_was_kept_is_the_one_that_is_read(guarded, address, kept_often, monkeypatch):
    with pytest.raises(ApprovalNeeded):
        spend(guarded["Ada"], dataset="guarded")
    guarded["Olga"].refuse(0, "no")
    guarded["Bob"].request("guarded", SMALL, REPLACE)
    for reference in ("a", "b"):
        with guarded["Ada"].reserve("survey", SMALL, REPLACE, "note", reference) as reservation:
            pass
        reservation.name_model("0" * 64)
    guarded["Bob"].reserve("survey", SMALL, REPLACE, "open", "c")
    guarded["Bob"].reserve("survey", SMALL, REPLACE).release_unused("stopped")
    read = Ledger(address)._book()
    kept = KeptHead(guarded["Ada"].address).book()
    assert kept == read
    # and it is used: no entry before it is looked at again
    monkeypatch.setattr("sordino.ledger.book.Book.take", None)
    assert Ledger(address).statement("survey").releases == 4
    monkeypatch.undo()
    assert Ledger(address).reserve("survey", SMALL, REPLACE, reference="a").state is State.SPENT


def test_a_kept_book_hides_no_change_and_no_loss(address, kept_often):
    ledger = Ledger(address)
    ledger.open("survey", CAP)
    for _ in range(2):
        spend(ledger)
    lines = rows(ledger)
    number, body, check = lines[2]
    put(ledger, [*lines[:2], (number, body.replace("0.05", "0.01"), check), *lines[3:]])
    # what counts is what was read when it was intact
    assert Ledger(address).statement("survey").spent == ledger.statement("survey").spent
    for ask in (Ledger(address).check, lambda: Ledger(address).entries("survey"), lambda: Ledger(address).extends("x")):
        with pytest.raises(ValueError, match="altered"):
            ask()
    put(ledger, lines[:-1])
    with pytest.raises(ValueError, match="emptied, cut or exchanged"):
        Ledger(address).statement("survey")


@pytest.mark.parametrize("content", [b"", b'{"book": {}}', b'{"book": {"lines": 1}, "digest": "x", "version": "y"}'])
def test_a_damaged_book_is_read_anew(tmp_path, kept_often, monkeypatch, content):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", CAP)
    spend(ledger)
    (file,) = (tmp_path / "state").glob("**/*.book")
    file.write_bytes(content)
    assert Ledger(ledger.address).statement("survey").releases == 1


def test_equal_releases_are_kept_together(address):
    ledger = Ledger(address)
    ledger.open("survey", CAP)
    for _ in range(5):
        spend(ledger)
    assert len(ledger._book().tallies["survey"].counted) == 1
    assert guarantee(ledger.spent("survey"), CAP.delta, REPLACE).epsilon == pytest.approx(
        guarantee(GaussianDP(0.05 * 5**0.5), CAP.delta, REPLACE).epsilon
    )


# users of a database


def test_a_login_may_what_its_role_needs(postgres, people):
    owner = Ledger(postgres, people["Olga"])
    owner.admit(people["Olga"].face, Role.OFFICER)
    owner.open("survey", CAP)
    suffix = people["Ada"].face.fingerprint[:8]
    reader, analyst = f"reader_{suffix}", f"analyst_{suffix}"
    with psycopg.connect(postgres) as connection:
        (schema,) = connection.execute("SELECT current_schema()").fetchone()
        for login in (reader, analyst):
            connection.execute(f"CREATE ROLE {login} LOGIN")
            connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {login}")
    with pytest.raises(PermissionError, match="an officer admits"):
        Ledger(postgres.replace("postgres:", f"{reader}:")).head()
    owner.admit(people["Bob"].face, Role.READER, login=reader)
    owner.admit(people["Ada"].face, Role.ANALYST, login=analyst)
    as_reader = Ledger(postgres.replace("postgres:", f"{reader}:"), people["Ada"])
    assert set(as_reader.datasets()) == {"survey"}
    with pytest.raises(PermissionError, match="permission denied"):
        as_reader.reserve("survey", SMALL, REPLACE)
    spend(Ledger(postgres.replace("postgres:", f"{analyst}:"), people["Ada"]))
    assert owner.statement("survey").releases == 1


def test_a_file_has_no_logins(tmp_path, people):
    with pytest.raises(ValueError, match="knows no user"):
        Ledger(tmp_path / "ledger", people["Olga"]).admit(people["Olga"].face, Role.OFFICER, login="olga")


# the first version


def old_ledger(path, settled=True):
    charge = {"kind": "Charge", "mu": 0.1 * (1 + 1e-9), "epsilon": "inf", "leak": 0.0, "distance": 1e-15}
    event = {"kind": "Approximate", "event": {"kind": "GaussianDP", "mu": 0.1}, "distance": 1e-15}
    now = {"created": "2025-01-01T00:00:00+00:00"}
    cap = {"kind": "Budget", "epsilon": 2.0, "delta": 1e-6, "relation": "replace_one"}
    first = {"kind": "reserve", "number": 0, "dataset": "survey", "event": event, "charge": charge, "note": "old"}
    journal = Journal(path, {"format": "sordino ledger", "version": 1})
    with journal.writing() as writer:
        writer.append({"kind": "open", "dataset": "survey", "cap": cap, **now})
        writer.append({**first, **now, "reference": "run 1", "by": "somebody"})
        if settled:
            writer.append({"kind": "settle", "number": 0, "state": "spent", "who": "somebody", "why": "", **now})
        return writer.chain.head, len(writer.entries)


def test_a_ledger_of_the_first_version_goes_on(address, tmp_path):
    head, lines = old_ledger(tmp_path / "old")
    with pytest.raises(ValueError, match=r"ledger of an earlier version.*sordino ledger import"):
        Ledger(tmp_path / "old").head()
    ledger = Ledger(address)
    assert ledger.import_journal(tmp_path / "old") == lines
    # heads that were kept of it are heads of this one
    assert ledger.head() == head
    (entry,) = ledger.entries("survey")
    assert (entry.event.total_variation, entry.state, entry.note) == (1e-15, State.SPENT, "old")
    spend(ledger)
    assert ledger.extends(head)
    assert ledger.check().reservations == 2
    assert ledger.reserve("survey", entry.event, REPLACE, reference="run 1").state is State.SPENT


def test_what_is_imported_is_checked_and_goes_into_a_new_ledger(address, tmp_path):
    head, lines = old_ledger(tmp_path / "old")
    intact = (tmp_path / "old").read_bytes()
    ledger = Ledger(address)
    (tmp_path / "old").write_bytes(intact.replace(b"0.1", b"0.2", 1))
    with pytest.raises(ValueError, match="altered"):
        ledger.import_journal(tmp_path / "old")
    # a head that was kept of it is remembered
    KeptHead(str(tmp_path / "old")).remember(Mark(lines, head))
    (tmp_path / "old").write_bytes(b"".join(intact.splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match="emptied, cut or exchanged"):
        ledger.import_journal(tmp_path / "old")
    assert ledger.head() == ""
    ledger.open("another", CAP)
    (tmp_path / "old").write_bytes(intact)
    with pytest.raises(ValueError, match="holds a ledger already"):
        ledger.import_journal(tmp_path / "old")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ledger.import_journal(tmp_path / "none")


# what a stranger may have written, in both storages


def test_hostile_lines_are_read_or_told_in_a_sentence(guarded, address, monkeypatch, tmp_path):
    spend(guarded["Ada"])
    with pytest.raises(ApprovalNeeded):
        spend(guarded["Ada"], dataset="guarded")
    intact = bodies(guarded["Ada"])
    random = Random(1)
    for case in range(40):
        number = random.randrange(len(intact))
        text, what = mutations.altered_json(json.loads(intact[number]), random)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / str(case)))
        try:
            text.encode()
            put(guarded["Ada"], chained([*intact[:number], text, *intact[number + 1 :]]))
        except (UnicodeEncodeError, psycopg.DataError):
            continue  # no database holds it
        try:
            Ledger(address).statement("survey")
            said = "is not open"
        except ValueError as error:
            said = str(error)
        assert "is not one that this version writes" in said or "is not open" in said, what


def test_a_line_is_read_as_it_was_written():
    assert read_body(b'{"kind":"settle","distance":3}') == {"kind": "settle", "distance": 3}
    plain = read_body(b'{"charge":{"kind":"Charge","mu":0.1,"distance":0.2}}')
    assert plain["charge"] == {"kind": "Charge", "mu": 0.1, "total_variation": 0.2}
    with pytest.raises(TypeError, match="dictionary"):
        read_body(b"[]")
