"""How far a ledger reached when it was last used here: kept apart from it, so that lines taken away are noticed.

    $XDG_STATE_HOME/sordino/ledgers/<digest of the ledger's address>.json       (~/.local/state where that is not set)
    ..                              <digest of the ledger's address>.book       what its lines came to, now and then
    ..                              <digest of the ledger's address>.page       what was last shown of it

Every user has their own, and knows a ledger by its address. Whoever can change both can still take lines away
unnoticed: for that, keep what `sordino ledger head` prints where they cannot write. What the lines came to is signed
where the user signs entries, and believed on that signature alone: it is then no easier to forge than an entry.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sordino import outputs, wire
from sordino.ledger.book import Book, from_plain, to_plain

if TYPE_CHECKING:
    from sordino.identity import Identity

_HEAD = outputs.Kind("a ledger's head", rb'\{"ledger": ', secret=True)
_BOOK = outputs.Kind("what a ledger came to", rb'\{"book": ', secret=True)
_PAGE = outputs.Kind("what was shown of a ledger", rb'\{"page": ', secret=True)
_LARGEST = 1 << 16
_PURPOSE = "kept of a ledger"


_UNUSABLE = (OSError, RuntimeError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


class Mark(NamedTuple):
    """That the line of this number had this check."""

    lines: int
    head: str


@dataclass(frozen=True)
class KeptHead:
    """The head of the ledger at `address`, for whoever signs as `identity`."""

    address: str
    identity: Identity | None = None

    def mark(self) -> Mark | None:
        try:
            with self._file("json").open("rb") as file:
                kept = json.loads(file.read(_LARGEST))
            if not (isinstance(kept["head"], str) and isinstance(kept["lines"], int)):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(
                f"{self._file('json')} was damaged: it keeps the head of {self.address}. Compare the checksum of the "
                "ledger's last line with a head that you kept elsewhere, then remove that file."
            ) from None
        except (OSError, RuntimeError):
            return None
        return Mark(kept["lines"], kept["head"])

    def require(self, mark: Mark, holds: bool, lines: int) -> None:
        """A sentence unless the ledger, of so many lines, holds what was remembered."""
        if not holds:
            raise ValueError(
                f"{self.address} was emptied, cut or exchanged: it had {mark.lines} lines here, ending in the head "
                f"{mark.head}, and has {lines} without it now. What its data sets have spent cannot be read from it "
                "any more: restore it from a copy that has that head; for a new ledger name another one. "
                f"(The head is kept in {self._file('json')}.)"
            )

    def remember(self, mark: Mark) -> None:
        if mark.lines == 0 or self.mark() == mark:
            return
        plain = {"ledger": self.address, "head": mark.head, "lines": mark.lines}
        self._write("json", json.dumps(plain, allow_nan=False), _HEAD)

    def book(self) -> Book | None:
        """What the ledger came to at a line that it still must have; None where nothing is kept that can be used."""
        try:
            return from_plain(self._kept("book"))
        except _UNUSABLE:
            return None

    def require_same(self, same: bool) -> None:
        """A sentence unless what is kept is what the lines come to."""
        if not same:
            raise ValueError(
                f"the lines of {self.address} are in order, but what is kept of them in {self._file('book')} is not "
                "what they come to: it was altered, and whatever was shown or reserved by it may be wrong. Remove that "
                "file, so that the ledger is read anew."
            )

    def keep(self, book: Book) -> None:
        self._write("book", self._with_digest("book", to_plain(book)), _BOOK)

    def page(self, kinds: dict[str, type]) -> Any:
        """What `keep_page` was given; None where nothing is kept that can be used."""
        try:
            return wire.from_plain(self._kept("page"), kinds)
        except _UNUSABLE:
            return None

    def keep_page(self, page: Any) -> None:
        self._write("page", self._with_digest("page", wire.to_plain(page)), _PAGE)

    def _kept(self, ending: str) -> Any:
        first, _, text = self._file(ending).read_bytes().partition(b"\n")
        stated, made_by = json.loads(first)[ending], _made_by(text)
        signature = stated.pop("signature", "")
        if stated != made_by:
            raise ValueError("another version's, or damaged")
        if self.identity is not None:
            signed = self.identity.face.signed(_PURPOSE, self._signed(ending, made_by), signature)
            if not signed:
                raise ValueError("somebody else's")
        return json.loads(text)

    def _with_digest(self, ending: str, plain: Any) -> str:
        """A line that says which version wrote the next one, its digest, and who vouches for it."""
        text = json.dumps(plain, allow_nan=False)
        made_by = _made_by(text.encode())
        if self.identity is not None:
            made_by["signature"] = self.identity.sign(_PURPOSE, self._signed(ending, made_by))
        return json.dumps({ending: made_by}, allow_nan=False) + "\n" + text

    def _signed(self, ending: str, made_by: dict[str, str]) -> bytes:
        return wire.digest({"ledger": self.address, "kept": ending, **made_by}).encode()

    def _write(self, ending: str, text: str, kind: outputs.Kind) -> None:
        try:
            file = self._file(ending)
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            outputs.write(file, text.encode(), kind)
        except (OSError, RuntimeError) as failure:
            # the ledger itself is written: a release must not fail over its second witness
            warnings.warn(
                f"the head of {self.address} could not be kept apart from it ({failure}): keep what `sordino ledger "
                "head` prints in a safe place, or set XDG_STATE_HOME to a folder that can be written.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _file(self, ending: str) -> Path:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(state) / "sordino" / "ledgers" / f"{wire.digest(self.address)[:32]}.{ending}"


def _made_by(text: bytes) -> dict[str, str]:
    return {"version": version("sordino"), "digest": hashlib.sha256(text).hexdigest()}
