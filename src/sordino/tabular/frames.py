"""Data frames of pandas, Polars, PyArrow and others as Arrow tables, and the kinds of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sordino.tabular.cells import require_columns, require_different_names


def require_table(data: Any, columns: Sequence[str]) -> Any:
    """The table as what its columns can be taken from, or a sentence that names the columns that it lacks."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    frame = data if isinstance(data, pa.Table | Mapping) else _frame(data)
    names = list(frame.keys() if isinstance(frame, Mapping) else _names(frame))
    require_columns(columns, names, "the table")
    require_different_names(names, "the table")
    return frame


def to_arrow(data: Any, columns: Sequence[str]) -> pa.Table:
    """These columns of a table; others are not looked at."""
    frame = require_table(data, columns)
    for name in () if isinstance(frame, pa.Table) else columns:
        _require_one_kind(name, _objects(frame[name]))
    try:
        if isinstance(frame, pa.Table):
            return frame.select(list(columns))
        if isinstance(frame, Mapping):
            return pa.table({name: _typed(frame[name]) for name in columns})
        return frame.select(list(columns)).to_arrow()
    except Exception as error:
        if not isinstance(error, pa.ArrowException | TypeError | ValueError | OverflowError):
            raise
    # outside of the block above, because what pyarrow says quotes cells
    raise ValueError("the data is not a table: a column has cells that no type of Arrow's holds, or another length.")


def _objects(column: Any) -> Sequence[Any]:
    """Python's objects of which pyarrow finds out the type; none of a column that has one."""
    values = column if isinstance(column, list | tuple) else getattr(column, "to_native", lambda: column)()
    if isinstance(values, list | tuple):
        return values
    # a categorical column has those that it lists
    kind = getattr(values, "dtype", None)
    values = getattr(kind, "categories", values)
    objects: Sequence[Any] = values if getattr(values, "dtype", None) == np.dtype(object) else ()
    return objects


def _typed(column: Any) -> Any:
    """A number that is none is a missing cell beside whatever, as in a data frame."""
    objects = isinstance(column, list | tuple) or (isinstance(column, np.ndarray) and column.dtype == np.dtype(object))
    return pa.array(column, from_pandas=True) if objects else column


def _require_one_kind(name: str, values: Sequence[Any]) -> None:
    """Raise a sentence where pyarrow would take all of Python's objects for what one of them is."""
    kinds = set(map(type, values))
    if any(issubclass(kind, float) for kind in kinds) and all(x != x for x in values if isinstance(x, float)):
        kinds = {kind for kind in kinds if not issubclass(kind, float)}
    if len({_alike(kind) for kind in kinds if kind.__name__ not in _MISSING}) > 1:
        raise ValueError(
            f"column {name!r} holds cells of more than one kind, such as texts and numbers, numbers and truth values, "
            "or dates and times of day: one would decide how all others are read. Give every record the same."
        )


_MISSING = ("NoneType", "NAType", "NaTType")
_ALIKE: tuple[tuple[type, ...], ...] = ((str,), (bool, np.bool_), (int, float, np.integer, Decimal), (datetime,))
"""Kinds of which one changes nothing about the value of another; all others go by themselves, short floats too."""


def _alike(kind: type) -> object:
    return next((kinds for kinds in _ALIKE if issubclass(kind, kinds)), kind)


def column_kinds(data: Any) -> dict[str, str]:
    """number, date, boolean, text or unknown, by the types of the columns alone."""
    frame = _frame(data)
    return {name: _kind(frame.schema[name]) for name in _names(frame)}


def _names(frame: Any) -> list[str]:
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


def _frame(data: Any) -> Any:
    try:
        import narwhals as nw
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is needed for data frames: pip install 'sordino[tables]'.", name=error.name
        ) from None
    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        twice = False
    except nw.exceptions.DuplicateError:
        twice = True
    # outside of the block above, because what Narwhals says quotes names that stand in the table alone
    if twice:
        raise ValueError("two columns of the table have the same name: give every column a name of its own.")
    raise TypeError(
        f"the data is a {type(data).__name__}: with a schema, give a data frame of pandas, Polars or another library "
        "that Narwhals knows, or a table of PyArrow; a lazy frame is collected first, and a file or a folder of them "
        "is sordino.files.EncodedTable(path, schema)."
    )


def _kind(dtype: Any) -> str:
    import narwhals as nw

    if dtype == nw.Boolean:
        return "boolean"
    if dtype.is_numeric():
        return "number"
    if dtype.is_temporal():
        return "date"
    return "text" if dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object) else "unknown"
