"""Eight doubles at a time, as values inside compiled loops.

A loop that adds up rows wants its registers laid out by hand: which rows share a load of a sum, and in what order the
eight partial sums of a score are added, so that a record has the same score at every place of a tile. LLVM makes these
values the vector instructions of whatever processor it compiles for, two or four to a value where they are short.
Positions are flat ones in C-ordered arrays; float32 entries are widened as they are loaded, which rounds nothing. Where
a row ends before eight entries do, only the first ones of them are read or written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

_LANES = 8
_DOUBLES = ir.VectorType(ir.DoubleType(), _LANES)
_CHOSEN = ir.VectorType(ir.IntType(1), _LANES)
_WORD = ir.IntType(32)


class _Eight(types.Type):
    def __init__(self, name: str) -> None:
        super().__init__(name=name)


class _Doubles(_Eight):
    pass


class _Lanes(_Eight):
    pass


@register_model(_Doubles)
class _DoublesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _CHOSEN)


_EIGHT, _FIRST = _Doubles("EightDoubles"), _Lanes("FirstOfEight")


@intrinsic  # type: ignore[untyped-decorator]
def load(context: Any, array: Any, position: Any) -> Any:
    """Eight entries from this position on."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = builder.load(_place(target, builder, signature, arguments), align=4)
        return _widened(builder, loaded)

    return _EIGHT(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def first_lanes(context: Any, count: Any) -> Any:
    """Which of eight are the first `count` ones."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = ir.VectorType(arguments[0].type, _LANES)
        lanes = ir.Constant(numbers, list(range(_LANES)))
        return builder.icmp_signed("<", lanes, _everywhere(builder, arguments[0], numbers))

    return _FIRST(types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def load_first(context: Any, array: Any, position: Any, chosen: Any) -> Any:
    """The first ones of eight entries from this position on, and zeros for the rest."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(target, builder, signature, arguments)
        entries = place.type.pointee
        kind = ir.FunctionType(entries, [place.type, _WORD, _CHOSEN, entries])
        name = "llvm.masked.load.v8f64.p0" if entries == _DOUBLES else "llvm.masked.load.v8f32.p0"
        masked = cgutils.get_or_insert_function(builder.module, kind, name)
        nothing = ir.Constant(entries, [0.0] * _LANES)
        return _widened(builder, builder.call(masked, [place, _WORD(4), arguments[2], nothing]))

    return _EIGHT(array, types.intp, _FIRST), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(context: Any, array: Any, position: Any, eight: Any) -> Any:
    """Into an array of doubles."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(target, builder, signature, arguments), align=8)
        return target.get_dummy_value()

    return types.void(array, types.intp, _EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_first(context: Any, array: Any, position: Any, chosen: Any, eight: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(target, builder, signature, arguments)
        kind = ir.FunctionType(ir.VoidType(), [_DOUBLES, place.type, _WORD, _CHOSEN])
        masked = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.store.v8f64.p0")
        builder.call(masked, [arguments[3], place, _WORD(8), arguments[2]])
        return target.get_dummy_value()

    return types.void(array, types.intp, _FIRST, _EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator]
def spread(context: Any, number: Any) -> Any:
    """The same number eight times."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _everywhere(builder, arguments[0], _DOUBLES)

    return _EIGHT(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def zeros(context: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(_DOUBLES, [0.0] * _LANES)

    return _EIGHT(), generate


@intrinsic  # type: ignore[untyped-decorator]
def multiply_add(context: Any, a: Any, x: Any, y: Any) -> Any:
    """a + x y, in one instruction where there is one."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, x, y = arguments
        return builder.fadd(a, builder.fmul(x, y, flags=("contract",)), flags=("contract",))

    return _EIGHT(_EIGHT, _EIGHT, _EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator]
def plus(context: Any, x: Any, y: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return _EIGHT(_EIGHT, _EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator]
def times(context: Any, x: Any, y: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return _EIGHT(_EIGHT, _EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator]
def totals(context: Any, array: Any) -> Any:
    """The sums of eight values that lie one after the other, each added up as in `total` whichever of them it is."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        begin = _place(target, builder, signature, [*arguments, ir.Constant(_WORD, 0)])
        values = [builder.load(builder.gep(begin, [ir.Constant(_WORD, k)]), align=8) for k in range(_LANES)]
        # neighbours are added, then pairs of them, then fours; those of two values go on in one
        for step in (1, 2, 4):
            near = [2 * step * (k // (2 * step)) + k % step + _LANES * (k // step % 2) for k in range(_LANES)]
            far = [lane + step for lane in near]
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [builder.fadd(_shuffled(builder, x, y, near), _shuffled(builder, x, y, far)) for x, y in pairs]
        return values[0]

    return _EIGHT(array), generate


@intrinsic  # type: ignore[untyped-decorator]
def total(context: Any, eight: Any) -> Any:
    """((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))"""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left = [builder.extract_element(arguments[0], ir.Constant(_WORD, lane)) for lane in range(_LANES)]
        while len(left) > 1:
            left = [builder.fadd(x, y) for x, y in zip(left[::2], left[1::2], strict=True)]
        return left[0]

    return types.float64(_EIGHT), generate


@intrinsic  # type: ignore[untyped-decorator]
def as_it_stands(context: Any) -> Any:
    """Anywhere in a function: its loops are neither unrolled nor copied for every case of a condition.

    Where instructions are laid out by hand that makes them no faster, and takes long to compile.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("optsize")
        return target.get_dummy_value()

    return types.void(), generate


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


def _place(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Where eight entries of an array begin, of which the arguments are the first two."""
    data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
    place = builder.gep(data, [arguments[1]])
    return builder.bitcast(place, ir.VectorType(place.type.pointee, _LANES).as_pointer())


def _everywhere(builder: Any, number: Any, kind: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(_WORD, 0))
    return _shuffled(builder, one, nothing, [0] * _LANES)


def _widened(builder: Any, eight: Any) -> Any:
    return builder.fpext(eight, _DOUBLES) if eight.type != _DOUBLES else eight


def _shuffled(builder: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_WORD, len(lanes)), lanes))
