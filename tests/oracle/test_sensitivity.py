"""One record moves a clipped sum by at most its clip, whatever the record holds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import plain_gradients as plain
from plain_gradients import exact
from sordino.domains import Ball
from sordino.losses import Huber, Logistic, Softmax, Squared
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.problem import Problem

BAD_FEATURES = [
    np.nan,
    np.inf,
    -np.inf,
    1e30,
    -1e30,
    1e38,
    1e200,
    -1e200,
    1.7e308,
    0.0,
    -0.0,
    1e-30,
    1e-160,
    1e-200,
    1e-310,
    5e-324,
]
BAD_TARGETS = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 0.5, -1.0, 7.0, 5e-324]
STORAGE = {
    "dense32": lambda X: np.asarray(X, np.float32),
    "dense64": np.asarray,
    "csr32": lambda X: sparse.csr_array(np.asarray(X, np.float32)),
    "csr64": sparse.csr_array,
}


def contributions(oracle, count, w, clip):
    return [exact(oracle, Gradient(w, clip, np.array([i]))) for i in range(count)]


def poisoned(seed=0):
    """Every bad number alone, several times, and beside ordinary ones; every bad target."""
    rng = np.random.default_rng(seed)
    rows = []
    for bad in BAD_FEATURES:
        rows += [[bad, 0.0, 0.0], [bad, bad, bad], [rng.normal(), bad, rng.normal()], [bad, -bad, bad]]
    X = np.array(rows + [list(rng.normal(size=3)) for _ in BAD_TARGETS])
    y = np.concatenate([rng.choice([-1.0, 1.0], len(rows)), BAD_TARGETS])
    return X, y


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("rho", [0.0, 0.6])
@pytest.mark.parametrize("loss", plain.LOSSES, ids=plain.label)
def test_poisoned_records_stay_within_the_clip(loss, rho, storage):
    X, y = poisoned()
    y = np.where(np.arange(len(y)) < 4 * len(BAD_FEATURES), np.abs(y), y) if loss.outputs > 1 else y
    with np.errstate(over="ignore"):
        matrix = STORAGE[storage](X)
    dense = matrix.toarray() if sparse.issparse(matrix) else matrix
    rows = Rows(bound=2.0, intercept=rho)
    problem = Problem(len(X), 3 + (rho > 0), loss, domain=Ball(4.0))
    oracle = linear_oracle(matrix, y, problem, rows)
    rng = np.random.default_rng(2)
    for size, clip in ((1.0, 0.01), (1.0, 3.0), (1e3, 0.3), (1e150, 0.3), (1e-200, 0.3)):
        w = rng.normal(size=problem.dim) * size
        each = contributions(oracle, len(X), w, clip)
        for i, g in enumerate(each):
            assert np.isfinite(g).all(), (dense[i], y[i])
            assert math.hypot(*g) <= clip, (dense[i], y[i])
            if not plain.usable(loss, y[i]):
                assert not g.any()
            elif not np.isfinite(dense[i]).all():
                assert not g.reshape(loss.outputs, -1)[:, :3].any()
            if size <= 1e3:
                want = plain.gradient(dense[i], y[i], rows, loss, w, clip)
                np.testing.assert_allclose(g, want, rtol=1e-9, atol=1e-12 * clip, err_msg=f"{dense[i]} {y[i]}")
        # the others do not notice: in one sum, in a stack, in the mean gradient and in the value
        total = np.sum(each, axis=0)
        np.testing.assert_allclose(exact(oracle, Gradient(w, clip)), total, rtol=1e-9, atol=1e-12)
        stack = exact(oracle, Gradient(np.tile(w, (9, 1)), clip))
        if size <= 1e3:
            np.testing.assert_allclose(stack, np.tile(total, (9, 1)), rtol=1e-9, atol=1e-12)
        # a score that overflows is infinite or not a number, depending on the order in which it is added up
        assert np.max(np.linalg.norm(stack, axis=1)) <= len(X) * clip
        assert np.linalg.norm(oracle.gradient(w)) <= problem.constants.L
        assert np.isfinite(oracle.value(w))
        assert np.isfinite(oracle.value(np.tile(w, (9, 1)))).all()


@pytest.mark.parametrize("storage", ["dense64", "csr64"])
def test_an_infinite_score_counts_where_its_slope_is_finite(storage):
    X = STORAGE[storage](np.array([[1e200, 0.0]]))
    w = np.array([1e200, 0.0])
    for at in (w, np.tile(w, (9, 1))):
        squared = linear_oracle(X, [1.0], _alone(Squared(1.0)), Rows(1.0))
        assert not exact(squared, Gradient(at, 0.5)).any()
        for y, want in ((1.0, 0.0), (-1.0, 0.5)):
            got = exact(linear_oracle(X, [y], _alone(Logistic()), Rows(1.0)), Gradient(at, 0.5))
            np.testing.assert_allclose(got, np.broadcast_to([want, 0.0], at.shape), rtol=1e-12)


def _alone(loss):
    return Problem(1, 2, loss, domain=Ball(1.0))


def test_norms_are_right_at_every_size():
    """A row over the bound by any factor is brought to it: neither lost to overflow nor let through by underflow."""
    for size in 10.0 ** np.arange(-300, 276, 25):
        x = np.array([[3.0, 4.0]]) * size
        for matrix in (x, sparse.csr_array(x)):
            oracle = linear_oracle(matrix, [1e9], Problem(1, 2, Huber()), Rows(bound=size))
            np.testing.assert_allclose(oracle.gradient(np.zeros(2)), [-0.6, -0.8], rtol=1e-12)


def test_clipping_holds_at_the_edge_for_many_rows():
    """Norms are rounded, and contributions too: neither may push a record over its clip, not by one bit."""
    rng = np.random.default_rng(0)
    for columns in (1, 3, 50):
        X = 5 + rng.normal(size=(300, columns))
        oracle = linear_oracle(X, np.full(300, 1e9), Problem(300, columns + 1, Huber()), Rows(0.01, 0.5))
        for clip in (0.9, 1.0):
            norms = [math.hypot(*g) for g in contributions(oracle, 300, np.zeros(columns + 1), clip)]
            assert max(norms) <= clip
            assert min(norms) > clip * (1 - 1e-13)


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-2, 2),
    st.sampled_from([np.nan, np.inf, 1e200, -1e200, 0.0, 5e-324]),
)
weights = st.one_of(st.floats(-3, 3), st.floats(-1e12, 1e12))
LOSS = st.sampled_from([Logistic(), Huber(0.5), Squared(2.0), Softmax(3)])


@st.composite
def neighbours(draw):
    """Records, a stranger for one of them, and a question."""
    count = draw(st.integers(1, 6))
    record = st.tuples(st.lists(numbers, min_size=2, max_size=2), numbers)
    records = draw(st.lists(record, min_size=count, max_size=count))
    stranger, place = draw(record), draw(st.integers(0, count - 1))
    loss = draw(LOSS)
    rows = Rows(draw(st.sampled_from([1e-3, 1.0, 50.0])), draw(st.sampled_from([0.0, 0.5])))
    problem = Problem(count, 2 + rows.has_intercept, loss, domain=Ball(5.0))
    w = np.array(draw(st.lists(weights, min_size=problem.dim, max_size=problem.dim)))
    clip = draw(st.sampled_from([1e-6, 0.1, 1.0, 1e4]))
    storage = draw(st.sampled_from([np.asarray, sparse.csr_array]))
    return records, stranger, place, problem, rows, w, clip, storage


@settings(max_examples=300, deadline=None)
@given(neighbours())
def test_replacing_or_removing_a_record_moves_the_sum_by_no_more_than_the_sensitivity(case):
    records, stranger, place, problem, rows, w, clip, storage = case
    replaced = [*records[:place], stranger, *records[place + 1 :]]
    count = len(records)

    def total(data, at, clip, batch=None):
        X, y = np.array([x for x, _ in data]), np.array([y for _, y in data])
        return exact(linear_oracle(storage(X), y, problem, rows), Gradient(at, clip, batch))

    others = np.delete(np.arange(count), place)
    room = 1 + 1e-9
    for at in (w, np.tile(w, (8, 1))):
        here, there, without = total(records, at, clip), total(replaced, at, clip), total(records, at, clip, others)
        assert np.max(np.linalg.norm(here - there, axis=-1)) <= 2 * clip * room
        assert np.max(np.linalg.norm(here - without, axis=-1)) <= clip * room
    L = problem.constants.L
    oracle = linear_oracle(storage(np.array([x for x, _ in records])), np.array([y for _, y in records]), problem, rows)
    other = linear_oracle(
        storage(np.array([x for x, _ in replaced])), np.array([y for _, y in replaced]), problem, rows
    )
    assert np.linalg.norm(oracle.gradient(w) - other.gradient(w)) <= 2 * L / count * room
