"""Correlated noise against an adversary who sees every sum and knows the filter.

The sums of a record whose gradient is constant are told apart best by  <C delta, C y>,  y what was released: C y is
C g + Z with independent Z.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import toeplitz

import worst_case
from sordino.budget import Relation
from sordino.methods import DPSGD
from sordino.oracle.query import Gradient
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness

RUNS, RUNS_IN_TURNS = 120_000, 40_000
LAST = worst_case.RECORDS - 1
POWER = 0.7


def matrix(plan):
    T = plan.steps
    return np.linalg.inv(np.tril(toeplitz(plan.noise.correlation.inverse(T))))


def seen(plan, oracle, seed, runs=RUNS):
    """C y of every run, from its path, in units of the clip."""
    plan, problem = replace(plan, release="trajectory"), worst_case.problem()
    path = DPSGD.run(plan, problem, oracle, Randomness.seeded(seed), np.zeros((runs, 1))).weights[..., 0]
    sums = -np.diff(path, axis=0) / plan.step_size * plan.sampling.expected_size(plan.records)
    return matrix(plan) @ sums


def in_order(plan, budget):
    """A lower bound on epsilon."""
    taken = np.array([float(LAST in plan.sampling.at(t).draw(worst_case.RECORDS, None)) for t in range(plan.steps)])
    towards = matrix(plan) @ taken
    pair = worst_case.neighbours(worst_case.problem(), budget.relation)
    return audit(*(towards @ seen(plan, oracle, 5 + i) for i, oracle in enumerate(pair)), budget.delta).epsilon


CASES = {
    "one vector": DPSGD(12, 3, 1.0, 1.0, sampling="in_order"),
    "bands": DPSGD(12, 3, 1.0, 1.0, sampling="in_order", bands=4),
    "independent": DPSGD(12, 3, 1.0, 1.0, sampling="in_order", noise="independent"),
    "everybody in every step": DPSGD(5, 10, 1.0, 1.0, sampling="in_order"),
}


@pytest.mark.audit
@pytest.mark.parametrize("name", CASES)
def test_the_whole_path_costs_no_more_than_was_claimed_and_nearly_so(name):
    budget = worst_case.budget()
    found = in_order(CASES[name].plan(worst_case.problem(), budget), budget)
    assert POWER * budget.epsilon < found <= budget.epsilon


@pytest.mark.audit
def test_participations_that_are_not_counted_are_noticed():
    """Noise for a record that never comes back, in a run in which it does."""
    budget = worst_case.budget()
    plan = CASES["one vector"].plan(worst_case.problem(), budget)
    once = DPSGD(4, 3, 1.0, 1.0, sampling="in_order").plan(worst_case.problem(), budget)
    assert in_order(replace(plan, noise=replace(plan.noise, std=once.noise.std)), budget) > budget.epsilon


class OwnBatches:
    """Answers a stack of runs as if each had drawn its batch alone: zero rows contribute nothing."""

    def __init__(self, oracle):
        self.oracle, self.drawn = oracle, None

    def draw(self, sampling, randomness):
        self.drawn = np.array([LAST in self.oracle.draw(sampling, randomness) for _ in range(RUNS_IN_TURNS)])
        return np.arange(worst_case.RECORDS)

    def release(self, query, noise, randomness):
        exact = Exact()
        self.oracle.release(Gradient(query.at, query.clip, query.batch), exact, randomness)
        return noise.perturb(exact.value * self.drawn[:, None], randomness)


class Exact:
    """Takes the sum instead of adding noise to it."""

    sensitivity = 1e9

    def perturb(self, value, randomness):
        self.value = np.array(value)
        return value


@pytest.mark.audit
@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_groups_that_have_turns(scale):
    """The best test of the mixtures' product: a block shows a contribution with probability q, of either sign."""
    budget = worst_case.budget(epsilon=2.0)
    method = DPSGD(4, 3, 1.0, 1.0, noise="correlated", bands=2)
    plan = method.plan(worst_case.problem(), budget)
    plan = replace(plan, noise=replace(plan.noise, std=scale * plan.noise.std))
    assert budget.relation is Relation.REPLACE_ONE
    C, q, sigma = matrix(plan), plan.sampling.rate, plan.noise.std
    turns = [t for t in range(plan.steps) if t % 2 == LAST % 2]
    draws = []
    for i, oracle in enumerate(worst_case.neighbours(worst_case.problem(), budget.relation)):
        shown = seen(plan, OwnBatches(oracle), 11 + i, RUNS_IN_TURNS)
        score = np.zeros(RUNS_IN_TURNS)
        for t in turns:
            a = np.linalg.norm(C[:, t]) / sigma
            x = C[:, t] @ shown / np.linalg.norm(C[:, t]) / sigma
            up, down = (np.log1p(q * np.expm1(sign * a * x - a * a / 2)) for sign in (1, -1))
            score += up - down
        draws.append(score)
    found = audit(*draws, budget.delta).epsilon
    if scale == 1:
        assert POWER * budget.epsilon < found <= budget.epsilon
    else:
        assert found > budget.epsilon
