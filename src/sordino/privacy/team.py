"""Threads that wait beside this one, for compiled loops.

A thread of Python takes longer to wake than the noise of a hundred thousand weights takes to draw. PyTorch's threads
are awake between its operations: whoever asks for noise in the midst of those says so, and loops may use them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Team(NamedTuple):
    """Where OpenMP's `GOMP_parallel` is, which calls a function in several threads, and how many are wanted."""

    parallel: int
    threads: int


ALONE = Team(0, 1)
"""This thread by itself."""

LEAST = 1 << 15
"""Numbers that a loop goes over before it is shared: PyTorch's own measure."""

_present: ContextVar[Team] = ContextVar("team", default=ALONE)


def present(numbers: int) -> Team:
    """Who goes over so many numbers: the team of whoever called, or this thread alone."""
    return _present.get() if numbers >= LEAST else ALONE


@contextmanager
def beside(team: Team) -> Iterator[None]:
    """Have loops inside use these threads."""
    before = _present.set(team)
    try:
        yield
    finally:
        _present.reset(before)


def _alone() -> None:
    _present.set(ALONE)


if hasattr(os, "register_at_fork"):
    # threads do not come along, and a loop that a child shares with its parent's would wait for them for ever
    os.register_at_fork(after_in_child=_alone)
