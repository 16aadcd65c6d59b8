"""What a record counts: cut to what is public, and never more than without a weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.budget import Relation
from sordino.domains import Ball
from sordino.losses import Gamma, Huber, Logistic, Poisson, Softmax, Squared, Weighted
from sordino.oracle import linear_oracle
from sordino.oracle.files.memory import Memory
from sordino.oracle.persons import Persons
from sordino.oracle.query import ClippedLoss, Difference, Gradient, Recursion
from sordino.oracle.rows import PreparedRows, Rows
from sordino.oracle.statistics import CrossMoments
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit, Problem

RECORDS, FEATURES, ROWS = 60, 5, Rows(2.0, 0.6)
GIVEN = np.resize([0.25, 1.0, 0.0, 0.7, -3.0, 40.0, np.nan, np.inf, -np.inf], RECORDS)
COUNTED = np.resize([0.25, 1.0, 0.0, 0.7, 0.0, 1.0, 0.0, 1.0, 0.0], RECORDS)


def in_source(X, y, *public):
    """Read block by block; a source has one record at least."""
    source = (Memory.of(np.asarray(X), np.asarray(y)), None) if len(X) else (X, y)
    return linear_oracle(*source, *public)


def as_sparse(X, y, *public):
    return linear_oracle(sparse.csr_array(X), y, *public)


FORMS = {"dense": linear_oracle, "sparse": as_sparse, "source": in_source}
every_form = pytest.mark.parametrize("form", FORMS)


def example(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(RECORDS, FEATURES)) * rng.choice([0.3, 1.0, 30.0], (RECORDS, 1))
    X[rng.random(X.shape) < 0.3] = 0.0
    y = plain.targets(loss, RECORDS, rng)
    X[7, 2], X[8, 0], y[9] = np.nan, np.inf, np.nan
    return X, y, Problem(RECORDS, FEATURES + 1, loss, domain=Ball(4.0))


def queries(problem, models):
    rng = np.random.default_rng(1)
    at = rng.normal(size=(models, problem.dim)) if models else rng.normal(size=problem.dim)
    for batch in (None, np.array([0, 2, 3, 7, 11, 59])):
        gradient, difference = Gradient(at, 0.3, batch), Difference(at, 1.4 * at + 0.1, 0.06, batch)
        yield from (gradient, difference, Recursion(difference, gradient, 0.3))
    yield ClippedLoss(at, 0.7)


def over(query, batch):
    if isinstance(query, Recursion):
        return Recursion(over(query.difference, batch), over(query.gradient, batch), query.mix)
    return replace(query, batch=batch)


@every_form
@pytest.mark.parametrize(
    "loss", [Logistic(), Softmax(3), Poisson(0.8, 0.5), Weighted(Logistic(), (0.3, 1.0))], ids=repr
)
def test_a_record_counts_its_weight_from_nothing_to_one(loss, form):
    """Every answer is the sum of what records add without weights, each times what it counts."""
    X, y, problem = example(loss)
    plain_oracle = FORMS[form](X, y, problem, ROWS)
    oracle = FORMS[form](X, y, problem, ROWS, Relation.REPLACE_ONE, None, GIVEN)
    for models in (0, 9):
        for query in queries(problem, models):
            if isinstance(query, ClippedLoss):
                one_each = replace(problem, records=1)
                each = [exact(FORMS[form](X[[i]], y[[i]], one_each, ROWS), query) for i in range(RECORDS)]
                some = range(RECORDS)
            else:
                some = range(RECORDS) if query.batch is None else query.batch
                each = {i: exact(plain_oracle, over(query, np.array([i]))) for i in some}
            want = sum(COUNTED[i] * each[i] for i in some)
            np.testing.assert_allclose(exact(oracle, query), want, rtol=1e-11, atol=1e-12)


@every_form
def test_weights_stay_with_their_records(form):
    """In a part, in rows that are made otherwise, under another loss, in persons, and in products with the Hessian."""
    X, y, problem = example(Logistic())
    X, y = np.nan_to_num(X, posinf=1.0), np.nan_to_num(y, nan=1.0)
    make, at = FORMS[form], np.random.default_rng(2).normal(size=FEATURES + 1)

    def oracle(which, rows=ROWS, loss=None, persons=None):
        stated = replace(problem, records=len(which) if persons is None else len(persons), loss=loss or Logistic())
        stated = replace(stated, person=None if persons is None else persons.unit)
        return make(X[which], y[which], stated, rows, Relation.REPLACE_ONE, persons, GIVEN[which])

    whole, half = np.arange(RECORDS), np.arange(0, RECORDS, 2)
    inside = oracle(whole).divide(half, replace(problem, records=30), replace(problem, records=30))[1]
    np.testing.assert_allclose(inside.gradient(at), oracle(half).gradient(at), rtol=1e-12)
    prepared = PreparedRows(1.0, 0.6, 1.0, np.zeros(FEATURES), np.full(FEATURES, 0.3))
    directly = make(0.3 * X, y, problem, Rows(1.0, 0.6), Relation.REPLACE_ONE, None, GIVEN)
    np.testing.assert_allclose(oracle(whole).under_rows(prepared).gradient(at), directly.gradient(at), rtol=1e-12)
    other = oracle(whole).under(Huber(0.5))
    np.testing.assert_allclose(other.gradient(at), oracle(whole, loss=Huber(0.5)).gradient(at), rtol=1e-12)
    both = oracle(whole, loss=Weighted(Logistic(), (0.5, 1.0)))
    classes = make(X, y, problem, ROWS, Relation.REPLACE_ONE, None, COUNTED * np.where(y > 0, 1.0, 0.5))
    np.testing.assert_allclose(both.gradient(at), classes.gradient(at), rtol=1e-12)
    np.testing.assert_allclose(both.curvature_product(at)(at), classes.curvature_product(at)(at), rtol=1e-12)
    persons = Persons.of(whole // 2, PersonUnit(), Randomness.seeded(0))
    np.testing.assert_allclose(oracle(whole, persons=persons).gradient(at), oracle(whole).gradient(at), rtol=1e-12)


@every_form
def test_moments_are_weighted(form):
    loss = Squared(2.0, clip=0.5)
    X, y, problem = example(loss)
    asked = CrossMoments(0.7, loss)
    got = exact(FORMS[form](X, y, problem, ROWS, Relation.REPLACE_ONE, None, GIVEN), asked)
    one = replace(problem, records=1)
    each = [exact(FORMS[form](X[[i]], y[[i]], one, ROWS), asked) for i in range(RECORDS)]
    np.testing.assert_allclose(got, sum(w * part for w, part in zip(COUNTED, each, strict=True)), atol=1e-12)


numbers = st.one_of(st.floats(-2, 2), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([1.0, -1.0, 0.0]))
weights = st.one_of(st.floats(0, 2), st.floats(allow_nan=True, allow_infinity=True))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers, numbers, weights), min_size=1, max_size=5),
    st.tuples(numbers, numbers, numbers, weights),
    st.sampled_from(
        [Logistic(), Softmax(3), Poisson(2.0, 0.7), Gamma(0.1, 5.0, 1.5), Weighted(Logistic(), (0.2, 1.0))]
    ),
    st.sampled_from([1e-6, 0.1, 1e4]),
    st.sampled_from(sorted(FORMS)),
)
def test_neighbours_are_never_further_apart_than_without_weights(records, stranger, loss, clip, form):
    """A neighbour has another row, another target and another weight."""
    problem = Problem(len(records), 3, loss, domain=Ball(5.0))
    at = np.random.default_rng(len(records)).normal(size=(2, problem.dim))
    here, since = at
    gradient, difference = Gradient(here, clip), Difference(here, since, clip / 5)
    questions = (gradient, difference, Recursion(difference, gradient, 0.3), ClippedLoss(at, clip))

    def answers(data, relation):
        table = np.array(data).reshape(-1, 4)
        oracle = FORMS[form](table[:, :2], table[:, 2], problem, ROWS, relation, None, table[:, 3])
        return [np.ravel(exact(oracle, query)) for query in questions]

    first = answers(records, Relation.REPLACE_ONE)
    for data, relation in (([stranger, *records[1:]], Relation.REPLACE_ONE), (records[1:], Relation.ADD_REMOVE)):
        for query, mine, theirs in zip(questions, first, answers(data, relation), strict=True):
            apart = np.abs(mine - theirs).max() if isinstance(query, ClippedLoss) else np.linalg.norm(mine - theirs)
            assert apart <= query.sensitivity(relation) * (1 + 1e-9)


def test_two_heavy_records_are_as_far_apart_as_the_sensitivity():
    problem = Problem(1, 1, Logistic())

    def gradient(x, weight):
        oracle = linear_oracle([[x]], [1.0], problem, Rows(1.0), Relation.REPLACE_ONE, None, [weight])
        return exact(oracle, Gradient(np.zeros(1), 0.25))

    apart = np.linalg.norm(gradient(1.0, 1e9) - gradient(-1.0, 7.0))
    assert apart == pytest.approx(Gradient(np.zeros(1), 0.25).sensitivity(Relation.REPLACE_ONE), rel=1e-12)


@every_form
def test_weights_of_another_number_or_kind_are_refused(form):
    X, y, problem = example(Logistic())
    with pytest.raises(ValueError, match=r"the weights have shape \(3,\) for 60 rows"):
        FORMS[form](X, y, problem, ROWS, Relation.REPLACE_ONE, None, np.ones(3))
    with pytest.raises(ValueError, match="must hold real numbers"):
        FORMS[form](X, y, problem, ROWS, Relation.REPLACE_ONE, None, ["heavy"] * RECORDS)
