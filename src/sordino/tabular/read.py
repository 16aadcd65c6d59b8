"""Tables from CSV and Parquet files, only the columns that are asked for.

CSV cells stay text until the schema says what they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from sordino.tabular.cells import require_columns, require_different_names, sparing_cells

_DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class TableFile:
    """A table on disk of which the column names have been read, and nothing else."""

    path: Path
    names: tuple[str, ...] = field(repr=False)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """The given columns of every record."""
        require_columns(columns, self.names, str(self.path))
        table = sparing_cells(self.path, lambda: _read(self.path, [self.names.index(name) for name in columns]))
        if table.num_rows == 0:
            raise ValueError(f"{self.path} has no records.")
        return table.rename_columns(list(columns))


def open_table(path: str | os.PathLike[str]) -> TableFile:
    """Read the column names of a CSV or Parquet file, told apart by the end of its name."""
    path = Path(path)
    if not _ending(path):
        known = ", ".join([*_DELIMITERS, *_PARQUET])
        raise ValueError(f"{path} has a name that ends in none of {known}: save the table as CSV or Parquet.")
    with path.open("rb") as file:
        if not file.read(1):
            raise ValueError(f"{path} has no records: the file is empty.")
    names = tuple(name.strip() for name in sparing_cells(path, lambda: _raw_names(path)))
    require_different_names(names, str(path))
    return TableFile(path, names)


def _ending(path: Path) -> str:
    name = path.name.lower()
    return next((ending for ending in (*_DELIMITERS, *_PARQUET) if name.endswith(ending)), "")


def _raw_names(path: Path) -> list[str]:
    if _ending(path) in _PARQUET:
        with pa.parquet.ParquetFile(path) as file:
            return list(file.schema_arrow.names)
    with pa.csv.open_csv(path, parse_options=_dialect(path)) as reader:
        return list(reader.schema.names)


def _read(path: Path, places: Sequence[int]) -> pa.Table:
    raw = _raw_names(path)
    wanted = [raw[place] for place in places]
    if _ending(path) in _PARQUET:
        with pa.parquet.ParquetFile(path) as file:
            return file.read(columns=wanted).select(wanted)
    as_text = pa.csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()))
    return pa.csv.read_csv(path, parse_options=_dialect(path), convert_options=as_text)


def _dialect(path: Path) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(delimiter=_DELIMITERS[_ending(path)], newlines_in_values=True)
