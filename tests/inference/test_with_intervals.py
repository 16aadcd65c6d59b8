"""Methods with intervals: what they ask is planned and paid for, and what cannot be true is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.domains import Ball
from sordino.inference import WithIntervals
from sordino.inference.with_intervals import WIDEST
from sordino.intervals import coefficient_intervals, score_intervals
from sordino.linear_task import LinearTask
from sordino.losses import Hinge, Huber, Logistic, Softmax, Squared
from sordino.methods import (
    DPSGD,
    NoisyGradientDescent,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    RepeatedSelection,
    Setting,
    SufficientStatistics,
)
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.prepare import Centre, Prepared
from sordino.privacy.accountants import epsilon
from sordino.privacy.events import Composed, ObjectivePerturbed, flatten
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit, Problem

ROWS = Rows(1.0, 0.28)
SQUARED = Squared(1.0, 0.25)
N, D = 4000, 3
TRUTH = np.array([1.2, -0.8, 0.5, -0.3])
"""The last is the intercept."""

KINDS = {
    "objective perturbation": (ObjectivePerturbation(), Logistic()),
    "descent": (NoisyGradientDescent(20, release="average"), Logistic()),
    "batches": (NoisySGD(10, 100, 0.5), Logistic()),
    "output perturbation": (OutputPerturbation(20, 0.5), Huber(0.25, 1.0)),
    "sufficient statistics": (SufficientStatistics(), SQUARED),
}


def records(loss, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D)) / math.sqrt(D)
    scores = X @ TRUTH[:-1] + TRUTH[-1]
    if isinstance(loss, Logistic):
        return X, np.where(rng.logistic(size=n) < scores, 1.0, -1.0)
    return X, scores / 4 + 0.05 * rng.normal(size=n)


def task(loss, l2=0.0):
    return LinearTask(loss, ROWS, penalty=Ridge(l2))


class Listening:
    """Notes every question and its noise."""

    def __init__(self, oracle):
        self.oracle, self.asked = oracle, []

    def __getattr__(self, name):
        return getattr(self.oracle, name)

    def release(self, query, noise, randomness):
        assert query.sensitivity(self.oracle.model.relation) <= noise.sensitivity * (1 + 1e-12)
        self.asked.append(noise)
        return self.oracle.release(query, noise, randomness)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "output perturbation"])
@pytest.mark.parametrize("relation", Relation)
def test_what_is_asked_is_what_the_event_counts(name, relation):
    """Every noisy sum is planned with its noise, beyond those that the method itself perturbs."""
    inner, loss = KINDS[name]
    if (name, relation) == ("sufficient statistics", Relation.ADD_REMOVE):
        pytest.skip("refused: see below")
    budget, problem = Budget(3.0, 1e-5, relation), task(loss).problem(N, D)
    method = WithIntervals(inner)
    plan = method.plan(problem, budget)
    oracle = Listening(task(loss).oracle(*records(loss), problem, relation))
    released = method.run(plan, problem, oracle, Randomness.seeded(0))
    assert released.covariance is not None
    assert released.event == plan.event
    counted = {}
    for noise in oracle.asked:
        for leaf in flatten(noise.event)[0]:
            counted[leaf] = counted.get(leaf, 0) + 1
    stated = {kind: times for kind, times in flatten(plan.event)[0].items() if not isinstance(kind, ObjectivePerturbed)}
    if name == "batches":
        # a sampled sum is an event of its own
        further = flatten(Composed(tuple((noise.event, 1) for step in plan.newton for noise in step.sums)))[0]
        assert further.items() <= stated.items()
        assert sum(counted.values()) == 10 + sum(further.values())
        return
    assert counted == stated


@pytest.mark.parametrize("name", [name for name in KINDS if name != "batches"])
@pytest.mark.parametrize("asked", [0.5, 4.0])
def test_the_whole_costs_the_budget(name, asked):
    inner, loss = KINDS[name]
    budget = Budget(asked, 1e-6)
    plan = WithIntervals(inner).plan(task(loss).problem(100_000, D), budget)
    assert 0.99 * asked <= epsilon(plan.event, budget.delta, budget.relation) <= asked
    further = [noise for step in plan.newton for noise in step.sums]
    assert len(further) == {"objective perturbation": 3, "sufficient statistics": 0}.get(name, 5)
    # the further sums are in the event beside the method's own
    whole = Composed(((plan.inner.event, 1), *((noise.event, 1) for noise in further)))
    assert epsilon(whole, budget.delta, budget.relation) == pytest.approx(
        epsilon(plan.event, budget.delta, budget.relation), rel=1e-9
    )


def held(name, runs, n, eps, seed=0, ignore_noise=False):
    """How often 95 % intervals of coefficients, and of predictions, hold the truth; and how many runs had some."""
    inner, loss = KINDS[name]
    job, method = task(loss), WithIntervals(inner)
    problem, budget = job.problem(n, D), Budget(eps, 1e-5)
    plan, about = method.plan(problem, budget), TRUTH if isinstance(loss, Logistic) else TRUTH / 4
    at, found, predicted = records(loss, 20, 7)[0], [], []
    for run in range(runs):
        oracle = job.oracle(*records(loss, n, [seed, run]), problem, budget.relation)
        released = method.run(plan, problem, oracle, Randomness.seeded(run))
        if released.covariance is None:
            continue
        coef, intercept = job.to_raw(released.weights)
        S = job.covariance_to_raw(released.covariance)
        if ignore_noise:
            X = np.column_stack([records(loss, n, [seed, run])[0], np.ones(n)])
            S = 0.05**2 * np.linalg.inv(X.T @ X)
        ends = np.vstack(coefficient_intervals(coef[0], float(intercept[0]), S, 0.95))
        found.append(np.mean((ends[:, 0] <= about) & (about <= ends[:, 1])))
        scores = at @ about[:-1] + about[-1]
        low, high = score_intervals(at, at @ coef[0] + intercept[0], S, 0.95).T
        predicted.append(np.mean((low <= scores) & (scores <= high)))
    return np.mean(found), np.mean(predicted), len(found)


def test_intervals_of_least_squares_hold_as_often_as_they_say():
    coverage, predicted, given = held("sufficient statistics", 400, 3000, 1.0)
    assert given == 400
    assert 0.93 <= coverage <= 0.97
    assert 0.93 <= predicted <= 0.97
    # and what ignores the noise does not
    assert held("sufficient statistics", 60, 3000, 1.0, ignore_noise=True)[0] < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objective perturbation", "descent", "output perturbation"])
def test_intervals_hold_as_often_as_they_say(name):
    coverage, predicted, given = held(name, 400, 10_000, 1.0)
    assert given >= 395
    assert 0.93 <= coverage <= 0.97
    assert 0.93 <= predicted <= 0.97


@pytest.mark.parametrize("name", KINDS)
def test_more_budget_gives_narrower_intervals_of_the_same_thing(name):
    inner, loss = KINDS[name]
    job = task(loss)
    problem, method, widths = job.problem(N, D), WithIntervals(inner), []
    for eps in (4.0, 40.0):
        plan = method.plan(problem, Budget(eps, 1e-5))
        oracle = job.oracle(*records(loss), problem, Relation.REPLACE_ONE)
        released = method.run(plan, problem, oracle, Randomness.seeded(3))
        widths.append(np.sqrt(np.diag(released.covariance)))
    assert (widths[1] < widths[0]).all()


@pytest.mark.parametrize("name", ["objective perturbation", "descent", "sufficient statistics"])
def test_columns_that_cannot_be_told_apart_leave_a_model_and_no_intervals(name):
    """The second is a copy of the first: their coefficients are anybody's guess."""
    inner, loss = KINDS[name]
    X, y = records(loss)
    X[:, 1] = X[:, 0]
    problem = task(loss).problem(N, D)
    method, budget = WithIntervals(inner), Budget(1.0, 1e-5)
    plan = method.plan(problem, budget)
    released = method.run(plan, problem, task(loss).oracle(X, y, problem, budget.relation), Randomness.seeded(0))
    assert released.covariance is None
    assert np.isfinite(released.weights).all()
    # with a penalty the question has an answer
    job = task(loss, l2=0.05)
    problem = job.problem(N, D)
    plan = method.plan(problem, budget)
    released = method.run(plan, problem, job.oracle(X, y, problem, budget.relation), Randomness.seeded(0))
    assert released.covariance is not None


def problem(loss=None, **given):
    return Problem(**{"records": 10**6, "features": 4, "loss": loss or Logistic(), **given})


REFUSED = {
    "more classes": (ObjectivePerturbation(), problem(Softmax(3)), "the loss is Softmax"),
    "a kink": (NoisyGradientDescent(), problem(Hinge()), "needs a smooth objective"),
    "persons": (ObjectivePerturbation(), problem(person=PersonUnit(1)), "whole persons"),
    "a ball": (NoisyGradientDescent(), problem(domain=Ball(2.0)), "on no ball"),
    "another penalty": (NoisyGradientDescent(), problem(penalty=BoundedPenalty(0.1)), "convex objective"),
    "least squares in steps": (NoisyGradientDescent(), problem(SQUARED), "by SufficientStatistics"),
    "moments of labels": (SufficientStatistics(), problem(), "by SufficientStatistics"),
    "too wide": (ObjectivePerturbation(), problem(features=WIDEST + 1), f"at most {WIDEST}"),
    "too few": (ObjectivePerturbation(), problem(records=100), "100 records are too few"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_covered_is_refused_in_a_sentence(name):
    method, facts, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        WithIntervals(method).plan(facts, Budget(1.0, 1e-6))


def test_without_delta_and_without_a_count_there_are_none():
    with pytest.raises(ValueError, match="delta is 0"):
        WithIntervals(ObjectivePerturbation()).plan(problem(), Budget(1.0))
    with pytest.raises(ValueError, match="the number of records is private"):
        WithIntervals(SufficientStatistics()).plan(problem(SQUARED), Budget(1.0, 1e-6, Relation.ADD_REMOVE))


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (Prepared(NoisyGradientDescent(), (Centre(),)), "scales long rows down"),
        (WithIntervals(ObjectivePerturbation()), "one method that trains"),
        ("auto", "one method that trains"),
        (RepeatedSelection((Setting(NoisyGradientDescent()),)), "best of several runs"),
        (DPSGD(noise_multiplier=2.0), "cannot share it"),
        (replace(ObjectivePerturbation(), calibration="paper"), "cannot share it"),
    ],
)
def test_a_method_without_a_law_is_refused(method, sentence):
    with pytest.raises(ValueError, match=sentence):
        WithIntervals(method)


def test_a_penalty_makes_few_records_enough():
    facts = Problem(2000, 4, Logistic(), penalty=Ridge(1.0))
    assert WithIntervals(ObjectivePerturbation()).plan(facts, Budget(1.0, 1e-6)).inner.added == 0
