"""A compiled loop over numbered pieces, by one thread or by several.

How many threads there are is the machine's business, so what a piece computes must depend on its number alone, and
what it writes must be its own.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

FAILED = "a piece of a loop was not computed, for want of memory perhaps: nothing was released."

_BYTE, _INT = ir.IntType(8).as_pointer(), ir.IntType(32)


@intrinsic  # type: ignore[untyped-decorator]
def each(context: Any, task: Any, count: Any, arguments: Any, team: Any) -> Any:
    """Call task(0, *arguments), .., task(count - 1, *arguments), each once; `task` is compiled.

    There are as many shares as threads, one after the other: share t of T begins with piece t count / T. Whoever comes
    takes the next share that nobody has, so that all are taken, and none twice, however many threads do come. Where a
    task fails, for want of memory say, the others are done all the same, and the loop raises RuntimeError.
    """
    kinds = (types.intp, *arguments.types)
    compiled = task.dispatcher.get_compile_result(task.get_call_type(context, kinds, {}))

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        target.active_code_library.add_linking_library(compiled.library)
        _, count, values, who = given
        parallel, threads = cgutils.unpack_tuple(builder, who)
        none = count.type(0)
        state = cgutils.alloca_once_value(builder, cgutils.pack_struct(builder, [none, none, threads, count, values]))
        place, loop = builder.bitcast(state, _BYTE), _of_a_thread(target, builder.module, state.type)
        start = ir.FunctionType(ir.VoidType(), [loop.type, _BYTE, _INT, _INT]).as_pointer()
        with builder.if_else(cgutils.is_null(builder, parallel)) as (alone, together):
            with alone:
                builder.call(loop, [place])
            with together:
                wanted = builder.trunc(threads, _INT)
                builder.call(builder.inttoptr(parallel, start), [loop, place, wanted, _INT(0)])
        failed = builder.load(cgutils.gep_inbounds(builder, state, 0, 1))
        with cgutils.if_unlikely(builder, builder.icmp_signed("!=", failed, none)):
            target.call_conv.return_user_exc(builder, RuntimeError, (FAILED,))
        return target.get_dummy_value()

    def _of_a_thread(target: Any, module: Any, kind: Any) -> Any:
        loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [_BYTE]), module.get_unique_name("pieces"))
        loop.linkage = "internal"
        builder = ir.IRBuilder(loop.append_basic_block())
        state = builder.bitcast(loop.args[0], kind)
        taken, failed, *common = (cgutils.gep_inbounds(builder, state, 0, field) for field in range(5))
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
            given = [piece, *arguments]
            status, _ = target.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, given)
            with cgutils.if_unlikely(builder, status.is_error):
                builder.store(one, failed)
        builder.branch(next_share)
        builder.position_at_end(end)
        builder.ret_void()
        return loop

    return types.void(task, types.intp, arguments, team), generate
