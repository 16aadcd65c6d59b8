"""Layers that are written in terms of others whose gradients are kept by the books, in the oracle's copy of a model.

The new layers' parameters are pieces of the old ones, and share their memory with the flat vector of parameters.
"""

from __future__ import annotations

from torch import Tensor, nn

from sordino.oracle.torch.parameters import Place

Known = dict[int, Place]
"""The places of a model's parameters, by their identity."""


def piece(
    owner: Tensor, name: str, known: Known, rows: slice | None = None, shape: tuple[int, ...] | None = None
) -> tuple[nn.Parameter, list[Place]]:
    """Some rows of a parameter, or all of them in another shape, and the place of the piece if it is trained."""
    data = owner.data if rows is None else owner.data[rows]
    place = known.get(id(owner))
    parameter = nn.Parameter(data if shape is None else data.view(shape), requires_grad=place is not None)
    if place is None:
        return parameter, []
    start = place.start + (0 if rows is None else rows.start * owner[0].numel())
    return parameter, [Place(name.lstrip("."), parameter, start)]
