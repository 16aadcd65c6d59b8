"""Sums over bounded rows: what they are, and how far one record moves them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from plain_gradients import exact
from sordino.budget import Relation
from sordino.losses import Huber, Logistic, Softmax, Squared
from sordino.oracle import linear_oracle
from sordino.oracle.persons import Persons
from sordino.oracle.rows import PreparedRows, Rows
from sordino.oracle.statistics import (
    ClassCounts,
    ColumnsBelow,
    CrossMoments,
    CurvatureSum,
    GivenRows,
    MomentSum,
    RowSum,
    RowsWithin,
    SizeSum,
    SlopeSum,
    SquareSum,
    TargetSum,
    coordinates,
    matrix_of,
)
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import PersonUnit, Problem

LOSS, COLUMNS = Squared(2.0, clip=0.5), 3
ASKED = [
    RowSum(),
    RowsWithin(0.7, 0.6),
    RowsWithin(0.7, 0.2),
    ColumnsBelow((0.5, 0.5, 0.4), (0.3, -0.4, 0.2), 0.1),
    SizeSum(),
    SquareSum(),
    MomentSum(),
    *(CrossMoments(b, LOSS) for b in (0.5, 0.7, 1.0, 2.0)),
    *(CrossMoments(b, LOSS, squares=True) for b in (0.3, 1.0, 1.4)),
    ClassCounts(Logistic()),
    ClassCounts(Softmax(3)),
    TargetSum(LOSS),
    TargetSum(Logistic()),
]
every_statistic = pytest.mark.parametrize("asked", ASKED, ids=repr)


PLACES = {
    "dense": linear_oracle,
    "float32": lambda X, y, *public: linear_oracle(X.astype(np.float32), y, *public),
    "sparse": lambda X, y, *public: linear_oracle(sparse.csr_array(X), y, *public),
}


def example(rho=0.4, n=700, d=COLUMNS):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, d)) * rng.choice([0.3, 1.0, 30.0], (n, 1))).astype(np.float32).astype(np.float64)
    y = 3 * rng.normal(size=n)
    X[7, 2], X[8, 0], y[9] = np.nan, np.inf, np.nan
    return X, y, Problem(n, d + (rho > 0), LOSS), Rows(2.0, rho)


@every_statistic
@pytest.mark.parametrize("rho", [0.0, 0.4])
@pytest.mark.parametrize("place", PLACES)
def test_every_place_answers_with_the_plain_sum(asked, rho, place):
    X, y, problem, rows = example(rho)
    got = exact(PLACES[place](X, y, problem, rows), asked)
    usable = np.isfinite(X).all(axis=1)
    x = np.where(usable[:, None], X, 0.0) / 2.0
    lengths = np.linalg.norm(x, axis=1)
    u = x / np.maximum(1.0, lengths)[:, None]
    r = np.column_stack([math.sqrt(1 - rho**2) * u, np.full(len(u), rho)])[:, : problem.features]
    known = np.isfinite(y)
    t, r = np.clip(np.nan_to_num(y), -2, 2) / 2, np.where(known[:, None], r, 0.0)
    A = u.T @ u if isinstance(asked, MomentSum) else r.T @ r
    above = np.triu_indices(len(A), 1)
    told = np.concatenate([np.diag(A), math.sqrt(2) * A[above]])
    match asked:
        case RowSum():
            want = u.sum(axis=0)
        case RowsWithin(radius, share):
            want = [(lengths <= radius).sum() - share * len(X)]
        case ColumnsBelow(lows, highs):
            want = [
                (x[:, j] <= t).sum() - q * len(X) for q, ts in ((0.1, lows), (0.9, highs)) for j, t in enumerate(ts)
            ]
        case SizeSum():
            want = np.abs(u).sum(axis=0)
        case SquareSum():
            want = (u**2).sum(axis=0)
        case MomentSum():
            want = told
        case CrossMoments(b, _, squares):
            want = np.concatenate([told, b * (t @ r), [t @ t] * squares])
        case ClassCounts(loss):
            # no target of the example is a label, but for those put in here
            assert not got.any()
            labels = np.resize([1.0, -1.0, np.nan, 2.0, 0.0, 0.5], len(y))
            got = exact(PLACES[place](X, labels, problem, rows), asked)
            want = [np.sum(labels == k) for k in range(1, max(2, loss.outputs))]
        case TargetSum(Logistic()):
            labels = np.resize([1.0, 1.0, -1.0, np.nan, 2.0, 0.0, 0.5], len(y))
            got = exact(PLACES[place](X, labels, problem, rows), asked)
            want = [np.sum(labels == 1) - np.sum(labels == -1)]
        case TargetSum():
            want = [t.sum()]
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def contribution(asked, z, weight=1.0):
    """Of one record: its row of three numbers, unbounded, and its target."""
    row, target = z[:COLUMNS], float(np.clip(z[COLUMNS], -2, 2))
    u = (row / max(1.0, np.linalg.norm(row)))[None]
    if isinstance(asked, ClassCounts) or asked == TargetSum(Logistic()):
        target = np.sign(target) if asked.loss.outputs == 1 else np.clip(round(abs(2 * target)), 0, 2)
    return asked.of(GivenRows(row[None], u, u, np.array([target]), np.array([weight])))


@every_statistic
@pytest.mark.parametrize("relation", Relation)
def test_no_neighbour_is_further_and_one_is_as_far(asked, relation):
    """Searched for from many starts: rows and targets of every size."""
    rng, bound = np.random.default_rng(1), asked.sensitivity(relation)

    def apart(z):
        one, stranger = np.split(z, 2)
        other = contribution(asked, stranger) if relation is Relation.REPLACE_ONE else 0.0
        return -float(np.linalg.norm(contribution(asked, one) - other))

    starts = [scale * rng.normal(size=2 * COLUMNS + 2) for scale in (0.3, 1.0, 3.0) * 2]
    # counts are flat nearly everywhere: between the thresholds, and beyond them
    starts += [np.array([0.4, 0.0, 0.3, 0.0, *4 * [9.0]]), np.array(4 * [-9.0] + 4 * [9.0])]
    starts += [np.array([0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])]
    options = {"maxiter": 600, "fatol": 1e-9}
    found = [-minimize(apart, start, method="Nelder-Mead", options=options).fun for start in starts]
    assert max(found) <= bound * (1 + 1e-12)
    assert max(found) >= 0.99 * bound


@pytest.mark.parametrize("b", [0.1, 0.7, 1.0, 3.0])
@pytest.mark.parametrize("relation", Relation)
def test_a_weight_brings_no_neighbour_further(b, relation):
    """Rows of full norm and targets of full size, in all directions, with weights from nothing to one."""
    rng, asked = np.random.default_rng(2), CrossMoments(b, LOSS)
    for _ in range(300):
        z = rng.normal(size=(2, COLUMNS + 1)) * [9.0, 9.0, 9.0, 99.0]
        weights = rng.choice([0.0, 1.0, rng.random()], size=2)
        one, other = (contribution(asked, *record) for record in zip(z, weights, strict=True))
        apart = np.linalg.norm(one - other * (relation is Relation.REPLACE_ONE))
        assert apart <= asked.sensitivity(relation) * (1 + 1e-12)


def test_the_price_of_both_moments_together():
    """2 (1 - c^2) + 2 b^2 (1 + c) at c = min(1, b^2/2), by hand."""
    for b, squared in ((1.0, 4.5), (0.5, 2.53125), (0.7, 3.10005), (2.0, 16.0)):
        assert CrossMoments(b, LOSS).sensitivity(Relation.REPLACE_ONE) ** 2 == pytest.approx(squared, rel=1e-12)


def test_noise_for_less_than_a_record_moves_is_refused():
    X, y, problem, rows = example()
    oracle = linear_oracle(X, y, problem, rows)
    for asked in ASKED:
        width, needed = asked.width(COLUMNS, intercept=True), asked.sensitivity(Relation.REPLACE_ONE)
        with pytest.raises(ValueError, match="calibrate the noise to the query"):
            oracle.release(asked, GaussianNoise(0.99 * needed, 1.0, width), Randomness.seeded(0))
        assert oracle.release(asked, GaussianNoise(needed, 1.0, width), Randomness.seeded(0)).shape == (width,)


@every_statistic
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("unit", [PersonUnit(), PersonUnit(3, "capped")])
def test_a_person_moves_no_sum_further_than_a_record(asked, relation, unit):
    """Their records pull in one direction, and those of another person in their place in the other."""
    rng, ends = np.random.default_rng(6), [np.array([9.0, 9.0, 9.0]), np.array([-9.0, -9.0, -9.0])]
    others, whose = rng.normal(size=(20, COLUMNS)), np.repeat(np.arange(10), 2)
    found = []
    for records in (1, 2, 5):
        sums = []
        for end, target in zip(ends, (2.0, -2.0), strict=True):
            there = records if relation is Relation.REPLACE_ONE or end[0] > 0 else 0
            X, y = np.vstack([others, np.tile(end, (there, 1))]), np.concatenate([np.ones(20), np.full(there, target)])
            person = Persons.of(np.concatenate([whose, np.full(there, 10)]), unit, Randomness.seeded(0))
            problem = Problem(len(person) if relation is Relation.REPLACE_ONE else 11, COLUMNS + 1, LOSS, person=unit)
            sums.append(exact(linear_oracle(X, y, problem, Rows(2.0, 0.4), relation, person), asked))
        found.append(np.linalg.norm(sums[0] - sums[1]))
    assert max(found) <= asked.sensitivity(relation) * (1 + 1e-12)


def test_coordinates_keep_the_norm():
    A = np.random.default_rng(2).normal(size=(5, 5))
    A = A + A.T
    assert np.linalg.norm(coordinates(A)) == pytest.approx(np.linalg.norm(A), rel=1e-14)
    np.testing.assert_allclose(matrix_of(coordinates(A), 5), A, rtol=1e-14)


# --- Rows that are made otherwise ---


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_weights_of_prepared_rows_are_weights_of_the_given_ones(full, outputs):
    rng = np.random.default_rng(3)
    given = Rows(2.0, 0.4)
    matrix = rng.normal(size=(4, 4)) if full else rng.uniform(0.1, 2.0, size=4)
    prepared = PreparedRows(1.0, 0.3, 1.0, rng.normal(size=4), matrix)
    w, X = rng.normal(size=5 * outputs), 0.2 * rng.normal(size=(20, 4))
    # short rows, which nothing scales down
    seen = np.column_stack([0.01 * prepared.applied(X) * prepared.factor, np.full(20, 0.3)])
    coefficients, intercepts = given.to_raw(
        PreparedRows(1.0, 0.3, 1.0, prepared.centre, 0.01 * matrix).to_given(w, outputs, given), outputs
    )
    np.testing.assert_allclose(X @ coefficients.T + intercepts, seen @ w.reshape(outputs, 5).T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("relation", Relation)
def test_an_oracle_makes_its_rows_otherwise(relation):
    X, y, _, rows = example()
    problem = Problem(len(X), COLUMNS + 1, Logistic())
    y = np.sign(y)
    rng = np.random.default_rng(4)
    prepared = PreparedRows(1.0, 0.4, 1.0, rng.normal(size=COLUMNS), rng.uniform(0.1, 1.0, size=COLUMNS))
    moved = linear_oracle(X, y, problem, rows, relation).under_rows(prepared)
    directly = linear_oracle((X - prepared.centre) * prepared.matrix, y, problem, Rows(1.0, 0.4), relation)
    at = rng.normal(size=COLUMNS + 1)
    np.testing.assert_allclose(moved.gradient(at), directly.gradient(at), rtol=1e-12)
    assert moved.rows is prepared


def test_sparse_rows_stay_sparse():
    X = sparse.random_array((50, 6), density=0.3, rng=np.random.default_rng(5), format="csr")
    scaled = PreparedRows(1.0, 0.0, 1.0, np.zeros(6), np.arange(1.0, 7.0))
    assert sparse.issparse(scaled.applied(X))
    np.testing.assert_allclose(scaled.applied(X).toarray(), scaled.applied(X.toarray()))
    for centre, matrix in ((np.ones(6), np.ones(6)), (np.zeros(6), np.eye(6))):
        with pytest.raises(ValueError, match="neither centred nor whitened"):
            PreparedRows(1.0, 0.4, 1.0, centre, matrix).applied(X)


WEIGHTED = {
    "the curvature of logistic": (CurvatureSum, Logistic(), lambda a, y: expit(a) * expit(-a) / 0.25),
    "the slopes of logistic": (SlopeSum, Logistic(), lambda a, y: expit(-y * a) ** 2),
    "the curvature of huber": (CurvatureSum, Huber(0.4, 2.0), lambda a, y: (np.abs(a - y) <= 0.4) * 1.0),
    "the slopes of huber": (SlopeSum, Huber(0.4, 2.0), lambda a, y: (np.clip(a - y, -0.4, 0.4) / 0.4) ** 2),
}


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("place", PLACES)
def test_weighted_moments_are_those_of_the_loss(name, place):
    kind, loss, weight = WEIGHTED[name]
    X, y, problem, _ = example()
    y = np.where(y > 0, 1.0, -1.0) if isinstance(loss, Logistic) else y
    y[3] = np.nan
    # a norm that is not 1: scores are those of the rows as the model sees them
    problem, rows = replace(problem, loss=loss, row_norm=2.5), Rows(2.0, 0.4, 2.5)
    at = np.random.default_rng(2).normal(size=problem.features)
    got = exact(PLACES[place](X, y, problem, rows), kind(loss, at))
    usable, known = np.isfinite(X).all(axis=1), np.isfinite(y)
    x = np.where(usable[:, None], X, 0.0)
    x = x * np.minimum(1.0, 2.0 / np.maximum(np.linalg.norm(x, axis=1), 1e-12))[:, None]
    r = np.column_stack([rows.factor * x, np.full(len(x), 0.4)])[known]
    v = weight(r @ at, loss.admit(y[known]))
    want = (r * v[:, None]).T @ r / 2.5**2
    np.testing.assert_allclose(matrix_of(got, len(at)), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("relation", Relation)
def test_weighted_moments_of_neighbours_are_as_near_as_stated(name, relation):
    """Whatever rows, targets and point: a weight is at most 1, and some are."""
    kind, loss, _ = WEIGHTED[name]
    rng, furthest = np.random.default_rng(3), 0.0
    for scale in (0.0, 1.0, 1e3, 1e300):
        asked = kind(loss, scale * np.array([1.0, -2.0, 0.5]))
        bound = asked.sensitivity(relation)
        assert bound == (math.sqrt(2) if relation is Relation.REPLACE_ONE else 1.0)
        for _ in range(100):
            u = rng.normal(size=(2, COLUMNS))
            u /= np.linalg.norm(u, axis=1)[:, None]
            # orthogonal rows are the furthest apart
            u[1] -= (u[0] @ u[1]) * u[0]
            u[1] /= np.linalg.norm(u[1])
            y = loss.admit(rng.choice([-1.0, 1.0], 2) * (1 if isinstance(loss, Logistic) else 1e9))
            if isinstance(loss, Huber) and kind is CurvatureSum:
                y = np.clip(scale * (u @ [1.0, -2.0, 0.5]), -2, 2)
            one, other = (
                asked.of(GivenRows(row[None], row[None], row[None], t[None], np.ones(1)))
                for row, t in zip(u, y, strict=True)
            )
            apart = np.linalg.norm(one - (other if relation is Relation.REPLACE_ONE else 0.0))
            furthest = max(furthest, apart / bound)
            assert apart <= bound * (1 + 1e-12)
    assert furthest > 0.95 or (kind, type(loss)) == (SlopeSum, Logistic)


def test_targets_have_squares_beside_small_products_alone():
    with pytest.raises(ValueError, match="its square is at most 2"):
        CrossMoments(1.5, LOSS, squares=True)
