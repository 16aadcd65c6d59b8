"""What may be said about a table that does not fit: columns, never cells.

An error message lands in logs and bug reports, which no budget covers. So it names columns, and of a record it says
that there is one that does not fit: neither what its cells hold nor which record it is, nor how many there are.

A name is quoted only if the caller gave it too, in a schema or as an argument. A name that stands in the table alone is
told by its place, because the header of a table that was written without one is its first record. What pyarrow says is
never passed on: it quotes cells.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


def require_columns(needed: Iterable[str], names: Sequence[str], where: str) -> None:
    """Raise a sentence that names every needed column that is not there, and the place of one with a similar name."""
    needed = list(needed)
    if needed and not set(needed) & set(names):
        raise ValueError(
            f"{where} has none of the columns that are needed: {_listed(needed)}. Columns are found by "
            "the names in a table's header: add one if there is none, or name the columns as it does."
        )
    absent = [f"{name!r}{_hint(name, names)}" for name in needed if name not in names]
    if absent:
        raise ValueError(
            f"{where} lacks {len(absent)} of the columns that are needed: {', '.join(absent)}. Rename them in the "
            "table, or name the columns as it does."
        )


def require_different_names(names: Sequence[str], where: str) -> None:
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if first.setdefault(name, place) < place:
            raise ValueError(
                f"columns {first[name]} and {place} of {where} have the same name: give every column a name of its own."
            )


def shown_kind(kind: pa.DataType) -> str:
    """The kind of a column's values. What is nested is not spelled out: names inside it may come from cells."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return "nested" if pa.types.is_nested(kind) else str(kind)


def in_double_precision(cells: pa.Array) -> pa.Array:
    """Numbers, or texts of them, each rounded by itself."""
    if pa.types.is_decimal(cells.type):
        # by their texts: Arrow would round them by way of a power of ten, which is that of the longest of a column
        cells = pc.cast(cells, pa.string())
    return cells if pa.types.is_float64(cells.type) else pc.cast(cells, pa.float64(), safe=False)


def sparing_cells(path: Path, read: Callable[[], T]) -> T:
    """`read()`, with a sentence of our own where pyarrow cannot go on."""
    try:
        return read()
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        text = str(error)
    # outside of the block above, so that what pyarrow said is not kept in the error's context either
    if "Empty CSV" in text:
        raise ValueError(f"{path} has no records: the file is empty.")
    if "columns, got" in text:
        raise ValueError(
            f"{path} has a line with more or fewer fields than its header: a comma or a quote too many or too few, or "
            "a damaged file."
        )
    if "utf" in text.lower():
        raise ValueError(f"{path} is not UTF-8 text: save it again in that encoding.")
    raise ValueError(f"{path} is damaged, or is not what its name says: it could not be read as a table.")


def _hint(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, 1)
    return f" (column {names.index(close[0]) + 1} has a similar name)" if close else ""


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(map(repr, names[:most])) + (" .." if len(names) > most else "")
