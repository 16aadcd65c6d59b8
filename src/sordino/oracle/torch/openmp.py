"""PyTorch's own threads for compiled loops.

Between two operations they wait without sleeping, for milliseconds: other threads would have to take a processor from
them first.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

import torch

from sordino.privacy.team import ALONE, Team

_PROCESS = os.getpid()


def team() -> Team:
    """As many threads as PyTorch may use, this one alone where they are not OpenMP's.

    A forked child has none of its parent's threads, and OpenMP would wait for them for ever.
    """
    threads = torch.get_num_threads() if os.getpid() == _PROCESS else 1
    return Team(entry, threads) if threads > 1 and (entry := _entry()) else ALONE


@cache
def _entry() -> int:
    """Where the OpenMP has it that PyTorch itself is linked with: GCC's, LLVM's or Intel's. 0 where it is another."""
    if not torch.backends.openmp.is_available():  # type: ignore[no-untyped-call]
        return 0
    try:
        # looked for in the library and in those that it needs
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0
