"""DP-SGD with correlated noise: what is run is what is accounted, and whatever would break the promise is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.checkpoint import Checkpoint, RunRecorder
from sordino.estimators.classifiers import PrivateLogisticRegression
from sordino.losses import Logistic
from sordino.methods import DPSGD
from sordino.methods.schedule import LONGEST, balanced_descent
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import CyclicPoisson, FullBatch, InOrder, Poisson
from sordino.privacy.accountants import epsilon
from sordino.privacy.correlated_noise import CorrelatedNoise, NoiseOfRun
from sordino.privacy.correlation import BandedToeplitz, BufferedToeplitz
from sordino.privacy.events import Approximate, Composed, GaussianDP, flatten
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, PersonUnit, Problem
from sordino.progress import recorded_by
from sordino.train import train

N, D = 103, 3
PROBLEM = Problem(N, D, Logistic())
BUDGET = Budget(2.0, 1e-5)
SETTINGS = {"steps": 24, "batch_size": 10, "step_size": 0.5, "clip": 0.4}
KINDS = {
    "in order": {"sampling": "in_order"},
    "in order, bands": {"sampling": "in_order", "bands": 5},
    "in order, independent": {"sampling": "in_order", "noise": "independent"},
    "in turns": {"noise": "correlated", "bands": 4},
}


def method_of(name="in order", **settings):
    return DPSGD(**SETTINGS | KINDS[name] | settings)


def oracle_of(problem=PROBLEM, relation=Relation.REPLACE_ONE):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(problem.records, D))
    return linear_oracle(X, np.where(X[:, 0] > 0, 1.0, -1.0), problem, Rows(2.0), relation)


LARGE = Problem(20_000, 10, Logistic())


def test_a_run_in_order_is_planned_from_public_facts():
    plan = DPSGD(sampling="in_order").plan(LARGE, BUDGET)
    assert isinstance(plan.noise, CorrelatedNoise)
    assert isinstance(plan.noise.correlation, BufferedToeplitz)
    assert plan.steps == 4 * plan.sampling.batches
    assert epsilon(plan.event, BUDGET.delta, BUDGET.relation) == pytest.approx(BUDGET.epsilon, rel=1e-3)
    # noise that is not taken back is best in fewer, larger steps that are not as far
    alone = DPSGD(sampling="in_order", noise="independent").plan(LARGE, BUDGET)
    assert alone.sampling.batches < plan.sampling.batches
    assert alone.steps * alone.step_size < plan.steps * plan.step_size
    X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 3))
    model = PrivateLogisticRegression(2.0, row_norm=2.0, classes=[False, True], method=DPSGD(sampling="in_order"))
    model.fit(X, X[:, 0] > 0)
    assert all(finding.holds for finding in verify(model.certificate_))
    assert model.score(X, X[:, 0] > 0) > 0.8


def test_what_is_given_of_a_run_in_order_stays():
    given = {"steps": 60, "batch_size": 900, "step_size": 0.3, "clip": 0.7}
    for name, value in given.items():
        plan = DPSGD(sampling="in_order", **{name: value}).plan(LARGE, BUDGET)
        found = {"batch_size": 20_000 / plan.sampling.batches} | {
            n: getattr(plan, n) for n in given if n != "batch_size"
        }
        assert found[name] == pytest.approx(value, rel=0.05)
    assert DPSGD(sampling="in_order", bands=60).plan(LARGE, BUDGET).sampling.batches >= 60
    plain, slow = (DPSGD(400, 200, sampling="in_order", momentum=m).plan(LARGE, BUDGET) for m in (0.0, 0.5))
    assert slow.step_size == pytest.approx(plain.step_size / 2)


def test_whole_batches_in_order_are_a_descent_on_all_records():
    problem, budget = Problem(300, 5, Logistic()), Budget(0.2, 1e-5)
    plan = DPSGD(sampling="in_order", noise="independent", batch_size=300, steps=30).plan(problem, budget)
    whole = balanced_descent(problem, budget, paid="every step", longest=LONGEST)
    assert plan.steps * plan.step_size == pytest.approx(whole.steps * whole.step_size, rel=0.1)


class Noting:
    """Notes the batches and noises that a run asks for."""

    def __init__(self, oracle):
        self.oracle, self.batches, self.noises, self.samplings = oracle, [], [], []

    def draw(self, sampling, randomness):
        self.samplings.append(sampling)
        self.batches.append(self.oracle.draw(sampling, randomness))
        return self.batches[-1]

    def release(self, query, noise, randomness):
        assert query.batch is self.batches[-1]
        assert query.sensitivity(Relation.REPLACE_ONE) <= noise.sensitivity
        self.noises.append(noise)
        return self.oracle.release(query, noise, randomness)


@pytest.mark.parametrize("name", KINDS)
def test_tight_noise_earns_the_budget_and_no_more(name):
    for settings in ({}, {"steps": 1, "bands": None, "noise": "auto"}, {"steps": 30}):
        plan = method_of(name, **settings).plan(PROBLEM, BUDGET)
        assert 0.999 * BUDGET.epsilon <= epsilon(plan.event, BUDGET.delta, BUDGET.relation) <= BUDGET.epsilon


def test_kinds_of_noise_and_batches():
    plans = {name: method_of(name).plan(PROBLEM, BUDGET) for name in KINDS}
    assert all(plans[name].sampling == InOrder(11) for name in KINDS if name != "in turns")
    assert plans["in turns"].sampling == CyclicPoisson(40 / N, 4)
    kinds = {name: plan.noise.correlation for name, plan in plans.items()}
    assert isinstance(kinds["in order"], BufferedToeplitz)
    assert isinstance(kinds["in order, bands"], BandedToeplitz)
    assert kinds["in order, bands"].bands == 5
    assert kinds["in order, independent"] == BandedToeplitz()
    assert kinds["in turns"].bands == 4
    for plan in plans.values():
        assert plan.step_events == ()
        assert isinstance(plan.event, Approximate | Composed)
    assert isinstance(plans["in order"].event.event, GaussianDP)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_run_is_what_is_accounted(name):
    """One noise for the whole run, asked once in every step; a record's batches as far apart as the noise was told."""
    method = method_of(name)
    plan, asked = method.plan(PROBLEM, BUDGET), Noting(oracle_of())
    assert method.run(plan, PROBLEM, asked, Randomness.seeded(1)).event == plan.event
    assert len(asked.noises) == plan.steps == plan.noise.steps
    assert isinstance(asked.noises[0], NoiseOfRun)
    assert all(noise is asked.noises[0] for noise in asked.noises)
    for t, batch in enumerate(asked.batches):
        for earlier in asked.batches[max(0, t - plan.noise.apart + 1) : t]:
            assert not np.intersect1d(batch, earlier).size
    if name != "in turns":
        for epoch in range(0, 22, 11):
            whole = np.concatenate(asked.batches[epoch : epoch + 11])
            np.testing.assert_array_equal(whole, np.arange(N))


def test_a_run_begins_with_new_noise_every_time():
    method, randomness = method_of(), Randomness.seeded(1)
    plan = method.plan(PROBLEM, BUDGET)
    one, other = (method.run(plan, PROBLEM, oracle_of(), randomness).weights for _ in range(2))
    assert (one != other).all()
    again = method.run(plan, PROBLEM, oracle_of(), Randomness.seeded(1)).weights
    np.testing.assert_array_equal(one, again)


def test_runs_side_by_side_have_noise_of_their_own():
    method = method_of()
    weights = method.run(
        method.plan(PROBLEM, BUDGET), PROBLEM, oracle_of(), Randomness.seeded(1), np.zeros((4, D))
    ).weights
    assert len({tuple(row) for row in weights.tolist()}) == 4


@pytest.mark.parametrize("name", KINDS)
def test_the_certificate_is_planned_and_accounted_again(name):
    trained = train(PROBLEM, BUDGET, method_of(name), oracle_of(), rows=Rows(2.0))
    certificate = Certificate.from_json(trained.certificate.to_json())
    found = verify(certificate, {"weights": trained.weights})
    assert all(finding.holds for finding in found), found
    less = replace(certificate, plan=certificate.plan | {"steps": 23})
    assert not all(finding.holds for finding in verify(less))
    cheaper = replace(certificate, method=replace(certificate.method, steps=23))
    assert not all(finding.holds for finding in verify(cheaper))


@pytest.mark.filterwarnings("ignore::sordino.PrivacyWarning")
def test_what_is_learnt_before_is_paid_for_beside_the_run():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, D))
    method = DPSGD(40, 40, 0.5, sampling="in_order")
    model = PrivateLogisticRegression(1.0, row_norm=2.0, classes=[False, True], method=method, prepare=["centre"])
    certificate = model.fit(X, X[:, 0] > 0).certificate_
    assert all(finding.holds for finding in verify(certificate))
    assert len(flatten(certificate.event)[0]) == 2


def test_the_certificate_knows_nothing_of_the_run():
    """The plan that is printed is the one that was made before a record was seen."""
    method = method_of()
    trained = [train(PROBLEM, BUDGET, method, oracle_of(), rows=Rows(2.0)).certificate for _ in range(2)]
    assert trained[0].plan == trained[1].plan
    assert set(trained[0].plan["noise"]) == {"kind", "sensitivity", "std", "dim", "correlation", "steps", "apart"}


def test_correlated_noise_is_less_noise():
    """Iterates differ from those without noise by less; a run of four epochs gains 4 to 5 times."""
    problem = Problem(1000, D, Logistic())
    errors = {}
    for noise in ("correlated", "independent"):
        method = DPSGD(400, 10, 1e-6, 0.4, sampling="in_order", noise=noise)
        plan = method.plan(problem, BUDGET)
        runs = method.run(plan, problem, oracle_of(problem), Randomness.seeded(2), np.zeros((300, D))).weights
        errors[noise] = np.std(runs, axis=0).mean()
    assert 3.5 < errors["independent"] / errors["correlated"] < 6


@pytest.mark.slow
def test_bands_are_chosen_where_they_win_and_nowhere_else():
    """Table of the gain: at b = 100 batches, 4 epochs and epsilon 1 nothing, at epsilon 8 sixteen bands or so."""
    problem = Problem(10_000, D, Logistic())
    method = DPSGD(400, 100, 0.5, 0.4, noise="correlated")
    few = method.plan(problem, Budget(0.5, 1e-5))
    assert isinstance(few.sampling, Poisson)
    assert isinstance(few.noise, GaussianNoise)
    many = method.plan(problem, Budget(8.0, 1e-5))
    assert isinstance(many.sampling, CyclicPoisson)
    assert 8 <= many.sampling.period <= 32
    assert many.sampling.rate == pytest.approx(many.sampling.period * 0.01)
    assert epsilon(many.event, 1e-5, Relation.REPLACE_ONE) <= 8.0
    assert replace(method, noise="auto").plan(problem, Budget(8.0, 1e-5)).sampling == Poisson(0.01)


def test_noise_that_was_given():
    plan = method_of(noise_multiplier=30.0).plan(PROBLEM, BUDGET)
    assert plan.noise.std == pytest.approx(30 * 0.4, rel=1e-6)


def kept(tmp_path):
    return RunRecorder(Checkpoint(tmp_path / "run"))


def watched(tmp_path):
    return RunRecorder(callbacks=[lambda moment: None])


@pytest.mark.parametrize("recorder", [kept, watched])
@pytest.mark.parametrize("name", KINDS)
def test_a_run_is_not_kept(name, recorder, tmp_path):
    """Going on without the noise that was added before would release the same steps with other noise."""
    with pytest.raises(ValueError, match="a secret that belongs on no disk"):
        train(PROBLEM, BUDGET, method_of(name), oracle_of(), rows=Rows(2.0), recorder=recorder(tmp_path))
    assert not (tmp_path / "run").exists()


def test_no_recorder_sees_the_state():
    """Also where one is brought in past the check."""
    method = method_of()
    plan = method.plan(PROBLEM, BUDGET)
    with recorded_by(RunRecorder()), pytest.raises(ValueError, match="does not put its state"):
        method.run(plan, PROBLEM, oracle_of(), Randomness.seeded(0))


def test_a_plan_of_other_length_or_other_batches_is_refused():
    plan = method_of().plan(PROBLEM, BUDGET)
    with pytest.raises(ValueError, match="24 steps in a run of 25"):
        replace(plan, steps=25)
    for sampling in (Poisson(0.1), FullBatch()):
        with pytest.raises(ValueError, match="may come back at any step"):
            replace(plan, sampling=sampling)
    with pytest.raises(ValueError, match="come back sooner"):
        _ = replace(plan, sampling=InOrder(10)).event
    # fewer steps have told less, and are charged for all
    shorter = replace(plan, steps=5)
    assert shorter.event == plan.event
    with pytest.raises(ValueError, match="remembers longer"):
        _ = replace(plan, sampling=CyclicPoisson(0.5, 11)).event


PERSONS = Problem(N, D, Logistic(), person=PersonUnit(3))
REFUSED = {
    "add/remove in order": (method_of(), PROBLEM, Relation.ADD_REMOVE, "moves all that stand behind it"),
    "add/remove in turns": (method_of("in turns"), PROBLEM, Relation.ADD_REMOVE, "moves all that stand behind it"),
    "persons in order": (method_of(), PERSONS, Relation.REPLACE_ONE, "where their identifier puts them"),
    "persons in turns": (method_of("in turns"), PERSONS, Relation.REPLACE_ONE, "where their identifier puts them"),
    "fixed size": (method_of("in turns", sampling="fixed_size"), PROBLEM, Relation.REPLACE_ONE, "fixed size"),
    "bands of nothing": (DPSGD(**SETTINGS, bands=3), PROBLEM, Relation.REPLACE_ONE, "ask for noise='correlated'"),
    "bands of independent noise": (
        method_of("in order, independent", bands=2),
        PROBLEM,
        Relation.REPLACE_ONE,
        "leave one out",
    ),
    "bands beyond an epoch": (method_of("in order, bands", bands=12), PROBLEM, Relation.REPLACE_ONE, "at most"),
    "more groups than batches": (method_of("in turns", bands=11), PROBLEM, Relation.REPLACE_ONE, "at most"),
    "a multiplier without bands": (
        method_of("in turns", bands=None, noise_multiplier=2.0),
        PROBLEM,
        Relation.REPLACE_ONE,
        "say how many bands",
    ),
    "no such noise": (method_of(noise="pink"), PROBLEM, Relation.REPLACE_ONE, "noise is 'pink'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    method, problem, relation, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        method.plan(problem, replace(BUDGET, relation=relation))


def test_an_oracle_refuses_places_where_others_would_move():
    oracle = oracle_of(relation=Relation.ADD_REMOVE)
    for sampling in (InOrder(5), CyclicPoisson(0.5, 5)):
        with pytest.raises(ValueError, match="moves all that stand behind it"):
            oracle.draw(sampling, Randomness.seeded(0))


def test_a_network_is_planned_alike():
    plan = method_of().plan(NetworkProblem(N, 7, "a network"), BUDGET)
    assert isinstance(plan.noise, CorrelatedNoise)
    assert plan.noise.dim == 7
