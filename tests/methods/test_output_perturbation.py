from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.domains import Ball
from sordino.losses import Hinge, Huber, Logistic, Squared
from sordino.methods import OutputPerturbation
from sordino.methods.output_perturbation import predicted_output_excess, sensitivity
from sordino.methods.schedule import expected_radius
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.privacy.events import Gaussian
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

R1 = Relation.REPLACE_ONE


def linear(n, mu, beta=0.0):
    """A problem with L = 1; the Huber loss contributes 1 to beta."""
    return Problem(records=n, features=1, loss=Huber(), penalty=Ridge(mu))


# the closed forms (2L/(n mu))(1 - (1 - eta mu)^T) and 2 L eta T / n, at 50 digits with mpmath
@pytest.mark.parametrize(
    ("n", "eta", "mu", "T", "Delta"),
    [
        (50, 0.5, 0.1, 20, 0.2566056310365831),
        (50, 0.5, 0.1, 500, 0.4),
        (50, 0.5, 0.0, 100, 2.0),
    ],
)
def test_sensitivity_vectors(n, eta, mu, T, Delta):
    assert sensitivity(linear(n, mu), T, eta) == pytest.approx(Delta, rel=1e-9)


def test_sensitivity_on_the_adult_setting():
    # n = 32561, mu = 0.1, logistic (beta = 0.35), eta = 1/(mu + beta), T = 100
    problem = Problem(records=32561, features=110, loss=Logistic(), penalty=Ridge(0.1))
    assert sensitivity(problem, 100, 1 / 0.45) == pytest.approx(6.142317496316591e-4, rel=1e-9)
    convex = Problem(records=32561, features=110, loss=Logistic())
    assert sensitivity(convex, 30, 4.0) == pytest.approx(7.370780995669666e-3, rel=1e-9)


@pytest.mark.parametrize(("mu", "T", "eta"), [(0.1, 20, 0.5), (0.0, 100, 0.5), (0.1, 500, 0.5), (0.5, 7, 0.9)])
def test_brute_force_on_the_worst_pair_equals_the_bound(mu, T, eta):
    n = 50
    problem = linear(n, mu)
    ends = []
    for pull in (1e9, -1e9):
        X, y = np.zeros((n, 1)), np.zeros(n)
        X[-1], y[-1] = 1.0, pull
        w = np.zeros(1)
        oracle = linear_oracle(X, y, problem, Rows(1.0), R1)
        for _ in range(T):
            w = w - eta * (oracle.gradient(w) + problem.penalty.gradient(w))
        ends.append(w[0])
    assert abs(ends[0] - ends[1]) == pytest.approx(sensitivity(problem, T, eta), rel=1e-9)


def test_no_pair_of_random_neighbours_exceeds_the_bound():
    rng = np.random.default_rng(3)
    for _ in range(30):
        n, d, T = rng.integers(2, 6), rng.integers(1, 4), rng.integers(1, 30)
        mu = rng.choice([0.0, 0.05, 0.5])
        problem = Problem(records=int(n), features=int(d), loss=Logistic(), penalty=Ridge(mu))
        beta = problem.constants.beta
        eta = rng.uniform(0.1, 2) / beta
        X, y = rng.normal(size=(n, d)) * 3, rng.choice([-1.0, 1.0], n)
        X2, y2 = X.copy(), y.copy()
        X2[0], y2[0] = rng.normal(size=d) * 3, rng.choice([-1.0, 1.0])
        ends = []
        for data in ((X, y), (X2, y2)):
            w = np.zeros(d)
            oracle = linear_oracle(*data, problem, Rows(1.0), R1)
            for _ in range(T):
                w = w - eta * (oracle.gradient(w) + problem.penalty.gradient(w))
            ends.append(w)
        assert np.linalg.norm(ends[0] - ends[1]) <= sensitivity(problem, int(T), eta) * (1 + 1e-9)


def test_sensitivity_never_exceeds_the_ball():
    problem = Problem(records=2, features=1, loss=Huber(), domain=Ball(0.3))
    assert sensitivity(problem, 1000, 1.0) == 0.6


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_tight_noise_earns_the_budget_and_no_more(mu, delta):
    problem = Problem(records=1000, features=5, loss=Logistic(), penalty=Ridge(mu))
    plan = OutputPerturbation(steps=30).plan(problem, Budget(1.0, delta))
    spent = epsilon(plan.event, delta, R1)
    assert 0.999 <= spent <= 1.0


def test_theorem_steps_follow_the_laws():
    """T grows with log(epsilon^2) when strongly convex, and with epsilon^(2/3) when convex."""
    strongly = Problem(records=32561, features=110, loss=Logistic(), penalty=Ridge(0.1))
    T = [OutputPerturbation().plan(strongly, Budget(e, 1e-3)).steps for e in (0.1, 1.0, 10.0)]
    assert T[2] - T[1] == pytest.approx(T[1] - T[0], abs=2)
    convex = Problem(records=32561, features=110, loss=Logistic())
    paper = OutputPerturbation(radius=5.0, calibration="paper")
    T = [paper.plan(convex, Budget(e, 1e-3)).steps for e in (0.1, 0.5, 1.0, 2.0)]
    np.testing.assert_allclose(np.array(T) / np.array([0.1, 0.5, 1.0, 2.0]) ** (2 / 3), T[2], rtol=0.08)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(Problem(32561, 110, Logistic()), id="logistic"),
        pytest.param(Problem(6497, 13, Huber(1.0, 1.0)), id="quadratic within the targets"),
        pytest.param(Problem(6497, 13, Huber(0.25, 1.0)), id="huber"),
        pytest.param(Problem(5000, 10, Squared(1.0), domain=Ball(2.0)), id="squared"),
    ],
)
def test_convex_steps_have_the_least_predicted_excess(problem, delta):
    R0 = expected_radius(problem)
    for epsilon_asked in (0.1, 1.0):
        budget = Budget(epsilon_asked, delta)
        plan = OutputPerturbation().plan(problem, budget)
        assert plan == OutputPerturbation(radius=R0).plan(problem, budget)

        def excess(T, budget=budget, eta=plan.step_size):
            return predicted_output_excess(problem, budget, T, eta, R0)

        nearby = [max(1, int(plan.steps * times)) for times in (0.5, 0.9, 1.1, 2.0)]
        assert all(excess(plan.steps) <= excess(T) * (1 + 1e-3) for T in nearby)


def test_predicted_excess_is_bias_and_noise():
    """Without noise D^2/(2 eta T), or for a quadratic D^2/(4 e eta T); at T = 1 about what standing still costs."""
    D, eta, budget = 10.0, 1.0, Budget(1e4, 1e-2)
    huge, T = 10**9, 10**4
    general, quadratic = Problem(huge, 5, Huber(0.25, 1.0)), Problem(huge, 5, Huber(1.0, 1.0))
    assert predicted_output_excess(general, budget, T, eta, D) == pytest.approx(D**2 / (2 * eta * T), rel=0.03)
    assert predicted_output_excess(quadratic, budget, T, eta, D) == pytest.approx(D**2 / (4 * math.e * T), rel=0.01)
    far = predicted_output_excess(general, budget, 1, eta, 1e4)
    assert far == pytest.approx(general.loss.at_zero, rel=1e-3)
    # noise: (1/2) trace Delta^2 / mu_G^2, or (d + 1)/epsilon^2 for the pure mechanism
    problem, R0 = Problem(100, 5, Logistic()), 1e-9
    Delta = sensitivity(problem, 7, 2.0)
    for budget, variance in ((Budget(1.0, 1e-5), gdp_mu(1.0, 1e-5) ** -2), (Budget(0.5), 6 / 0.5**2)):
        noise = predicted_output_excess(problem, budget, 7, 2.0, R0)
        assert noise == pytest.approx(0.5 * 0.25 * variance * Delta**2, rel=1e-6)


@pytest.mark.slow
def test_the_planned_length_is_near_the_best_one():
    """A regression with targets in [0, 1]: what the plan costs against the best T in hindsight."""
    rng = np.random.default_rng(4)
    n, d = 5000, 8
    X = rng.uniform(0, 1, (n, d)) / math.sqrt(d)
    y = np.clip(X @ rng.uniform(0, 0.6, d) + 0.1 * rng.normal(size=n), 0, 1)
    problem = Problem(n, d, Huber(1.0, 1.0))
    oracle = linear_oracle(X, y, problem, Rows(1.0))
    least = float(oracle.value(np.linalg.lstsq(X, y)[0]))
    trace = float((X**2).sum() / n)
    for epsilon_asked in (0.1, 1.0):
        budget = Budget(epsilon_asked, 1e-3)
        planned = OutputPerturbation().plan(problem, budget)
        w, costs = problem.start(), {}
        for T in range(1, 10 * planned.steps):
            w = w - planned.step_size * oracle.gradient(w)
            Delta = sensitivity(problem, T, planned.step_size)
            noise = 0.5 * trace * (Delta / gdp_mu(epsilon_asked, 1e-3)) ** 2
            costs[T] = float(oracle.value(w)) - least + noise
        assert costs[planned.steps] < 1.5 * min(costs.values())


def test_paper_noise_is_the_printed_one():
    n, mu = 32561, 0.1
    problem = Problem(records=n, features=110, loss=Logistic(), penalty=Ridge(mu))
    plan = OutputPerturbation(steps=100, calibration="paper").plan(problem, Budget(1.0, 1e-5))
    L = 1 + 2 * mu * math.sqrt(2 * math.log(2) / mu)
    Delta = 5 * L * (1 + 0.35 / mu) / (n * 0.35)
    assert plan.noise.std == pytest.approx(math.sqrt(2 * math.log(2e5)) * Delta)


@pytest.mark.parametrize(("mu", "ratios"), [(0.1, (4.87, 4.26)), (0.0, (2.27, 1.99))])
def test_noise_against_the_printed_constants(mu, ratios):
    """Standard deviations at equal nominal (1, 1e-3) and (1, 1e-5), both with L of the data term."""
    n, T = 32561, 100
    problem = Problem(records=n, features=110, loss=Logistic(), penalty=Ridge(mu))
    beta = problem.constants.beta
    for delta, ratio in zip((1e-3, 1e-5), ratios, strict=True):
        plan = OutputPerturbation(steps=T).plan(problem, Budget(1.0, delta))
        Delta = 5 * (1 + beta / mu) / (n * beta) if mu else 3 * T / (beta * n)
        assert math.sqrt(2 * math.log(2 / delta)) * Delta / plan.noise.std == pytest.approx(ratio, abs=0.006)


@pytest.mark.parametrize(("delta", "true"), [(1e-3, 28.23), (1e-5, 24.78)])
def test_the_printed_gaussian_fails_its_claim_at_large_epsilon(delta, true):
    """sigma = sqrt(2 log(2/delta)) Delta/epsilon at nominal epsilon 20, on a sensitivity that is attained."""
    event = Gaussian(math.sqrt(2 * math.log(2 / delta)) / 20)
    assert epsilon(event, delta, R1) == pytest.approx(true, abs=0.01)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_paper_noise_is_accounted_for_what_it_is_worth(delta):
    """Theorem 3's sensitivity 3LT/(beta n) is 3/2 of the true one."""
    problem = Problem(records=1000, features=3, loss=Logistic())
    plan = OutputPerturbation(steps=10, calibration="paper").plan(problem, Budget(1.0, delta))
    assert plan.sensitivity == pytest.approx(2 * 10 * 4 / 1000)
    spent = epsilon(plan.event, delta, R1)
    assert spent == pytest.approx(2 / 3) if delta == 0 else spent < 2 / 3


def test_the_domain_holds_after_the_noise():
    problem = Problem(records=5, features=3, loss=Logistic(), domain=Ball(0.5))
    method = OutputPerturbation(steps=5)
    oracle = linear_oracle(np.eye(5, 3), np.ones(5), problem, Rows(1.0), R1)
    release = method.run(method.plan(problem, Budget(0.1, 1e-5)), problem, oracle, Randomness.seeded(0))
    assert np.linalg.norm(release.weights) <= 0.5 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("problem", "method", "words"),
    [
        (Problem(10, 2, Hinge()), OutputPerturbation(), "smooth"),
        (Problem(10, 2, Logistic(), penalty=BoundedPenalty()), OutputPerturbation(), "convex"),
        (Problem(10, 2, Logistic()), OutputPerturbation(steps=3, step_size=9.0), "2/beta"),
        (Problem(10, 2, Logistic()), OutputPerturbation(steps=3, calibration="loose"), "calibration"),
    ],
)
def test_what_is_refused(problem, method, words):
    with pytest.raises(ValueError, match=words):
        method.plan(problem, Budget(1.0, 1e-5))


def test_a_private_number_of_records_breaks_the_contraction():
    """Ten announced records, forty true ones: one record more moves the end further than any bound made for ten."""
    announced, T, eta = 10, 5, 1.0
    problem = Problem(announced, 1, Huber())
    ends = []
    for records in (39, 40):
        X, y = np.ones((records, 1)), np.zeros(records)
        y[-1] = 1e9 if records == 40 else 0.0
        oracle = linear_oracle(X, y, problem, Rows(1.0), Relation.ADD_REMOVE)
        w = np.full(1, 0.1)
        for _ in range(T):
            w = w - eta * oracle.gradient(w)
        ends.append(w[0])
    # what the formula would say for one record added: T steps of L/n
    assert abs(ends[0] - ends[1]) > eta * T * problem.constants.L / announced
    with pytest.raises(ValueError, match="contract"):
        OutputPerturbation(T, eta).plan(problem, Budget(1.0, 1e-5, Relation.ADD_REMOVE))


def test_paper_calibration_is_for_replace_one():
    with pytest.raises(ValueError, match="replace_one"):
        OutputPerturbation(steps=3, calibration="paper").plan(
            Problem(10, 2, Logistic()), Budget(1.0, 1e-5, Relation.ADD_REMOVE)
        )
