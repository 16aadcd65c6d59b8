"""Results of a program in memory that is given to it, the same in every run.

The operation that computes a result writes it there, by its variant with `out`. Where it has none, or what it computes
does not lie one number after the other, the result is copied there at the end. So is everything of a record that is
computed alone: its values may decide on a result's shape, which such a variant gives the memory too, and leaves in the
rest of it what it held of the record before. A copy fails, or repeats what is the record's own.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from sordino.oracle.torch.reach import drop_unused
from sordino.oracle.torch.simplification import is_reshape

aten = torch.ops.aten


class Result(NamedTuple):
    """A view of one of the buffers, or of one of the inputs, which are counted after them."""

    source: int
    shape: torch.Size


class _Placing:
    """The buffers so far, which become inputs in front of all others."""

    def __init__(self, graph: fx.Graph, copies: bool) -> None:
        self._graph, self._start, self._copies = graph, next(iter(graph.nodes)), copies
        self.buffers: list[Tensor] = []
        self._known: dict[fx.Node, int] = {}

    def place(self, root: fx.Node) -> int:
        """The number of the buffer in which this node's value will be."""
        if root not in self._known:
            one_of_several = root.target is operator.getitem
            source: fx.Node = root.args[0] if one_of_several else root  # type: ignore[assignment]
            if source not in self._known:
                self._known[source] = self._written(source)
            first = self._known[source]
            if first < 0:
                self._known[root] = len(self.buffers)
                with self._graph.inserting_before(self._graph.output_node()):
                    self._graph.call_function(aten.copy_.default, (self._buffer(root.meta["val"]), root))
            else:
                self._known[root] = first + (int(root.args[1]) if one_of_several else 0)  # type: ignore[arg-type]
        return self._known[root]

    def _written(self, node: fx.Node) -> int:
        """Have a node write into buffers, and give the number of the first; -1 where it cannot."""
        several = isinstance(node.meta.get("val"), tuple | list)
        values = node.meta["val"] if several else [node.meta.get("val")]
        variant = None if self._copies else _variant(node, len(values))
        if variant is None or not all(isinstance(value, Tensor) and value.is_contiguous() for value in values):
            return -1
        first = len(self.buffers)
        outs = {name: self._buffer(value) for name, value in zip(_outs(variant), values, strict=True)}
        with self._graph.inserting_before(node):
            written = self._graph.call_function(variant, node.args, {**node.kwargs, **outs})
        written.meta = dict(node.meta)
        node.replace_all_uses_with(written)
        self._graph.erase_node(node)
        self._known[written] = first
        return first

    def _buffer(self, value: Tensor) -> fx.Node:
        self.buffers.append(value)
        with self._graph.inserting_before(self._start):
            return self._graph.placeholder(f"buffer_{len(self.buffers)}")


def place_results(graph: fx.Graph, inputs: int | None) -> tuple[list[Tensor], list[Result]]:
    """Tensors like the buffers, and where the results will be.

    Inputs from position `inputs` on will stay where they are, so that a view of one needs no copy; without `inputs`, as
    of a record that is computed alone, everything is copied.
    """
    output, placing = graph.output_node(), _Placing(graph, copies=inputs is None)
    # while they are placed, nodes give way to others
    values = [(_root(node), node.meta["val"].shape) for node in output.args[0]]  # type: ignore[arg-type,union-attr]
    places = [
        (True, int(root.meta["position"]) - inputs)
        if inputs is not None and root.meta.get("position", -1) >= inputs
        else (False, placing.place(root))
        for root, _ in values
    ]
    output.args = ([],)
    drop_unused(graph)
    results = [
        Result(number + len(placing.buffers) * is_input, shape)
        for (is_input, number), (_, shape) in zip(places, values, strict=True)
    ]
    return placing.buffers, results


def _root(node: fx.Node) -> fx.Node:
    while is_reshape(node):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _variant(node: fx.Node, results: int) -> OpOverload | None:
    """The same operation with results in given memory."""
    own = node.target
    if not isinstance(own, OpOverload) or any(a.alias_info is not None for a in own._schema.arguments):
        return None
    wanted = [(argument.name, str(argument.type)) for argument in own._schema.arguments]
    packet = getattr(getattr(torch.ops, own.namespace), own._opname)
    for name in packet.overloads():
        other: OpOverload = getattr(packet, name)
        given = [(argument.name, str(argument.type)) for argument in other._schema.arguments if not argument.is_out]
        # one that is generated computes elsewhere and copies
        if given == wanted and len(_outs(other)) == results and torch.Tag.generated not in other.tags:
            return other
    return None


def _outs(operation: OpOverload) -> list[str]:
    return [argument.name for argument in operation._schema.arguments if argument.is_out]
