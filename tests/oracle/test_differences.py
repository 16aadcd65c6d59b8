"""Differences and recursions against gradients written out record by record."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.budget import Relation
from sordino.domains import Ball
from sordino.losses import Huber, Logistic, Softmax, Squared
from sordino.oracle import linear_oracle
from sordino.oracle.query import Difference, Gradient, Recursion
from sordino.oracle.rows import Rows
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

STORAGE = {
    "dense32": lambda X: np.asarray(X, np.float32),
    "dense64": np.asarray,
    "csr32": lambda X: sparse.csr_array(np.asarray(X, np.float32)),
    "csr64": sparse.csr_array,
}
SOME = np.array([0, 2, 3, 11, 12, 13, 30])
NONE = np.empty(0, dtype=np.intp)


def example(loss, rho=0.0, records=37, features=5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(records, features)) * rng.choice([0.3, 1.0, 30.0], (records, 1))
    X[rng.random(X.shape) < 0.3] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    problem = Problem(records, features + (rho > 0), loss, domain=Ball(4.0))
    return X, plain.targets(loss, records, rng), problem, Rows(bound=2.0, intercept=rho)


def points(problem, models=9, apart=0.3):
    rng = np.random.default_rng(1)
    at = rng.normal(size=(models, problem.dim))
    return at, at + apart * rng.normal(size=at.shape)


def recursion(at, since, near, clip, mix, batch=None):
    return Recursion(Difference(at, since, near, batch), Gradient(at, clip, batch), mix)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("rho", [0.0, 0.6])
@pytest.mark.parametrize("loss", plain.LOSSES, ids=plain.label)
def test_sums(loss, rho, storage):
    X, y, problem, rows = example(loss, rho)
    oracle = linear_oracle(STORAGE[storage](X), y, problem, rows)
    stack, earlier = points(problem)
    for near, mix, batch in itertools.product((0.01, 50.0), (0.0, 0.3, 1.0), (None, SOME, NONE)):
        want = np.array(
            [
                plain.recursive_sum(X, y, rows, loss, w, v, near, 0.1, mix, batch)
                for w, v in zip(stack, earlier, strict=True)
            ]
        )
        for models in (1, 2, 9):
            at, since = stack[:models], earlier[:models]
            got = exact(oracle, recursion(at, since, near, 0.1, mix, batch))
            np.testing.assert_allclose(got, want[:models], rtol=1e-11, atol=1e-12)
            if mix == 0.0:
                alone = exact(oracle, Difference(at, since, near, batch))
                np.testing.assert_array_equal(alone, got)
        got = exact(oracle, recursion(stack[0], earlier[0], near, 0.1, mix, batch))
        np.testing.assert_allclose(got, want[0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("storage", STORAGE)
def test_all_mix_is_the_gradient_and_no_movement_is_nothing(storage):
    X, y, problem, rows = example(Logistic(), 0.5)
    oracle = linear_oracle(STORAGE[storage](X), y, problem, rows)
    stack, earlier = points(problem)
    for at, since in ((stack, earlier), (stack[0], earlier[0])):
        np.testing.assert_allclose(
            exact(oracle, recursion(at, since, 0.1, 0.2, 1.0)), exact(oracle, Gradient(at, 0.2)), rtol=1e-13
        )
        assert not exact(oracle, Difference(at, at.copy(), 0.1)).any()


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=plain.label)
def test_a_short_step_keeps_its_digits(loss):
    """Slopes a thousandth of a thousandth apart: their difference has as many digits as the step allows."""
    X, y, problem, rows = example(loss)
    oracle = linear_oracle(X, y, problem, rows)
    at, since = points(problem, 1, apart=1e-6)
    got = exact(oracle, Difference(at[0], since[0], 1.0))
    want = plain.recursive_sum(X, y, rows, loss, at[0], since[0], 1.0, 1.0, 0.0)
    np.testing.assert_allclose(got, want, atol=1e-9 * np.abs(want).max())


BAD = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e200, -1e200, 1.7e308, 0.0, 1e-160, 5e-324]
BAD_TARGETS = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 0.5, -1.0, 7.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("loss", plain.LOSSES, ids=plain.label)
def test_poisoned_records_stay_within_the_clips(loss, storage):
    rng = np.random.default_rng(0)
    rows_of = [[bad, 0.0, 0.0] for bad in BAD] + [[rng.normal(), bad, -bad] for bad in BAD]
    X = np.array(rows_of + [list(rng.normal(size=3)) for _ in BAD_TARGETS])
    y = np.concatenate([np.ones(len(rows_of)), BAD_TARGETS])
    with np.errstate(over="ignore"):
        matrix = STORAGE[storage](X)
    dense = matrix.toarray() if sparse.issparse(matrix) else matrix
    rows, problem = Rows(2.0, 0.6), Problem(len(X), 4, loss, domain=Ball(4.0))
    oracle = linear_oracle(matrix, y, problem, rows)
    near, clip, mix = 0.02, 0.5, 0.25
    bound = recursion(np.zeros(1), np.zeros(1), near, clip, mix).clip
    for size in (1.0, 1e3, 1e150):
        at, since = (rng.normal(size=problem.dim) * size for _ in range(2))
        each = [exact(oracle, recursion(at, since, near, clip, mix, np.array([i]))) for i in range(len(X))]
        for i, g in enumerate(each):
            assert np.isfinite(g).all(), (dense[i], y[i])
            assert math.hypot(*g) <= bound * (1 + 1e-15), (dense[i], y[i])
            if size <= 1e3:
                want = plain.recursion(dense[i], y[i], rows, loss, at, since, near, clip, mix)
                np.testing.assert_allclose(g, want, rtol=1e-9, atol=1e-12, err_msg=f"{dense[i]} {y[i]}")
        total = np.sum(each, axis=0)
        np.testing.assert_allclose(exact(oracle, recursion(at, since, near, clip, mix)), total, rtol=1e-9, atol=1e-12)
        stack = exact(oracle, recursion(np.tile(at, (9, 1)), np.tile(since, (9, 1)), near, clip, mix))
        assert np.max(np.linalg.norm(stack, axis=1)) <= len(X) * bound
        if size <= 1e3:
            np.testing.assert_allclose(stack, np.tile(total, (9, 1)), rtol=1e-9, atol=1e-12)


def test_clipping_holds_at_the_edge_for_many_rows():
    """Far targets on opposite sides of two points: the gradient flips, and both parts are clipped as far as they go."""
    rng = np.random.default_rng(0)
    X = 5 + rng.normal(size=(300, 3))
    oracle = linear_oracle(X, np.zeros(300), Problem(300, 4, Huber()), Rows(0.01, 0.5))
    at, since = np.full(4, 1e3), np.full(4, -1e3)
    for near, clip, mix in ((0.9, 0.7, 0.3), (1.9, 1.0, 0.01)):
        bound = recursion(at, since, near, clip, mix).clip
        each = [recursion(at, since, near, clip, mix, np.array([i])) for i in range(len(X))]
        norms = [math.hypot(*exact(oracle, query)) for query in each]
        assert max(norms) <= bound
        assert min(norms) > bound * (1 - 1e-13)


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.floats(-2, 2), st.sampled_from([np.nan, np.inf, 1e200, 0.0])
)


@st.composite
def neighbours(draw):
    count = draw(st.integers(1, 5))
    record = st.tuples(st.lists(numbers, min_size=2, max_size=2), numbers)
    records = draw(st.lists(record, min_size=count, max_size=count))
    loss = draw(st.sampled_from([Logistic(), Huber(0.5), Squared(2.0), Softmax(3)]))
    rows = Rows(draw(st.sampled_from([1e-3, 1.0, 50.0])), draw(st.sampled_from([0.0, 0.5])))
    problem = Problem(count, 2 + rows.has_intercept, loss, domain=Ball(5.0))
    weights = st.lists(st.floats(-1e6, 1e6), min_size=problem.dim, max_size=problem.dim)
    at, since = np.array(draw(weights)), np.array(draw(weights))
    clips = draw(st.sampled_from([(1e-6, 1.0), (0.1, 0.1), (5.0, 0.01)]))
    question = (at, since, *clips, draw(st.sampled_from([0.0, 0.01, 0.5, 1.0])))
    return records, draw(record), draw(st.integers(0, count - 1)), problem, rows, question


@settings(max_examples=200, deadline=None)
@given(neighbours(), st.sampled_from([np.asarray, sparse.csr_array]))
def test_replacing_or_removing_a_record_moves_the_sum_by_no_more_than_the_sensitivity(case, storage):
    records, stranger, place, problem, rows, (at, since, near, clip, mix) = case
    replaced = [*records[:place], stranger, *records[place + 1 :]]
    others = np.delete(np.arange(len(records)), place)
    for points in ((at, since), (np.tile(at, (8, 1)), np.tile(since, (8, 1)))):

        def total(data, batch=None, points=points):
            X, y = np.array([x for x, _ in data]), np.array([y for _, y in data])
            return exact(linear_oracle(storage(X), y, problem, rows), recursion(*points, near, clip, mix, batch))

        query = recursion(*points, near, clip, mix)
        here, there, without = total(records), total(replaced), total(records, others)
        room = 1 + 1e-9
        most = query.sensitivity(Relation.REPLACE_ONE) * room
        assert np.max(np.linalg.norm(here - there, axis=-1)) <= most
        assert np.max(np.linalg.norm(here - without, axis=-1)) <= query.sensitivity(Relation.ADD_REMOVE) * room


@pytest.mark.parametrize("storage", ["dense64", "csr64"])
def test_the_number_of_threads_does_not_change_a_bit(storage, monkeypatch):
    X, y, problem, rows = example(Logistic(), 0.4, records=20_000, features=30)
    oracle = linear_oracle(STORAGE[storage](X), y, problem, rows)
    stack, earlier = points(problem)
    half = np.arange(0, len(X), 2)

    def everything():
        both = ((stack[0], earlier[0]), (stack, earlier))
        return [exact(oracle, recursion(*pair, 0.1, 0.2, 0.3, b)) for pair in both for b in (None, half)]

    monkeypatch.setenv("SORDINO_THREADS", "1")
    alone = everything()
    monkeypatch.setenv("SORDINO_THREADS", "3")
    for a, b in zip(alone, everything(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_noise_must_cover_both_clips():
    X, y, problem, rows = example(Logistic())
    at, since = (part[0] for part in points(problem, 1))
    oracle = linear_oracle(X, y, problem, rows)
    query = recursion(at, since, 0.01, 1.0, 0.02)
    assert query.sensitivity(Relation.REPLACE_ONE) == pytest.approx(2 * (0.98 * 0.01 + 0.02 * 1.0))
    enough = GaussianNoise.at(1.0, query.sensitivity(Relation.REPLACE_ONE), problem.dim)
    noisy = oracle.release(query, enough, Randomness.seeded(7))
    np.testing.assert_array_equal(noisy, enough.perturb(exact(oracle, query), Randomness.seeded(7)))
    # the two clips exchanged, as section 6.1 of Wang et al. prints them, is not what these weights need
    for short in (0.999 * enough.sensitivity, 2 * 0.01):
        with pytest.raises(ValueError, match="the query has sensitivity"):
            oracle.release(query, GaussianNoise.at(1.0, short, problem.dim), Randomness.seeded(7))


@pytest.mark.parametrize(("near", "clip"), [(-0.01, 1.0), (0.0, 1.0), (0.1, -1.0), (math.inf, 1.0), (0.1, math.nan)])
def test_both_clips_must_be_positive(near, clip):
    X, y, problem, rows = example(Logistic())
    at, since = (part[0] for part in points(problem, 1))
    noise = GaussianNoise.at(1.0, 100.0, problem.dim)
    for mix in (0.0, 0.5, 1.0):
        with pytest.raises(ValueError, match="clip is"):
            linear_oracle(X, y, problem, rows).release(
                recursion(at, since, near, clip, mix), noise, Randomness.seeded(0)
            )


def test_points_that_cannot_be_compared():
    X, y, problem, rows = example(Logistic())
    oracle = linear_oracle(X, y, problem, rows)
    at, since = points(problem, 2)
    with pytest.raises(ValueError, match="both must have the same"):
        exact(oracle, Difference(at, since[0], 0.1))
    with pytest.raises(ValueError, match="parameters are not finite"):
        exact(oracle, Difference(at, np.full(at.shape, np.nan), 0.1))
    with pytest.raises(ValueError, match="one point over one batch"):
        Recursion(Difference(at, since, 0.1), Gradient(at.copy(), 0.1), 0.5)
