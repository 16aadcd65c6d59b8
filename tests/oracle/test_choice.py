"""Exact gradients of a batch, and choices by clipped losses: what the oracles compute and what they refuse."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import sparse

import plain_gradients
from sordino.budget import Relation
from sordino.domains import Ball
from sordino.losses import Huber, Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.query import Choice
from sordino.oracle.rows import Rows
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum
from sordino.problem import Problem

RECORDS, FEATURES = 40, 3
ROWS = Rows(bound=1.5, intercept=0.4)
FORMS = {"dense": np.asarray, "sparse": sparse.csr_array}


def case(loss, form, relation=Relation.REPLACE_ONE):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(RECORDS, FEATURES)), plain_gradients.targets(loss, RECORDS, rng)
    problem = Problem(RECORDS, FEATURES + 1, loss, domain=Ball(3.0))
    return X, y, problem, linear_oracle(FORMS[form](X), y, problem, ROWS, relation), rng


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", plain_gradients.LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_gradient_of_a_batch_is_divided_by_all_records(loss, form):
    X, y, problem, oracle, rng = case(loss, form)
    w = rng.normal(size=problem.dim)
    batch = np.array([1, 7, 30])
    expected = plain_gradients.clipped_sum(X, y, ROWS, loss, w, problem.constants.L, batch) / RECORDS
    np.testing.assert_allclose(oracle.gradient(w, batch), expected, rtol=1e-10, atol=1e-14)
    parts = [oracle.gradient(w, part) for part in np.array_split(np.arange(RECORDS), 7)]
    np.testing.assert_allclose(sum(parts), oracle.gradient(w), rtol=1e-10, atol=1e-14)


class Seen:
    """Takes the place of the noise, to look at the scores an oracle would never hand out."""

    relation, sensitivity = Relation.REPLACE_ONE, 100.0

    def choose(self, scores, randomness):
        self.scores = scores
        return 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", plain_gradients.LOSSES, ids=lambda loss: type(loss).__name__)
def test_scores_are_sums_of_clipped_losses(loss, form):
    X, y, problem, oracle, rng = case(loss, form)
    points, extra = rng.normal(size=(21, problem.dim)) * 2, rng.normal(size=21)
    for clip in (0.3, 1.0, 50.0):
        seen = Seen()
        oracle.choose(Choice(points, clip, extra), seen, Randomness.seeded(0))
        expected = [
            sum(min(clip, plain_gradients.mean_loss(X[[i]], y[[i]], ROWS, loss, w)) for i in range(RECORDS))
            for w in points
        ]
        np.testing.assert_allclose(seen.scores, expected + extra, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_one_record_moves_no_score_by_more_than_the_clip(form):
    """Also a record that is not finite, or whose loss overflows."""
    X, y, problem, oracle, rng = case(Huber(), form)
    points = rng.normal(size=(21, problem.dim))
    before, after = Seen(), Seen()
    query = Choice(points, 0.7, np.zeros(21))
    oracle.choose(query, before, Randomness.seeded(0))
    for row, target in (([9.0, 9, 9], 1e300), ([np.nan, 0, 0], 0.0), ([np.inf, 0, 0], -1e300), ([0.0, 0, 0], np.nan)):
        X[3], y[3] = row, target
        linear_oracle(FORMS[form](X), y, problem, ROWS).choose(query, after, Randomness.seeded(0))
        assert np.abs(before.scores - after.scores).max() <= 0.7 * (1 + 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_best_point_is_chosen_most_often(form):
    *_, problem, oracle, _ = case(Logistic(), form)
    w = np.zeros(problem.dim)
    for _ in range(50):
        w -= 4 * oracle.gradient(w)
    points = np.stack([np.zeros(problem.dim), w, -w])
    selection, randomness = NoisyMinimum(1.0, 10.0), Randomness.seeded(3)
    query = Choice(points, 1.0, np.zeros(3))
    chosen = Counter(oracle.choose(query, selection, randomness) for _ in range(200))
    assert chosen[1] > 190


def test_what_is_refused():
    *_, problem, oracle, _ = case(Logistic(), "dense")
    points, randomness = np.zeros((2, problem.dim)), Randomness.seeded(0)
    for query, selection, words in (
        (Choice(points, 1.0, np.zeros(2)), NoisyMinimum(0.5, 1.0), "sensitivity 1 "),
        (Choice(points, 1.0, np.zeros(2)), NoisyMinimum(1.0, 1.0, Relation.ADD_REMOVE), "add_remove"),
        (Choice(points, np.inf, np.zeros(2)), NoisyMinimum(1.0, 1.0), "finite bound"),
        (Choice(points[:, :-1], 1.0, np.zeros(2)), NoisyMinimum(1.0, 1.0), "last axis"),
    ):
        with pytest.raises(ValueError, match=words):
            oracle.choose(query, selection, randomness)
