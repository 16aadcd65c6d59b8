"""How far a run has come: told to whoever watches, and kept so that a run that was cut off can go on.

Steps done and steps planned are all that is told: nothing computed from the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from sordino.privacy.ledger_context import interrupting

Listener = Callable[[int, int], None]


class Recorder(Protocol):
    """Keeps a run's state between its steps. The state is a dataclass of arrays and numbers that a step overwrites."""

    def restore(self, state: Any, planned: int) -> range:
        """Put the state kept last, if any, into `state`, and tell which steps are still to be taken."""
        ...

    def keep(self, state: Any, done: int, planned: int) -> None:
        """Called after every step."""
        ...


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def watching(listener: Listener) -> Iterator[None]:
    """Call `listener(done, planned)` after every step of the runs inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def recorded_by(recorder: Recorder) -> Iterator[None]:
    """Let `recorder` see the state of the run inside after every step, and give back the one it has."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def steps(planned: int, state: Any = None) -> Iterator[int]:
    """0, 1, .., planned - 1, told to the listener; where a recorder has a `state`, the steps that it leaves to take."""
    listener, recorder = _listener.get(), _recorder.get()
    if recorder is not None and state is None:
        raise ValueError(
            "this method does not put its state where a checkpoint or a callback could find it: use one that does, "
            "such as NoisySGD, DPSGD or DPAdam, or leave the checkpoint and the callbacks out."
        )
    remaining = recorder.restore(state, planned) if recorder is not None else range(planned)
    for step in remaining:
        yield step
        with interrupting():
            if recorder is not None:
                recorder.keep(state, step + 1, planned)
            if listener is not None:
                listener(step + 1, planned)
