"""Some of the records of a source, one bit for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Index

Bits = NDArray[np.uint8]

_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class Selection:
    """`bits` holds block / 8 bytes for every block; records are numbered by their place among those selected."""

    bits: Bits
    block: int

    @staticmethod
    def everything(records: int, block: int) -> Selection:
        bits = np.full(-(-records // block) * (block // 8), 255, dtype=np.uint8)
        # past the last record there is nothing
        bits[-(-records // 8) :] = 0
        if records % 8:
            bits[records // 8] = (0xFF00 >> records % 8) & 0xFF
        return Selection(bits, block)

    def within(self, number: int) -> Index:
        """The positions of the selected records within a block."""
        width = self.block // 8
        return np.flatnonzero(np.unpackbits(self.bits[number * width : (number + 1) * width]))

    def starts(self) -> NDArray[np.int64]:
        """How many records are selected before each block, and in all."""
        counts = _ONES[self.bits].reshape(-1, self.block // 8).sum(axis=1, dtype=np.int64)
        return np.concatenate([[0], np.cumsum(counts)])

    def blocks(self, first: int, last: int) -> Selection:
        """The part of blocks first..last, numbered anew."""
        width = self.block // 8
        return Selection(self.bits[first * width : last * width], self.block)

    def divide(self, batch: Index) -> tuple[Selection, Selection]:
        """The selected records without those of the batch, and the batch."""
        inside = np.zeros_like(self.bits)
        starts, width = self.starts(), self.block // 8
        edges = np.searchsorted(batch, starts)
        for number in np.flatnonzero(np.diff(edges)).tolist():
            mask = np.zeros(self.block, dtype=bool)
            mask[self.within(number)[batch[edges[number] : edges[number + 1]] - starts[number]]] = True
            inside[number * width : (number + 1) * width] = np.packbits(mask)
        return Selection(self.bits & ~inside, self.block), Selection(inside, self.block)
