from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.domains import Ball
from sordino.losses import Hinge, Logistic
from sordino.methods import DescentPlan, Inverse, InverseRoot
from sordino.methods.baselines import BassilySmithThakurta
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, Poisson
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

R1 = Relation.REPLACE_ONE
N, D = 32561, 110
ADULT = Problem(N, D, Logistic())


def plan_of(problem=ADULT, budget=None, **settings):
    return BassilySmithThakurta(**settings).plan(problem, budget or Budget(1.0, 1e-5))


def test_one_record_per_step_is_the_published_form():
    plan = plan_of(Problem(30, 4, Logistic()), batch_size=1)
    assert plan.steps == 900
    assert plan.sampling == FixedSize(1)


# standard deviations printed over tight, n = 32561, delta = 1e-3 and 1e-5, computed with a reference accountant
@pytest.mark.slow
@pytest.mark.parametrize(("delta", "e", "ratio"), [(1e-3, 0.1, 17.4), (1e-3, 2.0, 8.35), (1e-5, 1.0, 10.9)])
def test_noise_against_the_published_constants(delta, e, ratio):
    printed, tight = (
        plan_of(budget=Budget(e, delta), batch_size=1, calibration=kind).noise.std for kind in ("paper", "tight")
    )
    assert printed / tight == pytest.approx(ratio, abs=0.06)


def test_printed_noise():
    L, e, delta = 1.0, 0.5, 1e-3
    one = plan_of(budget=Budget(e, delta), batch_size=1, steps=10, calibration="paper").noise
    assert one.std == pytest.approx(math.sqrt(32 * math.log(N / delta) * math.log(1 / delta)) * L / e)
    many = plan_of(budget=Budget(e, delta), calibration="paper").noise
    # on the sum over a batch of fifty: fifty times 2L/50
    assert many.std == pytest.approx(2 * L * math.sqrt(math.log(3 * N / (50 * delta)) * math.log(2 / delta)) / e)
    assert one.sensitivity == many.sensitivity == 2 * L


@pytest.mark.parametrize(("e", "most"), [(0.1, 0.02), (1.0, 0.25)])
def test_the_printed_noise_is_worth_more_than_it_claims(e, most):
    plan = plan_of(budget=Budget(e, 1e-3), calibration="paper")
    assert epsilon(plan.event, 1e-3, R1) < most


def test_another_closed_form_is_not():
    """4 L sqrt(T log(1/delta)) / (n epsilon) on the mean of fifty, ten epochs: a nominal 2 is truly 13.4."""
    T, delta, e = 10 * N // 50, 1e-5, 2.0
    sigma = 4 * math.sqrt(T * math.log(1 / delta)) / (N * e)
    noise = GaussianNoise(2.0, 50 * sigma, D)

    def true(sampling):
        plan = DescentPlan(T, 1.0, 1.0, sampling, N, noise)
        return epsilon(plan.event, delta, R1)

    assert true(FixedSize(50)) == pytest.approx(13.4, abs=0.1)
    assert true(Poisson(50 / N)) == pytest.approx(1.33, abs=0.01)


def test_steps_shrink_as_published():
    flat = plan_of(Problem(1000, 20, Logistic(), domain=Ball(3.0)), steps=40)
    sigma = flat.noise.std / 50
    assert flat.rate == InverseRoot()
    assert flat.step_size == pytest.approx(3.0 / math.sqrt(1 + 20 * sigma**2))
    guessed = plan_of(Problem(1000, 20, Logistic()), steps=40, radius=7.0)
    assert guessed.step_size == pytest.approx(flat.step_size * 7 / 3)
    steep = plan_of(Problem(1000, 20, Logistic(), penalty=Ridge(0.1)), steps=40)
    assert (steep.rate, steep.step_size) == (Inverse(), 10.0)


def test_a_loss_with_a_kink_is_welcome():
    assert plan_of(Problem(100, 3, Hinge()), batch_size=10).steps == 100


@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_the_run_follows_the_formulas(mu):
    """Without noise and with full batches, against the recursion written out."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(20, 2)), rng.choice([-1.0, 1.0], 20)
    problem = Problem(20, 2, Logistic(), penalty=Ridge(mu), domain=Ball(0.4))
    oracle = linear_oracle(X, y, problem, Rows(10.0), R1)
    plan = plan_of(problem, steps=30, batch_size=20)

    class Silent:
        sensitivity, event = 2.0, plan.noise.event

        def begin(self):
            return self

        def perturb(self, value, randomness):
            return value

    silent = replace(plan, noise=Silent())
    found = BassilySmithThakurta().run(silent, problem, oracle, Randomness.seeded(0)).weights
    w = np.zeros(2)
    for t in range(1, 31):
        eta = 1 / (mu * t) if mu else plan.step_size / math.sqrt(t)
        w = w - eta * (oracle.gradient(w) + mu * w)
        w *= min(1, 0.4 / np.linalg.norm(w))
    np.testing.assert_allclose(found, w, rtol=1e-12)


@pytest.mark.parametrize(
    ("problem", "method", "words"),
    [
        (Problem(10, 2, Logistic(), penalty=BoundedPenalty()), BassilySmithThakurta(5), "convex"),
        (Problem(10, 2, Logistic()), BassilySmithThakurta(), "10 records"),
        (Problem(10, 2, Logistic()), BassilySmithThakurta(5, steps=0), "steps is 0"),
        (Problem(10, 2, Logistic()), BassilySmithThakurta(2.5), "batch_size is 2.5"),
        (Problem(10, 2, Logistic()), BassilySmithThakurta(5, sampling="shuffled"), "sampling"),
        (Problem(10, 2, Logistic()), BassilySmithThakurta(5, calibration="loose"), "calibration"),
    ],
)
def test_what_is_refused(problem, method, words):
    with pytest.raises(ValueError, match=words):
        method.plan(problem, Budget(1.0, 1e-5))


def test_fixed_batches_have_no_meaning_where_the_number_of_records_is_private():
    budget = Budget(1.0, 1e-5, Relation.ADD_REMOVE)
    with pytest.raises(ValueError, match="Poisson"):
        plan_of(budget=budget)
    plan = plan_of(budget=budget, sampling="poisson")
    assert epsilon(plan.event, 1e-5, Relation.ADD_REMOVE) <= 1.0
    with pytest.raises(ValueError, match="replace_one"):
        plan_of(budget=budget, calibration="paper")
