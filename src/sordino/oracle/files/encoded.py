"""A table on disk, encoded by its public schema while it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from sordino.arrays import Array, Index
from sordino.oracle.files.source import AS_GIVEN, Coding, Labels, record_units, with_coding
from sordino.oracle.units import RecordUnits
from sordino.tabular.columns import ClassTarget
from sordino.tabular.encode import RowBuffer, row_bytes, stays_sparse, target_numbers
from sordino.tabular.files import Cursor, TableFiles
from sordino.tabular.read import open_table, read_small
from sordino.tabular.schema import Schema, require_schema
from sordino.tabular.stamp import identity

_FORMS = 2


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A CSV, Parquet or Arrow file, or a folder of them, as rows of its schema: no row depends on another.

    Rows that take up to `memory` bytes, in the two forms in which they may be held at a time (as they were read, and
    prepared or by columns), are held in memory; more are read as they are needed, for every pass.
    """

    path: str | os.PathLike[str]
    schema: Schema
    memory: float = 2.0**30
    coding: Coding = AS_GIVEN

    def __post_init__(self) -> None:
        require_schema(self.schema)
        self.files.raw_names(self.columns)

    @cached_property
    def files(self) -> TableFiles:
        return open_table(self.path, self.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """That the schema speaks of."""
        return (*self.schema.columns, self.schema.target.column)

    @property
    def shape(self) -> tuple[int, int]:
        return self.files.records, self.schema.width

    @property
    def units(self) -> RecordUnits:
        return record_units(self.shape[0], self.schema.entries if self.sparse else self.schema.width)

    @property
    def sparse(self) -> bool:
        return stays_sparse(self.schema)

    @property
    def identity(self) -> bytes:
        return identity(self.files.stamps, self.schema.to_toml())

    @property
    def row_bytes(self) -> int:
        return row_bytes(self.schema)

    def held(self) -> tuple[Any, Array] | None:
        """Rows and coded targets in memory, or None if that is not enough for them."""
        found = read_small(self.files, self.schema, self.memory / _FORMS)
        return None if found is None else (found[0], self.coding.encoded(found[1]))

    def coded(self, coding: Coding) -> Self:
        target = self.schema.target
        listed = target.sorted if isinstance(target, ClassTarget) else None
        if (coding.classes if isinstance(coding, Labels) else None) != listed:
            raise ValueError("the schema's target is of another kind, or has other classes, than the model's.")
        return with_coding(self, coding)

    def check(self) -> int:
        with self.reader() as reader:
            for number in range(self.units.blocks):
                reader.rows(*self.units.span(number), None)
        return 0

    @contextmanager
    def reader(self) -> Iterator[EncodedReader]:
        with self.files.cursor(self.files.raw_names(self.columns), self.units.block) as cursor:
            yield EncodedReader(self, cursor)


class EncodedReader:
    ahead = 1

    def __init__(self, table: EncodedTable, cursor: Cursor) -> None:
        self._table, self._cursor = table, cursor
        self._raw = table.files.raw_names(table.columns)

    def rows(self, start: int, stop: int, which: Index | None) -> tuple[Any, Array]:
        schema, count = self._table.schema, stop - start if which is None else len(which)
        rows, targets = RowBuffer(schema, count), np.empty(count)
        for place, piece, some in self._cursor.slices(start, stop, which):
            wanted = piece.select(self._raw) if some is None else piece.select(self._raw).take(some)
            rows.add(wanted)
            targets[place] = target_numbers(schema, wanted.column(wanted.num_columns - 1))
        return rows.finished(), self._table.coding.encoded(targets)
