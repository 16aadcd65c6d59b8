"""Arrays in memory as a source, so that a cluster can share them out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sordino.arrays import Array, Index
from sordino.oracle.files.source import AS_GIVEN, Coding, Labels, record_units
from sordino.oracle.units import RecordUnits


@dataclass(frozen=True, eq=False)
class Memory:
    """Rows offset..offset+len(X) of all: the others are held elsewhere, and cannot be asked for here."""

    X: Any = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    units: RecordUnits
    offset: int = 0
    coding: Coding = AS_GIVEN

    @staticmethod
    def of(X: Any, y: Any) -> Memory:
        rows: Any = X.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X)
        targets = np.asarray(y)
        if rows.ndim != 2 or targets.shape != rows.shape[:1]:
            raise ValueError(
                f"X has shape {rows.shape} and y has shape {targets.shape}: a matrix and one target per row are needed."
            )
        if not rows.shape[0]:
            raise ValueError("X has no records.")
        numbers = -(-rows.nnz // rows.shape[0]) if sparse.issparse(rows) else rows.shape[1]
        return Memory(rows, targets, record_units(rows.shape[0], numbers))

    @property
    def shape(self) -> tuple[int, int]:
        return self.units.records, self.X.shape[1]

    @property
    def sparse(self) -> bool:
        return bool(sparse.issparse(self.X))

    @property
    def row_bytes(self) -> int:
        numbers = self.X.data if self.sparse else self.X
        return int(-(-numbers.nbytes // max(1, self.X.shape[0])))

    @property
    def identity(self) -> bytes:
        """Of a few rows: only a warning depends on it."""
        few = np.linspace(0, self.X.shape[0] - 1, num=min(256, self.X.shape[0]), dtype=int)
        rows = self.X[few].toarray() if sparse.issparse(self.X) else self.X[few]
        return hashlib.sha256(repr(self.shape).encode() + rows.tobytes() + self.y[few].tobytes()).digest()

    def coded(self, coding: Coding) -> Self:
        return replace(self, coding=coding)

    def check(self) -> int:
        return int(np.isnan(self.coding.numbers(self.y)).sum()) if isinstance(self.coding, Labels) else 0

    def part(self, start: int, stop: int) -> Memory:
        """The source of these records alone."""
        some = slice(start - self.offset, stop - self.offset)
        return replace(self, X=self.X[some], y=self.y[some], offset=start)

    @contextmanager
    def reader(self) -> Iterator[MemoryReader]:
        yield MemoryReader(self)


class MemoryReader:
    ahead = 1

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def rows(self, start: int, stop: int, which: Index | None) -> tuple[Any, Array]:
        memory = self._memory
        some = slice(start - memory.offset, stop - memory.offset)
        X, y = memory.X[some], memory.y[some]
        if which is not None:
            X, y = X[which], y[which]
        if isinstance(X, np.ndarray):
            X = X.view()
            X.flags.writeable = False
        return X, memory.coding.numbers(y)
