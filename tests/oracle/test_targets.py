"""Every loss states which targets it admits, and every oracle holds its records to that."""

import math

import numpy as np
import pytest
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.budget import Budget, Relation
from sordino.domains import Ball
from sordino.losses import LOSSES, Logistic
from sordino.methods import OutputPerturbation
from sordino.oracle import linear_oracle
from sordino.oracle.cluster import KeptBlock
from sordino.oracle.files.memory import Memory
from sordino.oracle.files.partition import Partition, StreamedBlocks
from sordino.oracle.linear import BlockwiseOracle
from sordino.oracle.model import LinearModel
from sordino.oracle.query import ClippedLoss, Difference, Gradient
from sordino.oracle.rows import Rows
from sordino.problem import Problem

TARGETS = [0.0, 0.5, -0.5, 1.0, -1.0, 1 + 1e-12, 2.0, 30.0, -30.0, 1e300, 5e-324, np.nan, np.inf, -np.inf]
ROWS = Rows(1.0, 0.4)
ORACLES = {
    "dense": lambda X, y, problem: linear_oracle(X, y, problem, ROWS),
    "sparse": lambda X, y, problem: linear_oracle(sparse.csr_array(X), y, problem, ROWS),
    "streamed": lambda X, y, problem: linear_oracle(Memory.of(X, y), None, problem, ROWS),
    "another loss first": lambda X, y, problem: _under(X, y, problem),
}

every_loss = pytest.mark.parametrize("loss", plain.LOSSES, ids=plain.label)
every_oracle = pytest.mark.parametrize("form", ORACLES)


def _under(X, y, problem):
    """As proximal methods do it: the same records under a second loss."""
    first = next(loss for loss in plain.LOSSES if loss.outputs == problem.loss.outputs)
    return linear_oracle(X, y, Problem(len(X), X.shape[1] + 1, first, domain=problem.domain), ROWS).under(problem.loss)


def records(loss):
    """Every target once, on rows of full norm, and what is left out for them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(TARGETS), 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.array(TARGETS), Problem(len(X), 4, loss, domain=Ball(3.0))


def test_the_table_has_every_loss():
    assert {type(loss) for loss in plain.LOSSES} == set(LOSSES.values())


@every_loss
def test_what_a_loss_admits_keeps_its_constants(loss):
    """The slope and its change in the score, for whatever `admit` lets through."""
    y = loss.admit(np.array(TARGETS))
    assert [not math.isnan(one) for one in y] == [plain.usable(loss, one) for one in TARGETS]
    y = y[~np.isnan(y)]
    np.testing.assert_array_equal(loss.admit(y), y)
    scores = np.linspace(-2, 2, 401)[:, None]
    scores = np.stack([scores * k for k in range(loss.outputs)], axis=-1) if loss.outputs > 1 else scores
    slopes = loss.slope(np.broadcast_to(scores, (401, len(y), *scores.shape[2:])).copy(), np.tile(y, (401, 1)))
    sizes = np.abs(slopes) if loss.outputs == 1 else np.linalg.norm(slopes, axis=-1)
    assert sizes.max() <= loss.lipschitz(1.0, 2.0) * (1 + 1e-12)
    if math.isfinite(loss.smoothness(1.0)) and loss.outputs == 1:
        assert np.abs(np.diff(slopes, axis=0)).max() <= loss.smoothness(1.0) * 0.01 * (1 + 1e-9)


@every_oracle
@every_loss
def test_a_target_that_the_loss_does_not_admit_counts_for_nothing(loss, form):
    X, y, problem = records(loss)
    oracle = ORACLES[form](X, y, problem)
    rng = np.random.default_rng(1)
    w, since = rng.normal(size=(2, problem.dim))
    alone = [linear_oracle(X[[i]], y[[i]], problem, ROWS, Relation.ADD_REMOVE) for i in range(len(y))]
    for i, one in enumerate(alone):
        batch = np.array([i])
        found = exact(oracle, Gradient(w, 10.0, batch))
        np.testing.assert_allclose(found, exact(one, Gradient(w, 10.0)), rtol=1e-13, atol=1e-300)
        moved = exact(oracle, Difference(w, since, 10.0, batch))
        if not plain.usable(loss, y[i]):
            assert not found.any()
            assert not moved.any()
            assert float(one.value(w)) == 0
        # the constants hold for it: at 3 from zero no gradient is longer than L, and none turns faster than beta
        L, beta, _ = problem.constants
        assert np.linalg.norm(found) <= L * (1 + 1e-12) or np.linalg.norm(w) > 3
        assert np.linalg.norm(moved) <= beta * np.linalg.norm(w - since) * (1 + 1e-12)
    np.testing.assert_allclose(oracle.gradient(w), np.mean([one.gradient(w) * len(y) for one in alone], axis=0))


@every_loss
def test_workers_of_a_cluster_hold_their_records_to_it_too(loss):
    """A worker answers from a partition that is read for it, or kept."""
    X, y, problem = records(loss)
    w = np.random.default_rng(2).normal(size=problem.dim)
    model = LinearModel(problem, ROWS, Relation.REPLACE_ONE)
    part = Partition.whole(Memory.of(X, y))
    here = linear_oracle(X, y, problem, ROWS)
    for blocks in (StreamedBlocks(part, ROWS), KeptBlock.read(part).under(ROWS)):
        oracle = BlockwiseOracle(model, blocks)
        for query in (Gradient(w, 10.0), ClippedLoss(w, 5.0)):
            np.testing.assert_allclose(exact(oracle, query), exact(here, query), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("size", [1.0, 10.0, 30.0])
def test_descent_moves_by_no_more_than_its_sensitivity(size):
    """With targets of 30 taken as they are, one record moved the last iterate 10.4 times as far."""
    n, T = 2001, 20
    problem = Problem(n, 1, Logistic())
    plan = OutputPerturbation(steps=T).plan(problem, Budget(1.0, 1e-9))
    ends = []
    for last in (size, -size):
        y = np.r_[np.full(1100, size), np.full(n - 1101, -size), last]
        oracle = linear_oracle(np.ones((n, 1)), y, problem, Rows(1.0))
        w = np.zeros(1)
        for _ in range(T):
            w = w - plan.step_size * oracle.gradient(w)
        ends.append(w[0])
    assert abs(ends[0] - ends[1]) <= plan.sensitivity


@pytest.mark.parametrize("y", [["seven", "1"], np.array(["1", "seven"], dtype=object), [1 + 1j, 0j], [None, "seven"]])
@pytest.mark.parametrize("form", [lambda X, y: (X, y), lambda X, y: (Memory.of(X, y), None)])
def test_what_is_not_a_number_is_not_quoted(y, form):
    problem = Problem(2, 2, Logistic())
    with pytest.raises(ValueError, match="must hold real numbers") as caught:
        linear_oracle(*form(np.eye(2), y), problem, Rows(1.0)).gradient(np.zeros(2))
    assert "seven" not in str(caught.value)
    assert caught.value.__suppress_context__
