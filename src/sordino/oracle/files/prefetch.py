"""The next block is read while the kernels work on this one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")

_PATIENCE = 0.05
"""Seconds after which a thread that waits for room looks whether anybody is still interested."""


@dataclass(frozen=True)
class _Failed:
    error: BaseException


_END = object()


def prefetched(items: Iterator[_T], ahead: int = 1) -> closing[Generator[_T]]:
    """The same items, to be used in a `with`: a thread makes the next ones while one is in use.

    At most `ahead` are ready beside the one in use and the one that is being made. With one ahead three are alive, so
    that an item may be written where the third before it was.
    """
    return closing(_prefetched(items, ahead))


def _prefetched(items: Iterator[_T], ahead: int) -> Generator[_T]:
    ready: queue.Queue[Any] = queue.Queue(maxsize=ahead)
    stopped = threading.Event()

    def put(item: Any) -> None:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue
            return

    def make() -> None:
        try:
            for item in items:
                put(item)
                if stopped.is_set():
                    return
        except BaseException as error:
            put(_Failed(error))
        else:
            put(_END)

    thread = threading.Thread(target=make, name="sordino-read", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Failed):
                raise item.error
            yield item
    finally:
        stopped.set()
        thread.join()
