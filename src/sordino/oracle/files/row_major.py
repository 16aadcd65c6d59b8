"""From columns one after the other, as a table has them, to rows one after the other, as the kernels want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.columns import write_tiles
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

    @property
    def shape(self) -> tuple[int, int]:
        return self.records, len(self.pieces[0].of.columns)

    @property
    def addresses(self) -> NDArray[np.intp]:
        """Where every piece begins, column by column."""
        return np.array([piece.of.addresses + piece.start * self.kind.itemsize for piece in self.pieces])

    @property
    def edges(self) -> NDArray[np.intp]:
        """The records at which pieces begin, and the last one ends."""
        return np.cumsum([0, *(piece.stop - piece.start for piece in self.pieces)], dtype=np.intp)


class RowMajor:
    """Writes the rows of blocks on all processors, each block into the place of the one before."""

    def __init__(self) -> None:
        self._place: _Matrix = np.empty((0, 0))

    def __call__(self, X: Any) -> Any:
        if not isinstance(X, Columns):
            return X
        if len(self._place) < X.records:
            self._place = np.empty(X.shape, dtype=X.kind)
        done = 0
        for piece in X.pieces:
            done += _write_rows(piece, self._place[done : done + piece.stop - piece.start])
        return self._place[:done]


def _write_rows(piece: Piece, out: _Matrix) -> int:
    """Into `out`; returns the number of rows."""
    strips = cut(len(out), out.size // _STRIP)
    addresses = piece.of.addresses + piece.start * out.itemsize
    tile = rows_at_once(out.strides[0])

    def task(number: int) -> None:
        write_tiles(addresses, *strips[number], tile, out)

    share(task, len(strips))
    return len(out)


def rows_at_once(row_bytes: int) -> int:
    """How many rows are written column by column."""
    # whole cache lines of a column at a time: columns of a table often begin at addresses that share a place in a cache
    return min(max(_TILE // max(1, row_bytes) & ~15, 16), 64)
