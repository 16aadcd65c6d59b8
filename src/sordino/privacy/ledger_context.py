"""Which data set's budget a release is charged to.

    with charged_to(Ledger("survey.ledger"), "survey 2024"):
        model.fit(X, y)

Every release that begins while the block is open reserves its event in the ledger before it touches a record, or is
refused: in the block itself, in every thread of this process, and in every process below it, whether started before or
inside the block, by fork, spawn, a pool of workers or a command. Where a thread or a process could belong to blocks of
several data sets, it is refused until it opens one of its own. What was started inside a block and goes on after its
end is refused too, because nobody could tell any more what it belongs to.

Not covered are processes of another user, on another machine or in another container, and work that was handed to a
thread or a process from before the block and begins after its end. Outside of every block nothing keeps count: a
certificate then covers its one release, and no more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol
from weakref import WeakSet

from sordino.privacy import open_blocks
from sordino.privacy.open_blocks import Account, Announced

_MARK = "SORDINO_STARTED_IN"
"""In the environment of a process that was started inside blocks: their names."""

_innermost: ContextVar[Announced | None] = ContextVar("innermost", default=None)
_releasing: ContextVar[bool] = ContextVar("releasing", default=False)
_open: list[Announced] = []
_started_in = tuple(filter(None, os.environ.get(_MARK, "").split(":")))
_left_over: WeakSet[threading.Thread] = WeakSet()
"""Threads that were started while a block was open and went on after its end."""
_guard = threading.Lock()


class Named(Protocol):
    """A ledger, by the name under which every process of this machine can open it."""

    @property
    def address(self) -> str: ...

    @property
    def identity_folder(self) -> str:
        """Of whoever signs there; empty where nobody does."""
        ...


@contextmanager
def charged_to(ledger: Named, dataset: str) -> Iterator[None]:
    """Charge every release of the block to `dataset`, which must be open in the ledger."""
    before = WeakSet(threading.enumerate())
    block = open_blocks.announce(Account(ledger.address, dataset, ledger.identity_folder))
    with _guard:
        _open.append(block)
        _mark_children()
    token = _innermost.set(block)
    try:
        yield
    finally:
        # a process forked inside the block leaves it too, and must not end it for the one that opened it
        if block.owner == os.getpid():
            with _guard:
                _open.remove(block)
                _mark_children()
                block.withdraw()
                _left_over.update(thread for thread in threading.enumerate() if thread not in before)
        _innermost.reset(token)


def account() -> Account | None:
    """What a release that begins here and now is charged to; None outside of every block."""
    found = _found()
    if len(found) > 1:
        names = " and ".join(sorted(repr(one.dataset) for one in found))
        raise RuntimeError(
            f"blocks of {names} are open at the same time, and this thread or process was opened by none of them, so "
            "nobody can tell which of them pays: open a charged_to block here."
        )
    if found:
        return found.pop()
    if _innermost.get() is not None or _started_in or threading.current_thread() in _left_over:
        raise RuntimeError(
            "this thread or process was started inside a charged_to block that has ended, so nobody can tell what "
            "should pay: open a charged_to block here, or start a new thread or new workers."
        )
    return None


def releasing() -> AbstractContextManager[None]:
    """The part of a release that may use the records: it has been paid for."""
    return _setting_releasing(True)


def interrupting() -> AbstractContextManager[None]:
    """Somebody else's turn in the middle of a release, which has not paid for what they make of the records."""
    return _setting_releasing(False)


def require_release() -> None:
    """Where noise is added to a value, which then leaves: inside a block, only as a part of a release."""
    if not _releasing.get() and (charged := account()) is not None:
        raise RuntimeError(
            f"here everything that is computed from records is charged to {charged.dataset!r}, and this answer is a "
            "part of no release: use train, an estimator or sordino.release.release, which pay for it."
        )


@contextmanager
def _setting_releasing(value: bool) -> Iterator[None]:
    token = _releasing.set(value)
    try:
        yield
    finally:
        _releasing.reset(token)


def _found() -> set[Account]:
    """The accounts of the closest open blocks: this context's, this process's, its ancestors', those it started in."""
    block = _innermost.get()
    if block is not None and (block in _open or open_blocks.find(block.name)):
        return {block.account}
    with _guard:
        here = {block.account for block in _open}
    started_in = (open_blocks.find(name) for name in _started_in)
    return here or open_blocks.of_ancestors() or {one for one in started_in if one is not None}


def _mark_children() -> None:
    names = [*_started_in, *(block.name for block in _open)]
    if names:
        os.environ[_MARK] = ":".join(names)
    else:
        os.environ.pop(_MARK, None)


def _forget_parent() -> None:
    """In a forked process the open blocks are its parent's, and open for as long as they are there."""
    global _guard, _started_in
    _guard = threading.Lock()
    _started_in = (*_started_in, *(block.name for block in _open))
    _open.clear()


os.register_at_fork(after_in_child=_forget_parent)
