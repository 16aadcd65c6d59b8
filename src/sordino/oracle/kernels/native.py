"""How the inner loops are compiled: serial, without the interpreter's lock, kept on disk for the next process.

Serial loops that a thread pool runs side by side are as fast as Numba's own parallel loops and compile ten times
faster. Sums may be reordered and fused; nothing assumes that NaN and infinity do not occur, because records hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

import sordino.losses
from sordino.privacy import pieces
from sordino.privacy.kept import kept, stamp_of

Function = TypeVar("Function", bound=Callable[..., Any])

_FOLDERS = (Path(__file__).parent, Path(sordino.losses.__file__).parent)
_STAMP = stamp_of([*(file for folder in _FOLDERS for file in sorted(folder.glob("*.py"))), Path(pieces.__file__)])
"""Of all kernels, the losses, and the loop that threads share."""

_ANY_ORDER = {"reassoc", "contract", "nsz"}


def compiled(function: Function) -> Function:
    """For loops whose sums may be evaluated in any order."""
    return _kept(function, _ANY_ORDER)


def inlined(function: Function) -> Function:
    """For what only kernels call: compiled into each of them, and kept on disk with it."""
    part: Function = numba.njit(
        nogil=True, error_model="numpy", fastmath=_ANY_ORDER, no_cfunc_wrapper=True, no_cpython_wrapper=True
    )(function)
    return part


def exact(function: Function) -> Function:
    """For arithmetic that relies on the order in which it is written."""
    return _kept(function, {"contract"})


def as_written(function: Function) -> Function:
    """For arithmetic of which every single operation is rounded, as NumPy does it."""
    return _kept(function, set())


def _kept(function: Function, fastmath: set[str]) -> Function:
    return kept(function, _STAMP, fastmath=fastmath)


def _bitcast(source: Any, target: Any) -> Any:
    def declare(context: Any, value: Any) -> Any:
        def generate(target_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], target_context.get_value_type(target))

        return target(source), generate

    return intrinsic(declare)


bits_of = _bitcast(types.float64, types.int64)
"""The 64 bits of a double as an integer."""

from_bits = _bitcast(types.int64, types.float64)
"""The double with these 64 bits."""


def _of_a_word(name: str, *more: Any) -> Any:
    """An instruction that takes 64 bits and says a number of them."""

    def declare(context: Any, word: Any) -> Any:
        def generate(target_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            bits = arguments[0].type
            kind = ir.FunctionType(bits, [bits, *(constant.type for constant in more)])
            return builder.call(builder.module.declare_intrinsic(name, [bits], kind), [arguments[0], *more])

        return types.int64(types.uint64), generate

    return intrinsic(declare)


number_of_bits = _of_a_word("llvm.ctpop")
"""How many bits of a word are set."""

lowest_bit = _of_a_word("llvm.cttz", ir.Constant(ir.IntType(1), 0))
"""The place of the lowest bit that is set, 64 where none is."""


@intrinsic  # type: ignore[untyped-decorator]
def pointer(context: Any, address: Any) -> Any:
    """Where an array lies, for `numba.carray`; whoever asks keeps the array alive."""

    def generate(target_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], target_context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def fetch(context: Any, array: Any, position: Any) -> Any:
    """Have the cache line of the flat position of a C-ordered array brought to the second cache, without waiting."""

    def generate(target_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = target_context.make_array(signature.args[0])(target_context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        # to read; kept for a short while; data and not instructions
        builder.call(hint, [address, *(ir.Constant(word, number) for number in (0, 1, 1))])
        return target_context.get_dummy_value()

    return types.void(array, position), generate


@intrinsic  # type: ignore[untyped-decorator]
def turn_eight(context: Any, columns: Any, k: Any, rows: Any, i: Any) -> Any:
    """rows[i + a, k + b] = number i + a of the column at address columns[k + b], a, b < 8, by way of registers."""

    def generate(target_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        addresses, matrix = (
            target_context.make_array(kind)(target_context, builder, array)
            for kind, array in zip(signature.args[::2], arguments[::2], strict=True)
        )
        k, i = arguments[1::2]
        number = matrix.data.type.pointee
        vector, lanes = ir.VectorType(number, 8).as_pointer(), ir.VectorType(ir.IntType(32), 8)
        found = []
        for b in range(8):
            place = builder.load(builder.gep(addresses.data, [builder.add(k, k.type(b))]))
            begin = builder.gep(builder.inttoptr(place, number.as_pointer()), [i])
            found.append(builder.load(builder.bitcast(begin, vector), align=4))
        # blocks of 4, 2 and 1 numbers change places with those on the other side of the diagonal
        for size in (4, 2, 1):
            above = lanes([lane if not lane & size else 8 + lane - size for lane in range(8)])
            below = lanes([lane + size if not lane & size else 8 + lane for lane in range(8)])
            for b in range(8):
                if not b & size:
                    pair = found[b], found[b + size]
                    found[b], found[b + size] = (builder.shuffle_vector(*pair, mask) for mask in (above, below))
        width = builder.extract_value(matrix.shape, 1)
        for a in range(8):
            place = builder.add(builder.mul(builder.add(i, i.type(a)), width), k)
            builder.store(found[a], builder.bitcast(builder.gep(matrix.data, [place]), vector), align=4)
        return target_context.get_dummy_value()

    return types.void(columns, types.intp, rows, types.intp), generate
