from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.losses import Huber, Logistic
from sordino.methods import Cosine, RandomRoundSGD, StepDecay
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, Poisson
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, Problem
from sordino.train import train

R1 = Relation.REPLACE_ONE
BUDGET = Budget(1.0, 1e-6)


def law(plan):
    """P(R = 1), .., P(R = T), as Theorem 5 has it."""
    etas = np.array([plan.step_size * plan.rate.at(t, plan.steps) for t in range(plan.steps)])
    weights = 2 * etas - plan.stop.smoothness * etas**2
    return weights / weights.sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"rate": StepDecay(2, 0.3)}, {"rate": Cosine(), "step_size": 6.0}, {"step_size": 7.9}]
)
def test_the_law_of_the_stopping_round(settings):
    method = RandomRoundSGD(**{"steps": 6, "batch_size": 10, "step_size": 1.0, **settings})
    plan = method.plan(Problem(50, 2, Logistic()), BUDGET)
    assert plan.stop.smoothness == 0.25
    draws = 20_000
    randomness = Randomness.seeded(0)
    counts = np.bincount([plan.stop.draw(plan, randomness) for _ in range(draws)], minlength=7)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:] / draws, law(plan), atol=4 * math.sqrt(0.25 / draws))
    # a network's beta is not known: rounds are drawn in proportion to their steps
    network = replace(method, clip=1.0).plan(NetworkProblem(50, 2), BUDGET)
    assert network.stop.smoothness == 0.0


def test_the_run_ends_after_the_round_that_was_drawn():
    """A Huber record with a far target pulls by one a step: the weight counts the rounds."""
    problem = Problem(10, 1, Huber())
    oracle = linear_oracle(np.ones((10, 1)), np.full(10, 1e9), problem, Rows(1.0))
    method = RandomRoundSGD(5, 10, 1.0)
    plan = method.plan(problem, BUDGET)
    plan = replace(plan, noise=replace(plan.noise, std=1e-6))
    ends = np.array([method.run(plan, problem, oracle, Randomness.seeded(s)).weights[0] for s in range(300)])
    np.testing.assert_allclose(ends, np.rint(ends), atol=1e-5)
    # 60 each, standard deviation 7
    assert np.bincount(np.rint(ends).astype(int), minlength=6)[1:] == pytest.approx(60, abs=28)


def test_the_original():
    """Theorem 5: one record per step, n^2 rounds, and its step size with the public bound log 2 on F(0)."""
    n, d, e, delta = 300, 10, 0.5, 1e-4
    problem = Problem(n, d, Logistic(), penalty=Ridge(0.05))
    plan = RandomRoundSGD(calibration="paper").plan(problem, Budget(e, delta))
    assert (plan.steps, plan.sampling, plan.clip) == (n**2, FixedSize(1), 1.0)
    sigma2 = 4 * math.log(3 * n / delta) * math.log(2 / delta) / e**2
    assert plan.noise.std == pytest.approx(math.sqrt(sigma2))
    beta = 0.3
    D_F = math.sqrt(2 * math.log(2) / beta)
    assert plan.step_size == pytest.approx(min(1 / beta, D_F / (n * math.sqrt(4 + d * sigma2))))
    assert RandomRoundSGD(steps=1000, calibration="paper").plan(problem, Budget(e, delta)).steps == 1000


def test_what_the_printed_noise_truly_gives():
    """n = 300, epsilon = 1, delta = 1e-3: .2022 on two grids of the composed profile, .2022 by the central limit."""
    plan = RandomRoundSGD(calibration="paper").plan(Problem(300, 10, Logistic()), Budget(1.0, 1e-3))
    assert epsilon(plan.event, 1e-3, R1) == pytest.approx(0.2022, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "e", "truly"), [(1e-3, 0.1, 0.0069), (1e-3, 1.0, 0.168), (1e-5, 1.0, 0.199)])
def test_what_the_printed_noise_truly_gives_at_the_size_of_adult(delta, e, truly):
    """A thousand million compositions, checked against the central limit."""
    plan = RandomRoundSGD(calibration="paper").plan(Problem(32561, 110, Logistic()), Budget(e, delta))
    assert epsilon(plan.event, delta, R1) == pytest.approx(truly, rel=0.01)


def test_the_numbers_of_batches():
    """T b = K, where the noise of T rounds is what the batches add; and b such that the step is 1/beta."""
    n, d = 32561, 123
    problem, budget = Problem(n, d, Logistic(), penalty=BoundedPenalty(1e-3)), Budget(0.2, 1e-5)
    K = (n * gdp_mu(0.2, 1e-5) / 2) ** 2 / d
    beta = 0.252
    plan = RandomRoundSGD().plan(problem, budget)
    b = math.sqrt(2 * K) / (beta * math.sqrt(2 * math.log(2) / beta))
    assert plan.sampling == Poisson(math.ceil(b) / n)
    assert plan.steps == math.ceil(K / math.ceil(b))
    assert 0.8 / beta < plan.step_size <= 1 / beta
    # the noise on a mean gradient and what the batch adds to it are of a size
    spread = d * (plan.noise.std / math.ceil(b)) ** 2
    assert spread == pytest.approx(1 / b, rel=0.35)
    # one of the two given, the other follows
    assert RandomRoundSGD(batch_size=50).plan(problem, budget).steps == math.ceil(K / 50)
    assert RandomRoundSGD(steps=10).plan(problem, budget).sampling == Poisson(math.ceil(K / 10) / n)
    # more rounds, shorter steps
    assert RandomRoundSGD(steps=1000, batch_size=50).plan(problem, budget).step_size < 0.5 / beta


def test_the_certificate_of_the_original():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.choice([-1.0, 1.0], 30)
    problem = Problem(30, 2, Logistic())
    trained = train(problem, BUDGET, RandomRoundSGD(calibration="paper"), linear_oracle(X, y, problem, Rows(1.0)))
    assert trained.certificate.epsilon < BUDGET.epsilon
    assert all(finding.holds for finding in verify(Certificate.from_json(trained.certificate.to_json())))


@pytest.mark.parametrize(
    ("problem", "settings", "words"),
    [
        (Problem(50, 2, Logistic()), {"step_size": 8.0}, "below 2/beta"),
        (Problem(50, 2, Logistic()), {"calibration": "paper", "batch_size": 5}, "one record per step"),
        (Problem(50, 2, Logistic()), {"calibration": "paper", "clip": 0.5}, "does not clip"),
        (Problem(50, 2, Logistic()), {"calibration": "given"}, "'tight' or 'paper'"),
        (Problem(50, 2, Huber()), {}, "no public bound at zero"),
    ],
)
def test_what_is_refused(problem, settings, words):
    with pytest.raises(ValueError, match=words):
        RandomRoundSGD(**settings).plan(problem, BUDGET)
