"""Whose contribution an answer bounds.

A unit is what neighbouring data sets differ in: a batch draws units, a clip bounds what one of them adds to a sum, and
the rows of one are never in two blocks. What it adds depends on its own rows and on nobody else's. The units of a
source are its records; where they belong to persons, `sordino.oracle.person_blocks` puts units together from them,
whose rows may be in several blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Index


class Units(Protocol):
    """The units of a source, in numbered blocks of rows."""

    @property
    def block(self) -> int:
        """Most units of a block; a multiple of 8, because selections are packed bits."""
        ...

    @property
    def blocks(self) -> int: ...

    def __len__(self) -> int: ...

    def starts(self, first: int, last: int) -> NDArray[np.int64]:
        """How many units of the blocks first..last come before each of them, and how many there are in all."""
        ...

    def span(self, number: int) -> tuple[int, int]:
        """The rows of a block, by their numbers in the source."""
        ...

    def rows(self, units: Index | None) -> Index | None:
        """Where the rows of these units of a block are in it; None is all of them."""
        ...


@dataclass(frozen=True)
class RecordUnits:
    """Every record is a unit, and `block` of them make a block."""

    records: int
    block: int

    def __len__(self) -> int:
        return self.records

    @property
    def blocks(self) -> int:
        return -(-self.records // self.block)

    def starts(self, first: int, last: int) -> NDArray[np.int64]:
        edges = np.arange(first, last + 1) * self.block
        starts: NDArray[np.int64] = np.minimum(edges, self.records) - edges[0]
        return starts

    def span(self, number: int) -> tuple[int, int]:
        start = number * self.block
        return start, min(start + self.block, self.records)

    def rows(self, units: Index | None) -> Index | None:
        return units
