"""The layers whose gradients are kept by the books: one rule each, from input and output gradient to pairs.

A rule is told the layer, its input `a` and the gradient `e` at its output, and names the parameters with their form and
their pair. Both have the records on the first axis; behind it stands what a model made for batches gives the layer for
a batch of one record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from torch import Tensor, nn

from sordino.oracle.torch.matrix import Matrix
from sordino.oracle.torch.pairs import Form, Pair, Scale
from sordino.oracle.torch.patches import Patches

Entry = tuple[str, Form, Pair]
Rule = Callable[[nn.Module, Tensor, Tensor], Iterator[Entry]]


def _linear(layer: nn.Linear, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = _positions(a, 1), _positions(e, 1)
    yield "weight", Matrix((layer.out_features, layer.in_features)), Pair(e, a)
    yield "bias", Scale(axis=1), Pair(e)


def _convolution(layer: nn.Conv1d | nn.Conv2d, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = _alone(a, len(layer.kernel_size) + 2), _alone(e, len(layer.kernel_size) + 2)
    yield "weight", Patches(layer), Pair(e, a)
    yield "bias", Scale(axis=2), Pair(e.flatten(2))


def _embedding(layer: nn.Embedding, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = a.reshape(len(a), -1), e.reshape(len(e), -1, e.shape[-1])
    if layer.padding_idx is not None:
        e = e.masked_fill((a == layer.padding_idx)[..., None], 0)
    yield "weight", Matrix((layer.num_embeddings, layer.embedding_dim)), Pair(a, e)


def _layer_norm(layer: nn.LayerNorm, a: Tensor, e: Tensor) -> Iterator[Entry]:
    axes = len(layer.normalized_shape)
    x = nn.functional.layer_norm(a, layer.normalized_shape, None, None, layer.eps)
    e = _positions(e, axes)
    yield "weight", Scale(axis=1), Pair(e, _positions(x, axes))
    yield "bias", Scale(axis=1), Pair(e)


def _group_norm(layer: nn.GroupNorm, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = a.flatten(0, 1), e.flatten(0, 1)
    x = nn.functional.group_norm(a, layer.num_groups, None, None, layer.eps)
    e = _channels(e)
    yield "weight", Scale(axis=2), Pair(e, _channels(x))
    yield "bias", Scale(axis=2), Pair(e)


def _positions(tensor: Tensor, axes: int) -> Tensor:
    """(records, t, n), where the last `axes` of the tensor are the n numbers of a position; (records, n) for one."""
    records, n = len(tensor), math.prod(tensor.shape[-axes:])
    positions = tensor.numel() // (records * n)
    return tensor.reshape((records, n) if positions == 1 else (records, positions, n))


def _alone(tensor: Tensor, axes: int) -> Tensor:
    """Without the axis of a batch of one, where there is one."""
    return tensor if tensor.ndim == axes else tensor.flatten(0, 1)


def _channels(tensor: Tensor) -> Tensor:
    """(records, n, t), or (records, n) where a channel is one number."""
    return tensor if tensor.ndim == 2 else tensor.flatten(2)


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,  # type: ignore[dict-item]
    nn.Conv1d: _convolution,  # type: ignore[dict-item]
    nn.Conv2d: _convolution,  # type: ignore[dict-item]
    nn.Embedding: _embedding,  # type: ignore[dict-item]
    nn.LayerNorm: _layer_norm,  # type: ignore[dict-item]
    nn.GroupNorm: _group_norm,  # type: ignore[dict-item]
}


def known_parameters(layer: nn.Module) -> dict[str, nn.Parameter]:
    """Those of which the layer's rule tells; others are somebody's addition."""
    own = layer._parameters
    return {name: parameter for name in ("weight", "bias") if (parameter := own.get(name)) is not None}


def form_of(layer: nn.Module) -> object:
    """Layers for which this is the same may share parameters: the gradients have one form, and can be added up."""
    if isinstance(layer, nn.Linear | nn.Embedding):
        return Matrix
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        return (layer.stride, layer.padding, layer.dilation, layer.groups, layer.padding_mode)
    return type(layer)


def takes_one(layer: nn.Module, given: Tensor) -> bool:
    """Whether a layer that counts images on its first axis was given one of them."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        return given.ndim == len(layer.kernel_size) + 1 or len(given) == 1
    return not isinstance(layer, nn.GroupNorm) or len(given) == 1


def rule_of(layer: nn.Module) -> Rule | None:
    """The rule of a layer, or of a subclass that computes the same."""
    given = type(layer)
    for kind, rule in RULES.items():
        same = all(getattr(given, name, None) is getattr(kind, name, None) for name in ("forward", "_conv_forward"))
        if isinstance(layer, kind) and same:
            return rule
    return None
