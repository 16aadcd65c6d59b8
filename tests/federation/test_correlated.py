"""Correlated noise among owners: each remembers its own share of it, and all together is as private as was planned."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import owners
from in_the_open import InTheOpen
from sordino.budget import Budget
from sordino.certificate import verify
from sordino.federation.agreement import agree
from sordino.federation.noise import CorrelatedShares
from sordino.federation.plan import FederationPlan
from sordino.federation.secure_oracle import SecureOracle
from sordino.federation.trust import Trust
from sordino.methods import DPSGD
from sordino.oracle.query import Gradient
from sordino.privacy.correlated_noise import CorrelatedNoise
from sordino.privacy.correlation import BandedToeplitz, BufferedToeplitz
from sordino.privacy.discrete_gaussian import rounding_distance
from sordino.privacy.events import Composed, GaussianDP
from sordino.privacy.randomness import Randomness
from sordino.train import train

CORRELATIONS = [BandedToeplitz(), BandedToeplitz((0.7, 0.4, 0.2)), BufferedToeplitz(0.3, 0.95)]
TRUSTS = [Trust(2), Trust(5, "distributed", 2), Trust(9, "distributed", 0), Trust(40), Trust(4, "committee")]
METHOD = DPSGD(steps=12, batch_size=15, step_size=1.0, clip=0.5, sampling="in_order")
X, Y = owners.data(120)


def plan_of(members=3, method=METHOD, records=120, **settings):
    return owners.plan_for(members, method, records=records, **settings)


@pytest.mark.parametrize("correlation", CORRELATIONS, ids=["independent", "bands", "one vector"])
@pytest.mark.parametrize("trust", TRUSTS, ids=str)
@pytest.mark.parametrize(("dim", "multiplier"), [(1, 0.4), (100, 3.0), (50_000, 12.0)])
def test_what_is_done_is_as_private_as_what_was_planned(correlation, trust, dim, multiplier):
    planned = CorrelatedNoise.at(multiplier, 1.5, dim, correlation, 40, 8)
    done = trust.realise(planned)
    assert done.event.event.mu <= planned.event.event.mu
    assert done.event.event.mu == pytest.approx(planned.event.event.mu, rel=1e-3)
    assert done.event.total_variation <= planned.event.total_variation
    # the lattice asks for next to nothing, so the honest have what was planned
    honest = len(trust.makers) - trust.colluders
    assert done.scale * done.step * math.sqrt(honest) == pytest.approx(planned.std, rel=1e-3)


@pytest.mark.parametrize("correlation", CORRELATIONS, ids=["independent", "bands", "one vector"])
@pytest.mark.parametrize("honest", [1, 2, 3, 7])
def test_a_record_moves_the_fresh_noise_of_the_honest_by_no_more_than_is_accounted_for(correlation, honest):
    # the proof, in small numbers, where rounding weighs most: the outputs stay, the sums move, and so must the noise
    T, apart, dim = 24, 8, 3
    generator = np.random.default_rng(5)

    def fresh(noise):
        """Z of what was added."""
        memory, found = correlation.memory(noise.shape[1:]), []
        for W in noise:
            found.append(W + np.rint(memory.feedback()).astype(np.int64))
            memory.add(W)
        return np.array(found)

    def parts(x):
        shared = np.stack([(x + k) // honest for k in range(honest)])
        assert (shared.sum(axis=0) == x).all()
        return shared

    largest = 0.0
    for size in (1, 4, 60):
        # in steps of the lattice: sensitivity + sqrt(dim) is how far a sum moves
        shares = CorrelatedShares(float(size), 1.0, 100.0, dim, correlation, T, apart, honest, 0)
        allowed = shares.event.event.mu * shares.scale
        for _ in range(60):
            x = generator.integers(-500, 500, size=(T, dim))
            moved = np.zeros((T, dim), dtype=np.int64)
            for t in range(generator.integers(apart), T, apart):
                direction = generator.normal(size=dim)
                direction *= (size + math.sqrt(dim)) / np.linalg.norm(direction)
                moved[t] = np.trunc(direction)
            added = generator.integers(-300, 300, size=(honest, T, dim))
            distance = math.sqrt(
                sum(
                    np.sum((fresh(W + before - after) - fresh(W)).astype(float) ** 2)
                    for W, before, after in zip(added, parts(x), parts(x + moved), strict=True)
                )
            )
            largest = max(largest, distance / allowed)
    assert largest <= 1
    # and the bound is no idle one
    assert largest > 0.2


@pytest.mark.parametrize("correlation", CORRELATIONS, ids=["independent", "bands", "one vector"])
def test_the_honest_are_accounted_for_as_one_run_in_as_many_coordinates(correlation):
    # on a coarse lattice, where its share is seen
    T, apart, dim, makers, colluders, sensitivity, scale, g = 24, 8, 3, 7, 2, 40.0, 100.0, 0.5
    shares = CorrelatedShares(sensitivity, g, scale, dim, correlation, T, apart, makers, colluders)
    h, S, rows = 5, correlation.sensitivity(T, apart), correlation.touched(T, apart)
    moved = S * (sensitivity / math.sqrt(h) + 2 * g * math.sqrt(h * dim)) + 4 * g * math.sqrt(h * dim * rows)
    assert shares.event.event.mu == pytest.approx(moved / (scale * g), rel=1e-12)
    assert shares.event.total_variation == pytest.approx(T * h * dim * rounding_distance(scale), rel=1e-9)


@pytest.mark.parametrize("trust", [Trust(3), Trust(2, "committee")], ids=str)
def test_shares_add_up_to_noise_that_takes_itself_back(trust):
    correlation = BufferedToeplitz(0.3, 0.95)
    planned = CorrelatedNoise.at(2.0, 1.0, 1, correlation, 30, 10)
    shared, randomness = trust.realise(planned), Randomness.seeded(3)
    makers = [shared.begin() for _ in trust.makers]
    shape = (4000,)
    total = np.array([sum(maker.next(shape, randomness) for maker in makers) for _ in range(30)]) * shared.step
    expected = np.sqrt(np.cumsum(correlation.inverse(30) ** 2)) * shared.scale * shared.step * math.sqrt(len(makers))
    np.testing.assert_allclose(total.std(axis=1), expected, rtol=0.06)
    assert shared.std == pytest.approx(expected[-1])
    # their sum over the steps has much less noise than independent steps would leave
    assert total.sum(axis=0).std() < 0.5 * math.sqrt(30) * total.std()


@pytest.mark.parametrize("mode", ["distributed", "committee"])
def test_owners_train_in_order_and_all_have_the_same_model(mode):
    plan = plan_of(mode=mode)
    assert isinstance(plan.planned.noise, CorrelatedNoise)
    trained = owners.train_together(plan, X, Y)
    assert len({one.weights.tobytes() for one in trained}) == 1
    assert all(finding.holds for finding in verify(trained[0].certificate))
    assert trained[0].certificate.epsilon <= owners.BUDGET.epsilon
    assert FederationPlan.from_json(plan.to_json()).digest == plan.digest


def test_with_little_noise_owners_learn_what_one_would_from_the_same_batches():
    X, Y = owners.data(2400)
    plan = plan_of(method=replace(METHOD, batch_size=300), records=2400, budget=Budget(500.0, 1e-5), colluders=0)
    oracle = owners.in_the_open(plan, X, Y)
    found = train(plan.problem, plan.budget, plan.method, oracle, oracle.common_randomness(), plan.rows).weights
    # the k-th part of every owner's records, step by step, without noise
    clip, sampling = plan.planned.clip, plan.planned.sampling
    w = np.zeros(4)
    for t in range(plan.planned.steps):
        g = np.zeros(4)
        for part in owners.shares_of(2400, 3):
            batch = sampling.at(t).draw(part.stop - part.start, Randomness.seeded(0).noise) + part.start
            rows = X[batch] * (-Y[batch] / (1 + np.exp(Y[batch] * (X[batch] @ w))))[:, None]
            norms = np.linalg.norm(rows, axis=1)
            g += (rows * np.minimum(1, clip / np.maximum(norms, 1e-12))[:, None]).sum(axis=0)
        w = w - plan.planned.step_size_at(t) * g / sampling.expected_size(2400)
    np.testing.assert_allclose(found, w, atol=0.03)


def asked(oracle, plan, noise, sampling):
    randomness = Randomness.seeded(1)
    return oracle.release(
        Gradient(np.zeros(4), plan.planned.clip, oracle.draw(sampling, randomness)), noise, randomness
    )


def opened(plan):
    return SecureOracle(agree(plan, InTheOpen(3)), [owners.party(plan, member, X, Y, 1) for member in range(3)])


def test_sums_are_opened_in_turn_and_as_many_as_were_planned():
    plan = plan_of()
    oracle, noise, sampling = opened(plan), plan.planned.noise.begin(), plan.planned.sampling
    with pytest.raises(ValueError, match="does not account for"):
        asked(oracle, plan, noise, sampling.at(1))
    for t in range(plan.planned.steps):
        asked(oracle, plan, noise, sampling.at(t))
        with pytest.raises(ValueError, match="does not account for"):
            asked(oracle, plan, noise, sampling.at(t))
    # noise that another run began is no way to more of them, nor noise of another scale that is as private
    planned = plan.planned.noise
    twice = replace(planned, sensitivity=2 * planned.sensitivity, std=2 * planned.std)
    for again in (noise, planned.begin(), twice.begin(), planned, twice):
        with pytest.raises(ValueError, match="does not account for"):
            asked(oracle, plan, again, sampling.at(plan.planned.steps))
    for early in (twice.begin(), planned):
        with pytest.raises(ValueError, match="does not account for"):
            asked(opened(plan), plan, early, sampling)
    other = replace(plan.planned.noise, std=plan.planned.noise.std / 2).begin()
    with pytest.raises(ValueError, match="does not account for"):
        asked(opened(plan), plan, other, sampling)


def test_what_cannot_be_covered_is_refused():
    with pytest.raises(ValueError, match="in joint mode nobody knows the noise"):
        _ = plan_of(mode="joint").planned
    poisson = replace(METHOD, sampling="poisson", noise="correlated", bands=4)
    with pytest.raises(ValueError, match="where records come in order alone"):
        _ = plan_of(method=poisson).planned
    with pytest.raises(ValueError, match=r"owner 0 has 20 records for 24 batches: ask for a batch_size of at least 6"):
        _ = plan_of(method=replace(METHOD, batch_size=5, steps=24)).planned
    for scale, correlation in ((2.0**37, BandedToeplitz()), (2.0**36, BufferedToeplitz(0.3, 1 - 2.0**-12))):
        with pytest.raises(ValueError, match="let a committee add the noise"):
            CorrelatedShares(1.0, 1.0, scale, 3, correlation, 4, 2, 10_000, 1)
        CorrelatedShares(1.0, 1.0, scale / 2, 3, correlation, 4, 2, 10_000, 1)


def test_the_event_of_a_run_counts_once_in_the_record_of_a_member():
    from sordino.federation.record import RecordSummary

    event = plan_of().planned.event
    assert isinstance(event.event, GaussianDP)
    assert RecordSummary(events=[event] * 5).event == Composed(((event, 1),))
