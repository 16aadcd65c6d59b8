"""Golden values of every loss and every constant, the proximal maps, and the sentences of the constructors."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from sordino import losses
from sordino.losses import (
    LOSSES,
    Absolute,
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    HuberisedHinge,
    Logistic,
    MoreauSmoothed,
    Pinball,
    Poisson,
    Softmax,
    Squared,
    Weighted,
)

# --- The program that made the golden values: definitions alone, derivatives by mpmath at 40 digits. ---


def _clipped(y: float, bound: float) -> float:
    return min(max(y, -bound), bound)


def _huber(r: mpf, k: float) -> mpf:
    return r**2 / 2 if abs(r) <= k else k * abs(r) - mpf(k) ** 2 / 2


def _huberised_hinge(m: mpf, h: float) -> mpf:
    if m > 1 + h:
        return mpf(0)
    return (1 + mpf(h) - m) ** 2 / (4 * mpf(h)) if m >= 1 - h else 1 - m


def _moreau(base: Any, s: float, y: float, a: mpf) -> mpf:
    """The least phi(p) + (s/2)(p - a)^2 of all p where it can be: the kinks, and where a linear piece is level."""
    y = _clipped(y, getattr(base, "target_bound", math.inf))
    tau, e = mpf(getattr(base, "quantile", 0)), mpf(getattr(base, "tolerance", 0))
    candidates = [y - e, mpf(y), y + e, *(a - slope / mpf(s) for slope in (-1, -tau, 0, 1 - tau, 1))]
    return min(DEFINITIONS[type(base)](base, y, p) + mpf(s) / 2 * (p - a) ** 2 for p in candidates)


def _poisson(y: float, Y: float, C: float, a: mpf) -> mpf:
    """e^a - y a less its least value, and straight on where its slope is C or -C."""
    y = mpf(min(max(y, 0.0), Y))
    least = y - y * mp.log(y) if y else mpf(0)
    h = min(a, mp.log(y + C))
    h = max(h, mp.log(y - C)) if y > C else h
    return mp.exp(h) - y * h - least + C * abs(a - h)


def _gamma(y: float, low: float, Y: float, C: float, a: mpf) -> mpf:
    y = mpf(min(max(y, low), Y))
    h = max(a, mp.log(y / (1 + mpf(C))))
    h = min(h, mp.log(y / (1 - mpf(C)))) if C < 1 else h
    return h + y * mp.exp(-h) - 1 - mp.log(y) + C * abs(a - h)


def _weighted(loss: Any, y: float, a: tuple[mpf, ...]) -> mpf:
    place = int(y) if loss.outputs > 1 else int(y > 0)
    return mpf(loss.weights[place]) * DEFINITIONS[type(loss.base)](loss.base, y, *a)


DEFINITIONS: dict[type, Any] = {
    Logistic: lambda loss, y, a: mp.log(1 + mp.exp(-y * a)),
    Softmax: lambda loss, y, *a: mp.log(sum(mp.exp(s) for s in a)) - a[int(y)],
    Squared: lambda loss, y, a: (a - _clipped(y, loss.target_bound)) ** 2 / 2,
    Huber: lambda loss, y, a: _huber(a - _clipped(y, loss.target_bound), loss.threshold),
    HuberisedHinge: lambda loss, y, a: _huberised_hinge(y * a, loss.width),
    Hinge: lambda loss, y, a: max(mpf(0), 1 - y * a),
    Absolute: lambda loss, y, a: abs(a - _clipped(y, loss.target_bound)),
    Pinball: lambda loss, y, a: max(
        loss.quantile * (_clipped(y, loss.target_bound) - a),
        (loss.quantile - mpf(1)) * (_clipped(y, loss.target_bound) - a),
    ),
    EpsilonInsensitive: lambda loss, y, a: max(mpf(0), abs(a - _clipped(y, loss.target_bound)) - mpf(loss.tolerance)),
    MoreauSmoothed: lambda loss, y, a: _moreau(loss.base, loss.sharpness, y, a),
    Poisson: lambda loss, y, a: _poisson(y, loss.target_bound, loss.clip, a),
    Gamma: lambda loss, y, a: _gamma(y, loss.least_target, loss.target_bound, loss.clip, a),
    Weighted: lambda loss, y, *a: _weighted(loss, y, a),
}


def by_mpmath(loss: Any, score: list[float], y: float) -> tuple[float, Any, Any]:
    """Value, gradient and Hessian in the scores, rounded to double precision at the end."""
    with mp.workdps(40):
        point, k = tuple(mpf(s) for s in score), len(score)

        def phi(*a: mpf) -> mpf:
            return DEFINITIONS[type(loss)](loss, y, *a)

        def order(*axes: int) -> tuple[int, ...]:
            return tuple(axes.count(j) for j in range(k))

        slope = [float(mp.diff(phi, point, order(i))) for i in range(k)]
        curvature = [[float(mp.diff(phi, point, order(i, j))) for j in range(k)] for i in range(k)]
        return float(phi(*point)), slope, curvature


# --- The golden values (above program, run once). A score, or one per class; then value, gradient, Hessian. ---

inf = math.inf
GOLDEN: list[tuple[Any, Any, float, float, Any, Any]] = [
    (Logistic(), 0.0, 1.0, 0.6931471805599453, -0.5, 0.25),
    (Logistic(), 1.5, -1.0, 1.7014132779827524, 0.8175744761936437, 0.14914645207033286),
    (Logistic(), -2.25, -1.0, 0.10020655891674721, 0.09534946489910949, 0.08625794444256298),
    (Logistic(), 37.5, 1.0, 5.175555005801868e-17, -5.175555005801868e-17, 5.175555005801868e-17),
    (Logistic(), -750.0, 1.0, 750.0, -1.0, 0.0),
    (Softmax(2), [0.0, 0.0], 1.0, 0.6931471805599453, [0.5, -0.5], [[0.25, -0.25], [-0.25, 0.25]]),
    (
        Softmax(3),
        [0.5, -1.0, 2.0],
        0.0,
        1.7413112966571571,
        [-0.8247096078599633, 0.03911257327068745, 0.7855970345892759],
        [
            [0.14456367056342886, -0.006856058306224721, -0.13770761225720413],
            [-0.006856058306224721, 0.03758277988283256, -0.030726721576607836],
            [-0.13770761225720413, -0.030726721576607836, 0.16843433383381196],
        ],
    ),
    (
        Softmax(3),
        [1000.0, 1001.0, 998.0],
        2.0,
        3.349012216768186,
        [0.25949646034241913, 0.7053845126982412, -0.9648809730406602],
        [
            [0.19215804741217443, -0.18304478422555578, -0.00911326318661865],
            [-0.18304478422555578, 0.207817201943706, -0.024772417718150246],
            [-0.00911326318661865, -0.024772417718150246, 0.03388568090476889],
        ],
    ),
    (Squared(2.0), 0.75, -1.25, 2.0, 2.0, 1.0),
    (Squared(2.0), 0.75, 5.0, 0.78125, -1.25, 1.0),
    (Huber(1.5), 0.5, 1.25, 0.28125, -0.75, 1.0),
    (Huber(1.5), -4.0, 1.25, 6.75, -1.5, 0.0),
    (Huber(1.5, 2.0), 0.25, 9.0, 1.5, -1.5, 0.0),
    (HuberisedHinge(0.25), 1.0, 1.0, 0.0625, -0.5, 2.0),
    (HuberisedHinge(0.25), -1.125, -1.0, 0.015625, 0.25, 2.0),
    (HuberisedHinge(0.25), 0.5, -1.0, 1.5, 1.0, 0.0),
    (HuberisedHinge(0.25), 2.0, 1.0, 0.0, 0.0, 0.0),
    (Hinge(), 0.25, 1.0, 0.75, -1.0, 0.0),
    (Hinge(), 0.25, -1.0, 1.25, 1.0, 0.0),
    (Hinge(), 1.5, 1.0, 0.0, 0.0, 0.0),
    (Absolute(), 0.5, 2.0, 1.5, -1.0, 0.0),
    (Absolute(1.0), 3.0, 2.0, 2.0, 1.0, 0.0),
    (Pinball(0.875), 0.5, 2.0, 1.3125, -0.875, 0.0),
    (Pinball(0.875), 3.0, 2.0, 0.125, 0.125, 0.0),
    (Pinball(0.25, 1.0), 0.5, 7.0, 0.125, -0.25, 0.0),
    (EpsilonInsensitive(0.125), 0.5, 0.5625, 0.0, 0.0, 0.0),
    (EpsilonInsensitive(0.125), 0.5, 2.0, 1.375, -1.0, 0.0),
    (EpsilonInsensitive(0.125, 1.0), -0.5, -3.0, 0.375, 1.0, 0.0),
    (MoreauSmoothed(Hinge(), 4.0), 0.875, 1.0, 0.03125, -0.5, 4.0),
    (MoreauSmoothed(Hinge(), 4.0), 0.25, -1.0, 1.125, 1.0, 0.0),
    (MoreauSmoothed(Hinge(), 4.0), 1.5, 1.0, 0.0, 0.0, 0.0),
    (MoreauSmoothed(Absolute(1.0), 2.0), 1.25, 9.0, 0.0625, 0.5, 2.0),
    (MoreauSmoothed(Absolute(1.0), 2.0), -1.5, 0.25, 1.5, -1.0, 0.0),
    (MoreauSmoothed(Pinball(0.875), 2.0), 0.5, 0.75, 0.0625, -0.5, 2.0),
    (MoreauSmoothed(Pinball(0.875), 2.0), 0.5, 2.0, 1.12109375, -0.875, 0.0),
    (MoreauSmoothed(Pinball(0.875), 2.0), 3.0, 2.0, 0.12109375, 0.125, 0.0),
    (MoreauSmoothed(EpsilonInsensitive(0.125), 4.0), 0.5, 0.5625, 0.0, 0.0, 0.0),
    (MoreauSmoothed(EpsilonInsensitive(0.125), 4.0), 0.5, 0.75, 0.03125, -0.5, 4.0),
    (MoreauSmoothed(EpsilonInsensitive(0.125, 1.0), 4.0), -0.5, -3.0, 0.25, 1.0, 0.0),
    (Poisson(5.0, 2.0), 0.5, 0.0, 1.6487212707001282, 1.6487212707001282, 1.6487212707001282),
    (Poisson(5.0, 2.0), 3.0, 1.0, 4.704163133995671, 2.0, 0.0),
    (Poisson(5.0, 2.0), -4.0, 9.0, 10.751352696166173, -2.0, 0.0),
    (Poisson(5.0, 2.0), -6.0, 1.5, 8.110676414338913, -1.4975212478233337, 0.0024787521766663585),
    (Gamma(0.25, 8.0, 2.0), -1.5, 100.0, 5.863046217355342, -2.0, 0.0),
    (Gamma(0.25, 8.0, 0.5), 3.0, 0.5, 1.6931471805599454, 0.5, 0.0),
    (Gamma(0.25, 8.0, 0.5), -0.75, 0.0, 0.1655443652730593, 0.47074999584683136, 0.5292500041531687),
    (Weighted(Logistic(), (0.25, 1.0)), 1.5, -1.0, 0.4253533194956881, 0.2043936190484109, 0.037286613017583216),
    (Weighted(Logistic(), (0.25, 1.0)), 0.0, 1.0, 0.6931471805599453, -0.5, 0.25),
    (Weighted(Hinge(), (1.0, 0.5)), 0.25, 1.0, 0.375, -0.5, 0.0),
    (
        Weighted(Softmax(2), (0.5, 1.0)),
        [0.0, 0.0],
        0.0,
        0.34657359027997264,
        [-0.25, 0.25],
        [[0.125, -0.125], [-0.125, 0.125]],
    ),
]

# By hand, for rows of norm R and parameters of norm D: L, beta, the value at zero, scores per record, rank.
CONSTANTS: list[tuple[Any, float, float, float, float, float, int, int]] = [
    (Logistic(), 2.0, inf, 2.0, 1.0, 0.6931471805599453, 1, 1),
    (Softmax(2), 1.0, inf, 1.4142135623730951, 0.5, 0.6931471805599453, 2, 1),
    (Softmax(3), 2.0, inf, 2.8284271247461903, 2.0, 1.0986122886681098, 3, 2),
    (Squared(3.0), 2.0, 5.0, 26.0, 4.0, 4.5, 1, 1),
    (Squared(3.0), 2.0, inf, inf, 4.0, 4.5, 1, 1),
    (Huber(1.5), 2.0, inf, 3.0, 4.0, inf, 1, 1),
    (Huber(1.5, 2.0), 2.0, inf, 3.0, 4.0, 1.875, 1, 1),
    (Huber(1.5, 1.0), 2.0, inf, 3.0, 4.0, 0.5, 1, 1),
    (HuberisedHinge(0.1), 1.0, inf, 1.0, 5.0, 1.0, 1, 1),
    (HuberisedHinge(2.0), 2.0, inf, 2.0, 1.0, 1.125, 1, 1),
    (Hinge(), 2.0, inf, 2.0, inf, 1.0, 1, 1),
    (Absolute(), 2.0, inf, 2.0, inf, inf, 1, 1),
    (Absolute(3.0), 2.0, inf, 2.0, inf, 3.0, 1, 1),
    (Pinball(0.875, 2.0), 2.0, inf, 1.75, inf, 1.75, 1, 1),
    (Pinball(0.25, 2.0), 2.0, inf, 1.5, inf, 1.5, 1, 1),
    (EpsilonInsensitive(0.125, 2.0), 2.0, inf, 2.0, inf, 1.875, 1, 1),
    (EpsilonInsensitive(0.125, 0.1), 2.0, inf, 2.0, inf, 0.0, 1, 1),
    (MoreauSmoothed(Hinge(), 4.0), 2.0, inf, 2.0, 16.0, 0.875, 1, 1),
    (MoreauSmoothed(Hinge(), 0.25), 2.0, inf, 2.0, 1.0, 0.125, 1, 1),
    (MoreauSmoothed(Absolute(), 2.0), 2.0, inf, 2.0, 8.0, inf, 1, 1),
    (MoreauSmoothed(Absolute(3.0), 2.0), 2.0, inf, 2.0, 8.0, 2.75, 1, 1),
    (MoreauSmoothed(Pinball(0.25, 2.0), 2.0), 2.0, inf, 1.5, 8.0, 1.359375, 1, 1),
    (MoreauSmoothed(Pinball(0.875, 2.0), 2.0), 2.0, inf, 1.75, 8.0, 1.55859375, 1, 1),
    (MoreauSmoothed(EpsilonInsensitive(0.125, 2.0), 4.0), 2.0, inf, 2.0, 16.0, 1.75, 1, 1),
    (MoreauSmoothed(EpsilonInsensitive(0.125, 0.1), 4.0), 2.0, inf, 2.0, 16.0, 0.0, 1, 1),
    # 1 - Y + Y log Y; C log(Y - C) - C + Y log(Y / (Y - C)); and at y = 0, C - C log C
    (Poisson(5.0, 10.0), 2.0, inf, 20.0, 60.0, 4.047189562170502, 1, 1),
    (Poisson(20.0, 4.0), 2.0, inf, 8.0, 96.0, 11.553225915243315, 1, 1),
    (Poisson(0.4, 0.7), 1.0, inf, 0.7, 1.1, 0.9496724607571127, 1, 1),
    # C log(Y / (1 + C)) + C - log(1 + C); y_min - 1 - log y_min
    (Gamma(0.01, 50.0, 2.0), 2.0, inf, 4.0, 12.0, 6.528209144851964, 1, 1),
    (Gamma(0.01, 3.0, 1.0), 2.0, inf, 2.0, 8.0, 3.6151701859880907, 1, 1),
    (Weighted(Logistic(), (0.25, 1.0)), 2.0, inf, 2.0, 1.0, 0.6931471805599453, 1, 1),
    (Weighted(Softmax(3), (0.25, 1.0, 0.0)), 2.0, inf, 2.8284271247461903, 2.0, 1.0986122886681098, 3, 2),
]


def _called(row: Any) -> str:
    return "-".join(str(part) for part in row[:3])


def test_every_loss_has_golden_rows() -> None:
    defined = {
        kind
        for name, kind in vars(losses).items()
        if inspect.isclass(kind) and dataclasses.is_dataclass(kind) and not name.startswith("_")
    }
    assert set(LOSSES.values()) == defined
    assert set(LOSSES) == {kind.__name__ for kind in defined}
    for table in (GOLDEN, CONSTANTS):
        assert {type(row[0]) for row in table} == defined
    assert set(DEFINITIONS) == defined


@pytest.mark.parametrize("row", GOLDEN, ids=_called)
def test_golden_values(row: Any) -> None:
    loss, score, y, value, slope, curvature = row
    a, target = np.asarray([score]), np.asarray([y])
    # one record in, one record out; the worst entry is a sum of three rounded products
    np.testing.assert_allclose(loss.value(a, target), [value], rtol=2e-15, atol=0)
    np.testing.assert_allclose(loss.slope(a, target), [slope], rtol=2e-15, atol=0)
    np.testing.assert_allclose(loss.curvature(a, target), [curvature], rtol=4e-15, atol=0)


@pytest.mark.parametrize("row", GOLDEN, ids=_called)
def test_golden_values_are_what_the_program_makes(row: Any) -> None:
    loss, score, y, value, slope, curvature = row
    made = by_mpmath(loss, [score] if isinstance(score, float) else score, y)
    for ours, theirs in zip((value, slope, curvature), made, strict=True):
        np.testing.assert_allclose(np.ravel(ours), np.ravel(theirs), rtol=2e-16, atol=1e-30)


@pytest.mark.parametrize("row", CONSTANTS, ids=_called)
def test_golden_constants(row: Any) -> None:
    loss, R, D, L, beta, at_zero, outputs, rank = row
    assert loss.lipschitz(R, D) == pytest.approx(L, rel=1e-15, abs=0)
    assert loss.smoothness(R) == pytest.approx(beta, rel=1e-15, abs=0)
    assert loss.at_zero == pytest.approx(at_zero, rel=1e-15, abs=0)
    assert (loss.outputs, loss.hessian_rank, loss.convex) == (outputs, rank, True)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_softmax_hessian_norm_reaches_one_half_and_no_more(classes: int) -> None:
    loss, rng = Softmax(classes), np.random.default_rng(1)
    scores = rng.normal(size=(3000, classes)) * 10.0 ** rng.uniform(-3, 3, size=(3000, 1))
    # p = (1/2, 1/2, 0, ..): the norm of [[1, -1], [-1, 1]] / 4
    tie = np.full((1, classes), -60.0)
    tie[0, :2] = 0.0
    norms = np.linalg.norm(loss.curvature(np.vstack([scores, tie]), np.zeros(3001)), ord=2, axis=(1, 2))
    assert norms.max() <= 0.5 + 1e-12
    assert norms[-1] == pytest.approx(0.5, abs=1e-12)


def test_squared_gradient_bound_needs_the_ball_and_is_reached_on_it() -> None:
    # R = 2, D = 5, Y = 3: w = -D x/|x| and y = Y give slope -(R D + Y), times R
    loss, x, w = Squared(3.0), np.array([2.0, 0.0]), np.array([-5.0, 0.0])
    gradient = loss.slope(np.array([w @ x]), np.array([99.0])) * x
    assert np.linalg.norm(gradient) == loss.lipschitz(2.0, 5.0) == 26.0
    further = loss.slope(np.array([2 * w @ x]), np.array([99.0])) * x
    assert np.linalg.norm(further) > loss.lipschitz(2.0, 5.0)


def test_a_clipped_squared_gradient_is_the_one_of_hubers_loss() -> None:
    """With the threshold clip/|x|: convex, as smooth, and at most the clip, wherever the weights are."""
    rng, loss = np.random.default_rng(2), Squared(0.8, clip=0.3)
    X = rng.normal(size=(200, 3)) * 10.0 ** rng.uniform(-2, 0.5, size=(200, 1))
    norms = np.linalg.norm(X, axis=1)
    for w in (np.zeros(3), rng.normal(size=3), 1e6 * rng.normal(size=3)):
        y = 3 * rng.normal(size=200)
        slopes = loss.slope(X @ w, y)
        clipped = slopes * np.minimum(1.0, 0.3 / np.maximum(np.abs(slopes) * norms, 1e-300))
        huber = [Huber(0.3 / norm, 0.8).slope(a, b) for norm, a, b in zip(norms, X @ w, y, strict=True)]
        np.testing.assert_allclose(clipped, huber, rtol=1e-9)
        assert (np.abs(huber) * norms).max() <= loss.lipschitz(norms.max(), inf) * (1 + 1e-12)
    assert loss.lipschitz(1.0, inf) == 0.3
    # a bound that the ball gives counts where it is smaller
    assert loss.lipschitz(0.1, 1.0) == pytest.approx(0.1 * (0.1 + 0.8))


# --- The Moreau envelope  e(a) = min_p phi(p) + (p - a)^2 / (2 step);  e'(a) = (a - prox) / step,  b = 1/step. ---

ENVELOPE_SLOPES: list[tuple[Any, Any]] = [
    (Hinge(), lambda a, y, b: -y * np.minimum(1, np.maximum(0, b * (1 - y * a)))),
    (Absolute(), lambda a, y, b: np.clip(b * (a - y), -1, 1)),
    (Pinball(0.8), lambda a, y, b: -np.clip(b * (y - a), 0.8 - 1, 0.8)),
    (Pinball(0.3), lambda a, y, b: -np.clip(b * (y - a), 0.3 - 1, 0.3)),
    (
        EpsilonInsensitive(0.25),
        lambda a, y, b: np.sign(a - y) * np.minimum(1, np.maximum(0, b * (np.abs(a - y) - 0.25))),
    ),
]


@pytest.mark.parametrize(("loss", "formula"), ENVELOPE_SLOPES, ids=lambda part: repr(part)[:24])
@pytest.mark.parametrize("step", [0.05, 1.0, 6.0])
def test_envelope_slope_in_closed_form(loss: Any, formula: Any, step: float) -> None:
    rng = np.random.default_rng(2)
    a, y = rng.normal(scale=4, size=4000), rng.choice([-1.0, 1.0], size=4000)
    smoothed = MoreauSmoothed(loss, 1 / step)
    np.testing.assert_allclose((a - loss.prox(a, y, step)) / step, formula(a, y, 1 / step), rtol=0, atol=1e-12)
    np.testing.assert_allclose(smoothed.slope(a, y), formula(a, y, 1 / step), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(np.isin(smoothed.curvature(a, y), [0.0, 1 / step]), True)

    def envelope(at: Any) -> Any:
        p = loss.prox(at, y, step)
        return loss.value(p, y) + (p - at) ** 2 / (2 * step)

    np.testing.assert_allclose(smoothed.value(a, y), envelope(a), rtol=0, atol=1e-12)
    # a derivative that only has kinks itself: central differences are right away from them
    h = 1e-6
    numerical = (envelope(a + h) - envelope(a - h)) / (2 * h)
    np.testing.assert_allclose(numerical, smoothed.slope(a, y), rtol=0, atol=2 * h / step)
    # phi - g^2 / (2s) <= phi_s <= phi, and no constant less than g^2 / (2s) would do
    gap, bound = loss.value(a, y) - smoothed.value(a, y), loss.slope_bound**2 * step / 2
    assert gap.min() >= -1e-12
    assert 0.999 * bound <= gap.max() <= bound + 1e-12


@pytest.mark.parametrize("loss", [row[0] for row in ENVELOPE_SLOPES], ids=repr)
@pytest.mark.parametrize("sharpness", [0.3, 17.0])
def test_a_far_score_keeps_the_slope_of_its_piece(loss: Any, sharpness: float) -> None:
    """As a - prox(a) it would be lost: 1e15 - 1/17 is 1e15."""
    a, y = np.array([-1e15, -1e17, 1e15, 1e17]), np.ones(4)
    np.testing.assert_allclose(MoreauSmoothed(loss, sharpness).slope(a, y), loss.slope(a, y), rtol=1e-15, atol=0)


@pytest.mark.parametrize("loss", [row[0] for row in ENVELOPE_SLOPES], ids=repr)
def test_prox_takes_a_step_per_record(loss: Any) -> None:
    rng = np.random.default_rng(3)
    a, y, step = rng.normal(scale=3, size=50), rng.choice([-1.0, 1.0], size=50), rng.uniform(0.01, 4, size=50)
    one_by_one = [loss.prox(a[i : i + 1], y[i : i + 1], float(step[i]))[0] for i in range(50)]
    np.testing.assert_array_equal(loss.prox(a, y, step), one_by_one)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Softmax(1), "classes is 1: a softmax loss needs at least two"),
        (lambda: Squared(0.0), r"target_bound is 0\.0: it must be a positive finite number"),
        (lambda: Squared(inf), "target_bound is inf: it must be a positive finite number"),
        (lambda: Squared(1.0, clip=0.0), r"clip is 0\.0"),
        (lambda: Squared(math.nan), "target_bound is nan: it must be a positive finite number"),
        (lambda: Huber(0.0), r"threshold is 0\.0: it must be a positive finite number"),
        (lambda: Huber(inf), "threshold is inf: it must be a positive finite number"),
        (lambda: Huber(1.0, -1.0), r"target_bound is -1\.0: it must be positive, or left infinite"),
        (lambda: HuberisedHinge(-0.5), r"width is -0\.5: it must be a positive finite number"),
        (lambda: Absolute(math.nan), "target_bound is nan: it must be positive, or left infinite"),
        (lambda: Pinball(0.0), r"quantile is 0\.0: it must lie strictly between 0 and 1"),
        (lambda: Pinball(1.0), r"quantile is 1\.0: it must lie strictly between 0 and 1"),
        (lambda: Pinball(0.5, 0.0), r"target_bound is 0\.0: it must be positive, or left infinite"),
        (lambda: EpsilonInsensitive(-0.1), r"tolerance is -0\.1: it must be finite and not negative"),
        (lambda: EpsilonInsensitive(0.1, -2.0), r"target_bound is -2\.0: it must be positive, or left infinite"),
        (lambda: MoreauSmoothed(Hinge(), 0.0), r"sharpness is 0\.0: it must be a positive finite number"),
        (lambda: MoreauSmoothed(Hinge(), inf), "sharpness is inf: it must be a positive finite number"),
        (lambda: MoreauSmoothed(Hinge(), math.nan), "sharpness is nan: it must be a positive finite number"),
        (lambda: MoreauSmoothed(Logistic(), 1.0), r"base is Logistic\(\): only a loss with a kink"),
        (lambda: MoreauSmoothed(MoreauSmoothed(Hinge(), 1.0), 1.0), "only a loss with a kink"),
        (lambda: Poisson(0.0, 1.0), r"target_bound is 0\.0: it must be a positive finite number"),
        (lambda: Poisson(inf, 1.0), "target_bound is inf: it must be a positive finite number"),
        (lambda: Poisson(1.0, inf), "clip is inf: it must be a positive finite number"),
        (lambda: Gamma(0.0, 1.0, 1.0), r"least_target is 0\.0: it must be a positive finite number"),
        (lambda: Gamma(1.0, 1.0, 1.0), "the least target must be the smaller one"),
        (lambda: Gamma(0.1, 1.0, math.nan), "clip is nan: it must be a positive finite number"),
        (lambda: Weighted(Huber(), (1.0, 1.0)), "classes have weights, and it is not a loss of classes"),
        (lambda: Weighted(Logistic(), (1.0,)), "2 of them are needed, one per class"),
        (lambda: Weighted(Softmax(3), (1.0, 1.0)), "3 of them are needed, one per class"),
        (lambda: Weighted(Logistic(), (0.5, 2.0)), "one per class, from 0 to 1"),
        (lambda: Weighted(Logistic(), (math.nan, 1.0)), "one per class, from 0 to 1"),
        (lambda: Weighted(Logistic(), (0.5, 0.9)), "the largest must be 1"),
        (lambda: Weighted.of(Logistic(), [0.0, 0.0]), "none negative and one positive"),
        (lambda: Weighted.of(Logistic(), [1.0, inf]), "finite ones are needed"),
    ],
)
def test_wrong_parameters_are_refused_in_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
