"""The same results from fewer operations: on a small network, calling one costs more than what it computes.

What vmap writes down turns tensors over and back again and computes things twice. Every rewrite here keeps every
number to the last bit. Lists with an operation that works in place are left as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.fx.node import map_arg

aten = torch.ops.aten

_RESHAPES = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.expand.default,
    aten.permute.default,
}
_VIEWS = {aten.t.default, aten.transpose.int} | _RESHAPES
_FILLED = {aten.zeros_like.default, aten.ones_like.default}


def simplify(graph: fx.Graph, given: Sequence[Tensor]) -> None:
    """`given` are the first inputs by their position; what is in their memory changes, but not where it is."""
    if any(isinstance(node.target, OpOverload) and node.target._schema.is_mutable for node in graph.nodes):
        return
    _compute_once(graph)
    _give_images(graph)
    _hold_constants(graph, given)
    for node in graph.nodes:
        if node.target is aten.relu.default:
            # what it is made of, and can be told where to write
            node.target, node.args = aten.clamp_min.default, (node.args[0], 0)
        if is_reshape(node):
            _shorten(node)
        elif _is_call(node):
            _reshape_later(node)
    _compute_once(graph)


def _is_call(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and _value(node) is not None


def _compute_once(graph: fx.Graph) -> None:
    known: dict[tuple[object, str], fx.Node] = {}
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) or node.target is operator.getitem:
            first = known.setdefault((node.target, repr((node.args, node.kwargs))), node)
            if first is not node:
                node.replace_all_uses_with(first)


def _give_images(graph: fx.Graph) -> None:
    """The gradient of a convolution's input depends on the input's shape alone.

    vmap gives one number that is repeated, of which PyTorch then makes a whole batch; the input itself is there.
    """
    inputs = {
        (node.args[1], _shape(node.args[0])): node.args[0]
        for node in graph.nodes
        if node.target is aten.convolution.default
    }
    for node in graph.nodes:
        if node.target is aten.convolution_backward.default and node.args[-1] == [True, False, False]:
            image = inputs.get((node.args[2], _shape(node.args[1])))
            if image is not None:
                node.update_arg(1, image)


def _hold_constants(graph: fx.Graph, given: Sequence[Tensor]) -> None:
    """What follows from no record is computed here: constants, and views of the model's tensors."""
    module = graph.owning_module
    assert module is not None, "a traced graph has a module"
    known = {node: given[p] for node in graph.nodes if (p := node.meta.get("position", len(given))) < len(given)}
    constants: set[fx.Node] = set()
    for node in list(graph.nodes):
        constant = node.target in _FILLED or constants.issuperset(node.all_input_nodes)
        if not _is_call(node) or not (constant or (node.target in _VIEWS and node.args[0] in known)):
            continue
        result = _filled(node) if node.target in _FILLED else _computed(node, known)
        module.register_buffer(f"held_{node.name}", result)
        with graph.inserting_before(node):
            held = graph.get_attr(f"held_{node.name}")
        held.meta, known[held] = dict(node.meta), result
        if constant:
            constants.add(held)
        node.replace_all_uses_with(held)


def _filled(node: fx.Node) -> Tensor:
    like = node.args[0].meta["val"]  # type: ignore[union-attr]
    empty = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    result: Tensor = node.target(empty, *node.args[1:], **node.kwargs)  # type: ignore[operator]
    return result


def _computed(node: fx.Node, known: dict[fx.Node, Tensor]) -> Tensor:
    result: Tensor = node.target(*map_arg(node.args, known.__getitem__), **node.kwargs)  # type: ignore[operator]
    return result


def _shorten(node: fx.Node) -> None:
    """One view in the place of several, or none where the shape is what it was."""
    base, shape = _base(node.args[0]), node.meta["val"].shape  # type: ignore[arg-type]
    if _shape(base) == shape:
        node.replace_all_uses_with(base)
    else:
        node.target, node.args, node.kwargs = aten.view.default, (base, list(shape)), {}


def _reshape_later(node: fx.Node) -> None:
    """f(view(a), view(b)) = view(f(a, b)) where f works number by number: another view may follow, or the same f."""
    value, inputs = _value(node), node.all_input_nodes
    if value is None or node.kwargs or torch.Tag.pointwise not in node.target.tags:  # type: ignore[union-attr]
        return
    wide = [one for one in inputs if (given := _value(one)) is None or given.ndim > 0]
    shapes = {_shape(_base(one)) for one in wide}
    if {_shape(one) for one in wide} != {value.shape} or len(shapes) != 1 or not value.is_contiguous():
        return
    shape = shapes.pop()
    if not shape or shape == value.shape:
        return
    node.args = map_arg(node.args, _base)
    node.meta = {**node.meta, "val": value.view(shape)}
    with node.graph.inserting_after(node):
        again = node.graph.call_function(aten.view.default, (node, list(value.shape)))
    again.meta["val"] = value
    node.replace_all_uses_with(again, delete_user_cb=lambda user: user is not again)


def _base(node: fx.Node) -> fx.Node:
    return node.args[0] if is_reshape(node) else node  # type: ignore[return-value]


def is_reshape(node: fx.Node) -> bool:
    """Whether the numbers stay in their order: both tensors are as many numbers, one after the other."""
    if node.target not in _RESHAPES:
        return False
    before, after = _value(node.args[0]), _value(node)  # type: ignore[arg-type]
    if before is None or after is None:
        return False
    return before.is_contiguous() and after.is_contiguous() and before.numel() == after.numel()


def _shape(node: fx.Node) -> torch.Size | None:
    value = _value(node)
    return None if value is None else value.shape


def _value(node: fx.Node) -> Tensor | None:
    """A tensor of the shape and the dtype of the node's, where that is one tensor."""
    value = node.meta.get("val")
    return value if isinstance(value, Tensor) else None
