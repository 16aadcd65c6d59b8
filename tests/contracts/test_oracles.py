"""Every place where records can be x every query x both relations.

The reference adds up contributions written out with NumPy, one row for every record. An oracle must have its answers,
must never let one record move an answer by more than the query's sensitivity, and must hold hostile records to that.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import plain_gradients as plain
import stored
from plain_gradients import Silence, exact
from sordino.budget import Relation
from sordino.domains import Ball
from sordino.losses import Gamma, Hinge, Huber, Logistic, MoreauSmoothed, Poisson, Softmax, Squared, Weighted
from sordino.oracle import linear_oracle
from sordino.oracle.blocks import HeldBlocks, block_of
from sordino.oracle.files import source as source_module
from sordino.oracle.linear import BlockwiseOracle
from sordino.oracle.model import LinearModel
from sordino.oracle.persons import Persons
from sordino.oracle.query import Choice, ClippedLoss, Difference, Gradient, Recursion, SideBySide
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import CyclicPoisson, InOrder
from sordino.privacy.correlated_noise import CorrelatedNoise
from sordino.privacy.correlation import BufferedToeplitz
from sordino.privacy.noise import GaussianNoise, NoisePerRow
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum
from sordino.problem import PersonUnit, Problem

# --- The reference ---


def _gradients(R, y, loss, at):
    """records x models x parameters"""
    scores = np.einsum("np,mkp->nmk", R, at.reshape(len(at), loss.outputs, -1))
    scores = scores if loss.outputs > 1 else scores[..., 0]
    slopes = loss.slope(scores, np.broadcast_to(y[:, None], (len(y), len(at))).copy())
    return (slopes.reshape(len(y), len(at), -1, 1) * R[:, None, None, :]).reshape(len(y), len(at), -1)


def _clipped(g, clip):
    largest = np.abs(g).max(axis=-1, keepdims=True)
    norms = (largest * np.sqrt(((g / np.where(largest > 0, largest, 1.0)) ** 2).sum(axis=-1, keepdims=True)))[..., 0]
    factor = np.where(np.isfinite(norms), np.minimum(1.0, clip / np.maximum(norms, 1e-300)), 0.0)[..., None]
    return np.where(factor > 0, g, 0.0) * factor


def bounded(X, rows):
    return np.array([plain.bounded_row(x, rows) for x in X])


def contributions(R, y, loss, query):
    """What every record adds to the answer for every model; nothing where the loss does not admit its target."""
    if isinstance(loss, Weighted):
        weights = np.array([plain.weight(loss, target) for target in y])
        return weights[:, None, None] * contributions(R, y, loss.base, query)
    with np.errstate(all="ignore"):
        at, targets = np.atleast_2d(query.at), loss.admit(np.asarray(y, dtype=float))
        there = (~np.isnan(targets)).reshape(-1, 1, 1)
        targets = np.nan_to_num(targets)
        match query:
            case Gradient():
                found = _clipped(_gradients(R, targets, loss, at), query.clip)
            case Difference():
                moved = _gradients(R, targets, loss, at) - _gradients(R, targets, loss, np.atleast_2d(query.since))
                found = _clipped(moved, query.clip)
            case Recursion(difference, gradient, mix):
                parts = (contributions(R, y, loss, part) for part in (difference, gradient))
                return (1 - mix) * next(parts) + mix * next(parts)
            case ClippedLoss():
                scores = np.einsum("np,mkp->nmk", R, at.reshape(len(at), loss.outputs, -1))
                values = loss.value(scores if loss.outputs > 1 else scores[..., 0], np.tile(targets, (len(at), 1)).T)
                found = np.where(np.isfinite(values), np.minimum(values, query.clip), 0.0)[..., None]
    return np.where(there, found, 0.0)


def reference(R, y, loss, query):
    batch = getattr(query, "batch", None)
    total = contributions(R, y, loss, query)[slice(None) if batch is None else batch].sum(axis=0)
    return total.reshape(np.shape(query.at) if not isinstance(query, ClippedLoss) else np.shape(query.at)[:-1])


# --- The places ---


def in_blocks(X, y, problem, rows, relation=Relation.REPLACE_ONE):
    """In memory, in blocks of unequal length whose numbers have gaps."""
    edges = [0, len(y) // 3, len(y) // 3, len(y)]
    blocks = {
        number: block_of(X[first:last], y[first:last], rows)
        for number, first, last in zip((0, 3, 6), edges, edges[1:], strict=False)
    }
    return BlockwiseOracle(LinearModel(problem, rows, relation), HeldBlocks(blocks))


def under_another_loss(X, y, problem, rows, relation=Relation.REPLACE_ONE):
    first = next(loss for loss in plain.LOSSES if loss.outputs == problem.loss.outputs)
    return linear_oracle(X, y, replace(problem, loss=first), rows, relation).under(problem.loss)


def part_of_more(X, y, problem, rows, relation=Relation.REPLACE_ONE):
    """Every second record of twice as many."""
    more = replace(problem, records=2 * problem.records)
    both = linear_oracle(np.repeat(X, 2, axis=0), np.repeat(y, 2), more, rows, relation)
    return both.divide(np.arange(0, 2 * len(y), 2), problem, problem)[1]


def of_persons(X, y, problem, rows, relation=Relation.REPLACE_ONE):
    """Everybody with one record, which is what a record is."""
    persons = Persons.of(np.arange(len(y)), PersonUnit(2), Randomness.seeded(0))
    return linear_oracle(X, y, replace(problem, person=persons.unit), rows, relation, persons)


def weighted(X, y, problem, rows, relation=Relation.REPLACE_ONE):
    """With weights that are cut to 1, which is what a record counts without any."""
    return linear_oracle(X, y, problem, rows, relation, None, np.resize([1.0, 1.5, 1e300, np.inf], len(y)))


def compiled(kind):
    """By the kernels, which larger blocks have."""

    def place(X, y, *public):
        oracle = linear_oracle(np.asarray(X, kind), y, *public)
        oracle.blocks.blocks[0].small = 0
        return oracle

    return place


def as_sparse(kind):
    return lambda X, y, *public: linear_oracle(sparse.csr_array(np.asarray(X, kind)), y, *public)


PLACES = {
    "dense64": linear_oracle,
    "dense32": lambda X, y, *public: linear_oracle(np.asarray(X, np.float32), y, *public),
    "compiled64": compiled(np.float64),
    "compiled32": compiled(np.float32),
    "csr64": as_sparse(np.float64),
    "csr32": as_sparse(np.float32),
    "blocks": in_blocks,
    "sparse blocks": lambda X, y, *public: in_blocks(sparse.csr_array(X), y, *public),
    "another loss first": under_another_loss,
    "part of more": part_of_more,
    "persons": of_persons,
    "weights": weighted,
}
IN_MEMORY = ["dense64", "compiled64", "csr64", "blocks", "sparse blocks", "persons", "weights"]

every_loss = pytest.mark.parametrize("loss", plain.LOSSES, ids=plain.label)
every_place = pytest.mark.parametrize("place", PLACES)
every_relation = pytest.mark.parametrize("relation", list(Relation))

RECORDS, FEATURES = 60, 5
SOME, NOBODY = np.array([0, 2, 3, 11, 19, 20, 21, 59]), np.empty(0, dtype=np.intp)


def example(loss, rho=0.6, records=RECORDS):
    """Rows of which about half are too long, a third of the entries zero; features and targets that are missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(records, FEATURES)) * rng.choice([0.3, 1.0, 30.0], (records, 1))
    X[rng.random(X.shape) < 0.3] = 0.0
    X = X.astype(np.float32).astype(np.float64)  # the same numbers in either precision
    y = plain.targets(loss, records, rng)
    X[7, 2], X[8, 0], y[9] = np.nan, np.inf, np.nan
    return X, y, Problem(records, FEATURES + (rho > 0), loss, domain=Ball(4.0)), Rows(2.0, intercept=rho)


def queries(problem, models, batches=(None, SOME, NOBODY)):
    rng = np.random.default_rng(1)
    at = rng.normal(size=(models, problem.dim)) if models else rng.normal(size=problem.dim)
    since = at + 0.3 * rng.normal(size=at.shape)
    for clip, batch in itertools.product((0.05, 50.0), batches):
        gradient, difference = Gradient(at, clip, batch), Difference(at, since, clip / 5, batch)
        yield from (gradient, difference, Recursion(difference, gradient, 0.3))
    yield ClippedLoss(at, 0.7)


# --- The contracts ---


@every_place
@pytest.mark.parametrize("rho", [0.0, 0.6])
@every_loss
def test_the_answers_are_those_of_the_reference(loss, rho, place):
    X, y, problem, rows = example(loss, rho)
    oracle, R = PLACES[place](X, y, problem, rows), bounded(X, rows)
    for models in (0, 2, 9):
        for query in queries(problem, models):
            want = reference(R, y, loss, query)
            np.testing.assert_allclose(exact(oracle, query), want, rtol=1e-11, atol=1e-12)
    at = query.at / 3
    # exact answers: gradients clipped at L, losses not at all, both divided by the public number of records
    everybody = Gradient(at, problem.constants.L)
    np.testing.assert_allclose(oracle.gradient(at) * RECORDS, reference(R, y, loss, everybody), rtol=1e-11, atol=1e-12)
    some = reference(R, y, loss, replace(everybody, batch=SOME))
    np.testing.assert_allclose(oracle.gradient(at, SOME) * RECORDS, some, rtol=1e-11, atol=1e-12)
    values = reference(R, y, loss, ClippedLoss(at, np.inf))
    np.testing.assert_allclose(oracle.value(at) * RECORDS, values, rtol=1e-12)
    assert oracle.value(at[0]).shape == ()
    assert oracle.gradient(at[:0]).shape == (0, problem.dim)
    # the scores of a choice are sums of clipped losses, and what is public is added
    seen = SimpleNamespace(relation=Relation.REPLACE_ONE, sensitivity=100.0, choose=lambda scores, _: scores)
    scores = oracle.choose(Choice(at, 0.7, np.arange(9.0)), seen, None)
    np.testing.assert_allclose(scores, reference(R, y, loss, ClippedLoss(at, 0.7)) + np.arange(9.0), rtol=1e-12)


@every_place
@every_loss
def test_gradients_side_by_side_are_clipped_each_by_its_own_clip(loss, place):
    X, y, problem, rows = example(loss)
    oracle, R = PLACES[place](X, y, problem, rows), bounded(X, rows)
    for models in (3, 9):
        at = np.random.default_rng(1).normal(size=(models, problem.dim))
        parts = tuple(Gradient(some, clip) for some, clip in zip(np.split(at, [1, 2]), (0.05, 50.0, 0.4), strict=True))
        want = np.concatenate([reference(R, y, loss, part) for part in parts])
        np.testing.assert_allclose(exact(oracle, SideBySide(parts)), want, rtol=1e-11, atol=1e-12)


@every_relation
@pytest.mark.parametrize("place", IN_MEMORY)
def test_gradients_side_by_side_have_noise_each_for_its_own_clip(place, relation):
    X, y, problem, rows = example(Logistic())
    oracle = PLACES[place](X, y, problem, rows, relation)
    small, large = (GaussianNoise.at(1.0, relation.distance * clip, problem.dim) for clip in (0.05, 50.0))
    at = np.random.default_rng(1).normal(size=(3, problem.dim))
    query = SideBySide((Gradient(at[:1], 0.05), Gradient(at[1:], 50.0)))
    noisy = oracle.release(query, NoisePerRow((small, large, large)), Randomness.seeded(7))
    want = NoisePerRow((small, large, large)).perturb(exact(oracle, query), Randomness.seeded(7))
    np.testing.assert_array_equal(noisy, want)
    for noise in (small, NoisePerRow((small, large, small)), NoisePerRow((large, small, large))):
        with pytest.raises(ValueError, match=r"the query has sensitivity .* but the noise was"):
            oracle.release(query, noise, Randomness.seeded(0))
    with pytest.raises(ValueError, match="every row needs its own"):
        oracle.release(query, NoisePerRow((small, large)), Randomness.seeded(0))
    with pytest.raises(ValueError, match="clip is inf"):
        oracle.release(SideBySide((Gradient(at, math.inf),)), Silence(), Randomness.seeded(0))
    for other in (Gradient(at, 1.0, SOME), Gradient(at, 1.0, softening=0.1), Gradient(at[0], 1.0)):
        with pytest.raises(ValueError, match="only plain gradients of all records"):
            SideBySide((query.gradients[0], other))


@pytest.mark.parametrize("place", IN_MEMORY)
@pytest.mark.parametrize("loss", [loss for loss in plain.LOSSES if loss.outputs == 1], ids=plain.label)
def test_products_with_the_hessian(loss, place):
    X, y, problem, rows = example(loss)
    oracle = PLACES[place](X, y, problem, rows)
    at, v, *stack = np.random.default_rng(1).normal(size=(11, problem.dim))
    R, targets = bounded(X, rows), loss.admit(y)
    weights = np.where(np.isnan(targets), 0.0, loss.curvature(R @ at, np.nan_to_num(targets)))
    H = (R.T * weights) @ R / RECORDS
    product = oracle.curvature_product(at)
    np.testing.assert_allclose(product(v), H @ v, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(product(np.array(stack)), np.array(stack) @ H, rtol=1e-11, atol=1e-14)


FILE_LOSSES = (Logistic(), Softmax(3), Squared(0.8), MoreauSmoothed(Hinge(), 4.0))
# every form of file, with losses and precisions in turn
FORMS = list(zip(stored.FORMS, itertools.cycle([np.float32, np.float64]), itertools.cycle(FILE_LOSSES), strict=False))


WEIGHTS = np.resize([0.25, 1.0, 0.0, 40.0, np.nan, 0.7, -3.0], 1037)


@pytest.mark.parametrize(
    ("form", "kind", "loss", "weights"),
    [
        *(pytest.param(*one, None, id=one[0]) for one in FORMS),
        pytest.param("parquet_folder", np.float64, Softmax(3), WEIGHTS, id="parquet_folder weighted"),
        pytest.param("npy_files", np.float32, Logistic(), WEIGHTS, id="npy_files weighted"),
    ],
)
def test_files_have_the_bits_of_memory_in_one_block_and_the_same_bits_in_many(
    tmp_path, form, kind, loss, weights, monkeypatch
):
    X, y, problem, rows = example(loss, records=1037)
    X = X.astype(kind)
    many = np.arange(3, 1037, 2)
    parts = replace(problem, records=1037 - len(many)), replace(problem, records=len(many))

    def answers(oracle):
        outside, inside = oracle.divide(many, *parts)
        found = [
            exact(one, query)
            for one in (oracle, outside, inside.divide(np.arange(0, len(many), 3), *_thirds(problem, len(many)))[0])
            for models in (0, 2, 9)
            for query in queries(problem, models, (None, SOME, NOBODY))
        ]
        at = np.random.default_rng(2).normal(size=problem.dim)
        return [*found, oracle.gradient(at, many), oracle.value(at), *(one.value(at) for one in (outside, inside))]

    weighted = Relation.REPLACE_ONE, None, weights
    memory = answers(linear_oracle(X, y, problem, rows, *weighted))
    source = stored.FORMS[form](tmp_path, X, y)
    assert source.units.blocks == 1
    for got, want in zip(answers(linear_oracle(source, None, problem, rows, *weighted)), memory, strict=True):
        np.testing.assert_array_equal(got, want)
    monkeypatch.setattr(source_module, "_NUMBERS", 1)
    assert source.units.blocks == 5
    inside = source_module.record_units(1037, 1)
    spans = [slice(*inside.span(k)) for k in range(5)]
    blocks = {k: block_of(X[s], y[s], rows, None if weights is None else weights[s]) for k, s in enumerate(spans)}
    held = BlockwiseOracle(LinearModel(problem, rows, Relation.REPLACE_ONE), HeldBlocks(blocks))
    streamed = answers(linear_oracle(source, None, problem, rows, *weighted))
    for number, (got, want, close) in enumerate(zip(streamed, answers(held), memory, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=str(number))
        np.testing.assert_allclose(got, close, rtol=1e-10, atol=1e-11)


def _thirds(problem, records):
    third = -(-records // 3)
    return replace(problem, records=records - third), replace(problem, records=third)


BAD = [np.nan, np.inf, -np.inf, 1e30, 1e38, -1e200, 1.7e308, 0.0, -0.0, 1e-30, 1e-160, 1e-310, 5e-324]
BAD_TARGETS = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 0.5, -1.0, 7.0, 5e-324]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("place", ["dense64", "dense32", "compiled64", "compiled32", "csr64", "csr32", "sparse blocks"])
@every_loss
def test_hostile_records_stay_within_the_clip(loss, place):
    """Every bad number alone, three times, and beside ordinary ones; every bad target."""
    rng = np.random.default_rng(0)
    features = [[[bad, 0, 0], [bad, bad, bad], [rng.normal(), bad, rng.normal()], [bad, -bad, bad]] for bad in BAD]
    X = np.array([*itertools.chain(*features), *rng.normal(size=(len(BAD_TARGETS), 3))])
    y = np.concatenate([np.ones(4 * len(BAD)), BAD_TARGETS])
    rows, problem = Rows(2.0, 0.6), Problem(len(X), 4, loss, domain=Ball(4.0))
    with np.errstate(over="ignore"):
        oracle = PLACES[place](X, y, problem, rows)
        R = bounded(np.asarray(X, np.float32) if "32" in place else X, rows)
    for size, clip in ((1.0, 0.01), (1e3, 0.3), (1e150, 0.3), (1e-200, 3.0)):
        at, since = rng.normal(size=(2, problem.dim)) * size
        gradient, difference = Gradient(at, clip), Difference(at, since, clip / 10)
        for query in (gradient, Recursion(difference, gradient, 0.25)):
            each = [exact(oracle, over(query, np.array([i]))) for i in range(len(X))]
            assert np.isfinite(each).all()
            bound = query.clip * (1 if query is gradient else 1 + 1e-15)
            assert max(plain.norm(g) for g in each) <= bound
            if size <= 1e3:
                want = contributions(R, y, loss, query)[:, 0]
                np.testing.assert_allclose(each, want, rtol=1e-9, atol=1e-12 * clip)
            # the others do not notice
            np.testing.assert_allclose(exact(oracle, query), np.sum(each, axis=0), rtol=1e-9, atol=1e-12)
            stacked = exact(oracle, tiled(query, 9))
            assert np.max(np.linalg.norm(stacked, axis=1)) <= len(X) * query.clip
            if query is gradient:
                # nor does it matter by which of several ways a question is answered: no score overflows
                np.testing.assert_allclose(stacked, np.tile(np.sum(each, axis=0), (9, 1)), rtol=1e-9, atol=1e-12)
        assert np.linalg.norm(oracle.gradient(at)) <= problem.constants.L
        assert np.isfinite(oracle.value(np.stack([at] * 9))).all()


def over(query, batch):
    if isinstance(query, Recursion):
        return Recursion(over(query.difference, batch), over(query.gradient, batch), query.mix)
    return replace(query, batch=batch) if hasattr(query, "batch") else query


def tiled(query, models):
    """The same question about as many models."""
    if isinstance(query, Recursion):
        difference = tiled(query.difference, models)
        return Recursion(difference, replace(query.gradient, at=difference.at), query.mix)
    since = {"since": np.tile(query.since, (models, 1))} if isinstance(query, Difference) else {}
    return replace(query, at=np.tile(query.at, (models, 1)), **since)


numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-2, 2),
    st.sampled_from([np.nan, np.inf, 1e200, -1e200, 0.0, 5e-324, 1.0, -1.0]),
)


@st.composite
def neighbours(draw):
    """Records, a stranger for one of them, and a question."""
    count = draw(st.integers(1, 6))
    record = st.tuples(st.lists(numbers, min_size=2, max_size=2), numbers)
    records = draw(st.lists(record, min_size=count, max_size=count))
    replaced = list(records)
    place = draw(st.integers(0, count - 1))
    replaced[place] = draw(record)
    loss = draw(
        st.sampled_from(
            [
                *(Logistic(), Huber(0.5), Squared(2.0), Softmax(3), Poisson(2.0, 0.7), Gamma(0.1, 5.0, 1.5)),
                *(Weighted(Logistic(), (0.2, 1.0)), Weighted(Softmax(3), (1.0, 0.0, 0.4))),
            ]
        )
    )
    rows = Rows(draw(st.sampled_from([1e-3, 1.0, 50.0])), draw(st.sampled_from([0.0, 0.5])))
    problem = Problem(count, 2 + rows.has_intercept, loss, domain=Ball(5.0))
    weights = st.lists(st.one_of(st.floats(-3, 3), st.floats(-1e12, 1e12)), min_size=problem.dim, max_size=problem.dim)
    at, since = np.array(draw(weights)), np.array(draw(weights))
    clip = draw(st.sampled_from([1e-6, 0.1, 1.0, 1e4]))
    gradient, difference = Gradient(at, clip), Difference(at, since, clip * draw(st.sampled_from([0.01, 2.0])))
    mixed = Recursion(difference, gradient, draw(st.sampled_from([0.0, 0.01, 0.5, 1.0])))
    query = draw(st.sampled_from([gradient, difference, mixed, ClippedLoss(at, clip)]))
    return records, replaced, place, problem, rows, query if draw(st.booleans()) else tiled(query, 8)


@settings(max_examples=400, deadline=None)
@given(neighbours(), st.sampled_from(IN_MEMORY))
def test_neighbours_are_never_further_apart_than_the_sensitivity(case, place):
    records, replaced, missing, problem, rows, query = case

    def answer(data, relation):
        X, y = np.array([x for x, _ in data]).reshape(-1, 2), np.array([y for _, y in data])
        oracle = PLACES[place](X, y, problem, rows, relation)
        return exact(oracle, query), oracle.gradient(query.at)

    here, gradient = answer(records, Relation.REPLACE_ONE)
    fewer = [record for i, record in enumerate(records) if i != missing]
    axis = None if isinstance(query, ClippedLoss) else -1
    for data, relation in ((replaced, Relation.REPLACE_ONE), (fewer, Relation.ADD_REMOVE)):
        there, other = answer(data, relation)
        apart = np.abs(here - there) if axis is None else np.linalg.norm(here - there, axis=axis)
        assert np.max(apart) <= query.sensitivity(relation) * (1 + 1e-9)
        most = relation.distance * problem.constants.L / problem.records
        assert np.max(np.linalg.norm(gradient - other, axis=-1)) <= most * (1 + 1e-9)


@pytest.mark.parametrize("place", IN_MEMORY)
def test_what_a_unit_contributes_does_not_depend_on_who_else_is_there(place):
    """Bit for bit: in other company, of rows longer, wider or not finite."""
    X, y, problem, rows = example(Logistic(), records=40)
    X[::2, 1:] = 0.0
    company, labels = X.copy(), y.copy()
    company[1::2] = 1e9 * np.random.default_rng(3).normal(size=(20, FEATURES))
    company[3], labels[1::2] = np.nan, -labels[1::2]
    here, there = (PLACES[place](*data, problem, rows) for data in ((X, y), (company, labels)))
    at = np.random.default_rng(1).normal(size=problem.dim)
    for i in range(0, 40, 2):
        query = Gradient(at, 0.1, np.array([i]))
        np.testing.assert_array_equal(exact(here, query), exact(there, query))


@pytest.mark.parametrize("place", ["dense64", "compiled64", "csr64"])
def test_the_number_of_threads_does_not_change_a_bit(place, monkeypatch):
    X, y, problem, rows = example(Logistic(), records=90_000)
    oracle = PLACES[place](X, y, problem, rows)
    half = np.arange(0, len(X), 2)
    found = {}
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("SORDINO_THREADS", threads)
        found[threads] = [exact(oracle, query) for models in (0, 9) for query in queries(problem, models, (None, half))]
        for alone, shared in zip(found["1"], found[threads], strict=True):
            np.testing.assert_array_equal(shared, alone)


@every_relation
@pytest.mark.parametrize("place", IN_MEMORY)
def test_noise_is_added_once_and_refused_if_it_was_made_for_less(place, relation):
    X, y, problem, rows = example(Logistic())
    oracle = PLACES[place](X, y, problem, rows, relation)
    for query in queries(problem, 2):
        needed = query.sensitivity(relation)
        noise = GaussianNoise.at(1.0, needed, 1 if isinstance(query, ClippedLoss) else problem.dim)
        noisy, answer = oracle.release(query, noise, Randomness.seeded(7)), exact(oracle, query)
        shaped = answer[..., None] if isinstance(query, ClippedLoss) else answer
        np.testing.assert_array_equal(noisy.ravel(), noise.perturb(shaped, Randomness.seeded(7)).ravel())
        assert np.all(noisy != answer)
        for short in (needed * 0.999, np.nan):
            with pytest.raises(ValueError, match=r"the query has sensitivity .* but the noise was"):
                oracle.release(query, Silence(short), Randomness.seeded(0))
    choice = Choice(query.at, 1.0, np.zeros(2))
    for selection, words in (
        (NoisyMinimum(0.5, 1.0, relation), "sensitivity 1 "),
        (NoisyMinimum(1.0, 1.0, next(other for other in Relation if other is not relation)), "under"),
    ):
        with pytest.raises(ValueError, match=words):
            oracle.choose(choice, selection, Randomness.seeded(0))


@every_relation
@pytest.mark.parametrize("place", IN_MEMORY)
def test_batches_by_places_are_drawn_only_where_a_replaced_record_moves_nobody(place, relation):
    X, y, problem, rows = example(Logistic())
    oracle = PLACES[place](X, y, problem, rows, relation)
    moved = relation is Relation.ADD_REMOVE or place == "persons"
    for sampling in (InOrder(7), CyclicPoisson(0.5, 7)):
        for t in range(9):
            if moved:
                with pytest.raises(ValueError, match="go by"):
                    oracle.draw(sampling.at(t), Randomness.seeded(t))
                continue
            # whose turn it is follows from a record's number: neither from other records nor from coins
            batch = oracle.draw(sampling.at(t), Randomness.seeded(t))
            numbers, ends = np.arange(RECORDS), [RECORDS * part // 7 for part in range(1, 7)]
            turn = np.searchsorted(ends, numbers, "right") if isinstance(sampling, InOrder) else numbers % 7
            assert set(batch) <= set(np.flatnonzero(turn == t % 7))


@pytest.mark.parametrize("place", IN_MEMORY)
def test_correlated_noise_is_added_where_the_records_are(place):
    """What a method is handed is the exact sum and the noise of the run, step by step."""
    X, y, problem, rows = example(Logistic())
    oracle = PLACES[place](X, y, problem, rows)
    query = next(queries(problem, 2))
    noise = CorrelatedNoise.at(
        1.0, query.sensitivity(Relation.REPLACE_ONE), problem.dim, BufferedToeplitz(0.4, 0.9), 5, 2
    )
    running, alone = noise.begin(), noise.begin()
    one, other = Randomness.seeded(7), Randomness.seeded(7)
    for _ in range(5):
        noisy = oracle.release(query, running, one)
        np.testing.assert_array_equal(noisy, alone.perturb(exact(oracle, query), other))
        assert np.all(noisy != exact(oracle, query))
    less = replace(noise, sensitivity=0.9 * noise.sensitivity).begin()
    with pytest.raises(ValueError, match=r"the query has sensitivity .* but the noise was"):
        oracle.release(query, less, one)


@pytest.mark.parametrize("place", IN_MEMORY)
def test_questions_that_are_refused(place):
    X, y, problem, rows = example(Logistic())
    oracle = PLACES[place](X, y, problem, rows)
    at = np.zeros(problem.dim)
    for clip, near in ((0.0, 1.0), (-1.0, 1.0), (np.inf, 1.0), (np.nan, 1.0), (1.0, 0.0), (1.0, -0.1), (1.0, np.inf)):
        with pytest.raises(ValueError, match="clip is"):
            exact(oracle, Recursion(Difference(at, at, near), Gradient(at, clip), 0.5))
    for batch in ([3, 3], [5, 2], [-1, 2], [0, RECORDS], [[1, 2]]):
        for ask in (lambda b: exact(oracle, Gradient(at, 1.0, b)), lambda b: oracle.gradient(at, b)):
            with pytest.raises(ValueError, match="each at most once"):
                ask(np.array(batch))
    for ask in (oracle.gradient, oracle.value, lambda w: exact(oracle, Difference(at, w, 1.0))):
        for bad in (np.nan, np.inf):
            with pytest.raises(ValueError, match="parameters are not finite"):
                ask(np.array([0, 0, bad, 0, 0, 0]))
    for ask in (oracle.gradient, oracle.value, lambda w: exact(oracle, Choice(w, 1.0, at))):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            ask(np.zeros(5))
    with pytest.raises(ValueError, match="both must have the same"):
        exact(oracle, Difference(at, np.zeros((2, 6)), 0.1))
    with pytest.raises(ValueError, match="one point over one batch"):
        Recursion(Difference(at, at, 0.1), Gradient(at.copy(), 0.1), 0.5)
    with pytest.raises(ValueError, match=r"shape \(2, 6\)"):
        oracle.curvature_product(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="Softmax has 3 scores per record and Logistic has 1"):
        oracle.under(Softmax(3))
    with pytest.raises(ValueError, match="X has 58 rows, but the problem was stated with 60"):
        oracle.divide(np.array([1, 2]), problem, replace(problem, records=2))
