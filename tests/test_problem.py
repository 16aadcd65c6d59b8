"""The public side: which constants a problem derives, and that one record cannot move a gradient further."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from sordino.budget import Relation
from sordino.domains import Ball, Everywhere
from sordino.losses import Absolute, Hinge, Huber, Logistic, Softmax, Squared
from sordino.penalties import BoundedPenalty, Ridge
from sordino.problem import Constants, Problem

# problem, (L, beta, mu), convex, smooth, radius. By hand, but for the roots, which mpmath made at 40 digits:
#     float(mp.sqrt(2 * at_zero / mpf(mu)))   for (at_zero, mu) =
#     (mp.log(2), "0.1"), (mpf("4.5"), "0.5"), (mpf("1.875"), "0.5"), (mp.log(4), "0.5")
GOLDEN: list[tuple[Problem, tuple[float, float, float], bool, bool, float]] = [
    (Problem(10, 3, Logistic()), (1.0, 0.25, 0.0), True, True, math.inf),
    # sqrt(2 log 2 / 0.1)
    (Problem(10, 3, Logistic(), penalty=Ridge(0.1)), (1.0, 0.35, 0.1), True, True, 3.723297411059034),
    (Problem(10, 3, Logistic(), 2.0, Ridge(0.1)), (2.0, 1.1, 0.1), True, True, 3.723297411059034),
    (Problem(10, 3, Logistic(), penalty=Ridge(0.1), domain=Ball(2.0)), (1.0, 0.35, 0.1), True, True, 2.0),
    (Problem(10, 3, Logistic(), penalty=Ridge(0.1), domain=Ball(9.0)), (1.0, 0.35, 0.1), True, True, 3.723297411059034),
    (Problem(10, 3, Logistic(), penalty=BoundedPenalty(0.5)), (1.0, 1.25, 0.0), False, True, math.inf),
    (Problem(10, 3, Logistic(), penalty=BoundedPenalty(0.0)), (1.0, 0.25, 0.0), True, True, math.inf),
    # sqrt(2 * 4.5 / 0.5), and the ball that the bound on the gradient is taken over: 2 (2 * 5 + 3)
    (Problem(10, 3, Squared(3.0), 2.0, Ridge(0.5), Ball(5.0)), (26.0, 4.5, 0.5), True, True, 4.242640687119285),
    (Problem(10, 3, Huber(1.5), 2.0, Ridge(0.5)), (3.0, 4.5, 0.5), True, True, math.inf),
    (Problem(10, 3, Huber(1.5, 2.0), 2.0, Ridge(0.5)), (3.0, 4.5, 0.5), True, True, 2.7386127875258306),
    (Problem(10, 3, Hinge(), 2.0, Ridge(0.5)), (2.0, math.inf, 0.5), True, False, 2.0),
    # sqrt(2 log 4 / 0.5)
    (Problem(10, 3, Softmax(4), 1.0, Ridge(0.5)), (math.sqrt(2), 1.0, 0.5), True, True, 2.3548200450309493),
]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: repr(row[0]))
def test_golden_constants(row: Any) -> None:
    problem, constants, convex, smooth, radius = row
    assert problem.constants == pytest.approx(constants, rel=1e-15, abs=0)
    assert (problem.convex, problem.smooth) == (convex, smooth)
    assert problem.radius == pytest.approx(radius, rel=1e-15, abs=0)


def test_the_constants_have_names() -> None:
    assert Problem(10, 3, Logistic(), penalty=Ridge(0.1)).constants == Constants(L=1.0, beta=0.35, mu=0.1)


@pytest.mark.parametrize("penalty", [Ridge(0.0), Ridge(50.0), BoundedPenalty(50.0)], ids=repr)
def test_the_penalty_costs_no_noise(penalty: Any) -> None:
    problem = Problem(100, 3, Logistic(), 2.0, penalty)
    assert problem.constants.L == 2.0
    assert problem.gradient_sensitivity(Relation.REPLACE_ONE) == 0.04


def test_defaults_are_no_penalty_everywhere_and_unit_rows() -> None:
    problem = Problem(10, 3, Logistic())
    assert (problem.row_norm, problem.penalty, problem.domain) == (1.0, Ridge(0.0), Everywhere())


def test_dim_counts_every_score() -> None:
    assert Problem(10, 7, Logistic()).dim == 7
    assert Problem(10, 7, Softmax(4)).dim == 28


def test_the_start_is_zero_whatever_the_records() -> None:
    start = Problem(10, 7, Softmax(4)).start()
    np.testing.assert_array_equal(start, np.zeros(28))
    assert start.dtype == np.float64


@pytest.mark.parametrize(("relation", "expected"), [(Relation.REPLACE_ONE, 0.06), (Relation.ADD_REMOVE, 0.03)])
def test_golden_gradient_sensitivity(relation: Relation, expected: float) -> None:
    # L = 1.5 * 2 = 3: 2L/n and L/n
    problem = Problem(100, 3, Huber(1.5), 2.0, Ridge(0.2))
    assert problem.gradient_sensitivity(relation) == pytest.approx(expected, rel=1e-15, abs=0)


def gradient(problem: Problem, X: Any, y: Any, w: Any) -> Any:
    """grad F, divided by the public count and not by the number of rows at hand."""
    return X.T @ problem.loss.slope(X @ w, y) / problem.records + problem.penalty.gradient(w)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), Absolute(), Hinge()], ids=repr)
@pytest.mark.parametrize("penalty", [Ridge(0.7), BoundedPenalty(0.7)], ids=repr)
def test_no_neighbour_moves_the_gradient_further_and_one_nearly_does(loss: Any, penalty: Any) -> None:
    rng, n, R = np.random.default_rng(1), 6, 1.5
    problem = Problem(n, 2, loss, R, penalty)
    replaced, removed = 0.0, 0.0
    for _ in range(3000):
        X = rng.normal(size=(n, 2))
        X *= R / np.linalg.norm(X, axis=1, keepdims=True)
        y, w = rng.choice([-1.0, 1.0], size=n), rng.normal(size=2) * 10.0 ** rng.uniform(-2, 2)
        # the record that moves the gradient most: the same row with the opposite target
        other, label = X.copy(), y.copy()
        label[0] = -y[0]
        if rng.uniform() < 0.5:
            other[0] = rng.normal(size=2)
            other[0] *= R / np.linalg.norm(other[0])
        here = gradient(problem, X, y, w)
        replaced = max(replaced, float(np.linalg.norm(here - gradient(problem, other, label, w))))
        removed = max(removed, float(np.linalg.norm(here - gradient(problem, X[1:], y[1:], w))))
    for moved, relation in ((replaced, Relation.REPLACE_ONE), (removed, Relation.ADD_REMOVE)):
        bound = problem.gradient_sensitivity(relation)
        assert 0.9 * bound <= moved <= bound * (1 + 1e-9)


@pytest.mark.parametrize("mu", [0.01, 0.3, 4.0])
@pytest.mark.parametrize("R", [0.5, 5.0])
def test_the_minimiser_lies_within_the_public_radius(mu: float, R: float) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    X *= R / np.linalg.norm(X, axis=1, keepdims=True)
    # separable: the hardest pull away from zero
    y = np.sign(X @ np.array([1.0, -2.0, 0.5]))
    problem = Problem(40, 3, Logistic(), R, Ridge(mu))

    def objective(w: Any) -> float:
        return float(problem.loss.value(X @ w, y).mean() + problem.penalty.value(w))

    def slope(w: Any) -> Any:
        return gradient(problem, X, y, w)

    solution = minimize(objective, problem.start(), jac=slope, tol=1e-12)
    assert np.linalg.norm(solution.x) <= problem.radius
    assert np.linalg.norm(solution.x) > 0.01 * problem.radius


def test_hessian_lies_between_mu_and_beta() -> None:
    rng, R, mu = np.random.default_rng(3), 1.5, 0.2
    X = rng.normal(size=(30, 4))
    X *= R / np.linalg.norm(X, axis=1, keepdims=True)
    X[:] = X[0]  # one direction: as curved as it gets in it, flat in the others
    problem = Problem(30, 4, Logistic(), R, Ridge(mu))
    curvature = problem.loss.curvature(X @ problem.start(), np.ones(30))
    eigenvalues = np.linalg.eigvalsh((X.T * curvature) @ X / 30 + mu * np.eye(4))
    assert eigenvalues.min() == pytest.approx(problem.constants.mu)
    assert eigenvalues.max() == pytest.approx(problem.constants.beta)


def test_is_a_frozen_value() -> None:
    problem = Problem(10, 3, Logistic())
    assert problem == dataclasses.replace(problem)
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.row_norm = 2.0  # type: ignore[misc]


def test_counts_may_be_numpy_integers() -> None:
    assert Problem(np.int64(10), np.int32(3), Logistic()).dim == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("row_norm", [None, 0.0, -1.0, math.inf, math.nan])
def test_row_norm_is_given_and_not_measured(row_norm: Any) -> None:
    with pytest.raises(ValueError, match=rf"row_norm is {row_norm}: .* that does not come from the data itself"):
        Problem(10, 3, Logistic(), row_norm)


@pytest.mark.parametrize("count", [0, -5, 2.5, 1e4, math.inf, math.nan, None, "10"])
@pytest.mark.parametrize("name", ["records", "features"])
def test_counts_are_whole_numbers(name: str, count: Any) -> None:
    counts = {"records": 10, "features": 3} | {name: count}
    with pytest.raises(ValueError, match=f"{name} is {count!r}: a problem needs a whole number of {name}"):
        Problem(**counts, loss=Logistic())


def test_squared_loss_needs_a_ball_or_a_clip() -> None:
    with pytest.raises(ValueError, match=r"Squared loss has no bounded gradient .* a clip, or .* a Ball\(radius\)"):
        Problem(10, 3, Squared(1.0), penalty=Ridge(1.0))
    assert Problem(10, 3, Squared(1.0, clip=0.25)).constants.L == 0.25


@pytest.mark.parametrize(
    ("problem", "assumption", "sentence"),
    [
        (
            Problem(10, 3, Logistic(), penalty=BoundedPenalty(0.5)),
            "convex",
            "gradient descent needs a convex objective: Logistic loss with BoundedPenalty is not; use a convex penalty",
        ),
        (
            Problem(10, 3, Hinge(), penalty=Ridge(0.5)),
            "smooth",
            "gradient descent needs a smooth objective: Hinge loss with Ridge is not; use a smooth loss",
        ),
    ],
)
def test_an_assumption_that_fails_is_named(problem: Problem, assumption: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        problem.require("gradient descent", assumption)


def test_assumptions_that_hold_pass() -> None:
    Problem(10, 3, Logistic(), penalty=Ridge(0.5)).require("gradient descent", "convex", "smooth")
