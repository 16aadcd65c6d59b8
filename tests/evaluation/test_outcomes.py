"""Sums over held-out records: what one record, or one person, can do to them at most, found by trying everything."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.evaluation import ConfusionMatrix, ErrorMoments, Outcomes, ScoreHistogram
from sordino.evaluation.outcomes import ClassCells, ErrorSums, RecallAbove, ScoreCells
from sordino.oracle.persons import Persons
from sordino.privacy.accountants import epsilon
from sordino.privacy.events import compose, repeat
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import HeldOut, PersonUnit

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
SCORES = (-math.inf, -5.0, -0.5, 0.0, 0.2, 1.0, 30.0, math.inf, math.nan)
EDGES = (-1.0, 0.0, 0.0, 0.7)
LOSSES = (0.0, 0.3, 1.0, 2.0, 4.0, math.inf, math.nan)
NUMBERS = (-math.inf, -9.0, -1.0, -0.4, 0.0, 0.5, 0.9, 2.0, 3.0, 7.0, math.inf, math.nan)

# every possible record: what was said of it, what is true, its log-loss
RECORDS = {
    RecallAbove(0.0, 0.8): [(s, c, 0.0) for s in SCORES for c in (0, 1)],
    ScoreCells(EDGES): [(s, c, 0.0) for s in SCORES for c in (0, 1)],
    ClassCells(EDGES, 2): [(s, c, 0.0) for s in SCORES for c in (0, 1)],
    ClassCells(EDGES, 2, 2.0): list(itertools.product(SCORES[:4], (0, 1), LOSSES)),
    ClassCells((0.5, 1.5), 3): [(s, c, 0.0) for s in (0, 1, 2) for c in (0, 1, 2)],
    ErrorSums(-1.0, 3.0, 2.0): [(s, t, 0.0) for s in NUMBERS for t in NUMBERS],
    ErrorSums(-1.0, 3.0, 0.5): [(s, t, 0.0) for s in NUMBERS for t in NUMBERS],
}
TIGHT = {RecallAbove: 1.0, ScoreCells: 1.0, ClassCells: 1.0, ErrorSums: 0.9}
"""Which part of the stated sensitivity some pair of records attains."""


def outcomes(records, relation=REPLACE, persons=None):
    said, truth, losses = np.array(records, dtype=float).reshape(-1, 3).T
    return Outcomes.of(relation, said, truth, losses, persons)


def widest(points):
    return max(float(np.linalg.norm(points - point, axis=1).max()) for point in points)


@pytest.mark.parametrize("query", RECORDS, ids=lambda query: f"{type(query).__name__}{query.width}")
def test_no_record_moves_a_sum_further_than_stated(query):
    added = np.array([query.of(outcomes([record])) for record in RECORDS[query]])
    assert added.shape[1] == query.width
    alone = float(np.linalg.norm(added, axis=1).max())
    for relation, found in ((REPLACE, widest(added)), (ADD, alone)):
        stated = query.sensitivity(relation)
        assert found <= stated
        assert found >= TIGHT[type(query)] * stated * (1 - 1e-8)
    assert alone <= query.clip


@pytest.mark.parametrize("query", RECORDS, ids=lambda query: f"{type(query).__name__}{query.width}")
def test_no_person_does(query):
    """Neighbours that differ in all records of one person, of which at most three count."""
    rng = np.random.default_rng(4)
    possible = np.array(RECORDS[query])
    for _ in range(60):
        others = possible[rng.integers(len(possible), size=5)]
        bundles = [possible[rng.integers(len(possible), size=rng.integers(1, 8))] for _ in range(2)]
        sums = []
        for bundle in (*bundles, possible[:0]):
            owners = np.concatenate([[0, 1, 1, 2, 2], np.full(len(bundle), 3)])
            # the same coins: which records count is drawn person by person
            persons = Persons.of(owners, PersonUnit(3), Randomness.seeded(1))
            sums.append(query.of(outcomes(np.concatenate([others, bundle]), persons=persons)))
        assert np.linalg.norm(sums[0] - sums[1]) <= query.sensitivity(REPLACE) + 1e-7
        assert np.linalg.norm(sums[0] - sums[2]) <= query.sensitivity(ADD) + 1e-7


def test_the_order_of_records_changes_no_bit():
    rng = np.random.default_rng(0)
    owners = rng.integers(300, size=1000)
    said, truth = rng.normal(size=1000), rng.normal(size=1000)
    order = rng.permutation(1000)

    def sums(places):
        persons = Persons.of(owners[places], PersonUnit(), Randomness.seeded(0))
        some = Outcomes.of(REPLACE, said[places], truth[places], np.empty(0), persons)
        return ErrorSums(-2.0, 2.0, 1.0).of(some).tolist(), ScoreCells((0.0, 0.5)).of(some).tolist()

    assert sums(np.arange(1000)) == sums(order)


def test_what_is_counted_is_what_was_there():
    said, truth = np.array([-2.0, 0.0, 0.1, 5.0]), np.array([0.0, 1.0, 0.0, 1.0])
    some = Outcomes.of(REPLACE, said, truth, np.array([0.5, 1.0, 4.0, 0.0]), None)
    assert ScoreCells((0.0, 1.0)).of(some).tolist() == [2.0, 1.0, 1.0]
    # u is .25, .5, 1, 0
    assert ClassCells((0.0,), 2, 2.0).of(some).tolist() == [1.0, 1.0, 1.0, 1.0, 0.875, 0.65625]
    persons = Persons.of(np.array([7, 7, 8, 9]), PersonUnit(), Randomness.seeded(0))
    halves = Outcomes.of(REPLACE, said, truth, np.empty(0), persons)
    assert ScoreCells((0.0, 1.0)).of(halves).tolist() == [1.0, 1.0, 1.0]


PROBLEMS = {
    ScoreHistogram(): HeldOut(100, "ab", ("no", "yes")),
    ScoreHistogram(goal="recall", target=0.8): HeldOut(100, "ab", ("no", "yes")),
    ScoreHistogram(goal="positive rate", target=0.1, loss_bound=3.0): HeldOut(100, "ab", ("no", "yes")),
    ConfusionMatrix(): HeldOut(100, "ab", ("a", "b", "c")),
    ConfusionMatrix(2.0): HeldOut(100, "ab", ("a", "b", "c")),
    ErrorMoments(): HeldOut(100, "ab", (), (-1.0, 3.0)),
}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("statistic", PROBLEMS, ids=lambda one: type(one).__name__)
def test_noise_that_was_made_for_less_is_refused(statistic, relation):
    """Every sum that a statistic asks for, with a hair less noise than planned."""
    problem, budget = PROBLEMS[statistic], Budget(1.0, 1e-5, relation)
    plan = statistic.plan(problem, budget)
    asked = []

    class Noting(Outcomes):
        def release(self, query, noise, randomness):
            asked.append((query, noise))
            return super().release(query, noise, randomness)

    records = Noting(relation, np.zeros(100), np.zeros(100), np.zeros(100))
    statistic.run(plan, problem, records, Randomness.seeded(0))
    assert plan.event == compose(*(repeat(one.noise.event, one.times) for one in plan.sums))
    assert epsilon(compose(*(noise.event for _, noise in asked)), budget.delta, relation) <= budget.epsilon * (1 + 1e-9)
    assert [noise for _, noise in asked] == [one.noise for one in plan.sums for _ in range(one.times)]
    for query, noise in tuple(asked):
        less = GaussianNoise(0.999 * noise.sensitivity, noise.std, noise.dim)
        with pytest.raises(ValueError, match="calibrate the noise to the query"):
            records.release(query, less, Randomness.seeded(0))
