"""Memory that is asked for once: fresh temporaries cost page faults at every step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sordino.oracle.torch import alignment


class Workspace:
    """Tensors of one dtype and device, given out anew after every `reset` in the order in which they are asked for.

    `aligned` has batched products computed as in `alignment`.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self.aligned = False
        self._taken: list[Tensor] = []
        self._given: list[Tensor] = []
        self._next = 0
        self._scratch: dict[str, Tensor] = {}

    def reset(self) -> None:
        """Everything taken so far may be overwritten."""
        self._next = 0

    def take(self, *shape: int) -> Tensor:
        """Uninitialised, and nobody else's until the next reset."""
        number = self._next
        self._next += 1
        if number == len(self._taken):
            self._taken.append(self._room(0))
            self._given.append(self._taken[number])
        # batches of one size ask for the same views again and again
        if self._given[number].shape != shape:
            self._taken[number] = held = self._large_enough(self._taken[number], shape)
            self._given[number] = held[: math.prod(shape)].view(shape)
        return self._given[number]

    def scratch(self, name: str, *shape: int) -> Tensor:
        """Uninitialised, and the caller's until somebody asks for the same name."""
        self._scratch[name] = held = self._large_enough(self._scratch.get(name, self._room(0)), shape)
        return held[: math.prod(shape)].view(shape)

    def bmm(self, a: Tensor, b: Tensor) -> Tensor:
        return alignment.bmm(a, b) if self.aligned else torch.bmm(a, b)

    def add_bmm(self, out: Tensor, a: Tensor, b: Tensor, first: bool) -> None:
        """out = a b for every matrix, or out += a b where it is not the first."""
        if not self.aligned:
            torch.baddbmm(out, a, b, beta=0 if first else 1, out=out)
        elif first:
            out.copy_(alignment.bmm(a, b))
        else:
            out.add_(alignment.bmm(a, b))

    def _large_enough(self, held: Tensor, shape: tuple[int, ...]) -> Tensor:
        size = math.prod(shape)
        # batches drawn by coins vary: room for one that is somewhat larger
        return held if held.numel() >= size else self._room(size + size // 8)

    def _room(self, size: int) -> Tensor:
        return torch.empty(size, dtype=self.dtype, device=self.device)
