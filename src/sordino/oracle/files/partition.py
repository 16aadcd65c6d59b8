"""A range of a source's blocks, and its part of an answer: read from the files anew for every answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.oracle import linear_oracle
from sordino.oracle.answers import InMemoryOracle
from sordino.oracle.files.ahead import ahead
from sordino.oracle.files.asks import Ask
from sordino.oracle.files.selection import Selection
from sordino.oracle.files.source import Source
from sordino.oracle.files.sums import Term, TreeSum
from sordino.oracle.kernels.pool import share
from sordino.oracle.linear import LinearModel, cut
from sordino.oracle.sampling import Batch

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_STRIP = 1 << 18
"""Numbers that a task turns."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Blocks first..last of a source, and of their records those selected: None is all of them."""

    source: Source
    first: int
    last: int
    selection: Selection | None = None

    @staticmethod
    def whole(source: Source) -> Partition:
        return Partition(source, 0, -(-source.shape[0] // source.block))

    def starts(self) -> NDArray[np.int64]:
        """How many of these records come before each block, and how many there are in all."""
        if self.selection is not None:
            return self.selection.starts()
        edges = np.arange(self.first, self.last + 1) * self.source.block
        starts: NDArray[np.int64] = np.minimum(edges, self.source.shape[0]) - edges[0]
        return starts

    def span(self, number: int) -> tuple[int, int]:
        """The records of a block, by their numbers in the source."""
        start = number * self.source.block
        return start, min(start + self.source.block, self.source.shape[0])

    def wanted(self, batch: Batch) -> Iterator[tuple[int, Index | None]]:
        """The blocks that an answer needs, and the positions of the needed records in each: None is all of them."""
        if batch is None and self.selection is None:
            yield from ((number, None) for number in range(self.first, self.last))
            return
        starts = self.starts()
        edges = starts if batch is None else np.searchsorted(batch, starts)
        for block in np.flatnonzero(np.diff(edges)).tolist():
            chosen = None if self.selection is None else self.selection.within(block)
            if batch is not None:
                places = batch[edges[block] : edges[block + 1]] - starts[block]
                chosen = places if chosen is None else chosen[places]
            yield self.first + block, chosen

    def answer(self, model: LinearModel, ask: Ask, batch: Batch) -> list[Term]:
        """This partition's part of an answer. Reads what it needs, and holds four blocks at most."""
        turn = Turn()
        with self.source.reader() as reader:

            def read() -> Iterator[tuple[int, Any, Array]]:
                for number, which in self.wanted(batch):
                    yield number, *reader.rows(*self.span(number), which)

            with ahead(read()) as blocks:
                return self.summed((number, ask.of(held(turn(X), y, model), None)) for number, X, y in blocks)

    def summed(self, answers: Iterable[tuple[int, Array]]) -> list[Term]:
        total = TreeSum(self.first)
        for number, answer in answers:
            total.add(Term(number, number, answer))
        return total.terms


class Turn:
    """From columns one after the other to rows one after the other, on all processors and into one place."""

    def __init__(self) -> None:
        self._place: NDArray[Any] = np.empty((0, 0))

    def __call__(self, X: Any) -> Any:
        if not isinstance(X, np.ndarray) or X.flags.c_contiguous:
            return X
        if self._place.shape[0] < len(X):
            self._place = np.empty(X.shape, dtype=X.dtype)
        rows, strips = self._place[: len(X)], cut(len(X), X.size // _STRIP)
        share(lambda number: np.copyto(rows[slice(*strips[number])], X[slice(*strips[number])]), len(strips))
        return rows


def held(X: Any, y: Array, model: LinearModel) -> InMemoryOracle:
    """A block in memory. The number of its records is not the problem's: hence the relation under which it need not."""
    return linear_oracle(X, y, model.problem, model.rows, Relation.ADD_REMOVE)  # type: ignore[return-value]
