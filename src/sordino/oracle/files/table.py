"""Numbers in the columns of Parquet or Arrow files, as a source of records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.files.row_major import Columns, Decoded, Piece
from sordino.oracle.files.source import AS_GIVEN, Coding, InUnits, Labels, record_units, with_coding
from sordino.oracle.units import RecordUnits
from sordino.tabular.stamp import identity

if TYPE_CHECKING:
    from sordino.tabular.files import Cursor, TableFiles


_PIECE = 4
"""Blocks that are decoded at once, about."""


@dataclass(frozen=True, eq=False)
class Table:
    """The records of a Parquet or Arrow file, or of a folder of them, which may be larger than memory.

    `features` names columns of numbers, or of number lists of one fixed length; None is every column but the target.
    A missing number is not a number, and counts as it does in memory: a record with one among its features keeps only
    its constant column, and a record without a target counts for nothing.
    """

    path: str | os.PathLike[str]
    target: str
    features: Sequence[str] | None = None
    coding: Coding = AS_GIVEN

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise TypeError(f"features is the text {self.features!r}: give a list of column names.")
        self.names, self.widths  # noqa: B018  whatever is wrong with the files is said here

    @cached_property
    def files(self) -> TableFiles:
        try:
            from sordino.tabular.files import TableFiles
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{error.name} is needed for Parquet and Arrow files: pip install 'sordino[files]'.", name=error.name
            ) from None
        return TableFiles.open(self.path, None if self.features is None else (*self.features, self.target))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the features."""
        there = self.files.schema.names
        from sordino.tabular.cells import require_columns

        names = [name for name in there if name != self.target] if self.features is None else list(self.features)
        require_columns((*names, self.target), there, str(self.path))
        if self.target in names or len(set(names)) < len(names) or not names:
            raise ValueError(
                f"the features are {', '.join(map(repr, names)) or 'none'}: name one column at least, each once, and "
                f"not the target {self.target!r}."
            )
        return tuple(names)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many features each of the columns is."""
        from sordino.oracle.files.arrow import list_width
        from sordino.tabular.cells import shown_kind

        schema, widths = self.files.schema, []
        for name in self.names:
            kind = schema.field(name).type
            width = list_width(kind)
            if width is None:
                raise ValueError(
                    f"column {name!r} of {self.path} holds {shown_kind(kind)} values: features must be numbers. Leave "
                    "it out of `features`, or describe the table with a schema (see `sordino schema`)."
                )
            widths.append(width)
        return tuple(widths)

    @property
    def shape(self) -> tuple[int, int]:
        return self.files.records, sum(self.widths)

    @property
    def sparse(self) -> bool:
        return False

    @property
    def units(self) -> RecordUnits:
        return record_units(*self.shape)

    @property
    def row_bytes(self) -> int:
        return self.shape[1] * self.kind.itemsize

    @cached_property
    def kind(self) -> np.dtype[Any]:
        """Single precision where nothing is lost by it."""
        from sordino.oracle.files.arrow import is_single

        return np.dtype(
            np.float32 if all(is_single(self.files.schema.field(name).type) for name in self.names) else np.float64
        )

    @property
    def identity(self) -> bytes:
        return identity(self.files.stamps, self.names, self.target)

    def coded(self, coding: Coding) -> Self:
        from sordino.oracle.files.arrow import is_number
        from sordino.tabular.cells import shown_kind

        kind = self.files.schema.field(self.target).type
        if isinstance(coding, InUnits) and not is_number(kind):
            raise ValueError(
                f"the target {self.target!r} of {self.path} holds {shown_kind(kind)} values: numbers are needed."
            )
        return with_coding(self, coding)

    def check(self) -> int:
        if not isinstance(self.coding, Labels):
            return 0
        with self.files.cursor([self.target], 1 << 16) as cursor:
            pieces = cursor.slices(0, self.files.records, None)
            return sum(int(np.isnan(self.coding.cells(piece.column(0))).sum()) for _, piece, _ in pieces)

    @property
    def blocks_at_once(self) -> int:
        """That become of what is decoded at once, at most."""
        from sordino.tabular.formats import at_once

        block, lengths = self.units.block, np.diff(self.files.starts).tolist()
        return max(_PIECE, *(-(-at_once(length, _PIECE * block) // block) for length in lengths))

    @contextmanager
    def reader(self) -> Iterator[TableReader]:
        # larger pieces than blocks: to decode a few thousand numbers of every column costs as much as twice as many
        with self.files.cursor([*self.names, self.target], _PIECE * self.units.block) as cursor:
            yield TableReader(self, cursor)


class TableReader:
    """Gives the columns as they are decoded; or rows, where a column holds lists and so parts of rows."""

    def __init__(self, table: Table, cursor: Cursor) -> None:
        self._table, self._cursor = table, cursor
        self._places = list(zip(table.names, np.cumsum([0, *table.widths]), table.widths, strict=False))
        self._batch, self._decoded = None, Decoded([])
        # what is decoded at once becomes blocks at once: without room for them the next piece would have to wait
        self.ahead = table.blocks_at_once if max(table.widths) == 1 else 1
        self._buffers: Iterator[NDArray[Any]] | None = None
        if self.ahead == 1:
            size = min(table.units.block, table.shape[0]), table.shape[1]
            # three: one in use, one that is ready, one that is being read
            self._buffers = cycle([np.empty(size, dtype=table.kind) for _ in range(3)])

    def rows(self, start: int, stop: int, which: Index | None) -> tuple[Any, Array]:
        from sordino.oracle.files.arrow import numbers_of

        count = stop - start if which is None else len(which)
        X = None if self._buffers is None else next(self._buffers)[:count]
        y, pieces = np.empty(count), []
        for place, batch, first, last, some in self._cursor.ranges(start, stop, which):
            if X is None:
                pieces.append(self._piece(batch, first, last, some))
            else:
                for name, begin, width in self._places:
                    cells = batch.column(name).slice(first, last - first)
                    X[place, begin : begin + width] = numbers_of(cells, some).reshape(-1, width)
            targets = batch.column(self._table.target).slice(first, last - first)
            y[place] = self._table.coding.cells(targets if some is None else targets.take(some))
        return Columns(pieces, self._table.kind) if X is None else X, y

    def _piece(self, batch: Any, first: int, last: int, some: Index | None) -> Piece:
        from sordino.oracle.files.arrow import numbers_of

        if batch is not self._batch:
            # once for all of the blocks in it
            columns = [numbers_of(batch.column(name), None) for name in self._table.names]
            kind = self._table.kind
            self._batch, self._decoded = batch, Decoded([np.ascontiguousarray(each, dtype=kind) for each in columns])
        if some is None:
            return Piece(self._decoded, first, last)
        return Piece(Decoded([column[first + some] for column in self._decoded.columns]), 0, len(some))
