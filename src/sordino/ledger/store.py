"""Where a ledger is written down: lines in their order, which only grow, each chained to the one before it.

    check_n = SHA-256 of {"entry": entry_n, "previous": check_(n-1)}, in canonical JSON

So no earlier line can change, vanish or move unnoticed, and the last check, the head, stands for all of them. Whatever
the storage is, the lines are the same: SQLite for one machine, PostgreSQL for a team. A storage promises three things:
a line is durable when `writing` has ended without an error, lines are appended by one writer at a time, who sees all of
those before, and an error or a crash leaves no part of what was being written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

LONGEST = 1 << 20
"""Bytes of an entry: what is longer was not written here."""


class Line(NamedTuple):
    number: int
    """Counted from 1."""
    body: bytes
    """The entry, in canonical JSON."""
    check: str


class Transaction(Protocol):
    """The storage at one moment. In a `writing` block nobody else appends until it ends."""

    def lines(self, first: int) -> Iterator[Line]:
        """From number `first` on, in order; none where there is no ledger yet."""
        ...

    def last(self) -> Line | None: ...

    def append(self, line: Line) -> None: ...

    def now(self) -> datetime:
        """By the clock that all writers share."""
        ...


class Store(Protocol):
    address: str

    def reading(self) -> AbstractContextManager[Transaction]: ...

    def writing(self) -> AbstractContextManager[Transaction]: ...

    def grant(self, login: str, writes: bool) -> None:
        """Let another user of the storage read, and append if `writes`; a sentence where it has no users."""
        ...


def check_of(previous: str, body: bytes) -> str:
    # the same text as wire.canonical({"entry": .., "previous": ..}), without reading the entry
    return hashlib.sha256(b'{"entry":%b,"previous":"%b"}' % (body, previous.encode())).hexdigest()


def ledger_file(address: str | os.PathLike[str] | None) -> Path | None:
    """The file that a ledger is in; None for one in a database, and for none."""
    text = "postgresql:" if address is None else os.fspath(address)
    # absolute, so that it stays the same file where the working directory is another
    return None if text.startswith(("postgresql:", "postgres:")) else Path(text).absolute()
