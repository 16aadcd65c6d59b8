"""Products of rows with a matrix: no row's last bit may be decided by the rows beside it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sordino.hidden_layers import HiddenLayers, scaled
from sordino.losses import Huber
from sordino.oracle.blocks import block_of
from sordino.oracle.dense import DenseBlock
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import CurvatureSum, GivenRows
from sordino.row_bound import RowBound, linear_scores
from sordino.row_by_row import row_by_row, squared_lengths

RNG = np.random.default_rng(5)
D, K = 37, 5
N = (1 << 16) // D + 2
"""Beside a whole piece of what is worked on at a time, two rows, or one where the last is left out."""
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
    alone = [slice(i, i + 1) for i in range(9)]
    for some in (*alone, slice(5, 7), slice(3, 67), slice(None, -1), slice(None, None, -1)):
        np.testing.assert_array_equal(of(made(X[some])), everybody[some])


@pytest.mark.parametrize("d", [1, 7, 8, 9, 127, 129, 1000, 4096, 4099, 8193, 40_000])
def test_a_row_is_as_long_among_any_others(d):
    """Rows of more than 8192 numbers are where a library's buffers end."""
    row = RNG.normal(size=d)
    for n in (1, 2, 3, 10, 40):
        rows = np.tile(row, (n, 1))
        found = {float(one) for made in (rows, np.asfortranarray(rows)) for one in squared_lengths(made)}
        assert found == {float(squared_lengths(row[None])[0])}
        assert len(np.unique(block_of(1e200 * rows, np.zeros(n), Rows(1.0)).given.inverses)) == 1
        assert len(np.unique(block_of(rows, np.zeros(n), Rows(0.1)).given.scales)) == 1


@pytest.mark.parametrize("d", [1, 7, 8, 9, 12, 16, 127, 128, 129, 136, 250, 1000, 8193])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_compiled_lengths_have_the_bits_of_numpy(d, kind):
    """Which of the two is asked goes by how many rows there are: no row's last bit may."""
    from sordino.oracle.kernels.norms import row_squares

    rows = (RNG.normal(size=(50, d)) * 10.0 ** RNG.integers(-9, 9, size=(50, d))).astype(kind)
    rows[3:6, 0] = np.inf, np.nan, 0.0
    rows.flags.writeable = False
    found = np.empty(len(rows))
    row_squares(rows, found)
    np.testing.assert_array_equal(found, np.square(rows.astype(np.float64)).sum(axis=1))
    # as many rows as it takes for the kernel to be asked
    many = np.resize(rows, (DenseBlock.small // d + 50, d))
    few, whole = (block_of(X, np.zeros(len(X)), Rows(1.0)).given for X in (rows, many))
    for one, other in ((few.scales, whole.scales), (few.inverses, whole.inverses)):
        np.testing.assert_array_equal(one, other[: len(rows)])


@pytest.mark.filterwarnings("error")
def test_a_row_that_is_too_long_for_a_double_warns_nobody():
    """A warning would tell that there is such a record."""
    rows = np.array([[1e200, -1e308], [1.0, 2.0], [1e-320, 0.0]])
    with np.errstate(all="raise"):
        assert squared_lengths(rows).tolist() == [np.inf, 5.0, 0.0]
    assert scaled(rows, 1.0)[0].tolist() == [0.0, -0.0]


def test_the_product_is_the_product():
    for made in FORMS.values():
        np.testing.assert_allclose(row_by_row(made(X), W), X @ W, rtol=1e-5, atol=1e-5)
    assert row_by_row(X[:0], W).shape == (0, K)
    assert row_by_row(X, W[:, 0]).shape == (N,)


@pytest.mark.parametrize("counts", [range(1, 130), range(255, 261), range(699, 705)])
def test_one_record_more_moves_no_other_across_a_jump_of_the_curvature(counts):
    """Residuals are at Huber's threshold up to rounding, where the curvature goes from 1 to 0."""
    w = np.abs(W[:, 0])
    rows = np.abs(X)
    rows *= (0.5 / (rows @ w))[:, None]
    asked = CurvatureSum(Huber(0.5, 1.0), w)

    def total(n):
        return asked.of(GivenRows(rows[:n], rows[:n], rows[:n], np.zeros(n), np.ones(n)))

    for count in counts:
        only = asked.of(GivenRows(*([rows[count : count + 1]] * 3), np.zeros(1), np.ones(1)))
        np.testing.assert_allclose(total(count + 1) - total(count), only, atol=1e-10)


def test_matrix_products_fail_this_test():
    """So that it is one: somewhere a library's product gives a row other bits beside others."""
    whole = X @ W
    assert any((X[:n] @ W != whole[:n]).any() for n in range(1, 40))
