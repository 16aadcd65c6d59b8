"""Processes that a test starts, and how they ended."""

from __future__ import annotations

import os
import signal
import time
import warnings

PATIENCE = 300.0
"""Seconds after which processes that wait for each other are taken for a deadlock."""


def in_a_child(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads that do nothing here
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def ended(children):
    """The exit codes; those who have not ended in time are killed, and count as -9."""
    codes, end = {}, time.monotonic() + PATIENCE
    while len(codes) < len(children) and time.monotonic() < end:
        for child in children:
            if child not in codes and (found := os.waitpid(child, os.WNOHANG))[0]:
                codes[child] = found[1]
        time.sleep(0.01)
    for child in set(children) - set(codes):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        codes[child] = -9
    return list(codes.values())
