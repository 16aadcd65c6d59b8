"""Penalties: golden values, derivatives, and the range of the Hessian that the step sizes rely on."""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from sordino import penalties
from sordino.penalties import BoundedPenalty, Penalty, Ridge

# The program that made the golden values: one coordinate's definition, its derivative by mpmath at 40 digits.
DEFINITIONS: dict[type, Any] = {
    Ridge: lambda strength, w: mpf(strength) * w**2 / 2,
    BoundedPenalty: lambda strength, w: mpf(strength) * w**2 / (1 + w**2),
}


def by_mpmath(penalty: Any, w: list[float]) -> tuple[float, list[float]]:
    with mp.workdps(40):

        def r(coordinate: mpf) -> mpf:
            return DEFINITIONS[type(penalty)](penalty.strength, coordinate)

        return float(sum(r(mpf(c)) for c in w)), [float(mp.diff(r, mpf(c))) for c in w]


# penalty, w, value, gradient, convexity, smoothness (the last two by hand)
GOLDEN: list[tuple[Any, list[float], float, list[float], float, float]] = [
    (Ridge(0.0), [1.0, -2.0], 0.0, [0.0, 0.0], 0.0, 0.0),
    (Ridge(0.25), [1.0, -2.0, 0.5], 0.65625, [0.25, -0.5, 0.125], 0.25, 0.25),
    (
        BoundedPenalty(0.5),
        [0.0, 1.0, -0.75, 30.0],
        0.9294450610432853,
        [0.0, 0.25, -0.3072, 3.6954869481560134e-05],
        -0.25,
        1.0,
    ),
    (BoundedPenalty(1e-3), [0.1], 9.900990099009903e-06, [0.0001960592098813842], -5e-4, 2e-3),
]
EXAMPLES: list[Penalty] = [Ridge(0.0), Ridge(0.3), BoundedPenalty(1e-3), BoundedPenalty(2.0)]
every_penalty = pytest.mark.parametrize("penalty", EXAMPLES, ids=repr)


def test_every_penalty_has_a_golden_row() -> None:
    defined = {kind for kind in vars(penalties).values() if inspect.isclass(kind) and dataclasses.is_dataclass(kind)}
    assert {type(row[0]) for row in GOLDEN} == {type(example) for example in EXAMPLES} == set(DEFINITIONS) == defined


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: repr(row[0]))
def test_golden_values(row: Any) -> None:
    penalty, w, value, gradient, convexity, smoothness = row
    assert penalty.value(np.array(w)) == pytest.approx(value, rel=1e-15, abs=0)
    np.testing.assert_allclose(penalty.gradient(np.array(w)), gradient, rtol=1e-15)
    assert (penalty.convexity, penalty.smoothness) == (convexity, smoothness)


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: repr(row[0]))
def test_golden_values_are_what_the_program_makes(row: Any) -> None:
    penalty, w, value, gradient, _, _ = row
    made_value, made_gradient = by_mpmath(penalty, w)
    assert value == pytest.approx(made_value, rel=2e-16, abs=0)
    np.testing.assert_allclose(gradient, made_gradient, rtol=2e-16, atol=1e-30)


@every_penalty
def test_gradient_is_the_derivative(penalty: Penalty) -> None:
    rng, h = np.random.default_rng(1), 1e-5
    w = rng.normal(scale=2, size=(200, 3))
    for j in range(3):
        e = h * np.eye(3)[j]
        numerical = (penalty.value(w + e) - penalty.value(w - e)) / (2 * h)
        np.testing.assert_allclose(numerical, penalty.gradient(w)[:, j], rtol=0, atol=1e-8)


@pytest.mark.parametrize("penalty", [*EXAMPLES, Ridge()])
def test_a_gradient_is_added_in_place(penalty: Penalty) -> None:
    w, g = np.random.default_rng(1).normal(size=(2, 5, 3))
    want = g + penalty.gradient(w)
    penalty.add_gradient(w, g)
    np.testing.assert_array_equal(g, want)


@every_penalty
def test_hessian_lies_between_convexity_and_smoothness_and_reaches_both(penalty: Penalty) -> None:
    # both penalties are sums over coordinates: the Hessian is diagonal, its entries the second differences
    w, h = np.linspace(-6, 6, 24001)[:, None], 1e-4
    second = ((penalty.gradient(w + h) - penalty.gradient(w - h)) / (2 * h))[:, 0]
    slack = 1e-7 * max(1.0, penalty.smoothness)
    assert second.min() >= penalty.convexity - slack
    assert second.max() <= penalty.smoothness + slack
    assert second.min() == pytest.approx(penalty.convexity, abs=slack)
    assert second.max() == pytest.approx(penalty.smoothness, abs=slack)


@every_penalty
def test_gradient_difference_obeys_both_constants(penalty: Penalty) -> None:
    rng = np.random.default_rng(2)
    v, w = (rng.normal(size=(4000, 4)) * 10.0 ** rng.uniform(-2, 3, size=(4000, 1)) for _ in range(2))
    change, distance = penalty.gradient(v) - penalty.gradient(w), np.linalg.norm(v - w, axis=1)
    assert np.all(np.linalg.norm(change, axis=1) <= penalty.smoothness * distance * (1 + 1e-12) + 1e-12)
    slack = 1e-12 * (1 + penalty.smoothness * distance**2)
    assert np.all((change * (v - w)).sum(axis=1) >= penalty.convexity * distance**2 - slack)


def test_bounded_penalty_slope_is_at_most_3_sqrt_3_over_8() -> None:
    # |2w / (1 + w^2)^2| peaks at w = 1/sqrt(3)
    bound, penalty = 3 * math.sqrt(3) / 8, BoundedPenalty(2.0)
    slopes = np.abs(penalty.gradient(np.linspace(-50, 50, 200001)[:, None])) / 2.0
    assert slopes.max() <= bound + 1e-15
    assert penalty.gradient(np.array([1 / math.sqrt(3)]))[0] == pytest.approx(2 * bound, rel=1e-15, abs=0)


def test_bounded_penalty_is_bounded() -> None:
    w = np.array([[1e8, -1e8, 1e3], [0.0, 0.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BoundedPenalty(0.5).value(w) == pytest.approx([1.5, 0.0])
        assert np.abs(BoundedPenalty(0.5).gradient(w)).max() <= 1e-8


@every_penalty
def test_zero_is_free_and_stationary(penalty: Penalty) -> None:
    # Problem.radius takes r(0) = 0 and r >= 0 for granted
    assert penalty.value(np.zeros(4)) == 0
    np.testing.assert_array_equal(penalty.gradient(np.zeros(4)), np.zeros(4))
    assert penalty.value(np.random.default_rng(3).normal(size=(100, 4))).min() >= 0


@every_penalty
def test_a_stack_is_penalised_vector_by_vector(penalty: Penalty) -> None:
    w = np.random.default_rng(4).normal(size=(2, 3, 5))
    assert penalty.value(w).shape == (2, 3)
    assert penalty.gradient(w).shape == w.shape
    for i in range(2):
        for j in range(3):
            assert penalty.value(w)[i, j] == penalty.value(w[i, j])
            np.testing.assert_array_equal(penalty.gradient(w)[i, j], penalty.gradient(w[i, j]))


@pytest.mark.parametrize("kind", [Ridge, BoundedPenalty])
@pytest.mark.parametrize("strength", [-1e-9, math.inf, math.nan])
def test_strength_is_checked(kind: Any, strength: float) -> None:
    with pytest.raises(ValueError, match=f"strength is {strength}: a penalty needs a finite strength"):
        kind(strength)
