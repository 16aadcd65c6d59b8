"""Machine code on disk, used for as long as everything that it was made of is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def stamp_of(files: Iterable[Path]) -> str:
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def kept(function: Function, stamp: str, **options: Any) -> Function:
    """A kernel, compiled on first use and kept for the next process.

    Numba drops what it kept when the file of a function changes, but not when the functions and numbers that it uses
    from other files do: a kernel with yesterday's slope inside would run unnoticed. `stamp` is of those files.
    """
    # no wrapper for callers written in C: nobody here is, and it takes a tenth of the time to compile
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    kernel: Any = numba.njit(**options)(function)
    kernel.enable_caching()
    file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, stamp)
        stamped: Function = kernel
        return stamped
    fresh: Function = numba.njit(**options)(function)
    return fresh
