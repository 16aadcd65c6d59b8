"""The search: what it plans, what it picks, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.certificate import verify
from sordino.losses import Huber, Logistic
from sordino.methods import (
    NoisyGradientDescent,
    NoisySGD,
    OutputPerturbation,
    RepeatedSelection,
    Setting,
)
from sordino.methods.descend import can_go_beside, descend, descend_side_by_side
from sordino.methods.repeated_selection import MOST_ACCOUNTED, MOST_SETTINGS
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, Poisson
from sordino.penalties import Ridge
from sordino.privacy import accountants, calibrate
from sordino.privacy.events import Selected, flatten
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.progress import watching
from sordino.train import train

N, D = 4000, 3
BUDGET = Budget(1.0, 1e-7)
TIMID, GOOD = Setting(NoisyGradientDescent(5, 0.01)), Setting(NoisyGradientDescent(50, 2.0))
CLEAR = RepeatedSelection((TIMID, GOOD))
ON_BATCHES = NoisySGD(20, 200, 2.0)
OF_MANY_SIZES = tuple(Setting(replace(ON_BATCHES, batch_size=200 + k)) for k in range(MOST_ACCOUNTED + 1))


def problem(records=N):
    return Problem(records, D, Logistic())


def oracle(relation=Relation.REPLACE_ONE, records=N):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (records, D)) / math.sqrt(D)
    y = np.where(X @ [6.0, -4.0, 2.0] + 0.3 * rng.logistic(size=records) > 0, 1.0, -1.0)
    return linear_oracle(X, y, problem(records), Rows(1.0), relation)


@pytest.fixture(scope="module")
def plan():
    return CLEAR.plan(problem(), BUDGET)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("law", ["poisson", "geometric", "logarithmic"])
def test_the_whole_search_costs_the_budget(relation, law):
    budget = replace(BUDGET, relation=relation)
    planned = replace(CLEAR, law=law).plan(problem(), budget)
    spent = accountants.epsilon(planned.event, budget.delta, relation)
    assert 0.999 * budget.epsilon < spent <= budget.epsilon
    # one run alone is planned for less, and costs what it is planned for, on either part of the records
    assert planned.run_budget.epsilon < 0.8 * budget.epsilon
    for event in (*(one.event for one in planned.plans), planned.noise.event):
        run = accountants.epsilon(event, budget.delta, relation)
        assert run == pytest.approx(planned.run_budget.epsilon, rel=1e-3)


def test_the_event_names_both_parts_of_a_run(plan):
    leaves, _ = flatten(plan.event)
    (selected,) = leaves
    assert isinstance(selected, Selected)
    assert (selected.mean_runs, selected.law) == (4.0, "poisson")
    assert len(selected.events) == 3


def test_more_settings_leave_less_for_each(plan):
    more = RepeatedSelection((TIMID, GOOD) * 4).plan(problem(), BUDGET)
    assert more.repetitions.mean == 16
    assert more.run_budget.epsilon < plan.run_budget.epsilon


def test_runs_are_planned_for_the_training_part(plan):
    kept = problem(N - N // 10)
    assert plan.held_out == FixedSize(N // 10)
    assert plan.held_out_records == N // 10
    assert plan.plans[1] == GOOD.method.plan(kept, plan.run_budget)
    # a mean over fewer records moves further: noise on the output must know how many there are
    whole = OutputPerturbation(20, 1.0)
    (output,) = RepeatedSelection((Setting(whole),)).plan(problem(), BUDGET).plans
    assert output.sensitivity == whole.plan(kept, BUDGET).sensitivity > whole.plan(problem(), BUDGET).sensitivity
    # a held-out loss lies in [0, C]: replacing a record moves the sum by C
    assert plan.score_clip == plan.noise.sensitivity == pytest.approx(2 * math.log(2))


def test_a_setting_may_bring_its_own_penalty():
    search = RepeatedSelection((Setting(GOOD.method, 0.0), Setting(GOOD.method, 1.0)))
    stated = replace(problem(), penalty=Ridge(0.5))
    planned = search.plan(stated, BUDGET)
    kept = replace(stated, records=N - N // 10)
    for one, strength in zip(planned.plans, (0.0, 1.0), strict=True):
        assert one == GOOD.method.plan(replace(kept, penalty=Ridge(strength)), planned.run_budget)
    released = search.run(planned, stated, oracle(), Randomness.seeded(1))
    assert released.chosen == 0
    # without the penalty weights are several times longer
    assert np.linalg.norm(released.weights) > 2


def test_coins_split_where_the_number_of_records_is_private():
    budget = replace(BUDGET, relation=Relation.ADD_REMOVE)
    planned = CLEAR.plan(problem(), budget)
    assert planned.held_out == Poisson(0.1)
    # the stand-in is public and need not be the true number
    released = CLEAR.run(planned, problem(), oracle(Relation.ADD_REMOVE, N + 37), Randomness.seeded(2))
    assert released.chosen == 1


@pytest.mark.slow
def test_the_clearly_better_setting_is_picked(plan):
    """Nearly always when it is tried at all, which one search in seven does not (e^-2)."""
    records = oracle()
    picked = [CLEAR.run(plan, problem(), records, Randomness.seeded(seed)).chosen for seed in range(60)]
    assert picked.count(1) >= 44
    assert picked.count(1) < 60


def test_the_released_model_is_a_good_one(plan):
    records = oracle()
    seed = next(s for s in range(10) if CLEAR.run(plan, problem(), records, Randomness.seeded(s)).chosen == 1)
    weights = CLEAR.run(plan, problem(), records, Randomness.seeded(seed)).weights
    assert weights.shape == (D,)
    assert records.value(weights) < 0.45 < records.value(np.zeros(D))


def test_searches_side_by_side(plan):
    """A stack of starts makes as many searches; where no run was drawn the start is returned."""
    start = np.full((300, D), 9.0)
    released = CLEAR.run(plan, problem(), oracle(), Randomness.seeded(3), start)
    untouched = (released.weights == 9.0).all(axis=1)
    # e^-4 = 1.8 %
    assert 1 <= untouched.sum() <= 15
    near = np.linalg.norm(released.weights - 9, axis=1) < 3  # the timid setting hardly moves
    assert 20 < near.sum() - untouched.sum() < 80
    assert released.chosen is None


def test_no_run_at_all_has_no_chosen_setting():
    search = RepeatedSelection((GOOD,), mean_runs=1.0)
    planned = search.plan(problem(), BUDGET)
    released = [search.run(planned, problem(), oracle(), Randomness.seeded(seed)) for seed in range(12)]
    missing = [one for one in released if one.chosen is None]
    assert 0 < len(missing) < 12
    assert not any(one.weights.any() for one in missing)


def test_progress_does_not_tell_how_many_runs_there_were(plan):
    told = []
    with watching(lambda done, planned: told.append(done)):
        CLEAR.run(plan, problem(), oracle(), Randomness.seeded(1))
    assert told == []


@pytest.mark.slow
def test_methods_of_every_kind_can_be_compared():
    """Output perturbation by its exact oracle, sampled batches by their moments."""
    settings = (Setting(OutputPerturbation(30)), Setting(NoisySGD(20, 200, 2.0)), GOOD)
    search = RepeatedSelection(settings, mean_runs=3)
    small, budget = problem(1000), Budget(2.0, 1e-5)
    planned = search.plan(small, budget)
    assert accountants.epsilon(planned.event, budget.delta, budget.relation) <= budget.epsilon
    released = search.run(planned, small, oracle(records=1000), Randomness.seeded(5))
    assert released.weights.shape == (D,)


def test_plan_and_settings_are_plain(plan):
    kinds = {kind.__name__: kind for kind in (RepeatedSelection, Setting, NoisyGradientDescent)}
    assert wire.from_plain(wire.to_plain(CLEAR), kinds) == CLEAR
    assert wire.to_plain(plan)["plans"][1]["steps"] == 50


@pytest.mark.parametrize(
    ("search", "budget", "sentence"),
    [
        (RepeatedSelection(), BUDGET, "there are 0 settings"),
        (RepeatedSelection((GOOD,) * (MOST_SETTINGS + 1)), BUDGET, f"at most {MOST_SETTINGS}"),
        (RepeatedSelection(OF_MANY_SIZES), BUDGET, f"more than {MOST_ACCOUNTED} settings are on batches"),
        (CLEAR, Budget(1.0), "delta is 0, but a search adds Gaussian noise"),
        (RepeatedSelection((Setting(NoisyGradientDescent(calibration="paper")),)), BUDGET, "calibration='paper'"),
        (RepeatedSelection((Setting(NoisyGradientDescent(release="trajectory")),)), BUDGET, "its whole path"),
        (RepeatedSelection((Setting(CLEAR),)), BUDGET, "a setting is a search itself"),
        (replace(CLEAR, mean_runs=0.5), BUDGET, "mean_runs is 0.5"),
        (replace(CLEAR, law="uniform"), BUDGET, "law is 'uniform'"),
        (replace(CLEAR, held_out=0.0), BUDGET, "held_out is 0.0"),
        (replace(CLEAR, held_out=1.0), BUDGET, "held_out is 1.0"),
        (replace(CLEAR, score_clip=0.0), BUDGET, "score_clip is 0.0"),
        (replace(CLEAR, score_clip=math.inf), BUDGET, "score_clip is inf"),
    ],
)
def test_refusals(search, budget, sentence):
    with pytest.raises(ValueError, match=sentence):
        search.plan(problem(), budget)


def test_fixed_size_batches_are_refused_where_they_have_no_meaning():
    search = RepeatedSelection((Setting(NoisySGD(20, 200, 2.0, sampling="fixed_size")),))
    with pytest.raises(ValueError, match=r"fixed-size|no Renyi divergence under add_remove"):
        search.plan(problem(), replace(BUDGET, relation=Relation.ADD_REMOVE))


def test_a_loss_without_a_bound_at_zero_needs_a_clip():
    unbounded = Problem(N, D, Huber())
    with pytest.raises(ValueError, match="score_clip is inf"):
        CLEAR.plan(unbounded, BUDGET)
    assert replace(CLEAR, score_clip=3.0).plan(unbounded, BUDGET).score_clip == 3.0


def test_runs_on_all_records_go_side_by_side_and_end_where_they_end_alone():
    """With other steps, clips, penalties and updates; with hardly any noise, so that their ends can be compared."""
    hardly = [GaussianNoise(2.0, std, D) for std in (1e-6, 3e-6)]
    methods = (
        (NoisyGradientDescent(30, 1.0), 0.0, hardly[0]),
        (NoisyGradientDescent(12, 0.5), 0.1, hardly[1]),
        (NoisyGradientDescent(30, 1.0, clip=0.3), 0.01, hardly[0]),
        (NoisyGradientDescent(20, 2.0, release="average"), 0.0, hardly[1]),
    )
    records, runs = oracle(), []
    for rows, (method, l2, noise) in enumerate(methods, 1):
        stated = replace(problem(), penalty=Ridge(l2))
        plan = replace(method.plan(stated, BUDGET), noise=noise, amplification=None)
        assert can_go_beside(plan)
        runs.append((plan, stated, np.random.default_rng(rows).normal(size=(rows, D))))
    together = descend_side_by_side(runs, records, Randomness.seeded(0))
    for (plan, stated, start), end in zip(runs, together, strict=True):
        alone = descend(plan, stated, records, Randomness.seeded(1), start)
        np.testing.assert_allclose(end.weights, alone.weights, atol=1e-5)
        assert end.event == alone.event
        # every row has drawn noise of its own
        assert not (end.weights == alone.weights).any()


def test_a_question_of_several_runs_is_refused_where_one_has_too_little_noise():
    plan = NoisyGradientDescent(5, 1.0).plan(problem(), BUDGET)
    weak = replace(plan, noise=GaussianNoise(plan.noise.sensitivity / 2, plan.noise.std, D), amplification=None)
    start = np.zeros((1, D))
    with pytest.raises(ValueError, match="calibrate the noise to the query"):
        descend_side_by_side([(plan, problem(), start), (weak, problem(), start)], oracle(), Randomness.seeded(0))


def test_a_method_that_runs_otherwise_is_left_to_run():
    """Whoever plans a descent need not follow it as it stands."""

    class Elsewhere(NoisyGradientDescent):
        @staticmethod
        def run(plan, *given):
            end = descend(plan, *given)
            return replace(end, weights=end.weights + 100.0)

    search = RepeatedSelection((Setting(Elsewhere(5, 0.01)),), mean_runs=4.0)
    released = search.run(search.plan(problem(), BUDGET), problem(), oracle(), Randomness.seeded(1))
    assert released.chosen == 0
    assert (released.weights > 90).all()


def test_runs_of_a_search_have_no_batch_and_no_random_end_in_common():
    """The theorem asks for independent runs: what a stack shares would make them dependent."""
    assert not can_go_beside(ON_BATCHES.plan(problem(), BUDGET))
    assert not can_go_beside(NoisyGradientDescent(20, 1.0, release="random").plan(problem(), BUDGET))
    assert not can_go_beside(OutputPerturbation(20, 1.0).plan(problem(), BUDGET))
    search = RepeatedSelection((Setting(ON_BATCHES), GOOD), mean_runs=12.0)
    planned, drawn, records = search.plan(problem(), BUDGET), [], oracle()
    draw = type(records).draw

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(records),
            "draw",
            lambda self, sampling, randomness: drawn.append(sampling) or draw(self, sampling, randomness),
        )
        asked = []
        run = NoisySGD.run
        patch.setattr(NoisySGD, "run", staticmethod(lambda *given: asked.append(given[-1]) or run(*given)))
        search.run(planned, problem(), records, Randomness.seeded(5))
    assert len(asked) > 1
    assert all(len(start) == 1 for start in asked)
    # a batch for every step of every such run
    assert sum(isinstance(sampling, Poisson) for sampling in drawn) == 20 * len(asked)


@pytest.mark.slow
def test_settings_with_equal_events_are_accounted_for_once(monkeypatch):
    """However many steps, penalties and clips are tried."""
    sought, search = [], calibrate._search
    monkeypatch.setattr(calibrate, "_search", lambda build, budget: sought.append(budget) or search(build, budget))
    monkeypatch.setattr(calibrate, "_found", {})
    wide = tuple(Setting(replace(ON_BATCHES, step_size=0.1 * k), 0.01 * k) for k in range(1, 20))
    planned = RepeatedSelection(wide, mean_runs=4.0).plan(problem(), BUDGET)
    assert len(sought) == len(set(sought)) < 10
    assert len({one.event for one in planned.plans}) == 1
    assert 0.99 * BUDGET.epsilon <= accountants.epsilon(planned.event, BUDGET.delta, BUDGET.relation) <= BUDGET.epsilon


def test_a_search_is_verified_by_planning_every_setting_once(monkeypatch):
    search = RepeatedSelection((Setting(ON_BATCHES), TIMID), mean_runs=2.0)
    trained = train(problem(), BUDGET, search, oracle())
    asked, plan = [], NoisySGD.plan
    monkeypatch.setattr(NoisySGD, "plan", lambda self, *facts: asked.append(facts) or plan(self, *facts))
    assert all(finding.holds for finding in verify(trained.certificate))
    assert len(asked) == 1
    # a run that may cost more than the budget leaves it: what is stated is checked
    run = trained.certificate.plan["run_budget"]
    more = {**trained.certificate.plan, "run_budget": {**run, "epsilon": 1.2 * run["epsilon"]}}
    for altered in (more, {**more, "run_budget": None}):
        assert not all(finding.holds for finding in verify(replace(trained.certificate, plan=altered)))
