"""The inner loops of encoding, compiled on first use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
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


def _to_pointer(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


_pointer: Any = intrinsic(_to_pointer)
"""Where a column lies, for `numba.carray`: it is used where it is, and whoever asks keeps it alive."""


def _prefetch(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # to read; kept in every cache; data and not instructions
        builder.call(hint, [builder.inttoptr(arguments[0], byte), *(ir.Constant(word, number) for number in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.intp), generate


_fetch: Any = intrinsic(_prefetch)
"""Have the cache line at an address brought, without waiting; of an address that is not there nothing is."""


@_kernel
def write_rows(
    raw: NDArray[np.intp],
    whole: NDArray[np.bool_],
    numbers: Array,
    number_blocks: NDArray[np.intp],
    codes: NDArray[np.intp],
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

    Number k of the records is at address raw[k] in 64 bits, as a whole number if whole[k], else in double precision and
    not a number where it is missing, and numbers[k] is its low, high, origin, unit, and what stands in and at which
    place; code k is at codes[k] in 32 bits, and entry_values and entry_places at offsets[k] + code are its entry. A
    block begins at starts[block]. `values` are whole rows, or in sparse form one entry per block beside its column in
    `places`. A negative place is refused: `met` is told, and nothing is written.
    """
    sparse, count = places.size > 0, values.shape[0]
    given = np.empty(_STRIP)
    scaled, entries = np.empty((raw.size, _STRIP)), np.empty((codes.size, _STRIP), dtype=np.int64)
    columns = number_blocks if sparse else starts[number_blocks]
    for first in range(0, count, _STRIP):
        some = min(_STRIP, count - first)
        for k in range(raw.size):
            low, high, origin, unit = numbers[k, 0], numbers[k, 1], numbers[k, 2], numbers[k, 3]
            # no processor looks ahead in as many columns as a table has
            for i in range(8 * (first + _STRIP), 8 * (first + 2 * _STRIP), 64):
                _fetch(raw[k] + i)
            if whole[k]:
                integers = numba.carray(_pointer(raw[k]), count, np.int64)
                for i in range(some):
                    given[i] = integers[first + i]
            else:
                floats = numba.carray(_pointer(raw[k]), count, np.float64)
                for i in range(some):
                    given[i] = floats[first + i]
            strange = 0
            for i in range(some):
                x = given[i]
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
                    x = given[i]
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
        for k in range(codes.size):
            listed = numba.carray(_pointer(codes[k]), count, np.int32)
            for i in range(some):
                entries[k, i] = offsets[k] + listed[first + i]
        # row by row: what lies side by side is written at once
        for i in range(some):
            for k in range(raw.size):
                values[first + i, columns[k]] = scaled[k, i]
            for k in range(codes.size):
                block, entry = code_blocks[k], entries[k, i]
                place = entry_places[entry]
                if place < 0:
                    met[block] |= -place
                elif sparse:
                    values[first + i, block] = entry_values[entry]
                    places[first + i, block] = starts[block] + place
                else:
                    values[first + i, starts[block] + place] = entry_values[entry]


def _load(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)

    return types.uint64(types.int64), generate


_eight_bytes: Any = intrinsic(_load)
"""At an address of any kind, as one number: an array could only be read at whole multiples of eight."""


def _inlined(function: F) -> F:
    part = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function)
    return cast(F, part)


@_inlined
def _few_bytes(data: int, size: int, at: int, count: int) -> Any:
    """Bytes at..at+count of the `size` at the address `data`, of which there are eight at least: count, or eight."""
    beyond = max(at + 8 - size, 0)
    word = _eight_bytes(data + at - beyond) >> np.uint64(min(8 * beyond, 63))
    return word if count >= 8 else word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))


@_inlined
def _both_ends(data: int, size: int, at: int, count: int) -> Any:
    """Of a text, and a sum of them and its length whose highest bits seldom are those of another text."""
    first = _few_bytes(data, size, at, count)
    last = _eight_bytes(data + at + count - 8) if count > 8 else first
    mixed = (first ^ np.uint64(count)) * np.uint64(0x9E3779B97F4A7C15) + last * np.uint64(0xC2B2AE3D27D4EB4F)
    return first, last, mixed


@_inlined
def _same_middle(one: int, other: int, count: int) -> Any:
    """Of two texts of the same length with the same ends."""
    k = 8
    while k < count - 8 and _eight_bytes(one + k) == _eight_bytes(other + k):
        k += 8
    return k >= count - 8


@_kernel
def find_texts(
    data: NDArray[np.uint8],
    ends: NDArray[np.int32],
    listed: NDArray[np.uint8],
    listed_ends: NDArray[np.int32],
    found: NDArray[np.int32],
) -> int:
    """The place of every text among those listed, into `found`, or their number; returns how many are not listed.

    Text i is data[ends[i]:ends[i + 1]]; there are eight bytes of data at least. Of a text that is listed twice the
    first place counts.
    """
    here, there, count, bits = data.ctypes.data, listed.ctypes.data, listed_ends.size - 1, 2
    while 1 << bits < 4 * count:
        bits += 1
    slots = np.full(1 << bits, -1, dtype=np.int32)
    firsts, lasts = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint64)
    down, most = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
    for k in range(count):
        firsts[k], lasts[k], mixed = _both_ends(there, listed.size, listed_ends[k], listed_ends[k + 1] - listed_ends[k])
        slot = mixed >> down
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & most
        slots[slot] = k
    missed = 0
    for i in range(found.size):
        start, length = int(ends[i]), int(ends[i + 1]) - int(ends[i])
        first, last, mixed = _both_ends(here, data.size, start, length)
        slot = mixed >> down
        place = int(slots[slot])
        while place >= 0:
            other = int(listed_ends[place])
            if (
                firsts[place] == first
                and lasts[place] == last
                and listed_ends[place + 1] - other == length
                and (length <= 16 or _same_middle(here + start, there + other, length))
            ):
                break
            slot = (slot + np.uint64(1)) & most
            place = int(slots[slot])
        found[i] = place if place >= 0 else count
        missed += int(place < 0)
    return missed
