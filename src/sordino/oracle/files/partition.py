"""A range of a source's blocks, and its part of an answer: read anew for every answer, or kept in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.oracle.answers import InMemoryOracle
from sordino.oracle.dense import DenseOracle
from sordino.oracle.files.ahead import ahead
from sordino.oracle.files.asks import Ask
from sordino.oracle.files.selection import Selection
from sordino.oracle.files.source import Source
from sordino.oracle.files.sums import Term, TreeSum
from sordino.oracle.files.turn import Turn
from sordino.oracle.linear import LinearModel
from sordino.oracle.sampling import Batch
from sordino.oracle.sparse import SparseOracle

Array = NDArray[np.float64]
Index = NDArray[np.intp]


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

    def places(self, batch: Batch) -> Iterator[tuple[int, Index | None]]:
        """The blocks that an answer needs, and which of their selected records it needs: None is all of them."""
        starts = self.starts()
        edges = starts if batch is None else np.searchsorted(batch, starts)
        for block in np.flatnonzero(np.diff(edges)).tolist():
            some = None if batch is None else batch[edges[block] : edges[block + 1]] - starts[block]
            yield self.first + block, some

    def wanted(self, batch: Batch) -> Iterator[tuple[int, Index | None]]:
        """The same by the positions of the records in the blocks of the source."""
        for number, places in self.places(batch):
            if self.selection is None:
                yield number, places
                continue
            chosen = self.selection.within(number - self.first)
            yield number, chosen if places is None else chosen[places]

    @contextmanager
    def read(self, batch: Batch = None) -> Iterator[Iterator[tuple[int, Any, Array]]]:
        """Number, rows and targets of every block that is needed. Four blocks at most are in memory at a time."""
        turn = Turn()
        with self.source.reader() as reader:

            def fetch() -> Iterator[tuple[int, Any, Array]]:
                for number, which in self.wanted(batch):
                    yield number, *reader.rows(*self.span(number), which)

            with ahead(fetch()) as blocks:
                yield ((number, turn(X), y) for number, X, y in blocks)

    def answer(self, model: LinearModel, ask: Ask, batch: Batch) -> list[Term]:
        """This partition's part of an answer, from what is read for it."""
        with self.read(batch) as blocks:
            return self.summed((number, ask.of(held(X, y, model), None)) for number, X, y in blocks)

    def summed(self, answers: Iterable[tuple[int, Array]]) -> list[Term]:
        total = TreeSum(self.first)
        for number, answer in answers:
            total.add(Term(number, number, answer))
        return total.terms


class Resident:
    """A partition that is read once and kept. Its answers have the bits of those that are read for."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        with partition.read() as blocks:
            self._rows = {number: (_kept(X), y) for number, X, y in blocks}
        self._model: LinearModel | None = None
        self._blocks: dict[int, InMemoryOracle] = {}

    @property
    def unknown_targets(self) -> int:
        return sum(int(np.isnan(y).sum()) for _, y in self._rows.values())

    def answer(self, model: LinearModel, ask: Ask, batch: Batch) -> list[Term]:
        blocks = self._under(model)
        wanted = self.partition.places(batch)
        return self.partition.summed((number, ask.of(blocks[number], places)) for number, places in wanted)

    def _under(self, model: LinearModel) -> dict[int, InMemoryOracle]:
        """The blocks for this model; nothing is measured anew for another loss."""
        if self._model is None or self._model.rows != model.rows or self._model.outputs != model.outputs:
            self._blocks = {number: held(X, y, model) for number, (X, y) in self._rows.items()}
        elif self._model.problem != model.problem:
            self._blocks = {number: restated(block, model) for number, block in self._blocks.items()}
        self._model = model
        return self._blocks


def _kept(X: Any) -> Any:
    # a matrix that cannot be written to is nobody's buffer
    return X if isinstance(X, np.ndarray) and not X.flags.writeable else X.copy()


def restated(block: InMemoryOracle, model: LinearModel) -> InMemoryOracle:
    """The same records for another problem with as many scores."""
    other = block.under(model.problem.loss)
    other._model = replace(other._model, problem=model.problem)
    return other


def held(X: Any, y: Array, model: LinearModel) -> InMemoryOracle:
    """A block in memory. The number of its records is not the problem's: hence the relation under which it need not."""
    kind = DenseOracle if isinstance(X, np.ndarray) else SparseOracle
    return kind(X, y, model.problem, model.rows, Relation.ADD_REMOVE)
