r"""Upper bounds of the squared norms of every record's gradients, and the factors that clip them.

A layer's part in |g_i|^2 is mostly a product of two numbers per record: |left_i|^2 |right_i|^2 or, where two pairs
meet, 2 <left_i, left'_i> <right_i, right'_i>. All in float64: on the processor by loops of our own, because many small
operations cost more than the few large ones of a network; on other devices by PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.oracle.torch import kernels
from sordino.oracle.torch.rounding import largest_square, lost, slack
from sordino.oracle.torch.workspace import Workspace


class Share(NamedTuple):
    """What is clipped, at which norm, and how much of it enters the answer."""

    of: Literal["gradient", "difference"]
    clip: float
    factor: float


class Factors(NamedTuple):
    """factor min(1, clip / |g_i|) for every share, and the records that count for nothing, if any."""

    weights: list[Tensor]
    spoiled: Tensor | None


class Norms(Protocol):
    """Adds up the squared norms of several kinds of gradients of the same records, one kind per share."""

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        """coefficient |left_i|^2 |right_i|^2, or without a right side coefficient |left_i|^2."""
        ...

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        """2 <left_i, left'_i> <right_i, right'_i>; how it is rounded is the caller's affair."""
        ...

    def add_known(self, share: int, squares: Tensor) -> None:
        """Squared norms that are known as such, in float64."""
        ...

    def factors(self, shares: Sequence[Share], losses: Sequence[Tensor]) -> Factors:
        """A record counts for nothing when a norm or a loss of it is not finite."""
        ...


def norms_of(shares: int, records: int, work: Workspace) -> Norms:
    if work.device.type == "cpu" and work.dtype in (torch.float32, torch.float64):
        return _Loops(shares, records, work.dtype)
    return _Operations(shares, records, work)


class _Loops:
    def __init__(self, shares: int, records: int, dtype: torch.dtype) -> None:
        self._totals, self._ones = np.zeros((shares, records)), np.ones(records)
        self._dtype = dtype
        # tensors are held with their norms, so that their identity cannot pass to another one
        self._squares: dict[int, tuple[Tensor, NDArray[np.float64]]] = {}

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        first = self._square(left)
        kernels.add_product(
            self._totals[share], coefficient, first, self._ones if right is None else self._square(right)
        )

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        kernels.add_product(self._totals[share], 2.0, self._inner(*lefts), self._inner(*rights))

    def add_known(self, share: int, squares: Tensor) -> None:
        self._totals[share] += squares.numpy()

    def factors(self, shares: Sequence[Share], losses: Sequence[Tensor]) -> Factors:
        # room for the rounding of what is done with them
        self._totals *= 1 + slack(0, self._dtype)
        weights = torch.empty(self._totals.shape, dtype=self._dtype)
        usable = np.empty(self._totals.shape[1], dtype=np.bool_)
        spoiled = kernels.clip_factors(
            self._totals,
            tuple(each.numpy() for each in losses),
            tuple(float(share.clip) for share in shares),
            tuple(largest_square(share.clip, self._dtype) for share in shares),
            tuple(float(share.factor) for share in shares),
            weights.numpy(),
            usable,
        )
        return Factors(list(weights.unbind()), torch.from_numpy(np.flatnonzero(~usable)) if spoiled else None)

    def _square(self, tensor: Tensor) -> NDArray[np.float64]:
        found = self._squares.get(id(tensor))
        if found is None:
            rows = _rows(tensor)
            n, squares = rows.shape[1], np.empty(rows.shape[0])
            kernels.square_norms(rows, slack(n), lost(n), squares)
            found = self._squares[id(tensor)] = (tensor, squares)
        return found[1]

    def _inner(self, one: Tensor, other: Tensor) -> NDArray[np.float64]:
        products = np.empty(one.shape[0])
        kernels.inner_products(_rows(one), _rows(other), products)
        return products


def _rows(tensor: Tensor) -> NDArray[Any]:
    return (tensor if tensor.ndim == 2 else tensor.flatten(1)).contiguous().numpy()


class _Operations:
    def __init__(self, shares: int, records: int, work: Workspace) -> None:
        self._totals = torch.zeros(shares, records, dtype=torch.float64, device=work.device)
        self._dtype = work.dtype
        self._squares: dict[int, tuple[Tensor, Tensor]] = {}

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        first = self._square(left)
        self._totals[share].add_(first if right is None else first * self._square(right), alpha=coefficient)

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        left, right = ((one.double() * other.double()).sum(1) for one, other in (lefts, rights))
        self._totals[share].addcmul_(left, right, value=2.0)

    def add_known(self, share: int, squares: Tensor) -> None:
        self._totals[share].add_(squares)

    def factors(self, shares: Sequence[Share], losses: Sequence[Tensor]) -> Factors:
        self._totals *= 1 + slack(0, self._dtype)
        usable = torch.stack(
            [
                squares <= largest_square(share.clip, self._dtype)
                for squares, share in zip(self._totals, shares, strict=True)
            ]
            + [each.isfinite() for each in losses]
        ).all(0)
        spoiled = None if bool(usable.all()) else torch.nonzero(~usable).view(-1)
        if spoiled is not None:
            self._totals.index_fill_(1, spoiled, 0)
        weights = [
            (share.factor * (share.clip / squares.sqrt().clamp_(min=share.clip))).to(self._dtype)
            for squares, share in zip(self._totals, shares, strict=True)
        ]
        return Factors(weights, spoiled)

    def _square(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self._squares:
            n = tensor[0].numel()
            norms = torch.linalg.vector_norm(tensor.flatten(1), dim=1, dtype=torch.float64)
            self._squares[id(tensor)] = (tensor, norms.square_().mul_(1 + slack(n)).add_(lost(n)))
        return self._squares[id(tensor)][1]
