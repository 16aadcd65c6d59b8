"""From columns one after the other, as a table has them, to rows one after the other, as the kernels want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled, fetch, pointer, turn_eight
from sordino.oracle.kernels.pool import cut, share

_Matrix = NDArray[Any]

_TILE = 1 << 14
"""Bytes of rows that are written at once: they stay in the nearest cache until all of their columns are there."""
_STRIP = 1 << 18
"""Numbers that a task writes."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Columns of equal length and of one kind of number, each side by side in memory."""

    columns: Sequence[_Matrix]

    @cached_property
    def addresses(self) -> NDArray[np.intp]:
        return np.array([column.__array_interface__["data"][0] for column in self.columns], dtype=np.intp)


class Piece(NamedTuple):
    """Records start..stop of what was decoded at once."""

    of: Decoded
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Columns:
    """A block of a table as it is stored, from the first record to the last."""

    pieces: Sequence[Piece]
    kind: np.dtype[Any]

    @property
    def records(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)


class RowMajor:
    """Writes the rows of blocks on all processors, each block into the place of the one before."""

    def __init__(self) -> None:
        self._place: _Matrix = np.empty((0, 0))

    def __call__(self, X: Any) -> Any:
        if not isinstance(X, Columns):
            return X
        if len(self._place) < X.records:
            self._place = np.empty((X.records, len(X.pieces[0].of.columns)), dtype=X.kind)
        done = 0
        for piece in X.pieces:
            done += _write_rows(piece, self._place[done : done + piece.stop - piece.start])
        return self._place[:done]


def _write_rows(piece: Piece, out: _Matrix) -> int:
    """Into `out`; returns the number of rows."""
    strips = cut(len(out), out.size // _STRIP)
    addresses = piece.of.addresses + piece.start * out.itemsize
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
    eights = columns.size >= 8 and stop - start >= 8
    for first in range(start, stop, tile):
        last = min(first + tile, stop)
        for k in range(columns.size):
            column = numba.carray(pointer(columns[k]), out.shape[0], out.dtype)
            # no processor looks ahead in as many columns as a table has; beyond the end nothing is fetched
            for i in range(first + 2 * tile, last + 2 * tile, line):
                fetch(column, i)
            if not eights:
                for i in range(first, last):
                    out[i, k] = column[i]
            elif k % 8 == 7 or k == columns.size - 1:
                # what is left over is turned together with some that were before
                for i in range(first, last, 8):
                    turn_eight(columns, k - 7, out, min(i, stop - 8))
