"""Notes what goes into every known layer, call by call, and adds zeros to what comes out.

The gradient with respect to such zeros is the gradient at the layer's output, which is all the books need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sordino.oracle.torch.layers import rule_of


class Call(NamedTuple):
    """One call of a layer: what went in, what came out, and how often the input had been changed in place before."""

    layer: nn.Module
    input: Tensor
    output: Tensor
    before: int


class Tape:
    """Listens to the known layers of a model that have something to train. Off unless `recording`."""

    def __init__(self, model: nn.Module) -> None:
        self._calls: list[Call] | None = None
        self._zeros: Sequence[Tensor | None] = ()
        for layer in model.modules():
            own = layer.parameters(recurse=False)
            # a forward of this one layer's own may compute anything
            known = rule_of(layer) is not None and "forward" not in vars(layer)
            if known and any(parameter.requires_grad for parameter in own):
                # in place of a hook, which would take the slower way through nn.Module
                layer.forward = partial(self._noted, layer, layer.forward)

    @contextmanager
    def recording(self, zeros: Sequence[Tensor | None] = ()) -> Iterator[list[Call]]:
        """The calls, as they come; the k-th output has the k-th of `zeros` added to it, if there is one."""
        calls: list[Call] = []
        self._calls, self._zeros = calls, zeros
        try:
            yield calls
        finally:
            self._calls, self._zeros = None, ()

    def _noted(self, layer: nn.Module, forward: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
        output = forward(input)
        if self._calls is None:
            return output
        number = len(self._calls)
        before = 0 if torch._C._functorch.is_functorch_wrapped_tensor(input) else input._version
        self._calls.append(Call(layer, input, output, before))
        zeros = self._zeros[number] if number < len(self._zeros) else None
        return output if zeros is None else output + zeros


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
