"""Arrow cells to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.tabular.cells import in_double_precision


def is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def doubles(cells: Any) -> Array:
    """Double precision, with nan where nothing is given."""
    return np.asarray(in_double_precision(cells).to_numpy(zero_copy_only=False))


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
    if not pa.types.is_float32(cells.type):
        cells = in_double_precision(cells)
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
