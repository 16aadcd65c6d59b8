r"""Several copies of every record, changed at random, in one contribution.

    g_i = clip( (1/K) sum_{k=1}^{K} grad l(w; a_k(x_i), y_i), C )

The gradients of a record's copies are averaged before they are clipped, so that a record adds one vector of length C at
most, as without copies: they cost time and nothing else (De, Berrada, Hayes, Smith & Balle 2022). As K records they
would cost K times as much.

A model with copies is a function of one record, and is traced as such (see `sordino.oracle.torch.program`): what
changes a copy sees nothing but that copy, and draws from the run's secret randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Mirror:
    """Left and right change places, or not, each with probability 1/2. Of pictures .. x height x width."""

    def __call__(self, x: Tensor) -> Tensor:
        coin = torch.rand((len(x),) + (1,) * (x.ndim - 1), dtype=x.dtype, device=x.device)
        return torch.where(coin < 0.5, x.flip(-1), x)


@dataclass(frozen=True)
class Shift:
    """Up or down and left or right by at most so many pixels, all shifts alike; what comes in is zero."""

    pixels: int

    def __post_init__(self) -> None:
        if not (isinstance(self.pixels, int) and self.pixels >= 1):
            raise ValueError(f"pixels is {self.pixels!r}: pictures are shifted by a whole number of them, at least 1.")

    def __call__(self, x: Tensor) -> Tensor:
        moved = functional.pad(x, (self.pixels,) * 4)
        for axis in (-1, -2):
            shape = [len(x)] + [1] * (x.ndim - 1)
            far = torch.floor((2 * self.pixels + 1) * torch.rand(shape, dtype=torch.float64, device=x.device))
            shape[0], shape[axis] = 1, x.shape[axis]
            from_where = torch.arange(x.shape[axis], device=x.device).view(shape) + far.long()
            moved = moved.gather(axis, from_where.expand(*_with(moved.shape, axis, x.shape[axis])))
        return moved


@dataclass(frozen=True)
class Copies:
    """So many copies of every record, each put through the changes in their order.

    A change takes inputs with the records on the first axis, and gives as many. It must be known without the records,
    and it is asked for one record at a time.
    """

    count: int
    changes: tuple[Change, ...]

    def __init__(self, count: int, *changes: Change) -> None:
        if not (isinstance(count, int) and count >= 1):
            raise ValueError(f"count is {count!r}: every record has a whole number of copies, at least one.")
        if not changes or not all(callable(change) for change in changes):
            raise ValueError("copies that are all the same tell no more than one: name changes, such as Shift(2).")
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "changes", changes)

    def __call__(self, x: Tensor) -> Tensor:
        for change in self.changes:
            x = change(x)
        return x

    def __str__(self) -> str:
        named = [getattr(change, "__name__", None) or repr(change) for change in self.changes]
        return f"{self.count} copies of every record by {', '.join(named)}"


class WithCopies(nn.Module):
    """A model whose output is that of every copy. Its parameters are the model's, in the same order."""

    def __init__(self, model: nn.Module, copies: Copies) -> None:
        super().__init__()
        self.model, self.copies = model, copies

    def forward(self, x: Tensor) -> list[Any]:
        return [self.model(self.copies(x)) for _ in range(self.copies.count)]


def mean_loss(loss: Callable[[Any, Any], Tensor]) -> Callable[[list[Any], Any], Tensor]:
    """Of the copies' outputs, for every record."""

    def of_copies(outputs: list[Any], targets: Any) -> Tensor:
        return torch.stack([loss(output, targets) for output in outputs]).mean(dim=0)

    return of_copies


def _with(shape: torch.Size, axis: int, size: int) -> list[int]:
    sizes = list(shape)
    sizes[axis] = size
    return sizes
