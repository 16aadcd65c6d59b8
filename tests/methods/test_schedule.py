from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from sordino.budget import Budget, Relation
from sordino.domains import Ball
from sordino.losses import Huber, HuberisedHinge, Logistic, Softmax, Squared, Weighted
from sordino.methods import NoisyGradientDescent, NoisySGD
from sordino.methods.schedule import (
    FEWEST_STEPS,
    MOST_STEPS,
    Descent,
    added_convexity,
    balanced_batch,
    balanced_descent,
    clip_cost,
    expected_radius,
    gaussian_allowance,
    heavy_ball,
    least_deviation,
    most_deviation,
    predicted_excess,
)
from sordino.methods.updates import Momentum, Plain
from sordino.penalties import Ridge
from sordino.planner import choose
from sordino.privacy.accountants.objective import largest_shift
from sordino.problem import PersonUnit, Problem

R1 = Relation.REPLACE_ONE
SURVEY = Problem(records=32561, features=124, loss=Logistic())
TEXTS = Problem(records=12337, features=47237, loss=Logistic())
DIGITS = Problem(records=52000, features=785, loss=Softmax(10))


def asked(problem, epsilon):
    return Budget(epsilon, 1 / problem.records**2)


def descent(problem, epsilon, **given):
    return balanced_descent(problem, asked(problem, epsilon), **given)


@pytest.mark.parametrize("fraction", [0.75, 0.6, 0.5])
def test_the_cost_of_clipping_is_a_mean_divergence(fraction):
    """The clipped minimiser solved for numerically, score by score."""

    def divergence(p):
        # p min(s(-m), c) = (1 - p) min(s(m), c), by bisection in m
        low, high = 0.0, 60.0
        for _ in range(200):
            m = (low + high) / 2
            miss = 1 / (1 + math.exp(m))
            low, high = (m, high) if p * min(miss, fraction) > (1 - p) * min(1 - miss, fraction) else (low, m)
        return p * math.log(p / (1 - miss)) + (1 - p) * math.log((1 - p) / miss)

    mean = 2 * quad(divergence, 0.5, 1 - 1e-7, epsabs=1e-7, limit=100)[0]
    assert clip_cost(fraction) == pytest.approx(mean, rel=0.02, abs=1e-6)


def test_clipping_costs_nothing_at_the_lipschitz_constant_and_more_below():
    costs = [clip_cost(fraction) for fraction in (1.0, 0.9, 0.75, 0.6, 0.5, 0.3)]
    assert costs[0] == pytest.approx(0.0, abs=1e-12)
    assert costs == sorted(costs)
    assert costs[4] == pytest.approx(0.0139, abs=2e-4)


def test_the_prediction_is_bias_and_noise():
    R0, eta = 10.0, 4.0
    long, short = (predicted_excess(SURVEY, R1, 1e9, T, eta, R0) for T in (4000, 40))
    # without noise only the bias is left: R0^2/(4 e tau) for long descents, at most F(0) for short ones
    assert long == pytest.approx(R0**2 / (4 * math.e * 4000 * eta), rel=0.01)
    assert long < short < math.log(2)
    assert predicted_excess(SURVEY, R1, 1e9, 1, 1e-9, 1e4) == pytest.approx(math.log(2), rel=1e-3)
    # before any direction has settled, noise is (1/2) tr(Hessian) (eta sigma sqrt(T))^2
    mu_G, T, eta = 1e-6, 4, 1e-6
    sigma = 2 / SURVEY.records * math.sqrt(T) / mu_G
    noise = predicted_excess(SURVEY, R1, mu_G, T, eta, R0) - predicted_excess(SURVEY, R1, 1e12, T, eta, R0)
    assert noise == pytest.approx(0.5 * 0.25 * (eta * sigma) ** 2 * T, rel=1e-3)


def test_only_the_last_iterate_of_a_convex_descent_is_cheap():
    ridge = Problem(1000, 10, Logistic(), penalty=Ridge(0.1))
    last, path = (predicted_excess(ridge, R1, 0.1, 500, 2.0, 3.0, paid=paid) for paid in ("last iterate", "every step"))
    assert last < path / 2
    # so a path that is paid for step by step is kept shorter
    budget = Budget(1.0, 1e-6)
    lengths = [balanced_descent(ridge, budget, paid=paid) for paid in ("last iterate", "every step")]
    assert lengths[0].steps * lengths[0].step_size > 1.5 * lengths[1].steps * lengths[1].step_size


def test_a_larger_budget_descends_longer_and_clips_less():
    plans = [descent(SURVEY, epsilon) for epsilon in (0.03, 0.1, 0.3, 1.0, 3.0, 30.0)]
    assert [T * eta for T, eta, _ in plans] == sorted(T * eta for T, eta, _ in plans)
    assert [C for *_, C in plans] == sorted(C for *_, C in plans)
    assert (plans[0].clip, plans[-1].clip) == (0.5, 1.0)


def test_a_hopeless_descent_is_kept_short():
    """47,236 words and epsilon 0.1: the direction of the first step is all there is to learn."""
    T, eta, _ = descent(TEXTS, 0.1)
    assert FEWEST_STEPS <= T <= 100
    assert descent(TEXTS, 1.0).steps * descent(TEXTS, 1.0).step_size > 20 * T * eta
    assert descent(TEXTS, 0.01).steps == FEWEST_STEPS


def test_how_frequent_two_classes_are_is_learnt_nevertheless():
    """Where every step is paid for; where the end of a descent is, the noise of its steps is not told by p."""
    for problem, epsilon, p in ((TEXTS, 0.1, 0.45), (TEXTS, 0.5, 0.45), (TEXTS, 1.0, 0.68), (SURVEY, 0.1, 0.9)):
        planned = balanced_descent(problem, asked(problem, epsilon), paid="every step")
        assert deviation(problem, epsilon, planned) == pytest.approx(p, abs=0.02)
    assert choose(TEXTS, asked(TEXTS, 0.1)) == NoisyGradientDescent(release="auto")
    summed = replace(TEXTS, person=PersonUnit(contribution="sum", typical_records=4))
    assert least_deviation(summed) == least_deviation(FEW_NUMBERS) == least_deviation(DIGITS) == 0
    assert least_deviation(replace(TEXTS, penalty=Ridge(0.1))) == 0


def test_no_plan_clips_what_is_classified_correctly():
    """Texts among them: where one class is rarer, its records alone would be clipped."""
    for epsilon in (0.1, 1.0, 3.0):
        assert descent(TEXTS, epsilon).clip >= 0.5
        assert descent(SURVEY, epsilon).clip >= 0.5
        assert descent(DIGITS, epsilon).clip >= DIGITS.constants.L / 2
    assert descent(TEXTS, 1.0, clip=0.2).clip == 0.2


def deviation(problem, epsilon, descent):
    """p of a descent that pays for every step: what T steps of noise move a score by."""
    budget = asked(problem, epsilon)
    T, eta, C, *_ = descent
    sigma = budget.relation.distance * C / problem.records * math.sqrt(T) / gaussian_allowance(problem.dim, budget)
    return problem.row_norm * eta * sigma * math.sqrt(T)


FEW_NUMBERS = Problem(750, 59, Squared(1.0, 0.25))
NUMBERS = Problem(20_000, 30, Squared(1.0, 0.25))


@pytest.mark.parametrize(
    ("problem", "epsilon", "most"),
    [
        pytest.param(FEW_NUMBERS, 0.1, 0.15, id="few numbers"),
        pytest.param(replace(FEW_NUMBERS, row_norm=3.0), 0.1, 0.15, id="few numbers, long rows"),
        pytest.param(FEW_NUMBERS, 3.0, 0.22, id="few numbers, much to spend"),
        pytest.param(NUMBERS, 1.0, 0.22, id="numbers"),
        pytest.param(replace(NUMBERS, loss=Huber(5.0, 20.0)), 1.0, 4.4, id="numbers in their own unit"),
        pytest.param(replace(NUMBERS, loss=Huber()), 1.0, math.inf, id="numbers without a bound"),
        pytest.param(SURVEY, 0.1, math.inf, id="survey"),
        pytest.param(Problem(1347, 65, Softmax(10)), 0.1, 0.45, id="many classes"),
        pytest.param(Problem(1347, 65, Weighted(Softmax(3), (0.2, 1.0, 0.5))), 0.1, 0.45, id="weighted classes"),
        pytest.param(DIGITS, 1.0, math.inf, id="many classes, many records"),
        pytest.param(Problem(750, 59, HuberisedHinge()), 0.1, math.inf, id="another loss"),
    ],
)
def test_noise_moves_a_score_by_no_more_than_measured(problem, epsilon, most):
    budget = asked(problem, epsilon)
    assert most_deviation(problem, budget) == pytest.approx(most)
    planned = balanced_descent(problem, budget, paid="every step", longest=10**5)
    T, eta, C, m = heavy_ball(problem, budget)
    for descent in (planned, (T, eta / (1 - m), C)):
        assert deviation(problem, epsilon, descent) <= most * (1 + 1e-9)


def test_the_bound_on_a_score_binds():
    """Without it descents on numbers would be longer."""
    for problem, epsilon, bound in ((FEW_NUMBERS, 0.1, 0.15), (NUMBERS, 1.0, 0.22)):
        planned = balanced_descent(problem, asked(problem, epsilon), paid="every step")
        assert deviation(problem, epsilon, planned) == pytest.approx(bound)


def test_somebody_who_knows_better_is_not_held_back():
    """A guess of |w*| speaks for itself, and so does a step size."""
    budget = asked(FEW_NUMBERS, 0.5)
    guessed = balanced_descent(FEW_NUMBERS, budget, paid="every step", radius=3.0)
    assert deviation(FEW_NUMBERS, 0.5, guessed) > 0.23
    longer = balanced_descent(FEW_NUMBERS, budget, step_size=1.5, paid="every step")
    assert deviation(FEW_NUMBERS, 0.5, longer) > 0.23
    # a person's clipped sum was not measured
    summed = replace(FEW_NUMBERS, person=PersonUnit(contribution="sum", typical_records=4))
    assert most_deviation(summed, budget) == math.inf


def test_limits_and_given_numbers():
    assert descent(Problem(10**7, 5, Logistic()), 5.0).steps == MOST_STEPS
    for problem in (SURVEY, TEXTS, DIGITS):
        beta = problem.constants.beta
        assert descent(problem, 1.0).step_size <= 1.9 / beta
        assert descent(problem, 1.0, steps=33).steps == 33
        assert descent(problem, 1.0, step_size=0.7).step_size == 0.7
        # far above where descent is known to be stable: the user's word is taken
        assert descent(problem, 1.0, step_size=100.0).step_size == 100.0
        assert descent(problem, 1.0, clip=0.3).clip == 0.3


def test_only_losses_that_stay_meaningful_are_clipped():
    for problem in (Problem(1000, 10, Huber()), Problem(1000, 10, Huber(target_bound=1.0))):
        assert descent(problem, 0.1).clip == problem.constants.L
    assert descent(DIGITS, 1.0).clip < DIGITS.constants.L


def test_the_expected_radius():
    assert expected_radius(Problem(10, 100, Logistic())) == pytest.approx(15.0)
    assert expected_radius(Problem(10, 100, Logistic(), row_norm=2.0)) == pytest.approx(7.5)
    assert expected_radius(Problem(10, 100, Logistic(), domain=Ball(3.0))) == 3.0
    assert expected_radius(Problem(10, 100, Logistic()), guess=2.0) == 2.0
    # targets half way to their bound, and no larger than a confident score where it is far or unknown
    assert expected_radius(Problem(10, 100, Huber(0.5, 1.0))) == pytest.approx(5.0)
    assert expected_radius(Problem(10, 100, Huber(0.5, 50.0))) == pytest.approx(15.0)
    assert expected_radius(Problem(10, 100, Huber(0.5))) == pytest.approx(15.0)
    # ten classes have ten scores, and a prediction depends on the difference of two
    assert expected_radius(Problem(10, 100, Softmax(10))) == pytest.approx(15.0 * math.sqrt(5))


@pytest.mark.parametrize(("records", "epsilon"), [(4000, 1.0), (64_000, 1.0), (64_000, 0.1)])
def test_the_convexity_added_fits_directions_of_very_different_curvature(records, epsilon):
    """Eigenvalues that fall by 1.2^-2j, w* spread evenly over them: against the best Lambda_x in hindsight."""
    problem, R0 = Problem(records, 20, Logistic(), domain=Ball(10.0)), 10.0
    budget = Budget(epsilon, 1 / records**2)
    eigenvalues = 1.2 ** (-2.0 * np.arange(20))
    eigenvalues *= 0.12 / eigenvalues.sum()

    def excess(added):
        sigma = 2 / largest_shift(epsilon, budget.delta, 0.25 / added) / records
        ridge = added / records
        filtered = eigenvalues / (eigenvalues + ridge) ** 2
        return 0.5 * float(ridge**2 * R0**2 / 20 * filtered.sum() + sigma**2 * filtered.sum())

    planned, predicted = added_convexity(problem, budget, R0)
    best = min(excess(added) for added in 0.25 / math.expm1(epsilon) * np.geomspace(1.05, 1e4, 200))
    assert excess(planned) < 3 * best
    assert 0.3 < predicted / excess(planned) < 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "epsilon"),
    [
        pytest.param(SURVEY, 0.1, id="survey"),
        pytest.param(SURVEY, 1.0, id="survey, more"),
        pytest.param(TEXTS, 0.1, id="texts"),
        pytest.param(DIGITS, 1.0, id="digits"),
    ],
)
def test_small_batches_cost_no_more_noise(problem, epsilon):
    budget = asked(problem, epsilon)
    plain = balanced_descent(problem, budget, paid="every step")
    full, sampled = NoisyGradientDescent(*plain).plan(problem, budget), NoisySGD(release="last").plan(problem, budget)
    b = sampled.sampling.expected_size(problem.records)
    assert (sampled.steps, sampled.step_size, sampled.clip) == (full.steps, full.step_size, full.clip)
    assert sampled.noise.std / b == pytest.approx(full.noise.std / problem.records, rel=0.01)
    assert sampled.steps * b < full.steps * problem.records / 10
    # and clearly smaller ones would
    fewer = NoisySGD(release="last", batch_size=max(1, int(b / 15))).plan(problem, budget)
    assert fewer.noise.std / fewer.sampling.expected_size(problem.records) > 1.02 * full.noise.std / problem.records


def test_batches_are_at_most_all_records():
    few = Problem(50, 5, Logistic())
    assert balanced_batch(few, asked(few, 1.0), Descent(25, 1.0, 0.5)) < 50
    assert balanced_batch(few, asked(few, 100.0), Descent(25, 1.0, 0.5)) == 50
    assert np.isfinite(NoisySGD(release="last").plan(few, asked(few, 1.0)).noise.std)


@pytest.mark.parametrize("problem", [SURVEY, DIGITS, Problem(1500, 20, Logistic()), Problem(300_000, 20, Logistic())])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_momentum_goes_as_far_in_fewer_steps(problem, epsilon):
    budget = asked(problem, epsilon)
    T, eta, C, m = heavy_ball(problem, budget)
    plain = balanced_descent(problem, budget, paid="every step", longest=10**5)
    assert C == plain.clip
    # gradients add up to the same length, with the same noise: sigma^2 grows with T, and eta/(1 - m) falls with it
    assert T * eta / (1 - m) == pytest.approx(plain.steps * plain.step_size, rel=1e-9)
    assert FEWEST_STEPS <= T <= plain.steps
    assert 0 <= m <= 0.97
    # half of where a heavy ball is no longer stable, 2 (1 + m)/beta; a plain descent keeps its own stride
    assert eta <= max(1 + m, 1.9) / problem.constants.beta
    if problem.records < 100_000:
        assert T <= 250


def test_momentum_where_there_is_nothing_else_to_gain():
    budget = asked(SURVEY, 1.0)
    plan = NoisyGradientDescent().plan(SURVEY, budget)
    assert isinstance(plan.update, Momentum)
    assert plan.amplification is None
    assert sum(count for _, count in plan.step_events) == plan.steps
    ridge = Problem(32561, 124, Logistic(), penalty=Ridge(0.01))
    for settings, problem in (
        ({}, ridge),
        ({"release": "average"}, SURVEY),
        ({"steps": 50}, SURVEY),
        ({"step_size": 1.0}, SURVEY),
        ({"calibration": "paper"}, ridge),
    ):
        assert isinstance(NoisyGradientDescent(**settings).plan(problem, asked(problem, 1.0)).update, Plain)


def test_momentum_with_a_penalty_that_makes_the_end_hardly_cheaper():
    budget = asked(SURVEY, 1.0)
    weak, strong = (replace(SURVEY, penalty=Ridge(l2)) for l2 in (1e-4, 1e-2))
    longer = balanced_descent(weak, budget)
    plan = NoisyGradientDescent().plan(weak, budget)
    assert isinstance(plan.update, Momentum)
    assert 3 * plan.steps < longer.steps
    assert plan.amplification is None
    cheap = NoisyGradientDescent().plan(strong, budget)
    assert cheap.amplification < 0.7 * math.sqrt(cheap.steps)
