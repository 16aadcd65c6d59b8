"""Records at the kink of a loss: the last bit of a score decides a whole slope, so nobody else may decide that bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from sordino.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    HuberisedHinge,
    Logistic,
    MoreauSmoothed,
    Pinball,
    Softmax,
    Squared,
)
from sordino.oracle.block import Block
from sordino.oracle.block_queries import ClippedSum, PersonSums
from sordino.oracle.blocks import block_of
from sordino.oracle.dense import DenseBlock
from sordino.oracle.rows import Rows

D = 8
SIZES = (1, 2, 3, 7, 64, 2047, 2048, 2049, (1 << 17) // D - 1, (1 << 17) // D)
"""Where blocks, tiles and the choice between NumPy and the kernels begin and end."""

# a loss, a target and the score at which the slope jumps
KINKS = {
    "hinge": (Hinge(), 1.0, 1.0),
    "absolute": (Absolute(), 0.5, 0.5),
    "pinball": (Pinball(0.8), 0.5, 0.5),
    "insensitive": (EpsilonInsensitive(0.25), 0.5, 0.75),
    # as good as kinks: a slope goes from one end to the other within the last bits of a score
    "envelope": (MoreauSmoothed(Hinge(), 1e15), 1.0, 1.0),
    "narrow": (HuberisedHinge(1e-15), 1.0, 1.0),
}


@pytest.fixture(autouse=True)
def as_it_comes(compiled, monkeypatch):
    """Small questions are NumPy's again."""
    monkeypatch.setattr(DenseBlock, "small", 1 << 17)


def at_the_kink(score: float, models: int, columns: int = D) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose score under every model is at the kink, up to rounding: the models are the same."""
    rng = np.random.default_rng(3)
    # of one sign, so that no row is nearly orthogonal to w and longer than 1
    w, X = rng.uniform(5, 10, size=columns), rng.uniform(1, 2, size=(SIZES[-1] + 1, columns))
    return X * (score / (X @ w))[:, None], np.tile(w, (models, 1))


def held(X: np.ndarray, target: float) -> Block:
    return block_of(X, np.full(len(X), target), Rows(1.0))


@pytest.mark.parametrize("models", [1, 5, 9])
@pytest.mark.parametrize("name", KINKS)
def test_one_record_more_moves_a_sum_by_that_record(name, models):
    loss, target, score = KINKS[name]
    X, table = at_the_kink(score, models)
    asked = ClippedSum(loss, table, np.zeros(models), np.ones(models))
    for n in SIZES:
        less, more = (held(X[:count], target).answer(asked, None) for count in (n, n + 1))
        alone = held(X[n : n + 1], target).answer(asked, None)
        np.testing.assert_allclose(more - less, alone, atol=1e-9)


@pytest.mark.parametrize("columns", [D, 12, 16])
@pytest.mark.parametrize("loss", [Squared(1.0), Softmax(2)])
def test_a_clip_so_small_that_last_bits_fill_it(loss, columns):
    """Targets are 0 and so is the residual, or what the probability lacks of 1, but for a last bit. It depends on the
    processor at how many columns a library's product has other bits beside other rows."""
    X, (w,) = at_the_kink(1.0, 1, columns)
    # 1 + e^-a is rounded to 1 on one side of log 2^53, and to more on the other
    one = [53 * math.log(2) * w, 0 * w] if loss.outputs > 1 else [w]
    table = np.tile(one, (9, 1))
    asked = ClippedSum(loss, table, np.full(len(table), float(loss.outputs - 2)), np.full(9, 1e-20))
    for n in SIZES:
        less, more = (held(X[:count], 0.0).answer(asked, None) for count in (n, n + 1))
        assert np.linalg.norm((more - less).reshape(9, -1), axis=1).max() <= 1.001e-20


@pytest.mark.parametrize("name", KINKS)
def test_one_record_more_changes_no_other_person(name):
    loss, target, score = KINKS[name]
    X, table = at_the_kink(score, 3)
    for n in (1, 2, 7, 2047, 2048):
        sums = [
            held(X[:count], target).answer(PersonSums(loss, table, np.zeros(3), np.arange(count), count), None)
            for count in (n, n + 1)
        ]
        np.testing.assert_allclose(sums[1][:n], sums[0], atol=1e-12)


def test_a_record_with_a_column_twice_changes_no_other():
    """Summing it up sorts the entries of all rows, where they are not sorted: they add up in another order then."""
    X, table = at_the_kink(1.0, 1)
    n = 200
    columns = np.tile(np.arange(D)[::-1], n)
    asked = ClippedSum(Hinge(), table, np.zeros(1), np.ones(1))

    def answered(last: list[int]) -> np.ndarray:
        indices = np.concatenate([columns[:-D], last]).astype(np.int32)
        rows = sparse.csr_array((X[:n, ::-1].ravel(), indices, np.arange(0, n * D + 1, D, dtype=np.int32)), (n, D))
        return block_of(rows, np.ones(n), Rows(1.0)).answer(asked, None)

    moved = answered([0] * D) - answered(list(range(D))[::-1])
    assert np.linalg.norm(moved) <= X[n - 1].sum() + np.linalg.norm(X[n - 1])


def test_smooth_losses_may_be_left_to_matrix_products():
    """What the tests above rest on: the shortcuts are there, and a kink is what closes them."""
    X, table = at_the_kink(1.0, 9)
    asked = ClippedSum(Logistic(), table, np.zeros(9), np.ones(9))
    by_kernels = sum(held(X[i : i + 1], 1.0).answer(asked, np.array([0])) for i in range(64))
    np.testing.assert_allclose(held(X[:64], 1.0).answer(asked, None), by_kernels, rtol=1e-12)
