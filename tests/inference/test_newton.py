"""One noisy Newton step: its covariance, and when it is not believed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.inference.newton import CLEAR, Linearised

ZERO = np.zeros((3, 3))


def symmetric(rng, d, s):
    """Deviation s on the diagonal, s/sqrt 2 beside it."""
    E = rng.normal(scale=s / math.sqrt(2), size=(d, d))
    E = np.triu(E, 1)
    return E + E.T + np.diag(rng.normal(scale=s, size=d))


def test_the_noise_of_the_curvature_moves_a_step_by_what_was_derived():
    """K of (1, 2, -1) for s = 1/2, entry by entry: (s^2/2)(|v|^2 I + v v^T)."""
    step = np.array([1.0, 2.0, -1.0])
    found = Linearised(-step, 0.0, np.eye(3), 0.5).covariance(ZERO)
    want = [[0.875, 0.25, -0.125], [0.25, 1.25, -0.25], [-0.125, -0.25, 0.875]]
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_the_covariance_is_that_of_many_steps():
    """Gradient, curvature and records all random: 5,000 steps of a quadratic."""
    rng, d = np.random.default_rng(0), 3
    root = rng.normal(size=(d, d))
    H, J, g = root @ root.T + 2 * np.eye(d), np.diag([0.2, 0.05, 0.1]), 8 * rng.normal(size=d)
    sigma, s = 0.2, 0.1
    steps = []
    for _ in range(5_000):
        told = g + sigma * rng.normal(size=d) + rng.multivariate_normal(np.zeros(d), J)
        steps.append(Linearised(told, sigma, H + symmetric(rng, d, s), s).step)
    stated = Linearised(g, sigma, H, s).covariance(J)
    measured = np.cov(np.array(steps).T)
    np.testing.assert_allclose(measured, stated, atol=0.08 * np.diag(stated).max())
    # the part of the curvature's noise is no small one here
    assert np.trace(Linearised(g, sigma, H, 0.0).covariance(J)) < 0.8 * np.trace(stated)


def test_directions_that_noise_made_negative_add_nothing():
    spread = np.diag([1.0, -5.0, 0.0])
    found = Linearised(np.zeros(3), 0.0, np.eye(3), 0.0).covariance(spread)
    np.testing.assert_allclose(found, np.diag([1.0, 0.0, 0.0]), atol=1e-15)


@pytest.mark.parametrize("d", [2, 8])
def test_a_curvature_is_clear_above_twice_the_noise(d):
    edge = CLEAR * math.sqrt(2 * d)
    for least, clear in ((0.99 * edge, False), (1.01 * edge, True)):
        H = np.diag([least, *[100.0] * (d - 1)])
        assert Linearised(np.zeros(d), 1.0, H, 1.0).clear is clear


def test_the_bend_does_not_depend_on_the_unit_of_the_rows():
    rng = np.random.default_rng(1)
    g, root = rng.normal(size=3), rng.normal(size=(3, 3))
    H = root @ root.T
    for unit in (0.1, 7.0):
        one, other = Linearised(g, 0.3, H, 0.0), Linearised(unit * g, 0.3 * unit, unit**2 * H, 0.0)
        bends = one.bend(one.covariance(H), 50.0), other.bend(other.covariance(unit**2 * H), 50.0)
        assert bends[0] == pytest.approx(bends[1], rel=1e-9)
    assert one.bend(one.covariance(H), 50.0) > one.bend(one.covariance(H), 5000.0)
