"""The watchdog must bark: readings that are slow, large or end in a stranger's words."""

from __future__ import annotations

import json
import multiprocessing
import signal
import warnings
from typing import Any

import numpy as np
import pytest

from fuzz import watchdog
from sordino import archive


def fault_of(read: Any) -> str:
    """In a process of its own: limits on time and memory are no affair of the other tests."""
    here, there = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        signal.signal(signal.SIGPROF, watchdog._stop)
        there.send(watchdog._outcome(read, None)["fault"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads that do nothing here
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
    there.close()
    found = str(here.recv())
    process.join()
    return found


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
    found = fault_of(read)
    assert fault in found
    assert bool(found) == bool(fault)


def test_time_is_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SECONDS", 0.05)
    assert "seconds of processor time" in fault_of(slow)
