"""nn.GroupNorm by PyTorch's own operations, for all records of a pass at once.

The channels of all records stand side by side, as if they were one record's: every group is normalised by itself, and
the gradients of weight and bias, of which these operations give the sums over records, are then every record's own.
PyTorch's rules for many records would write them out in two dozen operations.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

aten = torch.ops.aten


def is_group_norm(layer: nn.Module) -> TypeGuard[nn.GroupNorm]:
    return isinstance(layer, nn.GroupNorm) and type(layer).forward is nn.GroupNorm.forward


def group_norm(layer: nn.GroupNorm, images: Tensor) -> Tensor:
    """What the layer computes."""
    one, zero = (torch.full((layer.num_channels,), k, dtype=images.dtype, device=images.device) for k in (1.0, 0.0))
    weight, bias = one if layer.weight is None else layer.weight, zero if layer.bias is None else layer.bias
    x = images.reshape(*images.shape[:2], -1)
    found: Tensor = Forward.apply(x, weight, bias, layer.num_groups, layer.eps)[0]  # type: ignore[no-untyped-call]
    return found.view(images.shape)


class Forward(torch.autograd.Function):
    """Of images (n, channels, t): the normalised ones, and the means and inverse deviations of their groups."""

    @staticmethod
    def forward(x: Tensor, *more: Any) -> tuple[Tensor, ...]:
        return tuple(each[0] for each in _normalised(x[None], *more))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, weight, _, ctx.groups, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, weight, *output[1:])

    @staticmethod
    def backward(ctx: Any, e: Tensor, *_: Tensor) -> Any:
        return *Backward.apply(e, *ctx.saved_tensors, ctx.groups), None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], x: Tensor, *more: Any) -> Any:
        _require_shared(axes[1:])
        return _normalised(_first(x, axes[0], info.batch_size), *more), 0


class Backward(torch.autograd.Function):
    """The gradients of the images, of the weight and of the bias."""

    @staticmethod
    def forward(e: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, groups: int) -> tuple[Tensor, ...]:
        return tuple(each[0] for each in _gradients(e[None], x[None], weight, mean[None], scale[None], groups))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nobody asks for the gradient of a gradient."""

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], *given: Any) -> Any:
        _require_shared((axes[2], axes[5]))
        e, x, mean, scale = (_first(given[k], axes[k], info.batch_size) for k in (0, 1, 3, 4))
        return _gradients(e, x, given[2], mean, scale, given[5]), 0


def _normalised(x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> tuple[Tensor, ...]:
    """Of images (records, n, channels, t)."""
    records, n, channels, t = x.shape
    count = records * n
    side_by_side = x.reshape(1, count * channels, t).contiguous()
    y, mean, scale = aten.native_group_norm(
        side_by_side, _repeated(weight, count), _repeated(bias, count), 1, count * channels, t, count * groups, eps
    )
    return y.view(x.shape), mean.view(records, n, groups), scale.view(records, n, groups)


def _gradients(e: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, groups: int) -> tuple[Tensor, ...]:
    records, n, channels, t = x.shape
    count = records * n
    e, side_by_side = (each.reshape(1, count * channels, t).contiguous() for each in (e, x))
    mean, scale = (each.reshape(1, count * groups).contiguous() for each in (mean, scale))
    shape = 1, count * channels, t, count * groups
    found, *own = aten.native_group_norm_backward(
        e, side_by_side, mean, scale, _repeated(weight, count), *shape, [True] * 3
    )
    return found.view(x.shape), *(each.view(records, n, channels).sum(1) for each in own)


def _repeated(tensor: Tensor, count: int) -> Tensor:
    # in memory of its own, also where a single number could stand for all: the operations read one after the other
    return tensor.expand(count, -1).reshape(-1).contiguous()


def _first(tensor: Tensor, axis: int | None, records: int) -> Tensor:
    """With the records on the first axis."""
    return tensor.expand(records, *tensor.shape) if axis is None else tensor.movedim(axis, 0)


def _require_shared(axes: tuple[int | None, ...]) -> None:
    if any(axis is not None for axis in axes):
        raise NotImplementedError("a record has a weight of its own for nn.GroupNorm")
