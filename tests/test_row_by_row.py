"""Products of rows with a matrix: no row's last bit may be decided by the rows beside it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sordino.hidden_layers import HiddenLayers
from sordino.losses import Huber
from sordino.oracle.statistics import CurvatureSum, GivenRows
from sordino.row_bound import RowBound, linear_scores
from sordino.row_by_row import row_by_row

RNG = np.random.default_rng(5)
N, D, K = 700, 37, 5
X, W = RNG.normal(size=(N, D)), RNG.normal(size=(D, K))
FORMS = {
    "doubles": lambda X: X,
    "columns": np.asfortranarray,
    "singles": lambda X: X.astype(np.float32),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "sparse": sparse.csr_array,
    "sparse columns": sparse.csc_array,
}
NETWORK = HiddenLayers(2.0, "tanh", ((RNG.normal(size=(D, D)), X[0]),))
SETTINGS = {
    "product": lambda rows: row_by_row(rows, W),
    "vector": lambda rows: row_by_row(rows, W[:, 0]),
    "bounded": lambda rows: linear_scores(rows, W.T, RowBound(np.zeros(D), np.full(D, 0.3)), row_by_row),
    "centred": lambda rows: linear_scores(rows, W.T, RowBound(X[0], np.linspace(0.1, 0.3, D)), row_by_row),
    "whitened": lambda rows: linear_scores(rows, W.T, RowBound(X[0], W @ W.T / 30), row_by_row),
    "network": lambda rows: row_by_row(NETWORK.after(getattr(rows, "toarray", lambda: rows)(), row_by_row), W),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_row_has_the_same_bits_among_any_others(setting, form):
    of, made = SETTINGS[setting], FORMS[form]
    everybody = of(made(X))
    for some in (slice(0, 1), slice(5, 7), slice(3, 67), slice(1, None), slice(None, None, -1), slice(2, 600, 3)):
        np.testing.assert_array_equal(of(made(X[some])), everybody[some])


def test_the_product_is_the_product():
    for made in FORMS.values():
        np.testing.assert_allclose(row_by_row(made(X), W), X @ W, rtol=1e-5, atol=1e-5)
    assert row_by_row(X[:0], W).shape == (0, K)
    assert row_by_row(X, W[:, 0]).shape == (N,)


@pytest.mark.parametrize("count", [1, 8, 31, 64, 255, 699])
def test_one_record_more_moves_no_other_across_a_jump_of_the_curvature(count):
    """Residuals are at Huber's threshold up to rounding, where the curvature goes from 1 to 0."""
    w = np.abs(W[:, 0])
    rows = np.abs(X)
    rows *= (0.5 / (rows @ w))[:, None]
    asked = CurvatureSum(Huber(0.5, 1.0), w)

    def total(n):
        return asked.of(GivenRows(rows[:n], rows[:n], rows[:n], np.zeros(n), np.ones(n)))

    only = asked.of(GivenRows(*([rows[count : count + 1]] * 3), np.zeros(1), np.ones(1)))
    np.testing.assert_allclose(total(count + 1) - total(count), only, atol=1e-10)


def test_matrix_products_fail_this_test():
    """So that it is one: somewhere a library's product gives a row other bits beside others."""
    whole = X @ W
    assert any((X[:n] @ W != whole[:n]).any() for n in range(1, 40))
