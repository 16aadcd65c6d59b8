"""The inner loop of encoding, compiled on first use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array

F = TypeVar("F", bound=Callable[..., object])

UNLISTED, MISSING, INFINITE = 1, 2, 4
"""What was met in a column that has no place for it."""

_STRIP = 64
"""Records whose numbers are scaled at once: they stay in the nearest cache until their rows are written."""


def _kernel(function: F) -> F:
    # nothing is reassociated or contracted: a row is the same whichever rows are encoded with it
    compiled = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, cache=True)(function)
    return cast(F, compiled)


@_kernel
def write_rows(
    raw: Array,
    numbers: Array,
    number_blocks: NDArray[np.intp],
    codes: NDArray[np.int32],
    offsets: NDArray[np.intp],
    code_blocks: NDArray[np.intp],
    entry_values: Array,
    entry_places: NDArray[np.intp],
    starts: NDArray[np.intp],
    values: Array,
    places: NDArray[np.int32],
    met: NDArray[np.uint8],
) -> None:
    """The rows of some records, as many as `values` has, into zeros: every block of a row gets one entry.

    Number k of record i is raw[k, i], not a number where it is missing, and numbers[k] is its low, high, origin, unit,
    and what stands in and at which place; code k is codes[k, i], and entry_values and entry_places at offsets[k] + code
    are its entry. A block begins at starts[block]. `values` are whole rows, or in sparse form one entry per block
    beside its column in `places`. A negative place is refused: `met` is told, and nothing is written.
    """
    sparse, count = places.size > 0, values.shape[0]
    scaled = np.empty((raw.shape[0], _STRIP))
    columns = number_blocks if sparse else starts[number_blocks]
    for first in range(0, count, _STRIP):
        some = min(_STRIP, count - first)
        for k in range(raw.shape[0]):
            low, high, origin, unit = numbers[k, 0], numbers[k, 1], numbers[k, 2], numbers[k, 3]
            strange = 0
            for i in range(some):
                x = raw[k, first + i]
                strange |= int(not abs(x) < math.inf)
                x = low if x < low else x
                x = high if x > high else x
                x = (x - origin) / unit
                # once more: rounding may leave the quotient a hair above one
                x = -1.0 if x < -1.0 else x
                scaled[k, i] = 1.0 if x > 1.0 else x
            if sparse:
                for i in range(first, first + some):
                    places[i, number_blocks[k]] = starts[number_blocks[k]]
            if strange:
                block, stand_in, place = number_blocks[k], numbers[k, 4], int(numbers[k, 5])
                for i in range(some):
                    x = raw[k, first + i]
                    if abs(x) == math.inf:
                        met[block] |= INFINITE
                    elif x != x and place <= 0:
                        scaled[k, i] = stand_in
                        met[block] |= -place
                    elif x != x and sparse:
                        scaled[k, i] = stand_in
                        places[first + i, block] += place
                    elif x != x:
                        scaled[k, i] = 0.0
                        values[first + i, starts[block] + place] = stand_in
        # row by row: what lies side by side is written at once
        for i in range(some):
            for k in range(raw.shape[0]):
                values[first + i, columns[k]] = scaled[k, i]
            for k in range(codes.shape[0]):
                block, entry = code_blocks[k], offsets[k] + codes[k, first + i]
                place = entry_places[entry]
                if place < 0:
                    met[block] |= -place
                elif sparse:
                    values[first + i, block] = entry_values[entry]
                    places[first + i, block] = starts[block] + place
                else:
                    values[first + i, starts[block] + place] = entry_values[entry]
