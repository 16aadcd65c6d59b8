"""Which records a step looks at. The same value draws the batch and states the event, so they cannot disagree.

How many records a batch has is drawn in whole numbers (`privacy.counts`), and which ones as a uniform subset
(`kernels.subsets`), where nothing is rounded. What the first leaves open is in the event, as a total variation
distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.privacy import counts
from sordino.privacy.events import Approximate, Event, FixedSizeSampled, Gaussian, PoissonSampled

if TYPE_CHECKING:
    from sordino.privacy.randomness import Stream

Batch = NDArray[np.intp] | None
"""Sorted numbers of units, which are records here (see `sordino.oracle.units`); None is every one of them."""

SPAN = 1 << 24
"""Up to so many records a batch is drawn in one go."""


class Sampling(Protocol):
    def draw(self, records: int, stream: Stream) -> Batch: ...
    def expected_size(self, records: int) -> float: ...
    def event(self, release: Event, records: int) -> Event: ...


@dataclass(frozen=True)
class FullBatch:
    """Every record, every time."""

    def draw(self, records: int, stream: Stream) -> Batch:
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

    def draw(self, records: int, stream: Stream) -> Batch:
        # a binomial size, then a uniform subset of that size, has the law of independent coins
        return _subset(records, counts.binomial(records, self.rate, stream), stream)

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

    def draw(self, records: int, stream: Stream) -> Batch:
        self._fits(records)
        return _subset(records, self.size, stream)

    def expected_size(self, records: int) -> float:
        return float(self.size)

    def event(self, release: Event, records: int) -> Event:
        self._fits(records)
        return _sampled(FixedSizeSampled, release, self.size / records)

    def _fits(self, records: int) -> None:
        if self.size > records:
            raise ValueError(f"a batch of {self.size} from {records} records: ask for at most {records}.")


def drawn(sampling: Sampling, records: int, stream: Stream) -> Batch:
    """A batch from any number of records, with the law of `sampling.draw`, in little more memory than it fills."""
    # a small subset of any number of records is drawn without listing them all
    if records <= SPAN or sampling.expected_size(records) < records / 64:
        return sampling.draw(records, stream)
    edges = [*range(0, records, SPAN), records]
    sizes = [stop - start for start, stop in pairwise(edges)]
    match sampling:
        case Poisson():
            # coins are independent, so every span can have its own
            parts = [sampling.draw(size, stream) for size in sizes]
        case FixedSize(size):
            # how many of the subset lie in each span, and then a uniform subset of that size
            parts, left = [], size
            for start, here in zip(edges, sizes, strict=False):
                k = counts.hypergeometric(records - start, here, left, stream)
                parts.append(FixedSize(k).draw(here, stream) if k else None)
                left -= k
        case _:
            return sampling.draw(records, stream)
    found = [start + part for start, part in zip(edges, parts, strict=False) if part is not None]
    return np.concatenate([np.empty(0, dtype=np.intp), *found])


def _subset(records: int, size: int, stream: Stream) -> NDArray[np.intp]:
    # here and not above, as it compiles
    from sordino.oracle.kernels.subsets import subset

    return subset(records, size, stream)


def _sampled(kind: type[PoissonSampled] | type[FixedSizeSampled], release: Event, rate: float) -> Event:
    match release:
        case Gaussian():
            return Approximate(kind(release, rate), counts.DISTANCE)
        case Approximate(Gaussian() as inner, distance):
            return Approximate(kind(inner, rate), distance + counts.DISTANCE)
    raise ValueError(
        f"sampling is accounted for Gaussian releases only, not for {type(release).__name__}: use the full batch."
    )
