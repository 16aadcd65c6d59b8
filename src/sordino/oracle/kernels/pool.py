"""Threads for the kernels: one pool, numbered tasks, and the BLAS library kept to one thread beside it.

Results never depend on the number of threads: callers cut their work into tasks by its size alone and add the parts
up in the order of their numbers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


def threads() -> int:
    """SORDINO_THREADS, or as many as the processors this process may run on."""
    wish = os.environ.get("SORDINO_THREADS", "").strip()
    if not wish:
        return _processors()
    if not (wish.isdigit() and int(wish) >= 1):
        raise ValueError(f"SORDINO_THREADS is {wish!r}: it must be a whole number of at least 1, or unset.")
    return int(wish)


def _processors() -> int:
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _executor(size: int, process: int) -> ThreadPoolExecutor:
    # the process number is part of the key because threads do not survive a fork
    return ThreadPoolExecutor(size, thread_name_prefix="sordino")


def cut(total: int, parts: int) -> list[tuple[int, int]]:
    """The ranges that split 0..total into `parts` of nearly equal length (one range at least)."""
    parts = max(1, parts)
    edges = [total * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def share(task: Callable[[int], None], count: int) -> None:
    """Call task(0), .., task(count - 1), each once, on this thread and on idle ones of the pool."""
    # asked only when it matters: small problems are answered many thousand times
    helpers = min(threads(), count) - 1 if count > 1 else 0
    numbers = iter(range(count))
    if helpers < 1:
        for number in numbers:
            task(number)
        return

    def work() -> None:
        for number in numbers:
            task(number)

    pool = _executor(threads(), os.getpid())
    futures = [pool.submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        # after an error this leaves nothing to the helpers; otherwise there is nothing left
        for _ in numbers:
            pass
        wait([future for future in futures if not future.cancel()])
    for future in futures:
        if not future.cancelled():
            future.result()


_lock = threading.Lock()
_users = 0
_limited: list[tuple[Any, int]] = []
"""Libraries that were allowed more threads, and how many."""


def _unlock_child() -> None:
    global _lock, _users, _limited
    _lock, _users, _limited = threading.Lock(), 0, []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_child)


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products inside use one thread each, because `share` already uses every processor."""
    global _users, _limited
    with _lock:
        if _users == 0:
            # one by one: a limit of threadpoolctl asks every library for its version too, which takes ten times as long
            _limited = [(library, count) for library in _blas().lib_controllers if (count := library.num_threads) != 1]
            for library, _ in _limited:
                library.set_num_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                for library, count in _limited:
                    library.set_num_threads(count)
