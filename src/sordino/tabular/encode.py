"""Records to rows of bounded norm, one record at a time: no row depends on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from sordino.arrays import Array
from sordino.tabular.cells import shown_kind
from sordino.tabular.columns import (
    INDICATOR,
    Boolean,
    Category,
    ClassTarget,
    Column,
    Date,
    Number,
    Ordinal,
    block_width,
)
from sordino.tabular.formats import NOT_THERE
from sordino.tabular.frames import to_arrow
from sordino.tabular.schema import Schema

Places = NDArray[np.int32]

WIDEST_DENSE = 200
"""Beyond this many columns rows are kept sparse: each has one entry per block."""

WIDEST_CURVES = 2000
"""The same for curves, whose columns need the centre that only dense rows are given."""

_RECORDS = 1 << 13
"""That are encoded at once: their rows stay in the cache while the columns are written one after the other."""

_TRUE = ("true", "yes", "t", "y", "1")
_FALSE = ("false", "no", "f", "n", "0")

_ACCEPT = 'accept missing ones with missing = "indicator" or "middle"'

_NUMERAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_A_DAY = 86_400e6
"""Microseconds."""


def encode_features(schema: Schema, data: Any) -> Array | sparse.csr_matrix:
    """The rows of a table, with every column of the schema: a data frame, an Arrow table or a dictionary of columns.

    Dense, or CSR when the schema is wider than `WIDEST_DENSE`, with curves than `WIDEST_CURVES`.
    """
    table = to_arrow(data, list(schema.columns))
    rows = RowBuffer(schema, table.num_rows)
    for batch in table.to_batches():
        rows.add(batch)
    return rows.finished()


def encode_target(schema: Schema, data: Any) -> NDArray[Any]:
    """Class labels as the schema lists them, or numbers clipped to the public range and mapped to [-1, 1]."""
    target, numbers = schema.target, encode_codes(schema, data)
    return np.array(target.sorted)[numbers.astype(np.intp)] if isinstance(target, ClassTarget) else numbers


def encode_codes(schema: Schema, data: Any) -> Array:
    """The target as `target_numbers` has it."""
    cells = to_arrow(data, [schema.target.column]).column(0)
    return np.concatenate([target_numbers(schema, chunk) for chunk in cells.chunks] or [np.empty(0)])


def target_numbers(schema: Schema, cells: pa.Array) -> Array:
    """The place of every label among the sorted classes, or numbers mapped from the public range to [-1, 1]."""
    target = schema.target
    if not isinstance(target, ClassTarget):
        raw = _numbers(target.column, cells)
        _refuse(np.isnan(raw), target.column, "no number", "a record without a target cannot be used; mend or drop it")
        return _scaled(raw, target.bounds)
    if isinstance(target.classes[0], bool):
        signs = _signs(target.column, cells)
        _refuse(signs == 0, target.column, "neither true nor false", "a record without a target cannot be used")
        return (signs + 1) / 2
    codes = _codes(target.column, cells, [str(label) for label in target.sorted])
    _refuse(codes < 0, target.column, "no label among the schema's `classes`", "list every class, or mend the records")
    return codes.astype(float)


def row_bytes(schema: Schema) -> int:
    """What an encoded record takes in memory."""
    # a sparse entry is a number and the place of its column
    return 12 * schema.entries if stays_sparse(schema) else 8 * schema.width


def stays_sparse(schema: Schema) -> bool:
    return schema.width > (WIDEST_DENSE if schema.curves is None else WIDEST_CURVES)


class RowBuffer:
    """The rows of batches of records, one after the other, in one piece of memory that grows where it is."""

    def __init__(self, schema: Schema, expected: int) -> None:
        self._whole, schema = schema, replace(schema, curves=None)
        self._schema = schema
        self._starts = np.cumsum([0, *map(block_width, schema.columns.values())]).tolist()
        self.records = 0
        # zeros that nobody has written to take no memory yet
        dense = not stays_sparse(schema)
        width = schema.width if dense else len(schema.columns)
        self._values = np.zeros((expected, width))
        self._places: Places | None = None if dense else np.zeros((expected, width), dtype=np.int32)

    def add(self, batch: pa.RecordBatch) -> None:
        """Records with the columns of the schema, in its order."""
        self._reserve(self.records + batch.num_rows)
        for first in range(0, batch.num_rows, _RECORDS):
            self._write(batch.slice(first, _RECORDS))

    def finished(self) -> Array | sparse.csr_matrix:
        rows, expansion = self._encoded(), self._whole.expansion
        if expansion is None:
            return rows
        return expansion.sparse(rows) if stays_sparse(self._whole) else expansion.dense(rows)

    def _encoded(self) -> Array | sparse.csr_matrix:
        """Without curves."""
        self._resize(self.records)
        if self._places is None:
            return self._values
        ends = np.arange(0, self._values.size + 1, self._values.shape[1])
        shape = (self.records, self._schema.width)
        return sparse.csr_matrix((self._values.ravel(), self._places.ravel(), ends), shape=shape)

    def _write(self, piece: pa.RecordBatch) -> None:
        part = slice(self.records, self.records + piece.num_rows)
        out, places = self._values[part], None if self._places is None else self._places[part]
        # where the rows begin in the flat matrix
        firsts = np.arange(0, out.size, out.shape[1])
        for block, ((name, column), start) in enumerate(zip(self._schema.columns.items(), self._starts, strict=False)):
            values, place = _encode(name, column, piece.column(block))
            if places is not None:
                out[:, block] = values
                places[:, block] = start + place
            elif isinstance(place, int):
                out[:, start + place] = values
            else:
                out.reshape(-1)[firsts + (start + place)] = values
        self.records = part.stop

    def _reserve(self, records: int) -> None:
        if records > len(self._values):
            self._resize(max(records, len(self._values) + len(self._values) // 4))

    def _resize(self, records: int) -> None:
        if records != len(self._values):
            # in place: nothing else refers to them yet
            self._values.resize((records, self._values.shape[1]), refcheck=False)
            if self._places is not None:
                self._places.resize((records, self._places.shape[1]), refcheck=False)


def _encode(name: str, column: Column, cells: pa.Array) -> tuple[Array | float, Places | int]:
    """The value of every record's one entry in the block, and its place there."""
    match column:
        case Number():
            return _number(name, column, _numbers(name, cells), "no number")
        case Date():
            return _number(name, column.days, _dates(name, column, cells), "no date")
        case Boolean():
            signs = _signs(name, cells)
            if column.missing is None:
                _refuse(signs == 0, name, "neither true nor false", f"mend the records, or {_ACCEPT}")
            if isinstance(column.missing, bool):
                return np.where(signs == 0, 2.0 * column.missing - 1, signs), 0
            return _marked(column.missing == INDICATOR, signs == 0, signs)
        case Ordinal():
            codes = _listed(name, column, cells)
            _refuse(codes == -1, name, "a missing or unlisted value", f"list it in `values`, or {_ACCEPT}")
            return _marked(column.missing == INDICATOR, codes == -2, 2 * codes / (len(column.values) - 1) - 1)
        case Category():
            codes, count = _listed(name, column, cells), np.int32(len(column.values))
            if column.other:
                codes[codes == -1] = count
            _refuse(
                codes == -1, name, "a missing or unlisted value", "list it in `values`, or set other = true for all"
            )
            codes[codes == -2] = count + column.other
            return 1.0, codes


def _number(name: str, column: Number, raw: Array, what: str) -> tuple[Array, Places | int]:
    missing, stand_in = np.isnan(raw), column.missing
    if not missing.any():
        return _scaled(raw, column), 0
    if stand_in is None:
        _refuse(missing, name, what, f"mend the records, or {_ACCEPT}")
    if isinstance(stand_in, int | float):
        return _scaled(np.where(missing, stand_in, raw), column), 0
    return _marked(stand_in == INDICATOR, missing, _scaled(raw, column))


def _marked(indicator: bool, missing: NDArray[np.bool_], values: Array) -> tuple[Array, Places | int]:
    """A missing one is a one in the second place, or where nothing is to mark it, a zero in the first."""
    if not indicator:
        return np.where(missing, 0.0, values), 0
    return np.where(missing, 1.0, values), missing.astype(np.int32)


def _scaled(raw: Array, column: Number) -> Array:
    scaled = np.clip(raw, column.low, column.high)
    scaled -= column.centre
    scaled /= column.half
    # once more: rounding may leave the quotient a hair above one
    return np.clip(scaled, -1.0, 1.0, out=scaled)


def _signs(name: str, cells: pa.Array) -> Array:
    """1, -1, or 0 where nothing is given."""
    if pa.types.is_boolean(cells.type) and not cells.null_count:
        return 2.0 * np.asarray(cells.to_numpy(zero_copy_only=False)) - 1
    codes = _codes(name, cells, (*_TRUE, *_FALSE, *NOT_THERE), fold=True)
    _refuse(codes < 0, name, "neither true nor false", "mend the records, or make it a category")
    return np.select([codes < len(_TRUE), codes < len(_TRUE) + len(_FALSE)], [1.0, -1.0], 0.0)


def _listed(name: str, column: Category | Ordinal, cells: pa.Array) -> Places:
    """The place of each cell among the values; -1 for what has none, -2 for what is missing and may be."""
    # the empty text may be a listed value: then the first place counts
    codes = _codes(name, cells, (*column.values, ""))
    if column.missing is None:
        instead = -1
    else:
        instead = column.values.index(column.missing) if column.missing in column.values else -2
    codes[codes == len(column.values)] = instead
    return codes


def _numbers(name: str, cells: pa.Array) -> Array:
    """Double precision, with nan where nothing is given."""
    kind = cells.type
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        if not _textual(kind):
            raise ValueError(f"column {name!r} holds {shown_kind(kind)} values: the schema asks for numbers.")
        cells = _given(_text(name, cells))
    try:
        numbers = cells if pa.types.is_float64(cells.type) else pc.cast(cells, pa.float64(), safe=False)
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None:
        strange = ~_flags(pc.match_substring_regex(cells, _NUMERAL), where_null=True)
        _refuse(strange, name, "text that is not a number", "mend the records, or make it a category")
        raise ValueError(f"column {name!r} holds numbers out of reach of double precision.")
    found = np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=float)
    _refuse(np.isinf(found), name, "an infinite number", "mend the records")
    return found


def _dates(name: str, column: Date, cells: pa.Array) -> Array:
    """Days since 1970, with nan where nothing is given."""
    kind, remedy = cells.type, "write dates as 2024-12-31, or tell their `format`"
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    try:
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            if not _textual(kind):
                raise ValueError(f"column {name!r} holds {shown_kind(kind)} values: the schema asks for dates.")
            cells = _given(_text(name, cells))
            if column.format is not None:
                cells = pc.strptime(cells, format=column.format, unit="us", error_is_null=False)
        zone = cells.type.tz if pa.types.is_timestamp(cells.type) else None
        moments = pc.cast(pc.cast(cells, pa.timestamp("us", zone), safe=False), pa.int64())
    except pa.ArrowInvalid:
        moments = None
    if moments is None:
        _refuse(np.ones(1, dtype=bool), name, "text that is not a date", remedy)
    days = np.asarray(pc.cast(moments, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=float)
    return days / _A_DAY


def _given(text: pa.Array) -> pa.Array:
    """Without the texts that mean that nothing is given."""
    text = pc.utf8_lower(text)
    return pc.if_else(pc.is_in(text, pa.array(NOT_THERE)), None, text)


def _text(name: str, cells: pa.Array) -> pa.Array:
    """Cells as texts without the spaces around them; the empty text where nothing is given."""
    return pc.utf8_trim_whitespace(pc.fill_null(_spelled(name, cells), ""))


def _spelled(name: str, cells: pa.Array) -> pa.Array:
    """Cells as texts, as they stand."""
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), None, cells)
    try:
        return cells if pa.types.is_string(cells.type) else pc.cast(cells, pa.string())
    except pa.ArrowException:
        kind = shown_kind(cells.type)
    raise ValueError(f"column {name!r} holds {kind} values, which have no form as text.")


def _textual(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _codes(name: str, cells: pa.Array, values: Sequence[str], fold: bool = False) -> Places:
    """The place of each cell's text among `values`, -1 for none; with `fold` in small letters."""
    if pa.types.is_dictionary(cells.type):
        # one search for every text that occurs, instead of one for every cell
        known = _codes(name, pa.concat_arrays([cells.dictionary, pa.nulls(1, cells.dictionary.type)]), values, fold)
        return known[_integers(cells.indices, len(known) - 1)]
    text = _spelled(name, cells)
    found = _integers(pc.index_in(text, pa.array(values, pa.string())), -1)
    missed = found < 0
    if missed.any():
        # most cells are spelled as the schema does: only the others are tidied up
        rest = _text(name, text.filter(pa.array(missed)))
        found[missed] = _integers(pc.index_in(pc.utf8_lower(rest) if fold else rest, pa.array(values, pa.string())), -1)
    return found


def _integers(cells: pa.Array, where_null: int) -> Places:
    cells = pc.fill_null(cells, where_null) if cells.null_count else cells
    return np.array(cells.to_numpy(zero_copy_only=False), dtype=np.int32)


def _flags(marks: pa.Array, where_null: bool) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(marks, where_null).to_numpy(zero_copy_only=False), dtype=bool)


def _refuse(concerned: NDArray[np.bool_], name: str, what: str, remedy: str) -> None:
    if concerned.any():
        raise ValueError(f"column {name!r} has {what} in at least one record: {remedy}.")
