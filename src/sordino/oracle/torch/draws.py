"""Random numbers of a model, as those of nn.Dropout: drawn from the run's secret randomness.

A program (see `program`) does not draw. Every operation that would is cut out of it and becomes an input, filled from
the stream here: what anybody did to PyTorch's generators has no influence, and the numbers of two records are
independent, whichever places they have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx

from sordino.privacy.randomness import Stream

aten = torch.ops.aten


class Draw(NamedTuple):
    """Independent numbers of one law. `share` is the probability of a one, for "coins"."""

    law: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    share: float = 0.0

    def filled(self, stream: Stream) -> Tensor:
        count = math.prod(self.shape)
        if self.law == "normal":
            numbers: Any = stream.normals(count)
        else:
            words = stream.words(count)
            # 53 bits, as many as a double in [0, 1) has
            uniform = (words >> np.uint64(11)) * 2.0**-53
            numbers = uniform < self.share if self.law == "coins" else uniform
        drawn = torch.from_numpy(np.asarray(numbers)).to(self.dtype)
        if self.law == "uniform":
            # rounded to nearest, the largest would be one
            drawn = drawn.clamp_(max=1 - torch.finfo(self.dtype).eps / 2)
        return drawn.view(self.shape).to(self.device)


def is_random(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def cut_out(node: fx.Node, new_input: Callable[[Draw], fx.Node]) -> None:
    """Put an input in the place of a random operation, or raise a sentence where its law is not known here."""
    graph, value = node.graph, node.meta["val"]
    first = node.args[0] if node.args else None

    def drawn(law: str, share: float = 0.0) -> fx.Node:
        tensor = value[0] if isinstance(value, tuple | list) else value
        return new_input(Draw(law, tuple(tensor.shape), tensor.dtype, tensor.device, share))

    with graph.inserting_before(node):
        match node.target:
            case aten.bernoulli.p | aten.bernoulli_.float:
                share = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
                found = drawn("coins", float(share))  # type: ignore[arg-type]
            case aten.bernoulli.default:
                below = graph.call_function(aten.lt.Tensor, (drawn("uniform"), first))
                found = graph.call_function(aten._to_copy.default, (below,), {"dtype": value.dtype})
            case aten.rand.default | aten.rand_like.default:
                found = drawn("uniform")
            case aten.randn.default | aten.randn_like.default:
                found = drawn("normal")
            case aten.uniform_.default | aten.normal_.default:
                uniform = node.target is aten.uniform_.default
                low, high = (*node.args[1:], *(0.0, 1.0)[len(node.args) - 1 :])  # type: ignore[misc]
                scale = high - low if uniform else high  # type: ignore[operator]
                scaled = graph.call_function(aten.mul.Tensor, (drawn("uniform" if uniform else "normal"), scale))
                found = graph.call_function(aten.add.Tensor, (scaled, low))
            case _:
                raise ValueError(
                    f"the model draws random numbers by {node.target}, which cannot be drawn from the run's secret "
                    "randomness: use nn.Dropout, torch.rand or torch.randn."
                )
        if node.target._schema.is_mutable:
            found = graph.call_function(aten.copy_.default, (first, found))
        else:
            # what follows may work in place, and another point has the same draws
            found = graph.call_function(aten.clone.default, (found,))
    found.meta = dict(node.meta)
    node.replace_all_uses_with(found)
    graph.erase_node(node)
