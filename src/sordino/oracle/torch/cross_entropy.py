"""nn.CrossEntropyLoss by PyTorch's own operations, for all records of a pass at once.

The scores of all records stand below one another: every row of them has a loss, and that loss a gradient, by itself.
PyTorch's rules for many records would write them out in a dozen operations more, the twentieth part of a small
network's step. Every number is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

aten = torch.ops.aten

EACH = 0
"""PyTorch's number for reduction="none"."""


def opened(loss: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    """What computes the same, where it is such a loss and nothing more, without weights, smoothing or hooks."""
    if type(loss) is not nn.CrossEntropyLoss or "forward" in vars(loss):
        return loss
    if any(hooks for name, hooks in vars(loss).items() if name.endswith("_hooks")):
        return loss
    plain = loss.reduction == "none" and loss.weight is None and not loss.label_smoothing
    return partial(_losses, loss) if plain else loss


def _losses(loss: nn.CrossEntropyLoss, outputs: Any, targets: Tensor) -> Tensor:
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or targets.dtype is not torch.int64:
        given: Tensor = loss(outputs, targets)
        return given
    found: Tensor = Forward.apply(torch.log_softmax(outputs, 1), targets, loss.ignore_index)[0]  # type: ignore[no-untyped-call]
    return found


class Forward(torch.autograd.Function):
    """Of logarithms of probabilities (n, classes) and classes (n): the losses, and what the backward pass is told."""

    @staticmethod
    def forward(x: Tensor, classes: Tensor, ignored: int) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = aten.nll_loss_forward(x, classes, None, EACH, ignored)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, classes, ctx.ignored = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, classes, output[1])

    @staticmethod
    def backward(ctx: Any, e: Tensor, *_: Tensor) -> Any:
        return Backward.apply(e, *ctx.saved_tensors, ctx.ignored), None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], x: Tensor, classes: Tensor, ignored: int) -> Any:
        rows, of = (_below(each, axis, info.batch_size) for each, axis in ((x, axes[0]), (classes, axes[1])))
        losses, told = aten.nll_loss_forward(rows, of, None, EACH, ignored)
        return (losses.view(info.batch_size, -1), told), (0, None)


class Backward(torch.autograd.Function):
    """The gradients of the logarithms."""

    @staticmethod
    def forward(e: Tensor, x: Tensor, classes: Tensor, told: Tensor, ignored: int) -> Tensor:
        found: Tensor = aten.nll_loss_backward(e, x, classes, None, EACH, ignored, told)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Nobody asks for the gradient of a gradient."""

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], *given: Any) -> Any:
        e, x, classes = (_below(each, axis, info.batch_size) for each, axis in zip(given[:3], axes[:3], strict=True))
        found = aten.nll_loss_backward(e, x, classes, None, EACH, given[4], given[3])
        return found.view(info.batch_size, -1, found.shape[1]), 0


def _below(tensor: Tensor, axis: int | None, records: int) -> Tensor:
    """The rows of all records below one another."""
    whole = tensor.expand(records, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
    return whole.flatten(0, 1)
