"""Notes what goes into every known layer and where its output stands in the graph, call by call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from sordino.oracle.torch.layers import rule_of


class Call(NamedTuple):
    """One call of a layer: what went in, and what to ask the graph for; `before` counts changes in place."""

    layer: nn.Module
    a: Tensor
    shape: torch.Size
    edge: GradientEdge
    before: int

    @property
    def input(self) -> Tensor:
        if self.a._version != self.before:
            raise ValueError(
                f"the input of a {type(self.layer).__name__} layer was changed in place after the layer had used it: "
                "let the operation that follows work on a copy."
            )
        return self.a.detach()


class Tape:
    """Listens to the known layers of a model that have something to train. Off unless `recording`.

    `spread` numbers calls whose output is the same for all records, as that of an embedding of positions: it is handed
    on as many times as there are records, so that the graph tells the records' gradients apart.
    """

    def __init__(self, model: nn.Module) -> None:
        self.spread: set[int] = set()
        self._calls: list[Call] | None = None
        self._records = 0
        for layer in model.modules():
            own = layer.parameters(recurse=False)
            if rule_of(layer) is not None and any(parameter.requires_grad for parameter in own):
                # in place of a hook, which would take the slower way through nn.Module
                layer.forward = partial(self._noted, layer, layer.forward)

    @contextmanager
    def recording(self, records: int) -> Iterator[list[Call]]:
        calls: list[Call] = []
        self._calls, self._records = calls, records
        try:
            yield calls
        finally:
            self._calls = None

    def _noted(self, layer: nn.Module, forward: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
        output = forward(input)
        if self._calls is not None and output.requires_grad:
            if len(self._calls) in self.spread:
                input, output = (tensor.expand(self._records, *tensor.shape) for tensor in (input, output))
            # the edge is taken now: an activation that works in place would move the tensor to another one
            self._calls.append(Call(layer, input, output.shape, get_gradient_edge(output), input._version))
        return output


def same_draws(device: torch.device) -> AbstractContextManager[None]:
    """Whatever a model draws inside is drawn again by the next pass."""
    if device.type == "cpu":
        return torch.random.fork_rng([])
    return torch.random.fork_rng([device], device_type=device.type)


def edges_into_parameters(losses: Tensor) -> Counter[Tensor]:
    """How often the graph behind `losses` uses each leaf."""
    counts: Counter[Tensor] = Counter()
    seen, waiting = set(), [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            leaf = getattr(following, "variable", None)
            if leaf is not None:
                counts[leaf] += 1
            else:
                waiting.append(following)
    return counts
