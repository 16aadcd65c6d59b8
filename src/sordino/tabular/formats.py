"""CSV, Parquet and Arrow files: their columns, their groups of records, and the records in pieces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from sordino.tabular.cells import sparing_cells

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
ENDINGS = (*CSV, *PARQUET, *ARROW)

NOT_THERE = ("", "na", "n/a", "nan", "null", "none")
"""Texts that mean a missing number or boolean, in any case. A category is missing only where its cell is empty."""

_LARGEST = 1 << 30
"""Bytes of an Arrow record batch, which is read as a whole."""
_PIECE = 1 << 16
"""Bytes of a column of Parquet that are read at once."""
_FEW = 1 << 14
"""Records of Parquet that one thread decodes."""
_COMMA = r"^(\s*[+-]?\d+),(\d*([eE][+-]?\d+)?\s*)$"
"""A number with a decimal comma."""
_HEADER = 1 << 20
"""Bytes at the beginning of a CSV file in which its header must end."""
_SHORTER = 4
"""How many times tables become shorter by compression, about."""


class TableFile(Protocol):
    """An open file of records in groups that can be read one by one."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def guess(self) -> int | None:
        """About how many records there are, where a file must be read to know; None where it says so itself."""
        ...

    def lengths(self) -> list[int]:
        """The number of records of every group."""
        ...

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The records of a group in pieces of about `rows`."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Kinds:
    """What the reader of a table will do with columns, by their names: it may then be given them in a handier form."""

    numbers: Collection[str] = ()
    categories: Collection[str] = ()


ANY = Kinds()


def at_once(length: int, rows: int) -> int:
    """How many records of a group are read at once where about so many are wanted."""
    # of a group that is little longer all: its pages are decompressed whole, and still in a cache while they are copied
    return length if length <= 2 * rows else rows


@dataclass(frozen=True)
class ParquetTable:
    """Row groups of any size: pages are decompressed as they are needed."""

    file: pa.parquet.ParquetFile
    guess = None

    @staticmethod
    def open(path: Path, kinds: Kinds) -> ParquetTable:
        metadata = pa.parquet.read_metadata(path)
        # texts stay the numbers that stand for them in the file
        texts = [name for name in metadata.schema.to_arrow_schema().names if name.strip() in kinds.categories]
        return ParquetTable(
            pa.parquet.ParquetFile(
                path, metadata=metadata, pre_buffer=False, buffer_size=_PIECE, read_dictionary=texts or None
            )
        )

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema_arrow

    def lengths(self) -> list[int]:
        metadata = self.file.metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        # to hand a small piece to threads takes longer than it gains
        threads, rows = rows > _FEW, at_once(self.file.metadata.row_group(group).num_rows, rows)
        yield from self.file.iter_batches(rows, row_groups=[group], columns=list(columns), use_threads=threads)

    def close(self) -> None:
        self.file.close()


@dataclass(frozen=True)
class ArrowTable:
    """Record batches of an Arrow IPC file (Feather version 2), each read as a whole, without mapping the file."""

    path: Path
    file: Any
    _readers: dict[tuple[int, ...], Any] = field(default_factory=dict)
    guess = None

    @staticmethod
    def open(path: Path, kinds: Kinds) -> ArrowTable:
        table = ArrowTable(path, pa.OSFile(str(path)))
        table._reader(())
        return table

    @property
    def schema(self) -> pa.Schema:
        return self._reader(()).schema

    def lengths(self) -> list[int]:
        if not self.schema.names:
            return []
        # of a single column no more than that column is read
        reader = self._reader((0,))
        return [reader.get_batch(group).num_rows for group in range(reader.num_record_batches)]

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        reader = self._reader(tuple(self.schema.get_field_index(name) for name in columns))
        batch = reader.get_batch(group)
        if batch.nbytes > _LARGEST:
            raise ValueError(
                f"{self.path} has a record batch of {batch.nbytes / 2**30:.1f} GiB, and each is read as a whole: write "
                "it with smaller ones, such as write_table(table, max_chunksize=65536)."
            )
        yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

    def close(self) -> None:
        self.file.close()

    def _reader(self, fields: tuple[int, ...]) -> Any:
        """That reads these columns alone; no numbers mean all of them."""
        if fields not in self._readers:
            options = pa.ipc.IpcReadOptions(included_fields=list(fields), use_threads=False)
            self._readers[fields] = pa.ipc.open_file(self.file, options=options)
        return self._readers[fields]


def _spellings(word: str) -> Iterator[str]:
    return map("".join, product(*({letter.lower(), letter.upper()} for letter in word)))


@dataclass(frozen=True)
class CsvTable:
    """Text, in one group, of which the cells stay text unless they are wanted as numbers and all are.

    The separator is the one that the header has most of; a byte order mark tells the encoding. With `;` between the
    cells a number may have a decimal comma.
    """

    path: Path
    delimiter: str
    encoding: str
    schema: pa.Schema
    kinds: Kinds
    guess: int

    @staticmethod
    def open(path: Path, kinds: Kinds) -> CsvTable:
        with pa.input_stream(str(path), compression="detect") as stream:
            start = bytes(stream.read(_HEADER))
        wide = start[:2] in (b"\xff\xfe", b"\xfe\xff")
        encoding, kept_bytes = ("utf-16", "replace") if wide else ("utf8", "surrogateescape")
        first = start.decode(encoding, errors=kept_bytes).lstrip("\ufeff\r\n")
        # what stands in quotes does not count, and may have several lines
        line = re.match(r'(?:"[^"]*"|[^\n])*', first)
        header = line[0] if line else ""
        separators = re.sub(r'"[^"]*"', "", header)
        usual = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
        delimiter = max((usual, ";", "\t", "|", ","), key=separators.count)
        # of the header alone: a reader of the file would be many records ahead before it is asked for one
        alone = pa.BufferReader(f"{header}\n".encode(errors=kept_bytes))
        with _csv(alone, delimiter, "utf8", pa.csv.ConvertOptions()) as reader:
            kept = [pa.field(name, pa.string()) for name in reader.schema.names]
        names, size = pa.schema(kept), path.stat().st_size * (_SHORTER if path.name.lower().endswith(".gz") else 1)
        # as many to the byte as at the beginning, and a few more: room for too many takes no memory until it is used
        guess = int(1.02 * start.count(b"\n") * size / max(1, min(len(start), size))) + 64
        return CsvTable(path, delimiter, encoding, names, kinds, min(guess, size // max(1, len(kept))))

    def lengths(self) -> list[int]:
        return [sum(batch.num_rows for batch in self._texts(self.schema.names[:1]))]

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        done = 0
        try:
            for batch in self._numbers(columns):
                yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
                done += batch.num_rows
            return
        except pa.ArrowInvalid:
            # a cell that is no number as files have them: as texts it can be looked at, from where this stopped
            pass
        for batch in self._texts(columns):
            rest = batch.slice(min(done, batch.num_rows))
            done -= batch.num_rows - rest.num_rows
            yield from (rest.slice(start, rows) for start in range(0, rest.num_rows, rows))

    def close(self) -> None:
        pass

    def _texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        commas = [k for k, name in enumerate(columns) if self.delimiter == ";" and name.strip() in self.kinds.numbers]
        for batch in self._read(columns, {}, "."):
            for place in commas:
                # one by one: a cell with a decimal point is a number too
                points = pc.replace_substring_regex(batch.column(place), _COMMA, r"\1.\2")
                batch = batch.set_column(place, batch.schema.field(place), points)
            yield batch

    def _numbers(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        numbers = {name: pa.float64() for name in columns if name.strip() in self.kinds.numbers}
        return self._read(columns, numbers, "," if self.delimiter == ";" else ".")

    def _read(self, columns: Sequence[str], numbers: dict[str, Any], decimal: str) -> Iterator[pa.RecordBatch]:
        options = pa.csv.ConvertOptions(
            include_columns=list(columns),
            column_types={**dict.fromkeys(columns, pa.string()), **numbers},
            null_values=_NULLS,
            decimal_point=decimal,
        )
        with _csv(self.path, self.delimiter, self.encoding, options) as reader:
            yield from reader


def _csv(where: Any, delimiter: str, encoding: str, options: pa.csv.ConvertOptions) -> pa.csv.CSVStreamingReader:
    return pa.csv.open_csv(
        where,
        read_options=pa.csv.ReadOptions(encoding=encoding),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=options,
    )


_NULLS = [spelling for word in NOT_THERE for spelling in _spellings(word)]


def opened(path: Path, kinds: Kinds) -> TableFile:
    name = path.name.lower()
    kind = ParquetTable if name.endswith(PARQUET) else ArrowTable if name.endswith(ARROW) else CsvTable
    return sparing_cells(path, lambda: kind.open(path, kinds))
