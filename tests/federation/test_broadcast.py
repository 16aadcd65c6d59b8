"""A member that tells different members different things is found in that round, and named by what it signed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from rehearsal import Rehearsal, ThreadMesh, together
from sordino.federation.broadcast import Broadcast, Equivocation, Evidence
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import MemberLost, Refused
from sordino.federation.mpyc_engine import MpycAggregation

CHEAT = 2


def ended(meshes, task):
    """How every member ended: what it got, or its error."""

    def member(mesh):
        try:
            return task(mesh)
        except (Refused, MemberLost) as error:
            return error

    return together([lambda mesh=mesh: member(mesh) for mesh in meshes])


def with_cheat(members, kind, patience=20.0, cheat=CHEAT):
    rehearsal = Rehearsal(members, patience=patience)
    return rehearsal, [kind(rehearsal, i) if i == cheat else ThreadMesh(rehearsal, i) for i in range(members)]


class TwoFaced(ThreadMesh):
    """Signs one message for member 0 and another for everybody else, in the round that `tell` is about."""

    lies = b"something else"

    def exchange(self, outgoing, senders, largest):
        if outgoing and all(content[64:] == b"truth" for content in outgoing.values()):
            session = self.rehearsal.notes[self.me]
            said = session + (1).to_bytes(8, "big") + hashlib.sha256(self.lies).digest()
            outgoing = {**outgoing, 0: self.sign("told", said) + self.lies}
        return super().exchange(outgoing, senders, largest)


def tell(mesh):
    broadcast = Broadcast(mesh)
    broadcast._begin()
    mesh.rehearsal.notes[mesh.me] = broadcast._session
    return broadcast.tell(b"truth", 64)


@pytest.mark.parametrize("members", [3, 5])
def test_everybody_hears_the_same_or_names_who_did_not_say_it(members):
    rehearsal = Rehearsal(members)
    assert ended(rehearsal.meshes(), tell) == [(b"truth",) * members] * members
    rehearsal, meshes = with_cheat(members, TwoFaced)
    for number, error in enumerate(ended(meshes, tell)):
        if number != CHEAT:
            assert isinstance(error, Equivocation), error
            assert f"member {CHEAT} told different members different things" in str(error)
            assert error.evidence.member == CHEAT


def test_the_two_statements_convince_whoever_knows_the_certificate_and_accuse_nobody_else():
    rehearsal, meshes = with_cheat(3, TwoFaced)
    evidence = ended(meshes, tell)[0].evidence
    faces = [identity.face for identity in rehearsal.identities]
    again = Evidence.from_plain(evidence.to_plain())
    assert [again.convicts(face) for face in faces] == [member == CHEAT for member in range(3)]
    # neither the same words twice, nor words of two rounds or two sessions
    one, other = again.one, again.other
    assert not Evidence(CHEAT, one, one).convicts(faces[CHEAT])
    for field, value in (("round", 2), ("session", bytes(32))):
        changed = type(other)(**{**vars(other), field: value})
        signature = rehearsal.identities[CHEAT].sign("told", changed.content)
        changed = type(other)(**{**vars(changed), "signature": bytes.fromhex(signature)})
        assert not Evidence(CHEAT, one, changed).convicts(faces[CHEAT])


class Slanderer(ThreadMesh):
    """Passes on words of member 0 that member 0 never said, or said in another session."""

    def exchange(self, outgoing, senders, largest):
        if outgoing and all(len(content) == 3 * 96 for content in outgoing.values()):
            outgoing = {peer: self.rehearsal.slander + content[96:] for peer, content in outgoing.items()}
        return super().exchange(outgoing, senders, largest)


@pytest.mark.parametrize("from_before", [False, True])
def test_nobody_can_be_accused_of_what_it_never_said_or_said_before(from_before):
    rehearsal, meshes = with_cheat(3, Slanderer)
    digest = hashlib.sha256(b"another truth").digest()
    signature = bytes(64)
    if from_before:
        said = bytes(32) + (1).to_bytes(8, "big") + digest
        signature = bytes.fromhex(rehearsal.identities[0].sign("told", said))
    rehearsal.slander = digest + signature
    for number, error in enumerate(ended(meshes, tell)):
        if number != CHEAT:
            assert not isinstance(error, Equivocation)
            assert f"member {CHEAT} passed on words of member 0 that it never signed" in str(error)


class Unsigned(ThreadMesh):
    def exchange(self, outgoing, senders, largest):
        if outgoing and all(content[64:] == b"truth" for content in outgoing.values()):
            outgoing = {peer: bytes(64) + content[64:] for peer, content in outgoing.items()}
        return super().exchange(outgoing, senders, largest)


class AnotherBeginning(ThreadMesh):
    def exchange(self, outgoing, senders, largest):
        if self.traffic.rounds == 0:
            outgoing = {**outgoing, 0: bytes(32)}
        return super().exchange(outgoing, senders, largest)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [(Unsigned, f"member {CHEAT} sent a message that it did not sign"), (AnotherBeginning, "heard another beginning")],
)
def test_words_without_a_signature_and_two_beginnings_are_refused(kind, sentence):
    _, meshes = with_cheat(3, kind, patience=2.0)
    said = ended(meshes, tell)
    assert sentence in str(said[0])
    assert not any(isinstance(one, tuple) for number, one in enumerate(said) if number != CHEAT)


class TwoSums(ThreadMesh):
    """One of the openers: its share of the sum, as it tells member 0, is another one, rightly signed."""

    def exchange(self, outgoing, senders, largest):
        said = self.traffic.rounds == self.rehearsal.opening
        if said and outgoing:
            broadcast = self.rehearsal.notes[self.me]
            lie = bytes(len(outgoing[0]) - 64)
            content = broadcast._statement(lie).content
            outgoing = {**outgoing, 0: self.sign("told", content) + lie}
        return super().exchange(outgoing, senders, largest)


@pytest.mark.parametrize("joint", [None, JointSampler(1)])
def test_a_sum_that_an_opener_tells_in_two_ways_is_used_by_nobody(joint):
    used = []

    def add(mesh):
        aggregation = MpycAggregation(mesh, 2 if joint is None else 1)
        mesh.rehearsal.notes[mesh.me] = aggregation._broadcast
        used.append(aggregation.open_sum(np.full((1, 4), mesh.me), joint))
        return used[-1]

    # the round in which shares of the sum are told, from a run in which nobody cheats
    rehearsal = Rehearsal(3)
    rehearsal.opening = -1
    ended(rehearsal.meshes(), add)
    assert len(used) == 3
    rounds = max(message.round for message in rehearsal.transcript)
    used.clear()

    rehearsal, meshes = with_cheat(3, TwoSums, cheat=1)
    rehearsal.opening = rounds - 1
    said = ended(meshes, add)
    assert isinstance(said[0], Equivocation), said
    assert isinstance(said[2], Equivocation), said
    assert said[0].evidence.member == said[2].evidence.member == 1
    assert not used
