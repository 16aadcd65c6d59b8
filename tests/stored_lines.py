"""The lines of a ledger as whoever has its storage can read and change them, whatever the ledger thinks of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager

from sordino.ledger.ledger import Ledger
from sordino.ledger.sqlite import _SCHEMA
from sordino.ledger.store import check_of

Row = tuple[int, str, str]


@contextmanager
def _unguarded(ledger: Ledger):
    """A connection that may change lines, and the table's name."""
    if ledger.address.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(ledger.address) as connection:
            connection.execute("SET session_replication_role = replica")
            yield connection, "sordino_ledger", "%s"
        return
    with closing(sqlite3.connect(ledger.address)) as connection:
        connection.execute("DROP TRIGGER unchanged")
        connection.execute("DROP TRIGGER kept")
        yield connection, "entry", "?"
        for statement in _SCHEMA[1:]:
            connection.execute(statement)
        connection.commit()


def rows(ledger: Ledger) -> list[Row]:
    with _unguarded(ledger) as (connection, table, _):
        return list(connection.execute(f"SELECT number, body, digest FROM {table} ORDER BY number").fetchall())


def put(ledger: Ledger, lines: list[Row]) -> None:
    """These lines in place of all."""
    with _unguarded(ledger) as (connection, table, mark):
        connection.execute(f"DELETE FROM {table}")
        for line in lines:
            connection.execute(f"INSERT INTO {table} VALUES ({mark}, {mark}, {mark})", tuple(line))


def chained(bodies: list[str]) -> list[Row]:
    """Lines with checks that fit: whoever writes to the storage can make them."""
    lines, previous = [], ""
    for number, body in enumerate(bodies, start=1):
        previous = check_of(previous, body.encode("utf-8", "surrogatepass"))
        lines.append((number, body, previous))
    return lines
