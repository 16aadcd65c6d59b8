from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from sordino.budget import Budget, Relation
from sordino.curvature import (
    curvature,
    curvature_noise,
    descent_for_curvature,
    private_curvature,
    sgd_for_curvature,
)
from sordino.ledger.ledger import Ledger
from sordino.losses import Hinge, Huber, Logistic, Softmax, Squared
from sordino.methods import Inverse
from sordino.oracle.rows import Rows
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.accountants import epsilon, gdp_mu
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

R1 = Relation.REPLACE_ONE
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1.0, 0.3, 0.1]
SIGNS = np.sign(X @ [1.0, 2.0, -3.0] + RNG.normal(size=60))
NUMBERS = X @ [1.0, 2.0, -3.0] + 0.1 * RNG.normal(size=60)


def test_linear_regression_has_the_curvature_of_its_gram_matrix():
    H = X.T @ X / 60
    best = np.linalg.lstsq(X, NUMBERS, rcond=None)[0]
    found = curvature(X, NUMBERS, Squared(1e6))
    np.testing.assert_allclose(
        [found.minimum, found.largest, found.trace, found.average],
        [*np.linalg.eigvalsh(H)[[0, -1]], np.trace(H), np.trace(H) / 3],
    )
    # the average eigenvalue is the mean squared feature, which is how a table of it can be checked by hand
    assert found.average == pytest.approx((X**2).mean())
    assert found.distance == pytest.approx(np.linalg.norm(best), rel=1e-6)
    # for a quadratic <grad F(0), 0 - x*> = x*' H x*
    assert found.descent == pytest.approx(best @ H @ best, rel=1e-6)


def test_expected_curvature_against_simulation():
    """Definition 3: E <grad F(x - z), x - z - x*> = nu E |x - z - x*|^2, exact for a quadratic."""
    H = X.T @ X / 60
    best = np.linalg.lstsq(X, NUMBERS, rcond=None)[0]
    x = np.array([0.5, -1.0, 2.0])
    found = curvature(X, NUMBERS, Squared(1e6), at=x)
    for std in (0.3, 3.0):
        moved = x - std * RNG.normal(size=(200_000, 3)) - best
        nu = np.einsum("ij,jk,ik->i", moved, H, moved).mean() / (moved**2).sum(axis=1).mean()
        assert found.expected(std) == pytest.approx(nu, rel=0.02)
    assert found.expected(1e4) == pytest.approx(found.average, rel=1e-4)
    assert found.minimum < found.expected(1.0)


def test_a_singular_problem_takes_the_closest_minimiser():
    doubled = np.hstack([X, X])
    found = curvature(doubled, NUMBERS, Squared(1e6))
    assert found.minimum == pytest.approx(0.0, abs=1e-12)
    assert found.distance == pytest.approx(np.linalg.norm(np.linalg.pinv(doubled) @ NUMBERS), rel=1e-5)
    assert found.expected(1.0) > 0


@pytest.mark.parametrize("ridge", [0.01, 0.3])
@pytest.mark.parametrize(
    ("loss", "y"),
    [(Logistic(), SIGNS), (Softmax(3), np.arange(60) % 3), (Huber(0.5), NUMBERS)],
    ids=["Logistic", "Softmax", "Huber"],
)
def test_other_losses_against_finite_differences(loss, y, ridge):
    w = RNG.normal(size=3 * loss.outputs)
    K = loss.outputs

    def gradient(v):
        scores = X @ v.reshape(K, 3).T
        slopes = loss.slope(scores if K > 1 else scores[:, 0], np.asarray(y, dtype=float)).reshape(60, K)
        return (X.T @ slopes / 60).T.ravel() + ridge * v

    step = 1e-6
    H = np.array([(gradient(w + step * e) - gradient(w - step * e)) / (2 * step) for e in np.eye(3 * K)])
    for rows in (X, sparse.csr_matrix(X)):
        found = curvature(rows, y, loss, Ridge(ridge), at=w)
        values = np.linalg.eigvalsh((H + H.T) / 2)
        np.testing.assert_allclose([found.minimum, found.largest], values[[0, -1]], rtol=1e-3, atol=1e-7)
        assert found.trace == pytest.approx(np.trace(H), rel=1e-4)
        # the minimiser is found: strong convexity between it and w
        assert found.descent >= ridge * found.distance**2


def test_the_repr_says_that_it_is_not_private():
    assert "not private" in repr(curvature(X, NUMBERS, Squared(1e6)))


def test_what_is_refused():
    with pytest.raises(ValueError, match="5004 parameters"):
        curvature(np.zeros((2, 5004)), np.ones(2), Logistic())
    with pytest.raises(ValueError, match="positive finite noise"):
        curvature(X, NUMBERS, Squared(1e6)).expected(0.0)
    for problem in (Problem(10, 2, Hinge()), Problem(10, 2, Logistic(), penalty=BoundedPenalty())):
        with pytest.raises(ValueError, match="the average curvature needs"):
            curvature_noise(problem, Budget(1.0, 1e-5))
    problem = Problem(1000, 10, Logistic())
    for nu in (0.0, -1.0, 0.26, math.nan):
        with pytest.raises(ValueError, match="expected curvature"):
            descent_for_curvature(nu, problem)
        with pytest.raises(ValueError, match="expected curvature"):
            sgd_for_curvature(nu, problem, 10, 10)


def bounded(rows, raw):
    """Rows as the model sees them, one by one."""
    kept = [x * min(1.0, rows.bound / np.linalg.norm(x)) * rows.factor for x in raw]
    return np.array([[*x, rows.intercept] if rows.has_intercept else x for x in kept])


@pytest.mark.parametrize("rows", [Rows(1.0), Rows(0.7, intercept=0.4)], ids=["plain", "intercept"])
@pytest.mark.parametrize(
    ("loss", "y"), [(Logistic(), SIGNS), (Softmax(3), np.arange(60) % 3)], ids=["Logistic", "Softmax"]
)
def test_the_private_average_is_the_average_with_noise(rows, loss, y):
    problem = Problem(60, 3 + rows.has_intercept, loss, penalty=Ridge(0.05))
    for at in (None, RNG.normal(size=problem.dim)):
        exact = curvature(bounded(rows, X), y, loss, Ridge(0.05), at=at).average
        for records in (X, sparse.csr_matrix(X)):
            found = private_curvature(records, y, problem, rows, Budget(1e6, 1e-3), at, Randomness.seeded(1))
            assert found.average == pytest.approx(exact, rel=2e-3)


def test_noise_has_the_size_of_one_records_share():
    """Rows of norm one at zero: every record has the trace 1/4, and so has the noise's sensitivity."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    problem, budget = Problem(60, 3, Logistic()), Budget(5.0, 1e-3)
    noise = curvature_noise(problem, budget)
    assert noise.sensitivity == 0.25
    assert noise.std == pytest.approx(0.25 / gdp_mu(5.0, 1e-3), rel=1e-3)
    randomness = Randomness.seeded(3)
    found = np.array(
        [private_curvature(unit, SIGNS, problem, Rows(1.0), budget, randomness=randomness).average for _ in range(400)]
    )
    # the exact value is the largest possible one, so half of the noise is cut off there
    assert found.max() == pytest.approx(0.25 / 3)
    assert (found < 0.25 / 3 * (1 - 1e-9)).mean() == pytest.approx(0.5, abs=0.12)
    shortfall = 0.25 / 3 - found[found < 0.25 / 3 * (1 - 1e-9)]
    assert math.sqrt((shortfall**2).mean()) == pytest.approx(noise.std / (60 * 3), rel=0.2)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_budget_is_earned_and_can_be_reserved(relation, delta, tmp_path):
    budget = Budget(0.1, delta, relation)
    noise = curvature_noise(Problem(1000, 20, Logistic()), budget)
    assert 0.999 * 0.1 <= epsilon(noise.event, delta, relation) <= 0.1
    ledger = Ledger(tmp_path / "ledger")
    ledger.open("survey", Budget(1.0, 2 * delta, relation))
    with ledger.reserve("survey", noise.event, relation, "average curvature"):
        pass


def test_no_record_moves_the_sum_by_more_than_its_bound():
    """Records that are huge, tiny, missing or infinite included."""
    strange = [
        np.zeros(3),
        np.full(3, 1e200),
        np.array([np.nan, 1, 1]),
        np.array([np.inf, 0, 0]),
        np.array([1.0, 0, 0]),
    ]
    for loss, target in ((Logistic(), 1.0), (Softmax(4), 2.0), (Huber(), np.nan)):
        rows = Rows(0.5, intercept=0.3)
        problem = Problem(61, 4, loss)
        c = curvature_noise(problem, Budget(1.0, 1e-6)).sensitivity
        for at in (None, RNG.normal(size=problem.dim) * 5):
            sums = []
            for record in strange:
                records, y = np.vstack([X, record]), np.append(np.zeros(60), target)
                found = private_curvature(
                    records, y, problem, rows, Budget(1e6, 1e-3), at, Randomness.seeded(1)
                ).average
                assert math.isfinite(found)
                sums.append(found * problem.dim * 61)
            assert max(sums) - min(sums) <= c * 1.01


def test_rows_longer_than_the_problem_says_count_for_no_more_than_its_bound():
    problem, budget = Problem(20, 2, Logistic(), row_norm=1.0), Budget(1e6, 1e-3)
    rows = np.tile([10.0, 0.0], (20, 1))
    found = [
        private_curvature(rows[:n], np.ones(n), problem, Rows(10.0, norm=10.0), budget, None, Randomness.seeded(1))
        for n in (1, 2)
    ]
    assert (found[1].average - found[0].average) * 2 * 20 == pytest.approx(problem.loss.trace(1.0), rel=0.01)


@pytest.mark.parametrize("made", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
def test_one_record_more_moves_no_other_across_a_jump_of_the_curvature(made):
    """Scores are at Huber's threshold up to rounding, where the curvature goes from 1 to 0."""
    rng = np.random.default_rng(1)
    w, rows = rng.uniform(0.06, 0.12, size=37), rng.uniform(1, 2, size=(41, 37))
    rows *= (0.5 / (rows @ w))[:, None]
    budget = Budget(1e6, 1e-3, Relation.ADD_REMOVE)
    problem = Problem(41, 37, Huber(0.5))

    def total(n):
        found = private_curvature(made(rows[:n]), np.zeros(n), problem, Rows(1.0), budget, w, Randomness.seeded(1))
        return found.average * 41 * 37

    for n in range(1, 41):
        assert -0.01 <= total(n + 1) - total(n) <= 1.01


def test_an_average_that_no_data_can_have_is_rounded_off():
    problem = Problem(5, 2, Logistic(), penalty=Ridge(0.01))
    found = [
        private_curvature(X[:5, :2], SIGNS[:5], problem, Rows(1.0), Budget(0.01, 1e-6), randomness=Randomness.seeded(i))
        for i in range(20)
    ]
    averages = [one.average for one in found]
    assert (min(averages), max(averages)) == (0.01, 0.01 + 0.25 / 2)


def test_settings_from_a_curvature():
    """Theorem 1: T = 2 log(n) / (eta nu) with eta = 1/beta."""
    problem = Problem(10_000, 50, Logistic())
    method = descent_for_curvature(0.01, problem)
    assert method.step_size == pytest.approx(4.0)
    assert method.steps == math.ceil(2 * math.log(10_000) / 0.04)
    assert method.release == "last"
    assert descent_for_curvature(0.01, problem, step_size=2.0).steps == math.ceil(2 * math.log(10_000) / 0.02)
    sgd = sgd_for_curvature(0.01, problem, 100, 500)
    assert (sgd.step_size, sgd.rate, sgd.release) == (100.0, Inverse(), "last")
    assert (sgd.steps, sgd.batch_size) == (100, 500)
    assert sgd.plan(problem, Budget(1.0, 1e-8)).steps == 100


def test_theorem_one_finds_the_minimum_of_a_badly_conditioned_problem():
    """The smallest eigenvalue would ask for a thousand times as many steps as the average one."""
    rng = np.random.default_rng(5)
    raw = rng.normal(size=(4000, 3)) * [1.0, 1.0, 0.02]
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    y = np.sign(raw[:, 0] + 0.3 * rng.normal(size=4000))
    found = curvature(raw, y, Logistic(), Ridge(1e-4))
    assert found.average > 100 * found.minimum
    problem = Problem(4000, 3, Logistic(), penalty=Ridge(1e-4))
    paid = private_curvature(raw, y, problem, Rows(1.0), Budget(0.05, 1e-9), randomness=Randomness.seeded(0))
    assert paid.average == pytest.approx(found.average, rel=0.1)
    assert descent_for_curvature(paid.average, problem).steps < 300
