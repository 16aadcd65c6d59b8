"""A ledger in one SQLite file, for the processes of one machine. It is created readable by its owner alone.

SQLite's log (WAL) reaches the disk before a commit returns. Every operation has a connection of its own, so threads and
forked processes never share one. Nothing else here opens the file: closing it would give up SQLite's locks.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sordino import outputs
from sordino.ledger.store import LONGEST, Line

_SCHEMA = (
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL) STRICT",
    "CREATE TRIGGER unchanged BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END",
    "CREATE TRIGGER kept BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END",
)
_WAIT = 60.0
"""Seconds for the writers before this one."""
_NOT_OURS = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_NOTADB,
}


class SqliteStore:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = str(path)

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        outputs.require_ordinary(self.path)
        if not self.path.exists():
            yield _Transaction(None)
            return
        with self._connected() as connection:
            connection.execute("BEGIN")
            yield _Transaction(connection if self._has_schema(connection) else None)

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        outputs.require_ordinary(self.path)
        self._create()
        with self._connected() as connection:
            # before anything is changed that is not ours
            self._has_schema(connection)
            # refused for as long as somebody else does the same
            _patiently(connection, "PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            if not self._has_schema(connection):
                for statement in _SCHEMA:
                    connection.execute(statement)
            yield _Transaction(connection)
            connection.execute("COMMIT")

    def grant(self, login: str, writes: bool) -> None:
        raise ValueError(
            f"{self.path} is a file, which knows no user {login!r}: give access to it by its permissions, or keep the "
            "ledger in PostgreSQL."
        )

    def _create(self) -> None:
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.path} cannot be created: its folder does not exist; create the folder first."
            ) from None
        outputs.sync_folder(self.path.parent)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # of a symbolic link SQLite follows the name, of another name for the same file it cannot know
        if self.path.stat().st_nlink > 1:
            raise ValueError(
                f"{self.path} has another name (a hard link), and SQLite keeps locks and the last entries beside a "
                "name: what is written by one would be lost on the other. Remove one of them, or make a copy of it."
            )
        try:
            with closing(self._connect()) as connection:
                yield connection
        except UnicodeDecodeError:
            # of what SQLite says about a damaged file
            raise ValueError(self._sentence("damaged names")) from None
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _NOT_OURS:
                raise ValueError(self._sentence(str(error))) from None
            raise OSError(f"{self.path} cannot be used ({error}); nothing was written to it.") from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(self.address)}?mode=rw", uri=True, timeout=_WAIT, isolation_level=None
        )
        connection.text_factory = bytes
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * LONGEST)
        return connection

    def _has_schema(self, connection: sqlite3.Connection) -> bool:
        """A stranger's file could have views and triggers that do anything, so it is ours to the letter or refused."""
        found = tuple(row[0] for row in connection.execute("SELECT sql FROM sqlite_schema ORDER BY rowid"))
        if found and found != tuple(statement.encode() for statement in _SCHEMA):
            raise sqlite3.DatabaseError("it has other tables")
        return bool(found)

    def _sentence(self, error: str) -> str:
        with self.path.open("rb") as file:
            begins = file.read(64)
        if begins.startswith(b'{"entry": {"format": "sordino ledger"'):
            return (
                f"{self.path} is a ledger of an earlier version, a file of lines: bring it over with `sordino ledger "
                f"import {self.path} NEW`, and use the new file from then on."
            )
        return f"{self.path} is not a ledger, or it was altered or damaged ({error}): name another file, or restore it."


class _Transaction:
    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._connection = connection

    def lines(self, first: int) -> Iterator[Line]:
        if self._connection is None:
            return
        query = "SELECT number, body, digest FROM entry WHERE number >= ? ORDER BY number"
        yield from map(_line, self._connection.execute(query, (first,)))

    def last(self) -> Line | None:
        if self._connection is None:
            return None
        query = "SELECT number, body, digest FROM entry ORDER BY number DESC LIMIT 1"
        row = self._connection.execute(query).fetchone()
        return None if row is None else _line(row)

    def append(self, line: Line) -> None:
        assert self._connection is not None
        values = line.number, line.body.decode(), line.check
        self._connection.execute("INSERT INTO entry VALUES (?, ?, ?)", values)

    def now(self) -> datetime:
        return datetime.now(UTC)


def _line(row: tuple[Any, ...]) -> Line:
    number, body, digest = row
    # a damaged file may hold anything
    if not (isinstance(body, bytes) and isinstance(digest, bytes)):
        raise sqlite3.DatabaseError("a line is no text")
    return Line(number, body, digest.decode("ascii", "replace"))


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """SQLite does not wait by itself for what needs the file alone."""
    end = time.monotonic() + _WAIT
    while True:
        try:
            connection.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.005)
        else:
            return
