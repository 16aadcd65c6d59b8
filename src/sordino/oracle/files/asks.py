"""What a block of records can be asked; every answer is a sum over its records, so that the blocks' answers add up.

Nothing here adds noise. Asks travel to the workers of a cluster, and are plain values for that reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.answers import InMemoryOracle
from sordino.oracle.linear import LinearModel
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.sampling import Batch
from sordino.oracle.sparse import SparseOracle

Array = NDArray[np.float64]
Query = Gradient | Difference | Recursion


class Ask(Protocol):
    @property
    def shape(self) -> tuple[int, ...]:
        """Of the answer."""
        ...

    def check(self, model: LinearModel) -> None:
        """Raise a sentence for parameters that do not fit, before a record is read."""
        ...

    def of(self, block: InMemoryOracle, batch: Batch) -> Array: ...


@dataclass(frozen=True, eq=False)
class ClippedSum:
    """The exact answer to a query, over a batch of the block's records."""

    query: Query

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.query.at)

    def check(self, model: LinearModel) -> None:
        model.question(self.query)

    def of(self, block: InMemoryOracle, batch: Batch) -> Array:
        if batch is None and isinstance(block, SparseOracle):
            # row by row: the transpose that sums over all records use is not worth building for one answer
            batch = np.arange(len(block))
        return block._sum(over(self.query, batch))


@dataclass(frozen=True, eq=False)
class Losses:
    """sum_i min(l(at; z_i), cap) over all records of the block, for every model of the stack."""

    at: Array
    cap: float

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.at)[:-1]

    def check(self, model: LinearModel) -> None:
        model.split(self.at)

    def of(self, block: InMemoryOracle, batch: Batch) -> Array:
        return block._losses(self.at, self.cap)


@dataclass(frozen=True, eq=False)
class CurvatureProduct:
    """(1/n) sum_i phi''(a_i) <r_i, v> r_i over all records of the block, a_i the score at `at` and n the problem's."""

    at: Array
    v: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.v)

    def check(self, model: LinearModel) -> None:
        model.split(self.at)
        model.split(self.v)

    def of(self, block: InMemoryOracle, batch: Batch) -> Array:
        return block.curvature_product(self.at)(self.v)


def over(query: Query, batch: Batch) -> Query:
    """The same query over another batch."""
    if isinstance(query, Recursion):
        return Recursion(replace(query.difference, batch=batch), replace(query.gradient, batch=batch), query.mix)
    return replace(query, batch=batch)
