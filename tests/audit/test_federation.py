"""Sums of several owners, against colluders who take their own noise off again: the claim is never refuted.

Noise that forgets the colluders must be caught by the same audit, else it proves nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

import worst_case
from sordino.budget import Relation
from sordino.federation.noise import DistributedGaussian
from sordino.federation.party import RecordHolder
from sordino.federation.trust import Trust
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.privacy.audit import audit
from sordino.privacy.calibrate import calibrate
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

RUNS = 240_000
BUDGET = worst_case.budget()
POWER = 0.7

CASES = [
    Trust(2),
    Trust(5, "distributed", 2),
    Trust(5, "distributed", 4),
    Trust(3, "committee"),
    Trust(3, "joint"),
    Trust(5, "joint", 2),
]


def planned():
    multiplier = calibrate(lambda z: GaussianNoise.at(z, 2.0, 1).event, BUDGET)
    return GaussianNoise.at(multiplier, 2.0, 1)


def left_to_colluders(trust, shared, pull, seed):
    """Opened sums less the noise of the colluding makers. The victim is the last owner."""
    problem = worst_case.problem()
    records = worst_case.RECORDS
    total = np.zeros((RUNS, 1), dtype=np.int64)
    for owner in range(trust.owners):
        X, y = np.zeros((records, 1)), np.zeros(records)
        if owner == trust.owners - 1:
            X[-1], y[-1] = 1.0, pull * worst_case.FAR
        oracle = linear_oracle(X, y, problem, Rows(1.0), Relation.REPLACE_ONE)
        holder = RecordHolder(oracle, Randomness.seeded(seed + owner))
        total += holder.part(Gradient(np.zeros((RUNS, 1)), 1.0), shared, "owner")
    randomness = Randomness.seeded(seed + 100)
    for _ in range(len(trust.makers) - trust.colluders):
        total += shared.next(total.shape, randomness)
    if shared.joint is not None:
        total += shared.joint.draw(total.shape, randomness.noise)
    return (total * shared.step).ravel()


def measured(trust, shared):
    one, other = (left_to_colluders(trust, shared, pull, seed) for pull, seed in ((1, 1), (-1, 1000)))
    return audit(one, other, BUDGET.delta).epsilon


@pytest.mark.audit
@pytest.mark.parametrize("trust", CASES, ids=str)
def test_colluders_learn_no_more_than_claimed_and_nearly_as_much(trust):
    found = measured(trust, trust.realise(planned()))
    assert POWER * BUDGET.epsilon <= found <= BUDGET.epsilon


@pytest.mark.audit
@pytest.mark.parametrize("trust", [Trust(5, "distributed", 4), Trust(3, "committee")], ids=str)
def test_noise_that_forgets_the_colluders_is_caught(trust):
    careless = DistributedGaussian.covering(planned(), len(trust.makers), 0)
    assert measured(trust, careless) > BUDGET.epsilon
