"""What may be asked of a linear model's records, wherever they are, and in memory whatever matrix holds them."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.losses import Loss
from sordino.oracle.kernels.moved import stack_moved
from sordino.oracle.kernels.slopes import SOFTMAX, WEIGHTED_SQUARE, kernel_of
from sordino.oracle.kernels.stack import softmax_coefficients, stack_coefficients
from sordino.oracle.linear import LinearModel, Question, Records
from sordino.oracle.query import Choice, ClippedLoss, Difference, Gradient, Recursion
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch, Sampling
from sordino.problem import Problem

if TYPE_CHECKING:
    from sordino.privacy.noise import Noise
    from sordino.privacy.randomness import Randomness
    from sordino.privacy.selection import NoisyMinimum

Array = NDArray[np.float64]


class SummingOracle(ABC):
    """The answers that are a sum over the records; how to take one is left to whoever holds them."""

    _model: LinearModel

    @abstractmethod
    def __len__(self) -> int:
        """The true number of records."""

    @abstractmethod
    def _sum(self, query: Gradient | Difference | Recursion) -> Array:
        """The exact answer to a query."""

    @abstractmethod
    def _losses(self, at: Array, cap: float) -> Array:
        """sum_i min(l(at; z_i), cap) for every model of the stack."""

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch:
        return sampling.draw(len(self), randomness.sampling)

    def release(
        self, query: Gradient | Difference | Recursion | ClippedLoss, noise: Noise, randomness: Randomness
    ) -> Array:
        self._model.allow(query, noise)
        if isinstance(query, ClippedLoss):
            return noise.perturb(self._losses(query.at, query.clip)[..., None], randomness)[..., 0]
        return noise.perturb(self._sum(query), randomness)

    def choose(self, query: Choice, selection: NoisyMinimum, randomness: Randomness) -> int:
        self._model.allow_choice(query, selection)
        return selection.choose(self._losses(query.points, query.clip) + query.extra, randomness)

    def gradient(self, at: Array, batch: Batch = None) -> Array:
        # clipping at L changes no record that keeps the problem's bounds, and holds the others to them
        problem = self._model.problem
        return self._sum(Gradient(at, problem.constants.L, batch)) / problem.records

    def value(self, at: Array) -> Array:
        return self._losses(at, math.inf) / self._model.problem.records


class InMemoryOracle(SummingOracle):
    """Every answer; how to pass over the features is left to the matrix.

    `_given` is what belongs to each record, and `_records` the same as the loss sees it.
    """

    def __init__(self, X: Any, y: Any, problem: Problem, rows: Rows, relation: Relation = Relation.REPLACE_ONE) -> None:
        self._model = LinearModel(problem, rows, Relation(relation))
        self._model.fits(np.shape(X), y)
        self._kernel = kernel_of(problem.loss)
        self._given = self._hold(X, y)
        self._records = self._given.under(problem.loss)

    @abstractmethod
    def _hold(self, X: Any, y: Any) -> Records:
        """Keep the features, and tell what belongs to each record."""

    def __len__(self) -> int:
        return len(self._records)

    @abstractmethod
    def _dots(self, w: Array) -> Array:
        """<x_i, w> for every raw row."""

    @abstractmethod
    def _some(self, which: NDArray[np.intp]) -> Any:
        """A matrix of these raw rows."""

    def curvature_product(self, at: Array) -> Callable[[Array], Array]:
        problem = self._model.problem
        if self._model.outputs != 1 or at.ndim != 1:
            raise ValueError(
                f"parameters of shape {at.shape} for a loss of {self._model.outputs} scores per record: products with "
                "the Hessian are for one model with one score per record."
            )
        (w,), (offset,) = self._model.split(at)
        # H v is the gradient at v of the quadratic form  (1/2n) sum_i phi''(a_i) <r_i, v>^2
        form = copy(self)
        form._kernel = WEIGHTED_SQUARE
        form._records = replace(self._records, targets=self._records.curvatures(problem.loss, self._dots(w), offset))

        def product(v: Array) -> Array:
            return form._sum(Gradient(v, sys.float_info.max)) / problem.records

        return product

    def under(self, loss: Loss) -> Self:
        other = copy(self)
        other._model = self._model.under(loss)
        other._kernel = kernel_of(loss)
        other._records = self._given.under(loss)
        return other

    def divide(self, batch: Batch, outside: Problem, inside: Problem) -> tuple[Self, Self]:
        rest, drawn = self._model.parts(batch, len(self._records))
        return self._of(rest, outside), self._of(drawn, inside)

    def _to_multipliers(
        self, asked: Question, scores: Array, earlier: Array | None, part: Records, slopes: Array
    ) -> None:
        """In place of the scores: what every raw row is multiplied by. The clipped slopes are added to `slopes`."""
        code, parameters = self._kernel
        some = (part.targets, part.scales, part.inverses, asked.offsets)
        if earlier is None or asked.earlier_offsets is None:
            if code == SOFTMAX:
                softmax_coefficients(self._model.outputs, scores, *some, asked.clip, slopes)
            else:
                stack_coefficients(code, parameters, scores, *some, asked.clip, slopes)
            return
        stack_moved(
            code,
            parameters,
            self._model.outputs,
            scores,
            earlier,
            *some,
            asked.earlier_offsets,
            asked.near,
            asked.clip,
            asked.mix,
            slopes,
        )

    def _of(self, which: NDArray[np.intp], problem: Problem) -> Self:
        y = self._given.usable_targets[which]
        return type(self)(self._some(which), y, problem, self._model.rows, self._model.relation)
