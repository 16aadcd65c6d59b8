r"""Everybody hears the same, or finds out who did not say the same to all.

    hear       who speaks sends its message to all, with its signature of (session, round, digest)
    confirm    everybody sends all the digests and signatures it heard to everybody

Two members who follow the protocol compare what they heard directly, so after `confirm` all of them heard the same. If
they did not, each holds two statements of one session and round with different digests, both signed by the same member:
evidence that convinces anybody who knows its certificate. A member that follows the protocol signs one statement in a
round, and no session is like another, because everybody's random bytes are in its name: so nobody can be accused by
what it said before, or by what others make up.

The first exchange, which makes that name, has no such evidence: two signatures under different random bytes are what a
member that follows the protocol gives in two sessions. A contradiction there ends the session before anything was said
in it, and tells who heard something else, not whose word it was.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sordino.federation.mesh import MemberLost, Mesh, Refused

PURPOSE = "told"
_DIGEST, _SIGNATURE = 32, 64
_ECHO = _DIGEST + _SIGNATURE


class Signer(Protocol):
    """A member's certificate, see `identity.Face`."""

    def signed(self, purpose: str, content: bytes, signature: str) -> bool: ...


@dataclass(frozen=True)
class RoundStatement:
    """What a member told everybody in one round, by its digest."""

    session: bytes
    round: int
    digest: bytes
    signature: bytes = b""

    @property
    def content(self) -> bytes:
        return self.session + self.round.to_bytes(8, "big") + self.digest


@dataclass(frozen=True)
class Evidence:
    """Two statements of one member that contradict each other."""

    member: int
    one: RoundStatement
    other: RoundStatement

    def convicts(self, face: Signer) -> bool:
        """Whether the member with this certificate signed both, and they are of one round."""
        same_round = (self.one.session, self.one.round) == (self.other.session, self.other.round)
        both = all(face.signed(PURPOSE, s.content, s.signature.hex()) for s in (self.one, self.other))
        return same_round and self.one.digest != self.other.digest and both

    def to_plain(self) -> dict[str, Any]:
        pair = {
            name: {"digest": s.digest.hex(), "signature": s.signature.hex()}
            for name, s in (("one", self.one), ("other", self.other))
        }
        return {"member": self.member, "session": self.one.session.hex(), "round": self.one.round, **pair}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Evidence:
        one, other = (
            RoundStatement(
                bytes.fromhex(plain["session"]),
                plain["round"],
                bytes.fromhex(plain[name]["digest"]),
                bytes.fromhex(plain[name]["signature"]),
            )
            for name in ("one", "other")
        )
        return Evidence(plain["member"], one, other)


class Equivocation(Refused):
    """A member told different members different things."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(
            f"member {evidence.member} told different members different things, and signed both: what it said was not "
            "used, and nothing more was opened. Its two signatures are in the record; agree on a new plan without it."
        )
        self.evidence = evidence


class Broadcast:
    """One member's end of a session."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._others = tuple(i for i in range(mesh.members) if i != mesh.me)
        self._session = b""
        self._round = 0
        self._heard: dict[int, RoundStatement] = {}

    def _begin(self) -> None:
        names = self._all(os.urandom(_DIGEST), _DIGEST)
        self._session = hashlib.sha256(b"".join(names)).digest()
        views = self._all(self._session, _DIGEST)
        strange = [str(member) for member, view in enumerate(views) if view != self._session]
        if strange:
            raise Refused(
                f"member {', '.join(strange)} heard another beginning of this session than this member did: somebody "
                "told different members different things. Nothing was opened."
            )

    def tell(self, message: bytes, largest: int) -> tuple[bytes, ...]:
        """What every member has to say to all, confirmed."""
        heard = self.hear(message, range(self._mesh.members), largest)
        self.confirm()
        return tuple(heard[member] for member in range(self._mesh.members))

    def hear(self, message: bytes, speakers: Sequence[int], largest: int) -> dict[int, bytes]:
        """What the speakers say to all; not to be used before `confirm`. `message` is this member's own."""
        if not self._session:
            self._begin()
        mesh, outgoing, heard = self._mesh, {}, {}
        self._round += 1
        self._heard = {}
        if mesh.me in speakers:
            said = self._statement(message)
            self._heard[mesh.me] = RoundStatement(
                said.session, said.round, said.digest, mesh.sign(PURPOSE, said.content)
            )
            outgoing = dict.fromkeys(self._others, self._heard[mesh.me].signature + message)
            heard[mesh.me] = message
        senders = [speaker for speaker in speakers if speaker != mesh.me]
        for speaker, content in mesh.exchange(outgoing, senders, _SIGNATURE + largest).items():
            signature, heard[speaker] = content[:_SIGNATURE], content[_SIGNATURE:]
            said = self._statement(heard[speaker])
            if not mesh.signed(speaker, PURPOSE, said.content, signature):
                raise Refused(f"member {speaker} sent a message that it did not sign; nothing of it was used.")
            self._heard[speaker] = RoundStatement(said.session, said.round, said.digest, signature)
        return heard

    def confirm(self, remark: bytes = b"") -> tuple[bytes, ...]:
        """Make sure that everybody heard the same. Everybody's remark, of the same length for all, comes with it."""
        speakers = sorted(self._heard)
        echo = b"".join(self._heard[speaker].digest + self._heard[speaker].signature for speaker in speakers)
        try:
            heard = self._exchanged(echo + remark, len(echo) + len(remark))
        except MemberLost as lost:
            # whoever cheats may leave before it is found out
            self._compare(speakers, lost.heard, len(remark))
            raise
        self._compare(speakers, heard, len(remark))
        return tuple(
            remark if member == self._mesh.me else heard[member][len(echo) :] for member in range(self._mesh.members)
        )

    def _compare(self, speakers: Sequence[int], echoes: Mapping[int, bytes], remark: int) -> None:
        liars = []
        for member, content in echoes.items():
            if len(content) != _ECHO * len(speakers) + remark:
                liars.append(f"member {member} sent something else than what was agreed")
                continue
            for number, speaker in enumerate(speakers):
                told = content[_ECHO * number : _ECHO * (number + 1)]
                mine = self._heard[speaker]
                if told[:_DIGEST] == mine.digest:
                    continue
                other = RoundStatement(self._session, self._round, told[:_DIGEST], told[_DIGEST:])
                if self._mesh.signed(speaker, PURPOSE, other.content, other.signature):
                    raise Equivocation(Evidence(speaker, mine, other))
                liars.append(f"member {member} passed on words of member {speaker} that it never signed")
        if liars:
            raise Refused(f"{liars[0]}; nothing more was opened.")

    def _statement(self, message: bytes) -> RoundStatement:
        return RoundStatement(self._session, self._round, hashlib.sha256(message).digest())

    def _all(self, message: bytes, largest: int) -> tuple[bytes, ...]:
        heard = self._exchanged(message, largest)
        return tuple(message if i == self._mesh.me else heard[i] for i in range(self._mesh.members))

    def _exchanged(self, message: bytes, largest: int) -> dict[int, bytes]:
        return self._mesh.exchange(dict.fromkeys(self._others, message), self._others, largest)
