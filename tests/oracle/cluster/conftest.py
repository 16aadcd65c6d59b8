"""One local Ray with two workers for all tests here."""

from __future__ import annotations

import pytest

from sordino.cluster import connected


@pytest.fixture(scope="session")
def cluster():
    with connected("local", workers=2, threads=1) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def compiled():
    """Workers answer as they come, in processes of their own, so this one does too."""
