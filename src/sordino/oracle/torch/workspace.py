"""Memory that is asked for once, and what is computed into it in every pass.

All tensors of a pass stay where they are, so that views of them, and tables of where they lie, are made once as well:
for a small network that would cost more than the numbers do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from sordino.oracle.torch import alignment

Step = Callable[[], object]

TEMPORARY = 1 << 21
"""Bytes of what is filled for a few records at a time."""


def done(steps: Sequence[Step]) -> None:
    """Do them, one after the other."""
    for step in steps:
        step()


class Workspace:
    """Tensors on one device, mostly of one dtype. `steps` are to be done in every pass, in their order.

    `taken` is how many bytes were asked for to stay. `aligned` has batched products computed as in `alignment`. While
    `trying`, what records add is noted, as sums of its bits, by those who compute it anew for a sum.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, aligned: bool = False) -> None:
        self.dtype, self.device, self.aligned = dtype, device, aligned
        self.steps: list[Step] = []
        self.taken = 0
        self.trying = False
        self.bits: list[Tensor] = []
        self._scratch: dict[tuple[str, torch.dtype], Tensor] = {}
        self._frames: dict[tuple[torch.Size, torch.dtype, tuple[int, ...]], tuple[Tensor, Tensor]] = {}

    def take(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Uninitialised, and nobody else's."""
        taken = torch.empty(shape, dtype=dtype or self.dtype, device=self.device)
        self.taken += taken.nbytes
        return taken

    def scratch(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Uninitialised, and the caller's until somebody who asked for the same name writes to it."""
        key, size = (name, dtype or self.dtype), math.prod(shape)
        if key not in self._scratch or self._scratch[key].numel() < size:
            # more than is asked for: most of those who ask next find room there too
            most = max(size, TEMPORARY // key[1].itemsize)
            self._scratch[key] = torch.empty(most, dtype=key[1], device=self.device)
        return self._scratch[key][:size].view(shape)

    def frame(self, image: Tensor, margin: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Room for an image of this shape with zeros around it, which are written once, and what is inside of them.

        The caller's until somebody asks for one of the same shape. A margin is as functional.pad wants it.
        """
        key = (image.shape, image.dtype, margin)
        if key not in self._frames:
            framed = inside = functional.pad(torch.zeros_like(image), margin)
            for axis, before in enumerate(margin[::2], 1):
                inside = inside.narrow(-axis, before, image.shape[-axis])
            self._frames[key] = framed, inside
        return self._frames[key]

    def note_bits(self, records: int) -> Tensor:
        """Where to note them, one number per record."""
        self.bits.append(torch.zeros(records, dtype=torch.int64, device=self.device))
        return self.bits[-1]

    def mm(self, a: Tensor, b: Tensor) -> Tensor:
        return alignment.mm(a, b) if self.aligned else torch.mm(a, b)

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
