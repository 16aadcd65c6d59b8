from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from sordino import verify
from sordino.budget import Budget, Relation
from sordino.losses import Huber, Logistic, Softmax, Squared
from sordino.methods import ConstantModel
from sordino.methods.constant_model import mean_of_laplace, mean_of_normal
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.problem import Problem
from sordino.train import train

METHOD, ROWS = ConstantModel(), Rows(2.0, 0.4)


@pytest.mark.parametrize("relation", Relation)
def test_the_noise_is_that_of_one_number(relation):
    """That of Laplace, which is less than half of a Gaussian's."""
    for delta in (1e-6, 0.0):
        plan = METHOD.plan(Problem(300, 4, Logistic()), Budget(0.7, delta, relation))
        assert plan.noise.scale == pytest.approx(relation.distance / 0.7, rel=1e-6)
        assert 0.999 * 0.7 <= epsilon(plan.event, delta, relation) <= 0.7
    assert plan.noise.std == pytest.approx(math.sqrt(2) * relation.distance / 0.7, rel=1e-6)
    assert plan.noise.std < relation.distance / gdp_mu(0.7, 1e-6) / 2


@pytest.mark.parametrize("loss", [Logistic(), Squared(3.0, clip=0.75), Huber(0.75, 3.0)])
def test_little_noise_finds_the_best_constant(loss):
    """A target that the loss does not admit counts for nothing, and one beyond its bound for that."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 3))
    y = np.where(rng.random(3000) < 0.2, 1.0, -1.0) if isinstance(loss, Logistic) else rng.normal(1.2, 0.3, 3000)
    y[0] = np.nan
    facts = Problem(3000, 4, loss)
    trained = train(facts, Budget(15.0, 1e-6), METHOD, linear_oracle(X, y, facts, ROWS), rows=ROWS)
    mean = np.nansum(y) / 3000
    best = math.log((1 + mean) / (1 - mean)) if isinstance(loss, Logistic) else mean
    np.testing.assert_allclose(trained.weights, [0, 0, 0, best / ROWS.intercept], atol=0.02)
    assert all(finding.holds for finding in verify(trained.certificate))


@pytest.mark.parametrize("m", [-1.4, -0.9, 0.0, 0.3, 1.1])
@pytest.mark.parametrize("s", [0.2, 1.0, 20.0])
def test_the_expected_mean_is_that_of_the_noise_cut_off(m, s):
    def cut_off(law):
        inside = min(max(m, -1.0), 1.0)
        whole, first = (integrate.quad(f, -1, 1, points=[inside])[0] for f in (law, lambda x: x * law(x)))
        return pytest.approx(first / whole, abs=1e-9)

    assert mean_of_laplace(m, s) == cut_off(lambda x: math.exp(-abs(x - m) / s))
    if abs(m) <= 1 + 2 * s:
        assert mean_of_normal(m, s) == cut_off(lambda x: math.exp(-((x - m) ** 2) / (2 * s * s)))


def test_a_mean_that_is_far_outside_is_a_score_all_the_same():
    """A stand-in for n that is far too small."""
    assert 0.99 < mean_of_normal(40.0, 1e-3) < 1
    assert 0.99 < mean_of_laplace(40.0, 1e-3) < 1
    y = np.ones(500)
    facts, budget = Problem(20, 3, Logistic()), Budget(1.0, 1e-6, Relation.ADD_REMOVE)
    oracle = linear_oracle(np.ones((500, 2)), y, facts, ROWS, Relation.ADD_REMOVE)
    weights = train(facts, budget, METHOD, oracle, rows=ROWS).weights
    assert 0 < weights[-1] * ROWS.intercept <= math.log(39)


def test_what_is_refused():
    with pytest.raises(ValueError, match="the loss is Softmax"):
        METHOD.plan(Problem(50, 3, Softmax(3)), Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="give the loss a target_bound"):
        METHOD.plan(Problem(50, 3, Huber()), Budget(1.0, 1e-6))
    facts, plain = Problem(50, 3, Logistic()), Rows(2.0)
    oracle = linear_oracle(np.ones((50, 3)), np.ones(50), facts, plain)
    with pytest.raises(ValueError, match="one of the intercept"):
        train(facts, Budget(1.0, 1e-6), METHOD, oracle, rows=plain)
