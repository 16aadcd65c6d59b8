from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.domains import Ball
from sordino.losses import Hinge, Huber, Logistic, Softmax, Squared
from sordino.methods import NoisyNewton
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import CurvatureSum
from sordino.penalties import Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, Problem
from sordino.train import train

N, D, ROWS = 60, 3, Rows(2.0, intercept=0.4)
PROBLEM = Problem(N, D + 1, Logistic(), penalty=Ridge(0.02))
BUDGET = Budget(1.0, 1e-6)


def records(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    return X, np.where(X[:, 0] + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)


def quiet(plan):
    noises = {name: replace(getattr(plan, name), std=1e-6) for name in ("noise", "curvature_noise")}
    return replace(plan, **noises)


def bounded(X):
    scale = math.sqrt(1 - 0.4**2) / 2.0 * np.minimum(1, 2.0 / np.linalg.norm(X, axis=1))
    return np.column_stack([X * scale[:, None], np.full(len(X), 0.4)])


@pytest.mark.parametrize("T", [1, 2, 5])
@pytest.mark.parametrize("C", [0.2, 1.0])
def test_the_listing(T, C):
    X, y = records()
    R, w = bounded(X), np.zeros(D + 1)
    for _ in range(T):
        p = 1 / (1 + np.exp(y * (R @ w)))
        each = -(p * y)[:, None] * R
        each *= np.minimum(1, C / np.linalg.norm(each, axis=1))[:, None]
        H = (R * (p * (1 - p))[:, None]).T @ R + N * 0.02 * np.eye(D + 1)
        w = w - np.linalg.solve(H, each.sum(axis=0) + N * 0.02 * w)
    method = NoisyNewton(T, C)
    plan = quiet(method.plan(PROBLEM, BUDGET))
    got = method.run(plan, PROBLEM, linear_oracle(X, y, PROBLEM, ROWS), Randomness.seeded(0)).weights
    np.testing.assert_allclose(got, w, atol=1e-6)


def test_records_that_count_for_less_do_so_in_both_sums():
    X, y = records()
    weights = np.linspace(0, 1, N)
    problem, method = replace(PROBLEM, penalty=Ridge(0.0)), NoisyNewton(12)
    plan = quiet(method.plan(problem, BUDGET))
    oracle = linear_oracle(X, y, problem, ROWS, weights=weights)
    got = method.run(plan, problem, oracle, Randomness.seeded(0)).weights
    best = minimize(lambda w: weights @ np.logaddexp(0, -y * (bounded(X) @ w)), np.zeros(D + 1), tol=1e-12).x
    np.testing.assert_allclose(got, best, atol=1e-4)


class Asked:
    """Remembers what was asked, with which noise, and what was told."""

    def __init__(self, oracle):
        self.oracle, self.rows, self.draw, self.under_rows = oracle, oracle.rows, oracle.draw, oracle.under_rows
        self.sums = []

    def release(self, query, noise, randomness):
        answer = self.oracle.release(query, noise, randomness)
        self.sums.append((query, noise, np.copy(answer)))
        return answer


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", (0.6, math.sqrt(2))), ("add_remove", (0.3, 1.0))])
def test_what_is_asked_is_what_is_counted(relation, moved):
    relation = Relation(relation)
    budget, method = replace(BUDGET, relation=relation), NoisyNewton(4, clip=0.3)
    plan = method.plan(PROBLEM, budget)
    asked = Asked(linear_oracle(*records(), PROBLEM, ROWS, relation))
    assert method.run(plan, PROBLEM, asked, Randomness.seeded(0)).event == plan.event
    assert [type(query) for query, _, _ in asked.sums] == [Gradient, CurvatureSum] * 4
    assert [noise for _, noise, _ in asked.sums] == [plan.noise, plan.curvature_noise] * 4
    assert all(query.sensitivity(relation) == noise.sensitivity for query, noise, _ in asked.sums)
    assert (plan.noise.sensitivity, plan.curvature_noise.sensitivity) == pytest.approx(moved)
    # in Gaussian differential privacy, where squares add up
    z_g, z_h = plan.noise.multiplier, plan.curvature_noise.multiplier
    assert 4 / z_g**2 + 4 / z_h**2 == pytest.approx(gdp_mu(1.0, 1e-6) ** 2, rel=1e-4)
    assert (4 / z_g**2) / (4 / z_g**2 + 4 / z_h**2) == pytest.approx(0.7, rel=1e-6)
    assert 0.999 <= epsilon(plan.event, budget.delta, relation) <= 1


@pytest.mark.parametrize("relation", Relation)
def test_two_records_are_no_further_apart_than_both_sums_say(relation):
    """Neighbours that differ in the last record: what the sums are before there is noise."""
    rng, method = np.random.default_rng(1), NoisyNewton(1, clip=0.3)
    plan = quiet(method.plan(PROBLEM, replace(BUDGET, relation=relation)))
    furthest = {Gradient: 0.0, CurvatureSum: 0.0}
    for trial in range(60):
        X, y = rng.normal(size=(8, D)) * 10, rng.choice([-1.0, 1.0], 8)
        start, told = 0.1 * rng.normal(size=D + 1), []
        if trial % 2:
            # the other class pulls the other way, and is as curved
            X[-1], y[-1] = X[-2], -y[-2]
        for kept in ([*range(7)], [*range(6), 7] if relation is Relation.REPLACE_ONE else [*range(6)]):
            problem = replace(PROBLEM, records=len(kept) if relation is Relation.REPLACE_ONE else 7)
            asked = Asked(linear_oracle(X[kept], y[kept], problem, ROWS, relation))
            method.run(plan, problem, asked, Randomness.seeded(0), start)
            told.append(asked.sums)
        for (query, noise, one), (_, _, other) in zip(*told, strict=True):
            apart = np.linalg.norm(one - other) / noise.sensitivity
            assert apart <= 1 + 1e-6
            furthest[type(query)] = max(furthest[type(query)], apart)
    assert furthest[Gradient] > 0.9
    assert furthest[CurvatureSum] > 0.5


def test_the_noise_is_what_was_planned():
    """Rows of zeros: what is told is noise alone."""
    d = 120
    problem = Problem(N, d, Logistic(), penalty=Ridge(1.0))
    method = NoisyNewton(3)
    plan = method.plan(problem, BUDGET)
    asked = Asked(linear_oracle(np.zeros((N, d)), np.ones(N), problem, Rows(1.0)))
    method.run(plan, problem, asked, Randomness.seeded(0), np.zeros((12, d)))
    told = {
        kind: [answer for query, _, answer in asked.sums if isinstance(query, kind)]
        for kind in (Gradient, CurvatureSum)
    }
    assert len(told[CurvatureSum]) == 3 * 12
    for kind, noise in ((Gradient, plan.noise), (CurvatureSum, plan.curvature_noise)):
        drawn = np.concatenate([np.ravel(answer) for answer in told[kind]])
        assert drawn.std() == pytest.approx(noise.std, rel=4 / math.sqrt(len(drawn)))
    # every run has noise of its own
    assert len({answer[0] for answer in told[CurvatureSum]}) == 3 * 12


def test_what_may_be_noise_alone_counts_as_much_as_it_may():
    """Without a curvature a step is the gradient over twice the spectral norm of the noise."""
    d = 150
    problem = Problem(N, d, Logistic())
    method = NoisyNewton(1)
    plan = method.plan(problem, BUDGET)
    asked = Asked(linear_oracle(np.zeros((N, d)), np.ones(N), problem, Rows(1.0)))
    w = method.run(plan, problem, asked, Randomness.seeded(0)).weights
    ((_, _, g), (_, noise, _)) = asked.sums
    # in units of the curvature's bound of 1/4
    np.testing.assert_allclose(w, -g[0] / (2 * 0.25 * noise.std * math.sqrt(2 * d)), rtol=1e-9)


def test_it_learns():
    n = 20_000
    X, y = records(n)
    problem = Problem(n, D + 1, Logistic(), penalty=Ridge(1e-3))
    oracle = linear_oracle(X, y, problem, ROWS)

    def objective(w):
        return float(oracle.value(w) + problem.penalty.value(w))

    best = minimize(objective, np.zeros(D + 1)).fun
    method = NoisyNewton()
    trained = train(problem, BUDGET, method, oracle)
    assert objective(trained.weights) - best < 0.02 * (objective(np.zeros(D + 1)) - best)
    certificate = Certificate.from_json(trained.certificate.to_json())
    assert certificate.method == method
    assert all(finding.holds for finding in verify(certificate))


def test_hostile_records_add_nothing_wild():
    X, y = records()
    X[0], X[1], X[2] = np.nan, 1e300, np.inf
    y[3] = np.nan
    problem = replace(PROBLEM, domain=Ball(5.0))
    w = train(problem, BUDGET, NoisyNewton(), linear_oracle(X, y, problem, ROWS), Randomness.seeded(0)).weights
    assert np.linalg.norm(w) <= 5 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("problem", "settings", "words"),
    [
        (PROBLEM, {"share": 0.0}, "share is 0.0"),
        (PROBLEM, {"share": 1.0}, "share is 1.0"),
        (PROBLEM, {"steps": 0}, "steps is 0"),
        (PROBLEM, {"steps": 1.5}, "whole number"),
        (PROBLEM, {"clip": -1.0}, "clip is -1.0"),
        (Problem(N, D, Softmax(3)), {}, "two classes"),
        (Problem(N, D, Squared(1.0, clip=0.25)), {}, "SufficientStatistics"),
        (Problem(N, D, Hinge()), {}, "smooth"),
        (Problem(N, D, Huber(target_bound=1.0)), {}, "two classes"),
        (Problem(N, 501, Logistic()), {}, "at most 500"),
        (NetworkProblem(N, D), {}, "smooth"),
    ],
)
def test_what_is_refused(problem, settings, words):
    with pytest.raises(ValueError, match=words):
        NoisyNewton(**settings).plan(problem, BUDGET)


def test_no_pure_guarantee():
    with pytest.raises(ValueError, match="delta is 0"):
        NoisyNewton().plan(PROBLEM, Budget(1.0))
