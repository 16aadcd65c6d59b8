"""dp_accounting's privacy loss distributions: code of another team, for a second opinion on ours.

Its noise is stated relative to one record's largest contribution C under either relation, ours relative to the
sensitivity, which under `replace_one` is 2C: std / C = 2 multiplier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.budget import Relation
from sordino.privacy.accountants.content import (
    Content,
    check_epsilon,
    read,
    smallest_epsilon,
    total_delta,
)
from sordino.privacy.events import Event, PoissonSampled

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_MOST_PARTS = 16
"""It composes one by one, so many different parts would take minutes."""


@dataclass(frozen=True)
class IndependentAccountant:
    name: str = "dp_accounting"

    def supports(self, event: Event, relation: Relation) -> bool:
        content = read(event, relation)
        few = not content.special and len(content.pure) + len(content.sampled) <= _MOST_PARTS
        return few and all(isinstance(part, PoissonSampled) for part, _ in content.sampled)

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        content = self._content(event, relation)
        composed = _compose(content, relation)
        return smallest_epsilon(lambda d: float(composed.get_epsilon_for_delta(d)), delta, content.distance)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        content = self._content(event, relation)
        composed = _compose(content, relation)
        return total_delta(lambda e: float(composed.get_delta_for_epsilon(e)), epsilon, content.distance)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """Not offered for the discretisation in use."""
        return None

    def _content(self, event: Event, relation: Relation) -> Content:
        if not self.supports(event, relation):
            raise ValueError(
                f"dp_accounting is asked about Gaussian, pure and Poisson-sampled events with at most {_MOST_PARTS} "
                "different parts only; ask sordino.privacy.accountants for the accountant that supports this event."
            )
        return read(event, relation)


def _compose(content: Content, relation: Relation) -> PrivacyLossDistribution:
    from dp_accounting.pld import common, privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    known = {
        Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    }
    step = _step(content)

    def gaussian(multiplier: float, rate: float) -> PrivacyLossDistribution:
        return privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=multiplier * relation.distance,
            value_discretization_interval=step,
            sampling_prob=rate,
            neighboring_relation=known[relation],
        )

    composed = privacy_loss_distribution.identity(step)
    if content.mu > 0:
        composed = composed.compose(gaussian(1 / content.mu, 1.0))
    for pure, count in content.pure:
        parameters = common.DifferentialPrivacyParameters(pure.epsilon, 0.0)
        part = privacy_loss_distribution.from_privacy_parameters(parameters, step)
        composed = composed.compose(part.self_compose(count))
    for sampled, count in content.sampled:
        composed = composed.compose(gaussian(sampled.event.multiplier, sampled.rate).self_compose(count))
    return composed


def _step(content: Content) -> float:
    """A twentieth of the smallest standard deviation of a single loss, within what takes about a second."""
    sizes = [event.rate * math.sqrt(math.expm1(min(50.0, event.event.multiplier**-2))) for event, _ in content.sampled]
    return min(1e-4, max(1e-5, 0.05 * min(sizes, default=1.0)))
