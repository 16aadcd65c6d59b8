from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is no full audit still trains hundreds of models."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("audit") is None:
            item.add_marker(pytest.mark.slow)
