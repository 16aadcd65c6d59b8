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

from sordino.oracle.torch.opened import Known, piece
from sordino.oracle.torch.parameters import Place


def opened(name: str, layer: nn.MultiheadAttention, known: Known) -> list[Place] | None:
    """Linear layers for queries, keys and values; None where there are extra keys (bias_k, add_zero_attn)."""
    if layer.bias_k is not None or layer.add_zero_attn:
        return None
    places: list[Place] = []
    width = layer.embed_dim
    for number, side in enumerate(("query", "key", "value")):
        whole = layer.in_proj_weight if layer._qkv_same_embed_dim else getattr(layer, f"{side[0]}_proj_weight")
        rows = slice(number * width, (number + 1) * width) if layer._qkv_same_embed_dim else slice(0, width)
        linear = nn.Linear(whole.shape[1], width, layer.in_proj_bias is not None, device="meta", dtype=whole.dtype)
        pieces = [("weight", whole, rows)]
        if layer.in_proj_bias is not None:
            pieces.append(("bias", layer.in_proj_bias, slice(number * width, (number + 1) * width)))
        for part, owner, some in pieces:
            parameter, place = piece(owner, f"{name}.{side}.{part}", known, some)
            setattr(linear, part, parameter)
            places += place
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
    # copied once: products of views, and their gradients, would copy them again and again, number by number
    q, k, v = (
        layer.get_submodule(side)(tensor).unflatten(2, (layer.num_heads, -1)).transpose(1, 2).contiguous()
        for side, tensor in (("query", query), ("key", key), ("value", value))
    )
    mask = _mask(attn_mask, key_padding_mask, q)
    dropout = layer.dropout if layer.training else 0.0
    shown = None
    if need_weights or mask is None:
        scores = (q / math.sqrt(q.shape[3])) @ k.transpose(2, 3)
        weights = functional.dropout(torch.softmax(scores if mask is None else scores + mask, dim=3), dropout)
        mixed = weights @ v
        if need_weights:
            shown = weights.mean(1) if average_attn_weights else weights
    else:
        # gives zeros where a mask hides every key, which without a mask costs a few operations for nothing
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
    out = layer.out_proj(mixed.transpose(1, 2).flatten(2))
    return out if layer.batch_first else out.transpose(0, 1), shown


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
