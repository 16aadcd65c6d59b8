from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import plain_gradients as plain
from sordino.budget import Budget, Relation
from sordino.certificate import Certificate, verify
from sordino.losses import Huber, Logistic
from sordino.methods import DPSGD, Cosine, RecursiveMomentum
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.penalties import BoundedPenalty
from sordino.privacy.accountants import epsilon
from sordino.privacy.events import Composed
from sordino.privacy.randomness import Randomness
from sordino.problem import NetworkProblem, Problem
from sordino.train import train

R1 = Relation.REPLACE_ONE
N, D, ROWS = 40, 3, Rows(2.0)
PROBLEM = Problem(N, D, Logistic(), penalty=BoundedPenalty(0.1))
BUDGET = Budget(1.0, 1e-6)
GIVEN = {"steps": 8, "batch_size": N, "first_batch": N, "clip": 0.3, "difference_clip": 0.01, "mix": 0.2}


def records():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), rng.choice([-1.0, 1.0], N)


def quiet(method, problem=PROBLEM):
    plan = method.plan(problem, BUDGET)
    first = replace(plan.first, noise=replace(plan.first.noise, std=1e-8))
    return replace(plan, first=first, noise=replace(plan.noise, std=1e-8))


def written_out(T, eta, C1, C2, gamma, reach=None):
    """Algorithm 1 with both clips, the penalty's gradient added to the estimate where it is used."""
    X, y = records()
    w = before = np.zeros(D)
    v = plain.clipped_sum(X, y, ROWS, PROBLEM.loss, w, C1) / N
    for t in range(T):
        if t:
            v = (1 - gamma) * v + plain.recursive_sum(X, y, ROWS, PROBLEM.loss, w, before, C2, C1, gamma) / N
        step = v + 2 * 0.1 * w / (1 + w**2) ** 2
        size = eta if reach is None else min(reach / np.linalg.norm(step), eta)
        before, w = w, w - size * step
    return w


@pytest.mark.parametrize(("C2", "gamma"), [(0.01, 0.2), (5.0, 0.2), (0.01, 0.0), (5.0, 1.0)])
def test_the_listing(C2, gamma):
    method = RecursiveMomentum(**{**GIVEN, "difference_clip": C2, "mix": gamma}, step_size=0.7)
    oracle = linear_oracle(*records(), PROBLEM, ROWS)
    got = method.run(quiet(method), PROBLEM, oracle, Randomness.seeded(0)).weights
    np.testing.assert_allclose(got, written_out(8, 0.7, 0.3, C2, gamma), atol=1e-6)


def test_the_papers_steps():
    """eta_t = min(zeta/(beta |v|), 1/(2 beta)): both sides of the minimum are taken."""
    beta = PROBLEM.constants.beta
    oracle = linear_oracle(*records(), PROBLEM, ROWS)
    for zeta in (0.003, 10.0):
        method = RecursiveMomentum(**{**GIVEN, "difference_clip": zeta})
        plan = quiet(method)
        assert plan.update.reach == pytest.approx(zeta / beta)
        assert plan.step_size == pytest.approx(1 / (2 * beta))
        got = method.run(plan, PROBLEM, oracle, Randomness.seeded(0)).weights
        np.testing.assert_allclose(got, written_out(8, 1 / (2 * beta), 0.3, zeta, 0.2, zeta / beta), atol=1e-6)
        # a stack takes a step of its own length in every run
        stack = method.run(plan, PROBLEM, oracle, Randomness.seeded(0), np.zeros((3, D))).weights
        np.testing.assert_allclose(stack, np.tile(got, (3, 1)), atol=1e-6)


def test_under_the_papers_steps_no_difference_is_clipped():
    beta = PROBLEM.constants.beta
    method = RecursiveMomentum(**{**GIVEN, "clip": 1.0, "difference_clip": 0.02})
    watched = Differences(linear_oracle(*records(), PROBLEM, ROWS))
    method.run(method.plan(PROBLEM, BUDGET), PROBLEM, watched, Randomness.seeded(0))
    X, y = records()
    for query in watched.queries:
        assert np.linalg.norm(query.at - query.since) <= 0.02 / beta * (1 + 1e-12)
        for i in range(N):
            far = plain.difference(X[i], y[i], ROWS, PROBLEM.loss, query.at, query.since, math.inf)
            assert np.linalg.norm(far) <= query.clip


class Differences:
    def __init__(self, oracle):
        self.oracle, self.queries = oracle, []
        self.draw = oracle.draw

    def release(self, query, noise, randomness):
        if hasattr(query, "difference"):
            self.queries.append(query.difference)
        return self.oracle.release(query, noise, randomness)


def test_all_mix_is_dp_sgd():
    oracle = linear_oracle(*records(), PROBLEM, ROWS)
    ours = RecursiveMomentum(8, 10, 10, 0.5, 0.3, 0.1, 1.0, rate=Cosine())
    theirs = DPSGD(8, 10, 0.5, 0.3, rate=Cosine())
    weights = [m.run(m.plan(PROBLEM, BUDGET), PROBLEM, oracle, Randomness.seeded(5)).weights for m in (ours, theirs)]
    np.testing.assert_allclose(*weights, rtol=1e-9)


def test_sensitivities_batches_and_releases():
    method = RecursiveMomentum(30, 5, 20, 0.5, 0.3, 0.01, 0.2)
    plan = method.plan(PROBLEM, BUDGET)
    assert plan.first.noise.sensitivity == pytest.approx(2 * 0.3)
    assert plan.noise.sensitivity == pytest.approx(2 * (0.8 * 0.01 + 0.2 * 0.3))
    assert (plan.first.sampling, plan.sampling) == (Poisson(20 / N), Poisson(5 / N))
    assert isinstance(plan.event, Composed)
    # v_0 and v_1, .., v_{T-1}: the last estimate is the one that the last step needs
    assert [count for _, count in plan.event.parts] == [1, 29]
    added = method.plan(PROBLEM, replace(BUDGET, relation=Relation.ADD_REMOVE))
    assert added.noise.sensitivity == pytest.approx(plan.noise.sensitivity / 2)
    fixed = replace(method, sampling="fixed_size").plan(PROBLEM, BUDGET)
    assert (fixed.first.sampling, fixed.sampling) == (FixedSize(20), FixedSize(5))
    # four batches, or everybody
    assert replace(method, first_batch=None).plan(PROBLEM, BUDGET).first.sampling == Poisson(20 / N)
    assert replace(method, batch_size=30, first_batch=None).plan(PROBLEM, BUDGET).first.sampling == FullBatch()
    assert replace(method, steps=1).plan(PROBLEM, BUDGET).event == plan.first.sampling.event(
        replace(method, steps=1).plan(PROBLEM, BUDGET).first.noise.event, N
    )


@pytest.mark.slow
def test_the_first_estimate_gets_the_noise_that_later_ones_have():
    """Zero records: v_t is noise alone, v_0 as large as v_{T-1} or, with a small first batch, as its batch makes it.

    Without a mix nothing is forgotten, and what came later is added to the first.
    """
    problem = Problem(1000, 1, Huber())
    oracle = linear_oracle(np.zeros((1000, 1)), np.zeros(1000), problem, Rows(1.0))
    for b0, mix in ((1000, 0.1), (1000, 0.0), (20, 0.1)):
        method = RecursiveMomentum(40, 20, b0, 1.0, 1.0, 0.05, mix)
        plan = method.plan(problem, BUDGET)
        start = np.zeros((4000, 1))
        kept = []
        for T in (1, 39, 40):
            w = method.run(replace(plan, steps=T), problem, oracle, Randomness.seeded(0), start).weights
            kept.append(w)
        first, last = kept[0].std(), (kept[2] - kept[1]).std()
        if b0 == 1000:
            assert plan.first.noise.multiplier > plan.noise.multiplier
            assert first * (1 if mix else math.sqrt(2)) == pytest.approx(last, rel=0.05)
        else:
            assert plan.first.noise.multiplier == pytest.approx(plan.noise.multiplier)
            assert first > last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delta", "fixed_size"), [(1e-3, (2.561, 0.987, 0.743, 0.604)), (1e-5, (4.217, 1.285, 0.895, 0.712))]
)
def test_noise_of_the_papers_experiment(delta, fixed_size):
    """n = 32561, b = 100, T = 1628, epsilon .1 .5 1 2: noise over sensitivity from two grids of the subsampled profile.

    Poisson batches need less.
    """
    network = NetworkProblem(32561, 123)
    method = RecursiveMomentum(1628, 100, 100, 1.0, 1.0, 0.01, 0.01, sampling="fixed_size")
    for e, z in zip((0.1, 0.5, 1.0, 2.0), fixed_size, strict=True):
        plan = method.plan(network, Budget(e, delta))
        assert plan.noise.multiplier == pytest.approx(z, rel=2e-3)
        coins = replace(method, sampling="poisson").plan(network, Budget(e, delta))
        assert coins.noise.multiplier < z / 1.1


def test_the_printed_noise():
    """Theorem 4.1, by hand: sigma/Delta of either sum is (b/n) sqrt(3.5 T alpha/(a epsilon))."""
    n, T, e, delta = 32561, 1628, 0.2, 1e-5
    method = RecursiveMomentum(T, 100, 400, 1.0, 1.0, 0.01, 0.02, sampling="fixed_size", calibration="paper")
    plan = method.plan(NetworkProblem(n, 123), Budget(e, delta))

    def alpha_over_a(a):
        return (1 + math.log(1 / delta) / ((1 - a) * e)) / a

    least = min(alpha_over_a(a) for a in np.linspace(0.4, 0.6, 2001))
    z = 100 / n * math.sqrt(3.5 * T * least / e)
    assert plan.noise.multiplier == pytest.approx(z, rel=1e-4)
    # the first sum has four times the batch, and so four times the multiplier
    assert plan.first.noise.multiplier == pytest.approx(4 * z, rel=1e-4)
    # on the mean over a batch
    contribution = 0.98 * 0.01 + 0.02 * 1.0
    assert plan.noise.std / 100 == pytest.approx(contribution * math.sqrt(14 * T * least / e) / n, rel=1e-4)


@pytest.mark.parametrize(("e", "truly"), [(0.2, 0.0475), (0.5, 0.1413), (1.0, 0.3538), (2.0, 1.2597)])
def test_what_the_printed_noise_truly_gives(e, truly):
    """Far less than claimed with the paper's batches of 100, where its side condition on alpha does not even hold."""
    method = RecursiveMomentum(1629, 100, 100, 1.0, 1.0, 0.01, 0.01, sampling="fixed_size", calibration="paper")
    plan = method.plan(NetworkProblem(32561, 123), Budget(e, 1e-5))
    assert epsilon(plan.event, 1e-5, R1) == pytest.approx(truly, rel=0.02)


def test_the_printed_noise_fails_at_the_budgets_of_its_networks():
    """n = 60000, b = 256, T = 500, epsilon = 7: noise of a fifth of the sensitivity hides nothing."""
    method = RecursiveMomentum(500, 256, 256, 0.1, 1.5, 0.01, 0.01, sampling="fixed_size", calibration="paper")
    plan = method.plan(NetworkProblem(60_000, 26_000), Budget(7.0, 1e-5))
    assert plan.noise.multiplier < 0.2
    assert epsilon(plan.event, 1e-5, R1) > 30


def test_the_certificate_of_printed_noise_says_what_it_is_worth():
    method = RecursiveMomentum(**GIVEN, step_size=0.5, calibration="paper")
    certificate = train(PROBLEM, BUDGET, method, linear_oracle(*records(), PROBLEM, ROWS)).certificate
    assert certificate.epsilon != BUDGET.epsilon
    assert "printed constants" in " ".join(certificate.notes)
    assert all(finding.holds for finding in verify(Certificate.from_json(certificate.to_json())))


def test_the_theorems_numbers():
    """Theorem 4.4 at n = 32561, d = 123, epsilon = .2, delta = 1e-5 for rows of norm one."""
    problem = Problem(32561, 123, Logistic(), penalty=BoundedPenalty(1e-3))
    plan = RecursiveMomentum(release="random").plan(problem, Budget(0.2, 1e-5))
    beta, F = 0.25 + 2e-3, math.log(2)
    spread = 123 * math.log(1e5)
    zeta = (beta * F * spread) ** 0.25 / math.sqrt(32561 * 0.2)
    assert plan.steps == math.ceil(4 * 32561 * 0.2 * math.sqrt(beta * F / spread)) == 290
    assert plan.update.difference_clip == pytest.approx(zeta) == pytest.approx(0.0492, abs=1e-4)
    assert plan.update.reach == pytest.approx(zeta / beta)
    assert plan.update.mix == pytest.approx(math.sqrt(2) * zeta)
    assert plan.sampling == Poisson(math.ceil(1 / zeta) / 32561)
    assert plan.first.sampling == Poisson(math.ceil(1 / (zeta**2 * beta * F)) / 32561)
    assert plan.clip == 1.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mix": 1.5}, "mix is 1.5"),
        ({"mix": -0.1}, "mix is -0.1"),
        ({"difference_clip": 0.0}, "difference_clip is 0.0"),
        ({"first_batch": N + 1}, "between 1 and the 40 records"),
        ({"release": "average"}, "'last', 'random'"),
        ({"calibration": "given"}, "noise_multiplier is None"),
        ({"calibration": "paper", "noise_multiplier": 1.0}, "not both"),
        ({"calibration": "loose"}, "'tight' or 'paper'"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        RecursiveMomentum(**{**GIVEN, "step_size": 0.5, **settings}).plan(PROBLEM, BUDGET)


def test_what_has_no_theorem():
    with pytest.raises(ValueError, match="no public bound at zero"):
        RecursiveMomentum().plan(Problem(N, D, Huber()), BUDGET)
    with pytest.raises(ValueError, match="replace_one only"):
        RecursiveMomentum(**GIVEN, calibration="paper").plan(PROBLEM, replace(BUDGET, relation=Relation.ADD_REMOVE))
