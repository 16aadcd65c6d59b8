"""What preparation releases, as an attacker sees it: everything, through a method that trains nothing.

Weights for the given rows are the map of rows then, so the centre and the norm can be read off them exactly. Half the
noise must be caught by the same audit, else it proves nothing. The pipeline with a real method is audited too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.losses import Huber
from sordino.methods import NoisyGradientDescent, Release
from sordino.oracle import linear_oracle
from sordino.oracle.protocol import Oracle
from sordino.oracle.rows import Rows
from sordino.prepare import Centre, ColumnScales, NormQuantile, Prepared, Whitening
from sordino.privacy.audit import audit
from sordino.privacy.events import GaussianDP
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

pytestmark = pytest.mark.audit

RECORDS, RUNS, POWER = 10, 6000, 0.6
ROWS = Rows(1.0, 0.5)
PROBLEM = Problem(RECORDS, 2, Huber())


@dataclass(frozen=True)
class NothingPlan:
    event: ClassVar[GaussianDP] = GaussianDP(0.0)
    step_events: ClassVar[tuple[()]] = ()


@dataclass(frozen=True)
class Nothing:
    """Trains nothing, at no cost: one, and no intercept."""

    calibration: ClassVar[str] = "tight"
    needs: ClassVar[type[Oracle]] = Oracle

    def plan(self, problem, budget):
        return NothingPlan()

    def run(self, plan, problem, oracle, randomness, start=None):
        return Release(np.array([1.0, 0.0]), plan.event)


def neighbours(relation, near):
    """The last record is at one end of the bound or at the other, or missing; the others are where they are told."""

    def oracle(last):
        X = np.array([*near, *last])[:, None]
        return linear_oracle(X, np.zeros(len(X)), PROBLEM, ROWS, relation)

    return (oracle([1.0]), oracle([-1.0])) if relation is Relation.REPLACE_ONE else (oracle([1.0]), oracle([]))


@dataclass(frozen=True)
class HalfNoise:
    """Draws half of what it claims."""

    claimed: object

    def __getattr__(self, name):
        return getattr(self.claimed, name)

    def perturb(self, value, randomness):
        return replace(self.claimed, std=self.claimed.std / 2).perturb(value, randomness)


def outputs(method, plan, oracle, of, seed):
    randomness = Randomness.seeded(seed)
    return np.array([of(method.run(plan, PROBLEM, oracle, randomness).weights) for _ in range(RUNS)])


def measured(method, plan, budget, near, of):
    draws = [
        outputs(method, plan, oracle, of, seed)
        for seed, oracle in zip((5, 6), neighbours(budget.relation, near), strict=True)
    ]
    return audit(*draws, budget.delta).epsilon


def centre_of(weights):
    return -weights[1] / weights[0]


def width_of(weights):
    return weights[0]


# the steps, where the other records are, what to look at, and whether the bound is nearly attained there
CASES = {
    "centre": ((Centre(0.98),), np.zeros(RECORDS - 1), centre_of, True),
    "centre, then a norm": ((Centre(0.96), NormQuantile(0.02)), np.zeros(RECORDS - 1), centre_of, True),
    "norm": ((NormQuantile(0.98),), np.full(RECORDS - 1, 0.01), width_of, False),
    "scales": ((ColumnScales(0.98),), np.zeros(RECORDS - 1), width_of, False),
    "whitening": ((Centre(0.5), Whitening(0.48)), np.zeros(RECORDS - 1), centre_of, False),
}


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("name", CASES)
def test_the_claim_stands(name, relation):
    steps, near, of, tight = CASES[name]
    budget = Budget(1.0, 1e-2, relation)
    method = Prepared(Nothing(), steps)
    found = measured(method, method.plan(PROBLEM, budget), budget, near, of)
    assert found <= budget.epsilon
    if tight:
        assert found >= POWER * budget.epsilon


def test_half_the_noise_is_caught():
    steps, near, of, _ = CASES["centre, then a norm"]
    budget = Budget(1.0, 1e-2)
    method = Prepared(Nothing(), steps)
    plan = method.plan(PROBLEM, budget)
    halved = tuple(replace(step, noise=HalfNoise(step.noise)) for step in plan.preparation)
    assert measured(method, replace(plan, preparation=halved), budget, near, of) > budget.epsilon


@pytest.mark.parametrize("relation", Relation)
def test_the_claim_of_the_whole_pipeline_stands(relation):
    """Half of the budget for the centre, half for one step: together they tell a record apart, if anything does."""
    budget = Budget(1.0, 1e-2, relation)
    method = Prepared(NoisyGradientDescent(1, 1.0), (Centre(0.5),))
    plan = method.plan(PROBLEM, budget)
    for of in (centre_of, width_of, lambda weights: weights[1]):
        assert measured(method, plan, budget, np.zeros(RECORDS - 1), of) <= budget.epsilon
