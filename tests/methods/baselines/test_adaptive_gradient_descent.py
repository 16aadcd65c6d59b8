from __future__ import annotations

import math

import numpy as np
import pytest

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.domains import Ball
from sordino.losses import Hinge, Huber, Logistic
from sordino.methods.baselines import AdaptiveGradientDescent
from sordino.oracle import linear_oracle
from sordino.oracle.query import Choice, Gradient
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.privacy.events import Composed, flatten
from sordino.privacy.filter import charge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

ADULT = Problem(32561, 110, Logistic())
BUDGET = Budget(1.0, 1e-5)


class Scripted:
    """Answers gradients with nothing but noise, and chooses what the script says; keeps what was asked."""

    def __init__(self, dim, choices):
        self.dim, self.choices = dim, choices
        self.events, self.asked, self.noises, self.answers = [], [], [], []

    def release(self, query, noise, randomness):
        assert isinstance(query, Gradient)
        self.events.append(noise.event)
        self.noises.append(noise)
        self.answers.append(noise.perturb(np.zeros(self.dim), randomness))
        return self.answers[-1]

    def choose(self, query, selection, randomness):
        assert isinstance(query, Choice)
        self.events.append(selection.event)
        self.asked.append(query)
        return self.choices(len(self.asked))


def scripted(choices, problem=ADULT, budget=BUDGET, **settings):
    method = AdaptiveGradientDescent(**settings)
    plan = method.plan(problem, budget)
    oracle = Scripted(problem.dim, choices)
    release = method.run(plan, problem, oracle, Randomness.seeded(0))
    return plan, oracle, release


def squares(event, budget):
    """mu^2 of an event, from the definition of what a release takes from a budget."""
    return charge(event, budget, 1).mu ** 2


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("script", [lambda t: 2, lambda t: 0, lambda t: t % 3], ids=["moves", "stays", "both"])
@pytest.mark.parametrize("settings", [{}, {"splits": 10, "growth": 1.0}, {"splits": 4, "candidates": 2, "growth": 9.0}])
def test_whatever_is_chosen_the_budget_holds(script, settings, relation):
    budget = Budget(1.0, 1e-5, relation)
    plan, oracle, release = scripted(script, budget=budget, **settings)
    assert release.event == plan.event
    assert epsilon(plan.event, 1e-5, relation) <= 1.0
    assert 1 <= len(oracle.asked) < plan.rounds
    # accounted for as if all costs had been known beforehand
    spent = Composed(tuple((event, 1) for event in oracle.events))
    assert epsilon(spent, 1e-5, relation) <= 1.0
    assert sum(squares(event, budget) for event in oracle.events) <= gdp_mu(1.0, 1e-5) ** 2
    assert sum(flatten(event)[1] for event in oracle.events) <= plan.distance


@pytest.mark.parametrize(("script", "again"), [(lambda t: 1, 0.0), (lambda t: 0, 0.3)], ids=["moves", "stays"])
def test_it_stops_where_another_round_would_not_fit(script, again):
    plan, oracle, _ = scripted(script, growth=0.3)
    used = sum(squares(event, BUDGET) for event in oracle.events)
    precisions = [noise.multiplier**-2 for noise in oracle.noises]
    following = again * sum(precisions) if again else precisions[0]
    assert used + following + squares(plan.selection.event, BUDGET) > gdp_mu(1.0, 1e-5) ** 2 * (1 - 1e-6)


def test_the_plan_looks_at_public_facts_only():
    """The same for every data set, writable, and read as the event of the whole run."""
    plan = AdaptiveGradientDescent().plan(ADULT, BUDGET)
    assert plan == AdaptiveGradientDescent().plan(ADULT, BUDGET)
    assert wire.to_plain(plan)["kind"] == "AdaptiveGradientDescentPlan"
    assert 0.999 <= epsilon(plan.event, 1e-5, Relation.REPLACE_ONE) <= 1.0
    # published: epsilon/120 for a choice, and noise C sqrt(2 log(1.25/delta)) over that for the first gradient
    assert plan.selection.epsilon == pytest.approx(1 / 120)
    assert plan.noise.multiplier == pytest.approx(120 * math.sqrt(2 * math.log(1.25e5)), rel=1e-6)
    assert plan.selection.sensitivity == plan.loss_clip == 4 * math.log(2)


def test_a_gradient_that_does_not_descend_is_measured_again():
    """The average of all measurements at one point, weighted by their precision."""
    plan, oracle, _ = scripted(lambda t: 0, growth=0.5, splits=20)
    first = plan.noise.multiplier**-2
    precisions = [noise.multiplier**-2 for noise in oracle.noises]
    np.testing.assert_allclose(precisions[:4], first * np.array([1, 0.5, 0.75, 1.125]), rtol=1e-6)
    for k, query in enumerate(oracle.asked):
        weights = np.array(precisions[: k + 1])
        mean = np.array(oracle.answers[: k + 1]).T @ weights / weights.sum()
        moved = query.points[0] - query.points[-1]
        np.testing.assert_allclose(moved, plan.longest_step * mean / np.linalg.norm(mean), rtol=1e-6)


def test_precision_is_kept_after_a_step():
    """Once raised, every new gradient is measured as precisely at once."""
    plan, oracle, _ = scripted(lambda t: 0 if t < 3 else 1, growth=0.5)
    precisions = [noise.multiplier**-2 for noise in oracle.noises[:5]]
    first = plan.noise.multiplier**-2
    np.testing.assert_allclose(precisions, first * np.array([1, 0.5, 0.75, 2.25, 2.25]), rtol=1e-6)


def test_the_chosen_point_is_the_one_moved_to():
    """Not the one before it."""
    _, oracle, release = scripted(lambda t: 7)
    for one, after in zip(oracle.asked, oracle.asked[1:], strict=False):
        np.testing.assert_array_equal(after.points[0], one.points[7])
    np.testing.assert_array_equal(release.weights, oracle.asked[-1].points[7])


@pytest.mark.slow
def test_step_lengths_shrink_to_what_is_used():
    _, oracle, _ = scripted(lambda t: 5)
    longest = [np.linalg.norm(query.points[-1] - query.points[0]) for query in oracle.asked]
    R = longest[0]
    np.testing.assert_allclose(longest[:10], R)
    # a quarter of the longest was taken ten times
    np.testing.assert_allclose(longest[10:20], R / 4 * 1.1)
    np.testing.assert_allclose(longest[20:30], R / 4 * 1.1 * 1.1 / 4)
    _, oracle, _ = scripted(lambda t: 20)
    assert np.linalg.norm(oracle.asked[-1].points[-1] - oracle.asked[-1].points[0]) == pytest.approx(R)


def test_the_penalty_enters_exactly():
    problem = Problem(1000, 4, Logistic(), penalty=Ridge(0.3))
    plan, oracle, _ = scripted(lambda t: 3, problem, longest_step=2.0)
    for query, answer in zip(oracle.asked, oracle.answers, strict=True):
        np.testing.assert_allclose(query.extra, 1000 * 0.15 * (query.points**2).sum(axis=1))
        direction = answer + 1000 * 0.3 * query.points[0]
        longest = np.linalg.norm(query.points[-1] - query.points[0])
        moved = longest * direction / np.linalg.norm(direction)
        np.testing.assert_allclose(query.points[0] - query.points[-1], moved, rtol=1e-6, atol=1e-9)
        assert longest <= plan.longest_step * (1 + 1e-12)


def test_the_domain_holds():
    problem = Problem(1000, 4, Logistic(), domain=Ball(0.2))
    _, oracle, release = scripted(lambda t: 20, problem)
    assert max(np.linalg.norm(query.points, axis=1).max() for query in oracle.asked) <= 0.2 * (1 + 1e-12)
    assert np.linalg.norm(release.weights) > 0.19


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Huber(target_bound=1.0)])
def test_it_learns(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = np.where(X @ [2.0, -1.0, 0.5] > 0, 1.0, -1.0)
    problem = Problem(5000, 3, loss, penalty=BoundedPenalty(1e-4))
    oracle = linear_oracle(X, y, problem, Rows(4.0), Relation.REPLACE_ONE)
    method = AdaptiveGradientDescent()
    w = method.run(method.plan(problem, Budget(2.0, 1e-6)), problem, oracle, Randomness.seeded(0)).weights
    assert oracle.value(w) < 0.8 * oracle.value(np.zeros(3))


def test_runs_side_by_side():
    problem = Problem(50, 2, Logistic())
    oracle = linear_oracle(np.eye(50, 2), np.ones(50), problem, Rows(1.0))
    method = AdaptiveGradientDescent(splits=6)
    release = method.run(method.plan(problem, BUDGET), problem, oracle, Randomness.seeded(0), start=np.zeros((3, 2)))
    assert release.weights.shape == (3, 2)
    assert len(np.unique(release.weights[:, 0])) == 3


def test_printed_conversion_spends_less():
    plan = AdaptiveGradientDescent(calibration="paper").plan(ADULT, BUDGET)
    # rho + 2 sqrt(rho log(1/delta)) = 1 at delta = 1e-5
    rho = (math.sqrt(math.log(1e5) + 1) - math.sqrt(math.log(1e5))) ** 2
    leaves, _ = flatten(plan.event)
    assert next(iter(leaves)).mu == pytest.approx(math.sqrt(2 * rho), rel=1e-6)
    assert epsilon(plan.event, 1e-5, Relation.REPLACE_ONE) < 0.8


@pytest.mark.parametrize(
    ("problem", "method", "words"),
    [
        (Problem(10, 2, Huber()), AdaptiveGradientDescent(), "loss_clip"),
        (ADULT, AdaptiveGradientDescent(loss_clip=-1.0), "loss_clip"),
        (ADULT, AdaptiveGradientDescent(splits=0), "splits is 0"),
        (ADULT, AdaptiveGradientDescent(splits=2), "more `splits`"),
        (ADULT, AdaptiveGradientDescent(growth=0.0), "growth is 0"),
        (ADULT, AdaptiveGradientDescent(candidates=0), "candidates is 0"),
        (ADULT, AdaptiveGradientDescent(candidates=2.5), "candidates is 2.5"),
        (ADULT, AdaptiveGradientDescent(clip=math.inf), "clip is inf"),
        (ADULT, AdaptiveGradientDescent(calibration="loose"), "calibration"),
    ],
)
def test_what_is_refused(problem, method, words):
    with pytest.raises(ValueError, match=words):
        method.plan(problem, BUDGET)


def test_a_pure_guarantee_is_refused():
    with pytest.raises(ValueError, match="delta is 0"):
        AdaptiveGradientDescent().plan(ADULT, Budget(1.0))
