"""The last bit: clips reached exactly, norms of every size, scores that overflow, differences of near points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.domains import Ball
from sordino.losses import Huber, Logistic, Softmax, Squared
from sordino.oracle import linear_oracle
from sordino.oracle.blocks import block_of
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.rows import Rows
from sordino.problem import Problem


def alone(loss):
    return Problem(1, 2, loss, domain=Ball(1.0))


def test_norms_are_right_at_every_size():
    """A row over the bound by any factor is brought to it: neither lost to overflow nor let through by underflow."""
    for size in 10.0 ** np.arange(-300, 276, 25):
        x = np.array([[3.0, 4.0]]) * size
        for matrix in (x, sparse.csr_array(x)):
            oracle = linear_oracle(matrix, [1e9], Problem(1, 2, Huber()), Rows(bound=size))
            np.testing.assert_allclose(oracle.gradient(np.zeros(2)), [-0.6, -0.8], rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_an_infinite_score_counts_where_its_slope_is_finite(form):
    X = form(np.array([[1e200, 0.0]]))
    w = np.array([1e200, 0.0])
    for at in (w, np.tile(w, (9, 1))):
        squared = linear_oracle(X, [1.0], alone(Squared(1.0)), Rows(1e150))
        assert not exact(squared, Gradient(at, 0.5)).any()
        for y, want in ((1.0, 0.0), (-1.0, 0.5)):
            got = exact(linear_oracle(X, [y], alone(Logistic()), Rows(1e150)), Gradient(at, 0.5))
            np.testing.assert_allclose(got, np.broadcast_to([want, 0.0], at.shape), rtol=1e-12)


def test_clipping_holds_at_the_edge_for_many_rows():
    """Norms are rounded, and contributions too: neither may push a record over its clip, not by one bit."""
    rng = np.random.default_rng(0)
    for columns in (1, 3, 50):
        X = 5 + rng.normal(size=(300, columns))
        oracle = linear_oracle(X, np.full(300, 1e9), Problem(300, columns + 1, Huber()), Rows(0.01, 0.5))
        for clip in (0.9, 1.0):
            each = [Gradient(np.zeros(columns + 1), clip, np.array([i])) for i in range(300)]
            norms = [math.hypot(*exact(oracle, query)) for query in each]
            assert max(norms) <= clip
            assert min(norms) > clip * (1 - 1e-13)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_exact_gradients_keep_the_lipschitz_constant_far_from_where_it_holds(form):
    """Least squares has its constant from a ball or from a clip, and a solver may leave the one and pass the other."""
    X, y = np.array([[1.0, 0.0], [0.0, 0.5], [0.3, -0.4]]), np.array([1.0, -1.0, 0.2])
    for problem in (Problem(3, 2, Squared(1.0), domain=Ball(2.0)), Problem(3, 2, Squared(1.0, clip=0.25))):
        oracle = linear_oracle(form(X), y, problem, Rows(1.0))
        for w in (np.array([1e3, 1e3]), np.array([-1e9, 5.0])):
            each = [oracle.gradient(w, np.array([i])) for i in range(3)]
            assert max(np.linalg.norm(g) for g in each) * 3 <= problem.constants.L
            assert max(np.linalg.norm(g) for g in each) * 3 > 0.99 * problem.constants.L


def recursion(at, since, near, clip, mix, batch=None):
    return Recursion(Difference(at, since, near, batch), Gradient(at, clip, batch), mix)


def test_clipping_of_differences_holds_at_the_edge_for_many_rows():
    """Far targets on opposite sides of two points: the gradient flips, and both parts are clipped as far as they go."""
    rng = np.random.default_rng(0)
    X = 5 + rng.normal(size=(300, 3))
    oracle = linear_oracle(X, np.zeros(300), Problem(300, 4, Huber()), Rows(0.01, 0.5))
    at, since = np.full(4, 1e3), np.full(4, -1e3)
    for near, clip, mix in ((0.9, 0.7, 0.3), (1.9, 1.0, 0.01)):
        bound = recursion(at, since, near, clip, mix).clip
        each = [recursion(at, since, near, clip, mix, np.array([i])) for i in range(len(X))]
        norms = [math.hypot(*exact(oracle, query)) for query in each]
        assert max(norms) <= bound
        assert min(norms) > bound * (1 - 1e-13)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=plain.label)
def test_a_short_step_keeps_its_digits(loss):
    """Slopes a thousandth of a thousandth apart: their difference has as many digits as the step allows."""
    rng, rows = np.random.default_rng(0), Rows(2.0)
    X, y, problem = rng.normal(size=(37, 5)), plain.targets(loss, 37, rng), Problem(37, 5, loss)
    at, step = rng.normal(size=(2, problem.dim))
    since = at + 1e-6 * step
    got = exact(linear_oracle(X, y, problem, rows), Difference(at, since, 1.0))
    want = sum(plain.difference(X[i], y[i], rows, loss, at, since, 1.0) for i in range(37))
    np.testing.assert_allclose(got, want, atol=1e-9 * np.abs(want).max())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("bound", [1e-50, 1.0, 1e50])
def test_a_row_whose_score_could_overflow_has_no_features(form, bound):
    """What becomes of such a score depends on the order in which it is added up, which others might decide."""
    found = block_of(form(bound * np.array([[1e101, 0.0], [1e99, 0.0], [1.0, 0.0]])), np.ones(3), Rows(bound)).given
    np.testing.assert_array_equal(found.scales > 0, [False, True, True])
