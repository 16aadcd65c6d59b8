from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.domains import Ball
from sordino.losses import Absolute, EpsilonInsensitive, Hinge, Logistic, MoreauSmoothed, Pinball, Softmax
from sordino.methods import METHODS, RATES, NoisyGradientDescent, NoisySGD, OutputPerturbation
from sordino.methods.proximal import ProximalSmoothing
from sordino.methods.schedule import MOST_STEPS
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.train import train

BUDGET = Budget(1.0, 1e-6)
PRINTED = ProximalSmoothing(NoisySGD(5, 10, 0.1, calibration="paper"))
"""The printed sharpness; numbers that are given need none of the theorem's conditions."""
R1 = Relation.REPLACE_ONE
ROWS = Rows(2.0, 0.4)
KINKED = (Hinge(), Absolute(1.0), Pinball(0.8, 1.0), EpsilonInsensitive(0.1, 1.0))


def data(loss, n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    score = X @ [1.0, -0.5, 0.2] + 0.2 + 0.2 * rng.normal(size=n)
    return X, np.sign(score + 0.6 * rng.normal(size=n)) if isinstance(loss, Hinge) else score


def problem(loss, n=400, **facts):
    return Problem(n, 4, loss, **facts)


@pytest.mark.parametrize(
    ("n", "d", "e", "M", "beta"),
    [
        # sqrt(10000)/4 = 25 against 10000/(8 sqrt(4 * 18.4207)) = 145.6
        (10_000, 4, 1.0, 2.0, 12.5),
        # 0.1 * 10000/(8 sqrt(100 * 18.4207)) = 2.91244 against 25
        (10_000, 100, 0.1, 2.0, 1.456221),
    ],
)
def test_beta_of_section_4(n, d, e, M, beta):
    """Bassily et al. 2019, Theorem 4.4, at L = 1 and delta = 1e-8; rows of norm 3 have beta = 9 s and L = 3."""
    for R in (1.0, 3.0):
        stated = Problem(n, d, Hinge(), row_norm=R, domain=Ball(M))
        plan = ProximalSmoothing(calibration="paper").plan(stated, Budget(e, 1e-8))
        assert plan.sharpness == pytest.approx(R * beta / R**2, rel=1e-6)
        smoothed = replace(stated, loss=MoreauSmoothed(Hinge(), plan.sharpness))
        assert smoothed.constants.beta == pytest.approx(R * beta, rel=1e-6)
        assert smoothed.constants.L == stated.constants.L == R
        tight = ProximalSmoothing(NoisySGD()).plan(stated, Budget(e, 1e-8))
        assert tight.sharpness == pytest.approx(2 * plan.sharpness, rel=1e-12)
        # Theorem 3.2 allows beta <= (L/M) min(sqrt(n/2), epsilon n / (2 sqrt(2 d log(1/delta))))
        most = R / M * min(math.sqrt(n / 2), e * n / (2 * math.sqrt(2 * d * math.log(1e8))))
        assert tight.sharpness * R**2 <= most


def test_the_sharpness_without_a_domain_uses_the_guess_and_without_delta_the_dimension():
    guessed = ProximalSmoothing(NoisySGD(5, 10, 0.1, radius=3.0, calibration="paper"))
    assert guessed.plan(problem(Hinge(), 10_000), BUDGET).sharpness == pytest.approx(25 / 3)
    assert PRINTED.plan(problem(Hinge(), 10_000), BUDGET).sharpness == pytest.approx(25 / (1.5 * 2))
    pure = ProximalSmoothing(OutputPerturbation(steps=5)).plan(
        problem(Hinge(), 10_000, domain=Ball(2.0)), Budget(0.01, 0.0)
    )
    # 2 * 0.01 * 10000 / (8 * 4) / 2
    assert pure.sharpness == pytest.approx(3.125)


@pytest.mark.parametrize("e", [0.03, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("stated", [problem(Absolute(1.0), 2000), Problem(32561, 124, Hinge(), row_norm=3.0)])
def test_full_batch_descent_balances_sharpness_against_steps(stated, e):
    """From the printed beta on, sharper where more and shorter steps can follow."""
    budget = Budget(e, 1e-6)
    printed = PRINTED.plan(stated, budget).sharpness
    blunt = ProximalSmoothing(sharpness=printed).plan(stated, budget).inner
    plan = ProximalSmoothing().plan(stated, budget)
    assert printed <= plan.sharpness <= 500 * printed
    assert blunt.steps <= plan.inner.steps <= MOST_STEPS
    # as many as momentum takes: even the blunt loss would need more without it
    assert blunt.steps >= 250 or plan.sharpness > 3 * printed


def test_a_length_that_was_given_takes_the_theorem_and_the_paper_its_print():
    stated, budget = problem(Absolute(1.0), 2000), Budget(0.1, 1e-6)
    printed = PRINTED.plan(stated, budget).sharpness
    for inner in (NoisyGradientDescent(steps=20), NoisyGradientDescent(step_size=0.1)):
        assert ProximalSmoothing(inner).plan(stated, budget).sharpness == pytest.approx(2 * printed)
    paper = ProximalSmoothing(NoisyGradientDescent(20, calibration="paper"))
    assert paper.plan(stated, budget).sharpness == pytest.approx(printed)


@pytest.mark.parametrize("loss", KINKED, ids=repr)
@pytest.mark.parametrize(
    "inner",
    [
        NoisyGradientDescent(),
        NoisyGradientDescent(steps=30, release="average"),
        NoisySGD(steps=30, batch_size=50),
        OutputPerturbation(steps=30),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_noise_earns_the_budget_and_no_more(loss, inner):
    plan = ProximalSmoothing(inner).plan(problem(loss), BUDGET)
    assert 0.999 * BUDGET.epsilon <= epsilon(plan.event, BUDGET.delta, R1) <= BUDGET.epsilon


def test_smoothing_costs_no_noise():
    """L of the envelope is L of the loss, not the 2L of Lemma 4.3: the noise is that of any loss with this L."""
    inner = NoisyGradientDescent(steps=40, step_size=0.5, release="average")
    plan = ProximalSmoothing(inner, sharpness=3.0).plan(problem(Hinge()), BUDGET)
    assert plan.inner.noise == inner.plan(problem(Logistic()), BUDGET).noise
    # L = max(tau, 1 - tau)
    other = ProximalSmoothing(inner, sharpness=3.0).plan(problem(Pinball(0.8)), BUDGET)
    assert other.inner.noise.std == pytest.approx(0.8 * plan.inner.noise.std, rel=1e-6)


def test_the_last_iterate_of_a_smoothed_loss_is_amplified():
    plan = ProximalSmoothing(NoisyGradientDescent(steps=100, step_size=0.5), sharpness=2.0).plan(
        problem(Hinge(), penalty=Ridge(0.5)), BUDGET
    )
    # c = max(|1 - 0.5 * 0.5|, |1 - 0.5 * 2.5|) = 3/4,  sqrt((1 + c)/(1 - c))
    assert plan.inner.amplification == pytest.approx(math.sqrt(7), rel=1e-6)


@pytest.mark.parametrize("loss", KINKED, ids=repr)
def test_runs_the_inner_method_on_the_smoothed_loss(loss):
    X, y = data(loss)
    method, stated = ProximalSmoothing(NoisyGradientDescent(steps=20)), problem(loss)
    plan = method.plan(stated, BUDGET)
    ours = method.run(plan, stated, linear_oracle(X, y, stated, ROWS), Randomness.seeded(3))
    smoothed = problem(MoreauSmoothed(loss, plan.sharpness))
    theirs = method.inner.run(plan.inner, smoothed, linear_oracle(X, y, smoothed, ROWS), Randomness.seeded(3))
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    assert ours.event == plan.event == theirs.event


def least(loss, R, y):
    """min_w mean phi(<w, r_i>, y_i) for the absolute loss or the hinge, as a linear programme."""
    n, d = R.shape
    cost = np.concatenate([np.zeros(d), np.full(n, 1 / n)])
    if isinstance(loss, Hinge):
        below, right = np.hstack([-y[:, None] * R, -np.eye(n)]), -np.ones(n)
    else:
        below, right = np.vstack([np.hstack([R, -np.eye(n)]), np.hstack([-R, -np.eye(n)])]), np.concatenate([y, -y])
    return linprog(cost, below, right, bounds=[(None, None)] * d + [(0, None)] * n).fun


@pytest.mark.parametrize("loss", [Hinge(), Absolute(1.0)], ids=repr)
@pytest.mark.parametrize(
    ("inner", "budget"),
    [
        (NoisyGradientDescent(steps=1500, step_size=0.05), Budget(1e5, 1e-6)),
        (OutputPerturbation(steps=1500, step_size=0.05), Budget(1e6, 0.0)),
    ],
    ids=["descent", "pure"],
)
def test_finds_the_optimum_up_to_what_smoothing_costs(loss, inner, budget):
    X, y = data(loss)
    y = np.clip(y, -1, 1)
    stated, s = problem(loss), 20.0
    method = ProximalSmoothing(inner, sharpness=s)
    oracle = linear_oracle(X, y, stated, ROWS)
    w = method.run(method.plan(stated, budget), stated, oracle, Randomness.seeded(0)).weights
    R = np.column_stack([X * ROWS.factor, np.full(len(y), ROWS.intercept)])
    best = least(loss, R, y)
    excess = float(oracle.value(w)) - best
    assert -1e-9 <= excess <= 1 / (2 * s)
    assert excess < 0.5 * (loss.value(np.zeros(len(y)), y).mean() - best)


@pytest.mark.parametrize(
    "method",
    [
        ProximalSmoothing(),
        ProximalSmoothing(NoisySGD(steps=40, batch_size=60)),
        ProximalSmoothing(OutputPerturbation(steps=20), sharpness=2.0),
        ProximalSmoothing(NoisyGradientDescent(steps=20, calibration="paper")),
    ],
    ids=["default", "sgd", "output", "paper"],
)
def test_its_certificate_is_read_back_and_verified(method, tmp_path):
    loss = Pinball(0.8, 1.0)
    X, y = data(loss)
    stated = problem(loss)
    trained = train(stated, BUDGET, method, linear_oracle(X, y, stated, ROWS), rows=ROWS)
    trained.certificate.save(tmp_path / "certificate.json")
    again = Certificate.load(tmp_path / "certificate.json")
    assert again.method == method
    assert again.problem == stated
    assert [finding for finding in verify(again) if not finding.holds] == []
    assert method.calibration == "tight" or "printed constants" in again.notes[0]
    # a smoothness that was not run is found out
    plan = dict(again.plan)
    plan["sharpness"] *= 1.01
    assert not verify(replace(again, plan=plan))[0].holds


def test_a_smoothed_loss_may_be_the_problem_itself(tmp_path):
    loss = MoreauSmoothed(EpsilonInsensitive(0.1, 1.0), 5.0)
    X, y = data(loss)
    stated = problem(loss)
    trained = train(stated, BUDGET, NoisyGradientDescent(steps=10), linear_oracle(X, y, stated, ROWS), rows=ROWS)
    again = Certificate.from_json(trained.certificate.to_json())
    assert again.problem == stated
    assert [finding for finding in verify(again) if not finding.holds] == []


def test_is_offered():
    assert METHODS["ProximalSmoothing"] is ProximalSmoothing
    plain = wire.to_plain(ProximalSmoothing(NoisySGD(steps=3), 2.0))
    assert wire.from_plain(plain, {**METHODS, **RATES}) == ProximalSmoothing(NoisySGD(steps=3), 2.0)


@pytest.mark.parametrize(
    ("method", "stated", "budget", "words"),
    [
        (ProximalSmoothing(), problem(Logistic()), BUDGET, "no kink to smooth: use NoisyGradientDescent by itself"),
        (ProximalSmoothing(), problem(Softmax(3)), BUDGET, "no kink to smooth"),
        (ProximalSmoothing(), problem(MoreauSmoothed(Hinge(), 1.0)), BUDGET, "no kink to smooth"),
        (ProximalSmoothing(), problem(Hinge(), penalty=BoundedPenalty(0.1)), BUDGET, "convex"),
        (ProximalSmoothing(), problem(Hinge()), Budget(1.0, 0.0), "delta is 0"),
        (ProximalSmoothing(ProximalSmoothing()), problem(Hinge()), BUDGET, "no kink to smooth"),
        (ProximalSmoothing(sharpness=0.0), problem(Hinge()), BUDGET, r"sharpness is 0\.0"),
        (ProximalSmoothing(sharpness=math.inf), problem(Hinge()), BUDGET, "sharpness is inf"),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(method, stated, budget, words):
    with pytest.raises(ValueError, match=words):
        method.plan(stated, budget)


def test_inner_must_be_a_method():
    with pytest.raises(ValueError, match="inner is 3: it must be a method"):
        ProximalSmoothing(3)
