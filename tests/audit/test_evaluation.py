"""What every sum over held-out records lets an attacker see, and what a whole evaluation does.

Half the noise must be caught by the same audit, else it proves nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.evaluation import Outcomes, ScoreHistogram
from sordino.evaluation.outcomes import ClassCells, ErrorSums, RecallAbove, ScoreCells
from sordino.evaluation.statistic import planned_noise
from sordino.oracle.persons import Persons
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut, PersonUnit

pytestmark = pytest.mark.audit

OTHERS, CANARIES, RUNS, WHOLE_RUNS = 9, 20, 40_000, 5000

# a query, and two records as far apart as can be: what was said, what is true, the log-loss
CASES = {
    "recall": (RecallAbove(0.0, 0.8), (-5.0, 1.0, 0.0), (5.0, 1.0, 0.0)),
    "scores": (ScoreCells((-1.0, 0.0, 1.0)), (-5.0, 0.0, 0.0), (5.0, 0.0, 0.0)),
    "classes": (ClassCells((-1.0, 0.0, 1.0), 2), (0.5, 0.0, 0.0), (0.5, 1.0, 0.0)),
    "losses": (ClassCells((0.0,), 2, 2.0), (0.5, 1.0, 9.0), (0.5, 0.0, 0.0)),
    "errors": (ErrorSums(-1.0, 1.0, 2.0), (-1.0, 1.0, 0.0), (-1.0, -1.0, 0.0)),
}


def neighbours(relation, one, other, persons):
    """The last record, or all of the last person's, are one or the other, or they are not there."""

    def outcomes(last):
        there = 0 if last is None else CANARIES if persons else 1
        records = np.array([*[(0.5, 0.0, 0.5)] * OTHERS, *[last] * there], dtype=float)
        owners = np.minimum(np.arange(len(records)), OTHERS)
        whose = Persons.of(owners, PersonUnit(), Randomness.system()) if persons else None
        return Outcomes.of(relation, *records.T, whose)

    return (outcomes(one), outcomes(other)) if relation is Relation.REPLACE_ONE else (outcomes(one), outcomes(None))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_claim_stands_and_half_the_noise_does_not(case, persons, relation):
    query, one, other = CASES[case]
    budget = Budget(1.0, 1e-2, relation)
    (planned,) = planned_noise(((query, 1.0, 1),), budget).sums
    noise = planned.noise
    pair = neighbours(relation, one, other, persons)
    direction = query.of(pair[0]) - query.of(pair[1])

    def measured(drawn):
        draws = [
            drawn.perturb(np.tile(query.of(some), (RUNS, 1)), Randomness.seeded(seed)) @ direction
            for seed, some in zip((5, 6), pair, strict=True)
        ]
        return audit(*draws, budget.delta).epsilon

    assert 0.5 * budget.epsilon <= measured(noise) <= budget.epsilon
    assert measured(replace(noise, std=noise.std / 2)) > budget.epsilon


@pytest.mark.parametrize("relation", list(Relation))
def test_a_whole_evaluation_keeps_its_claim(relation):
    """All scores are the same, so the cell is known in which the last record changes its class."""
    problem, budget = HeldOut(OTHERS + 1, "ab", ("no", "yes")), Budget(1.0, 1e-2, relation)
    statistic = ScoreHistogram()
    plan = statistic.plan(problem, budget)
    pair = neighbours(relation, (0.5, 1.0, 0.0), (0.5, 0.0, 0.0), False)

    def seen(released):
        cells = np.array(released.sums).reshape(2, -1)[:, np.searchsorted(released.edges, 0.5)]
        return cells[1] - cells[0] if relation is Relation.REPLACE_ONE else cells[1]

    draws = []
    for seed, some in zip((5, 6), pair, strict=True):
        randomness = Randomness.seeded(seed)
        draws.append(np.array([seen(statistic.run(plan, problem, some, randomness)) for _ in range(WHOLE_RUNS)]))
    assert 0.2 * budget.epsilon <= audit(*draws, budget.delta).epsilon <= budget.epsilon
