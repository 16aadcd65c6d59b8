"""Owners that do not fit together, and connections that somebody meddles with: a sentence, and nothing is opened."""

from __future__ import annotations

import csv
import json
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sordino import identity as identities
from sordino.budget import Relation
from sordino.federation import handshake, member_folder, runner
from sordino.federation.broadcast import Broadcast, Equivocation, Evidence
from sordino.federation.mesh import MemberLost
from sordino.federation.proposal import propose, read_members
from sordino.federation.record import Record, held_record, proof_of
from sordino.federation.runner import Waiting
from sordino.federation.signed_plan import SignedPlan
from sordino.federation.status import status_of
from sordino.identity import Identity
from sordino.methods import NoisyGradientDescent
from sordino.tabular.schema import Schema
from sordino.train import Trained
from three_owners import NAMES, SCHEMA, Crash, found, free_ports, write_table

METHOD = NoisyGradientDescent(steps=3, step_size=1.0, release="average")
BRIEF = Waiting(8.0, 8.0)


def federation_of(folder, **settings):
    return found(folder, METHOD, **settings)


def nothing_was_opened(federation):
    return all(not federation.summary(name).events for name in federation.names)


def accept_another(federation, name, schema=SCHEMA, epsilon=2.0):
    """A plan of the same members that only one of them has."""
    signed_plan = propose(
        read_members(federation.folder / "members.toml"),
        Schema.from_toml(schema),
        (epsilon, 1e-5, Relation.REPLACE_ONE),
        METHOD,
    ).signed_by(Identity.load(federation.home("north")))
    member_folder.accept(signed_plan, federation.home(name))


@pytest.mark.parametrize("other", [{"schema": SCHEMA.replace("80", "90")}, {"epsilon": 3.0}])
def test_owners_with_different_plans_stop_before_a_record_is_touched(tmp_path, monkeypatch, other):
    federation = federation_of(tmp_path)
    accept_another(federation, "south", **other)
    monkeypatch.setattr("sordino.federation.table.open_records", lambda *_: pytest.fail("a record was touched"))
    ended = federation.take_part()
    for name in ("north", "east"):
        assert "south accepted another plan than the one with the hash" in str(ended[name])
        assert "No record was touched" in str(ended[name])
    assert "north, east accepted another plan" in str(ended["south"])
    assert nothing_was_opened(federation)


def test_an_acceptance_that_was_not_signed_by_its_owner(tmp_path, monkeypatch):
    federation = federation_of(tmp_path)
    stolen = federation.member_folder("north").acceptance
    load = member_folder.MemberFolder.load

    def loading(folder):
        taken = load(folder)
        return taken if taken.name != "south" else member_folder.MemberFolder(taken.identity, taken.signed_plan, stolen)

    monkeypatch.setattr("three_owners.MemberFolder.load", loading)
    for ended in federation.take_part().values():
        assert "south has not accepted the plan" in str(ended)
    assert nothing_was_opened(federation)


def test_another_number_of_records_than_the_plan_says(tmp_path):
    federation = federation_of(tmp_path)
    write_table(federation.home("south") / "records.csv", 39, seed=1)
    ended = federation.take_part()
    assert "south brings 39 records, but the plan says 40" in str(ended["south"])
    for name in ("north", "east"):
        # why is south's own business
        assert str(ended[name]) == "south stops: its records could not be opened; it knows why."
        assert "39 records" not in (federation.home(name) / "record.jsonl").read_text()
    assert nothing_was_opened(federation)


def test_an_empty_table(tmp_path):
    federation = federation_of(tmp_path)
    (federation.home("east") / "records.csv").write_text("id,age,member,income\n")
    ended = federation.take_part()
    assert "records.csv has no records" in str(ended["east"])
    assert "east stops" in str(ended["north"])


def test_a_record_of_two_owners(tmp_path):
    federation = federation_of(tmp_path, identifiers="id")
    north, east = (federation.home(name) / "records.csv" for name in ("north", "east"))
    with north.open() as one, east.open() as other:
        rows = [list(csv.reader(file)) for file in (one, other)]
    rows[1][7][0] = rows[0][3][0]
    with east.open("w", newline="") as file:
        csv.writer(file).writerows(rows[1])
    ended = federation.take_part()
    assert "belong to another owner as well: east (1)" in str(ended["north"])
    assert "belong to another owner as well: north (1)" in str(ended["east"])
    assert "some records belong to two owners, north, east, who know how many" in str(ended["south"])
    assert nothing_was_opened(federation)


@pytest.mark.parametrize(
    ("identifier", "sentence"),
    [
        (lambda rows: rows[3][0], "1 of 50 records have an identifier that an earlier"),
        (lambda rows: "", "1 records have nothing"),
    ],
    ids=["twice", "missing"],
)
def test_a_record_that_one_owner_has_twice_or_without_an_identifier(tmp_path, identifier, sentence):
    federation = federation_of(tmp_path, identifiers="id")
    path = federation.home("east") / "records.csv"
    with path.open() as file:
        rows = list(csv.reader(file))
    rows[7][0] = identifier(rows)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    ended = federation.take_part()
    assert sentence in str(ended["east"])
    for name in ("north", "south"):
        assert str(ended[name]) == "east stops: its identifiers could not be read; it knows why."
    assert nothing_was_opened(federation)


def test_a_port_in_use(tmp_path):
    federation = federation_of(tmp_path)
    address = federation.member_folder("south").signed_plan.members[1].address
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))):
        ended = federation.take_part("south", waiting=BRIEF)["south"]
    assert f"south cannot listen at {address}: another program uses it" in str(ended)


@pytest.mark.slow
def test_somebody_who_does_not_come(tmp_path):
    federation = federation_of(tmp_path)
    ended = federation.take_part("north", "south", waiting=Waiting(4.0, 4.0))
    assert isinstance(ended["north"], MemberLost)
    assert "east at 127.0.0.1" in str(ended["north"])
    assert "cannot be reached" in str(ended["north"])
    assert nothing_was_opened(federation)


def test_a_certificate_that_has_expired(tmp_path):
    federation = federation_of(tmp_path)
    signed_plan = federation.member_folder("north").signed_plan
    expires = signed_plan.members[0].face.expires
    assert expires > datetime.now(UTC)

    class Later(datetime):
        @classmethod
        def now(cls, zone=None):
            return expires + timedelta(days=1)

    patched = pytest.MonkeyPatch()
    patched.setattr("sordino.federation.signed_plan.datetime", Later)
    ended = federation.take_part("north")["north"]
    patched.undo()
    assert "the certificate of north is valid until" in str(ended)
    assert "make a new identity" in str(ended)


def expired_identity(folder):
    """One whose certificate was valid until yesterday, as `Identity.create` never makes it."""
    made = Identity.create(folder, "south", 2)
    true = identities.datetime

    class Before(datetime):
        @classmethod
        def now(cls, zone=None):
            return true.now(zone) - timedelta(days=10)

    patched = pytest.MonkeyPatch()
    patched.setattr(identities, "datetime", Before)
    pem = identities._self_signed(made.key, "south", 1, 9)
    patched.undo()
    (folder / "certificate.pem").write_text(pem)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unknown", "expired"])
def test_a_certificate_that_the_others_do_not_know_does_not_get_in(tmp_path, kind):
    federation = federation_of(tmp_path)
    stranger = tmp_path / "stranger"
    if kind == "unknown":
        Identity.create(stranger, "south", 2)
    else:
        expired_identity(stranger)
    # it has the plan, and says it is south
    for file in ("plan.json", "acceptance.json", "records.csv"):
        (stranger / file).write_bytes((federation.home("south") / file).read_bytes())
    from sordino.federation.credentials import Credentials
    from sordino.federation.tls import TlsMesh

    signed_plan: SignedPlan = federation.member_folder("north").signed_plan
    bundle = tmp_path / "all.pem"
    bundle.write_text("".join(member.face.pem for member in signed_plan.members))
    errors: list[Exception] = []

    def intrude():
        credentials = Credentials(stranger / "certificate.pem", stranger / "key.pem", bundle)
        try:
            TlsMesh(1, [member.address for member in signed_plan.members], credentials, 6.0).close()
        except (OSError, ValueError) as error:
            errors.append(error)

    thread = threading.Thread(target=intrude)
    thread.start()
    ended = federation.take_part("north", "east", waiting=Waiting(6.0, 6.0))
    thread.join()
    assert isinstance(ended["north"], OSError)
    assert "not accepted" in str(ended["north"]) or "cannot be reached" in str(ended["north"])
    assert isinstance(ended["east"], MemberLost)
    assert errors
    assert nothing_was_opened(federation)


class Meddler:
    """Passes bytes on between a caller and a member, until it damages or repeats what comes by."""

    def __init__(self, listen, target, after, meddle):
        self._server = socket.create_server(("127.0.0.1", listen))
        self._target, self._after, self._meddle = target, after, meddle
        self.meddled = self.passed = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            try:
                member = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                # the member does not listen yet
                caller.close()
                continue
            threading.Thread(target=self._pass, args=(caller, member, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(member, caller, True), daemon=True).start()

    def _pass(self, source, sink, meddling):
        try:
            while data := source.recv(1 << 16):
                self.passed += len(data) if meddling else 0
                if meddling and self.passed > self._after and not self.meddled:
                    self.meddled += 1
                    data = self._meddle(data)
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                end.close()

    def close(self):
        self._server.close()


@pytest.mark.parametrize(
    "meddle",
    [
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="damaged"),
        # repeated from the middle of a TLS record, bytes may announce a record that never ends: patience ends it
        pytest.param(lambda data: data + data, id="repeated", marks=pytest.mark.slow),
    ],
)
def test_a_message_that_is_damaged_or_repeated_ends_the_session_and_the_next_one_goes_on(tmp_path, meddle):
    between, behind = free_ports(2)
    federation = federation_of(tmp_path)
    # north calls south at an address where somebody else listens; south's own is behind it
    signed_plans = {}
    members = (tmp_path / "members.toml").read_text()
    address = federation.member_folder("south").signed_plan.members[1].address
    (tmp_path / "members.toml").write_text(members.replace(address, f"127.0.0.1:{between}"))
    for name in NAMES:
        accept_another(federation, name)
    signed_plans = federation.member_folder("south").signed_plan
    meddler = Meddler(between, behind, after=2500, meddle=meddle)
    mended = pytest.MonkeyPatch()
    from sordino.federation import tls

    true = tls.TlsMesh.__init__

    def listening_behind(self, me, addresses, *rest):
        true(self, me, [a.replace(str(between), str(behind)) if me == 1 else a for a in addresses], *rest)

    mended.setattr(tls.TlsMesh, "__init__", listening_behind)
    try:
        ended = federation.take_part(waiting=Waiting(60.0, 30.0))
        assert meddler.meddled == 1
        assert all(isinstance(one, MemberLost) for one in ended.values()), ended
        trained = federation.take_part(waiting=Waiting(60.0, 30.0))
    finally:
        mended.undo()
        meddler.close()
    assert signed_plans.digest == federation.member_folder("north").signed_plan.digest
    assert all(isinstance(one, Trained) for one in trained.values()), trained
    stories = [federation.summary(name) for name in NAMES]
    assert all(len(summary.sums) == len(summary.events) == 3 for summary in stories)
    assert len({b"".join(total.tobytes() for total in summary.sums) for summary in stories}) == 1


def test_a_record_that_was_put_back_is_noticed(tmp_path):
    federation = federation_of(tmp_path)
    assert all(isinstance(one, Trained) for one in federation.take_part().values())
    (federation.home("east") / "record.jsonl").unlink()
    for ended in federation.take_part().values():
        assert "east stops: its record is missing or was put back to an earlier state" in str(ended)


@pytest.mark.parametrize("claim", ["signed by itself", "of another step", "of another sum", "malformed"])
def test_a_sum_is_taken_only_with_every_members_signature(tmp_path, monkeypatch, claim):
    """The others are cut off at the first step, and north claims to have come further than it has."""
    federation = federation_of(tmp_path)
    true = Record.append

    def crash(self, kind, fact):
        if kind == "opened" and fact["step"] == 1:
            raise Crash
        return true(self, kind, fact)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Record, "append", crash)
        federation.take_part(seeds=False)
    north = federation.member_folder("north")
    proof = dict(federation.summary("north").proof)
    match claim:
        case "signed by itself":
            with held_record(north.identity, north.signed_plan.digest) as record:
                proof["signatures"] = [record.signature(record.summary.seen)] * 3
                proof = proof_of(record.summary.seen, proof["signatures"])
        case "of another step":
            proof["step"] += 1
        case "of another sum":
            proof["sum"] = "00" * 32
        case "malformed":
            proof = {"step": 10**9}
    talk = handshake.talk

    def claiming(aggregation, signed_plan, message):
        if aggregation.local == (0,) and "proof" in message:
            message = {**message, "proof": proof}
        return talk(aggregation, signed_plan, message)

    monkeypatch.setattr(handshake, "talk", claiming)
    for ended in federation.take_part(seeds=False).values():
        assert "north claims a sum that not every member signed" in str(ended)
    assert [len(federation.summary(name).sums) for name in NAMES] == [1, 1, 1]
    monkeypatch.undo()
    assert all(isinstance(one, Trained) for one in federation.take_part(seeds=False).values())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("complaint", "member 99 told different members different things"),
        ("complaint", "\x1b[2J"),
        ("complaint", ["x"]),
        ("coins", "z"),
        ("coins", 7),
        ("met", {"0": []}),
        ("pending", {"step": 0}),
        ("proof", {"step": 0, "event": {}, "sum": "", "signatures": 5}),
        ("proof", {"step": 0, "event": {}, "sum": 10**4000, "signatures": []}),
        ("head", "x" * 1000),
    ],
)
def test_whatever_a_member_says_at_the_start_it_is_named_and_nothing_of_it_is_kept(tmp_path, key, value):
    federation = federation_of(tmp_path)
    talk = handshake.talk

    def lying(aggregation, signed_plan, message):
        lies = {key: value} if aggregation.local == (1,) and key in message else {}
        return talk(aggregation, signed_plan, {**message, **lies})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(handshake, "talk", lying)
        ended = federation.take_part(seeds=False)
    for name in ("north", "east"):
        assert str(ended[name]).startswith("south "), ended[name]
        assert "told different members" not in str(ended[name])
    assert nothing_was_opened(federation)
    assert all(isinstance(one, Trained) for one in federation.take_part(seeds=False).values())


def test_a_sum_that_a_member_does_not_sign_is_not_used(tmp_path, monkeypatch):
    federation = federation_of(tmp_path)
    true = Record.signature

    def signing(self, seen):
        signature = true(self, seen)
        return "00" * 64 if seen["step"] == 1 and self._identity.folder == federation.home("south") else signature

    monkeypatch.setattr(Record, "signature", signing)
    ended = federation.take_part(seeds=False)
    for name in NAMES:
        assert "south did not sign the sum of step 2; it was not used" in str(ended[name])
        assert len(federation.summary(name).sums) == 1
    # it was only a wrong signature: with the right one the run goes on
    monkeypatch.undo()
    assert all(isinstance(one, Trained) for one in federation.take_part(seeds=False).values())


class TwoFaced:
    """Tells north something else than the others, rightly signed, in the round of a step's sum."""

    def __init__(self, broadcast, mesh, step):
        self._broadcast, self._mesh, self._left = broadcast, mesh, step

    def __getattr__(self, name):
        return getattr(self._mesh, name)

    def exchange(self, outgoing, senders, largest):
        # all others get the same words, and not everybody speaks: shares of a sum
        if len(set(outgoing.values())) == 1 and len(senders) == 1:
            self._left -= 1
            if self._left < 0:
                content = next(iter(outgoing.values()))
                lie = content[64:-1] + bytes([content[-1] ^ 1])
                said = self._mesh.sign("told", self._broadcast._statement(lie).content)
                outgoing = {**outgoing, 0: said + lie}
        return self._mesh.exchange(outgoing, senders, largest)


def test_who_tells_different_members_different_sums_is_named_at_that_step(tmp_path, monkeypatch):
    federation = federation_of(tmp_path)
    true = Broadcast.__init__

    def two_faced(self, mesh):
        true(self, mesh)
        if mesh.me == 1:
            self._mesh = TwoFaced(self, mesh, step=1)

    monkeypatch.setattr(Broadcast, "__init__", two_faced)
    ended = federation.take_part(seeds=False)
    faces = [member.face for member in federation.member_folder("north").signed_plan.members]
    for name in ("north", "east"):
        assert isinstance(ended[name], Equivocation)
        assert str(ended[name]).startswith("south told different members different things, and signed both")
        summary = federation.summary(name)
        assert (len(summary.sums), len(summary.events)) == (1, 2)
        # whoever has the plan can check the record
        last = json.loads((federation.home(name) / "record.jsonl").read_text().splitlines()[-1])
        evidence = Evidence.from_plain(last["entry"]["fact"]["evidence"])
        assert [evidence.convicts(face) for face in faces] == [False, True, False]


def test_weights_that_differ_at_the_end_are_told_to_everybody(tmp_path, monkeypatch):
    federation = federation_of(tmp_path)
    true = runner.train

    def drifting(*given, **named):
        trained = true(*given, **named)
        return replace(trained, weights=trained.weights + (given[3]._sum.local == (1,)) * 1e-9)

    monkeypatch.setattr(runner, "train", drifting)
    with pytest.warns(UserWarning, match="ended with other weights than this member") as told:
        federation.take_part()
    differs = {"north": "south", "south": "north, east", "east": "south"}
    assert sorted(str(one.message).partition(" ended")[0] for one in told) == sorted(differs.values())
    for name, others in differs.items():
        assert status_of(federation.member_folder(name)).words == f"finished, with other weights than {others}"
    monkeypatch.undo()
    federation = federation_of(tmp_path / "same")
    for name in federation.take_part():
        assert status_of(federation.member_folder(name)).words == "finished"


def test_a_record_that_was_altered_is_not_read(tmp_path):
    federation = federation_of(tmp_path)
    federation.take_part()
    path = federation.home("east") / "record.jsonl"
    path.write_text(path.read_text().replace('"step": 1', '"step": 2', 1))
    ended = federation.take_part("east", waiting=BRIEF)["east"]
    assert "was altered or damaged" in str(ended)


def test_a_contribution_that_was_damaged_is_not_replaced_by_another(tmp_path):
    federation = federation_of(tmp_path)
    (federation.home("east") / "pending").write_bytes(b'{"step": 0, "shape": [1, 3], "joint": false, "check": ""}\n')
    ended = federation.take_part("east", waiting=BRIEF)["east"]
    assert "pending is damaged: without it a step that was cut off could be opened twice" in str(ended)


def test_one_folder_has_one_party(tmp_path):
    federation = federation_of(tmp_path)
    taken = federation.member_folder("east")
    with held_record(taken.identity, taken.signed_plan.digest):
        ended = federation.take_part("east", waiting=BRIEF)["east"]
    assert "another process runs the party of" in str(ended)
