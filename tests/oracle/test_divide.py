"""Parts of the records as oracles of their own, and the noisy sum of clipped losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sordino.budget import Relation
from sordino.losses import Huber, Logistic, Softmax
from sordino.oracle import linear_oracle
from sordino.oracle.query import ClippedLoss, Gradient
from sordino.oracle.rows import Rows
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
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


def test_a_part_must_be_stated_with_its_own_number_of_records():
    X, y = records(Logistic())
    oracle = linear_oracle(X, y, stated(Logistic()), ROWS)
    with pytest.raises(ValueError, match="X has 58 rows, but the problem was stated with 60"):
        oracle.divide(np.array([1, 2]), stated(Logistic()), stated(Logistic(), 2))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_sum_of_clipped_losses(form):
    loss, clip = Logistic(), 0.9
    X, y = records(loss)
    oracle = linear_oracle(form(X), y, stated(loss), ROWS)
    w = np.random.default_rng(2).normal(size=(5, D + 1)) * 3
    rows = X * ROWS.scales(np.linalg.norm(X, axis=1))[:, None]
    margins = w[:, :D] @ rows.T + ROWS.intercept * w[:, D:]
    exact = np.minimum(np.log1p(np.exp(-y * margins)), clip).sum(axis=1)
    noise = GaussianNoise(clip, 1e-6, 1)
    assert oracle.release(ClippedLoss(w, clip), noise, Randomness.seeded(0)) == pytest.approx(exact, abs=1e-5)
    one = oracle.release(ClippedLoss(w[0], clip), noise, Randomness.seeded(0))
    assert one.shape == ()
    assert one == pytest.approx(exact[0], abs=1e-5)


@pytest.mark.parametrize("relation", list(Relation))
def test_one_record_moves_the_sum_by_the_clip_at_most(relation):
    clip = 0.4
    problem = Problem(2, 1, Huber())
    pulled = [  # a record that is predicted exactly, and one that is off by far
        linear_oracle(np.ones((2, 1)), np.array([0.0, y]), problem, Rows(1.0), relation) for y in (0.0, 1e6)
    ]
    query, noise = ClippedLoss(np.zeros(1), clip), GaussianNoise(clip, 1e-9, 1)
    near, far = (oracle.release(query, noise, Randomness.seeded(1)) for oracle in pulled)
    assert far - near == pytest.approx(clip)
    assert query.sensitivity(relation) == clip


def test_too_little_noise_is_refused():
    X, y = records(Logistic())
    oracle = linear_oracle(X, y, stated(Logistic()), ROWS)
    noise = GaussianNoise(0.5, 1.0, 1)
    with pytest.raises(ValueError, match="the query has sensitivity 1"):
        oracle.release(ClippedLoss(np.zeros(D + 1), 1.0), noise, Randomness.seeded(0))
    with pytest.raises(ValueError, match="clip is inf"):
        oracle.release(ClippedLoss(np.zeros(D + 1), np.inf), noise, Randomness.seeded(0))
    # gradients are asked for as before
    wide = replace(noise, sensitivity=2.0, dim=D + 1)
    assert oracle.release(Gradient(np.zeros(D + 1), 1.0), wide, Randomness.seeded(0)).shape == (D + 1,)
