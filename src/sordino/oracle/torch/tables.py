"""nn.EmbeddingBag and nn.Bilinear in terms of layers whose gradients are kept by the books."""

from __future__ import annotations

from functools import partial
from typing import cast

from torch import Tensor, nn

from sordino.oracle.torch.opened import Known, piece
from sordino.oracle.torch.parameters import Place


def opened_bag(name: str, layer: nn.EmbeddingBag, known: Known) -> list[Place] | None:
    """Words, then their sum or mean; None where the largest of them is taken."""
    if layer.mode == "max" or layer.padding_idx is not None:
        return None
    words = nn.Embedding(layer.num_embeddings, layer.embedding_dim, device="meta")
    words.weight, places = piece(layer.weight, f"{name}.words.weight", known)
    layer.words = words
    layer.forward = partial(_bag, layer)  # type: ignore[method-assign]
    return places


def _bag(
    layer: nn.EmbeddingBag, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
) -> Tensor:
    if input.ndim != 2 or offsets is not None:
        raise ValueError(
            "an nn.EmbeddingBag is given one list of words with offsets, which joins the records of a batch: give it "
            "a table with one row per record, of one length."
        )
    words: Tensor = cast(nn.Embedding, layer.words)(input)
    if per_sample_weights is not None:
        words = words * per_sample_weights.unsqueeze(-1)
    return words.sum(1) if layer.mode == "sum" else words.mean(1)


def opened_bilinear(name: str, layer: nn.Bilinear, known: Known) -> list[Place]:
    """x' W y + b is linear in the products of all numbers of x with all of y."""
    n, x, y = layer.weight.shape
    linear = nn.Linear(x * y, n, layer.bias is not None, device="meta")
    linear.weight, places = piece(layer.weight, f"{name}.linear.weight", known, shape=(n, x * y))
    if layer.bias is not None:
        linear.bias, place = piece(layer.bias, f"{name}.linear.bias", known)
        places += place
    layer.linear = linear
    layer.forward = partial(_bilinear, layer)  # type: ignore[method-assign]
    return places


def _bilinear(layer: nn.Bilinear, x: Tensor, y: Tensor) -> Tensor:
    products = (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2)
    found: Tensor = cast(nn.Linear, layer.linear)(products)
    return found
