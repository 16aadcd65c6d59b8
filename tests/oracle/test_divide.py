"""Parts of the records as oracles of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sordino.budget import Relation
from sordino.losses import Huber, Logistic, Softmax
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.problem import Problem

N, D = 60, 4
FORMS = {"dense": np.asarray, "sparse": sparse.csr_array}
ROWS = Rows(1.5, intercept=0.3)


def records(loss):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7)
    y = rng.integers(0, loss.outputs, N) if loss.outputs > 1 else rng.choice([-1.0, 1.0], N)
    return X, y.astype(float)


def stated(loss, records=N):
    return Problem(records, D + 1, loss)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5, 1.0), Softmax(3)], ids=lambda loss: type(loss).__name__)
def test_a_part_answers_like_an_oracle_of_its_records(loss, form):
    X, y = records(loss)
    X[7], y[11] = np.nan, np.inf  # unusable features, and an unusable target
    batch = np.array([0, 3, 7, 11, 12, 58])
    rest = np.setdiff1d(np.arange(N), batch)
    problem = stated(loss)
    parts = linear_oracle(form(X), y, problem, ROWS).divide(batch, stated(loss, len(rest)), stated(loss, len(batch)))
    at = np.random.default_rng(1).normal(size=(3, problem.dim))
    for part, which in zip(parts, (rest, batch), strict=True):
        alone = linear_oracle(form(X[which]), y[which], stated(loss, len(which)), ROWS)
        assert np.array_equal(part.gradient(at), alone.gradient(at))
        assert np.array_equal(part.value(at), alone.value(at))


def test_parts_may_be_empty_where_the_number_of_records_is_private():
    X, y = records(Logistic())
    problem = stated(Logistic())
    oracle = linear_oracle(X, y, problem, ROWS, Relation.ADD_REMOVE)
    for batch, whole in ((np.array([], dtype=int), 0), (np.arange(N), 1), (None, 1)):
        parts = oracle.divide(batch, problem, problem)
        assert np.array_equal(parts[whole].gradient(np.ones(problem.dim)), oracle.gradient(np.ones(problem.dim)))
        assert not parts[1 - whole].gradient(np.ones(problem.dim)).any()
        assert parts[1 - whole].value(np.ones(problem.dim)) == 0
