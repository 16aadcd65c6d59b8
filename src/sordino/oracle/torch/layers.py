"""The layers whose gradients are kept by the books: one rule each, from input and output gradient to pairs.

A rule is told the layer, its input `a` (a recurrence has several) and the gradient `e` at its output, and names the
parameters with their form and their pair. All have the records on the first axis; behind it stands what a model made
for batches gives the layer for a batch of one record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from sordino.oracle.torch.matrix import Matrix
from sordino.oracle.torch.pairs import Form, Pair, Written
from sordino.oracle.torch.patches import Convolution, Patches
from sordino.oracle.torch.recurrence import PARAMETERS, Recurrence
from sordino.oracle.torch.weight_norm import Affine, Channels, Unit

Entry = tuple[str, Form, Pair]
Rule = Callable[..., Iterator[Entry]]
Instances = nn.InstanceNorm1d | nn.InstanceNorm2d | nn.InstanceNorm3d


def _linear(layer: nn.Linear, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = _positions(a, 1), _positions(e, 1)
    yield "weight", Matrix((layer.out_features, layer.in_features)), Pair(e, a)
    yield "bias", Written(), Pair(_added(e, 1))


def _convolution(layer: Convolution, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = _alone(a, len(layer.kernel_size) + 2), _alone(e, len(layer.kernel_size) + 2)
    yield "weight", Patches(layer), Pair(a, e) if layer.transposed else Pair(e, a)
    yield "bias", Written(), Pair(e.flatten(2).sum(2))


def _embedding(layer: nn.Embedding, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = a.reshape(len(a), -1), e.reshape(len(e), -1, e.shape[-1])
    if layer.padding_idx is not None:
        e = e.masked_fill((a == layer.padding_idx)[..., None], 0)
    yield "weight", Matrix((layer.num_embeddings, layer.embedding_dim)), Pair(a, e)


def _layer_norm(layer: nn.LayerNorm, a: Tensor, e: Tensor) -> Iterator[Entry]:
    axes = len(layer.normalized_shape)
    x = nn.functional.layer_norm(a, layer.normalized_shape, None, None, layer.eps)
    e = _positions(e, axes)
    yield "weight", Written(), Pair(_added(e * _positions(x, axes), 1))
    yield "bias", Written(), Pair(_added(e, 1))


def _rms_norm(layer: nn.RMSNorm, a: Tensor, e: Tensor) -> Iterator[Entry]:
    axes = len(layer.normalized_shape)
    x = nn.functional.rms_norm(a, layer.normalized_shape, None, layer.eps)
    yield "weight", Written(), Pair(_added(_positions(e, axes) * _positions(x, axes), 1))


def _instance_norm(layer: Instances, a: Tensor, e: Tensor) -> Iterator[Entry]:
    a, e = (_alone(each, _axes(layer)) for each in (a, e))
    x = nn.functional.group_norm(a, layer.num_features, None, None, layer.eps)
    e = _channels(e)
    yield "weight", Written(), Pair(_added(e * _channels(x), 2))
    yield "bias", Written(), Pair(_added(e, 2))


def _prelu(layer: nn.PReLU, a: Tensor, e: Tensor) -> Iterator[Entry]:
    below = a.clamp(max=0)
    if layer.num_parameters == 1:
        yield "weight", Written(), Pair((e * below).reshape(len(e), -1).sum(1, keepdim=True))
    else:
        yield "weight", Written(), Pair(_added(_channels((e * below).flatten(0, 1)), 2))


def _recurrence(layer: Recurrence, x: Tensor, h: Tensor, *rest: Tensor) -> Iterator[Entry]:
    *gate, e = rest
    x, h, e = (_positions(each, 1) for each in (x, h, e))
    own = e
    if gate:
        # behind the gate of a GRU
        (r,) = (_positions(each, 1) for each in gate)
        width = r.shape[-1]
        own = torch.cat([e[..., : 2 * width], e[..., 2 * width :] * r], -1)
    yield "weight_ih", Matrix((e.shape[-1], x.shape[-1])), Pair(e, x)
    yield "weight_hh", Matrix((e.shape[-1], h.shape[-1])), Pair(own, h)
    yield "bias_ih", Written(), Pair(_added(e, 1))
    yield "bias_hh", Written(), Pair(_added(own, 1))


def _unit(layer: Unit, z: Tensor, e: Tensor) -> Iterator[Entry]:
    (inner,) = layer.inner
    form = Matrix((inner.out_features, inner.in_features)) if isinstance(inner, nn.Linear) else Patches(inner)
    yield "weight", form, Pair(_of_channels(layer, e * z), shared=True)


def _affine(layer: Affine, s: Tensor, e: Tensor) -> Iterator[Entry]:
    yield "weight", Written(), Pair(_of_channels(layer, e * s))
    yield "bias", Written(), Pair(_of_channels(layer, e))


def _of_channels(layer: Channels, tensor: Tensor) -> Tensor:
    """(records, n), added up over the positions of each channel."""
    if layer.axes:
        return _alone(tensor, layer.axes + 2).flatten(2).sum(2)
    return _added(_positions(tensor, 1), 1)


def _positions(tensor: Tensor, axes: int) -> Tensor:
    """(records, t, n), where the last `axes` of the tensor are the n numbers of a position; (records, n) for one."""
    records, n = len(tensor), math.prod(tensor.shape[-axes:])
    positions = tensor.numel() // (records * n)
    return tensor.reshape((records, n) if positions == 1 else (records, positions, n))


def _added(tensor: Tensor, axis: int) -> Tensor:
    """Over the positions, which are axis 1 or 2 of three; (records, n) has one position."""
    return tensor if tensor.ndim == 2 else tensor.sum(axis)


def _alone(tensor: Tensor, axes: int) -> Tensor:
    """Without the axis of a batch of one, where there is one."""
    return tensor if tensor.ndim == axes else tensor.flatten(0, 1)


def _channels(tensor: Tensor) -> Tensor:
    """(records, n, t), or (records, n) where a channel is one number."""
    return tensor if tensor.ndim == 2 else tensor.flatten(2)


def _axes(layer: Instances) -> int:
    """Of a batch for a normalisation of every channel by itself."""
    if isinstance(layer, nn.InstanceNorm1d):
        return 3
    return 4 if isinstance(layer, nn.InstanceNorm2d) else 5


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.ConvTranspose1d: _convolution,
    nn.ConvTranspose2d: _convolution,
    nn.ConvTranspose3d: _convolution,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _rms_norm,
    nn.InstanceNorm1d: _instance_norm,
    nn.InstanceNorm2d: _instance_norm,
    nn.InstanceNorm3d: _instance_norm,
    nn.PReLU: _prelu,
    Recurrence: _recurrence,
    Unit: _unit,
    Affine: _affine,
}


def known_parameters(layer: nn.Module) -> dict[str, nn.Parameter]:
    """Those of which the layer's rule tells; others are somebody's addition."""
    own, names = layer._parameters, PARAMETERS if isinstance(layer, Recurrence) else ("weight", "bias")
    return {name: parameter for name in names if (parameter := own.get(name)) is not None}


def form_of(layer: nn.Module) -> object:
    """Layers for which this is the same may share parameters: the gradients have one form, and can be added up."""
    if isinstance(layer, Unit):
        # whose gradients are added to those of the layer with the same weight
        return form_of(*layer.inner)
    if isinstance(layer, nn.Linear | nn.Embedding):
        return Matrix
    if isinstance(layer, Convolution):
        return (layer.transposed, layer.stride, layer.padding, layer.dilation, layer.groups, layer.padding_mode)
    return type(layer)


def takes_one(layer: nn.Module, given: Tensor) -> bool:
    """Whether a layer that counts images on its first axis was given one of them."""
    if isinstance(layer, Convolution):
        return given.ndim == len(layer.kernel_size) + 1 or len(given) == 1
    if isinstance(layer, Channels):
        return layer.axes == 0 or given.ndim == layer.axes + 1 or len(given) == 1
    if isinstance(layer, nn.PReLU):
        return layer.num_parameters == 1 or len(given) == 1
    if isinstance(layer, Instances):
        # by statistics of this record, not by those it keeps
        return layer.running_mean is None and (given.ndim == _axes(layer) - 1 or len(given) == 1)
    return True


def rule_of(layer: nn.Module) -> Rule | None:
    """The rule of a layer, or of a subclass that computes the same."""
    given = type(layer)
    for kind, rule in RULES.items():
        same = all(getattr(given, name, None) is getattr(kind, name, None) for name in ("forward", "_conv_forward"))
        if isinstance(layer, kind) and same:
            return rule
    return None
