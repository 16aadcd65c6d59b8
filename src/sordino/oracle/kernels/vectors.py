"""Four doubles at a time, as values inside compiled loops.

A loop that adds up rows wants its registers laid out by hand: which rows share a load of the weights, and in what order
the four partial sums of a score are added, so that a record has the same score at every place of a tile. LLVM makes
these values the vector instructions of whatever processor it compiles for, two or four to a value where they are short.
Positions are flat ones in C-ordered arrays; float32 entries are widened as they are loaded, which rounds nothing.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

_LANES = 4
_DOUBLES = ir.VectorType(ir.DoubleType(), _LANES)
_WORD = ir.IntType(32)


class _Four(types.Type):
    def __init__(self) -> None:
        super().__init__(name="FourDoubles")


@register_model(_Four)
class _FourModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)


_FOUR = _Four()


@intrinsic  # type: ignore[untyped-decorator]
def load(context: Any, array: Any, position: Any) -> Any:
    """Four entries from this position on."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(_data(target, builder, signature, arguments), [arguments[1]])
        entry = place.type.pointee
        loaded = builder.load(builder.bitcast(place, ir.VectorType(entry, _LANES).as_pointer()), align=4)
        return _widened(builder, loaded)

    return _FOUR(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def column(context: Any, array: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """One entry from each of four positions."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _data(target, builder, signature, arguments)
        found = ir.Constant(ir.VectorType(data.type.pointee, _LANES), ir.Undefined)
        for lane, position in enumerate(arguments[1:]):
            entry = builder.load(builder.gep(data, [position]))
            found = builder.insert_element(found, entry, ir.Constant(_WORD, lane))
        return _widened(builder, found)

    return _FOUR(array, *[types.intp] * _LANES), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(context: Any, array: Any, position: Any, four: Any) -> Any:
    """Into an array of doubles."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(_data(target, builder, signature, arguments), [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, _DOUBLES.as_pointer()), align=8)
        return target.get_dummy_value()

    return types.void(array, types.intp, _FOUR), generate


@intrinsic  # type: ignore[untyped-decorator]
def spread(context: Any, number: Any) -> Any:
    """The same number four times."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(_DOUBLES, ir.Undefined)
        one = builder.insert_element(nothing, arguments[0], ir.Constant(_WORD, 0))
        return _shuffled(builder, one, nothing, [0] * _LANES)

    return _FOUR(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def zeros(context: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(_DOUBLES, [0.0] * _LANES)

    return _FOUR(), generate


@intrinsic  # type: ignore[untyped-decorator]
def multiply_add(context: Any, a: Any, x: Any, y: Any) -> Any:
    """a + x y, in one instruction where there is one."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, x, y = arguments
        return builder.fadd(a, builder.fmul(x, y, flags=("contract",)), flags=("contract",))

    return _FOUR(_FOUR, _FOUR, _FOUR), generate


@intrinsic  # type: ignore[untyped-decorator]
def plus(context: Any, x: Any, y: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return _FOUR(_FOUR, _FOUR), generate


@intrinsic  # type: ignore[untyped-decorator]
def times(context: Any, x: Any, y: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return _FOUR(_FOUR, _FOUR), generate


@intrinsic  # type: ignore[untyped-decorator]
def totals(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """The sums of four values, each (v0 + v1) + (v2 + v3) whichever of them it is."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, c, d = arguments
        near, far = (
            builder.fadd(_shuffled(builder, x, y, [0, 4, 2, 6]), _shuffled(builder, x, y, [1, 5, 3, 7]))
            for x, y in ((a, b), (c, d))
        )
        return builder.fadd(_shuffled(builder, near, far, [0, 1, 4, 5]), _shuffled(builder, near, far, [2, 3, 6, 7]))

    return _FOUR(_FOUR, _FOUR, _FOUR, _FOUR), generate


@intrinsic  # type: ignore[untyped-decorator]
def total(context: Any, four: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        v0, v1, v2, v3 = (builder.extract_element(arguments[0], ir.Constant(_WORD, lane)) for lane in range(_LANES))
        return builder.fadd(builder.fadd(v0, v1), builder.fadd(v2, v3))

    return types.float64(_FOUR), generate


@intrinsic  # type: ignore[untyped-decorator]
def widest(context: Any) -> Any:
    """Anywhere in a function: its loops become the widest instructions there are, and it is not copied into callers.

    By itself LLVM leaves half of a processor's 512 bits unused, because early ones slowed down for them.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        attributes = builder.function.attributes
        attributes.add("noinline")
        # llvmlite writes it out as it stands, but lists only attributes without a value as known
        set.add(attributes, '"prefer-vector-width"="512"')
        return target.get_dummy_value()

    return types.void(), generate


def _data(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return target.make_array(signature.args[0])(target, builder, arguments[0]).data


def _widened(builder: Any, four: Any) -> Any:
    return builder.fpext(four, _DOUBLES) if four.type != _DOUBLES else four


def _shuffled(builder: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_WORD, len(lanes)), lanes))
