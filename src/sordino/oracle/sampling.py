"""Which records a step looks at. The same value draws the batch and states the event, so they cannot disagree.

How many records a batch has is drawn in whole numbers (`privacy.counts`), and which ones as a uniform subset
(`kernels.subsets`), where nothing is rounded; coins of many records are drawn from one member to the next, in whole
numbers too (`kernels.coins`), and of several steps at once where they have few members (`predrawn`). What is left open
is in the event, as a total variation distance.

`InOrder` and `CyclicPoisson` go by the places of records: whose turn it is at step t is public, and follows from the
number of a record alone. They are for neighbours of whom one record is replaced, who stand where they stood; where one
is added or removed, others would move (`oracle.allowed`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.predrawn import batch_of_coins
from sordino.privacy import counts
from sordino.privacy.events import Approximate, Event, FixedSizeSampled, Gaussian, PoissonSampled, repeat

if TYPE_CHECKING:
    from sordino.privacy.correlated_noise import CorrelatedNoise
    from sordino.privacy.randomness import Stream

Batch = NDArray[np.intp] | None
"""Sorted numbers of units, which are records here (see `sordino.oracle.units`); None is every one of them."""

SPAN = 1 << 24
"""Up to so many records a batch is drawn in one go."""

MANY = 1 << 17
"""Coins of more records are drawn from member to member, in less than half of the time. Of others there are results
that stand, which a seed must make again: they keep their law's other form, a binomial size and a uniform subset."""


class Sampling(Protocol):
    def at(self, t: int) -> Sampling:
        """As it is at step t."""
        ...

    def draw(self, records: int, stream: Stream) -> Batch: ...
    def expected_size(self, records: int) -> float: ...
    def event(self, release: Event, records: int) -> Event: ...


@dataclass(frozen=True)
class FullBatch:
    """Every record, every time."""

    def at(self, t: int) -> FullBatch:
        return self

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

    def at(self, t: int) -> Poisson:
        return self

    def draw(self, records: int, stream: Stream) -> Batch:
        if records > MANY and self.rate < 1:
            return batch_of_coins(records, self.rate, stream)
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

    def at(self, t: int) -> FixedSize:
        return self

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


@dataclass(frozen=True)
class InOrder:
    """The records as they stand, in `batches` parts of equal size or one apart, again and again; `turn` is the part.

    Nothing is secret about a batch. A record takes part in every so many steps, which is accounted for as a whole.
    """

    batches: int
    turn: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.turn < self.batches:
            raise ValueError(f"part {self.turn} of {self.batches} batches: their numbers begin with 0.")

    def at(self, t: int) -> InOrder:
        return replace(self, turn=t % self.batches)

    def draw(self, records: int, stream: Stream) -> Batch:
        if records < self.batches:
            raise ValueError(f"{self.batches} batches of {records} records: ask for at most {records}.")
        start, stop = (records * turn // self.batches for turn in (self.turn, self.turn + 1))
        return np.arange(start, stop, dtype=np.intp)

    def expected_size(self, records: int) -> float:
        return records / self.batches

    def event(self, release: Event, records: int) -> Event:
        return release

    def event_of_run(self, noise: CorrelatedNoise) -> Event:
        """All steps of a run whose noise was planned for records that come back with their batch."""
        if noise.apart > self.batches:
            raise ValueError(
                f"the noise was made for records that stay away for {noise.apart} steps, and with {self.batches} "
                "batches they come back sooner."
            )
        return noise.event


@dataclass(frozen=True)
class CyclicPoisson:
    """Of the records whose number is `turn` more than a multiple of `period`, every one by its own coin.

    Each group has its turn every `period` steps. With noise of as many bands, what a record's participations show does
    not overlap, and every one of them is hidden by a coin of its own (Choquette-Choo et al. 2023).
    """

    rate: float
    period: int
    turn: int = 0

    def __post_init__(self) -> None:
        _ = Poisson(self.rate)
        if not 0 <= self.turn < self.period:
            raise ValueError(f"group {self.turn} of {self.period}: their numbers begin with 0.")

    def at(self, t: int) -> CyclicPoisson:
        return replace(self, turn=t % self.period)

    def draw(self, records: int, stream: Stream) -> Batch:
        group = Poisson(self.rate).draw(len(range(self.turn, records, self.period)), stream)
        return np.asarray(group) * self.period + self.turn

    def expected_size(self, records: int) -> float:
        return self.rate * records / self.period

    def event(self, release: Event, records: int) -> Event:
        return Poisson(self.rate).event(release, records)

    def event_of_run(self, noise: CorrelatedNoise) -> Event:
        """As many sampled releases as a group has turns; the last one may be cut short by the end of the run."""
        if noise.apart > self.period:
            raise ValueError(
                f"the noise was made for records that stay away for {noise.apart} steps, and with {self.period} groups "
                "they come back sooner."
            )
        shown = noise.participation
        assert isinstance(shown.event, Gaussian)
        # every step draws a batch, whoever's turn it is
        distance = shown.total_variation + noise.apart * counts.DISTANCE
        return repeat(Approximate(PoissonSampled(shown.event, self.rate), distance), noise.participations)


def drawn(sampling: Sampling, records: int, stream: Stream) -> Batch:
    """A batch from any number of records, with the law of `sampling.draw`, in little more memory than it fills."""
    # a small subset of any number of records is drawn without listing them all, and coins always are
    if not isinstance(sampling, FixedSize) or records <= SPAN or sampling.size < records / 64:
        return sampling.draw(records, stream)
    # how many of the subset lie in each span, and then a uniform subset of that size
    parts, left = [np.empty(0, dtype=np.intp)], sampling.size
    for start, stop in pairwise([*range(0, records, SPAN), records]):
        k = counts.hypergeometric(records - start, stop - start, left, stream)
        parts.append(start + _subset(stop - start, k, stream))
        left -= k
    return np.concatenate(parts)


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
