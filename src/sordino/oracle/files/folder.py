"""The files of one table, and a cursor that goes forward through their records."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sordino.arrays import Index
from sordino.oracle.files.arrow import ARROW, PARQUET, TableFile, opened
from sordino.oracle.files.source import Stamp
from sordino.tabular.cells import require_different_names, shown_kind, sparing_cells


@dataclass(frozen=True, eq=False)
class TableFiles:
    """Files with the same columns, in the order of their names. Group g of them all holds records starts[g..g+1]."""

    stamps: tuple[Stamp, ...]
    schema: pa.Schema
    groups: tuple[tuple[int, int], ...]
    """The file of every group, and its number there."""
    starts: NDArray[np.int64]

    @staticmethod
    def open(path: str | os.PathLike[str], used: Collection[str] | None = None) -> TableFiles:
        """Read what the files say of themselves. The columns that are used, None being all, must agree."""
        stamps = tuple(Stamp.of(file) for file in _listed(Path(path)))
        schema: pa.Schema | None = None
        groups: list[tuple[int, int]] = []
        lengths: list[int] = []
        for number, stamp in enumerate(stamps):
            if not stamp.size:
                raise ValueError(f"{stamp.path} has no records: the file is empty.")
            table = opened(stamp.path)
            try:
                # a batch may be of no records, and then is no group
                sizes = [(g, size) for g, size in enumerate(sparing_cells(stamp.path, table.lengths)) if size]
                found = table.schema
            finally:
                table.close()
            schema = found if schema is None else schema
            _require_same(stamps[0].path, schema, stamp.path, found, used)
            groups += [(number, group) for group, _ in sizes]
            lengths += [size for _, size in sizes]
        if not groups:
            raise ValueError(f"{path} has no records.")
        starts = np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))])
        return TableFiles(stamps, schema, tuple(groups), starts)

    @property
    def records(self) -> int:
        return int(self.starts[-1])

    @contextmanager
    def cursor(self, columns: Sequence[str], rows: int) -> Iterator[Cursor]:
        """Over these columns, in pieces of about `rows` records."""
        cursor = Cursor(self, columns, rows)
        try:
            yield cursor
        finally:
            cursor.close()


class Cursor:
    """Opens one file at a time, reads a group when one of its records is wanted, and never goes back."""

    def __init__(self, files: TableFiles, columns: Sequence[str], rows: int) -> None:
        self._files, self._columns, self._rows = files, columns, rows
        self._file = self._group = -1
        self._table: TableFile | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._batch: Any = None
        self._first = 0

    def slices(
        self, start: int, stop: int, which: Index | None
    ) -> Iterator[tuple[slice, pa.RecordBatch, Index | None]]:
        """Pieces with the wanted records among start..stop: where they go in the result, and where they are in it."""
        done, starts = 0, self._files.starts
        first = int(np.searchsorted(starts, start, side="right")) - 1
        for group in range(first, int(np.searchsorted(starts, stop))):
            low, high = max(start, int(starts[group])), min(stop, int(starts[group + 1]))
            if which is not None:
                wanted = which[slice(*np.searchsorted(which, [low - start, high - start]))] + start
                if not len(wanted):
                    continue
                low, high = int(wanted[0]), int(wanted[-1]) + 1
            for at, piece in self._pieces(group, low, high):
                some = None
                if which is not None:
                    some = wanted[slice(*np.searchsorted(wanted, [at, at + piece.num_rows]))] - at
                count = piece.num_rows if some is None else len(some)
                if count:
                    yield slice(done, done + count), piece, some
                    done += count

    def close(self) -> None:
        """Also a look whether the last file is still what it was."""
        if self._table is not None:
            self._table.close()
            self._table = None
            self._files.stamps[self._file].require_unchanged()

    def _pieces(self, group: int, low: int, high: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        if group != self._group:
            self._enter(group)
        while low < high:
            end = self._first + (0 if self._batch is None else self._batch.num_rows)
            if end <= low:
                self._first, self._batch = end, self._next()
                continue
            upto = min(high, end)
            yield low, self._batch.slice(low - self._first, upto - low)
            low = upto

    def _enter(self, group: int) -> None:
        file, number = self._files.groups[group]
        if file != self._file or self._table is None:
            self.close()
            stamp = self._files.stamps[file]
            stamp.require_unchanged()
            self._file, self._table = file, opened(stamp.path)
        self._group, self._batch, self._first = group, None, int(self._files.starts[group])
        self._batches = self._table.batches(number, self._columns, self._rows)

    def _next(self) -> pa.RecordBatch:
        stamp = self._files.stamps[self._file]
        try:
            batch = sparing_cells(stamp.path, lambda: next(self._batches, None))
        except ValueError:
            # a file that somebody writes to looks damaged
            stamp.require_unchanged()
            raise
        if batch is None:
            raise ValueError(f"{stamp.path} is damaged: it holds fewer records than it says.")
        return batch


def _listed(path: Path) -> list[Path]:
    """The file itself, or the tables in a folder and its subfolders."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    inside = [path] if path.is_file() else path.rglob("*")
    files = sorted(file for file in inside if file.is_file() and _shown(file, path))
    for file in files:
        if not file.name.lower().endswith((*PARQUET, *ARROW)):
            raise ValueError(
                f"{file} has a name that ends in none of {', '.join([*PARQUET, *ARROW])}: records that are read piece "
                "by piece must be in Parquet or Arrow files."
            )
    if not files:
        raise ValueError(f"{path} has no records: there are no Parquet or Arrow files in it.")
    return files


def _shown(file: Path, folder: Path) -> bool:
    # what writers leave beside the records, such as _SUCCESS, has such names
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _require_same(first: Path, schema: pa.Schema, path: Path, found: pa.Schema, used: Collection[str] | None) -> None:
    require_different_names([name.strip() for name in found.names], str(path))
    for place, name in enumerate(schema.names, start=1):
        if used is not None and name.strip() not in used:
            continue
        if name not in found.names:
            raise ValueError(f"{path} lacks column {place} of {first}: all files need columns of the same names.")
        here, there = found.field(name).type, schema.field(name).type
        if here != there:
            raise ValueError(
                f"column {place} of {first} holds {shown_kind(there)} values, and {shown_kind(here)} values in {path}: "
                "all files need the same columns."
            )
    if used is None and len(found.names) > len(schema.names):
        raise ValueError(
            f"{path} has {len(found.names)} columns and {first} has {len(schema.names)}: all files need the same."
        )
