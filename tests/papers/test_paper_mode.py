"""`calibration="paper"`: every number of a plan against the text of the theorem it is named after.

The formulas are written out here once more, in the papers' letters, for L, beta and mu that are put in by hand.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, log, sqrt

import numpy as np
import pytest

from sordino import Budget, Problem, verify
from sordino.domains import Ball
from sordino.federation.plan import FederationPlan, Owner
from sordino.losses import Hinge, Huber, Logistic
from sordino.methods import (
    DPSGD,
    DPAdam,
    DPRMSProp,
    HalvedMidway,
    NoisyGradientDescent,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    ProximalSmoothing,
    RandomRoundSGD,
    RecursiveMomentum,
    RepeatedSelection,
    Setting,
)
from sordino.methods.plan import LastStep, UniformStep, WeightedStep
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FixedSize, FullBatch, Poisson
from sordino.penalties import BoundedPenalty, Ridge
from sordino.train import train

exactly = pytest.approx


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_000_theorem_2(delta):
    """eta = 1/(mu + beta), Delta = 5L(1 + beta/mu)/(n beta) with L on |w| <= 2D, and the noise of Algorithm 1."""
    n, d, e, mu = 5000, 7, 0.5, 0.1
    beta, D = 0.25 + mu, sqrt(2 * log(2) / mu)
    L = 1 + mu * 2 * D
    plan = OutputPerturbation(calibration="paper").plan(Problem(n, d, Logistic(), penalty=Ridge(mu)), Budget(e, delta))
    Delta = 5 * L * (1 + beta / mu) / (n * beta)
    spread = d * log(1 / delta) if delta else d**2
    # the proof's first term is exp(-2 mu beta T/(mu + beta)^2)
    T = (mu + beta) ** 2 / (2 * mu * beta) * log((mu * n * e * D / L) ** 2 / spread)
    assert (plan.steps, plan.step_size) == (ceil(T), exactly(1 / (mu + beta)))
    if delta:
        assert plan.noise.std == exactly(sqrt(2 * log(2 / delta)) * Delta / e)
    else:
        # exp(-e |z|/Delta), stated relative to the true sensitivity
        assert plan.noise.sensitivity / plan.noise.epsilon == exactly(Delta / e)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_000_theorem_3(delta):
    """eta = 1/beta, Delta = 3LT/(beta n), and T where the two terms of the proof together are least."""
    n, d, e, D, beta, L = 5000, 7, 0.5, 3.0, 0.25, 1.0
    problem = Problem(n, d, Logistic(), domain=Ball(D))
    plan = OutputPerturbation(calibration="paper").plan(problem, Budget(e, delta))

    def bound(T):
        noise = 9 * T**2 * L**2 * d / (beta * n**2 * e**2)
        return 2 * beta * D**2 / T + noise * (log(2 / delta) if delta else (d + 1) / 2)

    best = min(np.arange(1.0, 500.0, 0.01), key=bound)
    assert plan.steps == exactly(best, abs=1.01)
    assert plan.step_size == exactly(1 / beta)
    Delta = 3 * L * plan.steps / (beta * n)
    scale = plan.noise.std / sqrt(2 * log(2 / delta)) if delta else plan.noise.sensitivity / plan.noise.epsilon
    assert scale == exactly(Delta / e)


def test_000_theorem_5():
    """Algorithm 2: n^2 rounds on one record each, R by 2 eta - beta eta^2, noise and step as printed."""
    n, d, e, delta, beta = 300, 10, 0.5, 1e-4, 0.25
    plan = RandomRoundSGD(calibration="paper").plan(Problem(n, d, Logistic()), Budget(e, delta))
    variance = 4 * log(3 * n / delta) * log(2 / delta) / e**2
    D_F = sqrt(2 * log(2) / beta)
    assert (plan.steps, plan.sampling, plan.clip, plan.stop) == (n**2, FixedSize(1), 1.0, WeightedStep(beta))
    assert plan.noise.std == exactly(sqrt(variance))
    assert plan.step_size == exactly(min(1 / beta, D_F / (sqrt(4 + d * variance) * n)))


def test_002_theorem_1_strongly_convex():
    """nu = mu: eta = 1/beta, T = 2 log(n)/(eta nu), the last iterate, and the noise of Algorithm 1."""
    n, d, e, delta, mu = 32561, 110, 0.5, 1e-5, 0.01
    problem = Problem(n, d, Logistic(), penalty=Ridge(mu))
    plan = NoisyGradientDescent(calibration="paper").plan(problem, Budget(e, delta))
    T = ceil(2 * log(n) * (0.25 + mu) / mu)
    assert (plan.steps, plan.sampling, plan.clip, plan.release) == (T, FullBatch(), 1.0, "last")
    assert plan.stop == LastStep()
    assert plan.step_size == exactly(1 / (0.25 + mu))
    assert plan.noise.std / n == exactly(2 * sqrt(2) * sqrt(T * log(1 / delta)) / (n * e))


def test_002_theorem_1_convex():
    """nu = 0: eta = 1/beta, T = n beta epsilon/sqrt(p), the average of x_2, .., x_{T+1}."""
    n, p, e, delta = 32561, 110, 0.5, 1e-5
    plan = NoisyGradientDescent(release="average", calibration="paper").plan(
        Problem(n, p, Logistic()), Budget(e, delta)
    )
    T = ceil(n * 0.25 * e / sqrt(p))
    assert (plan.steps, plan.step_size, plan.release, plan.clip) == (T, 4.0, "average", 1.0)
    assert plan.noise.std == exactly(2 * sqrt(2) * sqrt(T * log(1 / delta)) / e)
    assert plan.amplification is None


@pytest.mark.parametrize(("n", "d", "e"), [(32561, 110, 1.0), (32561, 110, 0.1)])
def test_003_theorem_3_2(n, d, e):
    """T, m and eta where either term of the minimum rules, and sigma^2 on the mean over a batch."""
    M, delta = 0.5, n**-2
    plan = NoisySGD(calibration="paper").plan(Problem(n, d, Logistic(), domain=Ball(M)), Budget(e, delta))
    T = ceil(min(n / 8, e**2 * n**2 / (32 * d * log(1 / delta))))
    m = ceil(max(n * sqrt(e / (4 * T)), 1))
    assert (plan.steps, plan.sampling, plan.release, plan.clip) == (T, Poisson(m / n), "average", 1.0)
    assert plan.step_size == exactly(M / sqrt(T))
    assert (plan.noise.std / m) ** 2 == exactly(8 * T * log(1 / delta) / (n**2 * e**2))
    # Lemma 3.4 needs eta <= 2/beta, which the condition on beta sees to
    assert plan.step_size <= 2 / 0.25


@pytest.mark.parametrize("R", [1.0, 3.0])
def test_003_theorem_4_4(R):
    """beta of the envelope, and Theorem 3.2 for losses of slope 2L (Lemma 4.3)."""
    n, d, e, M, L = 10_000, 100, 0.5, 2.0, R
    delta = n**-2
    method = ProximalSmoothing(calibration="paper")
    assert method == ProximalSmoothing(NoisySGD(calibration="paper"))
    plan = method.plan(Problem(n, d, Hinge(), row_norm=R, domain=Ball(M)), Budget(e, delta))
    beta = L / M * min(sqrt(n) / 4, e * n / (8 * sqrt(d * log(1 / delta))))
    T = ceil(min(n / 8, e**2 * n**2 / (32 * d * log(1 / delta))))
    m = ceil(max(n * sqrt(e / (4 * T)), 1))
    assert plan.sharpness * R**2 == exactly(beta)
    assert (plan.inner.steps, plan.inner.sampling) == (T, Poisson(m / n))
    assert plan.inner.step_size == exactly(M / (2 * L * sqrt(T)))
    assert (plan.inner.noise.std / m) ** 2 == exactly(8 * T * (2 * L) ** 2 * log(1 / delta) / (n**2 * e**2))
    # what a record moves is at most 2L, whatever the lemma says
    assert plan.inner.noise.sensitivity == exactly(2 * L)


def test_003_theorem_5_3():
    """sigma of Algorithm 2, and lambda; in the form of sums, lambda |w|^2 is (2 n lambda/2) |w|^2 / n."""
    n, d, e, M = 5000, 20, 0.5, 2.0
    delta = n**-2
    problem = Problem(n, d, Logistic(), domain=Ball(M))
    plan = ObjectivePerturbation(calibration="paper").plan(problem, Budget(e, delta))
    weight = 2 / M * sqrt(2 / n + 4 * d * log(1 / delta) / (e**2 * n**2))
    assert plan.added == plan.convexity == exactly(2 * n * weight)
    assert plan.noise.std == exactly(sqrt(10 * log(1 / delta)) / e)
    assert plan.curvature_ratio == exactly(0.25 / (2 * n * weight))


def test_004_theorems_4_1_and_4_4():
    """T, zeta, b_0, b and gamma; sigma_0 and sigma at an a that meets the side condition, with the least noise."""
    n, d, e, delta = 1_000_000, 20, 1.0, 1e-5
    problem = Problem(n, d, Logistic(), penalty=BoundedPenalty(1e-3))
    method = RecursiveMomentum(sampling="fixed_size", release="random", calibration="paper")
    plan = method.plan(problem, Budget(e, delta))
    beta, G, F = 0.25 + 2e-3, 1.0, log(2)
    zeta = sqrt(G) * (beta * F * d * log(1 / delta)) ** 0.25 / sqrt(n * e)
    T = ceil(4 * n * e * sqrt(beta * F) / (G * sqrt(d * log(1 / delta))))
    b_0, b, gamma = ceil(G**2 / (zeta**2 * beta * F)), ceil(G**2 / zeta), sqrt(2) * zeta
    assert (plan.steps, plan.first.sampling, plan.sampling) == (T, FixedSize(b_0), FixedSize(b))
    assert (plan.update.mix, plan.update.difference_clip, plan.clip) == (exactly(gamma), exactly(zeta), G)
    assert (plan.update.reach, plan.step_size) == (exactly(zeta / beta), exactly(1 / (2 * beta)))
    assert plan.stop == UniformStep()

    def noise(a):
        alpha = 1 + log(1 / delta) / ((1 - a) * e)
        return alpha, 14 * T * alpha / (a * n**2 * e)

    def meets(a):
        alpha, per_unit = noise(a)
        s = min(b, b_0) ** 2 * per_unit / 4
        return s >= 0.7 and alpha - 1 <= 2 * s * log(n / (b * alpha * (1 + s))) / 3

    least = min(noise(a)[1] for a in np.arange(1e-4, 1, 1e-5).tolist() if meets(a))
    moved = (1 - gamma) * zeta + gamma * G
    assert (plan.first.noise.std / b_0) ** 2 == exactly(least * G**2, rel=0.02)
    assert (plan.noise.std / b) ** 2 == exactly(least * moved**2, rel=0.02)
    assert (plan.noise.std / b) ** 2 >= least * moved**2 * (1 - 1e-3)


def test_004_theorems_5_1_and_5_2():
    """Among m owners of n records each: Theorem 4.4 with m n for n, and a record is drawn at one rate everywhere."""
    m, n, d, e, delta = 4, 250_000, 20, 1.0, 1e-5
    problem, budget = Problem(m * n, d, Logistic(), penalty=BoundedPenalty(1e-3)), Budget(e, delta)
    owners = tuple(Owner(f"owner {j}", n) for j in range(m))
    plan = FederationPlan(owners, problem, budget, SRM, rows=Rows(1.0))
    beta, F = 0.25 + 2e-3, log(2)
    zeta = (beta * F * d * log(1 / delta)) ** 0.25 / sqrt(m * n * e)
    assert plan.planned.steps == ceil(4 * m * n * e * sqrt(beta * F) / sqrt(d * log(1 / delta)))
    assert plan.planned == SRM.plan(problem, budget)
    for sampling, size in ((plan.planned.first.sampling, 1 / (zeta**2 * beta * F)), (plan.planned.sampling, 1 / zeta)):
        assert sampling == FixedSize(ceil(size))
        # never above the rate that is accounted for
        assert plan.sizes(sampling) == m * (ceil(size) // m,)


PLAIN = Problem(5000, 20, Logistic(), domain=Ball(2.0))
FINE = Budget(0.5, 5000**-2)
LARGE, SMALL, LOOSE = replace(FINE, epsilon=4.0), replace(FINE, epsilon=0.05), replace(FINE, delta=1e-5)
SRM = RecursiveMomentum(sampling="fixed_size", release="random", calibration="paper")
SEARCH = RepeatedSelection((Setting(NoisyGradientDescent()),), calibration="paper")


@pytest.mark.parametrize(
    ("method", "problem", "budget", "words"),
    [
        (NoisySGD(calibration="paper"), PLAIN, LARGE, "epsilon of at most 1, and it is 4"),
        (NoisySGD(calibration="paper"), PLAIN, LOOSE, "delta of at most 1/n"),
        (NoisySGD(calibration="paper"), replace(PLAIN, domain=Ball(400.0)), FINE, "beta of at most .*, and it is 0.25"),
        # epsilon n / (2 sqrt(2 d log(1/delta))) / M = .15962
        (NoisySGD(calibration="paper"), replace(PLAIN, domain=Ball(30.0)), SMALL, r"beta of at most 0\.1596 "),
        (NoisySGD(calibration="paper"), Problem(5000, 20, Logistic()), FINE, "a bounded domain"),
        (NoisySGD(release="last", calibration="paper"), PLAIN, FINE, "release='average'"),
        (NoisySGD(step_size=177.0, calibration="paper"), PLAIN, FINE, "at most 2/beta = 8, and they are 177"),
        # M / sqrt(T) = 12
        (NoisySGD(25, calibration="paper"), replace(PLAIN, domain=Ball(60.0)), FINE, "at most .* = 8, and they are 12"),
        (NoisySGD(rate=HalvedMidway(), calibration="paper"), PLAIN, FINE, "leave rate out"),
        (ProximalSmoothing(calibration="paper"), replace(PLAIN, loss=Hinge()), LARGE, "epsilon of at most 1"),
        (ObjectivePerturbation(calibration="paper"), PLAIN, LARGE, "epsilon of at most 1"),
        (ObjectivePerturbation(calibration="paper"), PLAIN, LOOSE, "delta of at most 1/n"),
        (ObjectivePerturbation(calibration="paper"), Problem(5000, 20, Logistic()), FINE, "a bounded domain"),
        (ObjectivePerturbation(calibration="paper"), replace(PLAIN, domain=Ball(1e4)), FINE, "epsilon n lambda"),
        (RandomRoundSGD(calibration="paper"), PLAIN, LARGE, "epsilon of at most 1, and it is 4"),
        (NoisyGradientDescent(calibration="paper"), PLAIN, FINE, "Ridge penalty for its last iterate"),
        (NoisyGradientDescent(release="random", calibration="paper"), PLAIN, FINE, "'last' or release='average'"),
        (NoisyGradientDescent(step_size=5.0, release="average", calibration="paper"), PLAIN, FINE, "at most 1/beta"),
        (NoisyGradientDescent(step_size=1.0, release="average", calibration="paper"), PLAIN, FINE, "leave step_size"),
        (OutputPerturbation(calibration="paper"), Problem(5000, 20, Logistic()), FINE, "a bound on"),
        (OutputPerturbation(5, calibration="paper"), Problem(9, 2, Huber(), penalty=Ridge(0.1)), FINE, "a bound on"),
        (OutputPerturbation(step_size=7.0, calibration="paper"), PLAIN, FINE, "steps of at most 4"),
        (SRM, PLAIN, FINE, "a side condition on alpha"),
        (replace(SRM, sampling="poisson"), PLAIN, FINE, "sampling='fixed_size'"),
        (replace(SRM, release="last"), PLAIN, FINE, "release='random'"),
        (DPAdam(calibration="paper"), PLAIN, FINE, "Zhou et al. 2020 leaves .* unnamed"),
        (DPRMSProp(calibration="paper"), PLAIN, FINE, "Zhou et al. 2020 leaves .* unnamed"),
        (DPSGD(calibration="paper"), PLAIN, FINE, "Abadi et al. 2016 leave .* unnamed"),
        (SEARCH, PLAIN, FINE, "prints no noise"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:20],
)
def test_a_condition_that_fails_is_a_sentence(method, problem, budget, words):
    with pytest.raises(ValueError, match=words):
        method.plan(problem, budget)


def test_numbers_that_are_given_need_no_theorem():
    """The noise is the printed one, and the certificate says what it is worth."""
    for method in (
        NoisySGD(20, 50, 0.1, calibration="paper"),
        ObjectivePerturbation(added=5.0, calibration="paper"),
        RandomRoundSGD(50, calibration="paper"),
        NoisyGradientDescent(20, 0.5, release="random", calibration="paper"),
        OutputPerturbation(20, 6.0, calibration="paper"),
        RecursiveMomentum(20, 50, 100, 0.5, 1.0, 0.1, 0.1, calibration="paper"),
    ):
        assert 0 < method.plan(Problem(5000, 20, Logistic()), Budget(4.0, 1e-3)).noise.std < inf


def test_what_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="inner draws the noise"):
        ProximalSmoothing(NoisySGD(), calibration="paper")
    with pytest.raises(ValueError, match="not both"):
        DPSGD(noise_multiplier=1.0, calibration="paper").plan(PLAIN, FINE)


def test_the_certificate_of_a_smoothed_loss_says_what_twice_the_noise_is_worth():
    rng = np.random.default_rng(0)
    n = 400
    X, y = rng.normal(size=(n, 2)), rng.choice([-1.0, 1.0], n)
    problem, rows = Problem(n, 2, Hinge(), domain=Ball(1.0)), Rows(1.0)
    method = ProximalSmoothing(calibration="paper")
    trained = train(problem, Budget(1.0, n**-2), method, linear_oracle(X, y, problem, rows), rows=rows)
    assert trained.certificate.epsilon < 0.5
    assert all(finding.holds for finding in verify(trained.certificate))
