"""Oracles whose records are in blocks somewhere else: in files, or on the workers of a cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.losses import Loss
from sordino.oracle.answers import SummingOracle
from sordino.oracle.files.asks import Ask, ClippedSum, CurvatureProduct, Losses, over
from sordino.oracle.files.draws import drawn
from sordino.oracle.files.partition import Partition
from sordino.oracle.files.selection import Selection
from sordino.oracle.files.source import Source
from sordino.oracle.files.sums import Term, TreeSum
from sordino.oracle.linear import LinearModel
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch, Sampling
from sordino.problem import Problem

if TYPE_CHECKING:
    from sordino.privacy.randomness import Randomness

Array = NDArray[np.float64]


class BlockwiseOracle(SummingOracle):
    """Every answer is a sum over blocks, taken in the same order whoever holds them; see `sordino.oracle.files.sums`.

    `_partition` is all the records. Nothing is kept for each record but a bit, and that only after `divide`.
    """

    def __init__(self, source: Source, problem: Problem, rows: Rows, relation: Relation = Relation.REPLACE_ONE) -> None:
        self._model = LinearModel(problem, rows, Relation(relation))
        # the targets' shape without the targets
        self._model.fits(source.shape, np.broadcast_to(0.0, source.shape[:1]))
        self._partition = Partition.whole(source)
        self._records = source.shape[0]

    @abstractmethod
    def _terms(self, ask: Ask, batch: Batch) -> Iterable[Term]:
        """The exact answer, as terms in the order of their blocks."""

    def __len__(self) -> int:
        return self._records

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch:
        return drawn(sampling, len(self), randomness.sampling)

    def curvature_product(self, at: Array) -> Callable[[Array], Array]:
        if self._model.outputs != 1 or at.ndim != 1:
            raise ValueError(
                f"parameters of shape {at.shape} for a loss of {self._model.outputs} scores per record: products with "
                "the Hessian are for one model with one score per record."
            )
        return lambda v: self._answer(CurvatureProduct(at, v))

    def under(self, loss: Loss) -> Self:
        other = copy(self)
        other._model = self._model.under(loss)
        return other

    def divide(self, batch: Batch, outside: Problem, inside: Problem) -> tuple[Self, Self]:
        source, here = self._partition.source, self._partition.selection
        everybody = Selection.everything(source.shape[0], source.block) if here is None else here
        index = self._model.batch(batch, len(self))
        rest, drawn = everybody.divide(np.arange(len(self)) if index is None else index)
        return self._of(rest, outside), self._of(drawn, inside)

    def _of(self, selection: Selection, problem: Problem) -> Self:
        other = copy(self)
        other._model = replace(self._model, problem=problem)
        other._partition = replace(self._partition, selection=selection)
        other._records = int(selection.starts()[-1])
        other._model.fits((len(other), self._partition.source.shape[1]), np.broadcast_to(0.0, (len(other),)))
        return other

    def _sum(self, query: Gradient | Difference | Recursion) -> Array:
        return self._answer(ClippedSum(over(query, None)), self._model.batch(query.batch, len(self)))

    def _losses(self, at: Array, cap: float) -> Array:
        return self._answer(Losses(np.asarray(at, dtype=np.float64), cap))

    def _answer(self, ask: Ask, batch: Batch = None) -> Array:
        ask.check(self._model)
        total = TreeSum()
        for term in self._terms(ask, batch):
            total.add(term)
        return total.total(ask.shape)


class StreamedOracle(BlockwiseOracle):
    """Records in files larger than memory: every answer is one pass over what it needs of them."""

    def _terms(self, ask: Ask, batch: Batch) -> Iterable[Term]:
        return self._partition.answer(self._model, ask, batch)
