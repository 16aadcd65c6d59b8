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

    def factors(self, shares: Sequence[Share], losses: Sequence[Tensor], count: int) -> Factors:
        """A record counts for nothing when a norm or a loss of it is not finite, and so do rows from `count` on."""
        ...


def norms_of(shares: int, records: int, work: Workspace) -> Norms:
    if work.device.type == "cpu" and work.dtype in (torch.float32, torch.float64):
        return _Loops(shares, records, work.dtype)
    return _Operations(shares, records, work)


class _Loops:
    """Notes what makes up the norms, and has one kernel go through it at the end."""

    def __init__(self, shares: int, records: int, dtype: torch.dtype) -> None:
        self._totals = np.zeros((shares, records))
        self._dtype = dtype
        # tensors are held, so that neither their memory nor their identity can pass to another one
        self._held: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._sides: list[tuple[int, int]] = []
        self._inner: list[tuple[int, int]] = []
        self._terms: list[tuple[int, int, int]] = []
        self._coefficients: list[float] = []

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        self._terms.append((share, 1 + self._side(left), 0 if right is None else 1 + self._side(right)))
        self._coefficients.append(coefficient)

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        self._inner += [(self._side(one), self._side(other)) for one, other in (lefts, rights)]
        self._terms.append((share, 1 - len(self._inner), -len(self._inner)))
        self._coefficients.append(2.0)

    def add_known(self, share: int, squares: Tensor) -> None:
        self._totals[share] += squares.numpy()

    def factors(self, shares: Sequence[Share], losses: Sequence[Tensor], count: int) -> Factors:
        weights = torch.empty(self._totals.shape, dtype=self._dtype)
        usable = np.empty(self._totals.shape[1], dtype=np.bool_)
        factors = weights.numpy()
        flags = [self._alike(each) for each in losses]
        spoiled = kernels.clip_factors(
            factors[:0],
            _table(self._sides, 2),
            np.array([(slack(n), lost(n)) for _, n in self._sides]).reshape(-1, 2),
            _table(self._inner, 2),
            _table(self._terms, 3),
            np.array(self._coefficients, dtype=np.float64),
            np.array([each.data_ptr() for each in flags]),
            np.array([(share.factor, share.clip, largest_square(share.clip, self._dtype)) for share in shares]),
            slack(0, self._dtype),
            self._totals,
            factors,
            usable,
            count,
        )
        return Factors(list(weights.unbind()), torch.from_numpy(np.flatnonzero(~usable)) if spoiled else None)

    def _side(self, tensor: Tensor) -> int:
        """The tensor's number: rows are told by where they lie, so they are held until the end."""
        number = self._numbers.get(id(tensor))
        if number is None:
            rows = (tensor if tensor.ndim == 2 else tensor.flatten(1)).contiguous()
            assert rows.dtype == self._dtype, f"{rows.dtype} among numbers of {self._dtype}"
            number = self._numbers[id(tensor)] = len(self._sides)
            self._sides.append((rows.data_ptr(), rows.shape[1]))
            self._held.append(tensor)
            self._held.append(rows)
        return number

    def _alike(self, losses: Tensor) -> Tensor:
        """Finite where the losses are, in the dtype of the rest."""
        return (
            losses.contiguous()
            if losses.dtype == self._dtype
            else torch.where(losses.isfinite(), 0, torch.inf).to(self._dtype)
        )


def _table(rows: list[Any], columns: int) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)


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

    def factors(self, shares: Sequence[Share], losses: Sequence[Tensor], count: int) -> Factors:
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
        for each in weights:
            each[count:] = 0
        return Factors(weights, spoiled)

    def _square(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self._squares:
            n = tensor[0].numel()
            norms = torch.linalg.vector_norm(tensor.flatten(1), dim=1, dtype=torch.float64)
            self._squares[id(tensor)] = (tensor, norms.square_().mul_(1 + slack(n)).add_(lost(n)))
        return self._squares[id(tensor)][1]
