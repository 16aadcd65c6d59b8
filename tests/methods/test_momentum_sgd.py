from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget
from sordino.losses import Huber, Logistic
from sordino.methods import DPSGD, HalvedMidway, NoisySGD
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

BUDGET = Budget(1.0, 1e-6)
# a Huber record with a far target has the constant gradient -1: what a step does can be read off the weights
FAR = 1e9


def pulled(runs=3, penalty=0.0, domain=None, **settings):
    """Weights of one parameter after runs on records that all pull up by the same amount, without noise."""
    problem = Problem(10, 1, Huber(), penalty=Ridge(penalty), **({"domain": domain} if domain else {}))
    oracle = linear_oracle(np.ones((10, 1)), np.full(10, FAR), problem, Rows(1.0))
    method = DPSGD(clip=1.0, **{"batch_size": 10, **settings})
    plan = method.plan(problem, BUDGET)
    plan = replace(plan, noise=replace(plan.noise, std=1e-6))
    randomness = Randomness.seeded(0)
    return np.array([method.run(plan, problem, oracle, randomness).weights[0] for _ in range(runs)])


def test_momentum_is_a_geometric_sum():
    # m_t = 1, 1 + rho, 1 + rho + rho^2:  w_3 = 3 + 2 rho + rho^2
    np.testing.assert_allclose(pulled(steps=3, step_size=1.0, momentum=0.5), 3 + 1 + 0.25, atol=1e-4)
    np.testing.assert_allclose(pulled(steps=3, step_size=2.0), 6.0, atol=1e-4)


def test_a_moving_average_is_of_all_iterates_and_mostly_of_the_last():
    # w_t = t and m_t = t/(9 + t):  v_1 = .9,  v_2 = (2 * .9 + 9 * 2)/11,  v_3 = (3 v_2 + 9 * 3)/12
    np.testing.assert_allclose(pulled(steps=3, step_size=1.0, release="moving average"), 2.7, atol=1e-4)
    problem = Problem(50, 2, Logistic())
    kinds = {kept: DPSGD(3, 10, 1.0, 1.0, release=kept).plan(problem, BUDGET) for kept in ("last", "moving average")}
    assert kinds["last"].event == kinds["moving average"].event


def test_without_momentum_it_is_noisy_sgd():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.choice([-1.0, 1.0], 80)
    problem = Problem(80, 3, Logistic(), penalty=Ridge(0.1))
    oracle = linear_oracle(X, y, problem, Rows(2.0))
    one = DPSGD(15, 20, 0.5, 0.6, rate=HalvedMidway())
    other = NoisySGD(15, 20, 0.5, rate=HalvedMidway(), clip=0.6, release="last")
    weights = [m.run(m.plan(problem, BUDGET), problem, oracle, Randomness.seeded(5)).weights for m in (one, other)]
    np.testing.assert_allclose(*weights, rtol=1e-12)


def test_the_balanced_numbers():
    """As NoisySGD plans its last iterate; momentum shortens the single step, not the descent."""
    problem = Problem(30_000, 100, Logistic())
    budget = Budget(0.5, 1e-6)
    balanced = NoisySGD(release="last").plan(problem, budget)
    plan = DPSGD().plan(problem, budget)
    assert (plan.steps, plan.step_size, plan.clip) == (balanced.steps, balanced.step_size, balanced.clip)
    assert plan.sampling == balanced.sampling
    heavy = DPSGD(momentum=0.9).plan(problem, budget)
    assert heavy.step_size == pytest.approx(plan.step_size / 10)
    assert heavy.noise == plan.noise
    assert DPSGD(steps=7).plan(problem, budget).steps == 7


def test_batches():
    problem = Problem(50, 2, Logistic())
    for settings, sampling in (
        ({"batch_size": 10}, Poisson(0.2)),
        ({"batch_size": 10, "sampling": "fixed_size"}, FixedSize(10)),
        ({"batch_size": 50}, FullBatch()),
        ({"batch_size": 50, "sampling": "fixed_size"}, FullBatch()),
    ):
        assert DPSGD(3, step_size=1.0, clip=1.0, **settings).plan(problem, BUDGET).sampling == sampling


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"momentum": 1.0}, "momentum is 1.0"),
        ({"momentum": -0.1}, "momentum is -0.1"),
        ({"release": "best"}, "'last', 'average'"),
        ({"noise_multiplier": 0.0}, "noise_multiplier is 0.0"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        DPSGD(3, 10, 1.0, 1.0, **settings).plan(Problem(50, 2, Logistic()), BUDGET)
