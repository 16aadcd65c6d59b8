from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import owners
from in_the_open import InTheOpen
from plain_gradients import exact
from sordino.budget import Budget, Relation
from sordino.certificate import verify
from sordino.federation.agreement import agree
from sordino.federation.party import RecordHolder, Server
from sordino.federation.secure_oracle import SecureOracle
from sordino.methods import (
    DPSGD,
    BassilySmithThakurta,
    DPAdam,
    NoisyGradientDescent,
    NoisySGD,
    RandomRoundSGD,
    RecursiveMomentum,
    SpiderBoost,
)
from sordino.oracle.query import ClippedLoss, Difference, Gradient, Recursion
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

X, Y = owners.data()
SETTINGS = [
    (2, "distributed", 1),
    (3, "distributed", 2),
    (4, "distributed", 2),
    (1, "committee", 1),
    (3, "committee", 1),
    (3, "joint", 1),
    (5, "joint", 2),
]
METHODS = [
    NoisyGradientDescent(steps=3, step_size=1.0, release="average"),
    NoisySGD(steps=3, batch_size=30),
    NoisySGD(steps=3, batch_size=30, sampling="fixed_size"),
    RecursiveMomentum(steps=3, batch_size=30, release="random"),
    SpiderBoost(steps=3, batch_size=30, period=2),
    RandomRoundSGD(steps=3, batch_size=30),
    DPSGD(steps=3, batch_size=30, step_size=0.1),
    DPAdam(steps=3, batch_size=30, step_size=0.1),
]


@pytest.mark.parametrize(("count", "mode", "colluders"), SETTINGS)
def test_all_members_hold_the_same_weights_and_a_certificate_that_verifies(count, mode, colluders):
    plan = owners.plan_for(count, mode=mode, colluders=colluders)
    trained = owners.train_together(plan, X, Y)
    assert len(trained) == plan.trust.members
    assert np.isfinite(trained[0].weights).all()
    for one in trained:
        assert np.array_equal(one.weights, trained[0].weights)
    findings = verify(trained[0].certificate)
    assert all(finding.holds for finding in findings), findings
    assert set(plan.assumed) < set(trained[0].certificate.assumed)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_methods_run_unchanged(method):
    plan = owners.plan_for(3, method)
    first, *others = owners.train_together(plan, X, Y)
    assert all(np.array_equal(first.weights, other.weights) for other in others)
    assert all(finding.holds for finding in verify(first.certificate))


def test_the_theorems_settings_run_too():
    plan = owners.plan_for(2, BassilySmithThakurta(steps=20))
    first, other = owners.train_together(plan, X, Y)
    assert np.array_equal(first.weights, other.weights)


def test_owners_may_hold_sparse_records():
    plan = owners.plan_for(2)
    dense, by_rows = (
        owners.train_together(plan, X, Y, seed=3, convert=convert)[0].weights
        for convert in (np.asarray, sparse.csr_array)
    )
    assert np.allclose(dense, by_rows, atol=1e-6)


def test_owners_may_train_a_network():
    import torch

    from sordino.federation.plan import FederationPlan
    from sordino.oracle.torch.oracle import TorchOracle
    from sordino.problem import NetworkProblem

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    start = torch.nn.utils.parameters_to_vector(model.parameters()).detach().numpy().astype(np.float64)
    linear = owners.plan_for(2)
    method = RecursiveMomentum(2, 30, 40, 0.1, 1.0, 0.1, 0.1)
    plan = FederationPlan(linear.owners, NetworkProblem(60, start.size), owners.BUDGET, method)
    agreement = agree(plan, InTheOpen(2))
    parties = []
    for member, part in enumerate(owners.shares_of(60, 2)):
        records = (torch.tensor(X[part], dtype=torch.float32), torch.tensor(Y[part], dtype=torch.int64))
        loss = torch.nn.CrossEntropyLoss(reduction="none")
        oracle = TorchOracle(model, loss, records, plan.local_problem(member))
        parties.append(RecordHolder(oracle, Randomness.seeded(member)))
    oracle = SecureOracle(agreement, parties)
    release = method.run(plan.planned, plan.problem, oracle, oracle.common_randomness(), start)
    assert np.isfinite(release.weights).all()
    assert not np.array_equal(release.weights, start)


def test_under_add_remove_poisson_batches_are_drawn():
    budget = Budget(2.0, 1e-5, Relation.ADD_REMOVE)
    plan = owners.plan_for(2, NoisySGD(steps=3, batch_size=30), budget=budget)
    first, other = owners.train_together(plan, X, Y)
    assert np.array_equal(first.weights, other.weights)
    assert all(finding.holds for finding in verify(first.certificate))


# what is opened


def redrawn(plan, shared, seed, shape, skip=None):
    """The noise that the parties of `owners.in_the_open` add to their first sum, by the same bits."""
    total = np.zeros(shape, dtype=np.int64)
    for member in plan.trust.makers:
        number = member if member < len(plan.owners) else 500 + member - len(plan.owners)
        if member != skip:
            total += shared.next(shape, Randomness.seeded(1000 * seed + number))
    if shared.joint is not None:
        total += shared.joint.draw(shape, Randomness.seeded(77).noise)
    return total


@pytest.mark.parametrize(("count", "mode", "colluders"), SETTINGS)
def test_a_release_is_the_sum_on_the_grid_plus_the_makers_noise_exactly(count, mode, colluders):
    plan = owners.plan_for(count, mode=mode, colluders=colluders)
    oracle = owners.in_the_open(plan, X, Y, seed=5)
    w, noise = np.full(4, 0.3), plan.planned.noise
    released = oracle.release(Gradient(w, plan.planned.clip), noise, Randomness.seeded(0))
    shared = plan.trust.realise(noise)
    opened = released / shared.step
    parts = [owners.party(plan, member, X, Y).oracle for member in range(count)]
    total = sum(np.rint(exact(part, Gradient(w, plan.planned.clip)) / shared.step) for part in parts)
    assert np.array_equal(opened - redrawn(plan, shared, 5, (4,)), total)


@pytest.mark.parametrize(("count", "mode", "colluders"), SETTINGS)
def test_shared_sums_are_the_sums_in_the_open_bit_for_bit(count, mode, colluders):
    # joint noise is drawn by coins that no seed reaches
    if mode == "joint":
        plan = owners.plan_for(count, mode="distributed", colluders=colluders)
    else:
        plan = owners.plan_for(count, mode=mode, colluders=colluders)
    oracle = owners.in_the_open(plan, X, Y, seed=6)
    release = plan.method.run(plan.planned, plan.problem, oracle, oracle.common_randomness())
    shared = owners.train_together(plan, X, Y, seed=6)
    assert np.array_equal(release.weights, shared[0].weights)


@pytest.mark.parametrize("method", [METHODS[0], NoisyGradientDescent(steps=5, step_size=2.0, release="trajectory")])
def test_with_records_rounded_one_owner_and_many_open_the_same_sums_bit_for_bit(method):
    found = []
    for count in (1, 2, 3, 5):
        plan = owners.plan_for(count, method, mode="committee", rounding="record")
        oracle = owners.in_the_open(plan, X, Y, seed=7)
        found.append(plan.method.run(plan.planned, plan.problem, oracle, oracle.common_randomness()).weights)
    for weights in found[1:]:
        assert np.array_equal(weights, found[0])


def test_with_owners_rounded_they_do_where_the_sums_lie_on_the_grid():
    # at zero a logistic slope is a half, so sums of these rows are multiples of a sixteenth
    grid = np.sign(X) / 8
    found = []
    for count in (1, 2, 5):
        plan = owners.plan_for(count, mode="committee")
        oracle = owners.in_the_open(plan, grid, Y, seed=8)
        found.append(oracle.release(Gradient(np.zeros(4), plan.planned.clip), plan.planned.noise, Randomness.seeded(0)))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_rounding_owners_costs_at_most_half_a_step_for_each():
    w = np.full(4, 0.3)
    answers = []
    for count in (1, 5):
        plan = owners.plan_for(count, mode="committee")
        oracle = owners.in_the_open(plan, X, Y, seed=9)
        answers.append(oracle.release(Gradient(w, plan.planned.clip), plan.planned.noise, Randomness.seeded(0)))
    step = plan.trust.realise(plan.planned.noise).step
    assert np.abs(answers[0] - answers[1]).max() <= 3 * step


# batches


def test_every_owner_draws_its_own_batch():
    plan = owners.plan_for(3, NoisySGD(steps=3, batch_size=30, sampling="fixed_size"))
    oracle = owners.in_the_open(plan, X, Y)
    batch = oracle.draw(FixedSize(30), Randomness.seeded(0))
    assert [len(part) for part in batch.batches] == [5, 10, 15]
    for part, owner in zip(batch.batches, plan.owners, strict=True):
        assert part.max() < owner.records
    assert oracle.draw(FullBatch(), Randomness.seeded(0)) is None


def test_poisson_batches_have_one_rate_for_all():
    plan = owners.plan_for(2, NoisySGD(steps=3, batch_size=30))
    oracle = owners.in_the_open(plan, X, Y)
    sizes = np.array(
        [[len(part) for part in oracle.draw(Poisson(0.25), Randomness.seeded(0)).batches] for _ in range(400)]
    )
    expected = np.array([owner.records for owner in plan.owners]) * 0.25
    assert np.abs(sizes.mean(axis=0) - expected).max() < 4 * np.sqrt(expected.max() / 400)


def test_a_servers_batch_is_nobody():
    plan = owners.plan_for(2, NoisySGD(steps=3, batch_size=30), mode="committee")
    batch = owners.in_the_open(plan, X, Y).draw(Poisson(0.5), Randomness.seeded(0))
    assert [part is None for part in batch.batches] == [False, False, True, True, True]


# refusals


@pytest.fixture
def oracle():
    return owners.in_the_open(owners.plan_for(3), X, Y)


PLANNED = owners.plan_for(3).planned


@pytest.mark.parametrize("name", ["gradient", "value", "curvature_product", "choose", "divide", "under"])
def test_nothing_exact_can_be_asked(oracle, name):
    assert not hasattr(oracle, name)


def test_other_questions_are_refused(oracle):
    with pytest.raises(ValueError, match="several owners do not answer ClippedLoss"):
        oracle.release(ClippedLoss(np.zeros(4), 1.0), PLANNED.noise, Randomness.seeded(0))


def test_a_release_that_the_plan_does_not_hold_is_refused(oracle):
    for _ in range(3):
        oracle.release(Gradient(np.zeros(4), PLANNED.clip), PLANNED.noise, Randomness.seeded(0))
    with pytest.raises(ValueError, match="asks for a sum that its plan does not account for; nothing was opened"):
        oracle.release(Gradient(np.zeros(4), PLANNED.clip), PLANNED.noise, Randomness.seeded(0))


def test_other_noise_than_the_plans_is_refused(oracle):
    less = GaussianNoise.at(PLANNED.noise.multiplier / 2, PLANNED.noise.sensitivity, 4)
    with pytest.raises(ValueError, match="does not account for"):
        oracle.release(Gradient(np.zeros(4), PLANNED.clip), less, Randomness.seeded(0))


def test_a_query_above_the_noises_sensitivity_is_refused(oracle):
    with pytest.raises(ValueError, match="calibrate the noise to the query"):
        oracle.release(Gradient(np.zeros(4), 2 * PLANNED.clip), PLANNED.noise, Randomness.seeded(0))


def test_a_stack_of_models_is_refused(oracle):
    with pytest.raises(ValueError, match="one model at a time"):
        oracle.release(Gradient(np.zeros((2, 4)), PLANNED.clip), PLANNED.noise, Randomness.seeded(0))


def test_a_batch_serves_once():
    plan = owners.plan_for(3, NoisySGD(steps=3, batch_size=30))
    oracle = owners.in_the_open(plan, X, Y)
    batch = oracle.draw(plan.planned.sampling, Randomness.seeded(0))
    query = Gradient(np.zeros(4), plan.planned.clip, batch)
    oracle.release(query, plan.planned.noise, Randomness.seeded(0))
    with pytest.raises(ValueError, match="a batch serves one release"):
        oracle.release(query, plan.planned.noise, Randomness.seeded(0))
    with pytest.raises(ValueError, match="a batch serves one release"):
        oracle.release(replace(query, batch=np.arange(3)), plan.planned.noise, Randomness.seeded(0))


def test_a_sum_over_everybody_is_not_one_over_a_batch():
    plan = owners.plan_for(3, NoisySGD(steps=3, batch_size=30))
    oracle = owners.in_the_open(plan, X, Y)
    with pytest.raises(ValueError, match="does not account for"):
        oracle.release(Gradient(np.zeros(4), plan.planned.clip), plan.planned.noise, Randomness.seeded(0))


def test_recursions_are_answered_on_one_batch():
    plan = owners.plan_for(2, RecursiveMomentum(steps=3, batch_size=30))
    oracle, planned = owners.in_the_open(plan, X, Y), plan.planned
    batch = oracle.draw(planned.sampling, Randomness.seeded(0))
    w, before = np.full(4, 0.2), np.zeros(4)
    gradient = Gradient(w, planned.clip, batch)
    query = Recursion(Difference(w, before, planned.update.difference_clip, batch), gradient, planned.update.mix)
    assert oracle.release(query, planned.noise, Randomness.seeded(0)).shape == (4,)


def test_an_owner_must_bring_the_records_it_announced():
    plan = owners.plan_for(2)
    agreement = agree(plan, InTheOpen(2))
    parties = [owners.party(plan, 1, X, Y), owners.party(plan, 1, X, Y)]
    with pytest.raises(ValueError, match="owner 0 brings 40 records, but the plan says 20"):
        SecureOracle(agreement, parties)


def test_servers_and_owners_keep_their_places():
    plan = owners.plan_for(2)
    agreement = agree(plan, InTheOpen(2))
    with pytest.raises(ValueError, match="member 1 must be an owner with records"):
        SecureOracle(agreement, [owners.party(plan, 0, X, Y), Server(Randomness.seeded(1))])
    with pytest.raises(ValueError, match="1 parties where this process speaks for 2 members"):
        SecureOracle(agreement, [owners.party(plan, 0, X, Y)])


def test_seeded_noise_is_told():
    plan = owners.plan_for(2)
    assert owners.in_the_open(plan, X, Y, seed=1).common_randomness().is_seeded
    assert not owners.train_together(plan, X, Y)[0].certificate.randomness.startswith("seeded")
    assert owners.train_together(plan, X, Y, seed=1)[0].certificate.randomness.startswith("seeded")


def test_an_oracle_that_answers_past_its_noise_is_found_out():
    class Careless:
        def draw(self, sampling, randomness):
            return np.arange(20)

        def release(self, query, noise, randomness):
            return np.zeros(4)

    plan = owners.plan_for(2)
    parties = [RecordHolder(Careless(), Randomness.seeded(1)), owners.party(plan, 1, X, Y)]
    oracle = SecureOracle(agree(plan, InTheOpen(2)), parties)
    with pytest.raises(RuntimeError, match="Careless did not pass its answer through the noise"):
        oracle.release(Gradient(np.zeros(4), plan.planned.clip), plan.planned.noise, Randomness.seeded(0))
