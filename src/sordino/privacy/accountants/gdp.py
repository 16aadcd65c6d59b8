r"""Gaussian differential privacy (Dong, Roth & Su 2022): adaptive composition keeps a release as simple as it was,

    mu_total^2 = sum_t mu_t^2,

and what a mu comes to is `privacy.gaussian_profile`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sordino.budget import Relation
from sordino.privacy.accountants.event_leaves import (
    EventLeaves,
    check_epsilon,
    leaves_of,
    smallest_epsilon,
    total_delta,
)
from sordino.privacy.events import Event
from sordino.privacy.gaussian_profile import gdp_delta, gdp_epsilon


@dataclass(frozen=True)
class GaussianAccountant:
    """Closed form for any composition of Gaussian releases, Gaussian-DP events and leaks, under either relation."""

    name: str = "gdp"

    def supports(self, event: Event, relation: Relation) -> bool:
        return leaves_of(event, relation).gaussian

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        leaves = self._content(event, relation)
        return smallest_epsilon(lambda d: gdp_epsilon(leaves.mu, d), delta, leaves.total_variation, leaves.leak)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        leaves = self._content(event, relation)
        return total_delta(lambda e: gdp_delta(e, leaves.mu), epsilon, leaves.total_variation, leaves.leak)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """Rounding only."""
        return 1e-9 * epsilon

    def _content(self, event: Event, relation: Relation) -> EventLeaves:
        leaves = leaves_of(event, relation)
        if not leaves.gaussian:
            raise ValueError(
                "the closed form covers Gaussian releases and Gaussian-DP events only; "
                "ask sordino.privacy.accountants for the accountant that supports this event."
            )
        return leaves
