"""The whole search against neighbours made for it, and what happens when the choice is not paid for.

A run's model is one noisy step; held-out records prefer models far up, so that the best of K runs is nearly the largest
of K Gaussians. The neighbours differ in a training record, which moves every model, or in a held-out one, which moves
every score.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import worst_case
from sordino.losses import Huber
from sordino.methods import NoisyGradientDescent, RepeatedSelection, Setting
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

BUDGET = worst_case.budget()
SEARCHES = 20_000


def seed_that(oracle, plan, held_out):
    """The split is public: a seed for which the last record is held out, or not."""
    records = plan.held_out_records * 2
    return next(
        seed for seed in range(100) if (records - 1 in oracle.draw(plan.held_out, Randomness.seeded(seed))) is held_out
    )


def measured(search, plan, problem, oracles, held_out, searches):
    draws = []
    for oracle in oracles:
        randomness = Randomness.seeded(seed_that(oracle, plan, held_out))
        released = search.run(plan, problem, oracle, randomness, np.zeros((searches, 1)))
        # the second neighbour gets noise of its own, under the same split
        draws.append(released.weights[:, 0])
    return audit(*draws, BUDGET.delta).epsilon


N = 400
KEPT = N // 2
REACH = 20.0
UP = Problem(N, 1, Huber())


def upward(mean_runs, law):
    """One step of size KEPT: a model is the sum of KEPT pulls of one, give or take noise of ten."""
    settings = (Setting(NoisyGradientDescent(1, float(KEPT))),)
    return RepeatedSelection(settings, mean_runs, law, held_out=0.5, score_clip=2 * REACH)


def pulled(pull):
    """Everybody asks for what is just out of reach; the last record asks for more or for less."""
    y = np.full(N, KEPT + REACH)
    y[-1] = pull * worst_case.FAR
    return linear_oracle(np.ones((N, 1)), y, UP, Rows(1.0))


@pytest.mark.audit
@pytest.mark.parametrize(
    ("mean_runs", "law", "power"),
    # the theorems are further from tight for the laws that often stop at one run
    [(4.0, "poisson", 0.2), (12.0, "poisson", 0.2), (4.0, "geometric", 0.05), (8.0, "logarithmic", 0.05)],
)
def test_a_training_record(mean_runs, law, power):
    search = upward(mean_runs, law)
    plan = search.plan(UP, BUDGET)
    found = measured(search, plan, UP, [pulled(+1), pulled(-1)], False, SEARCHES)
    assert power * BUDGET.epsilon < found <= BUDGET.epsilon


def unpaid(search):
    """Every run planned as if it were the only one."""
    plan = search.plan(UP, BUDGET)
    kept = replace(UP, records=KEPT)
    (setting,) = search.settings
    return replace(plan, plans=(setting.method.plan(kept, BUDGET),))


def test_choosing_without_paying_is_caught():
    """The largest of thirty models tells the neighbours apart far better than one model may."""
    search = upward(30.0, "poisson")
    found = measured(search, unpaid(search), UP, [pulled(+1), pulled(-1)], False, 10_000)
    assert found > 1.1 * BUDGET.epsilon


STEP = 10.0
HELD = Problem(4, 1, Huber())


class Elsewhere:
    """Descends like the method it wraps, and adds a constant: a model that does not depend on the records."""

    calibration = "tight"

    def __init__(self, method):
        self.method = method

    def plan(self, problem, budget):
        return self.method.plan(problem, budget)

    def run(self, plan, problem, oracle, randomness, start=None):
        released = self.method.run(plan, problem, oracle, randomness, start)
        return replace(released, weights=released.weights + STEP)


def preferring(which):
    """A record that fits one of the two models perfectly and the other not at all; the others do not care."""
    X, y = np.zeros((4, 1)), np.zeros(4)
    X[-1], y[-1] = 1.0, which
    return linear_oracle(X, y, HELD, Rows(1.0))


def settled():
    """Two settings whose models are near 0 and near STEP whatever their noise."""
    search = RepeatedSelection(
        (Setting(NoisyGradientDescent(1, 1e-6)), Setting(Elsewhere(NoisyGradientDescent(1, 1e-6)))),
        4.0,
        "poisson",
        held_out=0.5,
        score_clip=1.0,
    )
    return search, search.plan(HELD, BUDGET)


@pytest.mark.audit
def test_a_held_out_record():
    search, plan = settled()
    found = measured(search, plan, HELD, [preferring(0.0), preferring(STEP)], True, SEARCHES)
    assert 0.05 * BUDGET.epsilon < found <= BUDGET.epsilon


def test_scores_with_a_tenth_of_the_noise_are_caught():
    search, plan = settled()
    quiet = replace(plan, noise=replace(plan.noise, std=plan.noise.std / 10))
    found = measured(search, quiet, HELD, [preferring(0.0), preferring(STEP)], True, 10_000)
    assert found > 1.3 * BUDGET.epsilon
