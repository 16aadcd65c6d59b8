"""From a table on disk to its encoded rows in memory, piece by piece: the table itself is never held as a whole."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from sordino.arrays import Array
from sordino.tabular.columns import Boolean, Category, ClassTarget, Number, Ordinal
from sordino.tabular.encode import RowBuffer, row_bytes, target_numbers
from sordino.tabular.files import TableFiles
from sordino.tabular.formats import Kinds
from sordino.tabular.schema import Schema


def open_table(path: str | os.PathLike[str], schema: Schema) -> TableFiles:
    """A CSV, Parquet or Arrow file, or a folder of them. Names are read, and whether the columns of files agree."""
    columns, target = schema.columns.items(), schema.target
    numbers = [name for name, column in columns if isinstance(column, Number)]
    texts = [name for name, column in columns if isinstance(column, Boolean | Category | Ordinal)]
    (texts if isinstance(target, ClassTarget) else numbers).append(target.column)
    return TableFiles.open(path, [*schema.columns, target.column], Kinds(frozenset(numbers), frozenset(texts)))


def read_features(files: TableFiles, schema: Schema) -> Any:
    """The rows of every record, dense or sparse."""
    rows = RowBuffer(schema, files.expected)
    for batch in files.read(list(schema.columns)):
        rows.add(batch)
    return rows.finished()


def read_records(files: TableFiles, schema: Schema) -> tuple[Any, Array]:
    """Rows, and the numbers of their targets."""
    found = read_small(files, schema, math.inf)
    assert found is not None
    return found


def read_small(files: TableFiles, schema: Schema, most: float) -> tuple[Any, Array] | None:
    """The same, or None where the rows take more than so many bytes."""
    largest = int(min(most, 2**62) // row_bytes(schema))
    if files.counted and files.records > largest:
        return None
    expected = min(files.expected, largest)
    rows, targets = RowBuffer(schema, expected), np.empty(expected)
    for batch in files.read([*schema.columns, schema.target.column]):
        first, last = rows.records, rows.records + batch.num_rows
        if last > largest:
            return None
        rows.add(batch)
        if last > len(targets):
            # in place: nothing else refers to them yet
            targets.resize(max(last, len(targets) + len(targets) // 4), refcheck=False)
        targets[first:last] = target_numbers(schema, batch.column(batch.num_columns - 1))
    targets.resize(rows.records, refcheck=False)
    return rows.finished(), targets
