"""An event in the form the accountants share: what was composed, told apart by how its cost adds up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sordino.budget import Relation
from sordino.privacy.events import (
    Event,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Leak,
    PoissonSampled,
    PureDP,
    flatten,
)
from sordino.privacy.gaussian_profile import check_delta

_UP = 1 + 1e-15  # outweighs the rounding of a few operations


@dataclass(frozen=True)
class EventLeaves:
    """Independent of the order in which things happened: no composition bound used here depends on it."""

    mu: float
    """All Gaussian releases together: mu^2 = sum of 1 / multiplier^2 and of the mu^2 of Gaussian-DP events."""
    pure: tuple[tuple[PureDP, int], ...]
    sampled: tuple[tuple[PoissonSampled | FixedSizeSampled, int], ...]
    total_variation: float
    """Total variation distance from what was accounted to what was run."""
    leak: float = 0.0
    """The probability that any of the leaks happened."""
    special: tuple[tuple[Event, int], ...] = ()
    """Events that only an accountant of their own knows."""

    @property
    def epsilons(self) -> float:
        return math.fsum(event.epsilon * count for event, count in self.pure)

    @property
    def gaussian(self) -> bool:
        return not (self.pure or self.sampled or self.special)

    @property
    def largest_loss(self) -> float:
        """Only pure releases have a largest loss: the sum of their epsilons."""
        return math.inf if self.mu > 0 or self.sampled else self.epsilons

    @property
    def fixed_size(self) -> bool:
        return any(isinstance(event, FixedSizeSampled) for event, _ in self.sampled)


def leaves_of(event: Event, relation: Relation) -> EventLeaves:
    """Sampling everybody is no sampling, and Gaussian releases merge into one."""
    leaves, distance = flatten(event)
    squares: list[float] = []
    pure: list[tuple[PureDP, int]] = []
    sampled: list[tuple[PoissonSampled | FixedSizeSampled, int]] = []
    special: list[tuple[Event, int]] = []
    kept: list[float] = []
    for leaf, count in leaves.items():
        match leaf:
            case Gaussian(multiplier):
                squares.append(count / multiplier**2)
            case GaussianDP(mu):
                squares.append(count * mu**2)
            case Leak(probability):
                kept.append(count * math.log1p(-probability))
            case PureDP():
                pure.append((leaf, count))
            case PoissonSampled(Gaussian(multiplier), rate) if rate == 1:
                squares.append(count / multiplier**2)
            case FixedSizeSampled(Gaussian(multiplier), rate) if rate == 1 and relation is Relation.REPLACE_ONE:
                squares.append(count / multiplier**2)
            case PoissonSampled() | FixedSizeSampled():
                sampled.append((leaf, count))
            case _:
                special.append((leaf, count))
    mu, leak = math.sqrt(math.fsum(squares)), -math.expm1(math.fsum(kept)) * _UP
    return EventLeaves(mu, tuple(pure), tuple(sampled), distance, leak, tuple(special))


def samplable(event: Event, relation: Relation) -> bool:
    """Whether every part of the event is a general one, and its sampling has a meaning under the relation."""
    leaves = leaves_of(event, relation)
    return not leaves.special and (relation is Relation.REPLACE_ONE or not leaves.fixed_size)


def read_samplable(event: Event, relation: Relation) -> EventLeaves:
    """`leaves_of`, for accountants that know every event which has a meaning."""
    leaves = leaves_of(event, relation)
    if leaves.special:
        raise ValueError(f"{type(leaves.special[0][0]).__name__} is not accounted for together with other events.")
    if relation is Relation.ADD_REMOVE and leaves.fixed_size:
        raise ValueError(
            "fixed-size batches cannot be accounted for under add_remove, where the number of records is private: "
            "use Poisson sampling, or the replace_one relation."
        )
    return leaves


def check_epsilon(epsilon: float) -> None:
    if not epsilon >= 0:
        raise ValueError(f"epsilon is {epsilon}: it must not be negative.")


def total_delta(inner: Callable[[float], float], epsilon: float, distance: float, leak: float = 0.0) -> float:
    """leak + (1 - leak) delta(epsilon) + (1 + e^epsilon) distance.

    That is the profile of a law within `distance` of the accounted one beside leaks, which either tell all or nothing.
    """
    found = inner(epsilon)
    found = found if leak == 0 else leak + (1 - leak) * found
    if distance == 0:
        return found
    if epsilon > 700:
        return 1.0
    return min(1.0, found + (1 + math.exp(epsilon)) * distance)


def smallest_epsilon(inner: Callable[[float], float], delta: float, distance: float, leak: float = 0.0) -> float:
    """The smallest epsilon with leak + (1 - leak) delta_inner(epsilon) + (1 + e^epsilon) distance <= delta.

    It is infinite where there is none. `inner(delta)` gives the smallest epsilon without the distance. The iteration
    epsilon <- inner(delta - (1 + e^epsilon) distance) starts below the answer and climbs towards it, so a negative
    remainder proves there is none.
    """
    check_delta(delta)
    if leak > 0:
        distance, delta = distance / (1 - leak), (delta - leak) / (1 - leak) / _UP
        if delta < 0:
            return math.inf
    if distance == 0:
        return inner(delta)
    epsilon = 0.0
    for _ in range(100):
        # 1 ppb above the iterate: once that is a fixed point too, it is a solution and not just a limit.
        raised = epsilon * (1 + 1e-9)
        left = delta - (1 + math.exp(raised)) * distance if raised < 700 else -1.0
        if left < 0:
            return math.inf
        climbed = inner(left)
        if climbed <= raised:
            return raised
        epsilon = climbed
    return math.inf
