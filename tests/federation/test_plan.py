from __future__ import annotations

import json
from dataclasses import replace

import pytest

import owners
from sordino.budget import Budget
from sordino.federation.plan import FederationPlan, Owner
from sordino.losses import Logistic
from sordino.methods import METHODS, NoisyGradientDescent, NoisySGD, RecursiveMomentum
from sordino.oracle.sampling import FixedSize
from sordino.penalties import Ridge
from sordino.problem import NetworkProblem, Problem

PLAN = owners.plan_for(3)


@pytest.mark.parametrize("mode", ["distributed", "committee", "joint"])
def test_a_plan_survives_its_file(mode):
    plan = replace(PLAN, mode=mode)
    again = FederationPlan.from_json(plan.to_json())
    assert again == plan
    assert again.digest == plan.digest
    assert again.to_json() == plan.to_json()


def test_a_networks_plan_survives_its_file():
    method = NoisySGD(steps=2, batch_size=30, step_size=0.1)
    with pytest.raises(ValueError, match="on a network needs clip"):
        _ = FederationPlan(PLAN.owners, NetworkProblem(60, 7, "small"), owners.BUDGET, method).digest
    method = RecursiveMomentum(2, 30, 30, 0.1, 1.0, 0.1, 0.1)
    plan = FederationPlan(PLAN.owners, NetworkProblem(60, 7, "small"), owners.BUDGET, method, start="abc")
    assert FederationPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "change",
    [
        {"budget": Budget(2.0, 1e-6)},
        {"problem": Problem(60, 4, Logistic(), row_norm=1.5)},
        {"schema": "other columns"},
        {"rows": None},
        {"method": NoisyGradientDescent(steps=4, step_size=1.0, release="average")},
        {"mode": "committee"},
        {"rounding": "record"},
        {"owners": (Owner("owner 0", 10), Owner("owner 1", 21), Owner("owner 2", 29))},
        {"owners": (Owner("owner 0", 10), Owner("owner 1", 20), Owner("owner x", 30))},
    ],
)
def test_any_change_shows_in_the_digest(change):
    assert replace(PLAN, **change).digest != PLAN.digest


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"owners": (Owner("a", 60), Owner("b", 0))}, "b has 0 records: an owner without records has no part"),
        ({"owners": (Owner("a", 30), Owner("a", 30))}, "every owner needs a name of its own"),
        ({"owners": (Owner("a", 30), Owner("", 30))}, "every owner needs a name of its own"),
        ({"owners": (Owner("a", 30), Owner("b", 31))}, "61 records together, but the problem was stated with 60"),
        ({"owners": (Owner("a", 60),)}, "needs at least 2"),
        ({"colluders": 3}, "at most 2"),
        ({"rounding": "never"}, "rounding is 'never'"),
    ],
)
def test_plans_that_cannot_be_followed_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(PLAN, **change)


FOLLOWED = {
    "NoisyGradientDescent", "NoisySGD", "RandomRoundSGD", "DPSGD", "DPRMSProp", "DPAdam", "RecursiveMomentum",
    "SpiderBoost", "BassilySmithThakurta",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(METHODS) - FOLLOWED))
def test_methods_that_ask_for_more_than_noisy_sums_are_refused_by_name(name):
    method = object.__new__(METHODS[name])
    with pytest.raises(ValueError, match=f"{name} asks the records for more than noisy sums of gradients"):
        replace(PLAN, method=method)


def test_something_else_is_no_method():
    with pytest.raises(ValueError, match="str is not a known method"):
        replace(PLAN, method="gradient descent")


@pytest.mark.parametrize("release", ["last", "random"])
def test_steps_that_nobody_sees_cannot_be_counted_on(release):
    problem = replace(PLAN.problem, penalty=Ridge(1.0))
    plan = replace(PLAN, problem=problem, method=NoisyGradientDescent(steps=50, step_size=0.5, release=release))
    with pytest.raises(ValueError, match="counts on steps that nobody sees, but the owners see every sum"):
        _ = plan.planned


def test_owners_draw_no_more_often_than_accounted_for():
    for size in (6, 7, 20, 59, 60):
        sizes = PLAN.sizes(FixedSize(size))
        assert sum(sizes) <= size < sum(sizes) + 3
        assert max(b / owner.records for b, owner in zip(sizes, PLAN.owners, strict=True)) <= size / 60


def test_a_batch_that_leaves_an_owner_out_is_refused():
    plan = replace(PLAN, method=NoisySGD(steps=2, batch_size=5, sampling="fixed_size"))
    with pytest.raises(ValueError, match="takes none of owner 0's 10 records: ask for at least 6"):
        _ = plan.planned


def test_sums_must_fit_into_the_ring():
    PLAN.require_room(1 << 60)
    with pytest.raises(ValueError, match="60 records are too many beside noise of"):
        PLAN.require_room(1 << 33)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "sordino federation plan", "version": 2}'])
def test_other_files_are_refused(text):
    with pytest.raises(ValueError, match="not a federation plan"):
        FederationPlan.from_json(text)


def test_a_plan_with_the_wrong_things_in_it_is_refused():
    body = json.loads(PLAN.to_json())
    body["plan"]["owners"] = [body["plan"]["budget"]]
    with pytest.raises((ValueError, AttributeError)):
        FederationPlan.from_json(json.dumps(body))


def test_the_certificate_says_on_whom_it_rests():
    (sentence,) = PLAN.assumed
    assert "at most 1 of the 3 owners pool what they know" in sentence
    (sentence,) = replace(PLAN, colluders=0).assumed
    assert "holds against everybody outside the federation only" in sentence
    assert "could take it off" in sentence
    (sentence,) = replace(PLAN, mode="committee").assumed
    assert "at most one of the three servers" in sentence
