"""From columns one after the other, as a table has them, to rows one after the other, as the kernels want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled
from sordino.oracle.kernels.pool import cut, share

_Matrix = NDArray[Any]

_GROUP = 16
"""Columns that are written together: a cache line of single precision, so that a line is written at once."""
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
    firsts = range(0, len(columns), _GROUP)
    # the last group is filled up, and what fills it is not written
    groups = [tuple(columns[min(first + k, len(columns) - 1)] for k in range(_GROUP)) for first in firsts]
    strips = cut(len(out), out.size // _STRIP)

    def task(number: int) -> None:
        start, stop = strips[number]
        for first, group in zip(firsts, groups, strict=True):
            width = min(_GROUP, len(columns) - first)
            if width == _GROUP:
                write_group(group, start, stop, first, out)
            else:
                write_some(group, start, stop, first, width, out)

    share(task, len(strips))
    return len(out)


@compiled
def write_group(columns: tuple[_Matrix, ...], start: int, stop: int, left: int, out: _Matrix) -> None:
    """out[i, left + k] = columns[k][i], written out: a loop over k would go through memory for every array."""
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15 = columns
    for row in range(start, stop):
        i = np.uint64(row)
        out[i, left] = c0[i]
        out[i, left + 1] = c1[i]
        out[i, left + 2] = c2[i]
        out[i, left + 3] = c3[i]
        out[i, left + 4] = c4[i]
        out[i, left + 5] = c5[i]
        out[i, left + 6] = c6[i]
        out[i, left + 7] = c7[i]
        out[i, left + 8] = c8[i]
        out[i, left + 9] = c9[i]
        out[i, left + 10] = c10[i]
        out[i, left + 11] = c11[i]
        out[i, left + 12] = c12[i]
        out[i, left + 13] = c13[i]
        out[i, left + 14] = c14[i]
        out[i, left + 15] = c15[i]


@compiled
def write_some(columns: tuple[_Matrix, ...], start: int, stop: int, left: int, width: int, out: _Matrix) -> None:
    """The same for fewer columns."""
    for first in range(start, stop, 64):
        for k in range(width):
            column = columns[k]
            for i in range(first, min(first + 64, stop)):
                out[i, left + k] = column[i]
