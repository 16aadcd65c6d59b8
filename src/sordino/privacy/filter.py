r"""Stopping in time when the events themselves are chosen in view of earlier outputs.

Composition theorems ask for the events in advance.  When the next event depends on what was released, a filter is
needed: a rule, fixed before the first release, that refuses whatever would exceed its budget.  Three are known to be
as good as composition itself:

    pure       sum epsilon_t        <= epsilon                                 (delta = 0)
    gaussian   sum mu_t^2           <= gdp_mu(epsilon, delta)^2                Smith & Thakurta 2022
    renyi      sum rho_t(alpha)     <= rho(alpha; epsilon, delta), one alpha   Feldman & Zrnic 2021

The rule is chosen by the first event, which cannot depend on any output: Gaussian for Gaussian and pure events (a
pure epsilon is mu-GDP with Phi(mu/2) = e^epsilon / (1 + e^epsilon)), Renyi for everything else.  Its order is the one
that leaves most room for Gaussian-like losses under the budget.
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from scipy.special import ndtri_exp

from sordino.budget import Budget
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.accountants.content import Content, read
from sordino.privacy.accountants.rdp import ORDERS, divergences, largest_divergence
from sordino.privacy.events import Composed, Event


class Rule(StrEnum):
    PURE = "pure"
    GAUSSIAN = "gaussian"
    RENYI = "renyi"


class BudgetExceeded(RuntimeError):
    """The next release would cost more than is left; it has not happened."""


class PrivacyFilter:
    """Ask `admits`, or call `spend` before every release; it raises before the budget is exceeded.

    `distance` reserves total variation distance for approximate events: their distances may add up to it.
    """

    def __init__(self, budget: Budget, rule: Rule | None = None, distance: float = 0.0) -> None:
        self.budget = budget
        self.rule = Rule.PURE if budget.pure else rule
        self._distance = distance
        self._delta = budget.delta - (1 + math.exp(budget.epsilon)) * distance
        if distance and self._delta <= 0:
            raise ValueError(
                f"distance is {distance}: (1 + e^epsilon) times it must stay below delta = {budget.delta}."
            )
        if rule is not None and rule is not self.rule:
            raise ValueError(f"rule is {rule}: a budget with delta = 0 can only be kept by adding up pure epsilons.")
        if self.rule is Rule.PURE and not budget.pure:
            raise ValueError("the pure rule keeps budgets with delta = 0; leave the rule out, or choose another.")
        self._spent: list[Event] = []
        self._used = 0.0
        self._far = 0.0

    @property
    def spent(self) -> Event:
        """Everything admitted so far, composed."""
        return Composed(tuple((event, 1) for event in self._spent))

    def admits(self, event: Event) -> bool:
        """Whether spending the event would stay within the budget."""
        content = read(event, self.budget.relation)
        rule = self.rule or _rule_for(content)
        cost = self._cost(event, content, rule)
        return self._used + cost <= self._limit(rule) and self._far + content.distance <= self._distance

    def spend(self, event: Event) -> None:
        """Charge the event, or raise and charge nothing."""
        content = read(event, self.budget.relation)
        rule = self.rule or _rule_for(content)
        if not self.admits(event):
            raise BudgetExceeded(
                f"this release would exceed epsilon = {self.budget.epsilon}, delta = {self.budget.delta} under "
                f"{self.budget.relation}; {self._share(self._used, rule)} of it is spent and the release needs "
                f"{self._share(self._cost(event, content, rule), rule)}. Stop here, or add more noise."
            )
        self.rule = rule
        self._used += self._cost(event, content, rule)
        self._far += content.distance
        self._spent.append(event)

    def _cost(self, event: Event, content: Content, rule: Rule) -> float:
        """What the event adds to the sum of the rule, rounded up."""
        match rule:
            case Rule.PURE:
                cost = content.largest_loss
            case Rule.GAUSSIAN:
                if content.sampled:
                    raise ValueError(
                        "this filter began with Gaussian releases and adds up mu^2, which sampled releases have not: "
                        "start it as PrivacyFilter(budget, rule=Rule.RENYI) if there will be some."
                    )
                cost = content.mu**2 + math.fsum(count * _gaussian_square(e.epsilon) for e, count in content.pure)
            case Rule.RENYI:
                cost = float(divergences(event, self.budget.relation)[self._order])
        return cost * (1 + 1e-12)

    def _limit(self, rule: Rule) -> float:
        match rule:
            case Rule.PURE:
                return self.budget.epsilon
            case Rule.GAUSSIAN:
                return gdp_mu(self.budget.epsilon, self._delta) ** 2
            case Rule.RENYI:
                return float(self._allowed[self._order])

    @property
    def _allowed(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return largest_divergence(self.budget.epsilon, self._delta)

    @property
    def _order(self) -> int:
        return int(np.argmax(self._allowed / ORDERS))

    def _share(self, cost: float, rule: Rule) -> str:
        limit = self._limit(rule)
        return f"{cost / limit:.1%}" if limit > 0 and math.isfinite(cost) else "more than all"


def _rule_for(content: Content) -> Rule:
    return Rule.RENYI if content.sampled else Rule.GAUSSIAN


def _gaussian_square(epsilon: float) -> float:
    """mu^2 with Phi(-mu/2) = 1 / (1 + e^epsilon): the chords of the trade-off curve lie above the Gaussian one."""
    return float(2 * ndtri_exp(-np.logaddexp(0.0, epsilon))) ** 2
