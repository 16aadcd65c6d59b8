"""The one way to the records.

A method that perturbs gradients calls `release`, which never returns an exact answer. Methods that perturb the output
or the objective may use the exact answers of an `ExactOracle`, and say so in their signature and in `needs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, runtime_checkable

from sordino.arrays import Array
from sordino.losses import Loss
from sordino.oracle.query import Choice, ClippedLoss, SideBySide, StepQuery
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch, Sampling
from sordino.oracle.statistics import FoundValues, RowStatistic
from sordino.privacy.noise import GaussianNoise, Noise
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum
from sordino.problem import Problem


@runtime_checkable
class Oracle(Protocol):
    """Holds the records; tells sums of clipped gradients, and of how far they moved between two points, with noise."""

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch: ...
    def release(self, query: StepQuery, noise: Noise, randomness: Randomness) -> Array: ...


@runtime_checkable
class ChoosingOracle(Oracle, Protocol):
    """Also names the best of several parameters, with noise in the choice."""

    def choose(self, query: Choice, selection: NoisyMinimum, randomness: Randomness) -> int: ...


@runtime_checkable
class ScoredOracle(Oracle, Protocol):
    """Holds rows that a loss sees through their scores alone, so that another loss can take its place."""

    def under(self, loss: Loss) -> Self:
        """The same records, neither copied nor measured anew, under another loss with as many scores."""
        ...


@runtime_checkable
class DividingOracle(Oracle, Protocol):
    """Also tells the loss, with noise, and gives oracles of two parts of its records."""

    def release(self, query: StepQuery | ClippedLoss, noise: Noise, randomness: Randomness) -> Array: ...
    def divide(self, batch: Batch, outside: Problem, inside: Problem) -> tuple[Self, Self]:
        """Oracles of the records outside the batch and inside it, and the problems stated for either."""
        ...


@runtime_checkable
class RowsOracle(Oracle, Protocol):
    """Also tells sums over bounded rows, with noise, and makes its rows in another way."""

    @property
    def rows(self) -> Rows: ...
    def release(self, query: StepQuery | RowStatistic, noise: Noise, randomness: Randomness) -> Array: ...
    def under_rows(self, rows: Rows) -> Self:
        """The same records, whose raw rows become these instead."""
        ...


@runtime_checkable
class ExactOracle(Oracle, Protocol):
    """Also answers exactly, for methods that add their noise elsewhere."""

    def gradient(self, at: Array, batch: Batch = None) -> Array:
        """(1/n) sum_{i in batch} grad l(at; z_i), the penalty left out: n is the problem's, whatever the batch."""
        ...

    def value(self, at: Array) -> Array:
        """(1/n) sum_i l(at; z_i), the penalty left out."""
        ...

    def curvature_product(self, at: Array) -> Callable[[Array], Array]:
        """v -> (1/n) sum_i phi''(a_i) <r_i, v> r_i: products with the Hessian at `at`, for one score per record."""
        ...


@runtime_checkable
class UncodedOracle(Oracle, Protocol):
    """Holds records that have no rows yet: it tells which categories occur often, with noise, and becomes an oracle."""

    def values(self, noise: GaussianNoise, threshold: float, randomness: Randomness) -> FoundValues:
        """Of every column, those whose noisy counts are above the threshold."""
        ...

    @property
    def coded(self) -> Callable[[FoundValues], LinearOracle]: ...


@runtime_checkable
class LinearOracle(ChoosingOracle, ScoredOracle, DividingOracle, RowsOracle, ExactOracle, Protocol):
    """Records of a linear model, wherever they are: everything above."""

    def release(
        self,
        query: StepQuery | SideBySide | ClippedLoss | RowStatistic,
        noise: Noise,
        randomness: Randomness,
    ) -> Array: ...
