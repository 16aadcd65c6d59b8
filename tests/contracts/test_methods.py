"""What every method promises, as tables of method x property.

Those that perturb gradients share one loop, and differ in their plan and its update: what follows from the loop is
tested here for all of them, and their own files test what they alone say.
"""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace
from typing import get_type_hints

import numpy as np
import pytest

import few_steps
from sordino import wire
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.checkpoint import RunRecorder
from sordino.losses import Hinge, Logistic, Softmax
from sordino.methods import (
    DPSGD,
    METHODS,
    BassilySmithThakurta,
    Cosine,
    DPAdam,
    DPRMSProp,
    Inverse,
    Method,
    NoisyGradientDescent,
    NoisySGD,
    RandomRoundSGD,
    RecursiveMomentum,
    SpiderBoost,
    StepDecay,
    WarmUp,
)
from sordino.methods.plan import LastStep
from sordino.oracle import linear_oracle
from sordino.oracle.protocol import Oracle
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon
from sordino.privacy.events import Approximate, Composed, GaussianDP, flatten
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, Problem
from sordino.progress import recorded_by
from sordino.train import train

KINDS = (
    NoisyGradientDescent,
    NoisySGD,
    BassilySmithThakurta,
    RandomRoundSGD,
    DPSGD,
    DPRMSProp,
    DPAdam,
    RecursiveMomentum,
    SpiderBoost,
)
ON_NETWORKS = tuple(kind for kind in KINDS if kind is not BassilySmithThakurta)
SETTINGS_OF = {kind: {field.name for field in fields(kind)} for kind in KINDS}
N, D = 120, 3
PROBLEM = Problem(N, D, Logistic(), penalty=Ridge(1e-2))
BUMPY = Problem(N, D, Logistic(), penalty=BoundedPenalty(1e-2))
BUDGET = Budget(1.0, 1e-6)


def given(kind, **settings):
    """Every number that a network asks for, of those that the method has."""
    numbers = {"steps": 12, "batch_size": 20, "step_size": 0.5, "clip": 0.4, "difference_clip": 0.05, "mix": 0.2}
    # a descent on all records whose every step counts
    numbers |= {"release": "average"} if kind is NoisyGradientDescent else {}
    return kind(**{name: value for name, value in (numbers | settings).items() if name in SETTINGS_OF[kind]})


def records(n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sign(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n))


def oracle_of(problem=PROBLEM, relation=Relation.REPLACE_ONE):
    X, y = records(problem.records, problem.features)
    return linear_oracle(X, y, problem, Rows(2.0), relation)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", ["poisson", "fixed_size"])
def test_tight_noise_earns_the_budget_and_no_more(kind, sampling):
    for settings in ({}, {"batch_size": N}, {"steps": 1}):
        plan = given(kind, sampling=sampling, **settings).plan(PROBLEM, BUDGET)
        found = epsilon(plan.event, BUDGET.delta, BUDGET.relation)
        assert 0.999 * BUDGET.epsilon <= found <= BUDGET.epsilon


@pytest.mark.parametrize("kind", KINDS)
def test_add_remove_is_earned_too(kind):
    budget = replace(BUDGET, relation=Relation.ADD_REMOVE)
    method = given(kind, sampling="poisson")
    plan = method.plan(PROBLEM, budget)
    assert 0.999 * budget.epsilon <= epsilon(plan.event, budget.delta, budget.relation) <= budget.epsilon
    assert plan.noise.std < method.plan(PROBLEM, BUDGET).noise.std
    weights = method.run(plan, PROBLEM, oracle_of(relation=budget.relation), Randomness.seeded(0)).weights
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", Relation)
def test_every_sum_is_drawn_noised_and_counted_as_the_event_says(kind, relation):
    """Once per step, over batches of the plan, with noise for exactly the distance that one record moves it."""
    budget = replace(BUDGET, relation=relation)
    for settings in ({"sampling": "poisson"}, {"batch_size": N}):
        method = given(kind, **settings)
        plan = method.plan(PROBLEM, budget)
        asked = Counting(oracle_of(relation=relation))
        assert method.run(plan, PROBLEM, asked, Randomness.seeded(1)).event == plan.event
        assert sum(count for _, count in plan.step_events) == plan.steps
        assert flatten(plan.event)[0] == flatten(Composed(plan.step_events))[0]
        drawn = [sampling.event(noise.event, N) for sampling, _, noise in asked.sums]
        counted = [event for event, count in plan.step_events for _ in range(count)]
        assert drawn == counted[: len(drawn)]
        assert len(drawn) == plan.steps if isinstance(plan.stop, LastStep) else 1 <= len(drawn) <= plan.steps
        for _, query, noise in asked.sums:
            assert query.sensitivity(relation) == pytest.approx(noise.sensitivity, rel=1e-12)


class Counting:
    def __init__(self, oracle):
        self.oracle, self.sampling, self.sums = oracle, None, []

    def draw(self, sampling, randomness):
        self.sampling = sampling
        return self.oracle.draw(sampling, randomness)

    def release(self, query, noise, randomness):
        self.sums.append((self.sampling, query, noise))
        return self.oracle.release(query, noise, randomness)


CERTIFIED = {
    "defaults": {"batch_size": 40},
    "fixed size": {"sampling": "fixed_size", "batch_size": 30, "steps": 10},
    "schedule": {"rate": WarmUp(2, Cosine(0.1)), "steps": 10, "batch_size": 40},
    "all records": {"rate": StepDecay(4, 0.5), "steps": 10, "batch_size": N},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CERTIFIED)
def test_the_certificate_is_planned_and_accounted_again(kind, name):
    method = kind(**{setting: value for setting, value in CERTIFIED[name].items() if setting in SETTINGS_OF[kind]})
    verified(train(PROBLEM, BUDGET, method, oracle_of()).certificate, method)


def verified(certificate, method):
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert again.method == method
    assert METHODS[type(method).__name__] is type(method)
    findings = verify(again)
    assert all(finding.holds for finding in findings), findings


@pytest.mark.parametrize("kind", [DPSGD, DPRMSProp, DPAdam, RecursiveMomentum])
def test_noise_that_was_given_states_what_it_costs(kind):
    method = given(kind, noise_multiplier=10.0)
    plan = method.plan(PROBLEM, BUDGET)
    # std / clip, whatever the relation: a record that is replaced moves a sum by two clips
    assert plan.noise.std / plan.noise.sensitivity == pytest.approx(10.0 / BUDGET.relation.distance, rel=1e-6)
    truly = epsilon(plan.event, BUDGET.delta, BUDGET.relation)
    certificate = train(PROBLEM, BUDGET, method, oracle_of()).certificate
    assert certificate.epsilon == truly < BUDGET.epsilon
    verified(certificate, method)


@pytest.mark.parametrize("kind", [DPSGD, DPRMSProp, DPAdam, RecursiveMomentum])
def test_noise_that_was_given_must_keep_the_budget(kind):
    asked = Counting(oracle_of())
    with pytest.raises(ValueError, match="so nothing was run"):
        train(PROBLEM, BUDGET, given(kind, noise_multiplier=0.6), asked)
    assert asked.sums == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_weights(kind):
    method = given(kind)
    plan = method.plan(PROBLEM, BUDGET)
    one, same, other = (method.run(plan, PROBLEM, oracle_of(), Randomness.seeded(seed)).weights for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()
    free = [method.run(plan, PROBLEM, oracle_of(), Randomness.system()).weights for _ in range(2)]
    assert (free[0] != free[1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_runs_side_by_side(kind):
    """A stack begins where it is told to and draws noise of its own for every run."""
    method = given(kind)
    plan = method.plan(PROBLEM, BUDGET)
    weights = method.run(plan, PROBLEM, oracle_of(), Randomness.seeded(3), np.zeros((5, D))).weights
    assert weights.shape == (5, D)
    assert len(np.unique(weights[:, 0])) == 5


class Interrupted(Exception):
    pass


class Memory:
    """Keeps the last state, and cuts the run off after `until` steps."""

    def __init__(self, until):
        self.until, self.kept, self.done = until, None, 0

    def restore(self, state, planned):
        for name, value in (self.kept or {}).items():
            setattr(state, name, value)
        return range(self.done, planned)

    def keep(self, state, done, planned):
        # a copy: nothing that a later step overwrites may reach back
        self.kept = {field.name: np.copy(getattr(state, field.name))[()] for field in fields(state)}
        self.done = done
        if done == self.until:
            raise Interrupted


RESUMED = [given(kind) for kind in KINDS]
RESUMED += [given(NoisyGradientDescent, release="trajectory"), given(NoisySGD, release="last", rate=Inverse())]
RESUMED += [given(kind, release="random") for kind in (DPRMSProp, DPAdam, RecursiveMomentum, SpiderBoost)]
RESUMED += [given(DPSGD, release="average", momentum=0.9, rate=Cosine()), given(DPAdam, moments="corrected")]
RESUMED += [given(DPSGD, release="moving average"), given(DPAdam, moments="unbiased", release="moving average")]
RESUMED += [RecursiveMomentum(steps=12), given(RecursiveMomentum, batch_size=N), given(SpiderBoost, period=5)]


@pytest.mark.parametrize("method", RESUMED, ids=lambda method: type(method).__name__)
def test_a_run_that_was_cut_off_goes_on_as_if_it_had_not_been(method):
    plan, oracle = method.plan(PROBLEM, BUDGET), oracle_of()
    for until in (1, 5):
        whole = method.run(plan, PROBLEM, oracle, Randomness.seeded(6)).weights
        randomness, memory = Randomness.seeded(6), Memory(until)
        with recorded_by(memory):
            try:
                method.run(plan, PROBLEM, oracle, randomness)
            except Interrupted:
                memory.until = None
                got = method.run(plan, PROBLEM, oracle, randomness).weights
                np.testing.assert_array_equal(got, whole)
            else:
                # a random iterate came before the interruption
                assert memory.done < until


@pytest.mark.parametrize("kind", KINDS)
def test_little_noise_finds_a_stationary_point(kind):
    problem = Problem(N, D, Logistic(), penalty=BoundedPenalty(0.05))
    method = given(kind, steps=900, batch_size=N, clip=1.0, step_size=3.0, release="last")
    if kind is BassilySmithThakurta:
        # the steps of its theorem, for convex problems alone
        problem = replace(problem, penalty=Ridge(0.05))
    if kind in (RecursiveMomentum, SpiderBoost):
        method = replace(method, difference_clip=0.5)
    if kind in (DPRMSProp, DPAdam):
        method = replace(method, step_size=0.05, stabiliser=1e-3, rate=StepDecay(300, 0.1))
    quiet = silenced(method.plan(problem, BUDGET))
    oracle = oracle_of(problem)
    w = method.run(quiet, problem, oracle, Randomness.seeded(0)).weights
    assert np.linalg.norm(oracle.gradient(w) + problem.penalty.gradient(w)) < 5e-3
    assert oracle.value(w) < 0.6


def silenced(plan):
    """A plan whose noise does not matter. No budget has it: what is tested is where the steps go."""
    quiet = replace(plan, noise=replace(plan.noise, std=1e-6))
    if plan.first is not None:
        quiet = replace(quiet, first=replace(plan.first, noise=replace(plan.first.noise, std=1e-6)))
    return quiet


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_learn_something(kind):
    n = 4000
    problem = Problem(n, D, Logistic(), penalty=Ridge(1e-3))
    oracle = oracle_of(problem)
    method = kind(batch_size=400) if kind is BassilySmithThakurta else kind()
    plan = method.plan(problem, BUDGET)
    weights = method.run(plan, problem, oracle, Randomness.seeded(0), np.zeros((4, D))).weights
    assert np.mean(oracle.value(weights)) < 0.85 * math.log(2)


@pytest.mark.parametrize("kind", KINDS)
def test_several_classes(kind):
    X, y = records()
    problem = Problem(N, D, Softmax(3), penalty=Ridge(0.01))
    oracle = linear_oracle(X, y + 1, problem, Rows(2.0))
    method = given(kind)
    weights = method.run(method.plan(problem, BUDGET), problem, oracle, Randomness.seeded(0)).weights
    assert weights.shape == (3 * D,)


NETWORK = NetworkProblem(N, D, "a small one")


@pytest.mark.parametrize("kind", ON_NETWORKS)
def test_a_network_is_trained_by_the_same_file(kind):
    """A network differs by its oracle alone. Here a linear one stands in for it: the weights are the same."""
    method = given(kind)
    plan = method.plan(NETWORK, BUDGET)
    start = np.zeros(D)
    w = method.run(plan, NETWORK, oracle_of(Problem(N, D, Logistic())), Randomness.seeded(2), start).weights
    linear = Problem(N, D, Logistic())
    same = method.run(method.plan(linear, BUDGET), linear, oracle_of(linear), Randomness.seeded(2), start).weights
    if kind is not RandomRoundSGD:
        np.testing.assert_array_equal(w, same)
    verified(train(NETWORK, BUDGET, method, oracle_of(linear), start=start).certificate, method)
    with pytest.raises(ValueError, match="its own initial weights"):
        method.run(plan, NETWORK, oracle_of(linear), Randomness.seeded(2))


@pytest.mark.parametrize("kind", ON_NETWORKS)
def test_a_network_must_be_told_everything(kind):
    if kind is DPSGD:
        pytest.skip("it plans a network from public facts")
    full = given(kind)
    asked = {"steps", "batch_size", "step_size", "clip", "difference_clip", "mix"} & SETTINGS_OF[kind]
    for name in asked:
        with pytest.raises(ValueError, match=f"on a network needs {name}: its gradients have no known bound"):
            replace(full, **{name: None}).plan(NETWORK, BUDGET)
    with pytest.raises(ValueError, match=r"needs steps, .* and "):
        kind().plan(NETWORK, BUDGET)


@pytest.mark.parametrize("clipping", ["norm", "automatic"])
@pytest.mark.parametrize("relation", Relation)
def test_what_a_network_needs_follows_from_public_facts(relation, clipping):
    """The noise is what the steps and batches that were planned cost, whatever was given."""
    budget = replace(BUDGET, relation=relation)
    for settings in ({}, {"steps": 9}, {"batch_size": 30}, {"step_size": 0.3}, {"clip": 2.0}):
        method = DPSGD(clipping=clipping, **settings)
        plan = method.plan(NETWORK, budget)
        assert 0.999 * budget.epsilon <= epsilon(plan.event, budget.delta, budget.relation) <= budget.epsilon
        assert plan == method.plan(NETWORK, budget)
        for name in ("steps", "step_size", "clip"):
            assert getattr(plan, name) == settings.get(name, getattr(plan, name))
        b = plan.sampling.expected_size(N)
        assert b == pytest.approx(settings.get("batch_size", b))
        full = replace(method, steps=plan.steps, batch_size=round(b), step_size=plan.step_size, clip=plan.clip)
        assert full.plan(NETWORK, budget) == plan


def test_on_a_network_every_step_is_paid_for():
    """Nobody knows whether its steps contract."""
    assert NoisyGradientDescent(9, 0.5, 0.4).plan(NETWORK, BUDGET).amplification is None


@pytest.mark.parametrize("kind", ON_NETWORKS)
def test_a_clip_above_the_lipschitz_constant_is_not_paid_for(kind):
    plan = given(kind, clip=100.0).plan(PROBLEM, BUDGET)
    assert plan.clip == PROBLEM.constants.L == 1.0
    # a network has no such constant, and gets what it asks for
    assert given(kind, clip=100.0).plan(NETWORK, BUDGET).clip == 100.0


REFUSED = [
    (Budget(1.0), {}, "delta is 0"),
    (BUDGET, {"steps": 0}, "steps is 0"),
    (BUDGET, {"steps": 2.5}, "whole number"),
    (BUDGET, {"batch_size": N + 1}, f"between 1 and the {N} records"),
    (BUDGET, {"batch_size": -1}, "batch_size is -1"),
    (BUDGET, {"step_size": math.nan}, "step_size is nan"),
    (BUDGET, {"clip": 0.0}, "clip is 0.0"),
    (BUDGET, {"sampling": "shuffled"}, "'poisson', 'fixed_size'"),
    (BUDGET, {"release": "best"}, "release is 'best'"),
    (BUDGET, {"rate": "cosine"}, "rate is 'cosine'"),
    (Budget(1.0, 1e-6, Relation.ADD_REMOVE), {"sampling": "fixed_size"}, "Poisson"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("budget", "settings", "words"), REFUSED)
def test_what_is_refused(kind, budget, settings, words):
    if not settings.keys() <= SETTINGS_OF[kind]:
        pytest.skip("it has no such setting")
    with pytest.raises(ValueError, match=words):
        given(kind, **settings).plan(PROBLEM, budget)


@pytest.mark.parametrize("kind", ON_NETWORKS)
def test_a_kink_has_no_default_step(kind):
    with pytest.raises(ValueError, match="smooth"):
        kind().plan(Problem(N, D, Hinge()), BUDGET)


@pytest.mark.parametrize("kind", ON_NETWORKS)
def test_a_penalty_may_bend_either_way(kind):
    assert np.isfinite(given(kind).plan(BUMPY, BUDGET).noise.std)


ALL = few_steps.SETTINGS


@pytest.mark.parametrize("name", METHODS)
def test_planning_is_a_pure_function_of_public_facts(name):
    method = ALL[name]
    plans = [method.plan(few_steps.problem(method, N, D), BUDGET) for _ in range(2)]
    assert plans[0] == plans[1]
    assert wire.to_plain(plans[0]) == wire.to_plain(plans[1])
    with pytest.raises(FrozenInstanceError):
        plans[0].noise = None


@pytest.mark.parametrize("name", METHODS)
def test_a_method_names_the_oracle_that_its_run_asks_for(name):
    method = METHODS[name]
    assert get_type_hints(method.run)["oracle"] is method.needs
    assert isinstance(ALL[name], Method)
    assert issubclass(method.needs, Oracle)


@pytest.mark.parametrize("name", METHODS)
def test_an_oracle_that_does_not_answer_is_refused_before_anything_is_asked(name):
    """Sums with noise are all that `Counting` gives."""
    asked, method = Counting(oracle_of()), ALL[name]
    if method.needs is Oracle:
        train(few_steps.problem(method, N, D - 1), BUDGET, method, asked)
        return
    with pytest.raises(TypeError, match=f"{name} needs an oracle that is a {method.needs.__name__}"):
        train(few_steps.problem(method, N, D - 1), BUDGET, method, asked)
    assert asked.sums == []


@pytest.mark.parametrize("name", METHODS)
def test_what_is_between_steps_may_be_seen_only_where_every_step_is_paid_for(name):
    method = ALL[name]
    plan = method.plan(few_steps.problem(method, N, D), BUDGET)
    if plan.step_events:
        assert flatten(plan.event)[0] == flatten(Composed(plan.step_events))[0]
    else:
        with pytest.raises(ValueError, match="cannot be kept or watched"):
            train(few_steps.problem(method, N, D - 1), BUDGET, method, oracle_of(), recorder=RunRecorder(None, [print]))


def test_only_the_end_of_a_contracting_descent_hides_its_steps():
    last = NoisyGradientDescent(9, 1.0).plan(PROBLEM, BUDGET)
    assert last.step_events == ()
    gaussian = GaussianDP(last.amplification / last.noise.multiplier)
    assert last.event == Approximate(gaussian, 9 * flatten(last.noise.event)[1])
    assert NoisyGradientDescent(9, 1.0, release="average").plan(PROBLEM, BUDGET).step_events
