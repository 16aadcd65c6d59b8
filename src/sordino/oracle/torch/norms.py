r"""Upper bounds of the squared norms of every record's gradients.

A layer's part in |g_i|^2 is mostly a product of two numbers per record, |left_i|^2 |right_i|^2 or, where two pairs
meet, 2 <left_i, left'_i> <right_i, right'_i>. They are collected here and multiplied and added up in one go at the end:
a network has many layers, and an operation on a few numbers costs as much as on many.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sordino.oracle.torch.workspace import Workspace


def slack(terms: int, dtype: torch.dtype) -> float:
    """Bounds the relative error of a squared norm that adds up so many products, and of the clipping after it."""
    return (terms + 16) * torch.finfo(dtype).eps


def lost(terms: int, dtype: torch.dtype) -> float:
    """Bounds what so many products have lost that are too small for the dtype."""
    return terms * float(torch.finfo(dtype).tiny)


class _Product(NamedTuple):
    """Two rows of the table: counted from zero squared norms; from the end a one, and before it inner products."""

    share: int
    coefficient: float
    first: int
    second: int


_ONE = -1


class Norms:
    """Collects what makes up the squared norms of `shares` kinds of gradients of the same records."""

    def __init__(self, shares: int, records: int, work: Workspace) -> None:
        self._shares, self._records, self._work = shares, records, work
        self._norms: list[Tensor] = []
        self._sizes: list[int] = []
        # tensors are held with their number, so that their identity cannot pass to another one
        self._numbers: dict[int, tuple[int, Tensor]] = {}
        self._inner: list[Tensor] = []
        self._products: list[_Product] = []
        self._known: list[tuple[int, Tensor]] = []

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        """coefficient |left_i|^2 |right_i|^2, or without a right side coefficient |left_i|^2."""
        second = _ONE if right is None else self._norm(right)
        self._products.append(_Product(share, coefficient, self._norm(left), second))

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        """2 <left_i, left'_i> <right_i, right'_i>; how it is rounded is the caller's affair."""
        for one, other in (lefts, rights):
            product = torch.mul(one, other, out=self._work.scratch("inner", *one.shape))
            self._inner.append(product.sum(1))
        self._products.append(_Product(share, 2.0, -len(self._inner), -len(self._inner) - 1))

    def add_known(self, share: int, squares: Tensor) -> None:
        """Squared norms that are known as such."""
        self._known.append((share, squares))

    def totals(self) -> Tensor:
        """shares x records, in float64."""
        K, M = len(self._norms), len(self._inner)
        first, second, coefficients, rounding, underflow = self._work.constant(
            (self._shares, *self._products, *self._sizes), self._constants
        )
        # |t_i|^2 for every tensor, inner products from the last to the first, a one
        table = torch.empty(K + M + 1, self._records, dtype=torch.float64, device=self._work.device)
        if K:
            table[:K].copy_(torch.stack(self._norms)).square_().mul_(rounding).add_(underflow)
        if M:
            table[K : K + M].copy_(torch.stack(self._inner[::-1]))
        table[-1] = 1
        totals: Tensor = coefficients @ table[first].mul_(table[second])
        for share, squares in self._known:
            totals[share] += squares
        return totals

    def _norm(self, tensor: Tensor) -> int:
        number, _ = self._numbers.get(id(tensor), (len(self._norms), tensor))
        if number == len(self._norms):
            flat = tensor if tensor.ndim == 2 else tensor.flatten(1)
            self._norms.append(torch.linalg.vector_norm(flat, dim=1))
            self._sizes.append(flat.shape[1])
            self._numbers[id(tensor)] = (number, tensor)
        return number

    def _constants(self) -> tuple[Tensor, ...]:
        device, dtype, rows = self._work.device, self._work.dtype, len(self._norms) + len(self._inner) + 1

        def numbers(values: list[float], kind: torch.dtype = torch.float64) -> Tensor:
            return torch.tensor(values, dtype=kind, device=device)

        coefficients = torch.zeros(self._shares, len(self._products), dtype=torch.float64)
        for place, product in enumerate(self._products):
            coefficients[product.share, place] = product.coefficient
        return (
            numbers([product.first % rows for product in self._products], torch.int64),
            numbers([product.second % rows for product in self._products], torch.int64),
            coefficients.to(device),
            numbers([1 + slack(size, dtype) for size in self._sizes]).view(-1, 1),
            numbers([lost(size, dtype) for size in self._sizes]).view(-1, 1),
        )
