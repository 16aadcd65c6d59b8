"""The watchdog must bark: readings that are slow, large or end in a stranger's words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fuzz import watchdog
from sordino import archive


def slow(_: Any) -> None:
    while True:
        sum(range(1000))


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (lambda _: np.ones(300 << 17).sum(), "took more than 200 MB"),
        (lambda _: json.loads("{"), "not the library's own"),
        (lambda _: {}["x"], "KeyError"),
        (lambda _: int("x"), "not the library's own"),
        (lambda _: archive.to_array(b""), ""),
        (lambda _: None, ""),
    ],
)
def test_how_a_reading_ends(read: Any, fault: str) -> None:
    found = watchdog._outcome(read, None)["fault"]
    assert fault in found
    assert bool(found) == bool(fault)


def test_time_is_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    monkeypatch.setattr(watchdog, "SECONDS", 0.05)
    before = signal.signal(signal.SIGPROF, watchdog._stop)
    try:
        assert "seconds of processor time" in watchdog._outcome(slow, None)["fault"]
    finally:
        signal.signal(signal.SIGPROF, before)
