r"""Privacy loss distributions: the tightest accountant for sampled releases and for mixtures of everything.

Each elementary release is replaced by a dominating pair, whose loss is put on a grid from above and composed by
Fourier transform (`pairs`, `dots`, `fourier`).  The result is an upper bound whatever the grid; composing the same
losses put on the grid from below tells how far above the truth it can be.

Under `add_remove` a sampled release has two dominating pairs, one for a record that leaves and one for a record that
joins.  It is the same record at every step, so each way is composed on its own and the worse one counts.  Under
`replace_one` the pairs are symmetric.  Fixed-size sampling has no meaning under `add_remove`: the size would change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino.budget import Relation
from sordino.privacy.accountants.event_leaves import (
    EventLeaves,
    check_epsilon,
    read_samplable,
    samplable,
    smallest_epsilon,
    total_delta,
)
from sordino.privacy.accountants.exponential_tilt import Level
from sordino.privacy.accountants.fourier import delta_above, epsilon_above, epsilon_below
from sordino.privacy.accountants.pairs import Added, Dominating, FixedPair, Pure, Removed, Replaced
from sordino.privacy.events import Event, FixedSizeSampled, PoissonSampled

FINE = 0.015
"""Grid step as a fraction of the loss's standard deviation per release: epsilon is then at most some 2e-5 above."""

_COARSE = 4
"""Times the grain. Such a grid is above the truth too: where one way is below the other on it, a finer one is not
needed to tell which of the two counts."""

_CLOSE = 1e-3
"""A lower bound within so much of epsilon is that of the way which decided it."""


@dataclass(frozen=True)
class LossAccountant:
    """A larger `grain` is faster and looser."""

    grain: float = FINE
    name: str = "pld"

    def supports(self, event: Event, relation: Relation) -> bool:
        return samplable(event, relation)

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        leaves = read_samplable(event, relation)
        limit, ways = leaves.largest_loss, _ways(leaves, relation)

        def inner(delta: float) -> float:
            if delta == 0 or limit == 0:
                return limit
            first, *others = ways
            worst = epsilon_above(first, delta, self.grain, 0.0)
            for levels in others:
                if epsilon_above(levels, delta, _COARSE * self.grain, worst) > worst:
                    worst = max(worst, epsilon_above(levels, delta, self.grain, worst))
            return min(limit, worst)

        return smallest_epsilon(inner, delta, leaves.total_variation, leaves.leak)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        leaves = read_samplable(event, relation)
        limit, ways = leaves.largest_loss, _ways(leaves, relation)

        def inner(epsilon: float) -> float:
            if epsilon >= limit:
                return 0.0
            first, *others = ways
            worst = delta_above(first, epsilon, self.grain)
            for levels in others:
                if delta_above(levels, epsilon, _COARSE * self.grain) > worst:
                    worst = max(worst, delta_above(levels, epsilon, self.grain))
            return worst

        return total_delta(inner, epsilon, leaves.total_variation, leaves.leak)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """How far `epsilon` may lie above the exact composition of the dominating pairs."""
        leaves = read_samplable(event, relation)
        if epsilon == leaves.largest_loss:
            return 0.0
        below = 0.0
        # The exact epsilon leaves the pairs at most delta - leak - (1 + e^below) distance, of all that does not leak,
        # whatever lower bound is put there.
        for _ in range(2 if leaves.total_variation else 1):
            left = (delta - leaves.leak - (1 + math.exp(below)) * leaves.total_variation) / (1 - leaves.leak)
            if left <= 0:
                return None
            # any way bounds the worse one from below; mostly the first is the worse
            for levels in _ways(leaves, relation):
                below = max(below, epsilon_below(levels, left, self.grain))
                if below >= (1 - _CLOSE) * epsilon:
                    break
        return max(0.0, epsilon - below)


def _ways(leaves: EventLeaves, relation: Relation) -> list[list[Level]]:
    common: list[Level] = [(Pure(event.epsilon), count) for event, count in leaves.pure if event.epsilon > 0]
    if leaves.mu > 0:
        common.append((Removed(1.0, leaves.mu), 1))
    if not leaves.sampled:
        return [common]
    if relation is Relation.REPLACE_ONE:
        return [common + [(_replaced(event), count) for event, count in leaves.sampled]]
    return [
        common + [(way(event.rate, 1 / event.event.multiplier), count) for event, count in leaves.sampled]
        for way in (Removed, Added)
    ]


def _replaced(event: PoissonSampled | FixedSizeSampled) -> Dominating:
    """multiplier = std / 2C: opposite contributions are 1 / multiplier apart, a present and an absent one half that."""
    distance = 1 / event.event.multiplier
    return Replaced(event.rate, distance / 2) if isinstance(event, PoissonSampled) else FixedPair(event.rate, distance)
