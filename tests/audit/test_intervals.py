"""What a model with its intervals lets an attacker see, and how often its intervals are right.

Half the noise must be caught by the same audit, else it proves nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.inference import WithIntervals
from sordino.losses import Huber, Squared
from sordino.methods import NoisyGradientDescent, ObjectivePerturbation, SufficientStatistics
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

pytestmark = pytest.mark.audit

RECORDS, RUNS = 10, 2000
ROWS = Rows(1.0)
BUDGET = Budget(1.0, 1e-2)


def facts(loss, l2=20.0):
    """A penalty so large that a few records have intervals: what is seen of a record does not depend on it."""
    return Problem(RECORDS, 1, loss, penalty=Ridge(l2))


def draws(method, plan, problem, relation):
    """Weight and variance, none where it was refused, with the last record at one end or with nothing to say."""
    found = []
    others = [1.0] if relation is Relation.REPLACE_ONE else []
    for seed, last in ((1, ([1.0], [1.0])), (2, (others, [-1.0] * len(others)))):
        X, y = np.array([*np.zeros(RECORDS - 1), *last[0]])[:, None], np.array([*np.zeros(RECORDS - 1), *last[1]])
        oracle, randomness = linear_oracle(X, y, problem, ROWS, relation), Randomness.seeded(seed)
        runs = (method.run(plan, problem, oracle, randomness) for _ in range(RUNS))
        told = ((one.weights[0], 0.0 if one.covariance is None else one.covariance[0, 0]) for one in runs)
        found.append(np.array(list(told)))
    return found


METHODS = {
    "objective perturbation": (ObjectivePerturbation(), Huber(1.0, 1.0)),
    "descent": (NoisyGradientDescent(1, 0.01), Huber(1.0, 1.0)),
    "sufficient statistics": (SufficientStatistics(), Squared(1.0, 1.0)),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("relation", Relation)
def test_the_claim_stands(name, relation):
    inner, loss = METHODS[name]
    if (name, relation) == ("sufficient statistics", Relation.ADD_REMOVE):
        pytest.skip("refused")
    method, problem, budget = WithIntervals(inner), facts(loss), replace(BUDGET, relation=relation)
    plan = method.plan(problem, budget)
    one, other = draws(method, plan, problem, relation)
    assert np.mean(one[:, 1] > 0) > 0.5
    for of in (lambda found: found[:, 0], lambda found: found[:, 1], lambda found: found @ [1.0, -1.0]):
        assert audit(of(one), of(other), budget.delta).epsilon <= budget.epsilon


def test_a_fifth_of_the_noise_is_caught():
    method, problem = WithIntervals(SufficientStatistics()), facts(Squared(1.0, 1.0))
    plan = method.plan(problem, BUDGET)
    forged = replace(plan, inner=replace(plan.inner, noise=Fifth(plan.inner.noise)))
    one, other = draws(method, forged, problem, BUDGET.relation)
    assert audit(one[:, 0], other[:, 0], BUDGET.delta).epsilon > BUDGET.epsilon


class Fifth:
    """Draws a fifth of what it claims."""

    def __init__(self, claimed):
        self.claimed, self.event = claimed, claimed.event
        self.sensitivity, self.std = claimed.sensitivity, claimed.std

    def perturb(self, value, randomness):
        return replace(self.claimed, std=self.claimed.std / 5).perturb(value, randomness)
