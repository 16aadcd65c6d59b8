"""What every step of preparation lets an attacker see, and what the whole pipeline does.

Half the noise must be caught by the same audit, else it proves nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.losses import Huber
from sordino.methods import NoisyGradientDescent
from sordino.methods.schedule import gaussian_allowance
from sordino.oracle import linear_oracle
from sordino.oracle.rows import PreparedRows, Rows
from sordino.oracle.uncoded import UncodedRecords
from sordino.prepare import (
    Categories,
    Centre,
    ColumnBounds,
    ColumnScales,
    Discovered,
    FrequentColumns,
    NormQuantile,
    Prepared,
    Whitening,
)
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

pytestmark = pytest.mark.audit

RECORDS, POWER, ALL = 10, 0.5, 1 - 1e-9
ROWS = Rows(1.0, 0.5)
PROBLEM = Problem(RECORDS, 2, Huber())


def neighbours(relation, near):
    """The last record is at one end of the bound or at the other, or missing; the others are where they are told."""

    def oracle(last):
        X = np.array([*near, *last])[:, None]
        return linear_oracle(X, np.zeros(len(X)), PROBLEM, ROWS, relation)

    return (oracle([1.0]), oracle([-1.0])) if relation is Relation.REPLACE_ONE else (oracle([1.0]), oracle([]))


class Shrunk:
    """Draws a part of what it claims."""

    def __init__(self, claimed, part):
        self.claimed, self.part = claimed, part
        self.sensitivity, self.std = claimed.sensitivity, claimed.std

    def perturb(self, value, randomness):
        return replace(self.claimed, std=self.claimed.std * self.part).perturb(value, randomness)


def measured(step, plan, budget, near, of, runs=20_000):
    rows, draws = PreparedRows.of(ROWS, 1), []
    for seed, oracle in zip((5, 6), neighbours(budget.relation, near), strict=True):
        asked, randomness = oracle.under_rows(rows), Randomness.seeded(seed)
        found = (step.run(plan, rows, RECORDS, asked, randomness) for _ in range(runs))
        draws.append(np.array([of(one) for one in found]))
    return audit(*draws, budget.delta).epsilon


def centre_of(rows):
    return rows.centre[0]


def width_of(rows):
    return rows.matrix.ravel()[0]


# the step with all of the budget, where the other records are, what to look at, whether the bound is nearly attained
CASES = {
    "centre": (Centre(ALL), 0.0, centre_of, True),
    "norm": (NormQuantile(ALL), 0.01, width_of, False),
    "scales": (ColumnScales(ALL), 0.0, width_of, False),
    "bounds": (ColumnBounds(ALL), 0.01, centre_of, False),
    "whitening": (Whitening(ALL), 0.0, width_of, False),
}


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("name", CASES)
def test_the_claim_stands(name, relation):
    step, near, of, tight = CASES[name]
    budget = Budget(1.0, 1e-2, relation)
    plan = step.plan(1, RECORDS, relation, gaussian_allowance(1, budget))
    found = measured(step, plan, budget, np.full(RECORDS - 1, near), of, 20_000 if tight else 2_000)
    assert found <= budget.epsilon
    if tight:
        assert found >= POWER * budget.epsilon


@pytest.mark.parametrize("relation", Relation)
def test_half_the_noise_is_caught(relation):
    step, near, of, _ = CASES["centre"]
    budget = Budget(1.0, 1e-2, relation)
    plan = step.plan(1, RECORDS, relation, gaussian_allowance(1, budget))
    halved = replace(plan, noise=Shrunk(plan.noise, 0.5))
    assert measured(step, halved, budget, np.full(RECORDS - 1, near), of) > budget.epsilon


def kept(relation, threshold, std=1.0, runs=20_000):
    """Whether the last record's column stays, with as many others in it as bring it to the threshold."""
    budget, step = Budget(1.0, 1e-2, relation), FrequentColumns(ALL, threshold)
    plan = step.plan(2, RECORDS, relation, gaussian_allowance(1, budget))
    near = round(threshold * plan.noise.std)
    plan = replace(plan, noise=Shrunk(plan.noise, std))
    rows, draws = PreparedRows.of(ROWS, 2), []
    others = [[0.0, 1.0]] * near + [[1.0, 0.0]] * 60
    there = [[1.0, 0.0]] if relation is Relation.REPLACE_ONE else []
    for seed, last in ((5, [[0.0, 1.0]]), (6, there)):
        X = np.array([*others, *last])
        oracle = linear_oracle(X, np.zeros(len(X)), Problem(len(X), 3, Huber()), ROWS, relation)
        asked, randomness = oracle.under_rows(rows), Randomness.seeded(seed)
        found = (step.run(plan, rows, len(X), asked, randomness).matrix[1] > 0 for _ in range(runs))
        draws.append(np.array([float(one) for one in found]))
    return audit(*draws, budget.delta).epsilon, budget


@pytest.mark.parametrize("relation", Relation)
def test_the_claim_of_frequent_columns_stands(relation):
    found, budget = kept(relation, 2.0)
    assert found <= budget.epsilon


@pytest.mark.parametrize("relation", Relation)
def test_a_fifth_of_the_noise_on_frequent_columns_is_caught(relation):
    found, budget = kept(relation, 2.0, std=0.2, runs=4000)
    assert found > budget.epsilon


def shown(relation, others, threshold=None, runs=20_000):
    """How often the value of the last record is told, where so many others have it too, against its neighbour's."""
    budget = Budget(1.0, 1e-2, relation)
    plan = Discovered(NoisyGradientDescent(1, 1.0), Categories(ALL / 2), 1).plan(PROBLEM, budget)
    threshold, noise = plan.threshold if threshold is None else threshold, plan.noise
    here = {"its": others(plan) + 1, "any": 50}
    there = {"any": 51 if relation is Relation.REPLACE_ONE else 50, **({"its": others(plan)} if others(plan) else {})}
    draws = []
    for seed, counts in ((9, here), (10, there)):
        records = UncodedRecords({"c": 5}, relation, lambda counts=counts: {"c": counts}, dict)
        randomness = Randomness.seeded(seed)
        found = [records.values(noise, threshold, randomness)["c"] for _ in range(runs)]
        draws.append(np.array([float("its" in values) for values in found]))
    return audit(*draws, budget.delta).epsilon, budget


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("others", [lambda _: 0, lambda plan: round(plan.threshold) - 1], ids=["nobody", "many"])
def test_the_claim_of_a_discovery_stands(relation, others):
    found, budget = shown(relation, others, runs=4000)
    assert found <= budget.epsilon


@pytest.mark.parametrize("relation", Relation)
def test_a_threshold_below_one_record_is_caught(relation):
    found, budget = shown(relation, lambda _: 0, threshold=0.0, runs=4000)
    assert found > budget.epsilon


def test_the_claim_of_the_whole_pipeline_stands():
    """Half of the budget for the centre, half for one step: both are read off the released weights."""
    budget = Budget(1.0, 1e-2)
    method = Prepared(NoisyGradientDescent(1, 1.0), (Centre(0.5),))
    plan, draws = method.plan(PROBLEM, budget), []
    for seed, oracle in zip((7, 8), neighbours(budget.relation, np.zeros(RECORDS - 1)), strict=True):
        randomness = Randomness.seeded(seed)
        draws.append(np.array([method.run(plan, PROBLEM, oracle, randomness).weights for _ in range(1500)]))
    for of in (lambda w: w[:, 0], lambda w: w[:, 1], lambda w: -w[:, 1] / w[:, 0]):
        assert audit(of(draws[0]), of(draws[1]), budget.delta).epsilon <= budget.epsilon
