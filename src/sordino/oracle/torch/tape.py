"""Notes what goes into every known layer, call by call, and adds zeros to what comes out.

The gradient with respect to such zeros is the gradient at the layer's output, which is all the books need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sordino.oracle.torch.group_norm import group_norm, is_group_norm
from sordino.oracle.torch.layers import rule_of
from sordino.oracle.torch.recurrence import Recurrence


class Call(NamedTuple):
    """One call of a layer: what went in, what came out, and how often the inputs had been changed in place before."""

    layer: nn.Module
    inputs: tuple[Tensor, ...]
    output: Tensor
    before: tuple[int, ...]


class Tape:
    """Listens to the known layers of a model that have something to train. Off unless `recording`."""

    def __init__(self, model: nn.Module) -> None:
        self._calls: list[Call] | None = None
        self._zeros: Sequence[Tensor | None] = ()
        for layer in model.modules():
            own = layer.parameters(recurse=False)
            # a forward of this one layer's own may compute anything
            if "forward" in vars(layer):
                continue
            if is_group_norm(layer):
                layer.forward = partial(group_norm, layer)  # type: ignore[method-assign]
            if rule_of(layer) is not None and any(parameter.requires_grad for parameter in own):
                # in place of a hook, which would take the slower way through nn.Module
                if isinstance(layer, Recurrence):
                    layer.forward = partial(self._unrolled, layer, layer.forward)  # type: ignore[method-assign]
                else:
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

    def _noted(
        self, layer: nn.Module, forward: Callable[..., Tensor], input: Tensor, *more: Any, **other: Any
    ) -> Tensor:
        # a transposed convolution may be told the size of its output
        output = forward(input, *more, **other)
        if self._calls is None:
            return output
        zeros = self._next_zeros()
        self._calls.append(_call(layer, (input,), output))
        return output if zeros is None else output + zeros

    def _unrolled(
        self, layer: Recurrence, forward: Callable[..., tuple[Tensor, ...]], x: Tensor, *state: Tensor
    ) -> tuple[Tensor, ...]:
        if self._calls is None:
            return forward(x, *state)
        unrolled = layer.unroll(x, state, self._next_zeros())
        self._calls.append(_call(layer, unrolled.inputs, unrolled.gates))
        return (unrolled.output, *unrolled.state)

    def _next_zeros(self) -> Tensor | None:
        number = len(self._calls or ())
        return self._zeros[number] if number < len(self._zeros) else None


def _call(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Call:
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return Call(layer, inputs, output, tuple(0 if wrapped(each) else each._version for each in inputs))


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
