"""Matrices in memory: every shape, form and number of models; nothing copied that need not be."""

import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.budget import Relation
from sordino.domains import Ball
from sordino.losses import Absolute, Logistic, Softmax
from sordino.oracle import linear_oracle
from sordino.oracle.block_queries import ClippedSum
from sordino.oracle.dense import DenseBlock
from sordino.oracle.kernels.dense import score_rows
from sordino.oracle.query import Choice, Gradient
from sordino.oracle.rows import Rows
from sordino.oracle.sparse import SparseBlock
from sordino.penalties import BoundedPenalty, Ridge
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum
from sordino.problem import Problem

STORAGE = {
    "dense32": lambda X: X.astype(np.float32),
    "dense64": lambda X: X,
    "csr32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "csr64": lambda X: sparse.csr_array(X),
}
SOME = np.array([0, 2, 3, 11, 12, 13, 30])


def example(loss, rho=0.0, records=37, features=5, seed=0):
    """Rows of which about half are longer than the bound; a third of the entries are zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(records, features)) * rng.choice([0.3, 1.0, 30.0], (records, 1))
    X[rng.random(X.shape) < 0.3] = 0.0
    X = X.astype(np.float32).astype(np.float64)  # the same numbers in either precision
    rows = Rows(bound=2.0, intercept=rho)
    problem = Problem(records, features + (rho > 0), loss, domain=Ball(4.0))
    return X, plain.targets(loss, records, rng), problem, rows


@pytest.mark.parametrize("storage", STORAGE)
def test_more_models_than_fit_one_task(storage):
    X, y, problem, rows = example(Softmax(3), 0.6, records=20, features=3)
    oracle = linear_oracle(STORAGE[storage](X), y, problem, rows)
    stack = np.random.default_rng(1).normal(size=(400, problem.dim))
    one_by_one = np.array([oracle.gradient(w) for w in stack])
    np.testing.assert_allclose(oracle.gradient(stack), one_by_one, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(oracle.value(stack), [oracle.value(w) for w in stack], rtol=1e-13)


@pytest.mark.parametrize("columns", [1, 3, 7, 8, 9, 16, 17, 33, 200])
@pytest.mark.parametrize("storage", STORAGE)
def test_any_width_and_number_of_records(storage, columns):
    for records in (1, 2, 7, 8, 9, 65):
        X, y, problem, rows = example(Logistic(), 0.5, records, columns)
        w = np.random.default_rng(1).normal(size=problem.dim)
        got = exact(linear_oracle(STORAGE[storage](X), y, problem, rows), Gradient(w, 0.3))
        want = plain.clipped_sum(X, y, rows, problem.loss, w, 0.3)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("storage", STORAGE)
def test_rows_have_the_joint_norm_with_the_constant_column(storage):
    """|a - y| has slope 1 below its target, so that one record's gradient is minus its row."""
    X, _, problem, rows = example(Absolute(), 0.7)
    problem, rows = replace(problem, row_norm=3.0), Rows(2.0, 0.7, norm=3.0)
    oracle = linear_oracle(STORAGE[storage](X), np.full(len(X), 1e6), problem, rows)
    longer = np.linalg.norm(X, axis=1) > 2.0
    assert 5 < longer.sum() < len(X) - 5
    for i in range(len(X)):
        row = -exact(oracle, Gradient(problem.start(), 1e3, np.array([i])))
        assert row[-1] == 0.7
        assert np.linalg.norm(row) <= 3.0 * (1 + 1e-15)
        assert not longer[i] or np.linalg.norm(row) > 3.0 * (1 - 1e-12)


def test_the_penalty_is_left_out():
    X, y, problem, rows = example(Logistic())
    w = np.ones(problem.dim)
    answers = [
        (oracle.gradient(w), oracle.value(w), exact(oracle, Gradient(w, 0.1)))
        for penalty in (Ridge(), Ridge(10.0), BoundedPenalty(3.0))
        for oracle in [linear_oracle(X, y, replace(problem, penalty=penalty), rows)]
    ]
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_answers_from_several_threads_at_once():
    X, y, problem, rows = example(Logistic(), 0.4, records=40_000, features=30)
    oracle = linear_oracle(X, y, problem, rows)
    stack = np.random.default_rng(1).normal(size=(9, problem.dim))
    want = oracle.gradient(stack)
    got = [None] * 4

    def work(k):
        got[k] = oracle.gradient(stack)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in got:
        np.testing.assert_array_equal(answer, want)


def test_a_dense_matrix_is_neither_copied_nor_changed():
    X, y, problem, rows = example(Logistic(), 0.4)
    X[3, 1] = np.nan
    for matrix in (X, X.astype(np.float32)):
        before, targets = matrix.copy(), y.copy()
        oracle = linear_oracle(matrix, y, problem, rows)
        oracle.gradient(np.ones((9, problem.dim)))
        exact(oracle, Gradient(np.ones(problem.dim), 0.1))
        assert np.shares_memory(oracle.blocks.blocks[0].X, matrix)
        assert matrix.flags.writeable
        assert not oracle.blocks.blocks[0].X.flags.writeable
        np.testing.assert_array_equal(matrix, before)
        np.testing.assert_array_equal(y, targets)


def test_a_sparse_matrix_is_neither_copied_nor_changed():
    X, y, problem, rows = example(Logistic(), 0.4)
    X[3, 1] = np.nan
    for kind in (np.float32, np.float64):
        matrix = sparse.csr_matrix(X.astype(kind))
        before = matrix.copy()
        oracle = linear_oracle(matrix, y, problem, rows)
        oracle.gradient(np.ones((9, problem.dim)))
        exact(oracle, Gradient(np.ones(problem.dim), 0.1, SOME))
        for mine, theirs, old in zip(
            oracle.blocks.blocks[0].X,
            (matrix.data, matrix.indices, matrix.indptr),
            (before.data, before.indices, before.indptr),
            strict=True,
        ):
            assert np.shares_memory(mine, theirs)
            np.testing.assert_array_equal(theirs, old)


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.astype(">f8"),
        lambda X: X.astype(np.longdouble),
        lambda X: X.tolist(),
        sparse.csc_array,
        sparse.coo_matrix,
        sparse.lil_array,
        lambda X: sparse.csr_array(X).astype(np.longdouble),
    ],
)
def test_other_forms_are_converted(convert):
    X, y, problem, rows = example(Logistic())
    w = np.ones(problem.dim)
    want = linear_oracle(X, y, problem, rows).gradient(w)
    np.testing.assert_allclose(linear_oracle(convert(X), y, problem, rows).gradient(w), want, rtol=1e-13)


def test_whole_numbers_and_read_only_arrays():
    X, y, problem, rows = example(Logistic())
    X = np.rint(X)
    w = np.ones(problem.dim)
    want = linear_oracle(X, y, problem, rows).gradient(w)
    X.flags.writeable = False
    y.flags.writeable = False
    np.testing.assert_array_equal(linear_oracle(X, y, problem, rows).gradient(w), want)
    np.testing.assert_array_equal(linear_oracle(X.astype(int), y.astype(int), problem, rows).gradient(w), want)


def test_the_factory_chooses_by_the_kind_of_matrix():
    X, y, problem, rows = example(Logistic())
    assert isinstance(linear_oracle(X, y, problem, rows).blocks.blocks[0], DenseBlock)
    assert isinstance(linear_oracle(sparse.csr_array(X), y, problem, rows).blocks.blocks[0], SparseBlock)
    assert isinstance(linear_oracle(sparse.coo_matrix(X), y, problem, rows).blocks.blocks[0], SparseBlock)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_mismatches_are_sentences(make):
    X, y, problem, rows = example(Logistic(), 0.5)
    with pytest.raises(ValueError, match="state it with features=6"):
        linear_oracle(make(X), y, replace(problem, features=5), rows)
    with pytest.raises(ValueError, match="y has shape"):
        linear_oracle(make(X), y[:-1], problem, rows)
    with pytest.raises(ValueError, match="y has shape"):
        linear_oracle(make(X), y[:, None], problem, rows)
    with pytest.raises(ValueError, match="X has 37 rows, but the problem was stated with 36 records"):
        linear_oracle(make(X), y, replace(problem, records=36), rows)
    with pytest.raises(ValueError, match="give both the same norm"):
        linear_oracle(make(X), y, problem, Rows(1.0, 0.5, norm=1.5))
    with pytest.raises(ValueError, match="last axis must have length 6"):
        linear_oracle(make(X), y, problem, rows).gradient(np.zeros(5))


def test_every_model_of_a_stack_needs_a_clip():
    with pytest.raises(ValueError, match="1 clips for 6 scores"):
        ClippedSum(Softmax(3), np.zeros((6, 2)), np.zeros(6), np.ones(1))


def test_a_vector_is_not_a_matrix():
    with pytest.raises(ValueError, match="X has 1 dimensions"):
        linear_oracle(np.ones(5), np.ones(5), Problem(5, 1, Logistic()), Rows(1.0))


def test_under_add_remove_the_number_of_records_is_a_public_stand_in():
    X, y, problem, rows = example(Logistic())
    w = np.ones(problem.dim)
    for records in (10, 1000):
        stated = replace(problem, records=records)
        oracle = linear_oracle(X, y, stated, rows, Relation.ADD_REMOVE)
        want = plain.clipped_sum(X, y, rows, problem.loss, w, problem.constants.L) / records
        np.testing.assert_allclose(oracle.gradient(w), want, rtol=1e-12)
        np.testing.assert_allclose(exact(oracle, Gradient(w, 5.0)), want * records, rtol=1e-12)
        value = plain.mean_loss(X, y, rows, problem.loss, w) * len(X) / records
        np.testing.assert_allclose(oracle.value(w), value, rtol=1e-13)
    for matrix in (X[:0], sparse.csr_array((0, X.shape[1]))):
        nobody = linear_oracle(matrix, y[:0], problem, rows, Relation.ADD_REMOVE)
        for at in (w, np.ones((9, problem.dim))):
            np.testing.assert_array_equal(nobody.gradient(at), np.zeros(at.shape))
            np.testing.assert_array_equal(nobody.value(at), np.zeros(at.shape[:-1]))


def test_the_best_point_is_chosen_most_often():
    X, y, problem, rows = example(Logistic(), 0.4)
    oracle, w = linear_oracle(X, y, problem, rows), np.zeros(problem.dim)
    for _ in range(50):
        w -= 4 * oracle.gradient(w)
    query = Choice(np.stack([np.zeros(problem.dim), w, -w]), 1.0, np.zeros(3))
    selection, randomness = NoisyMinimum(1.0, 10.0), Randomness.seeded(3)
    chosen = Counter(oracle.choose(query, selection, randomness) for _ in range(200))
    assert chosen[1] > 190


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 7, 8, 9, 20, 24, 103, 2050])
def test_a_record_has_the_same_score_at_every_place_of_a_tile(columns, kind):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(16, columns)).astype(kind), rng.normal(size=columns)
    want, got = np.empty(16), np.empty(16)
    score_rows(X, np.arange(16) * columns, 16, 0, True, w, want)
    np.testing.assert_allclose(want, X.astype(float) @ w, rtol=1e-13, atol=1e-14)
    for shift in range(1, 16):
        order = np.roll(np.arange(16), shift)
        score_rows(X, order * columns, 16, 0, False, w, got)
        np.testing.assert_array_equal(got, want[order])
