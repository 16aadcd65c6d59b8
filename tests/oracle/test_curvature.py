"""Products with the Hessian, and the same records under another loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.budget import Relation
from sordino.domains import Ball
from sordino.losses import Absolute, Hinge, Huber, Logistic, MoreauSmoothed, Pinball, Softmax, Squared
from sordino.oracle import dense, linear_oracle, sparse as compressed
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.problem import Problem

FORMS = {
    "dense": np.asarray,
    "single precision": lambda X: np.asarray(X, dtype=np.float32),
    "sparse": sparse.csr_array,
}
ROWS = Rows(bound=2.0, intercept=0.4)
D = 5


def data(loss, seed=0, n=300):
    """Rows of which some are too long, some empty and two not finite; the last target is not usable."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.6)
    X[3], X[4], X[5] = 0.0, 1e3, 1e200
    # as single precision has it, so that all forms hold the same numbers
    X[:5] = X[:5].astype(np.float32)
    X[6:] = X[6:].astype(np.float32)
    y = plain.targets(loss, n, rng)
    X[7, 1], X[8, 2], y[-1] = np.nan, np.inf, np.nan
    return X, y


def problem(loss, n=300):
    return Problem(n, D + 1, loss, domain=Ball(3.0))


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_products_are_derivatives_of_the_gradient(form):
    X, y = data(Logistic())
    oracle = linear_oracle(FORMS[form](X), y, problem(Logistic()), ROWS)
    rng, h = np.random.default_rng(2), 1e-5
    at, v = rng.normal(size=D + 1), rng.normal(size=D + 1)
    numerical = (oracle.gradient(at + h * v) - oracle.gradient(at - h * v)) / (2 * h)
    np.testing.assert_allclose(oracle.curvature_product(at)(v), numerical, rtol=1e-7)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_products_without_an_intercept_and_with_many_records(form):
    rng, rows = np.random.default_rng(3), Rows(bound=1.0)
    X = rng.normal(size=(30_000, 20)) / 3 * (rng.random((30_000, 20)) < 0.3)
    y = rng.choice([-1.0, 1.0], len(X))
    oracle = linear_oracle(FORMS[form](X), y, Problem(len(y), 20, Logistic()), rows)
    at, v = rng.normal(size=20), rng.normal(size=20)
    R = X * rows.scales(np.linalg.norm(X, axis=1))[:, None]
    want = R.T @ (Logistic().curvature(R @ at, y) * (R @ v)) / len(y)
    np.testing.assert_allclose(oracle.curvature_product(at)(v), want, rtol=1e-12)


def test_products_are_for_one_score_and_one_model():
    X, y = data(Softmax(3))
    oracle = linear_oracle(X, y, problem(Softmax(3)), ROWS)
    with pytest.raises(ValueError, match="3 scores per record: products with the Hessian are for one model"):
        oracle.curvature_product(np.zeros(3 * (D + 1)))
    X, y = data(Logistic())
    oracle = linear_oracle(X, y, problem(Logistic()), ROWS)
    with pytest.raises(ValueError, match=r"shape \(2, 6\)"):
        oracle.curvature_product(np.zeros((2, D + 1)))
    with pytest.raises(ValueError, match="not finite"):
        oracle.curvature_product(np.full(D + 1, np.inf))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [None, np.array([0, 3, 17, 250])])
def test_another_loss_on_the_same_records(form, batch):
    X, y = data(Hinge())
    X[5] = 0.0
    first, second = Hinge(), MoreauSmoothed(Hinge(), 3.0)
    matrix = FORMS[form](X)
    oracle = linear_oracle(matrix, y, problem(first), ROWS, Relation.ADD_REMOVE)
    other = oracle.under(second)
    at = np.random.default_rng(4).normal(size=D + 1)
    for loss, held in ((first, oracle), (second, other), (first, other.under(first))):
        alone = linear_oracle(matrix, y, problem(loss), ROWS, Relation.ADD_REMOVE)
        np.testing.assert_array_equal(held.gradient(at, batch), alone.gradient(at, batch))
        assert held.value(at) == alone.value(at)
    assert not np.array_equal(oracle.gradient(at), other.gradient(at))


@pytest.mark.parametrize("form", FORMS)
def test_another_loss_needs_no_copy_and_no_norms(form, monkeypatch):
    X, y = data(Hinge())
    X[5] = 0.0
    oracle = linear_oracle(FORMS[form](X), y, problem(Hinge()), ROWS)

    def refuse(X):
        raise AssertionError("the rows were measured again")

    for module in (dense, compressed):
        monkeypatch.setattr(module, "_norms", refuse)
    other = oracle.under(MoreauSmoothed(Hinge(), 3.0))
    other.gradient(np.ones(D + 1))
    assert other.blocks is oracle.blocks
    assert oracle.under(Logistic()).blocks is oracle.blocks


def test_another_loss_must_have_as_many_scores():
    X, y = data(Logistic())
    with pytest.raises(ValueError, match="Softmax has 3 scores per record and Logistic has 1"):
        linear_oracle(X, y, problem(Logistic()), ROWS).under(Softmax(3))


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(
    "loss",
    [Huber(0.4, 0.5), Absolute(0.5), Pinball(0.3, 0.5), Squared(0.5), MoreauSmoothed(Absolute(0.5), 2.0)],
    ids=repr,
)
def test_targets_are_clipped_to_the_bound_of_the_loss(form, loss):
    X, y = data(loss)
    assert (np.abs(y[:-1]) > 0.5).any()
    at = np.random.default_rng(5).normal(size=D + 1)
    for oracle in (
        linear_oracle(FORMS[form](X), y, problem(loss), ROWS),
        # the bound of the loss before does not stay behind
        linear_oracle(FORMS[form](X), y, problem(Absolute(0.1)), ROWS).under(loss),
    ):
        assert float(oracle.value(at)) == pytest.approx(plain.mean_loss(X, y, ROWS, loss, at), rel=1e-13)
        want = plain.clipped_sum(X, y, ROWS, loss, at, 0.3)
        np.testing.assert_allclose(exact(oracle, Gradient(at, 0.3)), want, rtol=1e-12)
        # at w = 0 no record costs more than the loss says
        assert oracle.value(np.zeros(D + 1)) <= loss.at_zero
