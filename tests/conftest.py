from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Heads of the tests' ledgers are not kept with the user's."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    yield patch
    patch.undo()
