"""Which records a step looks at. The same value draws the batch and states the event, so they cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.privacy.events import Approximate, Event, FixedSizeSampled, Gaussian, PoissonSampled

Batch = NDArray[np.intp] | None
"""Sorted record indices; None is every record."""


class Sampling(Protocol):
    def draw(self, records: int, generator: np.random.Generator) -> Batch: ...
    def expected_size(self, records: int) -> float: ...
    def event(self, release: Event, records: int) -> Event: ...


@dataclass(frozen=True)
class FullBatch:
    """Every record, every time."""

    def draw(self, records: int, generator: np.random.Generator) -> Batch:
        return None

    def expected_size(self, records: int) -> float:
        return float(records)

    def event(self, release: Event, records: int) -> Event:
        return release


@dataclass(frozen=True)
class Poisson:
    """Every record by its own coin of probability `rate`. A batch may be empty, and noise is added all the same."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is {self.rate}: a Poisson sampling rate lies in (0, 1].")

    def draw(self, records: int, generator: np.random.Generator) -> Batch:
        # a binomial size, then a uniform subset of that size, has the law of independent coins
        size = generator.binomial(records, self.rate)
        return _subset(records, size, generator)

    def expected_size(self, records: int) -> float:
        return self.rate * records

    def event(self, release: Event, records: int) -> Event:
        return _sampled(PoissonSampled, release, self.rate)


@dataclass(frozen=True)
class FixedSize:
    """A uniform subset of exactly `size` records, without replacement. Accounted under replace-one only."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is {self.size}: a batch needs at least one record.")

    def draw(self, records: int, generator: np.random.Generator) -> Batch:
        self._fits(records)
        return _subset(records, self.size, generator)

    def expected_size(self, records: int) -> float:
        return float(self.size)

    def event(self, release: Event, records: int) -> Event:
        self._fits(records)
        return _sampled(FixedSizeSampled, release, self.size / records)

    def _fits(self, records: int) -> None:
        if self.size > records:
            raise ValueError(f"a batch of {self.size} from {records} records: ask for at most {records}.")


def _subset(records: int, size: int, generator: np.random.Generator) -> NDArray[np.intp]:
    subset = generator.choice(records, size, replace=False, shuffle=False).astype(np.intp, copy=False)
    # in order, so that the kernels walk forward through memory
    subset.sort()
    return subset


def _sampled(kind: type[PoissonSampled] | type[FixedSizeSampled], release: Event, rate: float) -> Event:
    match release:
        case Gaussian():
            return kind(release, rate)
        case Approximate(inner, distance):
            return Approximate(_sampled(kind, inner, rate), distance)
    raise ValueError(
        f"sampling is accounted for Gaussian releases only, not for {type(release).__name__}: use the full batch."
    )
