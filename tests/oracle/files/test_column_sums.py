"""Sums over the columns of a table: the bits that a matrix of the same records has in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import few_steps
import stored
from sordino.losses import Hinge, Logistic, Squared, Weighted
from sordino.methods import NoisyGradientDescent
from sordino.oracle import linear_oracle
from sordino.oracle.block_queries import ClippedLosses, ClippedSum, QuadraticForm
from sordino.oracle.dense import DenseBlock
from sordino.oracle.files.column_sums import ColumnSums
from sordino.oracle.files.row_major import Columns, Decoded, Piece
from sordino.oracle.rows import PreparedRows, Rows

ROWS = Rows(3.0, 0.4, 1.0)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """As if all sums were too large for NumPy."""
    monkeypatch.setattr(DenseBlock, "small", 0)


def records(count, width, kind=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)).astype(kind), rng.choice([-1.0, 1.0], count)


def in_columns(X, edges):
    """Decoded piece by piece, of which each has records before and after those that are meant."""
    pieces = []
    for start, stop in edges:
        wide = np.vstack([X[start:stop][:3], X[start:stop], X[:2]])
        begin = min(3, stop - start)
        pieces.append(Piece(Decoded([np.ascontiguousarray(column) for column in wide.T]), begin, begin + stop - start))
    return Columns(pieces, X.dtype)


def question(width, loss=None, clip=0.3):
    table = np.random.default_rng(1).normal(size=(1, width))
    return ClippedSum(Logistic() if loss is None else loss, table, np.full(1, 0.2), np.full(1, clip))


def same(X, y, asked, edges, rows=ROWS, weights=None):
    want = DenseBlock.of(X, y, rows, weights).answer(asked, None)
    found = ColumnSums()(in_columns(X, edges), y, rows, weights, asked)
    np.testing.assert_array_equal(found, want)
    assert want.any()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3, 8, 21, 130, 300])
def test_the_bits_of_memory(kind, width):
    X, y = records(5003, width, kind)
    X[::50] *= 1e4
    edges = [(0, 1), (1, 9), (9, 3000), (3000, 5003)]
    same(X, y, question(width), edges)
    same(X, y, question(width), edges, Rows(0.5, 0.0, 2.0))


@pytest.mark.parametrize("loss", [Hinge(), Squared(3.0), Weighted(Logistic(), (0.5, 1.0))])
def test_other_losses_weights_and_unusable_targets(loss):
    X, y = records(5003, 9)
    y[::7], y[1::9], y[2::11] = np.nan, np.inf, 5.0
    same(X, y, question(9, loss), [(0, 5003)])
    weights = np.random.default_rng(2).random(5003)
    weights[:3] = np.nan, 2.0, -1.0
    same(X, y, question(9, loss), [(0, 400), (400, 5003)], weights=weights)


def test_records_that_add_nothing():
    X, _ = records(2000, 9)
    # slopes beyond a margin of 1 are nothing: their rows are left out
    same(X, np.where(X[:, 0] > 0, 1.0, -1.0), question(9, Hinge()), [(0, 1500), (1500, 2000)])


def test_the_number_of_threads_does_not_matter(monkeypatch):
    X, y = records(90_000, 20, np.float32)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("SORDINO_THREADS", threads)
        sums = ColumnSums()
        found += [sums(in_columns(X, [(0, 50_000), (50_000, 90_000)]), y, ROWS, None, question(20)) for _ in range(2)]
    want = DenseBlock.of(X, y, ROWS).answer(question(20), None)
    for each in found:
        np.testing.assert_array_equal(each, want)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_of_zeros_and_rows_that_are_not_finite(kind):
    X, y = records(5003, 9, kind)
    X[::10], X[1::10, 4], X[2::10, 8], X[3::10, 0], X[3::10, 1] = 0.0, np.nan, np.inf, -np.inf, 1e30
    X[4::10, 5], X[4::10, 6] = np.nan, 0.0
    same(X, y, question(9), [(0, 2000), (2000, 5003)])
    same(X, y, question(9), [(0, 5003)], Rows(3.0, 0.0, 1.0))
    same(X, y, question(9, Hinge()), [(0, 5003)])


@pytest.mark.parametrize("number", [1e200, -1e155, 1e-170, 5e-324])
def test_rows_that_a_sum_of_squares_does_not_measure_are_left_to_the_matrix(number):
    X, y = records(1000, 5)
    X[700] = 0.0
    X[700, 2] = number
    assert ColumnSums()(in_columns(X, [(0, 1000)]), y, ROWS, None, question(5)) is None


def test_other_questions_are_left_to_the_matrix():
    X, y = records(1000, 5)
    stored_there, one = in_columns(X, [(0, 1000)]), question(5)
    form = QuadraticForm(Logistic(), one.table, 0.0)
    two = ClippedSum(one.loss, np.ones((2, 5)), np.zeros(2), np.ones(2))
    difference = ClippedSum(one.loss, one.table, one.offsets, one.clips, one.table, one.offsets)
    losses = ClippedLosses(one.loss, one.table, one.offsets, 1.0)
    for asked in (ClippedSum(form, one.table, one.offsets, one.clips), two, difference, losses):
        assert ColumnSums()(stored_there, y, ROWS, None, asked) is None
    assert ColumnSums()(stored_there, y, PreparedRows.of(ROWS, 5), None, one) is None
    assert ColumnSums()(X, y, ROWS, None, one) is None


@pytest.mark.parametrize("form", ["parquet", "parquet_folder", "arrow"])
@pytest.mark.parametrize("hostile", [False, True])
def test_files_in_one_block(tmp_path, form, hostile):
    X, y = few_steps.data(1000, 3)
    if hostile:
        X[5], X[800, 1], X[801] = 0.0, np.nan, 1e-200
    problem = few_steps.problem(NoisyGradientDescent(1), 1000, 3)
    here, there = (
        linear_oracle(*where, problem, few_steps.ROWS) for where in ((X, y), (stored.FORMS[form](tmp_path, X, y), None))
    )
    at = np.random.default_rng(3).normal(size=problem.dim)
    np.testing.assert_array_equal(there.gradient(at), here.gradient(at))
    # and of the records that a division left, or took
    odd = np.arange(1, 1000, 2)
    parts = [replace(problem, records=500)] * 2
    for kept, memory in zip(there.divide(odd, *parts), here.divide(odd, *parts), strict=True):
        np.testing.assert_array_equal(kept.gradient(at), memory.gradient(at))
