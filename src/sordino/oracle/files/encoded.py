"""A table of Parquet or Arrow files, encoded by its public schema while it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sordino.arrays import Array, Index
from sordino.oracle.files.folder import Cursor, TableFiles
from sordino.oracle.files.source import AS_GIVEN, Coding, identity, record_units, with_coding
from sordino.oracle.units import RecordUnits
from sordino.tabular.cells import require_columns
from sordino.tabular.encode import WIDEST_DENSE, encode_features, encode_target

if TYPE_CHECKING:
    from sordino.tabular.schema import Schema


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """Rows of the schema's encoding: dense, or sparse where it is wide. No row depends on another."""

    path: str | os.PathLike[str]
    schema: Schema
    coding: Coding = AS_GIVEN

    def __post_init__(self) -> None:
        require_columns(self.columns, self.names, str(self.path))

    @cached_property
    def files(self) -> TableFiles:
        return TableFiles.open(self.path, self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the columns of the files."""
        return tuple(name.strip() for name in self.files.schema.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """That the schema speaks of."""
        return (*self.schema.columns, self.schema.target.column)

    @property
    def shape(self) -> tuple[int, int]:
        return self.files.records, self.schema.width

    @property
    def units(self) -> RecordUnits:
        # a sparse row has one entry per column of the table
        wide = self.schema.width > WIDEST_DENSE
        return record_units(self.shape[0], len(self.schema.columns) if wide else self.schema.width)

    @property
    def identity(self) -> bytes:
        return identity(self.files.stamps, self.schema.to_toml())

    @property
    def row_bytes(self) -> int:
        width = self.schema.width
        # a sparse entry is a number and the place of its column
        return 8 * width if width <= WIDEST_DENSE else 12 * len(self.schema.columns)

    def everything(self) -> pa.Table:
        """The whole table in memory, not encoded."""
        with self.reader() as reader:
            return reader.table(0, self.shape[0], None)

    def coded(self, coding: Coding) -> Self:
        return with_coding(self, coding)

    def check(self) -> int:
        strange = 0
        with self.reader() as reader:
            for number in range(self.units.blocks):
                _, y = reader.rows(*self.units.span(number), None)
                strange += int(np.isnan(y).sum())
        return strange

    @contextmanager
    def reader(self) -> Iterator[EncodedReader]:
        raw = [self.files.schema.names[self.names.index(name)] for name in self.columns]
        with self.files.cursor(raw, self.units.block) as cursor:
            yield EncodedReader(self, raw, cursor)


class EncodedReader:
    def __init__(self, table: EncodedTable, raw: Sequence[str], cursor: Cursor) -> None:
        self._table, self._raw, self._cursor = table, list(raw), cursor

    def rows(self, start: int, stop: int, which: Index | None) -> tuple[Any, Array]:
        schema, table = self._table.schema, self.table(start, stop, which)
        return encode_features(schema, table), self._table.coding.numbers(encode_target(schema, table))

    def table(self, start: int, stop: int, which: Index | None) -> pa.Table:
        pieces = [
            piece.select(self._raw) if some is None else piece.select(self._raw).take(some)
            for _, piece, some in self._cursor.slices(start, stop, which)
        ]
        return pa.Table.from_batches(pieces).rename_columns(list(self._table.columns))
