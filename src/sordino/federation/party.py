"""What one member of a federation runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Whole
from sordino.federation.noise import SharedNoise, on_grid
from sordino.federation.plan import Rounding
from sordino.oracle.protocol import Oracle
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.sampling import Batch, Poisson, Sampling
from sordino.privacy.events import Event
from sordino.privacy.randomness import Randomness

SumQuery = Gradient | Difference | Recursion


class Party(Protocol):
    """A member's own side."""

    @property
    def randomness(self) -> Randomness: ...
    def draw(self, sampling: Sampling) -> Batch: ...
    def part(self, query: SumQuery, noise: SharedNoise, rounding: Rounding) -> Whole:
        """What its records add to a sum, in steps of the grid, without noise: for its own process alone."""
        ...


@dataclass(frozen=True, eq=False)
class RecordHolder:
    """An owner: any oracle of its own records, and randomness that nobody else has."""

    oracle: Oracle
    randomness: Randomness

    def everybody(self) -> NDArray[np.intp]:
        """The numbers of all its records."""
        return np.asarray(self.oracle.draw(Poisson(1.0), self.randomness), dtype=np.intp)

    def draw(self, sampling: Sampling) -> Batch:
        return self.oracle.draw(sampling, self.randomness)

    def part(self, query: SumQuery, noise: SharedNoise, rounding: Rounding) -> Whole:
        if rounding == "owner":
            return self._on_grid(query, noise)
        batch = query_batch(query)
        total = np.zeros(np.shape(query.at), dtype=np.int64)
        for record in self.everybody() if batch is None else batch:
            total += self._on_grid(with_batch(query, np.array([record], dtype=np.intp)), noise)
        return total

    def _on_grid(self, query: SumQuery, noise: SharedNoise) -> Whole:
        kept = _Kept(noise)
        self.oracle.release(query, kept, self.randomness)
        if kept.value is None:
            raise RuntimeError(f"{type(self.oracle).__name__} did not pass its answer through the noise it was given.")
        return kept.value


@dataclass(frozen=True, eq=False)
class Server:
    """One of a committee: no records, only noise."""

    randomness: Randomness

    def draw(self, sampling: Sampling) -> Batch:
        return None

    def part(self, query: SumQuery, noise: SharedNoise, rounding: Rounding) -> Whole:
        return np.zeros(np.shape(query.at), dtype=np.int64)


class _Kept:
    """Stands where an oracle expects noise, and keeps the sum on the grid for the owner; the oracle returns zeros."""

    def __init__(self, noise: SharedNoise) -> None:
        self._noise = noise
        self.sensitivity, self.dim = noise.sensitivity, noise.dim
        self.value: Whole | None = None

    @property
    def event(self) -> Event:
        return self._noise.event

    def perturb(self, value: Array, randomness: Randomness) -> Array:
        self.value = on_grid(np.asarray(value, dtype=np.float64), self._noise.step, 1 << 60)
        return np.zeros(np.shape(value))


def query_batch(query: SumQuery) -> Any:
    return query.gradient.batch if isinstance(query, Recursion) else query.batch


def with_batch(query: SumQuery, batch: Batch) -> SumQuery:
    """The same question about other records."""
    if not isinstance(query, Recursion):
        return replace(query, batch=batch)
    difference, gradient = replace(query.difference, batch=batch), replace(query.gradient, batch=batch)
    return replace(query, difference=difference, gradient=gradient)
