"""dp_accounting's privacy loss distributions: code of another team, for a second opinion on ours.

Its noise is stated relative to one record's largest contribution C under either relation, ours relative to the
sensitivity, which under `replace_one` is 2C: std / C = 2 multiplier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.budget import Relation
from sordino.privacy.accountants.event_leaves import (
    EventLeaves,
    check_epsilon,
    leaves_of,
    smallest_epsilon,
    total_delta,
)
from sordino.privacy.events import Event, PoissonSampled

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_MOST_PARTS = 16
"""It composes one by one, so many different parts would take minutes."""


@dataclass(frozen=True)
class DPAccountingCheck:
    name: str = "dp_accounting"

    def supports(self, event: Event, relation: Relation) -> bool:
        leaves = leaves_of(event, relation)
        few = not leaves.special and len(leaves.pure) + len(leaves.sampled) <= _MOST_PARTS
        return few and all(isinstance(part, PoissonSampled) for part, _ in leaves.sampled)

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        leaves = self._content(event, relation)
        composed = _compose(leaves, relation)
        beside = leaves.total_variation, leaves.leak
        return smallest_epsilon(lambda d: float(composed.get_epsilon_for_delta(d)), delta, *beside)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        leaves = self._content(event, relation)
        composed = _compose(leaves, relation)
        beside = leaves.total_variation, leaves.leak
        return total_delta(lambda e: float(composed.get_delta_for_epsilon(e)), epsilon, *beside)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """Not offered for the discretisation in use."""
        return None

    def _content(self, event: Event, relation: Relation) -> EventLeaves:
        if not self.supports(event, relation):
            raise ValueError(
                f"dp_accounting is asked about Gaussian, pure and Poisson-sampled events with at most {_MOST_PARTS} "
                "different parts only; ask sordino.privacy.accountants for the accountant that supports this event."
            )
        return leaves_of(event, relation)


def _compose(leaves: EventLeaves, relation: Relation) -> PrivacyLossDistribution:
    from dp_accounting.pld import common, privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    known = {
        Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    }
    step = _step(leaves)

    def gaussian(multiplier: float, rate: float) -> PrivacyLossDistribution:
        return privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=multiplier * relation.distance,
            value_discretization_interval=step,
            sampling_prob=rate,
            neighboring_relation=known[relation],
        )

    composed = privacy_loss_distribution.identity(step)
    if leaves.mu > 0:
        composed = composed.compose(gaussian(1 / leaves.mu, 1.0))
    for pure, count in leaves.pure:
        parameters = common.DifferentialPrivacyParameters(pure.epsilon, 0.0)
        part = privacy_loss_distribution.from_privacy_parameters(parameters, step)
        composed = composed.compose(part.self_compose(count))
    for sampled, count in leaves.sampled:
        composed = composed.compose(gaussian(sampled.event.multiplier, sampled.rate).self_compose(count))
    return composed


def _step(leaves: EventLeaves) -> float:
    """A twentieth of the smallest standard deviation of a single loss, within what takes about a second."""
    sizes = [event.rate * math.sqrt(math.expm1(min(50.0, event.event.multiplier**-2))) for event, _ in leaves.sampled]
    return min(1e-4, max(1e-5, 0.05 * min(sizes, default=1.0)))
