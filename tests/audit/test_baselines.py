"""The baselines where runs side by side do not reach: batches of their own, choices, and what went wrong elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import worst_case
from sordino.budget import Relation
from sordino.methods import AdaptiveGradientDescent, BassilySmithThakurta, PermutationSGD
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum


def one_by_one(method, plan, problem, oracles, runs):
    """One training run per output, with batches and choices of its own."""
    draws = []
    for seed, oracle in enumerate(oracles):
        randomness = Randomness.seeded(100 + seed)
        draws.append(np.array([method.run(plan, problem, oracle, randomness).weights[0] for _ in range(runs)]))
    return draws


def crowd(problem, pull):
    """Every record pulls down, the last one up or down as well: the worst there is for batches of fixed size."""
    y = np.full(worst_case.RECORDS, -worst_case.FAR)
    y[-1] = pull * worst_case.FAR
    return linear_oracle(np.ones((worst_case.RECORDS, 1)), y, problem, Rows(1.0))


@pytest.mark.audit
@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_sampled_batches(mu):
    """One record in two, (n/m)^2 = 4 steps."""
    method, problem, budget = BassilySmithThakurta(5), worst_case.problem(mu=mu), worst_case.budget()
    plan = method.plan(problem, budget)
    assert plan.steps == 4
    oracles = [crowd(problem, pull) for pull in (+1, -1)]
    found = audit(*one_by_one(method, plan, problem, oracles, 20_000), budget.delta).epsilon
    assert 0.4 * budget.epsilon <= found <= budget.epsilon
    halved = replace(plan, noise=replace(plan.noise, std=plan.noise.std / 2))
    assert audit(*one_by_one(method, halved, problem, oracles, 5_000), budget.delta).epsilon > budget.epsilon


@pytest.mark.parametrize(("schedule", "mu"), [("strongly convex", 0.5), ("constant", 0.5)])
def test_dividing_the_sensitivity_by_the_batch_size_is_caught(schedule, mu):
    """The strongly convex sensitivity does not depend on the batches; constant steps are divided already."""
    method, problem, budget = PermutationSGD(20, 5, schedule), worst_case.problem(mu=mu), worst_case.budget()
    plan = method.plan(problem, budget)
    mistaken = replace(plan, noise=replace(plan.noise, std=plan.noise.std / method.batch_size))
    draws = [
        worst_case.outputs(method, mistaken, problem, oracle, Randomness.seeded(3), 10_000)
        for oracle in worst_case.neighbours(problem, Relation.REPLACE_ONE)
    ]
    assert audit(*draws, budget.delta).epsilon > 2 * budget.epsilon


def choices(scores, runs, sign):
    """Indices of the least score, noise subtracted as it must be (by the library) or added (straight away)."""
    if sign < 0:
        randomness, selection = Randomness.seeded(5), NoisyMinimum(1.0, 0.4)
        return np.array([selection.choose(scores, randomness) for _ in range(runs)])
    rng = np.random.default_rng(5)
    return (scores + rng.exponential(5.0, size=(runs, len(scores)))).argmin(axis=1)


@pytest.mark.parametrize(("sign", "runs"), [(-1, 10_000), (+1, 100_000)])
def test_noise_of_the_wrong_sign_is_caught(sign, runs):
    """21 candidates at epsilon = 0.4, one of them moved by half of the sensitivity: at most 0.1, or 2.1 if added."""
    equal, moved = np.zeros(21), np.zeros(21)
    moved[0] = 0.5
    draws = [(choices(scores, runs, sign) == 0).astype(float) for scores in (equal, moved)]
    found = audit(*draws, delta=0.0).epsilon
    assert found <= 0.4 if sign < 0 else found > 1.0


class Loud(NoisyMinimum):
    """Draws a sixteenth of the noise it claims."""

    def choose(self, scores, randomness):
        return NoisyMinimum(self.sensitivity, 16 * self.epsilon).choose(scores, randomness)


def measured_choices(loud, runs):
    """The last record is at ease where the descent starts, or one step away, and its loss is clipped elsewhere."""
    problem, budget = worst_case.problem(), worst_case.budget()
    method = AdaptiveGradientDescent(2, candidates=1, loss_clip=2.5, longest_step=3.0)
    plan = method.plan(problem, budget)
    if loud:
        plan = replace(plan, selection=Loud(plan.selection.sensitivity, plan.selection.epsilon))
    X, y = np.zeros((worst_case.RECORDS, 1)), np.zeros(worst_case.RECORDS)
    X[-1] = 1.0
    oracles = [linear_oracle(X, y + target * X[:, 0], problem, Rows(1.0)) for target in (3.0, 0.0)]
    return audit(*one_by_one(method, plan, problem, oracles, runs), budget.delta).epsilon, budget


def test_choices_with_too_little_noise_are_caught():
    found, budget = measured_choices(loud=True, runs=1_000)
    assert found > budget.epsilon


@pytest.mark.audit
def test_adaptive_choices():
    """Two rounds with a choice of epsilon 1/4 each are visible, and stay within the claim."""
    found, budget = measured_choices(loud=False, runs=20_000)
    assert 0.08 <= found <= budget.epsilon
