r"""Upper bounds of the squared norms of every record's gradients, and the factors that clip them.

A layer's part in |g_i|^2 is mostly a product of two numbers per record: |left_i|^2 |right_i|^2 or, where two pairs
meet, 2 <left_i, left'_i> <right_i, right'_i>. All in float64: on the processor by loops of our own, because many small
operations cost more than the few large ones of a network; on other devices by PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.oracle.torch import kernels
from sordino.oracle.torch.rounding import largest_side, largest_square, lost, slack
from sordino.oracle.torch.workspace import Workspace
from sordino.privacy import team

Kind = Literal["gradient", "difference"]


class Share(NamedTuple):
    """What is clipped, at which norm, and how much of it enters the answer.

    With a `softening` s > 0 everything is scaled, to clip g / (|g| + s). As s is added to an upper bound of the norm,
    weights are below clip / |g| then too, which is what bounds on norms and on rounding rest on.
    """

    of: Kind
    clip: float
    factor: float
    softening: float = 0.0

    @property
    def part(self) -> float:
        """What a long record's weight is, times its norm. A share without weight has the clip, so that it may count."""
        return self.factor * self.clip or self.clip


class Norms(Protocol):
    """Adds up the squared norms of several kinds of gradients of the same records, one kind per share.

    What they are made of is told once; it lies where it lay in every pass.
    """

    weights: list[Tensor]
    """factor min(1, clip / |g_i|), or factor clip / (|g_i| + s), for every share, as of the last pass."""

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        """coefficient |left_i|^2 |right_i|^2, or without a right side coefficient |left_i|^2."""
        ...

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        """2 <left_i, left'_i> <right_i, right'_i>; how it is rounded is the caller's affair."""
        ...

    def add_known(self, share: int, squares: Tensor) -> None:
        """Squared norms that are known as such, in float64."""
        ...

    def weigh(self, shares: Sequence[Share], count: int) -> Tensor | None:
        """Compute the weights, and tell which records count for nothing, if any.

        Those are records of which a norm or a loss is not finite. Rows from `count` on have no weight either.
        """
        ...


def norms_of(shares: int, losses: Sequence[Tensor], work: Workspace) -> Norms:
    """Of the records with these losses, at one point or two, of which it matters whether they are finite."""
    if work.device.type == "cpu" and work.dtype in (torch.float32, torch.float64):
        return _Loops(shares, losses, work)
    return _Operations(shares, losses, work)


class _Loops:
    """Notes what makes up the norms, and has one kernel go through it in every pass."""

    def __init__(self, shares: int, losses: Sequence[Tensor], work: Workspace) -> None:
        records = len(losses[0])
        weights = work.take(shares, records)
        self.weights = list(weights.unbind())
        self._factors, self._dtype = weights.numpy(), work.dtype
        self._totals = np.empty((shares, records))
        self._usable = np.empty(records, dtype=np.bool_)
        # tensors are told by where they lie, so they are held
        self._held: list[Tensor] = []
        self._numbers: dict[int, int] = {}
        self._sides: list[tuple[int, int]] = []
        self._inner: list[tuple[int, int]] = []
        self._terms: list[tuple[int, int, int]] = []
        self._coefficients: list[float] = []
        self._known: list[tuple[int, int]] = []
        self._losses = [self._address(each) for each in losses]
        self._prepared: Callable[..., int] | None = None

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        self._terms.append((share, 1 + self._side(left), 0 if right is None else 1 + self._side(right)))
        self._coefficients.append(coefficient)

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        self._inner += [(self._side(one), self._side(other)) for one, other in (lefts, rights)]
        self._terms.append((share, 1 - len(self._inner), -len(self._inner)))
        self._coefficients.append(2.0)

    def add_known(self, share: int, squares: Tensor) -> None:
        self._known.append((share, self._address(squares, torch.float64)))

    def weigh(self, shares: Sequence[Share], count: int) -> Tensor | None:
        self._prepared = self._prepared or partial(
            kernels.clip_factors,
            _table(self._sides, 2),
            np.array([(slack(n), lost(n)) for _, n in self._sides]).reshape(-1, 2),
            _table(self._inner, 2),
            _table(self._terms, 3),
            np.array(self._coefficients, dtype=np.float64),
            _table(self._known, 2),
            np.array(self._losses, dtype=np.int64),
        )
        spoiled = self._prepared(
            _clips(tuple(shares), self._dtype),
            _longest(shares, self._dtype),
            slack(0, self._dtype),
            self._totals,
            self._factors,
            self._usable,
            count,
            team.present(self._usable.size * sum(length for _, length in self._sides)),
        )
        return torch.from_numpy(np.flatnonzero(~self._usable)) if spoiled else None

    def _side(self, tensor: Tensor) -> int:
        """The tensor's number."""
        address = self._address(tensor)
        if address not in self._numbers:
            self._numbers[address] = len(self._sides)
            self._sides.append((address, tensor[0].numel()))
        return self._numbers[address]

    def _address(self, tensor: Tensor, dtype: torch.dtype | None = None) -> int:
        assert tensor.is_contiguous(), "rows are read one number after the other"
        assert tensor.dtype == (dtype or self._dtype), f"{tensor.dtype} among numbers of {self._dtype}"
        self._held.append(tensor)
        return tensor.data_ptr()


def _table(rows: list[Any], columns: int) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)


@lru_cache(maxsize=16)
def _clips(shares: tuple[Share, ...], dtype: torch.dtype) -> NDArray[np.float64]:
    return np.array(
        [(share.factor, share.clip, largest_square(share.part, dtype), share.softening) for share in shares]
    )


def _longest(shares: Sequence[Share], dtype: torch.dtype) -> float:
    return largest_side(sum(share.factor * share.clip for share in shares), dtype)


class _Operations:
    def __init__(self, shares: int, losses: Sequence[Tensor], work: Workspace) -> None:
        self.weights = list(work.take(shares, len(losses[0])).unbind())
        self._losses, self._dtype = losses, work.dtype
        self._terms: list[list[Callable[[dict[int, Tensor]], Tensor]]] = [[] for _ in range(shares)]

    def add(self, share: int, left: Tensor, right: Tensor | None = None, coefficient: float = 1.0) -> None:
        def term(known: dict[int, Tensor]) -> Tensor:
            first = _square(left, known)
            return coefficient * (first if right is None else first * _square(right, known))

        self._terms[share].append(term)

    def add_inner(self, share: int, lefts: tuple[Tensor, Tensor], rights: tuple[Tensor, Tensor]) -> None:
        def term(known: dict[int, Tensor]) -> Tensor:
            left, right = ((one.double() * other.double()).sum(1) for one, other in (lefts, rights))
            return 2.0 * left * right

        self._terms[share].append(term)

    def add_known(self, share: int, squares: Tensor) -> None:
        self._terms[share].append(lambda known: squares)

    def weigh(self, shares: Sequence[Share], count: int) -> Tensor | None:
        known: dict[int, Tensor] = {}
        zeros = torch.zeros_like(self.weights[0], dtype=torch.float64)
        totals = torch.stack([sum((term(known) for term in terms), zeros) for terms in self._terms])
        totals *= 1 + slack(0, self._dtype)
        usable = torch.stack(
            [squares <= largest_square(share.part, self._dtype) for squares, share in zip(totals, shares, strict=True)]
            + [squares <= _longest(shares, self._dtype) for squares in known.values()]
            + [each.isfinite() for each in self._losses]
        ).all(0)
        totals.masked_fill_(~usable, 0)
        for weights, squares, share in zip(self.weights, totals, shares, strict=True):
            norms = squares.sqrt_()
            length = norms + share.softening if share.softening else norms.clamp_(min=share.clip)
            weights.copy_(share.factor * (share.clip / length))
            weights.masked_fill_(~usable, 0)[count:] = 0
        return None if bool(usable.all()) else torch.nonzero(~usable).view(-1)


def _square(tensor: Tensor, known: dict[int, Tensor]) -> Tensor:
    if id(tensor) not in known:
        n = tensor[0].numel()
        norms = torch.linalg.vector_norm(tensor.flatten(1), dim=1, dtype=torch.float64)
        known[id(tensor)] = norms.square_().mul_(1 + slack(n)).add_(lost(n))
    return known[id(tensor)]
