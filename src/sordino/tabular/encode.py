"""Records to rows of bounded norm, one record at a time: no row depends on another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from sordino.arrays import Array
from sordino.tabular.cells import require_columns, require_different_names, shown_kind
from sordino.tabular.schema import Boolean, Category, ClassTarget, Column, Number, Schema, block_width

WIDEST_DENSE = 200
"""Beyond this many columns rows are kept sparse: each has one entry per block."""

_NOT_THERE = ("", "na", "n/a", "nan", "null", "none")
"""Texts that mean a missing number or boolean, in any case. A category is missing only where its cell is empty."""

_TRUE = ("true", "yes", "t", "y", "1")
_FALSE = ("false", "no", "f", "n", "0")

_ACCEPT = 'accept missing ones with missing = "middle"'

_NUMERAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def encode_features(schema: Schema, data: Any) -> Array | sparse.csr_matrix:
    """The rows of a table, with every column of the schema; `data` is whatever `pyarrow.table` takes.

    Dense, or CSR when the schema is wider than `WIDEST_DENSE`.
    """
    table = _table(data, schema.columns)
    records, blocks = table.num_rows, len(schema.columns)
    # one entry per block: its value and the column it stands in
    values = np.empty((records, blocks))
    places = np.empty((records, blocks), dtype=np.int32)
    start = 0
    for block, (name, column) in enumerate(schema.columns.items()):
        values[:, block], offset = _encode(name, column, table.column(name))
        places[:, block] = start + offset
        start += block_width(column)
    ends = np.arange(0, values.size + 1, blocks)
    rows = sparse.csr_matrix((values.ravel(), places.ravel(), ends), shape=(records, schema.width))
    return rows if schema.width > WIDEST_DENSE else rows.toarray()


def encode_target(schema: Schema, data: Any) -> NDArray[Any]:
    """Class labels as texts, or numbers clipped to the public range and mapped to [-1, 1]."""
    target = schema.target
    column = _table(data, [target.column]).column(target.column)
    if not isinstance(target, ClassTarget):
        raw = _numbers(target.column, column)
        _refuse(np.isnan(raw), target.column, "no number", "a record without a target cannot be used; mend or drop it")
        return _scaled(raw, target.bounds)
    codes = _codes(_text(target.column, column), target.classes)
    _refuse(codes < 0, target.column, "no label among the schema's `classes`", "list every class, or mend the records")
    return np.array(target.classes)[codes]


def _table(data: Any, needed: Iterable[str]) -> pa.Table:
    try:
        table = data if isinstance(data, pa.Table) else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        table = None
    # outside of the block above, because what pyarrow says quotes cells
    if table is None:
        raise ValueError("the data is not a table: a column mixes texts and numbers, or has another length.")
    require_columns(needed, table.column_names, "the table")
    require_different_names(table.column_names, "the table")
    return table


def _encode(name: str, column: Column, cells: pa.ChunkedArray) -> tuple[Array, NDArray[np.int32] | int]:
    """The value of every record's entry in the block, and its place there."""
    match column:
        case Number():
            raw = _numbers(name, cells)
            if column.missing is None:
                _refuse(np.isnan(raw), name, "no number", f"mend the records, or {_ACCEPT}")
            return _scaled(raw, column), 0
        case Boolean():
            return _sign(name, column, cells), 0
        case Category():
            return np.ones(len(cells)), _place(name, column, cells)


def _scaled(raw: Array, column: Number) -> Array:
    scaled = (np.clip(raw, column.low, column.high) - column.centre) / column.half
    # once more: rounding may leave the quotient a hair above one
    return np.where(np.isnan(raw), 0.0, np.clip(scaled, -1.0, 1.0))


def _sign(name: str, column: Boolean, cells: pa.ChunkedArray) -> Array:
    text = pc.utf8_lower(_text(name, cells))
    codes = _codes(text, (*_TRUE, *_FALSE))
    missing = _codes(text, _NOT_THERE) >= 0
    _refuse((codes < 0) & ~missing, name, "neither true nor false", "mend the records, or make it a category")
    if column.missing is None:
        _refuse(missing, name, "neither true nor false", f"mend the records, or {_ACCEPT}")
    return np.where(missing, 0.0, np.where(codes < len(_TRUE), 1.0, -1.0))


def _place(name: str, column: Category, cells: pa.ChunkedArray) -> NDArray[np.int32]:
    text = _text(name, cells)
    codes = _codes(text, column.values)
    if column.missing is not None:
        empty = _codes(text, ("",)) >= 0
        codes = np.where(empty & (codes < 0), np.int32(column.values.index(column.missing)), codes)
    if column.other:
        return np.where(codes < 0, np.int32(len(column.values)), codes)
    _refuse(codes < 0, name, "a missing or unlisted value", "list it in `values`, or set other = true for all of them")
    return codes


def _numbers(name: str, cells: pa.ChunkedArray) -> Array:
    """Double precision, with nan where nothing is given."""
    kind = cells.type
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        if not _textual(kind):
            raise ValueError(f"column {name!r} holds {shown_kind(kind)} values: the schema asks for numbers.")
        text = pc.utf8_lower(_text(name, cells))
        cells = pc.if_else(pc.is_in(text, pa.array(_NOT_THERE)), None, text)
    try:
        numbers = pc.cast(cells, pa.float64(), safe=False)
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None:
        strange = ~_flags(pc.match_substring_regex(cells, _NUMERAL), where_null=True)
        _refuse(strange, name, "text that is not a number", "mend the records, or make it a category")
        raise ValueError(f"column {name!r} holds numbers out of reach of double precision.")
    found = np.asarray(pc.fill_null(numbers, np.nan).to_numpy(), dtype=float)
    _refuse(np.isinf(found), name, "an infinite number", "mend the records")
    return found


def _text(name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells as texts without the spaces around them; the empty text where nothing is given."""
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), None, cells)
    try:
        return pc.utf8_trim_whitespace(pc.fill_null(pc.cast(cells, pa.string()), ""))
    except pa.ArrowException:
        kind = shown_kind(cells.type)
    raise ValueError(f"column {name!r} holds {kind} values, which have no form as text.")


def _textual(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _codes(text: pa.ChunkedArray, values: Sequence[str]) -> NDArray[np.int32]:
    """The place of each text among `values`, -1 for none."""
    found = pc.index_in(text, pa.array(values, pa.string()))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int32)


def _flags(marks: pa.ChunkedArray, where_null: bool) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(marks, where_null).to_numpy(zero_copy_only=False), dtype=bool)


def _refuse(concerned: NDArray[np.bool_], name: str, what: str, remedy: str) -> None:
    if concerned.any():
        raise ValueError(f"column {name!r} has {what} in at least one record: {remedy}.")
