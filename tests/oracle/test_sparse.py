"""What only compressed rows can get wrong: duplicates, order, kinds of index, broken positions."""

import numpy as np
import pytest
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.losses import Logistic, Softmax
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.problem import Problem

ROWS = Rows(bound=2.0, intercept=0.5)


def oracle_of(data, indices, indptr, columns, y, loss=None, kind=np.int32):
    """Straight from the arrays, past SciPy's own checks."""
    X = sparse.csr_matrix((len(indptr) - 1, columns))
    X.data, X.indices, X.indptr = np.array(data, float), np.array(indices, kind), np.array(indptr, kind)
    return linear_oracle(X, y, Problem(len(y), columns + 1, loss or Logistic()), ROWS)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_unsorted_columns_and_both_kinds_of_index(kind):
    data, indices, indptr = [1.0, 2.0, 3.0, -1.0], [3, 0, 2, 1], [0, 2, 2, 4]
    X = np.array([[2.0, 0, 0, 1], [0, 0, 0, 0], [0, -1, 3, 0]])
    y = np.array([1.0, -1.0, 1.0])
    w = np.arange(1.0, 6.0)
    oracle = oracle_of(data, indices, indptr, 4, y, kind=kind)
    assert oracle.blocks.blocks[0].X.indices.dtype.itemsize == np.dtype(kind).itemsize
    np.testing.assert_allclose(oracle.gradient(w) * 3, plain.clipped_sum(X, y, ROWS, Logistic(), w, 1.0), rtol=1e-13)
    batch = np.array([0, 2])
    want = plain.clipped_sum(X, y, ROWS, Logistic(), w, 0.1, batch)
    np.testing.assert_allclose(exact(oracle, Gradient(w, 0.1, batch)), want, rtol=1e-13)


@pytest.mark.parametrize("claims_to_be_canonical", [False, True])
def test_duplicates_are_summed_whatever_the_matrix_claims(claims_to_be_canonical):
    """Two halves of an entry have a smaller norm than their sum: clipping by it would let a record exceed its bound."""
    data, indices, indptr = [3.0, 3.0, 1.0, 5.0], [1, 1, 0, 2], [0, 3, 4]
    X = sparse.csr_matrix((2, 3))
    X.data, X.indices, X.indptr = np.array(data), np.array(indices, np.int32), np.array(indptr, np.int32)
    X.has_sorted_indices = X.has_canonical_format = claims_to_be_canonical
    oracle = linear_oracle(X, np.ones(2), Problem(2, 4, Logistic()), ROWS)
    full = np.array([[1.0, 6.0, 0], [0, 0, 5.0]])
    for clip in (0.01, 1.0):
        want = plain.clipped_sum(full, np.ones(2), ROWS, Logistic(), np.zeros(4), clip)
        for batch in (None, np.array([0, 1])):
            got = exact(oracle, Gradient(np.zeros(4), clip, batch))
            np.testing.assert_allclose(got, want, rtol=1e-13)
    np.testing.assert_array_equal(X.data, data)
    np.testing.assert_array_equal(X.indices, indices)


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [
        ([0, 3], [0, 1, 2]),
        ([0, -1], [0, 1, 2]),
        ([0, 1], [1, 1, 2]),
        ([0, 1], [0, 2, 1]),
        ([0, 1], [0, 1, 3]),
        ([0, 1], [0, -1, 2]),
        ([0, 1], [0, 2]),
        ([0, 1, 2], [0, 1, 3]),
    ],
)
def test_broken_positions_are_a_sentence(indices, indptr):
    X = sparse.csr_matrix((2, 3))
    X.data, X.indices, X.indptr = np.ones(2), np.array(indices, np.int32), np.array(indptr, np.int32)
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        linear_oracle(X, np.ones(2), Problem(2, 4, Logistic()), ROWS)


@pytest.mark.parametrize("classes", [2, 8, 9, 20])
def test_more_classes_than_a_group(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 6)) * (rng.random((30, 6)) < 0.5)
    y = rng.integers(0, classes, 30).astype(float)
    problem = Problem(30, 7, Softmax(classes))
    oracle = linear_oracle(sparse.csr_array(X), y, problem, ROWS)
    stack = rng.normal(size=(5, problem.dim))
    for batch in (None, np.arange(0, 30, 3)):
        want = [plain.clipped_sum(X, y, ROWS, problem.loss, w, 0.4, batch) for w in stack]
        np.testing.assert_allclose(exact(oracle, Gradient(stack, 0.4, batch)), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(oracle.value(stack), [plain.mean_loss(X, y, ROWS, problem.loss, w) for w in stack])
