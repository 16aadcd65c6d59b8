r"""Upper bounds of the squared norms of every record's gradients.

A layer's part in |g_i|^2 is mostly a product of two numbers per record: |left_i|^2 |right_i|^2 or, where two pairs
meet, 2 <left_i, left'_i> <right_i, right'_i>.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sordino.oracle.torch.rowwise import add_product, inner_products, slack, square_norms
from sordino.oracle.torch.workspace import Workspace


class Norms:
    """Adds up the squared norms of `shares` kinds of gradients of the same records."""

    def __init__(self, shares: int, records: int, work: Workspace) -> None:
        self._totals = torch.zeros(shares, records, dtype=torch.float64, device=work.device).unbind()
        self._dtype = work.dtype
        # tensors are held with their norms, so that their identity cannot pass to another one
        self._squares: dict[int, tuple[Tensor, Tensor]] = {}

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        """coefficient |left_i|^2 |right_i|^2, or without a right side coefficient |left_i|^2."""
        second = None if right is None else self._square(right)
        add_product(self._totals[share], coefficient, self._square(left), second)

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        """2 <left_i, left'_i> <right_i, right'_i>; how it is rounded is the caller's affair."""
        add_product(self._totals[share], 2.0, inner_products(*lefts), inner_products(*rights))

    def add_known(self, share: int, squares: Tensor) -> None:
        """Squared norms that are known as such."""
        self._totals[share].add_(squares)

    def totals(self) -> list[Tensor]:
        """Of every share, with room for the rounding of what is done with them."""
        return [total.mul_(1 + slack(0, self._dtype)) for total in self._totals]

    def _square(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self._squares:
            self._squares[id(tensor)] = (tensor, square_norms(tensor))
        return self._squares[id(tensor)][1]
