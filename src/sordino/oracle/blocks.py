"""The records of a data set in numbered blocks, wherever they are: what the linear oracle adds up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sordino.arrays import Array, Index
from sordino.oracle.block import Block
from sordino.oracle.block_queries import BlockQuery, about
from sordino.oracle.dense import DenseBlock
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch
from sordino.oracle.tree_sum import Term


class Blocks(Protocol):
    def __len__(self) -> int:
        """How many units there are, see `sordino.oracle.units`."""
        ...

    def terms(self, asked: BlockQuery, batch: Batch) -> Iterable[Term]:
        """The answers of the blocks that hold units of the batch, in the order of their numbers."""
        ...

    def divide(self, batch: Index) -> tuple[Self, Self]:
        """The units outside a batch, and those inside."""
        ...

    def under_rows(self, rows: Rows) -> Self:
        """The same records, whose rows are made otherwise."""
        ...


@dataclass(frozen=True, eq=False)
class HeldBlocks:
    """In memory, by their numbers."""

    blocks: Mapping[int, Block]

    @staticmethod
    def of(X: Any, y: Any, rows: Rows, weights: Array | None = None) -> HeldBlocks:
        """A matrix as one block."""
        return HeldBlocks({0: block_of(X, y, rows, weights).kept()})

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """How many units come before each block, and how many there are in all."""
        return np.cumsum([0, *map(len, self.blocks.values())])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def terms(self, asked: BlockQuery, batch: Batch) -> Iterator[Term]:
        for number, which, some in self._places(batch):
            yield Term(number, number, self.blocks[number].answer(about(asked, some), which))

    def divide(self, batch: Index) -> tuple[HeldBlocks, HeldBlocks]:
        inside = {number: which for number, which, _ in self._places(batch) if which is not None}
        nobody = np.empty(0, dtype=np.intp)
        outside = {
            number: np.delete(np.arange(len(block)), inside.get(number, nobody))
            for number, block in self.blocks.items()
        }
        return self._taken(outside), self._taken(inside)

    def under_rows(self, rows: Rows) -> HeldBlocks:
        return HeldBlocks({number: block.under_rows(rows) for number, block in self.blocks.items()})

    def _places(self, batch: Batch) -> Iterator[tuple[int, Index | None, slice]]:
        numbers = list(self.blocks)
        if len(numbers) == 1:
            # nothing to search for, and small problems are asked about many thousand times
            return iter([(numbers[0], batch, slice(None))])
        return ((numbers[place], which, some) for place, which, some in places(self.starts, batch))

    def _taken(self, which: Mapping[int, Index]) -> HeldBlocks:
        return HeldBlocks({number: self.blocks[number].take(some).kept() for number, some in which.items()})


def block_of(X: Any, y: Any, rows: Rows, weights: Array | None = None) -> Block:
    if not issparse(X):
        return DenseBlock.of(X, y, rows, weights)
    # imported here because the compiler behind its kernels takes a while to load, and dense rows may do without
    from sordino.oracle.sparse import SparseBlock

    return SparseBlock.of(X, y, rows, weights)


def places(starts: NDArray[Any], batch: Batch) -> Iterator[tuple[int, Index | None, slice]]:
    """The blocks that hold units of a batch, which of theirs, None being all, and where in the batch those are.

    `starts` units precede each block.
    """
    edges = starts if batch is None else np.searchsorted(batch, starts)
    for block in np.flatnonzero(np.diff(edges)).tolist():
        some = slice(int(edges[block]), int(edges[block + 1]))
        yield block, None if batch is None else batch[some] - starts[block], some
