from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sordino import PrivateLogisticRegression
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.domains import Ball, Everywhere
from sordino.losses import Hinge, Huber, Logistic
from sordino.methods import PhasedSGD
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, PersonUnit, Problem
from sordino.train import train

N, D, ROWS = 53, 3, Rows(1.0)
PROBLEM = Problem(N, D, Logistic(), penalty=Ridge(0.02))
BUDGET = Budget(1.0, 1e-6)


def records(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.where(X[:, 0] + 0.3 * rng.logistic(size=n) > 0, 1.0, -1.0)


def quiet(plan):
    return replace(plan, phases=tuple(replace(phase, noise=replace(phase.noise, std=1e-8)) for phase in plan.phases))


def run(method, plan, problem=PROBLEM, data=None, start=None, seed=0):
    oracle = linear_oracle(*(records() if data is None else data), problem, ROWS)
    return method.run(plan, problem, oracle, Randomness.seeded(seed), start).weights


@pytest.mark.parametrize("m", [1, 2, 5, 53])
def test_the_listing(m):
    X, y = records()
    rows = X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    method = PhasedSGD(m, 0.7)
    plan = method.plan(PROBLEM, BUDGET)
    w, seen = np.zeros(D), []
    for i, phase in enumerate(plan.phases):
        assert phase.step_size == pytest.approx(0.7 / 4**i)
        for batch in np.array_split(np.arange(phase.first, phase.last), phase.steps):
            seen += batch.tolist()
            assert m <= len(batch) <= 2 * m
            slopes = -y[batch] / (1 + np.exp(y[batch] * (rows[batch] @ w)))
            w = w - phase.step_size * (slopes @ rows[batch] / len(batch) + 0.02 * w)
    np.testing.assert_allclose(run(method, quiet(plan)), w, atol=1e-6)
    # every record once, in their order
    assert seen == list(range(N))


def test_the_event_is_that_of_one_phase():
    """A record is in one of them: one Gaussian release of the whole budget, whatever the number of phases."""
    for m in (1, 5, 53):
        plan = PhasedSGD(m, 0.7).plan(PROBLEM, BUDGET)
        assert all(phase.noise.multiplier == pytest.approx(1 / gdp_mu(1.0, 1e-6), rel=1e-6) for phase in plan.phases)
        assert 0.999 <= epsilon(plan.event, 1e-6, BUDGET.relation) <= 1
        assert plan.event.event.multiplier == min(phase.noise.multiplier for phase in plan.phases)
    assert len(PhasedSGD(1, 0.7).plan(PROBLEM, BUDGET).phases) == 5
    assert len(PhasedSGD(1, 0.7).plan(replace(PROBLEM, records=10**5), BUDGET).phases) == 8


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("m", [1, 3])
def test_neighbours_part_by_no_more_than_a_phase_hides(m, mu):
    """Every record replaced by its opposite, at the longest steps that do not expand; and the bound is reached."""
    problem = Problem(N, D, Huber(threshold=1.0), penalty=Ridge(mu))
    method = PhasedSGD(m, 2 / problem.constants.beta)
    plan = quiet(method.plan(problem, BUDGET))
    rng, furthest = np.random.default_rng(2), np.zeros(len(plan.phases))
    for trial in range(6):
        X = rng.normal(size=(N, D)) * (2.0 if trial % 2 else 0.1)
        y = rng.normal(size=N) * (100.0 if trial % 3 else 0.5)
        for j in range(N):
            (i,) = (i for i, phase in enumerate(plan.phases) if phase.first <= j < phase.last)
            other = y.copy()
            other[j] = -y[j]
            # both have the same noise: they part in the phase of the record
            part = replace(plan, phases=plan.phases[: i + 1])
            ends = [run(method, part, problem, (X, targets)) for targets in (y, other)]
            apart = np.linalg.norm(ends[0] - ends[1]) / plan.phases[i].noise.sensitivity
            assert apart <= 1 + 1e-4
            furthest[i] = max(furthest[i], apart)
    if mu == 0:
        assert furthest.min() > 0.9


def test_the_noise_of_every_phase():
    """Rows of zeros: what a phase adds is noise alone."""
    problem = Problem(N, D, Logistic())
    method = PhasedSGD(5, 0.7)
    plan = method.plan(problem, BUDGET)
    data, start = (np.zeros((N, D)), np.ones(N)), np.zeros((20_000, D))
    before = start
    for i, phase in enumerate(plan.phases):
        after = run(method, replace(plan, phases=plan.phases[: i + 1]), problem, data, start)
        assert (after - before).std() == pytest.approx(phase.noise.std, rel=0.02)
        smallest = min(len(batch) for batch in np.array_split(np.arange(phase.first, phase.last), phase.steps))
        assert phase.noise.sensitivity == pytest.approx(2 * 1.0 * phase.step_size / smallest, rel=1e-9)
        before = after


def test_a_start_from_further_away_than_rounding_is_reckoned_for_is_drawn_back():
    """As the frequency of a rare class is, which is paid for by then: it was refused."""
    plan = PhasedSGD(5, 0.7).plan(PROBLEM, BUDGET)
    longest = plan.phases[0].begins
    far, near = np.array([[9e3, 0.0, 0.0]]), np.array([[longest, 0.0, 0.0]])
    assert far.shape == (1, D)
    np.testing.assert_array_equal(*(run(PhasedSGD(), plan, start=start) for start in (far, near)))
    inside = near / 2
    assert not np.array_equal(*(run(PhasedSGD(), plan, start=start) for start in (inside, near)))
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) == 7
    given = {"epsilon": 3.0, "row_norm": 3.0, "classes": [False, True], "random_state": 0}
    model = PrivateLogisticRegression(method=PhasedSGD(), prepare=["starting score"], **given)
    assert np.isfinite(model.fit(X, y).coef_).all()


@pytest.mark.parametrize(("n", "asked"), [(10**5, 100.0), (10**6, 100.0), (10**7, 0.5), (10**7, 10.0), (10**9, 0.5)])
@pytest.mark.parametrize("radius", [math.inf, 1.0])
def test_noise_fits_beside_weights_wherever_they_are(n, asked, radius):
    """It is refused beside what is 2^31 times as large, and whether it was would tell where the weights are."""
    problem = Problem(n, 2, Logistic(), domain=Everywhere() if math.isinf(radius) else Ball(radius))
    plan = PhasedSGD().plan(problem, Budget(asked, 1e-10))
    for phase in plan.phases:
        end = min(radius, phase.begins + phase.steps * phase.step_size)
        perturbed = phase.noise.perturb(np.array([end, -end]), Randomness.seeded(0))
        np.testing.assert_allclose(perturbed, [end, -end], atol=9 * phase.noise.std)


def test_noise_that_would_not_fit_in_any_phase_is_refused():
    with pytest.raises(
        ValueError, match="1,000,000,000 records at epsilon 100: the noise of a phase would be too small"
    ):
        PhasedSGD().plan(Problem(10**9, 2, Logistic()), Budget(100.0, 1e-10))


def test_weights_at_the_end_of_a_phase_may_be_large():
    n = 1_000_000
    problem = Problem(n, 2, Logistic())
    plan = PhasedSGD(1000).plan(problem, Budget(100.0, 1e-10))
    start = np.array([plan.phases[0].begins, 0.0])
    oracle = linear_oracle(np.ones((n, 2)), np.ones(n), problem, ROWS)
    assert np.isfinite(PhasedSGD().run(plan, problem, oracle, Randomness.seeded(0), start).weights).all()


def test_it_learns_and_is_certified():
    n = 20_000
    problem = Problem(n, D, Logistic())
    oracle = linear_oracle(*records(n), problem, ROWS)
    method = PhasedSGD()
    trained = train(problem, BUDGET, method, oracle)
    assert oracle.value(trained.weights) < 0.8 * math.log(2)
    certificate = Certificate.from_json(trained.certificate.to_json())
    assert certificate.method == method
    assert all(finding.holds for finding in verify(certificate))


@pytest.mark.parametrize(
    ("problem", "settings", "words"),
    [
        (PROBLEM, {"batch_size": 0}, "batch_size is 0"),
        (PROBLEM, {"batch_size": N + 1}, "between 1 and the 53 records"),
        (PROBLEM, {"step_size": 7.5}, "at most 2/beta"),
        (PROBLEM, {"radius": -1.0}, "radius is -1.0"),
        (Problem(N, D, Hinge()), {}, "smooth"),
        (Problem(N, D, Logistic(), penalty=BoundedPenalty(0.1)), {}, "convex"),
        (Problem(N, D, Logistic(), person=PersonUnit(3)), {}, "a person stands where"),
        (NetworkProblem(N, D), {}, "convex"),
    ],
)
def test_what_is_refused(problem, settings, words):
    with pytest.raises(ValueError, match=words):
        PhasedSGD(**settings).plan(problem, BUDGET)


def test_promises_that_it_cannot_make():
    with pytest.raises(ValueError, match="one record more or less"):
        PhasedSGD().plan(PROBLEM, replace(BUDGET, relation=Relation.ADD_REMOVE))
    with pytest.raises(ValueError, match="delta is 0"):
        PhasedSGD().plan(PROBLEM, Budget(1.0))
