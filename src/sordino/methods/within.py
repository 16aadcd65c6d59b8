"""One budget for a method and for Gaussian releases beside it, by the true events of the whole.

A method of another kind that is (epsilon', delta)-private need not be as private as a Gaussian with the same point, and
objective perturbation taken for one would exceed delta by more than half. So the method is planned at an epsilon', the
whole composition is accounted for, and epsilon' is moved until that is the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from sordino.budget import Budget
from sordino.methods.protocol import PlanT
from sordino.methods.schedule import gaussian_allowance
from sordino.privacy.accountants import epsilon, gdp_epsilon
from sordino.problem import Problem

_TRIES = 25
_NEARLY = 1e-4
"""How much of epsilon may be left over: finding the rest would take longer than it is worth."""


def left_beside(problem: Problem, budget: Budget, share: float) -> Budget:
    """What remains of the budget beside Gaussian releases with this share of mu^2, for a method that is Gaussian too.

    A hair less, so that the lattices' distances fit as well. Any other method is a search away: see `plan_within`.
    """
    mu = gaussian_allowance(problem.dim, budget)
    return replace(budget, epsilon=gdp_epsilon(mu * math.sqrt(1 - share), budget.delta) * (1 - 1e-6))


def plan_within(first: Budget, budget: Budget, plan_at: Callable[[Budget], PlanT]) -> PlanT | None:
    """The plan of the whole that costs nearly the budget, and no more; `plan_at` says what the method alone may cost.

    `first` is the most it may, and where the search begins. None where no plan fits.
    """
    found, tried = None, first.epsilon
    for _ in range(_TRIES):
        plan = plan_at(replace(first, epsilon=tried))
        cost = epsilon(plan.event, budget.delta, budget.relation)
        if cost <= budget.epsilon:
            found = plan
            if cost >= (1 - _NEARLY) * budget.epsilon or tried >= first.epsilon:
                return found
        # the rest is smooth in epsilon': in proportion, and a hair below
        tried = (
            min(first.epsilon, tried * (budget.epsilon / cost) ** 1.1 * (1 - 1e-9))
            if math.isfinite(cost)
            else tried / 2
        )
    return found
