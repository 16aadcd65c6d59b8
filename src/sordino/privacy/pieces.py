"""A compiled loop over numbered pieces, by one thread or by several.

How many threads there are is the machine's business, so what a piece computes must depend on its number alone, and
what it writes must be its own.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_BYTE, _INT = ir.IntType(8).as_pointer(), ir.IntType(32)


@intrinsic  # type: ignore[untyped-decorator]
def each(context: Any, task: Any, count: Any, arguments: Any, team: Any) -> Any:
    """Call task(0, *arguments), .., task(count - 1, *arguments), each once; `task` is compiled and raises nothing.

    There are as many shares as threads, one after the other: share t of T begins with piece t count / T. Whoever comes
    takes the next share that nobody has, so that all are taken, and none twice, however many threads do come.
    """
    kinds = (types.intp, *arguments.types)
    compiled = task.dispatcher.get_compile_result(task.get_call_type(context, kinds, {}))

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        target.active_code_library.add_linking_library(compiled.library)
        _, count, values, who = given
        parallel, threads = cgutils.unpack_tuple(builder, who)
        state = cgutils.pack_struct(builder, [count.type(0), threads, count, values])
        place = builder.bitcast(cgutils.alloca_once_value(builder, state), _BYTE)
        loop = _of_a_thread(target, builder.module, state.type)
        start = ir.FunctionType(ir.VoidType(), [loop.type, _BYTE, _INT, _INT]).as_pointer()
        with builder.if_else(cgutils.is_null(builder, parallel)) as (alone, together):
            with alone:
                builder.call(loop, [place])
            with together:
                wanted = builder.trunc(threads, _INT)
                builder.call(builder.inttoptr(parallel, start), [loop, place, wanted, _INT(0)])
        return target.get_dummy_value()

    def _of_a_thread(target: Any, module: Any, kind: Any) -> Any:
        loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [_BYTE]), module.get_unique_name("pieces"))
        loop.linkage = "internal"
        builder = ir.IRBuilder(loop.append_basic_block())
        place = builder.bitcast(loop.args[0], kind.as_pointer())
        taken, *common = (cgutils.gep_inbounds(builder, place, 0, field) for field in range(4))
        threads, count, values = map(builder.load, common)
        one, arguments = count.type(1), cgutils.unpack_tuple(builder, values)
        next_share, some, end = (loop.append_basic_block() for _ in range(3))
        builder.branch(next_share)
        builder.position_at_end(next_share)
        share = builder.atomic_rmw("add", taken, one, "monotonic")
        builder.cbranch(builder.icmp_signed("<", share, threads), some, end)
        builder.position_at_end(some)
        first, last = (builder.sdiv(builder.mul(number, count), threads) for number in (share, builder.add(share, one)))
        with cgutils.for_range_slice(builder, first, last, one) as (piece, _):
            target.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, [piece, *arguments])
        builder.branch(next_share)
        builder.position_at_end(end)
        builder.ret_void()
        return loop

    return types.void(task, types.intp, arguments, team), generate
