"""Every step by itself: its noise, and what it makes of rows when there is next to none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from sordino.budget import Relation
from sordino.losses import Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.rows import PreparedRows, Rows
from sordino.prepare import (
    PREPARATIONS,
    Centre,
    ClassBalance,
    ColumnBounds,
    ColumnScales,
    FrequentColumns,
    NormQuantile,
    StartingScore,
    Whitening,
)
from sordino.privacy.accountants import epsilon as cost, gdp_epsilon
from sordino.privacy.events import Composed
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

N, D, BOUND = 4000, 3, 10.0
every_step = pytest.mark.parametrize("kind", PREPARATIONS.values())


def rows_of(seed=0):
    """Off the centre, of unequal widths, correlated, well within the bound."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, D)) @ np.array([[0.5, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.1]]) + [2.0, -3.0, 0.5]


def run(step, X, rows=None, mu=1e5):
    problem, given = Problem(len(X), D + 1, Logistic()), Rows(BOUND, 0.4)
    oracle = linear_oracle(X, np.ones(len(X)), problem, given)
    rows = PreparedRows.of(given, D) if rows is None else rows
    plan = step.plan(D, len(X), Relation.REPLACE_ONE, mu)
    return step.run(plan, rows, len(X), oracle.under_rows(rows), Randomness.seeded(1))


@every_step
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_step_costs_its_share_and_no_more(kind, relation, share):
    plan = kind(share=share).plan(D, N, relation, 0.3)
    allowed = gdp_epsilon(0.3 * math.sqrt(share), 1e-6)
    found = cost(Composed(((plan.event, plan.times),)), 1e-6, relation)
    assert 0.999 * allowed <= found <= allowed * (1 + 1e-8)


@pytest.mark.parametrize(
    ("n", "bound", "mu_of_step", "std"), [(1000, 1.0, 0.1, 0.02), (32561, math.sqrt(14), 0.02, 0.01149122381614183)]
)
def test_the_noise_of_a_centre(n, bound, mu_of_step, std):
    """2 R / (n mu sqrt(a)), by hand."""
    plan = Centre(share=0.25).plan(4, n, Relation.REPLACE_ONE, 2 * mu_of_step)
    assert plan.noise.std * bound / n == pytest.approx(std, rel=1e-6)


def test_the_centre_is_the_mean():
    X = rows_of()
    found = run(Centre(), X)
    np.testing.assert_allclose(found.centre, X.mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(found.matrix, 1 / BOUND)
    # rows above the bound are scaled down to it before they count
    X[0] = 1e9
    np.testing.assert_allclose(run(Centre(), X).centre, X[1:].mean(axis=0), atol=0.02)


@pytest.mark.parametrize("quantile", [0.1, 0.6, 0.95])
def test_the_norm_is_the_least_of_the_grid_with_so_many_rows_within(quantile):
    X = rows_of()
    found = run(NormQuantile(quantile=quantile), X).matrix
    norms = np.linalg.norm(X, axis=1)
    r = 1 / found[0]
    assert (norms <= r).mean() >= quantile > (norms <= r / 2 ** (1 / 3)).mean()
    assert (found == found[0]).all()


def test_extreme_norms_end_at_the_ends_of_the_grid():
    assert 1 / run(NormQuantile(), np.full((N, D), 1e-6)).matrix[0] == pytest.approx(BOUND * 2 ** (-14 / 3))
    assert 1 / run(NormQuantile(), np.full((N, D), 1e6)).matrix[0] == pytest.approx(BOUND * 2 ** (1 / 3))


def test_columns_get_equal_widths():
    X = rows_of()
    X -= X.mean(axis=0)
    scaled = run(ColumnScales(), X).applied(X)
    np.testing.assert_allclose((scaled**2).mean(axis=0), 1 / D, rtol=0.01)


def test_columns_go_half_way_to_equal_widths():
    X = rows_of()
    X -= X.mean(axis=0)
    widths, scaled = X.std(axis=0), run(ColumnScales(power=0.25), X).applied(X).std(axis=0)
    np.testing.assert_allclose(scaled, np.sqrt(widths / widths.sum()), rtol=0.01)
    with pytest.raises(ValueError, match="it lies above 0 and at most at 1/2"):
        ColumnScales(power=0.6)


def test_columns_that_few_rows_have_a_part_of_are_left_out():
    """n mu sqrt(share) = 40 and noise of sqrt 2 on a sum of sizes: a column passes from 2 sqrt 2/40 of the bound on."""
    X, mu = np.zeros((N, D)), 40 / N / math.sqrt(0.2)
    X[:, 0], X[: N // 100, 1] = -0.2 * BOUND, 0.5 * BOUND
    found = [run(FrequentColumns(), X, PreparedRows.of(Rows(BOUND, 0.4), D), mu) for _ in range(3)]
    for rows in found:
        np.testing.assert_array_equal(rows.matrix, [1 / BOUND, 0.0, 0.0])
    stay = run(FrequentColumns(threshold=1e9), X, mu=mu)
    np.testing.assert_array_equal(stay.matrix != 0, [True, False, False], "the largest stays")
    np.testing.assert_array_equal(run(FrequentColumns(), X).matrix != 0, [True, True, False])
    thin = stay.applied(sparse.csr_array(X))
    assert thin.nnz == N
    np.testing.assert_array_equal(thin.toarray(), stay.applied(X))


def test_frequent_columns_are_made_smaller():
    X = np.zeros((N, D))
    X[:, 0], X[: N // 16, 1] = 0.4 * BOUND, 0.4 * BOUND
    often, seldom, never = run(FrequentColumns(power=0.25), X).matrix
    assert never == 0 < often
    assert seldom == pytest.approx(2 * often, rel=1e-3)
    assert seldom < 1 / BOUND, "no row is longer than before"


@pytest.mark.parametrize(("power", "left"), [(0.5, 0.0), (0.25, 0.5)])
def test_whitening_takes_powers_of_the_second_moments(power, left):
    X = rows_of()
    X -= X.mean(axis=0)
    before = np.linalg.eigvalsh(X.T @ X)
    rounder = run(Whitening(power=power), X).applied(X)
    after = np.linalg.eigvalsh(rounder.T @ rounder)
    np.testing.assert_allclose(after / after[-1], (before / before[-1]) ** left, rtol=0.02)
    assert np.mean(np.linalg.norm(rounder, axis=1) ** 2) == pytest.approx(1.0, rel=0.01)


def test_columns_of_unknown_width_are_brought_to_one():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(N, D)) * [1e-3, 0.5, 3.0] + [0.004, 2.0, -4.0]
    found = run(ColumnBounds(), X)
    scaled = found.applied(X) * math.sqrt(D)
    # between powers of two, hence within a factor of a few
    assert np.abs(np.quantile(scaled, [0.05, 0.95], axis=0)).max() <= 1.0
    assert (np.ptp(scaled, axis=0) > 0.15).all()


def test_noise_alone_breaks_nothing():
    """Whatever the answers are, rows stay finite."""
    X = rows_of()
    for kind in set(PREPARATIONS.values()) - {ClassBalance, StartingScore}:
        found = run(kind(), X, mu=1e-6)
        assert np.isfinite(found.applied(X)).all()


def test_settings_that_make_no_sense():
    for broken, words in (
        (lambda: Centre(share=0.0), "share of Centre is 0"),
        (lambda: NormQuantile(quantile=1.0), "quantile is 1"),
        (lambda: Whitening(power=0.7), "power is 0.7"),
        (lambda: FrequentColumns(threshold=0.0), "threshold is 0"),
        (lambda: FrequentColumns(power=-0.25), "power is -0.25"),
        (lambda: StartingScore(shortening=1.5), "shortening is 1.5"),
        (lambda: StartingScore(column=1.0), "column is 1.0"),
        (lambda: ColumnBounds(outside=0.5), "outside is 0.5"),
    ):
        with pytest.raises(ValueError, match=words):
            broken()
    with pytest.raises(ValueError, match="at most 2000 are whitened"):
        Whitening().plan(2001, N, Relation.REPLACE_ONE, 1.0)
    white = PreparedRows(1.0, 0.4, 1.0, np.zeros(D), np.eye(D))
    for step in (Centre(), ColumnScales(), ColumnBounds(), FrequentColumns()):
        with pytest.raises(ValueError, match="whitened"):
            run(step, rows_of(), white)
    fewer = PreparedRows(1.0, 0.4, 1.0, np.zeros(D), np.array([1.0, 0.0, 1.0]))
    for step in (Centre(), ColumnBounds()):
        with pytest.raises(ValueError, match="left out"):
            run(step, rows_of(), fewer)
