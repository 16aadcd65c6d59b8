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
        except psycopg.Error as error:
            raise ConnectionError(f"{self.address} did not take what was to be written or read ({error}).") from error

    def _connect(self) -> Connection[Any]:
        psycopg = _driver()
        end = time.monotonic() + _WAIT
        while True:
            try:
                return psycopg.connect(self.address, **_SETTINGS)  # type: ignore[no-any-return]
            except psycopg.OperationalError as error:
                full = "connection slots" in str(error) or "too many clients" in str(error)
                if not full or time.monotonic() > end:
                    raise
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

    def append(self, line: Line) -> None:
        values = line.number, line.body.decode(), line.check
        self._connection.execute("INSERT INTO sordino_ledger VALUES (%s, %s, %s)", values)

    def now(self) -> datetime:
        row = self._connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment.astimezone(UTC)


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
