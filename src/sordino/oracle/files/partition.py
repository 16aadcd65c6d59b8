"""A range of a source's blocks, and what they answer when they are read anew for every question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.block_queries import BlockQuery, ClippedSum, about
from sordino.oracle.blocks import block_of, places
from sordino.oracle.files.column_sums import ColumnSums
from sordino.oracle.files.prefetch import prefetched
from sordino.oracle.files.row_major import RowMajor
from sordino.oracle.files.selection import Selection
from sordino.oracle.files.source import Source
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch
from sordino.oracle.tree_sum import Term


class BlockRecords(NamedTuple):
    """What was read of a block: its number, rows, targets, and what the records count, None being one each."""

    number: int
    X: Any
    y: Array
    weights: Array | None


@dataclass(frozen=True, eq=False)
class Partition:
    """Blocks first..last of a source, and of their units those selected: None is all of them.

    `weights` say what each of the blocks' records counts, selected or not; None is one each.
    """

    source: Source
    first: int
    last: int
    selection: Selection | None = None
    weights: Array | None = None

    @staticmethod
    def whole(source: Source, weights: Array | None = None) -> Partition:
        return Partition(source, 0, source.units.blocks, weights=weights)

    def __len__(self) -> int:
        return int(self.starts()[-1])

    def starts(self) -> NDArray[np.int64]:
        """How many of these units come before each block, and how many there are in all."""
        return self.source.units.starts(self.first, self.last) if self.selection is None else self.selection.starts()

    def wanted(self, batch: Batch) -> Iterator[tuple[int, Index | None]]:
        """The blocks that an answer needs, and which of their rows it needs: None is all of them."""
        for place, units, _ in places(self.starts(), batch):
            if self.selection is not None:
                chosen = self.selection.within(place)
                units = chosen if units is None else chosen[units]
            yield self.first + place, self.source.units.rows(units)

    @contextmanager
    def read(self, batch: Batch = None) -> Iterator[Iterator[BlockRecords]]:
        """Every block that is needed, as rows."""
        row_major = RowMajor()
        with self.stored(batch) as blocks:
            yield (block._replace(X=row_major(block.X)) for block in blocks)

    @contextmanager
    def stored(self, batch: Batch = None) -> Iterator[Iterator[BlockRecords]]:
        """The same as they are stored. A few are in memory at a time, three and those that the reader is ahead."""
        with self.source.reader() as reader:

            def fetch() -> Iterator[BlockRecords]:
                for number, which in self.wanted(batch):
                    X, y = reader.rows(*self.source.units.span(number), which)
                    yield BlockRecords(number, X, y, self.weights_of(number, which))

            with prefetched(fetch(), reader.ahead) as blocks:
                yield blocks

    def weights_of(self, number: int, which: Index | None = None) -> Array | None:
        """Of the rows of a block, or of some of them."""
        if self.weights is None:
            return None
        first = self.source.units.span(self.first)[0]
        start, stop = self.source.units.span(number)
        weights = self.weights[start - first : stop - first]
        return weights if which is None else weights[which]

    def divide(self, batch: Index) -> tuple[Partition, Partition]:
        units = self.source.units
        here = Selection.everything(len(units), units.block) if self.selection is None else self.selection
        outside, inside = here.divide(batch)
        return replace(self, selection=outside), replace(self, selection=inside)


@dataclass(frozen=True, eq=False)
class StreamedBlocks:
    """Records in files larger than memory: every answer is one pass over what it needs of them.

    Nothing is kept for each unit but a bit, and that only after `divide`.
    """

    partition: Partition
    rows: Rows

    def __len__(self) -> int:
        return len(self.partition)

    def terms(self, asked: BlockQuery, batch: Batch) -> Iterator[Term]:
        row_major, in_columns = RowMajor(), ColumnSums()
        with self.partition.stored(batch) as blocks:
            for block, (_, _, some) in zip(blocks, places(self.partition.starts(), batch), strict=True):
                if batch is None:
                    found = in_columns(block.X, block.y, self.rows, block.weights, asked)
                    if found is not None:
                        yield Term(block.number, block.number, found)
                        continue
                records = block_of(row_major(block.X), block.y, self.rows, block.weights)
                # of a batch nothing else was read: asked for as a batch, it has the bits of one in memory
                which = None if batch is None or not isinstance(asked, ClippedSum) else np.arange(len(records))
                yield Term(block.number, block.number, records.answer(about(asked, some), which))

    def divide(self, batch: Index) -> tuple[StreamedBlocks, StreamedBlocks]:
        outside, inside = self.partition.divide(batch)
        return StreamedBlocks(outside, self.rows), StreamedBlocks(inside, self.rows)

    def under_rows(self, rows: Rows) -> StreamedBlocks:
        return StreamedBlocks(self.partition, rows)
