"""A file of JSON lines that only grows, and tells when it was damaged.

Every line carries a checksum over its entry and the line before it, so no earlier line can change, vanish or move
unnoticed. A line is on the disk before `append` returns. A crash in the middle of one leaves a line without an end: its
writer never learnt that it was written, so it does not count, and the next append replaces it.

What a chain alone cannot show is that whole lines are missing at its end, or that all of it was written anew.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino import outputs, wire

Entry = dict[str, Any]

# a pipe must not make the reader wait for a writer
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Chain:
    """The intact lines of a file: their entries, their checksums, and how many bytes they take."""

    entries: tuple[Entry, ...]
    checks: tuple[str, ...]
    length: int
    ended: bool
    """Whether the last intact line has its line end; a crash may have cut off that alone."""

    @property
    def head(self) -> str:
        return self.checks[-1] if self.checks else ""


@dataclass
class Writer:
    """The file, held by this process alone until the `writing` block ends."""

    descriptor: int
    journal: Journal = field(repr=False)
    chain: Chain = field(repr=False)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.chain.entries

    def append(self, entry: Entry) -> None:
        """Returns when the line has reached the disk; a failed write leaves the file as it was."""
        chain = self.chain
        line = _line(chain.head, entry) if chain.ended else b"\n" + _line(chain.head, entry)
        self.journal.require_size(chain.length + len(line))
        os.ftruncate(self.descriptor, chain.length)
        try:
            _write(self.descriptor, line, chain.length)
        except OSError:
            os.ftruncate(self.descriptor, chain.length)
            raise
        os.fsync(self.descriptor)
        checks = (*chain.checks, _check(chain.head, entry))
        self.chain = Chain((*chain.entries, entry), checks, chain.length + len(line), ended=True)


@dataclass(frozen=True)
class Journal:
    """The file at `path`; its first line is `header`, which says what it is and in which version."""

    path: Path
    header: Entry
    largest: int = 1 << 32
    """Bytes: what is larger was not written by this program, and is not read into memory."""

    def entries(self) -> tuple[Entry, ...]:
        """All entries after the header; none when there is no file yet."""
        return self._read().entries[1:]

    def glance(self) -> tuple[Entry, ...]:
        """The same without waiting for who writes: a line that is on its way may be missing."""
        try:
            descriptor = os.open(self.path, _READ)
        except FileNotFoundError:
            return ()
        try:
            return self._parse(self._content(descriptor)).entries[1:]
        finally:
            os.close(descriptor)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Wait until no other process writes, then read what is there and append to it."""
        outputs.require_ordinary(self.path)
        try:
            # a new one is for its owner's eyes; who shares it gives it another mode, which stays
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.path} cannot be created: its folder does not exist; create the folder first."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            writer = Writer(descriptor, self, self._parse(self._content(descriptor)))
            if not writer.entries:
                writer.append(self.header)
                outputs.sync_folder(self.path.parent)
            yield writer
        finally:
            _release(descriptor)

    def _read(self) -> Chain:
        try:
            descriptor = os.open(self.path, _READ)
        except FileNotFoundError:
            return self._parse(b"")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            return self._parse(self._content(descriptor))
        finally:
            _release(descriptor)

    def _content(self, descriptor: int) -> bytes:
        outputs.require_ordinary(self.path)
        size = os.fstat(descriptor).st_size
        self.require_size(size)
        return os.pread(descriptor, size, 0)

    def require_size(self, size: int) -> None:
        if size > self.largest:
            raise ValueError(
                f"{self.path} would have {size} bytes, and at most {self.largest} are read: it is another file, or it "
                "is time for a new one."
            )

    def _parse(self, content: bytes) -> Chain:
        entries: list[Entry] = []
        checks = [""]
        # what stands behind the last line end is what a crash left of a line; it counts if it is whole all the same
        *lines, tail = content.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if (entry := self._entry(line, checks[-1])) is None:
                raise ValueError(self._sentence(number))
            entries.append(entry)
            checks.append(_check(checks[-1], entry))
        length = len(content) - len(tail)
        whole = self._entry(tail, checks[-1]) if tail else None
        if whole is not None:
            entries.append(whole)
            checks.append(_check(checks[-1], whole))
            length = len(content)
        # the next append replaces the remainder, so it must be ours to replace
        elif not lines and not _line("", self.header).startswith(tail.rstrip(b"\0")):
            raise ValueError(self._sentence(1))
        return Chain(tuple(entries), tuple(checks[1:]), length, ended=whole is None)

    def _entry(self, line: bytes, previous: str) -> Entry | None:
        """The entry of an intact line that follows the line with checksum `previous`."""
        try:
            fields = json.loads(line)
            entry: Entry = fields["entry"]
            intact = fields["check"] == _check(previous, entry) and (previous != "" or entry == self.header)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return entry if intact and isinstance(entry, dict) else None

    def _sentence(self, number: int) -> str:
        if number == 1:
            return f"{self.path} does not begin with an intact {self.header}: it is another file, or it was altered."
        return (
            f"line {number} of {self.path} was altered or damaged: its checksum does not follow from the lines before "
            "it. Nothing from there on can be trusted: restore the file from a copy, and find out what happened."
        )


def _check(previous: str, entry: Entry) -> str:
    return wire.digest({"previous": previous, "entry": entry})


def _line(previous: str, entry: Entry) -> bytes:
    return json.dumps({"entry": entry, "check": _check(previous, entry)}, allow_nan=False).encode() + b"\n"


def _release(descriptor: int) -> None:
    # closing is not enough: a process forked meanwhile has the descriptor too, and would hold on to the lock
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _write(descriptor: int, line: bytes, at: int) -> None:
    # one call may write less than everything, for instance on a disk that is nearly full
    while line:
        written = os.pwrite(descriptor, line, at)
        line, at = line[written:], at + written
