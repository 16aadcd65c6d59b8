from __future__ import annotations

import math

import pytest

from sordino.budget import Budget, Relation
from sordino.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, Softmax, Squared
from sordino.methods import DPSGD, NoisyGradientDescent, NoisySGD, OutputPerturbation
from sordino.methods.output_perturbation import predicted_output_excess
from sordino.methods.schedule import expected_radius
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
    assert reasons.pop("output perturbation") == ""
    assert reasons.pop("proximal smoothing").startswith("Logistic loss has no kink to smooth: use OutputPerturbation")
    assert all("delta is 0" in reason for reason in reasons.values())


@pytest.mark.parametrize("loss", [Hinge(), Absolute(1.0), Pinball(0.8, 1.0), EpsilonInsensitive(0.1, 1.0)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", list(Relation))
def test_a_kink_is_smoothed(loss, delta, relation):
    problem, budget = Problem(5000, 20, loss), Budget(1.0, delta, relation)
    if delta == 0 and relation is Relation.ADD_REMOVE:
        # output perturbation counts the records
        assert not any(one.feasible for one in candidates(problem, budget))
        return
    first, *others = candidates(problem, budget)
    assert first.name == "proximal smoothing"
    assert first.method == choose(problem, budget)
    assert isinstance(first.method.inner, NoisyGradientDescent if delta else OutputPerturbation)
    assert all("ProximalSmoothing" in one.reason for one in others)
    # more than the inner method's own prediction: smoothing costs something
    assert first.excess > problem.constants.L**2 / (8 * first.plan.sharpness)
    assert math.isfinite(first.excess)
    # and less with more records
    assert candidates(Problem(50_000, 20, loss), budget)[0].excess < first.excess


def test_output_perturbation_is_predicted_for_the_steps_it_plans():
    for problem in (*FACTS, Problem(6497, 13, Huber(1.0, 1.0))):
        budget = Budget(1.0, 1e-6)
        (one,) = [one for one in candidates(problem, budget) if one.name == "output perturbation"]
        plan = OutputPerturbation().plan(problem, budget)
        assert one.plan == plan
        R0 = expected_radius(problem)
        assert one.excess == predicted_output_excess(problem, budget, plan.steps, plan.step_size, R0)
        assert one.passes == plan.steps


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


def test_many_classes_and_many_records_are_read_in_batches():
    """With the noise of the full descent, and a fraction of its work; what is quick stays as it is."""
    problem, budget = Problem(60_000, 785, Softmax(10)), Budget(1.0, 1e-9)
    chosen = choose(problem, budget)
    assert isinstance(chosen, DPSGD)
    full, batches = NoisyGradientDescent().plan(problem, budget), chosen.plan(problem, budget)
    assert (batches.steps, batches.step_size, batches.clip) == (full.steps, full.step_size, full.clip)
    assert batches.update == full.update
    size = batches.sampling.expected_size(problem.records)
    assert batches.noise.std / size == pytest.approx(full.noise.std / problem.records, rel=0.01)
    assert size < problem.records / 3
    for quick in (Problem(2000, 65, Softmax(10)), Problem(60_000, 785, Logistic())):
        assert isinstance(choose(quick, budget), NoisyGradientDescent)


def test_auto_is_planned_once(monkeypatch):
    """By the choice, by whoever trains, and by a preparation around it."""
    from sordino.estimators.linear import prepared_method
    from sordino.methods.protocol import planned

    counted = []
    plan = NoisyGradientDescent.plan
    monkeypatch.setattr(NoisyGradientDescent, "plan", lambda *facts: counted.append(facts) or plan(*facts))
    problem, budget = Problem(3217, 9, Logistic()), Budget(1.0, 1e-6)
    planned(prepared_method("auto", "auto", problem, budget), problem, budget)
    assert len(counted) == 1


@pytest.mark.parametrize(("records", "features"), [(1494, 146), (2197, 313)])
def test_a_descent_that_is_kept_short_is_not_thought_worse_of(records, features):
    """Few numbers: by the picture alone a shorter descent would lose to noise on the output, which is far worse."""
    problem, budget = Problem(records, features, Squared(1.0, 0.25)), Budget(0.1, 1 / records**2)
    descent = NoisyGradientDescent().plan(problem, budget)
    longer = NoisyGradientDescent(radius=expected_radius(problem)).plan(problem, budget)
    reach = [plan.steps * plan.step_size / (1 - getattr(plan.update, "decay", 0.0)) for plan in (descent, longer)]
    assert reach[0] < reach[1]
    assert isinstance(choose(problem, budget), NoisyGradientDescent)
