"""The files of one table, and a cursor that goes forward through their records."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sordino.arrays import Index
from sordino.tabular.cells import require_columns, require_different_names, shown_kind, sparing_cells
from sordino.tabular.formats import ANY, ENDINGS, Kinds, TableFile, opened
from sordino.tabular.stamp import Stamp, require_different

_PIECE = 1 << 14
"""Records that are read at once, where all are."""


@dataclass(frozen=True, eq=False)
class TableFiles:
    """A table on disk of which the names and kinds of its columns have been read: a file, or all those of a folder.

    They have the same columns and are read in the order of their names. Group g of them all holds records
    starts[g..g+1].
    """

    path: Path
    stamps: tuple[Stamp, ...]
    schema: pa.Schema
    lengths: tuple[tuple[int, ...] | None, ...]
    """Of the groups of every file; None of a file that does not say them."""
    about: int
    """How many records there are, as far as can be told without counting."""
    kinds: Kinds = ANY

    @staticmethod
    def open(path: str | os.PathLike[str], used: Collection[str] | None = None, kinds: Kinds = ANY) -> TableFiles:
        """Read what the files say of themselves. The columns that are used, None being all, must agree."""
        path = Path(path)
        stamps = tuple(Stamp.of(file) for file in _listed(path))
        schema: pa.Schema | None = None
        lengths: list[tuple[int, ...] | None] = []
        about = 0
        for stamp in stamps:
            if not stamp.size:
                raise ValueError(f"{stamp.path} has no records: the file is empty.")
            table = opened(stamp.path, kinds)
            try:
                told = tuple(sparing_cells(stamp.path, table.lengths)) if table.guess is None else None
                about += table.guess or sum(told or ())
                found = table.schema
            finally:
                table.close()
            lengths.append(told)
            schema = found if schema is None else schema
            _require_same(stamps[0].path, schema, stamp.path, found, used)
        files = TableFiles(path, stamps, schema, tuple(lengths), about, kinds)
        if None not in lengths:
            files.groups  # noqa: B018  a table without records is told here
        return files

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns, without spaces around them."""
        return tuple(name.strip() for name in self.schema.names)

    def raw_names(self, columns: Sequence[str]) -> list[str]:
        """As the files have them; a sentence where there is none."""
        require_columns(columns, self.names, str(self.path))
        return [self.schema.names[self.names.index(name)] for name in columns]

    @property
    def counted(self) -> bool:
        """Whether the files say how many records they have, or have been read to know it."""
        return None not in self.lengths or "groups" in vars(self)

    @cached_property
    def groups(self) -> tuple[tuple[tuple[int, int], ...], NDArray[np.int64]]:
        """The file of every group and its number there, and the records at which they start."""
        places: list[tuple[int, int]] = []
        sizes: list[int] = []
        for number, (stamp, lengths) in enumerate(zip(self.stamps, self.lengths, strict=True)):
            for group, size in enumerate(self._counted(stamp) if lengths is None else lengths):
                # a batch may be of no records, and then is no group
                if size:
                    places.append((number, group))
                    sizes.append(size)
        if not places:
            raise ValueError(f"{self.path} has no records.")
        return tuple(places), np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))])

    @property
    def starts(self) -> NDArray[np.int64]:
        return self.groups[1]

    @property
    def records(self) -> int:
        return int(self.starts[-1])

    @property
    def expected(self) -> int:
        """About how many records there are: their number, if it is known."""
        return self.records if self.counted else self.about

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The given columns of every record, in pieces. Nothing is counted first."""
        raw, empty = self.raw_names(columns), True
        for stamp, lengths in zip(self.stamps, self.lengths, strict=True):
            stamp.require_unchanged()
            table = opened(stamp.path, self.kinds)
            try:
                for group in range(1 if lengths is None else len(lengths)):
                    pieces = table.batches(group, raw, _PIECE)
                    while (piece := next_piece(stamp, pieces)) is not None:
                        empty = empty and not piece.num_rows
                        yield piece.select(raw).rename_columns(list(columns))
            finally:
                table.close()
            stamp.require_unchanged()
        if empty:
            raise ValueError(f"{self.path} has no records.")

    @contextmanager
    def cursor(self, columns: Sequence[str], rows: int) -> Iterator[Cursor]:
        """Over these columns, by their names in the files, in pieces of about `rows` records."""
        cursor = Cursor(self, columns, rows)
        try:
            yield cursor
        finally:
            cursor.close()

    def _counted(self, stamp: Stamp) -> list[int]:
        stamp.require_unchanged()
        table = opened(stamp.path, self.kinds)
        try:
            return sparing_cells(stamp.path, table.lengths)
        finally:
            table.close()


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
        for place, batch, first, last, some in self.ranges(start, stop, which):
            yield place, batch.slice(first, last - first), some

    def ranges(
        self, start: int, stop: int, which: Index | None
    ) -> Iterator[tuple[slice, pa.RecordBatch, int, int, Index | None]]:
        """The same, of a piece what was decoded at once and from where to where: it comes again as long as it lasts."""
        done, starts = 0, self._files.starts
        first = int(np.searchsorted(starts, start, side="right")) - 1
        for group in range(first, int(np.searchsorted(starts, stop))):
            low, high = max(start, int(starts[group])), min(stop, int(starts[group + 1]))
            if which is not None:
                wanted = which[slice(*np.searchsorted(which, [low - start, high - start]))] + start
                if not len(wanted):
                    continue
                low, high = int(wanted[0]), int(wanted[-1]) + 1
            for at, begin, end in self._pieces(group, low, high):
                some, count = None, end - begin
                if which is not None:
                    some = wanted[slice(*np.searchsorted(wanted, [at, at + count]))] - at
                    count = len(some)
                if count:
                    yield slice(done, done + count), self._batch, begin, end, some
                    done += count

    def close(self) -> None:
        """Also a look whether the last file is still what it was."""
        if self._table is not None:
            self._table.close()
            self._table = None
            self._files.stamps[self._file].require_unchanged()

    def _pieces(self, group: int, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Of records low..high, piece by piece: which comes first, and where they are in what was decoded."""
        if group != self._group:
            self._enter(group)
        while low < high:
            end = self._first + (0 if self._batch is None else self._batch.num_rows)
            if end <= low:
                self._first, self._batch = end, self._next()
                continue
            upto = min(high, end)
            yield low, low - self._first, upto - self._first
            low = upto

    def _enter(self, group: int) -> None:
        file, number = self._files.groups[0][group]
        if file != self._file or self._table is None:
            self.close()
            stamp = self._files.stamps[file]
            stamp.require_unchanged()
            self._file, self._table = file, opened(stamp.path, self._files.kinds)
        self._group, self._batch, self._first = group, None, int(self._files.starts[group])
        self._batches = self._table.batches(number, self._columns, self._rows)

    def _next(self) -> pa.RecordBatch:
        stamp = self._files.stamps[self._file]
        batch = next_piece(stamp, self._batches)
        if batch is None:
            raise ValueError(f"{stamp.path} is damaged: it holds fewer records than it says.")
        return batch


def next_piece(stamp: Stamp, pieces: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """None at the end."""
    try:
        return sparing_cells(stamp.path, lambda: next(pieces, None))
    except ValueError:
        # a file that somebody writes to looks damaged
        stamp.require_unchanged()
        raise


def _listed(path: Path) -> list[Path]:
    """The file itself, or the tables in a folder and its subfolders."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    inside = [path] if path.is_file() else path.rglob("*")
    files = sorted(file for file in inside if file.is_file() and _shown(file, path))
    for file in files:
        if not file.name.lower().endswith(ENDINGS):
            raise ValueError(
                f"{file} has a name that ends in none of {', '.join(ENDINGS)}: save the table as one of them."
            )
    if not files:
        raise ValueError(f"{path} has no records: there are no tables in it.")
    require_different(files)
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
        # texts may be kept as codes in one file and as they are in another
        if _value_type(here) != _value_type(there):
            raise ValueError(
                f"column {place} of {first} holds {shown_kind(there)} values, and {shown_kind(here)} values in {path}: "
                "all files need the same columns."
            )
    if used is None and len(found.names) > len(schema.names):
        raise ValueError(
            f"{path} has {len(found.names)} columns and {first} has {len(schema.names)}: all files need the same."
        )


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
