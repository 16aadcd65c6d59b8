from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import worst_case
from sordino.budget import Budget, Relation
from sordino.certificate import verify
from sordino.domains import Ball, Everywhere
from sordino.losses import Hinge, Huber, Logistic, Softmax, Squared
from sordino.methods import ObjectivePerturbation, solvers
from sordino.methods.solvers import NotCertified, newton, newton_within, norm_within
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon
from sordino.privacy.accountants.objective import objective_delta
from sordino.privacy.audit import audit
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.train import train

R1 = Relation.REPLACE_ONE
N = 400


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 3))
    return X, np.sign(X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=N))


def problem(mu=0.05, **facts):
    return Problem(N, 3, Logistic(), penalty=Ridge(mu), **facts)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("mu", [0.0, 1e-3, 0.1])
def test_tight_noise_earns_the_budget_and_no_more(mu, relation):
    budget = Budget(0.8, 1e-5, relation)
    plan = ObjectivePerturbation().plan(Problem(5000, 3, Logistic(), penalty=Ridge(mu)), budget)
    assert 0.999 * budget.epsilon <= epsilon(plan.event, budget.delta, relation) <= budget.epsilon
    assert plan.convexity == pytest.approx(5000 * mu + plan.added)
    assert plan.curvature_ratio == pytest.approx(0.25 / plan.convexity)


@pytest.mark.parametrize(("delta", "ratios"), [(1e-3, (1.22, 1.00, 0.96, 0.94)), (1e-5, (0.89, 0.85, 0.86, 0.88))])
def test_noise_against_the_printed_constants(delta, ratios):
    """Printed over certified standard deviation at kappa = epsilon/2, replace-one: below 1 the theorem fails."""
    for e, ratio in zip((0.1, 0.5, 1.0, 2.0), ratios, strict=True):
        facts = Problem(32561, 110, Logistic())
        budget = Budget(e, delta)
        printed, certified = (
            ObjectivePerturbation(added=0.25 / (e / 2), calibration=kind).plan(facts, budget).noise.std
            for kind in ("paper", "tight")
        )
        assert printed == pytest.approx(math.sqrt(10 * math.log(1 / delta)) / e)
        # a hundredth of the noise's shift is kept for the output
        assert printed / certified == pytest.approx(ratio, abs=0.012)


@pytest.mark.parametrize("solver", ["newton", "svrg"])
def test_the_released_point_is_the_perturbed_minimiser(records, solver):
    X, y = records
    facts, method = problem(), ObjectivePerturbation(solver=solver, tolerance=1e-9)
    plan = method.plan(facts, Budget(1.0, 1e-5))
    oracle = linear_oracle(X, y, facts, Rows(1.0), R1)
    w = method.run(plan, facts, oracle, Randomness.seeded(3)).weights
    # the same seed draws the same b first
    b = plan.noise.perturb(np.zeros(3), Randomness.seeded(3))
    gradient = N * oracle.gradient(w) + plan.convexity * w + b
    reach = plan.tolerance + 6 * plan.output_noise.std * math.sqrt(3) * (plan.convexity + 0.25 * N)
    assert np.linalg.norm(gradient) <= reach


def test_solvers_agree(records):
    X, y = records
    facts = problem()
    oracle = linear_oracle(X, y, facts, Rows(1.0), R1)
    ends = []
    for solver in ("newton", "svrg"):
        method = ObjectivePerturbation(solver=solver)
        plan = method.plan(facts, Budget(1.0, 1e-5))
        ends.append(method.run(plan, facts, oracle, Randomness.seeded(4)).weights)
    np.testing.assert_allclose(ends[0], ends[1], atol=12 * plan.output_noise.std)


def test_little_noise_finds_the_minimum(records):
    X, y = records
    facts, method = problem(mu=0.1), ObjectivePerturbation()
    oracle = linear_oracle(X, y, facts, Rows(1.0), R1)
    w = method.run(method.plan(facts, Budget(15.0, 1e-3)), facts, oracle, Randomness.seeded(0)).weights
    assert np.linalg.norm(oracle.gradient(w) + 0.1 * w) < 0.01


@pytest.mark.parametrize("radius", [0.02, 0.5])
@pytest.mark.parametrize("solver", ["newton", "svrg"])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.3)], ids=lambda loss: type(loss).__name__)
def test_what_is_released_minimises_over_the_ball(records, loss, solver, radius):
    """Algorithm 2's argmin over W, by projected gradients, which know nothing of multipliers."""
    X, y = records
    facts = Problem(N, 3, loss, penalty=Ridge(0.05), domain=Ball(radius))
    method = ObjectivePerturbation(added=5.0, solver=solver)
    plan = method.plan(facts, Budget(1.0, 1e-5))
    oracle = linear_oracle(X, y, facts, Rows(1.0), R1)
    w = method.run(plan, facts, oracle, Randomness.seeded(3)).weights
    b = plan.noise.perturb(np.zeros(3), Randomness.seeded(3))
    closest = np.zeros(3)
    for _ in range(3000):
        gradient = oracle.gradient(closest) + (plan.convexity * closest + b) / N
        closest = facts.domain.project(closest - gradient / (1.0 + plan.convexity / N))
    assert np.linalg.norm(closest) == pytest.approx(radius)
    assert np.linalg.norm(w - closest) <= 6 * plan.output_noise.std
    # the minimiser over everything, projected, is another point
    free = replace(facts, domain=Everywhere())
    projected = facts.domain.project(method.run(plan, free, oracle, Randomness.seeded(3)).weights)
    assert np.linalg.norm(projected - closest) > 0.01 * radius


@pytest.mark.parametrize("d", [2, 40])
@pytest.mark.parametrize("radius", [1e-3, 1.0, 30.0])
def test_the_minimiser_on_a_sphere_is_certified(d, radius):
    """Flat directions and steep ones: what is returned is on the sphere, and its gradient points outwards."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        H, b = np.logspace(0, -4, d), rng.normal(size=d)

        def gradient(w, H=H, b=b):
            return H * w + np.tanh(w) / 10 + b

        def curvature(w, H=H):
            return lambda v: (H + (1 - np.tanh(w) ** 2) / 10) * v

        w = newton_within(gradient, curvature, np.zeros(d), radius, 1e-10)
        on_sphere = np.linalg.norm(newton(gradient, curvature, np.zeros(d), 1e-10)) > radius
        assert np.linalg.norm(w) == pytest.approx(radius, rel=1e-14) if on_sphere else np.linalg.norm(w) <= radius
        nu = -gradient(w) @ w / radius**2 if on_sphere else 0.0
        assert nu >= 0
        assert np.linalg.norm(gradient(w) + nu * w) <= 1e-10


@pytest.mark.parametrize("radius", [1e-3, 0.4, 1e3])
@pytest.mark.parametrize("begin", [0.0, 80.0])
def test_a_coarse_tolerance_ends_somewhere_within_it(radius, begin):
    """Far out, where the gradient is short already, and in the middle: no error of what is called says where it was."""
    H, b = np.array([0.01, 0.001]), np.array([0.003, -0.001])

    def gradient(w):
        return H * w + b

    w = newton_within(gradient, lambda w: lambda v: H * v, np.full(2, begin), radius, 0.9)
    assert np.linalg.norm(w) <= radius * (1 + 1e-14)
    assert norm_within(w, gradient(w), radius) <= 0.9


def test_a_gradient_that_points_inwards_keeps_a_point_on_the_sphere_from_being_certified():
    """What falls towards the middle is no minimiser, however exactly its gradient points there."""
    w = np.array([0.0, 2.0])
    assert norm_within(w, -3 * w, 2.0) == 0.0
    assert norm_within(w, 3 * w, 2.0) == 6.0
    assert norm_within(w, np.array([1.0, -6.0]), 2.0) == pytest.approx(1.0)
    assert norm_within(w / 2, -3 * w, 2.0) == 6.0


def on_a_disc(X, y, sigma, Lambda, radius, angles, nodes):
    """Densities of argmin over |w| <= radius of sum log(1 + exp(-y <w, x>)) + (Lambda/2)|w|^2 + <b, w> in the plane.

    On the circle, at angle a: every b = -(grad + (Lambda + nu) w), nu >= 0, ends there, with Jacobian
    radius^2 <t, (H + Lambda + nu) t>, t the tangent. Within: one b, with Jacobian det(H + Lambda).
    """

    def at(w):
        p = 1 / (1 + np.exp(y * (w @ X.T)))
        gradient = -(y * p) @ X + Lambda * w
        return gradient, np.einsum("...i,ij,ik->...jk", p * (1 - p), X, X) + Lambda * np.eye(2)

    def normal(b):
        return np.exp(-(b**2).sum(axis=-1) / (2 * sigma**2)) / (2 * np.pi * sigma**2)

    u = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    gradient, H = at(radius * u)
    t = np.stack([-u[:, 1], u[:, 0]], axis=-1)
    bend = np.einsum("ai,aij,aj->a", t, H, t)
    x, weight = np.polynomial.legendre.leggauss(400)
    most = 10 * sigma / radius + np.linalg.norm(gradient, axis=1).max() / radius
    nu, weight = most * (x + 1) / 2, most * weight / 2
    b = gradient[:, None] + (nu[:, None] * radius) * u[:, None]
    circle = radius**2 * ((bend[:, None] + nu) * normal(b) * weight).sum(axis=1) * (2 * np.pi / len(angles))
    r = radius * (np.arange(nodes) + 0.5) / nodes
    gradient, H = at(r[:, None, None] * u)
    area = r[:, None] * (radius / nodes) * (2 * np.pi / len(angles))
    return circle, normal(gradient) * np.linalg.det(H) * area


@pytest.mark.parametrize("radius", [0.05, 0.4])
@pytest.mark.parametrize("turned", [False, True], ids=["opposite", "orthogonal"])
def test_the_profile_holds_over_a_disc(turned, radius):
    """Where the minimiser lies on the edge with some probability, and within with the rest."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 2)), np.ones(20)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Z = X.copy()
    Z[0] = [-X[0, 1], X[0, 0]] if turned else -X[0]
    sigma, Lambda = 3.0, 5.0
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    laws = [on_a_disc(rows, y, sigma, Lambda, radius, angles, 200) for rows in (X, Z)]
    for circle, inside in laws:
        assert circle.sum() + inside.sum() == pytest.approx(1, abs=1e-4)
        assert 0.02 < circle.sum()
    tightest = 0.0
    for epsilon_ in (0.1, 0.3, 0.5, 1.0):
        delta = sum(np.maximum(p - math.exp(epsilon_) * q, 0).sum() for p, q in zip(*laws, strict=True))
        bound = objective_delta(epsilon_, 0.25 / Lambda, sigma / 2, R1)
        assert delta <= bound
        tightest = max(tightest, delta / bound)
    assert tightest > 0.05


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_certified_end_to_end(records, calibration):
    X, y = records
    facts, budget = problem(domain=Ball(10.0)), Budget(1.0, 1e-6)
    oracle = linear_oracle(X, y, facts, Rows(1.0), R1)
    method = ObjectivePerturbation(calibration=calibration)
    certificate = train(facts, budget, method, oracle, rows=Rows(1.0)).certificate
    assert all(finding.holds for finding in verify(certificate))
    if calibration == "tight":
        assert certificate.epsilon == 1.0


def test_a_solver_that_falls_short_releases_nothing(records):
    X, y = records
    facts, method = problem(), ObjectivePerturbation(tolerance=1e-19)
    plan = method.plan(facts, Budget(1.0, 1e-5))

    def refusal(targets):
        with pytest.raises(NotCertified, match="nothing was released") as refused:
            method.run(plan, facts, linear_oracle(X, targets, facts, Rows(1.0), R1), Randomness.seeded(0))
        return str(refused.value)

    # and says nothing about the records
    assert refusal(y) == refusal(-y)


@pytest.mark.parametrize(
    ("facts", "method", "words"),
    [
        (Problem(50, 3, Softmax(4)), ObjectivePerturbation(), "rank-one Hessian: Softmax has rank 3"),
        (
            Problem(50, 3, Squared(1.0), domain=Ball(2.0)),
            ObjectivePerturbation(),
            "bounded slope, and Squared has none",
        ),
        (Problem(50, 3, Squared(1.0, clip=0.25)), ObjectivePerturbation(), "Squared has none"),
        (Problem(50, 3, Hinge()), ObjectivePerturbation(), "smooth"),
        (Problem(50, 3, Logistic(), penalty=BoundedPenalty()), ObjectivePerturbation(), "convex"),
        (Problem(50, 3, Logistic()), ObjectivePerturbation(added=0.0), "strong convexity"),
        (Problem(50, 3, Logistic()), ObjectivePerturbation(solver="magic"), "solver"),
        (Problem(50, 3, Logistic()), ObjectivePerturbation(calibration="loose"), "calibration"),
    ],
)
def test_what_is_refused(facts, method, words):
    with pytest.raises(ValueError, match=words):
        method.plan(facts, Budget(1.0, 1e-5))
    with pytest.raises(ValueError, match="delta is 0"):
        ObjectivePerturbation().plan(Problem(50, 3, Huber()), Budget(1.0))


@pytest.mark.audit
def test_the_claim_stands_and_half_the_noise_is_caught():
    facts, budget, method = worst_case.problem(mu=10.0), worst_case.budget(), ObjectivePerturbation()
    plan = method.plan(facts, budget)
    oracles = worst_case.neighbours(facts, budget.relation)

    def found(randomness_factor):
        noise = replace(plan.noise, std=plan.noise.std * randomness_factor)
        used = replace(plan, noise=noise)
        draws = [worst_case.outputs(method, used, facts, o, Randomness.seeded(8), 20_000) for o in oracles]
        return audit(*draws, budget.delta).epsilon

    # the bound counts both signs of the loss, which this large delta makes felt
    assert 0.5 * budget.epsilon <= found(1.0) <= budget.epsilon
    assert found(0.5) > budget.epsilon


@pytest.mark.parametrize("ridge", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("threshold", [1.0, 0.1, 1e-2, 1e-3])
def test_newton_gets_past_the_kinks_of_a_slope(threshold, ridge):
    """Huber's loss, nearly flat where most residuals are large: by halving a step alone it got stuck at some of these.

    There a Newton step is many times as long as the way to the next kink.
    """
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, noise = rng.normal(size=(50, 5)) / math.sqrt(5), 0.05 * threshold * rng.normal(size=5)
        y = X @ (2 * rng.normal(size=5)) + rng.standard_t(2, size=50)

        def gradient(w, X=X, y=y, noise=noise):
            return X.T @ np.clip(X @ w - y, -threshold, threshold) / 50 + ridge * w + noise

        def curvature(w, X=X, y=y):
            inside = np.abs(X @ w - y) <= threshold
            return lambda v: X.T @ (inside * (X @ v)) / 50 + ridge * v

        tolerance = 1e-10 * threshold
        assert np.linalg.norm(gradient(newton(gradient, curvature, np.zeros(5), tolerance))) <= tolerance


@pytest.mark.parametrize("d", [30, 5000])
def test_newton_asks_for_less_as_it_learns_the_curvature(d, monkeypatch):
    """Of many parameters, too, for which few pairs are kept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, d)) * np.logspace(0, -1, d) / math.sqrt(d)
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    asked = 0

    def gradient(w):
        nonlocal asked
        asked += 1
        return X.T @ (-y / (1 + np.exp(y * (X @ w)))) / 400 + 1e-4 * w

    def curvature(w):
        p = 1 / (1 + np.exp(-X @ w))

        def product(v):
            nonlocal asked
            asked += 1
            return X.T @ (p * (1 - p) * (X @ v)) / 400 + 1e-4 * v

        return product

    counts = []
    for learns in (True, False):
        if not learns:
            monkeypatch.setattr(solvers._Known, "learn", lambda self, s, y: None)
        asked = 0
        assert np.linalg.norm(gradient(newton(gradient, curvature, np.zeros(d), 1e-10))) <= 1e-10
        counts.append(asked)
    assert counts[0] < counts[1]
