"""A member's own record of what was opened: lines that only grow, chained by hashes and signed one by one.

    began      with which plan, and the coins that all members share
    reserving  under which reference the owner's ledger is about to be charged, so that a run is charged once
    met        whom it met at the start of a session, and how far the others' records reached
    opening    before anything leaves this member that others could open a sum with, with a commitment to what it adds
    seen       the sum, on the disk before this member signs it: it signs one sum for a step, ever
    opened     everybody's signatures of that sum, on the disk before it is used
    stopped    why a session ended early
    finished   the model and its certificate

Everything in it is public among the members. A line's signature covers the line before it, so that a member cannot
later deny, change or reorder what it wrote.
"""

from __future__ import annotations

import base64
import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sordino import wire
from sordino.arrays import Whole
from sordino.identity import Face, Identity
from sordino.ledger.journal import Journal, Writer
from sordino.privacy.events import Approximate, Composed, Event, GaussianDP, from_json

Fact = dict[str, Any]

FILE, LOCK = "record.jsonl", "lock"
_PURPOSE, _SUM = "record", "sum"


def journal_of(folder: Path, signed_plan: str) -> Journal:
    return Journal(folder / FILE, {"format": "sordino federation record", "version": 2, "signed_plan": signed_plan})


@dataclass
class RecordSummary:
    """What the lines say, from first to last."""

    coins: str = ""
    seeded: bool = False
    sums: list[Whole] = field(default_factory=list)
    """Signed by every member, as all of them know."""
    events: list[Event] = field(default_factory=list)
    """What each step that was begun is, whether it was opened or not."""
    commitment: str = ""
    """To what this member added to the last step that was begun."""
    seen: Fact | None = None
    """The last sum that this member saw and signed, with its step and event."""
    proof: Fact | None = None
    """All members' signatures of the last of `sums`."""
    met: dict[int, str] = field(default_factory=dict)
    sessions: int = 0
    reference: str | None = None
    stopped: str = ""
    finished: Fact | None = None
    last: str = ""

    @property
    def in_flight(self) -> bool:
        """Whether the last step that was begun may have been opened by others, and is not known here."""
        return len(self.events) > len(self.sums)

    @property
    def event(self) -> Event | None:
        """Everything that was opened, or may have been; None for nothing.

        The event of a run with correlated noise is that of the whole run, and stands at each of its sums.
        """
        counts = Counter(self.events)
        parts = ((event, 1 if _is_of_run(event) else count) for event, count in counts.items())
        return Composed(tuple(parts)) if counts else None

    def seen_at(self, step: int) -> Fact | None:
        return self.seen if self.seen is not None and self.seen["step"] == step else None

    def take(self, line: Fact) -> None:
        fact = line["fact"]
        self.last = fact["at"]
        match fact["kind"]:
            case "began":
                self.coins, self.seeded = fact["coins"], fact["seeded"]
            case "met":
                self.sessions += 1
                self.stopped = ""
                self.seeded = self.seeded or fact["seeded"]
                self.met.update({int(member): head for member, head in fact["heads"].items()})
            case "reserving":
                self.reference = fact["reference"]
            case "opening":
                self._require_next(fact)
                self.events.append(from_json(fact["event"]))
                self.commitment = fact["commitment"]
            case "seen":
                self._require_next(fact)
                self.seen = {key: fact[key] for key in ("step", "event", "sum")}
            case "opened":
                self._require_next(fact)
                seen = self.seen_at(fact["step"])
                if seen is None:
                    raise ValueError(f"step {fact['step']} was recorded as opened, but its sum was not.")
                self.sums.append(unpack_sum(seen["sum"]))
                self.proof = proof_of(seen, fact["signatures"])
            case "stopped":
                self.stopped = fact["why"]
            case "finished":
                self.finished = fact

    def _require_next(self, fact: Fact) -> None:
        if fact["step"] != len(self.sums):
            raise ValueError(f"step {fact['step']} was recorded where step {len(self.sums)} comes next.")


class Record:
    """The record of one member, held by this process alone."""

    def __init__(self, identity: Identity, signed_plan: str, writer: Writer, checks: set[str]) -> None:
        self._identity, self._signed_plan, self._writer = identity, signed_plan, writer
        self._checks = checks
        self.summary = read_record(writer.entries[1:], identity.face, signed_plan)

    @property
    def head(self) -> str:
        return self._writer.chain.head

    def extends(self, head: str) -> bool:
        """Whether this record once ended at `head`."""
        return head in self._checks

    def signature(self, seen: Fact) -> str:
        """This member's signature of a sum that it has seen."""
        return self._identity.sign(_SUM, _stated(self._signed_plan, proof_of(seen, [])))

    def append(self, kind: str, fact: Fact) -> Fact:
        """Signed, chained and on the disk when this returns."""
        content = {"kind": kind, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fact}
        line = {"previous": self.head, "fact": content}
        line["signature"] = self._identity.sign(_PURPOSE, _signed(self._signed_plan, line))
        self._writer.append(line)
        self._checks.add(self.head)
        self.summary.take(line)
        return line


@contextmanager
def held_record(identity: Identity, signed_plan: str) -> Iterator[Record]:
    """The record for writing; a sentence if another process has it."""
    folder = identity.folder
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another process runs the party of {folder}: wait for it, or stop it first.") from None
        with journal_of(folder, signed_plan).writing() as writer:
            yield Record(identity, signed_plan, writer, {"", *writer.chain.checks})
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock of a file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_record(lines: tuple[Fact, ...], face: Face, signed_plan: str) -> RecordSummary:
    """The story of intact lines, or a sentence on the first that its owner did not sign."""
    summary = RecordSummary()
    for number, line in enumerate(lines, start=2):
        require_signed(line, face, signed_plan, f"line {number} of the record")
        try:
            summary.take(line)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
            raise ValueError(
                f"line {number} of the record does not fit, although its owner signed it: another version wrote it."
            ) from None
    return summary


def require_signed(line: Any, face: Face, signed_plan: str, what: str) -> None:
    fits = isinstance(line, dict) and isinstance(line.get("fact"), dict) and isinstance(line.get("signature"), str)
    if not fits or not face.signed(_PURPOSE, _signed(signed_plan, line), line["signature"]):
        raise ValueError(f"{what} does not carry its owner's signature: it was altered, or is of another plan.")


def proof_of(seen: Fact, signatures: Sequence[str]) -> Fact:
    """What the members signed of a sum, in short, and their signatures in the order of the members."""
    short = {"step": seen["step"], "event": seen["event"], "sum": wire.digest(seen["sum"])}
    return {**short, "signatures": list(signatures)}


def unsigned(proof: Fact, faces: Sequence[Face], signed_plan: str) -> list[int]:
    """The members whose signatures of a sum are missing or do not hold."""
    signatures, content = proof["signatures"], _stated(signed_plan, proof)
    if len(signatures) != len(faces):
        return list(range(len(faces)))
    pairs = enumerate(zip(faces, signatures, strict=True))
    return [member for member, (face, signature) in pairs if not face.signed(_SUM, content, str(signature))]


def _stated(signed_plan: str, proof: Fact) -> bytes:
    return wire.digest({"signed_plan": signed_plan, **{key: proof[key] for key in ("step", "event", "sum")}}).encode()


def _signed(signed_plan: str, line: Fact) -> bytes:
    return wire.digest({"signed_plan": signed_plan, "previous": line.get("previous"), "fact": line["fact"]}).encode()


def _is_of_run(event: Event) -> bool:
    return isinstance(event, Approximate) and isinstance(event.event, GaussianDP)


def pack_sum(total: Whole) -> Fact:
    data = np.ascontiguousarray(total, dtype="<i8")
    return {"shape": list(data.shape), "data": base64.b64encode(data.tobytes()).decode()}


def unpack_sum(packed: Fact) -> Whole:
    data = np.frombuffer(base64.b64decode(packed["data"], validate=True), dtype="<i8")
    return data.astype(np.int64).reshape([int(n) for n in packed["shape"]])
