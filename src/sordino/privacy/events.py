"""What happened, as frozen values. What it costs is the accountants' job.

Noise is always stated relative to the sensitivity under the relation in force: `multiplier = std / sensitivity`,
where replacing a record moves a sum of contributions of norm C by 2C and adding or removing one moves it by C.
So the same number means the same thing to every accountant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from sordino import wire

MOST_TIMES = 10**10
"""The square of a hundred thousand: some theorems take as many steps as there are pairs of records."""


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)


@dataclass(frozen=True)
class Gaussian:
    """value + N(0, std^2 I), std = multiplier * sensitivity."""

    multiplier: float

    def __post_init__(self) -> None:
        _require(self.multiplier > 0, f"multiplier is {self.multiplier}: Gaussian noise needs a positive one.")


@dataclass(frozen=True)
class GaussianDP:
    """Anything proved at least as private as telling N(0, 1) from N(mu, 1)."""

    mu: float

    def __post_init__(self) -> None:
        _require(self.mu >= 0 and math.isfinite(self.mu), f"mu is {self.mu}: it must be finite and not negative.")


@dataclass(frozen=True)
class PureDP:
    """Anything proved (epsilon, 0)-private, such as the l2-Laplace mechanism."""

    epsilon: float

    def __post_init__(self) -> None:
        _require(
            self.epsilon >= 0 and math.isfinite(self.epsilon),
            f"epsilon is {self.epsilon}: a pure guarantee needs a finite one that is not negative.",
        )


@dataclass(frozen=True)
class PoissonSampled:
    """Every record enters the batch by its own coin of probability `rate`; then a Gaussian release of the sum."""

    event: Gaussian
    rate: float

    def __post_init__(self) -> None:
        _require(0 < self.rate <= 1, f"rate is {self.rate}: a sampling rate lies in (0, 1].")


@dataclass(frozen=True)
class FixedSizeSampled:
    """A uniform batch of fixed size without replacement, rate = size / n; then a Gaussian release of the sum."""

    event: Gaussian
    rate: float

    def __post_init__(self) -> None:
        _require(0 < self.rate <= 1, f"rate is {self.rate}: a sampling rate lies in (0, 1].")


@dataclass(frozen=True)
class ObjectivePerturbed:
    """The minimiser of a sum of losses plus <b, w>, b ~ N(0, std^2 I), and Gaussian noise on what a solver found.

    `curvature_ratio` is the losses' smoothness over the strong convexity of the whole sum; `multiplier` is std over the
    gradient's sensitivity; `output_multiplier` is the output noise over the distance two solutions may lie from theirs.
    """

    curvature_ratio: float
    multiplier: float
    output_multiplier: float

    def __post_init__(self) -> None:
        for name in ("curvature_ratio", "multiplier", "output_multiplier"):
            _require(getattr(self, name) > 0, f"{name} is {getattr(self, name)}: it must be positive.")


@dataclass(frozen=True)
class Leak:
    """Gives everything away with this probability, and nothing otherwise."""

    probability: float

    def __post_init__(self) -> None:
        _require(
            0 <= self.probability < 1,
            f"probability is {self.probability}: that of a leak lies in [0, 1).",
        )


@dataclass(frozen=True)
class Approximate:
    """A mechanism whose law is within `total_variation` of one that satisfies `event`.

    If the other satisfies (epsilon, delta), this one satisfies (epsilon, delta + (1 + e^epsilon) total_variation).
    """

    event: Event
    total_variation: float

    def __post_init__(self) -> None:
        _require(
            0 <= self.total_variation < 1,
            f"total_variation is {self.total_variation}: a total variation distance lies in [0, 1).",
        )


@dataclass(frozen=True)
class Composed:
    """All parts happened, each `count` times, later ones possibly chosen in view of earlier outputs."""

    parts: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        for _, count in self.parts:
            _require(
                1 <= count <= MOST_TIMES and count == int(count),
                f"count is {count}: an event happens a whole number of times, at most {MOST_TIMES}.",
            )


@dataclass(frozen=True)
class Selected:
    """The best of K runs, and nothing of the others; K, drawn by `law` with mean `mean_runs`, stays secret.

    For any two neighbours a run is as private as some one of `events`: which one may depend on the setting it drew, and
    on the part of the records in which the neighbours differ.
    """

    events: tuple[Event, ...]
    mean_runs: float
    law: str

    def __post_init__(self) -> None:
        _require(len(self.events) > 0, "a selection needs the event of at least one run.")
        _require(
            self.mean_runs >= 1 and math.isfinite(self.mean_runs),
            f"mean_runs is {self.mean_runs}: the mean number of runs is finite and at least one.",
        )
        known = ", ".join(map(repr, LAWS))
        _require(self.law in LAWS, f"law is {self.law!r}: the number of runs follows one of {known}.")


LAWS = ("poisson", "geometric", "logarithmic")
"""How the secret number of runs behind a `Selected` may be distributed."""

Event = (
    Gaussian
    | GaussianDP
    | PureDP
    | PoissonSampled
    | FixedSizeSampled
    | ObjectivePerturbed
    | Leak
    | Approximate
    | Composed
    | Selected
)


def repeat(event: Event, count: int) -> Event:
    """`count` adaptive releases of the same event."""
    return event if count == 1 else Composed(((event, int(count)),))


def compose(*events: Event) -> Event:
    """All of `events`, one after the other."""
    return events[0] if len(events) == 1 else Composed(tuple((event, 1) for event in events))


def flatten(event: Event) -> tuple[dict[Event, int], float]:
    """The elementary events with their counts, and the total variation distance that adds up beside them."""
    counts: dict[Event, int] = {}
    distance = 0.0
    for leaf, count, far in _walk(event, 1):
        distance += far
        if leaf is not None:
            counts[leaf] = counts.get(leaf, 0) + count
    return counts, distance


def _walk(event: Event, count: int) -> Iterator[tuple[Event | None, int, float]]:
    match event:
        case Composed(parts):
            for part, times in parts:
                yield from _walk(part, count * times)
        case Approximate(inner, distance):
            yield None, 0, count * distance
            yield from _walk(inner, count)
        case Selected(events, mean_runs, law):
            # every run may stray once more, and a run consists of all its parts
            runs, distances = zip(*map(flatten, events), strict=True)
            yield None, 0, count * mean_runs * math.fsum(distances)
            yield Selected(tuple(Composed(tuple(run.items())) for run in runs), mean_runs, law), count, 0.0
        case _:
            yield event, count, 0.0


KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
"""The registry of all kinds: tests hold everybody who is handed an event to it."""


def to_json(event: Event) -> dict[str, Any]:
    """A plain dictionary that `from_json` reads back."""
    plain: dict[str, Any] = wire.to_plain(event)
    return plain


def from_json(data: Any) -> Event:
    """The event that `to_json` wrote; a sentence for anything else."""
    event = wire.from_plain(data, KINDS)
    if not isinstance(event, Event):
        raise ValueError(f"not a privacy event: a dictionary with a 'kind' among {', '.join(KINDS)} is needed.")
    return event
