from __future__ import annotations

import math

import pytest

from sordino.budget import Budget, Relation
from sordino.losses import Hinge, Huber, Logistic, Softmax
from sordino.methods import NoisySGD
from sordino.penalties import BoundedPenalty, Ridge
from sordino.planner import candidates, choose
from sordino.problem import Problem

FACTS = [
    Problem(32561, 124, Logistic()),
    Problem(32561, 124, Logistic(), penalty=Ridge(0.01)),
    Problem(2000, 5, Huber(0.5, 1.0), penalty=Ridge(0.1)),
    Problem(5000, 20, Softmax(4)),
]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "problem", FACTS, ids=lambda one: f"{type(one.loss).__name__} {one.records} {one.penalty.strength}"
)
def test_the_choice_is_feasible_and_nearly_the_least(problem, relation):
    budget = Budget(1.0, 1e-6, relation)
    found = candidates(problem, budget)
    chosen = choose(problem, budget)
    chosen.plan(problem, budget)
    (picked,) = [one for one in found if one.method == chosen]
    assert picked.feasible
    assert picked.excess <= 1.1 * min(one.excess for one in found)
    assert [one.feasible for one in found] == sorted([one.feasible for one in found], reverse=True)


def test_infeasible_methods_say_why():
    reasons = {one.name: one.reason for one in candidates(Problem(5000, 20, Softmax(4)), Budget(1.0, 1e-6))}
    assert "rank-one Hessian: Softmax has rank 3" in reasons["objective perturbation"]
    reasons = {one.name: one.reason for one in candidates(Problem(5000, 20, Logistic()), Budget(1.0))}
    assert all("delta is 0" in reason for name, reason in reasons.items() if name != "output perturbation")
    assert reasons["output perturbation"] == ""


def test_a_pure_budget_and_few_passes_narrow_the_choice():
    assert type(choose(Problem(5000, 20, Logistic()), Budget(1.0))).__name__ == "OutputPerturbation"
    few = candidates(Problem(32561, 20, Logistic()), Budget(1.0, 1e-9), most_passes=10)
    assert all("10 are allowed" in one.reason for one in few if one.name == "noisy gradient descent")


def test_no_method_at_all_is_a_sentence_with_every_reason():
    with pytest.raises(ValueError, match=r"no method fits.*noisy gradient descent: .*smooth"):
        choose(Problem(100, 3, Hinge(), penalty=BoundedPenalty()), Budget(1.0, 1e-6))


def test_predictions_fall_with_epsilon_and_with_records():
    def least(n, epsilon):
        return min(one.excess for one in candidates(Problem(n, 20, Logistic()), Budget(epsilon, 1e-9)))

    assert least(10_000, 0.1) > least(10_000, 1.0) > least(100_000, 1.0)
    assert math.isfinite(least(10_000, 1e5))


def test_batches_come_last():
    assert not isinstance(choose(Problem(1000, 3, Logistic()), Budget(0.1, 1e-6)), NoisySGD)
