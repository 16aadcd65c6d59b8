"""A ledger in PostgreSQL, for a team: `postgresql://user@host/database`, in the table `sordino_ledger`.

Writers wait for one another in the order in which they came, by a lock that ends with the transaction, and so with the
connection however it ends. What reads after it has the lock sees everything that was committed. Two lines could not
have the same number even without it. The clock is the server's.

An address is shown in errors and kept beside heads, so it holds no password: PostgreSQL looks for one in ~/.pgpass or
PGPASSWORD.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sordino.ledger.store import Line

if TYPE_CHECKING:
    from psycopg import Connection

_SCHEMA = """
CREATE TABLE sordino_ledger (number bigint PRIMARY KEY, body text NOT NULL, digest text NOT NULL);
CREATE FUNCTION sordino_ledger_only_grows() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'a ledger only grows'; END $$;
CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON sordino_ledger
    EXECUTE FUNCTION sordino_ledger_only_grows();
"""
_SETTINGS = {
    "application_name": "sordino",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_WAIT = 60.0
"""Seconds for a connection where the server has too many."""


class PostgresStore:
    def __init__(self, address: str) -> None:
        psycopg = _driver()
        try:
            given = psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            raise ValueError("this is not an address of PostgreSQL: write postgresql://user@host/database.") from None
        if given.get("password") or given.get("sslpassword"):
            raise ValueError(
                "the address of a ledger holds no password, because it is shown and kept: leave it out, and put it "
                "into ~/.pgpass or PGPASSWORD."
            )
        self.address = address

    @contextmanager
    def reading(self) -> Iterator[_Transaction]:
        with self._connected() as connection:
            yield _Transaction(connection, exists=_exists(connection))

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        with self._connected() as connection:
            # a writer that is cut off from the server holds nobody up for ever
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '10min'")
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', true) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('sordino'), hashtext(current_schema()))")
            if not _exists(connection):
                connection.execute(_SCHEMA)
            yield _Transaction(connection, exists=True)

    def grant(self, login: str, writes: bool) -> None:
        from psycopg import sql

        rights = sql.SQL("SELECT, INSERT" if writes else "SELECT")
        with self._connected() as connection:
            connection.execute(
                sql.SQL("GRANT {} ON sordino_ledger TO {}").format(rights, sql.Identifier(login)),
            )

    @contextmanager
    def _connected(self) -> Iterator[Connection[Any]]:
        """A connection of this operation alone, in one transaction: threads and forked processes never share one."""
        psycopg = _driver()
        try:
            with self._connect() as connection:
                yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            raise PermissionError(
                f"this user of {self.address} may not do that ({error.diag.message_primary}): an officer admits "
                "members with their login."
            ) from None
        except psycopg.OperationalError as error:
            # wherever it happened: the rule of a transaction is what a user needs to know
            raise ConnectionError(
                f"{self.address} went away in the middle ({_said(error)}). What was being written is there as a "
                "whole or not at all, and a reservation that is there counts: when the server is back, `sordino ledger "
                "show` tells, and the same reference is given the same reservation."
            ) from error
        except psycopg.Error as error:
            raise OSError(
                f"{self.address} refused what was to be written or read ({_said(error)}); nothing of it is there."
            ) from error

    def _connect(self) -> Connection[Any]:
        psycopg = _driver()
        end = time.monotonic() + _WAIT
        while True:
            try:
                return psycopg.connect(self.address, **_SETTINGS)  # type: ignore[no-any-return]
            except psycopg.OperationalError as error:
                full = "connection slots" in str(error) or "too many clients" in str(error)
                if not full or time.monotonic() > end:
                    raise _unreachable(self.address, error) from error
                time.sleep(random.uniform(0.01, 0.1))


class _Transaction:
    def __init__(self, connection: Connection[Any], exists: bool) -> None:
        self._connection = connection
        self._exists = exists

    def lines(self, first: int) -> Iterator[Line]:
        if not self._exists:
            return
        with self._connection.cursor("lines") as cursor:
            cursor.itersize = 5000
            cursor.execute(
                "SELECT number, body, digest FROM sordino_ledger WHERE number >= %s ORDER BY number", (first,)
            )
            for number, body, digest in cursor:
                yield Line(number, body.encode(), digest)

    def last(self) -> Line | None:
        if not self._exists:
            return None
        query = "SELECT number, body, digest FROM sordino_ledger ORDER BY number DESC LIMIT 1"
        row = self._connection.execute(query).fetchone()
        return None if row is None else Line(row[0], row[1].encode(), row[2])

    def append(self, line: Line) -> None:
        values = line.number, line.body.decode(), line.check
        self._connection.execute("INSERT INTO sordino_ledger VALUES (%s, %s, %s)", values)

    def now(self) -> datetime:
        row = self._connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment.astimezone(UTC)


_REMEDIES = (
    ("password", PermissionError, "put the right password into ~/.pgpass or PGPASSWORD."),
    ("authentication", PermissionError, "ask whoever runs the server to let this user in from here."),
    ("pg_hba.conf", PermissionError, "ask whoever runs the server to let this user in from here."),
    ("role ", PermissionError, "name a user that the server knows: postgresql://user@host/database."),
    ("database ", FileNotFoundError, "create it (createdb), or name another: postgresql://user@host/database."),
    ("", ConnectionError, "see that the server runs, and that its host and port are these."),
)
"""A word of what the server or the network said, and what to do. The connection has no code to go by."""


def _unreachable(address: str, error: Exception) -> OSError:
    said = _said(error)
    kind, remedy = next((kind, remedy) for word, kind, remedy in _REMEDIES if word in said)
    return kind(f"{address} cannot be reached, so nothing was read or written ({said}): {remedy}")


def _said(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _exists(connection: Connection[Any]) -> bool:
    row = connection.execute("SELECT to_regclass('sordino_ledger') IS NOT NULL").fetchone()
    assert row is not None
    return bool(row[0])


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ImportError(
            "a ledger in PostgreSQL needs psycopg, which is not installed: pip install 'sordino[postgres]'."
        ) from None
    return psycopg
