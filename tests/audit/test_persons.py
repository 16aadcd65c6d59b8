"""Persons of many records that all pull the same way: the worst that one person can do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import worst_case
from sordino.budget import Relation
from sordino.methods import NoisyGradientDescent, OutputPerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.persons import Persons
from sordino.oracle.rows import Rows
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit

RUNS, CANARIES = 40_000, 20


def neighbours(problem, relation, unit):
    """The last person's twenty records pull up, or down; or they are not there."""

    def oracle(pull):
        there = CANARIES * abs(pull)
        X = np.concatenate([np.zeros((worst_case.RECORDS - 1, 1)), np.ones((there, 1))])
        y = np.concatenate([np.zeros(worst_case.RECORDS - 1), np.full(there, pull * worst_case.FAR)])
        owners = np.minimum(np.arange(len(X)), worst_case.RECORDS - 1)
        if unit is None:
            # what a person can do to a guarantee that is about records
            return linear_oracle(X, y, replace(problem, records=len(X)), Rows(1.0), relation)
        persons = Persons.of(owners, unit, Randomness.system())
        return linear_oracle(X, y, problem, Rows(1.0), relation, persons)

    return (oracle(1), oracle(-1)) if relation is Relation.REPLACE_ONE else (oracle(1), oracle(0))


def found(method, problem, budget, unit, seed=5):
    plan = method.plan(problem, budget)
    oracles = neighbours(problem, budget.relation, unit)
    draws = [
        worst_case.outputs(method, plan, problem, oracle, Randomness.seeded(seed + i), RUNS)
        for i, oracle in enumerate(oracles)
    ]
    return audit(*draws, budget.delta).epsilon


METHODS = {
    "every step": NoisyGradientDescent(4, 0.5, release="average"),
    "last step": NoisyGradientDescent(4, 0.5),
    "output": OutputPerturbation(4),
}


@pytest.mark.audit
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("unit", [PersonUnit(), PersonUnit(7), PersonUnit(20, "capped")], ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_the_claim_stands_for_a_person(name, unit, relation):
    if name == "output" and relation is Relation.ADD_REMOVE:
        pytest.skip("output perturbation is for replace_one")
    problem, budget = replace(worst_case.problem(), person=unit), worst_case.budget(relation=relation)
    measured = found(METHODS[name], problem, budget, unit)
    assert measured <= budget.epsilon
    # twenty records count as one that does its worst, so that much of the claim can be seen
    assert measured >= 0.6 * budget.epsilon


@pytest.mark.audit
def test_a_guarantee_about_records_does_not_protect_a_person():
    problem, budget = worst_case.problem(), worst_case.budget()
    assert found(METHODS["every step"], problem, budget, None) > 3 * budget.epsilon
