"""The oracle of a linear model, wherever its records are.

It checks a question once, draws the batch, adds up what the blocks of records answer, always in the same order, and
perturbs the sum once. Blocks know neither relation nor noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sordino.arrays import Array
from sordino.losses import Loss
from sordino.oracle.allowed import allow, allow_choice, allow_sampling, allow_side_by_side, checked_batch
from sordino.oracle.block_queries import BlockQuery, ClippedSum, QuadraticForm
from sordino.oracle.blocks import Blocks
from sordino.oracle.model import LinearModel
from sordino.oracle.query import Choice, ClippedLoss, Gradient, SideBySide, StepQuery
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch, Sampling, drawn
from sordino.oracle.statistics import RowStatistic
from sordino.oracle.tree_sum import TreeSum
from sordino.problem import Problem

if TYPE_CHECKING:
    from sordino.privacy.noise import Noise
    from sordino.privacy.randomness import Randomness
    from sordino.privacy.selection import NoisyMinimum


@dataclass(frozen=True, eq=False)
class BlockwiseOracle:
    """The `LinearOracle` of the records in `blocks`."""

    model: LinearModel
    blocks: Blocks

    def __len__(self) -> int:
        """The true number of units."""
        return len(self.blocks)

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch:
        allow_sampling(sampling, self.model.relation, self.model.problem.unit)
        return drawn(sampling, len(self), randomness.sampling)

    def release(
        self,
        query: StepQuery | SideBySide | ClippedLoss | RowStatistic,
        noise: Noise,
        randomness: Randomness,
    ) -> Array:
        if isinstance(query, SideBySide):
            allow_side_by_side(query, noise, self.model.relation)
        else:
            allow(query, noise, self.model.relation)
        if isinstance(query, RowStatistic):
            width = query.width(self.model.columns, self.model.rows.has_intercept)
            return noise.perturb(self._total(query, None, (width,)), randomness)
        if isinstance(query, ClippedLoss):
            return noise.perturb(self._losses(query.at, query.clip)[..., None], randomness)[..., 0]
        exact = self._total(self.model.asked(query), query.batch, np.shape(query.at))
        return noise.perturb(exact, randomness)

    def choose(self, query: Choice, selection: NoisyMinimum, randomness: Randomness) -> int:
        allow_choice(query, selection, self.model.relation)
        return selection.choose(self._losses(query.points, query.clip) + query.extra, randomness)

    def gradient(self, at: Array, batch: Batch = None) -> Array:
        # clipping at L changes no record that keeps the problem's bounds, and holds the others to them
        problem = self.model.problem
        asked = self.model.asked(Gradient(at, problem.constants.L))
        return self._total(asked, batch, np.shape(at)) / problem.records

    def value(self, at: Array) -> Array:
        return self._losses(at, math.inf) / self.model.problem.records

    def curvature_product(self, at: Array) -> Callable[[Array], Array]:
        problem = self.model.problem
        if problem.loss.outputs != 1 or at.ndim != 1:
            raise ValueError(
                f"parameters of shape {at.shape} for a loss of {problem.loss.outputs} scores per record: products with "
                "the Hessian are for one model with one score per record."
            )
        (w,), (offset,) = self.model.split(at)
        # H v is the gradient at v of the quadratic form  (1/2n) sum_i phi''(a_i) <r_i, v>^2
        form = QuadraticForm(problem.loss, w, offset)

        def product(v: Array) -> Array:
            table, offsets = self.model.split(v)
            asked = ClippedSum(form, table, offsets, np.full(len(table), sys.float_info.max))
            return self._total(asked, None, np.shape(v)) / problem.records

        return product

    def under(self, loss: Loss) -> BlockwiseOracle:
        return replace(self, model=self.model.under(loss))

    @property
    def rows(self) -> Rows:
        return self.model.rows

    def under_rows(self, rows: Rows) -> BlockwiseOracle:
        return BlockwiseOracle(replace(self.model, rows=rows), self.blocks.under_rows(rows))

    def divide(self, batch: Batch, outside: Problem, inside: Problem) -> tuple[BlockwiseOracle, BlockwiseOracle]:
        index = checked_batch(batch, len(self))
        parts = self.blocks.divide(np.arange(len(self)) if index is None else index)
        oracles = [
            BlockwiseOracle(replace(self.model, problem=problem), blocks)
            for problem, blocks in zip((outside, inside), parts, strict=True)
        ]
        for oracle in oracles:
            oracle.model.counts(len(oracle))
        return oracles[0], oracles[1]

    def _losses(self, at: Array, cap: float) -> Array:
        return self._total(self.model.asked_losses(at, cap), None, np.shape(at)[:-1])

    def _total(self, asked: BlockQuery, batch: Batch, shape: tuple[int, ...]) -> Array:
        """The exact answer: what the blocks answer, added up."""
        total = TreeSum()
        for term in self.blocks.terms(asked, checked_batch(batch, len(self))):
            total.add(term)
        return total.total(shape).reshape(shape)
