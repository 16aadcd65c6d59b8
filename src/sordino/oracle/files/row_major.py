"""From columns one after the other, as a table has them, to rows one after the other, as the kernels want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled, fetch, pointer
from sordino.oracle.kernels.pool import cut, share

_Matrix = NDArray[Any]

_TILE = 1 << 14
"""Bytes of rows that are written at once: they stay in the nearest cache until all of their columns are there."""
_STRIP = 1 << 18
"""Numbers that a task writes."""


@dataclass(frozen=True, eq=False)
class Columns:
    """A block of a table as it is stored: its pieces, each a list of columns, from the first record to the last."""

    pieces: Sequence[Sequence[_Matrix]]
    kind: np.dtype[Any]

    @property
    def records(self) -> int:
        return sum(len(piece[0]) for piece in self.pieces)


class RowMajor:
    """Writes the rows of blocks on all processors, each block into the place of the one before."""

    def __init__(self) -> None:
        self._place: _Matrix = np.empty((0, 0))

    def __call__(self, X: Any) -> Any:
        if not isinstance(X, Columns):
            return X
        if len(self._place) < X.records:
            self._place = np.empty((X.records, len(X.pieces[0])), dtype=X.kind)
        done = 0
        for piece in X.pieces:
            done += _write_rows(piece, self._place[done : done + len(piece[0])])
        return self._place[:done]


def _write_rows(columns: Sequence[_Matrix], out: _Matrix) -> int:
    """Into `out`; returns the number of rows."""
    strips = cut(len(out), out.size // _STRIP)
    addresses = np.array([column.__array_interface__["data"][0] for column in columns], dtype=np.intp)
    # whole cache lines of a column at a time: columns of a table often begin at addresses that share a place in a cache
    tile = min(max(_TILE // max(1, out.strides[0]) & ~15, 16), 64)

    def task(number: int) -> None:
        write_tiles(addresses, *strips[number], tile, out)

    share(task, len(strips))
    return len(out)


@compiled
def write_tiles(columns: NDArray[np.intp], start: int, stop: int, tile: int, out: _Matrix) -> None:
    """out[i, k] = the i-th number at address columns[k], for rows start..stop."""
    line = 64 // out.itemsize
    for first in range(start, stop, tile):
        last = min(first + tile, stop)
        for k in range(columns.size):
            column = numba.carray(pointer(columns[k]), out.shape[0], out.dtype)
            # no processor looks ahead in as many columns as a table has; beyond the end nothing is fetched
            for i in range(first + 2 * tile, last + 2 * tile, line):
                fetch(column, i)
            for i in range(first, last):
                out[i, k] = column[i]
