"""nn.MultiheadAttention in terms of linear layers, whose gradients are kept by the books.

PyTorch's module multiplies by slices of one parameter inside a single function. In the oracle's copy of a model the
slices become linear layers of their own, which share their memory with the flat vector of parameters.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.oracle.torch.parameters import Place


def open_attention(model: nn.Module, places: list[Place]) -> list[Place]:
    """The places of the model's parameters after its attention layers were opened.

    Left closed are those with extra keys (bias_k, add_zero_attn) and those that share a parameter with another layer.
    """
    by_parameter = {id(place.parameter): place for place in places}
    for name, layer in list(model.named_modules()):
        if type(layer) is nn.MultiheadAttention and layer.bias_k is None and not layer.add_zero_attn:
            own = {id(parameter) for parameter in layer.parameters(recurse=False)}
            if own & by_parameter.keys() and not own & _elsewhere(model, layer):
                for place in _opened(name, layer, by_parameter):
                    by_parameter[id(place.parameter)] = place
                for parameter in layer.parameters(recurse=False):
                    by_parameter.pop(id(parameter), None)
    return sorted(by_parameter.values(), key=lambda place: place.start)


def _elsewhere(model: nn.Module, layer: nn.Module) -> set[int]:
    others = (other for other in model.modules() if other is not layer)
    return {id(parameter) for other in others for parameter in other.parameters(recurse=False)}


def _opened(name: str, layer: nn.MultiheadAttention, known: dict[int, Place]) -> list[Place]:
    """Linear layers for queries, keys and values, and the places of those of their parameters that are trained."""
    places = []
    width = layer.embed_dim
    for number, side in enumerate(("query", "key", "value")):
        whole = layer.in_proj_weight if layer._qkv_same_embed_dim else getattr(layer, f"{side[0]}_proj_weight")
        rows = slice(number * width, (number + 1) * width) if layer._qkv_same_embed_dim else slice(0, width)
        linear = nn.Linear(whole.shape[1], width, layer.in_proj_bias is not None, device="meta", dtype=whole.dtype)
        pieces = [("weight", whole, rows)]
        if layer.in_proj_bias is not None:
            pieces.append(("bias", layer.in_proj_bias, slice(number * width, (number + 1) * width)))
        for part, owner, some in pieces:
            place = known.get(id(owner))
            parameter = nn.Parameter(owner.data[some], requires_grad=place is not None)
            setattr(linear, part, parameter)
            if place is not None:
                each = owner[0].numel()
                places.append(Place(f"{name}.{side}.{part}".lstrip("."), parameter, place.start + some.start * each))
        setattr(layer, side, linear)
    layer.forward = partial(_attend, layer)  # type: ignore[method-assign]
    return places


def _attend(
    layer: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What nn.MultiheadAttention computes for a batch; `is_causal` only describes the mask that comes with it."""
    if query.ndim != 3:
        raise ValueError(f"attention over {query.ndim} axes: give it batches, of three axes.")
    if not layer.batch_first:
        query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
    q, k, v = (
        layer.get_submodule(side)(tensor).unflatten(2, (layer.num_heads, -1)).transpose(1, 2)
        for side, tensor in (("query", query), ("key", key), ("value", value))
    )
    mask = _mask(attn_mask, key_padding_mask, q)
    dropout = layer.dropout if layer.training else 0.0
    weights = None
    if need_weights:
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        weights = functional.dropout(torch.softmax(scores if mask is None else scores + mask, dim=3), dropout)
        mixed = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
    out = layer.out_proj(mixed.transpose(1, 2).flatten(2))
    return out if layer.batch_first else out.transpose(0, 1), weights


def _mask(attention: Tensor | None, padding: Tensor | None, like: Tensor) -> Tensor | None:
    """What is added to the scores (records, heads, queries, keys)."""
    total = None
    if attention is not None:
        attention = _additive(attention, like)
        total = attention.view(len(like), -1, *attention.shape[1:]) if attention.ndim == 3 else attention
    if padding is not None:
        padding = _additive(padding, like)[:, None, None, :]
        total = padding if total is None else total + padding
    return total


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        return mask.to(like.dtype)
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill_(mask, -torch.inf)
