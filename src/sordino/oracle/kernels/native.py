"""How the inner loops are compiled: serial, without the interpreter's lock, kept on disk for the next process.

Serial loops that a thread pool runs side by side are as fast as Numba's own parallel loops and compile ten times
faster. Sums may be reordered and fused; nothing assumes that NaN and infinity do not occur, because records hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

_COMMON = {"nogil": True, "cache": True, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """For loops whose sums may be evaluated in any order."""
    fast: Function = numba.njit(fastmath={"reassoc", "contract", "nsz"}, **_COMMON)(function)
    return fast


def exact(function: Function) -> Function:
    """For arithmetic that relies on the order in which it is written."""
    fast: Function = numba.njit(fastmath={"contract"}, **_COMMON)(function)
    return fast


def _bitcast(source: Any, target: Any) -> Any:
    def declare(context: Any, value: Any) -> Any:
        def generate(target_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], target_context.get_value_type(target))

        return target(source), generate

    return intrinsic(declare)


bits_of = _bitcast(types.float64, types.int64)
"""The 64 bits of a double as an integer."""

from_bits = _bitcast(types.int64, types.float64)
"""The double with these 64 bits."""
