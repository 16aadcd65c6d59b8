from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.ledger.ledger import Ledger, State
from sordino.methods import (
    DPSGD,
    DPAdam,
    DPRMSProp,
    NoisyGradientDescent,
    NoisySGD,
    OutputPerturbation,
    RandomRoundSGD,
    RecursiveMomentum,
)
from sordino.methods.network_schedule import CLIP, NOISE
from sordino.oracle.torch import TorchOracle, parameter_vector
from sordino.privacy.accountants import epsilon
from sordino.privacy.ledger_context import charged_to
from sordino.problem import NetworkProblem
from sordino.torch import PLANNED, Fitted, Report, fit, plan
from sordino.train import PrivacyWarning, train

N = 120
BUDGET = Budget(2.0, 1e-4)
ADAM = DPAdam(step_size=0.02, clip=1.0)
LOSS = nn.CrossEntropyLoss(reduction="none")

METHODS = {
    "sgd": DPSGD(step_size=0.5, clip=1.0, momentum=0.5),
    "adam": ADAM,
    "rmsprop": DPRMSProp(step_size=0.02, clip=1.0, release="random"),
    "recursive": RecursiveMomentum(step_size=0.5, clip=1.0, difference_clip=0.5, mix=0.3, first_batch=60),
    "random round": RandomRoundSGD(step_size=0.5, clip=1.0),
    "plain": NoisySGD(step_size=0.5, clip=1.0),
    "in order": DPSGD(step_size=0.5, clip=1.0, sampling="in_order"),
    "in turns": DPSGD(step_size=0.5, clip=1.0, noise="correlated", bands=2),
    "all records": NoisyGradientDescent(step_size=0.5, clip=1.0, release="average"),
}


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))


def rings(n=N):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    y = (np.hypot(*X.T) > 1.4).astype(int)
    return TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y))


def trained(model=None, dataset=None, loss=LOSS, **settings) -> Fitted:
    given = {"method": ADAM, "budget": BUDGET, "steps": 12, "batch_size": 40, "random_state": 0, **settings}
    return fit(model or small(), loss, dataset or rings(), **given)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_weights_and_a_certificate_that_verifies(name):
    model = small()
    before = parameter_vector(model)
    size = None if name == "all records" else 40
    result = trained(model, method=METHODS[name], batch_size=size, random_state=None)
    assert result.model is model
    assert np.isfinite(parameter_vector(model)).all()
    assert (parameter_vector(model) != before).any()
    again = Certificate.from_json(result.certificate.to_json())
    assert again == result.certificate
    assert all(finding.holds for finding in verify(again)), verify(again)
    assert (again.epsilon, again.delta) == (2.0, 1e-4)
    assert "Sequential of 32 weights" in again.problem.model
    # no weight is in it
    assert not any(f"{abs(weight):.6g}" in result.certificate.to_json() for weight in parameter_vector(model))


class TestPlanned:
    """Without a method: every number follows from how many records and weights there are, and from the budget."""

    @pytest.mark.parametrize("relation", Relation)
    def test_a_plan_is_told_beforehand_and_found_again(self, relation):
        budget = Budget(2.0, 1e-4, relation)
        given = {} if relation is Relation.REPLACE_ONE else {"records": N}
        told = plan(small(), LOSS, N, budget=budget)
        result = fit(small(), LOSS, rings(), budget=budget, **given)
        again = Certificate.from_json(result.certificate.to_json())
        assert again.plan == wire.to_plain(told)
        assert again.method == PLANNED
        assert all(finding.holds for finding in verify(again)), verify(again)
        # in units of the length that gradients of 32 weights begin with
        assert (told.clip, told.softening) == (pytest.approx(CLIP * 32**0.25), 0.0)
        # on every weight, in units of the first weights of a unit with sqrt(32) inputs
        rates = np.array([told.step_size_at(t) for t in range(told.steps)])
        spread = np.sqrt((rates**2).sum()) * told.noise.std / N / (1 - PLANNED.momentum)
        assert spread == pytest.approx(NOISE * 32**-0.25)

    def test_scaled_gradients_move_weights_as_far_as_clipped_ones(self):
        """A step and its noise are in units of the clip, whatever is done to gradients below it."""
        kinds = (PLANNED, replace(PLANNED, clipping="automatic"), replace(PLANNED, clip=7.0))
        clipped, scaled, wide = (plan(small(), LOSS, 4000, budget=BUDGET, method=kind) for kind in kinds)
        assert (scaled.clip, scaled.softening, wide.clip) == (1.0, 0.01, 7.0)
        assert scaled.step_size == pytest.approx(clipped.step_size * clipped.clip) == wide.step_size * wide.clip
        assert clipped.steps == scaled.steps == wide.steps

    def test_it_says_the_same_of_any_records(self):
        """A plan that looked at them would differ for records that are no numbers."""
        spoiled = TensorDataset(torch.full((N, 2), torch.nan), torch.zeros(N, dtype=torch.long))
        plans = [fit(small(), LOSS, data, budget=BUDGET, steps=3).certificate.plan for data in (rings(), spoiled)]
        assert plans[0] == plans[1]

    def test_a_plan_changed_by_hand_is_noticed(self):
        certificate = fit(small(), LOSS, rings(), budget=BUDGET, steps=3).certificate
        for name, factor in (("step_size", 1.5), ("clip", 0.5), ("softening", 2.0)):
            other = replace(certificate, plan={**certificate.plan, name: 0.1 + factor * certificate.plan[name]})
            assert not verify(other)[0].holds

    def test_batches_are_the_smallest_whose_steps_need_enough_noise(self):
        network, budget = NetworkProblem(60_000, 34_000), Budget(3.0, 1e-5)
        steps, batch = PLANNED.network_batches(network, budget, epochs=10)
        assert steps == -(-10 * 60_000 // batch)
        enough, half = (
            DPSGD(-(-600_000 // b), b, 1.0, 1.0).plan(network, budget).noise.std for b in (batch, batch // 2)
        )
        assert half < 1.2 <= enough
        # as by an independent accountant: half of that, the multiplier of a record that is replaced, is 0.597
        assert half / 2 == pytest.approx(0.597, abs=1e-3)

    def test_numbers_that_are_given_stay(self):
        told = plan(small(), LOSS, 4000, budget=BUDGET, epochs=2, batch_size=500)
        assert (told.steps, told.sampling.expected_size(4000)) == (16, 500)
        assert plan(small(), LOSS, 4000, budget=BUDGET, steps=7).steps == 7
        given = plan(small(), LOSS, 4000, budget=BUDGET, method=replace(PLANNED, noise_multiplier=40.0))
        assert given.noise.std == pytest.approx(40 * given.clip)
        assert epsilon(given.event, BUDGET.delta, BUDGET.relation) <= BUDGET.epsilon
        with pytest.raises(ValueError, match="give one of them"):
            plan(small(), LOSS, 4000, budget=BUDGET, steps=7, epochs=1)


@pytest.mark.slow
def test_it_learns_without_a_method():
    result = fit(small(), LOSS, rings(4000), budget=Budget(4.0, 1e-5), random_state=0)
    X, y = rings(4000).tensors
    assert (result.model(X).argmax(1) == y).float().mean() > 0.85


@pytest.mark.slow
def test_it_learns():
    result = trained(dataset=rings(4000), budget=Budget(4.0, 1e-5), steps=None, epochs=15, batch_size=400)
    X, y = rings(4000).tensors
    assert (result.model(X).argmax(1) == y).float().mean() > 0.85


def test_an_epoch_is_n_over_batch_size_steps():
    assert trained(steps=None, epochs=2).certificate.plan["steps"] == 6
    assert trained(steps=None, epochs=0.5).certificate.plan["steps"] == 2
    assert trained(dataset=rings(121), steps=None, epochs=1).certificate.plan["steps"] == 4


def test_settings_may_stand_in_the_method():
    method = DPAdam(step_size=0.02, clip=1.0, steps=5, batch_size=30)
    plan = trained(method=method, steps=None, batch_size=None).certificate.plan
    assert (plan["steps"], plan["sampling"]["rate"]) == (5, 0.25)


def test_arrays_are_records_too():
    X, y = (tensor.numpy() for tensor in rings().tensors)
    one, other = trained(dataset=(X, y)), trained()
    np.testing.assert_allclose(parameter_vector(one.model), parameter_vector(other.model), rtol=1e-6)


def test_weight_decay_pulls_towards_zero():
    model = small()
    result = trained(model, method=DPSGD(step_size=0.9, clip=1e-6), weight_decay=1.0)
    assert np.abs(parameter_vector(result.model)).max() < 1e-4


def test_add_remove_takes_a_public_count():
    result = trained(budget=Budget(2.0, 1e-4, Relation.ADD_REMOVE), records=100, random_state=None)
    assert result.certificate.problem.records == 100
    assert all(finding.holds for finding in verify(result.certificate))


def test_a_model_keeps_its_frozen_parameters():
    model = small()
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.clone()
    assert trained(model).certificate.problem.dim == 20
    assert torch.equal(model[0].weight, frozen)


class Noted(nn.Linear):
    def get_extra_state(self):
        return {"trained": "in spring"}


def test_a_model_that_no_certificate_can_be_about_costs_nothing(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("rings", BUDGET)
    with charged_to(ledger, "rings"), pytest.raises(ValueError, match="is no tensor"):
        trained(Noted(2, 2))
    assert ledger.entries("rings") == ()


def test_the_ledger_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("rings", BUDGET)
    with charged_to(ledger, "rings"):
        trained()
    assert [entry.state for entry in ledger.entries("rings")] == [State.SPENT]


class TestBudget:
    def test_given_noise_states_what_it_costs(self):
        certificate = trained(method=DPAdam(step_size=0.02, clip=1.0, noise_multiplier=10.0)).certificate
        assert certificate.epsilon == epsilon(certificate.event, 1e-4, Relation.REPLACE_ONE)
        assert certificate.epsilon < 1.5

    def test_given_noise_stops_at_the_last_step_the_budget_allows(self):
        method = DPAdam(step_size=0.02, clip=1.0, noise_multiplier=4.0)
        with pytest.warns(PrivacyWarning, match=r"allows \d+ of the 3000 steps"):
            certificate = trained(method=method, steps=3000, random_state=None).certificate
        taken = certificate.plan["steps"]
        assert certificate.method.steps == taken
        assert all(finding.holds for finding in verify(certificate))
        assert certificate.epsilon <= BUDGET.epsilon
        (step, count) = certificate.event.parts[0]
        one_more = type(certificate.event)(((step, count + 1),))
        assert epsilon(one_more, BUDGET.delta, BUDGET.relation) > BUDGET.epsilon

    def test_train_refuses_what_fit_would_cut(self):
        model, method = small(), DPAdam(step_size=0.02, clip=1.0, noise_multiplier=4.0, steps=3000, batch_size=40)
        problem = NetworkProblem(N, 32)
        oracle = TorchOracle(model, LOSS, rings(), problem)
        with pytest.raises(ValueError, match=r"would cost epsilon .* so nothing was run: take fewer steps"):
            train(problem, BUDGET, method, oracle, start=parameter_vector(model))

    def test_not_even_a_step(self):
        with pytest.raises(ValueError, match="a single step would cost more than epsilon 2"):
            trained(method=DPAdam(step_size=0.02, clip=1.0, noise_multiplier=0.02))

    def test_pure_budgets(self):
        with pytest.raises(ValueError, match="needs delta > 0"):
            trained(budget=Budget(2.0))


class TestCallbacks:
    def test_what_they_are_told(self):
        told = []
        trained(callbacks=[lambda moment: told.append((moment.step, moment.planned, moment.epsilon))])
        assert [step for step, _, _ in told] == list(range(1, 13))
        assert {planned for _, planned, _ in told} == {12}
        spent = [epsilon for _, _, epsilon in told]
        assert spent == sorted(spent)
        assert 0 < spent[0] < spent[-1] == pytest.approx(BUDGET.epsilon, rel=1e-3)

    def test_the_model_they_see_is_a_copy_of_the_present_one(self):
        seen, user = [], small()
        before = parameter_vector(user)

        def callback(moment):
            assert (parameter_vector(user) == before).all()
            copy = moment.model()
            assert not copy.training
            np.testing.assert_allclose(parameter_vector(copy), moment.weights(), rtol=1e-6)
            seen.append(parameter_vector(copy))

        trained(user, callbacks=[callback])
        np.testing.assert_array_equal(seen[-1], parameter_vector(user))
        assert (seen[0] != seen[-1]).any()

    def test_looking_changes_nothing(self):
        one = trained(callbacks=[lambda moment: moment.model()])
        np.testing.assert_array_equal(parameter_vector(one.model), parameter_vector(trained().model))

    def test_a_report_tells_steps_time_and_budget(self):
        lines = []
        trained(callbacks=[Report(every=5, write=lines.append)])
        assert [line.split(",")[0] for line in lines] == ["step 5 of 12", "step 10 of 12", "step 12 of 12"]
        assert lines[-1].endswith("epsilon 2 so far")


class Stream(IterableDataset):
    def __iter__(self):
        yield from ()


class Growing(Dataset):
    def __init__(self):
        self.data, self.asked = rings(), 0

    def __len__(self):
        return N + (self.asked > 100)

    def __getitem__(self, number):
        self.asked += 1
        return self.data[number % N]


def batch_norm():
    return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))


def frozen():
    return small().requires_grad_(False)


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"dataset": DataLoader(rings())}, "pass the Dataset itself"),
            ({"dataset": Stream()}, "without a length|has no length"),
            ({"dataset": Growing()}, "had 120 records and now has 121"),
            ({"model": batch_norm()}, "use nn.GroupNorm"),
            ({"model": frozen()}, "no trainable parameter"),
            ({"model": nn.Sequential(nn.LazyLinear(2))}, "uninitialized"),
            ({"loss": nn.CrossEntropyLoss()}, "reduction"),
            ({"epochs": 1}, "epochs is 1 and steps is 12: give one of them"),
            ({"steps": None}, "epochs or steps is missing"),
            ({"batch_size": None}, "batch_size is missing"),
            ({"steps": None, "epochs": -1}, "epochs is -1: it must be positive"),
            ({"steps": 0}, "steps is 0"),
            ({"steps": 2.5}, "whole number"),
            ({"batch_size": 121}, "between 1 and the 120 records"),
            ({"batch_size": 0}, "between 1 and the 120 records"),
            ({"method": DPAdam(step_size=0.02, clip=1.0, steps=3)}, "epochs or steps is given twice"),
            ({"method": DPAdam(step_size=0.02)}, "on a network needs clip"),
            ({"method": OutputPerturbation()}, "a network is trained by noisy sums"),
            ({"method": NoisyGradientDescent(step_size=1.0, clip=1.0)}, "batch_size is given twice"),
            (
                {"method": NoisyGradientDescent(3, 1.0, 1.0, "trajectory"), "batch_size": None, "steps": None},
                "one model",
            ),
            ({"method": "adam"}, "a network is trained by noisy sums"),
            ({"resume": True}, "without a checkpoint"),
            ({"records": 100}, "leave `records` out"),
            ({"budget": Budget(1.0, 1e-4, Relation.ADD_REMOVE)}, "records is required"),
        ],
    )
    def test_each_is_a_sentence(self, change, sentence):
        with pytest.raises((ValueError, TypeError), match=sentence):
            trained(**change)

    def test_a_model_that_was_refused_is_untouched(self):
        model = small()
        before = parameter_vector(model)
        with pytest.raises(ValueError, match="GroupNorm"):
            trained(nn.Sequential(model, nn.BatchNorm1d(2)))
        np.testing.assert_array_equal(parameter_vector(model), before)


def test_records_that_are_not_numbers_count_for_nothing():
    X, y = (tensor.clone() for tensor in rings().tensors)
    settings = {"method": DPSGD(step_size=0.5, clip=1.0), "batch_size": N}
    X[::7] = torch.nan
    spoiled = trained(dataset=TensorDataset(X.clone(), y.clone()), **settings)
    # the same, with records whose loss is a constant in their place
    X[::7], y[::7] = 0.0, LOSS.ignore_index
    rest = trained(dataset=TensorDataset(X, y), **settings)
    np.testing.assert_allclose(parameter_vector(spoiled.model), parameter_vector(rest.model), rtol=1e-5, atol=1e-7)


def test_importing_sordino_does_not_import_torch():
    code = (
        "import sys, sordino, sordino.estimators, sordino.train, sordino.checkpoint; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_warnings_are_privacy_warnings_only():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained()


@pytest.mark.slow
def test_the_example_runs_and_gives_the_same_model_again(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "mnist.py"
    certified = []
    for _ in range(2):
        done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        certified.append(torch.load(tmp_path / "mnist-weights.pt", weights_only=True))
    assert all(torch.equal(certified[0][name], certified[1][name]) for name in certified[0])
    assert Certificate.load(tmp_path / "mnist-certificate.json").notes


def test_what_is_no_model_is_a_sentence():
    for ask in (partial(fit, dataset=rings()), partial(plan, records=N)):
        with pytest.raises(TypeError, match=r"model is .*: give a torch\.nn\.Module"):
            ask(torch.tanh, LOSS, budget=BUDGET, epochs=1)
