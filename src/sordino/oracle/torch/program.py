"""A model and its loss as a fixed list of operations, found once on made-up records.

The model is written down as a function of one record: it is handed batches of one. `torch.func.vmap` carries what it
does over to all records of a pass, and inside it records cannot be mixed, but for what `reach` looks after. What runs
on records is the list, never the model's own code: what a model counts, remembers or decides cannot carry anything from
one record to another.
Where vmap cannot follow, the list is that of a single record, and is run for one after the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import CodeGen
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from sordino.oracle.torch import cross_entropy, group_norm, reach
from sordino.oracle.torch.alignment import align
from sordino.oracle.torch.draws import Draw, cut_out, is_random
from sordino.oracle.torch.pooling import turn_images
from sordino.oracle.torch.results import place_results
from sordino.oracle.torch.simplification import simplify
from sordino.privacy.randomness import Stream

aten = torch.ops.aten
OneRecord = Callable[..., Any]
"""Of zeros, own parameters, all other tensors of the model, an input and a target: a loss, and what to return too."""


class Untraceable(Exception):
    """What the model does cannot be written down in this way."""


class Given(NamedTuple):
    """What a function of one record is given beside the record; gradients are asked for of the first two."""

    zeros: list[Tensor]
    apart: list[Tensor]
    held: list[Tensor]

    def flat(self) -> list[Tensor]:
        return [*self.zeros, *self.apart, *self.held]


class Memory(NamedTuple):
    """Where a run leaves its results, each with the records on its first axis, and the memory they are views of.

    `shared` is what a pass computes from a parameter alone, by the parameter's place.
    """

    results: list[Tensor]
    buffers: list[Tensor]
    shared: dict[tuple[int, int], Tensor]


class Program:
    """The operations, and the inputs they need: the model's tensors, a pass of records, and random numbers.

    `one` is the function of a record, which also returns something else; `books` makes the results of its gradients and
    of that, where all of them have the records on their first axis.
    """

    def __init__(
        self,
        one: OneRecord,
        books: Callable[[Any, Any], list[Tensor]],
        given: Given,
        inputs: Tensor,
        targets: Tensor,
        together: bool,
        aligned: bool = False,
    ) -> None:
        self.together, self.aligned = together, aligned
        self._given = given
        gradients: OneRecord = torch.func.grad(one, argnums=(0, 1), has_aux=True)
        if together:
            gradients = torch.func.vmap(gradients, in_dims=(None, None, None, 0, 0), randomness="different")
        else:
            inputs, targets = inputs[0].clone(), targets[0].clone()

        def function(*arguments: Any) -> list[Tensor]:
            found = gradients(*arguments)
            return books(*(found if together else tree_map(lambda tensor: tensor.unsqueeze(0), found)))

        try:
            with torch.no_grad(), _plain_operations(), torch.random.fork_rng([]):
                module = make_fx(function)(*given, inputs, targets)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            raise Untraceable(str(error).partition("\n")[0][:200]) from error
        if together and (reason := reach.of_joined_places(module.graph)):
            raise Untraceable(reason)
        self._draws = _tidied(module.graph, given)
        if aligned:
            align(module.graph)
        self._buffers, self._results = place_results(module.graph, len(given.flat()) if together else None)
        turn_images(module.graph)
        used = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._positions = [int(node.meta["position"]) for node in used if "position" in node.meta]
        module.graph.set_codegen(CodeGen())
        module.graph.lint()
        module.recompile()
        # as ordinary attributes, which are faster to read
        vars(module).update(module._buffers)
        module._buffers.clear()
        self._module = module

    @property
    def is_random(self) -> bool:
        return bool(self._draws)

    def draw(self, stream: Stream, records: int) -> list[list[Tensor]]:
        """Random numbers for one run, or for several that are to have the same; per record where records run alone."""
        return [[draw.filled(stream) for draw in self._draws] for _ in range(1 if self.together else records)]

    def draw_alike(self, stream: Stream, records: int) -> list[list[Tensor]]:
        """The same random numbers for every record, so that records can be compared."""
        row = [(draw if not self.together else draw._replace(shape=(1, *draw.shape[1:]))) for draw in self._draws]
        drawn = [draw.filled(stream) for draw in row]
        if self.together:
            return [[t.expand(draw.shape).contiguous() for t, draw in zip(drawn, self._draws, strict=True)]]
        return [drawn] * records

    def memory(self, inputs: Tensor, targets: Tensor) -> Memory:
        """For the results of runs on records that will always lie in these tensors."""
        buffers = [torch.empty(b.shape, dtype=b.dtype, device=b.device) for b in self._buffers]
        lie_in = [*buffers, inputs, targets] if self.together else buffers
        results = [lie_in[result.source].view(result.shape) for result in self._results]
        if self.together:
            return Memory(results, buffers, {})
        # what is one tensor for a record is one for all of them
        whole = {
            (t.data_ptr(), t.shape): torch.zeros((len(inputs), *t.shape[1:]), dtype=t.dtype, device=t.device)
            for t in results
        }
        return Memory([whole[t.data_ptr(), t.shape] for t in results], buffers, {})

    def run(self, memory: Memory, inputs: Tensor, targets: Tensor, count: int, drawn: list[list[Tensor]]) -> bool:
        """Compute the results. Rows from `count` on are no records. Whether all went well: see `Passes.run`."""
        known = self._given.flat()
        if self.together:
            return self._run([*known, inputs, targets], memory.buffers, drawn[0])
        alone = [memory.buffers[result.source].view(result.shape) for result in self._results]
        for whole in memory.results:
            whole.zero_()
        for i in range(count):
            # in memory of its own: a view that reaches too far must not reach another record
            if self._run([*known, inputs[i].clone(), targets[i].clone()], memory.buffers, drawn[i]):
                for whole, row in zip(memory.results, alone, strict=True):
                    whole[i] = row[0]
            else:
                memory.results[-1][i] = torch.nan
        return True

    def _run(self, known: Sequence[Tensor], buffers: list[Tensor], drawn: list[Tensor]) -> bool:
        try:
            with torch.no_grad():
                self._module(*buffers, *drawn, *(known[position] for position in self._positions))
        except (RuntimeError, IndexError):
            # nothing of the error is kept: its message may hold a value of a record
            return False
        return True


@contextmanager
def _plain_operations() -> Iterator[None]:
    """PyTorch's own rules alone say what an operation does to many records: another one could mix them.

    Attention in one piece has no such rule, and draws by itself; it is written out.
    """

    def refuse(function: Any) -> bool:
        own = function in (group_norm.Forward, group_norm.Backward, cross_entropy.Forward, cross_entropy.Backward)
        if not own and function.vmap is not torch.autograd.Function.vmap:
            raise Untraceable("an autograd.Function of the model has a vmap rule of its own")
        return own

    functorch: Any = torch._C._functorch
    slow, fast = functorch._is_vmap_fallback_enabled(), torch.backends.mha.get_fastpath_enabled()
    functorch._set_vmap_fallback_enabled(False)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with (
            mock.patch("torch._functorch.autograd_function.has_overridden_vmap_rule", refuse),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield
    finally:
        functorch._set_vmap_fallback_enabled(slow)
        torch.backends.mha.set_fastpath_enabled(fast)


def _tidied(graph: fx.Graph, given: Given) -> list[Draw]:
    """Leave known operations alone in the graph, none of which draws or writes to what outlives a run."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for position, node in enumerate(inputs):
        node.meta["position"] = position
    _refuse_strangers(graph)
    reach.refuse_other_memory(graph)
    _refuse_writes(graph)
    for node in inputs[: len(given.zeros)]:
        _without_zeros(node)
    draws: list[Draw] = []

    def new_input(draw: Draw) -> fx.Node:
        draws.append(draw)
        with graph.inserting_before(inputs[0] if len(draws) == 1 else after[-1].next):
            after.append(graph.placeholder(f"drawn_{len(draws)}"))
        return after[-1]

    after: list[fx.Node] = []
    for node in list(graph.nodes):
        if node.op == "call_function" and is_random(node):
            cut_out(node, new_input)
    for node in list(graph.nodes):
        if node.target is aten.add.Tensor:
            _fused(node)
        elif node.op == "call_function" and node.target.__name__.partition(".")[0] in _UNFILLED:
            _filled(node)
    reach.keep_in_range(graph)
    simplify(graph, given.flat())
    reach.drop_unused(graph)
    for node in inputs:
        if not node.users:
            graph.erase_node(node)
    return draws


def _refuse_strangers(graph: fx.Graph) -> None:
    for node in graph.nodes:
        known = isinstance(node.target, OpOverload) and node.target.namespace in ("aten", "prims")
        if node.op == "call_function" and not known and node.target is not operator.getitem:
            raise ValueError(
                f"the model calls {node.target}, an operation from outside PyTorch, of which nobody here can know that "
                "it works on each record by itself: write it with PyTorch's own operations."
            )


def _refuse_writes(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if any(_owner(written).op in ("placeholder", "get_attr") for written in _written(node)):
            raise ValueError(CHANGES)


def _written(node: fx.Node) -> Iterator[fx.Node]:
    """The tensors that an operation writes to, by position or by name (`out`), alone or in a list."""
    arguments = node.target._schema.arguments if isinstance(node.target, OpOverload) else ()
    for position, argument in enumerate(arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            tensors = value if isinstance(value, list | tuple) else [value]
            yield from (tensor for tensor in tensors if isinstance(tensor, fx.Node))


CHANGES = (
    "the model changes its buffers, parameters or other tensors that it keeps while it computes, which would carry "
    "what it saw of one record to the next: compute from the record alone (nn.GroupNorm in place of running "
    "statistics), or put the layer into eval mode."
)


_UNFILLED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")


def _filled(node: fx.Node) -> None:
    """Memory that nobody has written to holds what was there before, perhaps of another record: zeros instead."""
    with node.graph.inserting_after(node):
        zeros = node.graph.call_function(aten.zeros_like.default, (node,))
    zeros.meta = dict(node.meta)
    node.replace_all_uses_with(zeros, delete_user_cb=lambda user: user is not zeros)


def _owner(node: fx.Node) -> fx.Node:
    """The tensor whose memory this one shares."""
    while node.op == "call_function":
        shared = node.target in (operator.getitem, aten._unsafe_view.default) or (
            isinstance(node.target, OpOverload) and any(a.alias_info is not None for a in node.target._schema.arguments)
        )
        if not shared or not isinstance(node.args[0], fx.Node):
            break
        node = node.args[0]
    return node


def _fused(add: fx.Node) -> None:
    """A product and a bias that vmap has taken apart, as one operation again: bias * 1 + view(a b)."""
    scaled, viewed = (add.args[0], add.args[1]) if len(add.args) == 2 else (None, None)
    if not (isinstance(scaled, fx.Node) and isinstance(viewed, fx.Node) and not add.kwargs):
        return
    if scaled.target is not aten.mul.Scalar or scaled.args[1] != 1 or viewed.target is not aten._unsafe_view.default:
        return
    bias, product = scaled.args[0], viewed.args[0]
    shapes = [node.meta["val"].shape for node in (bias, product, viewed, add) if isinstance(node, fx.Node)]
    once = len(viewed.users) == 1 and isinstance(product, fx.Node) and len(product.users) == 1
    if not (once and product.target is aten.mm.default and len(shapes) == 4):  # type: ignore[union-attr]
        return
    if len(shapes[0]) == 1 and shapes[0][0] == shapes[1][1] and shapes[2] == shapes[3]:
        with add.graph.inserting_before(add):
            whole = add.graph.call_function(aten.addmm.default, (bias, *product.args))  # type: ignore[union-attr]
            again = add.graph.call_function(aten.view.default, (whole, list(shapes[3])))
        whole.meta, again.meta = dict(product.meta), dict(add.meta)  # type: ignore[union-attr]
        add.replace_all_uses_with(again)
        add.graph.erase_node(add)


def _without_zeros(zeros: fx.Node) -> None:
    """What is added to a layer's output to ask for its gradient is zero, and need not be added."""
    for node in list(zeros.users):
        added_to = node.args[0] if node.target is aten.add.Tensor and node.args[1] is zeros else None
        # where a model has outputs of fewer digits (autocast), the sum has more
        if isinstance(added_to, fx.Node) and added_to.meta["val"].dtype == node.meta["val"].dtype:
            node.replace_all_uses_with(added_to)
            node.graph.erase_node(node)
