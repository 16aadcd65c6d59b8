"""Tables from CSV and Parquet files, only the columns that are asked for.

CSV cells stay text until the schema says what they are. What the reader of the format says about a damaged file is
not passed on: it quotes cells, and an error message may land in a log.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

_DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_PARQUET = (".parquet", ".pq")

T = TypeVar("T")


@dataclass(frozen=True)
class TableFile:
    """A table on disk of which the column names have been read, and nothing else."""

    path: Path
    names: tuple[str, ...]

    def read(self, columns: Sequence[str]) -> pa.Table:
        """The given columns of every record."""
        require_columns(columns, self.names, str(self.path))
        table = _sparing_cells(self.path, lambda: _read(self.path, [self.names.index(name) for name in columns]))
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
    names = tuple(name.strip() for name in _sparing_cells(path, lambda: _raw_names(path)))
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{path} has more than one column {repeated[0]!r}: give every column a name of its own.")
    return TableFile(path, names)


def require_columns(needed: Iterable[str], names: Sequence[str], where: str) -> None:
    """Raise a sentence that names every column that is not there, and what comes close to it."""
    absent = []
    for name in needed:
        if name not in names:
            close = difflib.get_close_matches(name, names, 2)
            absent.append(f"{name!r}" + (f" (close to it: {', '.join(map(repr, close))})" if close else ""))
    if absent:
        raise ValueError(
            f"{where} lacks {len(absent)} of the schema's columns: {', '.join(absent)}. "
            "Rename them in the table or in the schema."
        )


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


def _sparing_cells(path: Path, read: Callable[[], T]) -> T:
    """`read()`, with a sentence that quotes no cell in place of the reader's own."""
    try:
        return read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        text = str(error)
    if "Empty CSV" in text:
        raise ValueError(f"{path} has no records: the file is empty.")
    if fields := re.search(r"Expected (\d+) columns, got (\d+)", text):
        raise ValueError(
            f"{path} has a line with {fields[2]} fields where the header has {fields[1]}: a comma or a quote too many "
            "or too few, or a damaged file."
        )
    if re.search(r"utf-?8", text, re.IGNORECASE):
        raise ValueError(f"{path} is not UTF-8 text: save it again in that encoding.")
    raise ValueError(f"{path} is damaged, or is not what its name says: it could not be read as a table.")
