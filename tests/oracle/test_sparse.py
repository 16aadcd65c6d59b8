"""What only compressed rows can get wrong: duplicates, order, kinds of index, broken positions."""

import numpy as np
import pytest
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.losses import Logistic, Softmax
from sordino.oracle import linear_oracle
from sordino.oracle.block_queries import ClippedSum
from sordino.oracle.blocks import block_of
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


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_of_every_length_have_each_entry_once(kind):
    """Entries are taken four at a time, and a row ends after any of them; whole numbers, so that scores are exact."""
    rng = np.random.default_rng(0)
    X = np.zeros((3 * 14, 20), kind)
    for number, length in enumerate(rng.permutation(np.repeat(np.arange(14), 3))):
        X[number, rng.choice(20, length, replace=False)] = rng.integers(1, 99, length)
    y, w, few = rng.choice([-1.0, 1.0], len(X)), rng.integers(-9, 9, 20).astype(float), np.arange(0, len(X), 2)
    oracle = linear_oracle(sparse.csr_array(X), y, Problem(len(X), 20, Logistic()), Rows(2.0))
    np.testing.assert_array_equal(oracle.blocks.blocks[0].dots(w), X.astype(float) @ w)
    for batch in (None, few):
        want = plain.clipped_sum(X.astype(float), y, Rows(2.0), Logistic(), w, 0.4, batch)
        np.testing.assert_allclose(exact(oracle, Gradient(w, 0.4, batch)), want, rtol=1e-12, atol=1e-14)


def test_a_score_has_the_bits_of_its_row_alone():
    """Whatever follows it in memory, be it no numbers."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 70_000), density=2e-4, format="csr", rng=rng)
    X.data[:] = rng.standard_normal(X.nnz)
    w, alone = rng.standard_normal(70_000), np.arange(0, 300, 2)
    others = np.repeat(np.arange(300) % 2 == 1, np.diff(X.indptr))
    X.data[others] = rng.choice([np.nan, np.inf, 1e300], others.sum())
    block = block_of(X, np.ones(300), Rows(2.0))
    one_by_one = [block_of(X[[i]], np.ones(1), Rows(2.0)).dots(w)[0] for i in alone]
    np.testing.assert_array_equal(block.dots(w)[alone], one_by_one)
    # what has no features adds nothing, and changes no bit of what the others add
    asked = ClippedSum(Logistic(), w[None], np.zeros(1), np.ones(1))
    np.testing.assert_array_equal(block.answer(asked, None), block.take(alone).answer(asked, None))


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
