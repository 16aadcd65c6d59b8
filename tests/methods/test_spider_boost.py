from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import plain_gradients as plain
from sordino.budget import Budget, Relation
from sordino.losses import Huber, Logistic
from sordino.methods import RecursiveMomentum, SpiderBoost
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.penalties import BoundedPenalty
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.randomness import Randomness
from sordino.privacy.stepwise import Stepwise
from sordino.problem import NetworkProblem, Problem

N, D, ROWS = 40, 3, Rows(2.0)
PROBLEM = Problem(N, D, Logistic(), penalty=BoundedPenalty(0.1))
BUDGET = Budget(1.0, 1e-6)
GIVEN = {"steps": 8, "batch_size": N, "clip": 0.3, "difference_clip": 0.01, "period": 3}


def records():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), rng.choice([-1.0, 1.0], N)


def quiet(plan):
    first = replace(plan.first, noise=replace(plan.first.noise, std=1e-8))
    return replace(plan, first=first, noise=replace(plan.noise, std=1e-8))


def written_out(T, q, eta, C1, C2, reach=None):
    X, y = records()
    w = before = np.zeros(D)
    v = None
    for t in range(T):
        if t % q == 0:
            v = plain.clipped_sum(X, y, ROWS, PROBLEM.loss, w, C1) / N
        else:
            v = v + sum(plain.difference(X[i], y[i], ROWS, PROBLEM.loss, w, before, C2) for i in range(N)) / N
        step = v + 2 * 0.1 * w / (1 + w**2) ** 2
        size = eta if reach is None else min(reach / np.linalg.norm(step), eta)
        before, w = w, w - size * step
    return w


@pytest.mark.parametrize("C2", [0.01, 5.0])
@pytest.mark.parametrize("q", [2, 3, 8])
def test_the_listing(C2, q):
    method = SpiderBoost(**{**GIVEN, "difference_clip": C2, "period": q}, step_size=0.7)
    oracle = linear_oracle(*records(), PROBLEM, ROWS)
    got = method.run(quiet(method.plan(PROBLEM, BUDGET)), PROBLEM, oracle, Randomness.seeded(0)).weights
    np.testing.assert_allclose(got, written_out(8, q, 0.7, 0.3, C2), atol=1e-6)


def test_one_period_is_recursive_momentum_that_forgets_nothing():
    ours = SpiderBoost(**{**GIVEN, "period": 8}, step_size=0.7).plan(PROBLEM, BUDGET)
    theirs = RecursiveMomentum(8, N, N, 0.7, 0.3, 0.01, 0.0).plan(PROBLEM, BUDGET)
    oracle = linear_oracle(*records(), PROBLEM, ROWS)
    kinds = ((SpiderBoost, ours), (RecursiveMomentum, theirs))
    weights = [kind.run(quiet(plan), PROBLEM, oracle, Randomness.seeded(0)).weights for kind, plan in kinds]
    np.testing.assert_allclose(*weights, atol=1e-7)


def test_steps_of_bounded_length_clip_no_difference():
    beta = PROBLEM.constants.beta
    method = SpiderBoost(**{**GIVEN, "difference_clip": 0.02})
    plan = method.plan(PROBLEM, BUDGET)
    assert plan.update.reach == pytest.approx(0.02 / beta)
    asked = Asked(linear_oracle(*records(), PROBLEM, ROWS))
    method.run(plan, PROBLEM, asked, Randomness.seeded(0))
    X, y = records()
    differences = [query.difference for query, _ in asked.sums if hasattr(query, "difference")]
    assert len(differences) == 5
    for query in differences:
        for i in range(N):
            far = plain.difference(X[i], y[i], ROWS, PROBLEM.loss, query.at, query.since, math.inf)
            assert np.linalg.norm(far) <= query.clip
    got = method.run(quiet(plan), PROBLEM, asked.oracle, Randomness.seeded(0)).weights
    np.testing.assert_allclose(got, written_out(8, 3, 1 / (2 * beta), 0.3, 0.02, 0.02 / beta), atol=1e-6)


class Asked:
    def __init__(self, oracle):
        self.oracle, self.draw, self.sums = oracle, oracle.draw, []

    def release(self, query, noise, randomness):
        self.sums.append((query, noise))
        return self.oracle.release(query, noise, randomness)


@pytest.mark.parametrize("relation", Relation)
def test_what_is_asked_is_what_is_counted(relation):
    """Gradients in steps 0, 3 and 6 with noise for C_1, differences with noise for C_2, and no third kind."""
    budget = replace(BUDGET, relation=relation)
    method = SpiderBoost(**GIVEN, step_size=0.7)
    plan = method.plan(PROBLEM, budget)
    asked = Asked(linear_oracle(*records(), PROBLEM, ROWS, relation))
    method.run(plan, PROBLEM, asked, Randomness.seeded(0))
    moved = [noise.sensitivity for _, noise in asked.sums]
    own, differ = relation.distance * 0.3, relation.distance * 0.01
    assert moved == pytest.approx([own, differ, differ, own, differ, differ, own, differ])
    assert [query.sensitivity(relation) for query, _ in asked.sums] == pytest.approx(moved)
    # in Gaussian differential privacy, where squares add up
    z1, z2 = plan.first.noise.multiplier, plan.noise.multiplier
    assert 3 / z1**2 + 5 / z2**2 == pytest.approx(gdp_mu(1.0, 1e-6) ** 2, rel=1e-4)
    assert [count for _, count in plan.event.parts] == [3, 5]


@pytest.mark.parametrize(("T", "counts"), [(1, [1]), (3, [1, 2]), (4, [1, 2, 1]), (5, [1, 2, 1, 1]), (6, [1, 2, 1, 2])])
def test_steps_in_their_order(T, counts):
    plan = SpiderBoost(**{**GIVEN, "steps": T}, step_size=0.7).plan(PROBLEM, BUDGET)
    assert [count for _, count in plan.step_events] == counts
    assert Stepwise(plan.step_events).steps == T
    first, other = plan.first.noise.event, plan.noise.event
    assert [event for event, _ in plan.step_events] == [(first, other)[place % 2] for place in range(len(counts))]


def test_the_noise_of_least_variance():
    """x = .05, T = 400, q = 20: found by minimising z_1^2 + (q-1) x^2 z_2^2 numerically at equal cost."""
    C2 = 0.05 * math.sqrt(2)
    method = SpiderBoost(steps=400, step_size=1.0, difference_clip=C2, period=20)
    plan = method.plan(Problem(2000, D, Logistic()), BUDGET)
    z1, z2 = plan.first.noise.multiplier, plan.noise.multiplier
    assert z2 / z1 == pytest.approx(4.4721360, rel=1e-6)
    g = gdp_mu(1.0, 1e-6)
    assert g**2 * (z1**2 + 19 * 0.05**2 * z2**2) == pytest.approx(20 * 1.95**2, rel=1e-4)
    costs = np.geomspace(0.5, 40, 4001)
    # z_1 = sqrt(20 (1 + 19/ratio^2)) at the cost of 1
    least = (20 * (1 + 19 / costs**2) * (1 + 19 * 0.05**2 * costs**2)).min()
    assert least == pytest.approx(20 * 1.95**2, rel=1e-4)
    assert replace(method, period=None).plan(Problem(2000, D, Logistic()), BUDGET).first.every == 19


def test_noise_grows_within_a_period_and_begins_anew():
    """Zero records: steps are v_t, whose variance is that of its own sum and of the differences since."""
    problem = Problem(1000, 1, Huber(target_bound=1.0))
    oracle = linear_oracle(np.zeros((1000, 1)), np.zeros(1000), problem, Rows(1.0))
    method = SpiderBoost(5, 1000, None, 1.0, 1.0, 0.5, 3)
    plan = method.plan(problem, BUDGET)
    start = np.zeros((20_000, 1))

    def after(T):
        # the first T steps of the same plan: the same seed draws the same noise
        return method.run(replace(plan, steps=T), problem, oracle, Randomness.seeded(0), start).weights

    kept = [start, *map(after, range(1, 6))]
    own, differ = plan.first.noise.std / 1000, plan.noise.std / 1000
    for t, since in enumerate([0, 1, 2, 0, 1]):
        spread = (kept[t + 1] - kept[t]).std()
        assert spread == pytest.approx(math.sqrt(own**2 + since * differ**2), rel=0.025)


def test_numbers_of_the_docstring():
    n, d, budget = 20_000, 10, Budget(1.0, 1e-6)
    problem = Problem(n, d, Logistic())
    plan = SpiderBoost().plan(problem, budget)
    F, beta, mu = math.log(2), 0.25, gdp_mu(1.0, 1e-6)
    A = 2 * math.sqrt(d) * 2 / (n * mu) * math.sqrt(2 * math.sqrt(2) * beta)
    s = (2 * F / A) ** (2 / 3)
    r = 2 * F / (beta * s)

    def bound(s, r):
        return F / s + beta * r / 2 + A * math.sqrt(s)

    assert all(bound(s, r) <= bound(s * change, r) for change in (0.9, 1.1))
    assert plan.update.reach == pytest.approx(r, rel=1e-6)
    assert plan.update.difference_clip == pytest.approx(beta * r, rel=1e-6)
    assert plan.steps == math.ceil(s / r)
    assert plan.first.every == round(math.sqrt(2) / (beta * r) - 1)
    # of a path of the same length
    half = replace(SpiderBoost(), steps=plan.steps // 2).plan(problem, budget)
    assert half.update.reach * half.steps == pytest.approx(s, rel=1e-2)
    many = SpiderBoost().plan(replace(problem, records=10**7), budget)
    assert many.steps == 2000


def test_batches():
    plan = SpiderBoost(8, 5, 20, 0.5, 0.3, 0.01).plan(PROBLEM, BUDGET)
    assert (plan.first.sampling, plan.sampling) == (Poisson(20 / N), Poisson(5 / N))
    fixed = SpiderBoost(8, 5, None, 0.5, 0.3, 0.01, sampling="fixed_size").plan(PROBLEM, BUDGET)
    assert (fixed.first.sampling, fixed.sampling) == (FixedSize(20), FixedSize(5))
    everybody = SpiderBoost(8).plan(PROBLEM, BUDGET)
    assert (everybody.first.sampling, everybody.sampling) == (FullBatch(), FullBatch())
    # many small sums in place of a large one: noise never falls below what sampling needs
    assert plan.noise.multiplier >= plan.first.noise.multiplier
    assert SpiderBoost(8, 5, None, 0.5, 0.3, 0.01).plan(NetworkProblem(N, D), BUDGET).first.every == 41


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"period": 1}, "period is 1"),
        ({"period": 2.5}, "whole number"),
        ({"difference_clip": 0.0}, "difference_clip is 0.0"),
        ({"first_batch": N + 1}, "between 1 and the 40 records"),
        ({"release": "average"}, "'last', 'random'"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        SpiderBoost(**{**GIVEN, "step_size": 0.5, **settings}).plan(PROBLEM, BUDGET)


def test_what_has_no_numbers():
    with pytest.raises(ValueError, match="no public bound at zero"):
        SpiderBoost().plan(Problem(N, D, Huber()), BUDGET)
