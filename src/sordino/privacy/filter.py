r"""Stopping in time when the events themselves are chosen in view of earlier outputs.

Composition theorems ask for the events in advance.  When the next event depends on what was released, a filter is
needed: a rule, fixed before the first release, that refuses whatever would exceed its budget.  Three are known to be
as good as composition itself:

    pure       sum epsilon_t        <= epsilon                                 (delta = 0)
    gaussian   sum mu_t^2           <= gdp_mu(epsilon, delta)^2                Smith & Thakurta 2022
    renyi      sum rho_t(alpha)     <= rho(alpha; epsilon, delta), one alpha   Feldman & Zrnic 2021

The rule is chosen by an example of what is to come, or else by the first event, neither of which depends on any
output: Gaussian for Gaussian and pure events (a pure epsilon is mu-GDP with Phi(mu/2) = e^epsilon / (1 + e^epsilon)),
Renyi for everything else, at the order that would let the example be repeated most often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import ndtri_exp

from sordino.budget import Budget, Relation
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.accountants.content import read
from sordino.privacy.accountants.rdp import divergences, largest_divergence
from sordino.privacy.events import Composed, Event


class Rule(StrEnum):
    PURE = "pure"
    GAUSSIAN = "gaussian"
    RENYI = "renyi"


class BudgetExceeded(RuntimeError):
    """The next release would cost more than is left; it has not happened."""


class PrivacyFilter:
    """Ask `admits`, or call `spend` before every release; it raises before the budget is exceeded.

    `expecting` is an example of what is to come, `distance` what approximate events may add up to.
    """

    def __init__(self, budget: Budget, expecting: Event | None = None, distance: float = 0.0) -> None:
        self.budget = budget
        self._distance = distance * (1 + 1e-9)
        self._delta = budget.delta - (1 + math.exp(budget.epsilon)) * self._distance
        if distance and self._delta <= 0:
            raise ValueError(
                f"distance is {distance}: (1 + e^epsilon) times it must stay below delta = {budget.delta}."
            )
        self._meter = None if expecting is None else self._choose(expecting)
        self._spent: list[Event] = []
        self._used = 0.0
        self._far = 0.0

    @property
    def rule(self) -> Rule | None:
        """Undecided until something is expected or spent."""
        return self._meter.rule if self._meter else None

    @property
    def spent(self) -> Event:
        """Everything admitted so far, composed."""
        return Composed(tuple((event, 1) for event in self._spent))

    def admits(self, event: Event) -> bool:
        """Whether spending the event would stay within the budget."""
        meter = self._meter or self._choose(event)
        far = self._far + read(event, self.budget.relation).distance
        return self._used + meter.cost(event) <= meter.limit and far <= self._distance

    def spend(self, event: Event) -> None:
        """Charge the event, or raise and charge nothing."""
        meter = self._meter or self._choose(event)
        cost, limit = meter.cost(event), meter.limit
        if not self.admits(event):
            needs = f"{cost / limit:.1%}" if limit > 0 and math.isfinite(cost) else "more than all"
            raise BudgetExceeded(
                f"this release would exceed epsilon = {self.budget.epsilon}, delta = {self.budget.delta} under "
                f"{self.budget.relation}: {self._used / limit if limit > 0 else 1:.1%} of it is spent and the release "
                f"needs {needs}. Stop here, or add more noise."
            )
        self._meter = meter
        self._used += cost
        self._far += read(event, self.budget.relation).distance
        self._spent.append(event)

    def _choose(self, example: Event) -> _Meter:
        relation = self.budget.relation
        if self.budget.pure:
            return _Meter(Rule.PURE, relation, self.budget.epsilon)
        if not read(example, relation).sampled:
            return _Meter(Rule.GAUSSIAN, relation, gdp_mu(self.budget.epsilon, self._delta) ** 2)
        allowed = largest_divergence(self.budget.epsilon, self._delta)
        order = int(np.argmax(allowed / divergences(example, relation)))
        return _Meter(Rule.RENYI, relation, float(allowed[order]), order)


@dataclass(frozen=True)
class _Meter:
    """A rule with its limit, and the order if it needs one."""

    rule: Rule
    relation: Relation
    limit: float
    order: int = 0

    def cost(self, event: Event) -> float:
        """What the event adds to the sum of the rule, rounded up."""
        content = read(event, self.relation)
        match self.rule:
            case Rule.PURE:
                cost = content.largest_loss
            case Rule.GAUSSIAN:
                if content.sampled:
                    raise ValueError(
                        "this filter began with Gaussian releases and adds up mu^2, which sampled releases have not: "
                        "start it as PrivacyFilter(budget, expecting=event) with an example of what is to come."
                    )
                cost = content.mu**2 + math.fsum(count * _gaussian_square(e.epsilon) for e, count in content.pure)
            case Rule.RENYI:
                cost = float(divergences(event, self.relation)[self.order])
        return cost * (1 + 1e-12)


def _gaussian_square(epsilon: float) -> float:
    """mu^2 with Phi(-mu/2) = 1 / (1 + e^epsilon): the chords of the trade-off curve lie above the Gaussian one."""
    return float(2 * ndtri_exp(-np.logaddexp(0.0, epsilon))) ** 2
