"""Operations that go where a number points them: beyond a record's own memory another record's may lie.

Most of PyTorch's operations refuse such a number, and the record counts for nothing. Those here do not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from sordino.oracle.torch.draws import is_random

aten = torch.ops.aten

_OTHER_MEMORY = (
    *("resize", "resize_", "resize_as", "resize_as_", "resize_as_sparse_", "set", "set_", "segment_reduce"),
    # begins with an order of columns that PyTorch has not written down (gelsy, its default)
    "linalg_lstsq",
)

_BAGS = ("_embedding_bag", "_embedding_bag_forward_only")


def of_joined_places(graph: fx.Graph) -> str | None:
    """Why records cannot be computed together: vmap joins what they have of their own into one.

    A place beyond a record's, or one that is counted from its end, would be another record's.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    of_records = set(inputs[-2:])
    for node in graph.nodes:
        if is_random(node) or not of_records.isdisjoint(node.all_input_nodes):
            of_records.add(node)
        if node.target is aten.embedding.default and node.args[0] in of_records:
            return "it looks words up in a table that it computes from the record"
        if _name(node) in ("index_fill", "index_fill_") and node.args[2] in of_records:
            return "it fills places whose numbers follow from the record"
    return None


def refuse_other_memory(graph: fx.Graph) -> None:
    for node in graph.nodes:
        # at the places of a sparse tensor nobody looks before its numbers are written there
        if _name(node) in _OTHER_MEMORY or _name(node).startswith("_sparse_coo_tensor"):
            raise ValueError(
                f"the model calls {node.target}, which may show memory that it never wrote to, and what another record "
                "has left there: make new tensors, by torch.zeros or torch.cat, add up by torch.scatter_add, and solve "
                "by torch.linalg.solve or torch.linalg.pinv."
            )
        if _name(node) in _BAGS and not _of_one_length(node):
            raise ValueError(
                "the model says by offsets where bags of words begin (torch.nn.functional.embedding_bag), and one that "
                "is wrong shows other memory: give it a table with one row per record, of one length, without offsets."
            )


def _of_one_length(bags: fx.Node) -> bool:
    """Whether it was counted where they begin, nobody has written to that, and the last one takes all that is left."""
    offsets, to_the_end = bags.args[2], not any(bags.args[7:8])
    counted = isinstance(offsets, fx.Node) and offsets.target is aten.arange.start_step
    return counted and to_the_end and all(_name(user).startswith("_embedding_bag") for user in offsets.users)  # type: ignore[union-attr]


def keep_in_range(graph: fx.Graph) -> None:
    """Numbers that say where to read or to write, for operations that go there unseen."""
    for node in list(graph.nodes):
        name = _name(node)
        if name in ("_ctc_loss", "_ctc_loss_backward"):
            # nn.CTCLoss; those behind a target's length may be anything
            place = 1 if name == "_ctc_loss" else 2
            _put_before(node, place, aten.clamp.default, 0, _value(node, place - 1).shape[-1] - 1)
        elif name.startswith("grid_sampler_"):
            # a picture's gradient is added up where points lie, without a look; one too large is no number in the end
            place = 2 if name.endswith("_backward") else 1
            image, points = _value(node, place - 1), _value(node, place)
            furthest = torch.finfo(points.dtype).max / (4 * max(image.shape))
            _put_before(node, place, aten.nan_to_num.default, 0.0)
            _put_before(node, place, aten.clamp.default, -furthest, furthest)


def _put_before(node: fx.Node, place: int, operation: Any, *more: float) -> None:
    """Have an argument go through an operation that leaves its shape alone."""
    given: Any = node.args[place]
    with node.graph.inserting_before(node):
        changed = node.graph.call_function(operation, (given, *more))
    changed.meta = dict(given.meta)
    node.update_arg(place, changed)


def _value(node: fx.Node, place: int) -> Any:
    """A tensor of the shape and the dtype of an argument."""
    argument: Any = node.args[place]
    return argument.meta["val"]


def drop_unused(graph: fx.Graph) -> None:
    """But for looking a word up, which alone notices one beyond the table: its gradient would be another record's."""
    graph.eliminate_dead_code(lambda node: node.is_impure() or node.target is aten.embedding.default)


def _name(node: fx.Node) -> str:
    """Of an operation, whichever its variant."""
    return node.target._opname if isinstance(node.target, OpOverload) else ""
