"""Projections: what they return, and the two properties the convergence and privacy arguments use."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest

from sordino.domains import Ball, Domain, Everywhere

DOMAINS: list[Domain] = [Everywhere(), Ball(1e-3), Ball(1.0), Ball(40.0)]


def points(seed: int, shape: tuple[int, ...]) -> Any:
    """Of every size from far inside to far outside."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) * 10.0 ** rng.uniform(-6, 6, size=(*shape[:-1], 1))


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_projection_is_idempotent(domain: Domain) -> None:
    once = domain.project(points(1, (400, 5)))
    np.testing.assert_allclose(domain.project(once), once, rtol=4e-16)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_projection_lands_in_the_domain(domain: Domain) -> None:
    norms = np.linalg.norm(domain.project(points(2, (4000, 5))), axis=1)
    # within rounding: a factor 1 + 4 ulp is what the norm itself may be off by
    assert norms.max() <= domain.radius * (1 + 1e-15)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_projection_brings_no_two_points_further_apart(domain: Domain) -> None:
    v, w = points(3, (4000, 5)), points(4, (4000, 5))
    w[::3] = v[::3] * (1 + 1e-3)
    before = np.linalg.norm(v - w, axis=1)
    after = np.linalg.norm(domain.project(v) - domain.project(w), axis=1)
    assert np.all(after <= before * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_start_is_inside(domain: Domain) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(domain.project(np.zeros(3)), np.zeros(3))


def test_everywhere_has_no_boundary() -> None:
    w = np.array([1e300, -1e300])
    assert Everywhere().radius == math.inf
    np.testing.assert_array_equal(Everywhere().project(w), w)


def test_golden_projection() -> None:
    # |(3, 4)| = 5
    np.testing.assert_allclose(Ball(2.0).project(np.array([3.0, 4.0])), [1.2, 1.6], rtol=1e-15)


def test_a_point_inside_or_on_the_ball_is_not_touched() -> None:
    w = np.array([[0.1, 0.2], [0.6, 0.8], [0.0, 0.0], [1e-320, 0.0]])
    np.testing.assert_array_equal(Ball(1.0).project(w), w)


def test_projection_is_the_nearest_point() -> None:
    rng, ball = np.random.default_rng(5), Ball(1.5)
    w = rng.normal(size=6) * 3
    inside = rng.normal(size=(20000, 6))
    inside *= 1.5 * rng.uniform(size=(20000, 1)) ** (1 / 6) / np.linalg.norm(inside, axis=1, keepdims=True)
    assert np.linalg.norm(w - ball.project(w)) <= np.linalg.norm(w - inside, axis=1).min()


def test_a_stack_is_projected_vector_by_vector() -> None:
    stack = points(6, (3, 4, 5))
    projected = Ball(1.0).project(stack)
    assert projected.shape == stack.shape
    for i in range(3):
        for j in range(4):
            np.testing.assert_array_equal(projected[i, j], Ball(1.0).project(stack[i, j]))


def test_the_argument_is_left_alone() -> None:
    w = np.array([3.0, 4.0])
    Ball(1.0).project(w)
    np.testing.assert_array_equal(w, [3.0, 4.0])


def test_is_a_frozen_value() -> None:
    assert Ball(2.0) == Ball(2.0) != Ball(3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ball(2.0).radius = 9.0  # type: ignore[misc]


@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, math.nan])
def test_a_ball_needs_a_radius(radius: float) -> None:
    with pytest.raises(ValueError, match=f"radius is {radius}: a ball needs a positive finite one"):
        Ball(radius)
