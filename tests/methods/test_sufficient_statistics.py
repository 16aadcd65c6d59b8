from __future__ import annotations

import numpy as np
import pytest

from sordino import verify
from sordino.budget import Budget, Relation
from sordino.losses import Huber, Squared
from sordino.methods import SufficientStatistics
from sordino.methods.sufficient_statistics import ReleasedMoments, solved
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.problem import Problem
from sordino.train import train

METHOD = SufficientStatistics()
ROWS = Rows(2.0, 0.4)


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 3))
    return X, X @ [1.0, -0.5, 0.2] + 0.3 + 0.1 * rng.normal(size=3000)


def problem(n=3000, **facts):
    return Problem(n, 4, Squared(3.0, clip=0.75), **facts)


@pytest.mark.parametrize("relation", Relation)
def test_the_noise_is_that_of_one_release(relation):
    budget = Budget(0.7, 1e-6, relation)
    plan = METHOD.plan(problem(), budget)
    squared = 4.5 if relation is Relation.REPLACE_ONE else 2.0
    assert plan.noise.std == pytest.approx(np.sqrt(squared) / gdp_mu(0.7, 1e-6), rel=1e-6)
    assert plan.noise.dim == 4 * 5 // 2 + 4
    assert 0.999 * 0.7 <= epsilon(plan.event, 1e-6, relation) <= 0.7


def test_no_eigenvalue_counts_for_less_than_the_noise():
    noise = METHOD.plan(problem(), Budget(0.7, 1e-6)).noise
    h = np.array([1.0, -2.0, 0.5, 3.0])
    found = solved(ReleasedMoments(np.zeros((4, 4)), h, 0.0), noise.std, problem())
    np.testing.assert_allclose(found, h / (noise.std * np.sqrt(8)))


@pytest.mark.parametrize("strength", [0.0, 0.05])
def test_little_noise_finds_the_minimum(records, strength):
    X, y = records
    facts, budget = problem(penalty=Ridge(strength)), Budget(15.0, 1e-6)
    trained = train(facts, budget, METHOD, linear_oracle(X, y, facts, ROWS), rows=ROWS)
    R = np.column_stack([X * ROWS.factor, np.full(len(X), ROWS.intercept)])
    best = np.linalg.solve(R.T @ R + len(X) * strength * np.eye(4), R.T @ y)
    np.testing.assert_allclose(trained.weights, best, atol=0.1)
    assert all(finding.holds for finding in verify(trained.certificate))


def test_the_unit_of_a_row_does_not_matter(records):
    """The same rows under a problem that states them at norm two."""
    X, y = records
    found = []
    for norm in (1.0, 2.0):
        rows = Rows(2.0, 0.4 * norm, norm)
        facts = Problem(3000, 4, Squared(3.0, clip=0.75), row_norm=norm)
        weights = train(facts, Budget(15.0, 1e-6), METHOD, linear_oracle(X, y, facts, rows), rows=rows).weights
        found.append(rows.to_raw(weights, 1)[0])
    np.testing.assert_allclose(found[0], found[1], atol=0.1)


def test_what_is_refused():
    with pytest.raises(ValueError, match="those of least squares"):
        METHOD.plan(Problem(50, 3, Huber()), Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="delta is 0"):
        METHOD.plan(problem(), Budget(1.0))
