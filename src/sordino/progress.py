"""How far a run has come, for whoever watches: steps done and steps planned, nothing computed from the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def watching(listener: Listener) -> Iterator[None]:
    """Call `listener(done, planned)` after every step of the runs inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def steps(planned: int) -> Iterator[int]:
    """0, 1, .., planned - 1, told to the listener."""
    listener = _listener.get()
    for step in range(planned):
        yield step
        if listener is not None:
            listener(step + 1, planned)
