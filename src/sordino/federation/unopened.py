"""What this member adds to the sum that is being opened, kept until the sum is known.

It is on the disk before a share of it leaves. If the step is cut off and some member saw the sum, then every member had
got this far; all of them add the same numbers again, and the sum that is opened the second time is the first one. So
repeating a step tells nobody anything new, and costs nothing.

The joint part of noise is drawn by all members together. Its shares are kept too: either all members have theirs, and
the sum is the same again; or none has, and nobody can have seen it; or some have, and then the step counts as opened.

The file is for its owner's eyes: it holds an exact sum behind no more than the owner's own noise. The record holds a
commitment to it, which says nothing of the numbers; so a file that is missing, or is not the one of that step, is
noticed, and the step is not opened with other numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sordino import outputs
from sordino.arrays import Whole
from sordino.federation.joint import Words
from sordino.federation.record import RecordSummary

FILE = "pending"
_KIND = outputs.Kind("a contribution", rb"\{", secret=True)
LOST = (
    "what it added to a step that was cut off, and may have been opened, is missing or not what it was (the file "
    f"{FILE}); other numbers would open that step twice with different noise. Restore the folder, or agree on another "
    "plan"
)
_SALT = 32


class Drawer(Protocol):
    """Draws shares of numbers that nobody knows, see `joint.JointSampler`."""

    def shares(self, size: int, arithmetic: Any) -> Words: ...


@dataclass(frozen=True, eq=False)
class Contribution:
    """One step's numbers, and the shares of its joint noise once they are drawn."""

    step: int
    values: Whole
    shares: Words | None = None
    salt: bytes = field(default_factory=lambda: os.urandom(_SALT))

    @property
    def commitment(self) -> str:
        """For the record. The salt keeps others from trying out which numbers it stands for."""
        return hashlib.sha256(self.salt + self.values.astype("<i8").tobytes()).hexdigest()

    def to_bytes(self) -> bytes:
        parts = [
            self.salt,
            self.values.astype("<i8").tobytes(),
            b"" if self.shares is None else self.shares.astype("<u8").tobytes(),
        ]
        header = {"step": self.step, "shape": list(self.values.shape), "joint": self.shares is not None}
        header["check"] = hashlib.sha256(b"".join(parts)).hexdigest()
        return json.dumps(header, allow_nan=False).encode() + b"\n" + b"".join(parts)

    @staticmethod
    def from_bytes(content: bytes) -> Contribution:
        head, _, data = content.partition(b"\n")
        header = json.loads(head)
        if header["check"] != hashlib.sha256(data).hexdigest():
            raise ValueError("its checksum does not match.")
        salt, data = data[:_SALT], data[_SALT:]
        size = 8 * int(np.prod(header["shape"]))
        values = np.frombuffer(data[:size], dtype="<i8").astype(np.int64).reshape(header["shape"])
        shares = np.frombuffer(data[size:], dtype="<u8").astype(np.uint64) if header["joint"] else None
        return Contribution(header["step"], values, shares, salt)


class UnopenedContribution:
    """The file in a member's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.kept: Contribution | None = None
        if self._path.exists():
            try:
                self.kept = Contribution.from_bytes(self._path.read_bytes())
            except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
                raise ValueError(
                    f"{self._path} is damaged: without it a step that was cut off could be opened twice with different "
                    "noise. Restore it from a copy, or agree on a new plan."
                ) from None

    def at(self, step: int) -> Contribution | None:
        return self.kept if self.kept is not None and self.kept.step == step else None

    def lacks(self, summary: RecordSummary) -> bool:
        """Whether a step is under way, and this is not what was added to it."""
        kept = self.at(len(summary.sums))
        return summary.in_flight and (kept is None or kept.commitment != summary.commitment)

    def keep(self, contribution: Contribution) -> None:
        outputs.write(self._path, contribution.to_bytes(), _KIND)
        self.kept = contribution

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
        self.kept = None


@dataclass(frozen=True, eq=False)
class KeptSampler:
    """Joint noise whose shares are on the disk before they are used; `again` takes those of the step's last attempt."""

    drawer: Drawer
    unopened: UnopenedContribution
    again: bool

    def shares(self, size: int, arithmetic: Any) -> Words:
        kept = self.unopened.kept
        assert kept is not None
        if self.again:
            assert kept.shares is not None
            return kept.shares
        drawn = self.drawer.shares(size, arithmetic)
        self.unopened.keep(replace(kept, shares=drawn))
        return drawn
