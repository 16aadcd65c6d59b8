"""Records to rows of bounded norm, one record at a time: no row depends on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from sordino.arrays import Array
from sordino.tabular.cell_kernels import INFINITE, MISSING, UNLISTED, find_texts, write_rows
from sordino.tabular.cells import in_double_precision, shown_kind
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

_BATCH = 1 << 14
"""Records that become rows at once."""

_SIGNS = (0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 2)
"""The codes of what follows, true being the first value and false the second, and of any other text."""
_TRUE = ("true", "yes", "t", "y", "1")
_FALSE = ("false", "no", "f", "n", "0")

_ACCEPT = 'accept missing ones with missing = "indicator" or "middle"'

_NUMERAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_A_DAY = 86_400e6
"""Microseconds."""
_LARGEST_WHOLE = 2.0**53
"""Beyond it, two whole numbers may be the same float."""
_EXACTLY = Context(prec=100)
"""More digits than a decimal has."""


def encode_features(schema: Schema, data: Any) -> Array | sparse.csr_matrix:
    """The rows of a table, with every column of the schema: a data frame, an Arrow table or a dictionary of columns.

    Dense, or CSR when the schema is wider than `WIDEST_DENSE`, with curves than `WIDEST_CURVES`.
    """
    table = to_arrow(data, list(schema.columns))
    rows = RowBuffer(schema, table.num_rows)
    for batch in table.to_batches(_BATCH):
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
        raw = numbers_in(target.column, cells)
        _refuse(np.isinf(raw), target.column, "an infinite number", "mend the records")
        _refuse(np.isnan(raw), target.column, "no number", "a record without a target cannot be used; mend or drop it")
        return np.asarray(_scaled(raw, target.bounds), dtype=np.float64)
    if isinstance(target.classes[0], bool):
        signs = _coded(_codes_of((target.column, Boolean()), cells))
        _refuse(signs > 1, target.column, "neither true nor false", "a record without a target cannot be used")
        return (1 - signs).astype(np.float64)
    labels = [str(label) for label in target.sorted]
    codes = _coded(_codes(target.column, cells, labels, (*range(len(labels)), -1)))
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
        if schema.unknown:
            raise ValueError(
                f"the values of column {schema.unknown[0]!r} are still to be discovered: fit a model with "
                "prepare='auto' or ['categories'], whose schema then has them, or list them."
            )
        self._whole, schema = schema, replace(schema, curves=None)
        self._schema, self._layout = schema, _Layout.of(schema)
        self.records = 0
        self._dense = not stays_sparse(schema)
        width = schema.width if self._dense else len(schema.columns)
        # zeros that nobody has written to take no memory yet
        self._values = np.zeros((expected, width))
        self._places = np.zeros((0, 0) if self._dense else (expected, width), dtype=np.int32)

    def add(self, batch: pa.RecordBatch) -> None:
        """Records with the columns of the schema, in its order."""
        self._reserve(self.records + batch.num_rows)
        layout, columns = self._layout, list(self._schema.columns.items())
        numbers = [
            _in_64_bits(_numbers_of(columns[block], batch.column(block))) for block in layout.number_blocks.tolist()
        ]
        found = [_codes_of(columns[block], batch.column(block)) for block in layout.code_blocks.tolist()]
        codes = [np.ascontiguousarray(places, dtype=np.int32) for places, _ in found]
        # a cell of a category is a place in a list of texts, of which each has a code, of which each has an entry
        entries = [offset + table for offset, (_, table) in zip(layout.offsets, found, strict=True)]
        table = np.concatenate([*entries, np.zeros(0, dtype=np.intp)])
        offsets = np.cumsum([0, *map(len, entries)])[:-1].astype(np.intp)
        values, places = layout.entry_values[table], layout.entry_places[table]
        met = np.zeros(len(columns), dtype=np.uint8)
        part = slice(self.records, self.records + batch.num_rows)
        write_rows(
            _addresses(numbers),
            np.array([cells.dtype == np.int64 for cells in numbers], dtype=bool),
            layout.numbers,
            layout.number_blocks,
            _addresses(codes),
            offsets,
            layout.code_blocks,
            values,
            places,
            layout.starts,
            self._values[part],
            self._places if self._dense else self._places[part],
            met,
        )
        for (name, column), what in zip(columns, met.tolist(), strict=True):
            if what:
                raise ValueError(f"column {name!r} has {_refusal(column, what)}.")
        self.records += batch.num_rows

    def finished(self) -> Array | sparse.csr_matrix:
        rows, expansion = self._encoded(), self._whole.expansion
        if expansion is None:
            return rows
        return expansion.sparse(rows) if stays_sparse(self._whole) else expansion.dense(rows)

    def _encoded(self) -> Array | sparse.csr_matrix:
        """Without curves."""
        self._resize(self.records)
        if self._dense:
            return self._values
        # as wide as the places, or SciPy makes a copy of one of them
        kind = np.int32 if self._values.size < 2**31 else np.int64
        ends = np.arange(0, self._values.size + 1, self._values.shape[1], dtype=kind)
        shape = (self.records, self._schema.width)
        return sparse.csr_matrix((self._values.ravel(), self._places.ravel(), ends), shape=shape)

    def _reserve(self, records: int) -> None:
        if records > len(self._values):
            self._resize(max(records, len(self._values) + len(self._values) // 4))

    def _resize(self, records: int) -> None:
        if records != len(self._values):
            # in place: nothing else refers to them yet
            self._values.resize((records, self._values.shape[1]), refcheck=False)
            if not self._dense:
                self._places.resize((records, self._places.shape[1]), refcheck=False)


def _in_64_bits(numbers: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as they are, others in double precision."""
    return np.ascontiguousarray(numbers, dtype=np.int64 if numbers.dtype == np.int64 else np.float64)


def _addresses(columns: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
    return np.array([column.__array_interface__["data"][0] for column in columns], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class _Layout:
    """A schema as the kernel knows it, see `write_rows`."""

    numbers: Array
    number_blocks: NDArray[np.intp]
    offsets: NDArray[np.intp]
    code_blocks: NDArray[np.intp]
    entry_values: Array
    entry_places: NDArray[np.intp]
    starts: NDArray[np.intp]

    @staticmethod
    def of(schema: Schema) -> _Layout:
        columns = list(schema.columns.values())
        numbers = {
            k: c.days if isinstance(c, Date) else c for k, c in enumerate(columns) if isinstance(c, Number | Date)
        }
        entries = {k: _entries(c) for k, c in enumerate(columns) if not isinstance(c, Number | Date)}
        sizes = [len(found) for found in entries.values()]
        table = np.array([entry for found in entries.values() for entry in found]).reshape(-1, 2)
        return _Layout(
            np.array([_number_row(column) for column in numbers.values()]).reshape(-1, 6),
            np.array(list(numbers), dtype=np.intp),
            np.cumsum([0, *sizes])[:-1].astype(np.intp),
            np.array(list(entries), dtype=np.intp),
            np.ascontiguousarray(table[:, 0]),
            table[:, 1].astype(np.intp),
            np.cumsum([0, *map(block_width, columns)])[:-1].astype(np.intp),
        )


_Entry = tuple[float, int]
"""A value, and its place in the block; a negative place is a refusal."""


def _number_row(column: Number) -> tuple[float, ...]:
    return column.low, column.high, column.origin, column.unit, *_stand_in(column.missing, column)


def _stand_in(missing: Any, column: Number) -> _Entry:
    match missing:
        case None:
            return 0.0, -MISSING
        case "indicator":
            return 1.0, 1
        case "middle":
            return _scaled(column.centre, column), 0
    return _scaled(float(missing), column), 0


def _entries(column: Boolean | Ordinal | Category) -> list[_Entry]:
    """Of every listed value, then of what is not listed, then of what is missing."""
    if isinstance(column, Category):
        values = column.values or ()
        listed = [(float(value != column.typical), place) for place, value in enumerate(values)]
        other = (1.0, column.slots) if column.other else (0.0, -UNLISTED)
        if column.missing == INDICATOR:
            return [*listed, other, (1.0, column.slots + column.other)]
        return [*listed, other, other if column.missing is None else listed[values.index(column.missing)]]
    places: list[float] = [1.0, -1.0] if isinstance(column, Boolean) else [float(k) for k in range(len(column.values))]
    missing: Any = column.missing
    if isinstance(missing, bool):
        missing = 2.0 * missing - 1
    elif isinstance(column, Ordinal) and missing in column.values:
        missing = column.values.index(missing)
    listed = [(_scaled(place, column.places), 0) for place in places]
    return [*listed, (0.0, -UNLISTED), _stand_in(missing, column.places)]


def _refusal(column: Column, what: int) -> str:
    if what & INFINITE:
        return "an infinite number in at least one record: mend the records"
    kinds = {
        Number: ("no number", "mend the records"),
        Date: ("no date", "mend the records"),
        Boolean: ("neither true nor false", "mend the records"),
        Ordinal: ("a missing or unlisted value", "list it in `values`"),
        Category: ("a missing or unlisted value", "list it in `values`, or set other = true for all"),
    }
    found, remedy = kinds[type(column)]
    if isinstance(column, Boolean) and what & UNLISTED:
        remedy = f"{remedy}, or make it a category"
    elif not isinstance(column, Category):
        remedy = f"{remedy}, or {_ACCEPT}"
    return f"{found} in at least one record: {remedy}"


def _numbers_of(named: tuple[str, Column], cells: pa.Array) -> Array:
    name, column = named
    return _dates(name, column, cells) if isinstance(column, Date) else numbers_in(name, cells)


_Coded = tuple[NDArray[Any], Places]
"""Of every cell a place in a list, and the code of everything that is listed."""


def _codes_of(named: tuple[str, Column], cells: pa.Array) -> _Coded:
    """The code of a cell is its place among the values, the next for what is not listed, the one after for missing."""
    name, column = named
    if isinstance(column, Boolean):
        if pa.types.is_boolean(cells.type) and not cells.null_count:
            return np.asarray(cells.to_numpy(zero_copy_only=False)), np.array([1, 0], dtype=np.int32)
        return _codes(name, cells, (*_TRUE, *_FALSE, *NOT_THERE), _SIGNS, fold=True)
    assert isinstance(column, Ordinal | Category)
    values = column.values or ()
    # the empty text may be a listed value: then the first place counts
    return _codes(name, cells, (*values, ""), (*range(len(values)), len(values) + 1, len(values)))


def _coded(found: _Coded) -> Places:
    places, table = found
    return table[places.astype(np.intp)]


def _scaled(raw: Any, column: Number) -> Any:
    scaled = (np.clip(raw, column.low, column.high) - column.origin) / column.unit
    # once more: rounding may leave the quotient a hair above one
    return np.clip(scaled, -1.0, 1.0)


def numbers_in(name: str, cells: pa.Array) -> Array:
    """Numbers of any kind, with nan where nothing is given."""
    kind = cells.type
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not cells.null_count:
        return np.asarray(cells.to_numpy(zero_copy_only=False))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        if not _textual(kind):
            raise ValueError(f"column {name!r} holds {shown_kind(kind)} values: numbers are needed.")
        cells = _given(texts_of(name, cells))
    try:
        numbers = in_double_precision(cells)
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None:
        strange = ~_flags(pc.match_substring_regex(cells, _NUMERAL), where_null=True)
        _refuse(strange, name, "text that is not a number", "mend the records, or make it a category")
        raise ValueError(f"column {name!r} holds numbers out of reach of double precision.")
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=float)


def _dates(name: str, column: Date, cells: pa.Array) -> Array:
    """Days since 1970, with nan where nothing is given."""
    kind, remedy = cells.type, "write dates as 2024-12-31, or tell their `format`"
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    try:
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            if not _textual(kind):
                raise ValueError(f"column {name!r} holds {shown_kind(kind)} values: the schema asks for dates.")
            cells = _given(texts_of(name, cells))
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


def texts_of(name: str, cells: pa.Array) -> pa.Array:
    """Cells as texts without the spaces around them; the empty text where nothing is given."""
    return pc.utf8_trim_whitespace(pc.fill_null(_spelled(name, cells), ""))


def _spelled(name: str, cells: pa.Array) -> pa.Array:
    """Cells as texts, as they stand.

    What is no text is written by its value alone: a column's type follows from all of its cells where Python's objects
    or a data frame are given, so that one record could change how those of all others are written.
    """
    if pa.types.is_dictionary(cells.type):
        return _spelled(name, cells.dictionary).take(cells.indices)
    if pa.types.is_floating(cells.type):
        return _spelled_floats(name, cells)
    if pa.types.is_decimal(cells.type):
        listed = cells.dictionary_encode()
        texts = [format(value.normalize(_EXACTLY), "f") for value in listed.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(listed.indices)
    if pa.types.is_timestamp(cells.type):
        # in whatever unit and time zone; without a fraction of a second that is zero
        text = pc.cast(pc.cast(cells, pa.timestamp("us"), safe=False), pa.string())
        return pc.replace_substring_regex(text, r"\.?0*$", "") if len(text) else text
    try:
        return cells if pa.types.is_string(cells.type) else pc.cast(cells, pa.string())
    except pa.ArrowException:
        kind = shown_kind(cells.type)
    raise ValueError(f"column {name!r} holds {kind} values, which have no form as text.")


def _spelled_floats(name: str, cells: pa.Array) -> pa.Array:
    """Whole numbers as if they were of a type of whole numbers: a data frame makes floats of them for a missing one."""
    cells = pc.if_else(pc.is_nan(cells), None, cells)
    numbers = pc.cast(cells, pa.float64())
    finite = pc.is_finite(numbers)
    whole = pc.and_(finite, pc.equal(numbers, pc.floor(numbers)))
    _refuse(
        _flags(pc.and_(finite, pc.greater_equal(pc.abs(numbers), _LARGEST_WHOLE)), where_null=False),
        name,
        "whole numbers beyond 2^53 as floats, of which two may be the same,",
        "give them as texts",
    )
    return pc.if_else(
        whole,
        pc.cast(pc.cast(pc.if_else(whole, numbers, None), pa.int64()), pa.string()),
        pc.cast(cells, pa.string()),
    )


def _textual(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _codes(name: str, cells: pa.Array, values: Sequence[str], codes: Sequence[int], fold: bool = False) -> _Coded:
    """By the place of a cell's text among `values`, to which `codes` belong, the last to none; `fold` ignores case."""
    table = np.array(codes, dtype=np.int32)
    if pa.types.is_dictionary(cells.type):
        # one search for every text that occurs, instead of one for every cell
        texts = cells.dictionary
        if cells.null_count:
            texts = pa.concat_arrays([texts, pa.nulls(1, texts.type)])
        places, _ = _codes(name, texts, values, codes, fold)
        return _integers(cells.indices, len(texts) - 1), table[places]
    text, known = _spelled(name, cells), pa.array(values, pa.string())
    found, missed = _found(text, known)
    if missed:
        # most cells are spelled as the schema does: only the others are tidied up
        others = found == len(values)
        rest = texts_of(name, text.filter(pa.array(others)))
        found[others] = _found(pc.utf8_lower(rest) if fold else rest, known)[0]
    return found, table


def _found(text: pa.Array, known: pa.Array) -> tuple[Places, int]:
    """The place of every text among those known, or their number, and how many are not known."""
    found = np.empty(len(text), dtype=np.int32)
    if not len(text):
        return found, 0
    return found, find_texts(
        *_characters(pc.fill_null(text, "") if text.null_count else text), *_characters(known), found
    )


def _characters(text: pa.Array) -> tuple[NDArray[np.uint8], Places]:
    """The bytes of all texts, eight at least, and where in them each begins, and the last ends."""
    _, ends, data = text.buffers()
    if data is None or data.size < 8:
        data = (b"" if data is None else data.to_pybytes()).ljust(8)
    places = np.frombuffer(ends, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    characters = np.frombuffer(data, dtype=np.uint8)
    # some of Arrow's memory can be written to and some cannot: all must look the same to compiled code
    places.flags.writeable = characters.flags.writeable = False
    return characters, places


def _integers(cells: pa.Array, where_null: int) -> NDArray[Any]:
    cells = pc.fill_null(cells, where_null) if cells.null_count else cells
    return np.asarray(cells.to_numpy(zero_copy_only=False))


def _flags(marks: pa.Array, where_null: bool) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(marks, where_null).to_numpy(zero_copy_only=False), dtype=bool)


def _refuse(concerned: NDArray[np.bool_], name: str, what: str, remedy: str) -> None:
    if concerned.any():
        raise ValueError(f"column {name!r} has {what} in at least one record: {remedy}.")
