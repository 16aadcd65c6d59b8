"""Stability lemmas of Bassily, Feldman, Talwar & Thakurta 2019, held against runs on neighbouring records."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.budget import Budget
from sordino.domains import Ball
from sordino.losses import Logistic
from sordino.methods import NoisySGD, ObjectivePerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

N, D, L, BETA = 60, 4, 1.0, 0.25


def neighbours():
    """One record turns into the opposite of itself: no other moves a sum of gradients as far."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    other = y.copy()
    other[0] = -y[0]
    return (X, y), (X, other)


def distances(method, problem, budget, runs):
    """Between what two neighbours release with the same batches and the same noise."""
    plan, ends = method.plan(problem, budget), []
    for records in neighbours():
        oracle = linear_oracle(*records, problem, Rows(1.0))
        ends.append([method.run(plan, problem, oracle, Randomness.seeded(seed)).weights for seed in range(runs)])
    return plan, np.linalg.norm(np.array(ends[0]) - np.array(ends[1]), axis=1)


@pytest.mark.parametrize("sampling", ["poisson", "fixed_size"])
def test_lemma_3_4_the_average_of_noisy_sgd_is_stable(sampling):
    r"""L E|w - w'| <= L^2 T eta/n: batches of m find the record with probability m/n and move by 2 L eta/m."""
    problem = Problem(N, D, Logistic(), domain=Ball(50.0))
    T, m, eta = 40, 12, 2 / BETA
    method = NoisySGD(T, m, eta, sampling=sampling)
    plan, found = distances(method, problem, Budget(8.0, 1e-3), runs=60)
    assert (plan.steps, plan.step_size) == (T, eta)
    stability = L * found.mean()
    # the average of w_1, .., w_T adds one step in T to the lemma's count
    assert stability <= L**2 * (T + 1) * eta / N
    # and it is no idle bound: noise drives the weights apart where curvature would pull them together
    assert stability >= 0.01 * L**2 * T * eta / N


@pytest.mark.parametrize("weight", [0.02, 0.2, 2.0])
def test_lemma_5_5_a_penalised_minimum_is_stable(weight):
    """2 rho^2/(lambda n) for the penalty lambda |w|^2; half of that holds, for it is 2 lambda-strongly convex."""
    ends = []
    for X, y in neighbours():
        w = np.zeros(D)
        for _ in range(30):
            p = 1 / (1 + np.exp(y * (X @ w)))
            gradient = -(X.T @ (y * p)) / N + 2 * weight * w
            w = w - np.linalg.solve((X.T * (p * (1 - p))) @ X / N + 2 * weight * np.eye(D), gradient)
        ends.append(w)
    stability = L * np.linalg.norm(ends[0] - ends[1])
    assert 0.05 * L**2 / (weight * N) < stability <= L**2 / (weight * N) < 2 * L**2 / (weight * N)


def test_lemma_5_5_holds_for_what_objective_perturbation_releases():
    """The same noise tilts both objectives, and the rest is the lemma: Lambda/(2n) is its lambda."""
    problem = Problem(N, D, Logistic(), penalty=Ridge(0.1))
    plan, found = distances(ObjectivePerturbation(), problem, Budget(1.0, 1e-3), runs=20)
    weight = plan.convexity / (2 * N)
    rho = L  # the tilt is the same on both sides
    # the tolerance of the solver moves either end by tau/Lambda
    allowed = 2 * plan.tolerance / plan.convexity
    assert L * found.max() <= rho**2 / (weight * N) + allowed
    assert found.max() > 0.02 * rho**2 / (weight * N)
