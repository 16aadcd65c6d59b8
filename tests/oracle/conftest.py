from __future__ import annotations

import pytest

from sordino.oracle.dense import DenseBlock


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are what is tested here, on few records; `tests/contracts` has NumPy in their place, too."""
    monkeypatch.setattr(DenseBlock, "small", 0)
