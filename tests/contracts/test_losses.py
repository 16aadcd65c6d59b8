"""Every loss x every contract: what the privacy argument assumes of a loss, measured on hostile records.

A record is (w, x, y): parameters, a row with |x| <= R, a target. Rows of full norm, parameters along the row and
targets far outside their bound are among the samples, because that is where a constant is attained.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sordino import wire
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
    unweighted,
)

# a loss, and the distances from the target's score at which its slope or curvature jumps
KINKS: dict[Any, tuple[float, ...]] = {
    Logistic(): (),
    Softmax(2): (),
    Softmax(5): (),
    Squared(0.5): (),
    Squared(3.0): (),
    Huber(1.0): (-1.0, 1.0),
    Huber(0.3, 2.0): (-0.3, 0.3),
    Huber(4.0, 2.0): (-4.0, 4.0),
    HuberisedHinge(0.1): (-0.1, 0.1),
    HuberisedHinge(0.5): (-0.5, 0.5),
    HuberisedHinge(2.0): (-2.0, 2.0),
    Hinge(): (0.0,),
    Absolute(): (0.0,),
    Absolute(2.0): (0.0,),
    Pinball(0.5): (0.0,),
    Pinball(0.9, 3.0): (0.0,),
    Pinball(0.2, 1.0): (0.0,),
    EpsilonInsensitive(0.0): (0.0,),
    EpsilonInsensitive(0.4, 2.0): (-0.4, 0.4),
    MoreauSmoothed(Hinge(), 4.0): (-0.25, 0.0, 0.25),
    MoreauSmoothed(Absolute(), 0.5): (-2.0, 2.0),
    MoreauSmoothed(Absolute(2.0), 8.0): (-0.125, 0.125),
    MoreauSmoothed(Pinball(0.2, 1.0), 2.0): (-0.1, 0.4),
    MoreauSmoothed(EpsilonInsensitive(0.4, 2.0), 4.0): (-0.65, -0.4, 0.4, 0.65),
    # from the score at which all targets have the same slope, see `target_scores`
    Poisson(3.0, 1.5): (0.0,),
    Poisson(20.0, 4.0): (0.0,),
    Poisson(0.4, 0.7): (0.0,),
    Gamma(0.01, 50.0, 2.0): (-math.log(3.0),),
    Gamma(0.5, 3.0, 0.5): (-math.log(1.5), math.log(2.0)),
    Gamma(0.01, 3.0, 1.0): (-math.log(2.0),),
    Weighted(Logistic(), (0.2, 1.0)): (),
    Weighted(Softmax(3), (1.0, 0.0, 0.4)): (),
    Weighted(MoreauSmoothed(Hinge(), 4.0), (1.0, 0.5)): (-0.25, 0.0, 0.25),
}
LOSS_TABLE = [pytest.param(loss, id=repr(loss)) for loss in KINKS]
KINKED = [pytest.param(loss, id=repr(loss)) for loss in KINKS if math.isinf(loss.smoothness(1.0))]
ROW_NORMS = (0.3, 1.0, 7.0)
RADIUS = 2.5  # |w| where the loss needs a ball
SAMPLES, FEATURES = 6000, 3

every_loss = pytest.mark.parametrize("loss", LOSS_TABLE)
every_row_norm = pytest.mark.parametrize("R", ROW_NORMS)


@pytest.fixture(autouse=True)
def _a_warning_is_a_failure() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(over="raise", divide="raise", invalid="raise"):
        warnings.simplefilter("error")
        yield


def is_classifier(loss: Any) -> bool:
    if isinstance(loss, MoreauSmoothed | Weighted):
        return is_classifier(loss.base)
    return isinstance(loss, Logistic | HuberisedHinge | Hinge)


def is_softmax(loss: Any) -> bool:
    return isinstance(unweighted(loss), Softmax)


def targets(loss: Any, rng: np.random.Generator, size: int) -> Any:
    """Labels, classes, or numbers of which some are far beyond any bound."""
    if is_softmax(loss):
        return rng.integers(loss.outputs, size=size).astype(float)
    if is_classifier(loss):
        return rng.choice([-1.0, 1.0], size=size)
    return rng.choice([-1.0, 1.0], size=size) * 10.0 ** rng.uniform(-3, 6, size=size)


def target_scores(loss: Any, y: Any) -> Any:
    """Where a kink sits when its distance is 0: the label's margin of one, or the clipped target, or its logarithm.

    Poisson's has two, of which the upper one is told here; the lower one is met by none of the samples.
    """
    if isinstance(loss, Poisson):
        return np.log(loss.within(y) + loss.clip)
    if isinstance(loss, Gamma):
        return np.log(loss.within(y))
    return y if is_classifier(loss) else np.clip(y, -loss.target_bound, loss.target_bound)


def needs_ball(loss: Any) -> bool:
    return math.isinf(loss.lipschitz(1.0, math.inf))


def lipschitz(loss: Any, R: float) -> float:
    return float(loss.lipschitz(R, RADIUS if needs_ball(loss) else math.inf))


def sample(loss: Any, R: float, seed: int, size: int = SAMPLES) -> tuple[Any, Any, Any]:
    """Parameters (outputs x features per record), rows and targets; half of each kind drawn at its extreme."""
    rng = np.random.default_rng(seed)
    k = loss.outputs
    x = rng.normal(size=(size, FEATURES))
    x *= R / np.linalg.norm(x, axis=1, keepdims=True)
    x[: size // 3] *= rng.uniform(0, 1, size=(size // 3, 1))

    # scores of every size, parameters along the row in every other record
    direction = rng.normal(size=(size, k, FEATURES))
    direction[::2] = rng.normal(size=(len(direction[::2]), k, 1)) * x[::2, None, :]
    if k > 1:  # two classes that tie, the others far below: where the softmax Hessian is largest
        tied = np.zeros((len(direction[::6]), k))
        tied[:, :2] = 1.0
        direction[::6] = rng.permuted(tied, axis=1)[:, :, None] * x[::6, None, :]
    direction /= np.linalg.norm(direction, axis=(1, 2), keepdims=True)
    if needs_ball(loss):
        size_of_w = RADIUS * rng.choice([1.0, 0.5, 0.01], size=size)
    else:
        size_of_w = 10.0 ** rng.uniform(-4, 5, size=size) / R
    return direction * size_of_w[:, None, None], x, targets(loss, rng, size)


def scores(loss: Any, w: Any, x: Any) -> Any:
    a = np.einsum("nkd,nd->nk", w, x)
    return a if loss.outputs > 1 else a[:, 0]


def gradients(loss: Any, w: Any, x: Any, y: Any) -> Any:
    s = loss.slope(scores(loss, w, x), y).reshape(len(x), -1)
    return s[:, :, None] * x[:, None, :]


def norm(w: Any) -> Any:
    return np.linalg.norm(w, axis=(1, 2))


def test_the_table_has_every_loss() -> None:
    assert {type(loss) for loss in KINKS} == set(LOSSES.values())


@every_loss
def test_is_a_frozen_value(loss: Any) -> None:
    assert loss == dataclasses.replace(loss)
    assert hash(loss) == hash(dataclasses.replace(loss))
    for field in dataclasses.fields(loss):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(loss, field.name, 1.0)


@every_loss
def test_survives_its_plain_form(loss: Any) -> None:
    assert wire.from_plain(wire.to_plain(loss), LOSSES) == loss


@every_loss
def test_slope_and_curvature_are_derivatives(loss: Any) -> None:
    rng, h = np.random.default_rng(4), 1e-5
    a = rng.normal(scale=3, size=(500, loss.outputs))
    y = targets(loss, rng, 500)
    if not is_softmax(loss):
        a = a[:, 0]
        y = np.clip(y, -4, 4)
        for kink in KINKS[loss]:
            keep = np.abs(a - target_scores(loss, y) - kink) > 3 * h
            a, y = a[keep], y[keep]
        assert len(a) > 450
        steps = [np.full_like(a, h)]
    else:
        steps = [h * np.eye(loss.outputs)[j] for j in range(loss.outputs)]
    slope = np.stack([(loss.value(a + e, y) - loss.value(a - e, y)) / (2 * h) for e in steps], axis=-1)
    curvature = np.stack([(loss.slope(a + e, y) - loss.slope(a - e, y)) / (2 * h) for e in steps], axis=-1)
    np.testing.assert_allclose(slope.reshape(loss.slope(a, y).shape), loss.slope(a, y), rtol=0, atol=1e-8)
    np.testing.assert_allclose(curvature.reshape(loss.curvature(a, y).shape), loss.curvature(a, y), rtol=0, atol=1e-8)


@every_loss
def test_gradient_in_the_parameters_is_slope_times_row(loss: Any) -> None:
    w, x, y = sample(loss, 1.0, seed=5, size=300)
    # 1.618, so that no score lands on a kink, and targets within reach of double precision
    w, y = w / np.maximum(1.0, norm(w) / 1.618)[:, None, None], np.clip(y, -4, 4)
    rng, h = np.random.default_rng(6), 1e-6
    v = rng.normal(size=w.shape)
    v /= norm(v)[:, None, None]
    up, down = (loss.value(scores(loss, w + t * v, x), y) for t in (h, -h))
    along = (gradients(loss, w, x, y) * v).sum(axis=(1, 2))
    np.testing.assert_allclose((up - down) / (2 * h), along, rtol=0, atol=1e-8)


@every_row_norm
@every_loss
def test_lipschitz_constant_holds_and_is_tight(loss: Any, R: float) -> None:
    L = lipschitz(loss, R)
    w, x, y = sample(loss, R, seed=7)
    reached = norm(gradients(loss, w, x, y)).max() / L
    assert reached <= 1 + 1e-12
    assert reached >= 0.9


@every_row_norm
@every_loss
def test_lipschitz_by_its_definition(loss: Any, R: float) -> None:
    w, x, y = sample(loss, R, seed=8)
    rng = np.random.default_rng(9)
    v = w[rng.permutation(len(w))] * rng.choice([1.0, 1e-3], size=(len(w), 1, 1))
    # rounding of a value of size |a| + |y| is what the slack pays for
    values = [loss.value(scores(loss, p, x), y) for p in (w, v)]
    slack = 1e-12 * (1 + np.abs(values[0]) + np.abs(values[1]) + np.abs(y))
    assert np.all(np.abs(values[0] - values[1]) <= lipschitz(loss, R) * norm(w - v) + slack)


@every_row_norm
@every_loss
def test_smoothness_constant_holds_and_is_tight(loss: Any, R: float) -> None:
    beta = loss.smoothness(R)
    w, x, y = sample(loss, R, seed=10)
    if math.isinf(beta):
        # across a kink the slope jumps: no finite constant would do
        at = target_scores(loss, np.ones(1)) + KINKS[loss][0]
        jump = loss.slope(at + 1e-9, np.ones(1)) - loss.slope(at - 1e-9, np.ones(1))
        assert jump[0] / 2e-9 > 1e6
        return
    curvature = loss.curvature(scores(loss, w, x), y).reshape(len(x), loss.outputs, loss.outputs)
    hessian_norms = np.linalg.norm(curvature, ord=2, axis=(1, 2)) * np.linalg.norm(x, axis=1) ** 2
    assert hessian_norms.max() <= beta * (1 + 1e-12)
    assert hessian_norms.max() >= 0.9 * beta

    rng = np.random.default_rng(11)
    v = w + rng.normal(size=w.shape) * 10.0 ** rng.uniform(-3, 2, size=(len(w), 1, 1)) / R
    moved = norm(gradients(loss, w, x, y) - gradients(loss, v, x, y))
    scale = 1e-12 * (R * np.abs(scores(loss, w, x)).reshape(len(x), -1).max(axis=1) + R * np.abs(y) + R)
    assert np.all(moved <= beta * norm(w - v) + scale)


@every_loss
def test_is_convex(loss: Any) -> None:
    rng = np.random.default_rng(12)
    shape = (SAMPLES, loss.outputs) if loss.outputs > 1 else (SAMPLES,)
    a, b = (rng.normal(size=shape) * 10.0 ** rng.uniform(-2, 4, size=shape) for _ in range(2))
    y = targets(loss, rng, SAMPLES)
    rise = (loss.slope(a, y) - loss.slope(b, y)) * (a - b)
    rise = rise.reshape(SAMPLES, -1).sum(axis=1)
    assert rise.min() >= -1e-9
    middle = loss.value((a + b) / 2, y)
    chord = (loss.value(a, y) + loss.value(b, y)) / 2
    assert np.all(middle <= chord + 1e-12 * (1 + chord))


@every_loss
def test_is_never_negative_and_bounded_at_zero(loss: Any) -> None:
    rng = np.random.default_rng(13)
    y = targets(loss, rng, SAMPLES)
    shape = (SAMPLES, loss.outputs) if loss.outputs > 1 else (SAMPLES,)
    assert loss.value(rng.normal(scale=5, size=shape), y).min() >= 0
    largest = loss.value(np.zeros(shape), y).max()
    assert largest <= loss.at_zero * (1 + 1e-15)
    # attained, or as large as the targets when no bound on them is public
    assert largest == pytest.approx(loss.at_zero, rel=1e-12, abs=0) if math.isfinite(loss.at_zero) else largest > 1e4


@every_loss
@pytest.mark.parametrize("size", [1e3, 1e8, 1e15])
def test_extreme_scores_stay_finite(loss: Any, size: float) -> None:
    rng = np.random.default_rng(14)
    shape = (64, loss.outputs) if loss.outputs > 1 else (64,)
    a, y = rng.choice([-size, 0.0, size], size=shape), targets(loss, rng, 64)
    for answer in (loss.value(a, y), loss.slope(a, y), loss.curvature(a, y)):
        assert np.isfinite(answer).all()
    assert loss.value(a, y).min() >= 0
    if hasattr(loss, "prox"):
        assert np.isfinite(loss.prox(a, y, 0.5)).all()


@every_loss
def test_works_on_stacks_and_leaves_its_arguments_alone(loss: Any) -> None:
    rng = np.random.default_rng(15)
    shape = (4, 7, loss.outputs) if loss.outputs > 1 else (4, 7)
    a, y = rng.normal(size=shape), targets(loss, rng, 28).reshape(4, 7)
    kept = a.copy(), y.copy()
    for what in (loss.value, loss.slope, loss.curvature):
        stacked = what(a, y)
        assert stacked.dtype == np.float64
        for i in range(4):
            np.testing.assert_array_equal(stacked[i], what(a[i], y[i]))
    assert loss.value(a, y).shape == (4, 7)
    assert loss.slope(a, y).shape == shape
    np.testing.assert_array_equal(a, kept[0])
    np.testing.assert_array_equal(y, kept[1])


@every_loss
def test_hessian_rank(loss: Any) -> None:
    w, x, y = sample(loss, 1.0, seed=16, size=40)
    w = w / np.maximum(1.0, norm(w))[:, None, None]
    curvature = loss.curvature(scores(loss, w, x), y).reshape(40, loss.outputs, loss.outputs)
    ranks = [np.linalg.matrix_rank(np.kron(curvature[i], np.outer(x[i], x[i])), tol=1e-9) for i in range(40)]
    assert max(ranks) <= loss.hessian_rank
    # the rank is what the guarantee pays for: stated no larger than needed
    assert max(ranks) == loss.hessian_rank or math.isinf(loss.smoothness(1.0))


def test_a_loss_has_a_prox_exactly_when_it_has_a_kink() -> None:
    for loss in KINKS:
        assert hasattr(loss, "prox") == math.isinf(loss.smoothness(1.0)), loss


@pytest.mark.parametrize("loss", KINKED)
@pytest.mark.parametrize("step", [0.02, 0.7, 5.0])
def test_prox_is_the_minimiser(loss: Any, step: float) -> None:
    rng = np.random.default_rng(17)
    a, y = rng.normal(scale=3, size=2000), np.clip(targets(loss, rng, 2000), -5, 5)

    def objective(p: Any) -> Any:
        return loss.value(p, y) + (p - a) ** 2 / (2 * step)

    # strongly convex, and the minimiser is within slope_bound * step of a: shrink that bracket by thirds
    low, high = a - 1.1 * step, a + 1.1 * step
    for _ in range(90):
        third = (high - low) / 3
        left = objective(low + third) <= objective(high - third)
        low, high = np.where(left, low, low + third), np.where(left, high - third, high)
    # comparing values finds a minimum only to the root of their rounding error
    np.testing.assert_allclose(loss.prox(a, y, step), (low + high) / 2, rtol=0, atol=3e-7 * max(1, step))
    assert np.all(objective(loss.prox(a, y, step)) <= objective((low + high) / 2) + 1e-14)

    # and to full precision: (a - p) / step is a subgradient at p
    p, h = loss.prox(a, y, step), 1e-9
    assert np.all(loss.slope(p - h, y) <= (a - p) / step + 1e-9)
    assert np.all((a - p) / step <= loss.slope(p + h, y) + 1e-9)
