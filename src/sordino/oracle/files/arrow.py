"""Parquet and Arrow files: their groups of records, and cells to numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.tabular.cells import sparing_cells

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")

_LARGEST = 1 << 30
"""Bytes of an Arrow record batch, which is read as a whole."""
_WHOLE = 1 << 26
"""Bytes up to which a row group of Parquet is read as a whole too."""


class TableFile(Protocol):
    """An open file of records in groups that can be read one by one."""

    @property
    def schema(self) -> pa.Schema: ...
    def lengths(self) -> list[int]:
        """The number of records of every group."""
        ...

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The records of a group in pieces of about `rows`."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ParquetTable:
    """Row groups of any size: pages are decompressed as they are needed."""

    file: pa.parquet.ParquetFile

    @staticmethod
    def open(path: Path) -> ParquetTable:
        metadata = pa.parquet.read_metadata(path)
        largest = max((metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)), default=0)
        # a row group of all its columns at once is faster, but one may be larger than memory
        pieces = 0 if largest <= _WHOLE else 1 << 18
        return ParquetTable(pa.parquet.ParquetFile(path, metadata=metadata, pre_buffer=False, buffer_size=pieces))

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema_arrow

    def lengths(self) -> list[int]:
        metadata = self.file.metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.file.iter_batches(rows, row_groups=[group], columns=list(columns))

    def close(self) -> None:
        self.file.close()


@dataclass(frozen=True)
class ArrowTable:
    """Record batches of an Arrow IPC file (Feather version 2), each read as a whole, without mapping the file."""

    path: Path
    file: Any
    _readers: dict[tuple[int, ...], Any] = field(default_factory=dict)

    @staticmethod
    def open(path: Path) -> ArrowTable:
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


def opened(path: Path) -> TableFile:
    kind = ParquetTable if path.name.lower().endswith(PARQUET) else ArrowTable
    return sparing_cells(path, lambda: kind.open(path))


def is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def doubles(cells: Any) -> Array:
    """Double precision, with nan where nothing is given."""
    return np.asarray(pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def is_single(kind: pa.DataType) -> bool:
    """Whether single precision holds every such number."""
    if pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_float32(kind) or pa.types.is_float16(kind))


def list_width(kind: pa.DataType) -> int | None:
    """1 for a number, the length of a list of numbers that always has the same; None for anything else."""
    if pa.types.is_fixed_size_list(kind) and is_number(kind.value_type):
        return int(kind.list_size)
    return 1 if is_number(kind) else None


def numbers_of(cells: Any, which: NDArray[np.intp] | None) -> NDArray[Any]:
    """A column of numbers or of lists of them, or its cells at `which`; nan where nothing is given."""
    numbers = _lists(cells) if pa.types.is_fixed_size_list(cells.type) else _numbers(cells)
    return numbers if which is None else numbers[which]


def _lists(cells: Any) -> NDArray[Any]:
    width = cells.type.list_size
    # `values` ignores where the array was cut, and what a missing list holds is anything
    numbers = _numbers(cells.values.slice(cells.offset * width, len(cells) * width)).reshape(len(cells), width)
    if not cells.null_count:
        return numbers
    numbers = numbers.astype(np.float64)
    numbers[np.asarray(cells.is_null().to_numpy(zero_copy_only=False))] = np.nan
    return numbers


def _numbers(cells: Any) -> NDArray[Any]:
    if not (pa.types.is_float32(cells.type) or pa.types.is_float64(cells.type)):
        cells = pc.cast(cells, pa.float64(), safe=False)
    numbers: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
    return numbers


def arrow_places(cells: Any, values: Sequence[Any]) -> NDArray[np.intp]:
    """The place of each cell among `values`, -1 for none."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if pa.types.is_null(cells.type):
        return np.full(len(cells), -1, dtype=np.intp)
    known = pa.array(values)
    try:
        # texts are not numbers: "1" is another label than 1
        known = known.cast(cells.type) if is_number(known.type) == is_number(cells.type) else None
    except pa.ArrowException:
        known = None
    if known is None:
        return np.full(len(cells), -1, dtype=np.intp)
    found = pc.fill_null(pc.index_in(cells, known), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.intp)
