"""Operations that go where a number points them: beyond a record's own memory another record's may lie.

Most of PyTorch's operations refuse such a number, and the record counts for nothing. Those here do not.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import OpOverload

from sordino.oracle.torch.draws import is_random

aten = torch.ops.aten

_OTHER_MEMORY = ("resize", "resize_", "resize_as", "resize_as_", "resize_as_sparse_", "set", "set_", "segment_reduce")


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
        if _name(node) in _OTHER_MEMORY:
            raise ValueError(
                f"the model calls {node.target}, which may show memory that it never wrote to, and what another record "
                "has left there: make new tensors, by torch.zeros or torch.cat, and add up by torch.scatter_add."
            )


def keep_classes_in_range(graph: fx.Graph) -> None:
    """nn.CTCLoss reads and writes wherever a class number points; those behind a target's length may be anything."""
    for node in list(graph.nodes):
        if _name(node) in ("_ctc_loss", "_ctc_loss_backward"):
            place = 1 if _name(node) == "_ctc_loss" else 2
            classes = node.args[place - 1].meta["val"].shape[-1]
            with graph.inserting_before(node):
                within = graph.call_function(aten.clamp.default, (node.args[place], 0, classes - 1))
            within.meta = dict(node.args[place].meta)
            node.update_arg(place, within)


def drop_unused(graph: fx.Graph) -> None:
    """But for looking a word up, which alone notices one beyond the table: its gradient would be another record's."""
    graph.eliminate_dead_code(lambda node: node.is_impure() or node.target is aten.embedding.default)


def _name(node: fx.Node) -> str:
    """Of an operation, whichever its variant."""
    return node.target._opname if isinstance(node.target, OpOverload) else ""
