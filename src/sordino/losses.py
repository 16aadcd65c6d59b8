r"""Losses of a linear model: l(w; x, y) = phi(<w, x>, y), and the softmax loss with one score per class.

Every class states its formula and the constants that decide the noise, for rows with |x| <= R:

    lipschitz(R, D)    bound on |grad l| over all records (and over |w| <= D where that is needed)
    smoothness(R)      bound on |Hessian l|, infinite for a loss with a kink
    trace(R)           bound on the Hessian's trace: what isotropic noise in w costs, twice over
    at_zero            bound on l(0; x, y), the value at w = 0

The bounds hold for every possible record, so they may be printed. None of them is ever measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Step = float | Array


class Loss(Protocol):
    """A record's loss as a function of its score (or scores, last axis)."""

    @property
    def outputs(self) -> int: ...
    @property
    def convex(self) -> bool: ...
    @property
    def hessian_rank(self) -> int: ...
    @property
    def at_zero(self) -> float: ...
    def lipschitz(self, row_norm: float, radius: float) -> float: ...
    def smoothness(self, row_norm: float) -> float: ...
    def trace(self, row_norm: float) -> float: ...
    def value(self, score: Array, y: Array) -> Array: ...
    def slope(self, score: Array, y: Array) -> Array: ...
    def curvature(self, score: Array, y: Array) -> Array: ...


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}: it must be a positive finite number.")


def _positive_or_infinite(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} is {value}: it must be positive, or left infinite when no bound is public.")


@dataclass(frozen=True)
class _Scalar:
    """What the losses of one score share: convex, a rank-one Hessian, L = slope_bound R, beta = curvature_bound R^2."""

    outputs: ClassVar[int] = 1
    convex: ClassVar[bool] = True
    hessian_rank: ClassVar[int] = 1

    @property
    def slope_bound(self) -> float:
        return 1.0

    @property
    def curvature_bound(self) -> float:
        return math.inf

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return self.slope_bound * row_norm

    def smoothness(self, row_norm: float) -> float:
        return self.curvature_bound * row_norm**2

    def trace(self, row_norm: float) -> float:
        return self.smoothness(row_norm)


@dataclass(frozen=True)
class Logistic(_Scalar):
    r"""y in {-1, +1}.   phi = log(1 + exp(-y a)),   |phi'| <= 1,   phi'' <= 1/4."""

    @property
    def curvature_bound(self) -> float:
        return 0.25

    @property
    def at_zero(self) -> float:
        return math.log(2)

    def value(self, score: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * score)

    def slope(self, score: Array, y: Array) -> Array:
        return -y * _sigmoid(-y * score)

    def curvature(self, score: Array, y: Array) -> Array:
        # sigma(a) sigma(-a) rather than p (1 - p), which is zero once p rounds to one
        return _sigmoid(score) * _sigmoid(-score)


@dataclass(frozen=True)
class Softmax:
    r"""y in {0, .., K-1}, one score per class.   l = log sum_j exp(a_j) - a_y.

    The gradient in the scores is p - e_y with |p - e_y| <= sqrt(2); the Hessian diag(p) - p p' has norm at most 1/2,
    rank at most K - 1 and trace at most 1 - 1/K.
    """

    classes: int
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"classes is {self.classes}: a softmax loss needs at least two.")

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def hessian_rank(self) -> int:
        return self.classes - 1

    @property
    def at_zero(self) -> float:
        return math.log(self.classes)

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return math.sqrt(2) * row_norm

    def smoothness(self, row_norm: float) -> float:
        return 0.5 * row_norm**2

    def trace(self, row_norm: float) -> float:
        # tr(diag(p) - p p') = 1 - |p|^2
        return (1 - 1 / self.classes) * row_norm**2

    def value(self, score: Array, y: Array) -> Array:
        top = score.max(axis=-1)
        chosen = np.take_along_axis(score, y.astype(int)[..., None], axis=-1)[..., 0]
        # the two scores first: their difference is small where each may be large
        value: Array = (top - chosen) + np.log(np.exp(score - top[..., None]).sum(axis=-1))
        return value

    def slope(self, score: Array, y: Array) -> Array:
        p = _softmax(score)
        chosen = y.astype(int)[..., None]
        np.put_along_axis(p, chosen, np.take_along_axis(p, chosen, axis=-1) - 1, axis=-1)
        return p

    def curvature(self, score: Array, y: Array) -> Array:
        """diag(p) - p p', one matrix per record."""
        p = _softmax(score)
        return p[..., None] * np.eye(self.classes) - p[..., None] * p[..., None, :]


@dataclass(frozen=True)
class Squared(_Scalar):
    r"""|y| <= Y = target_bound.   phi = (a - y)^2 / 2,   |phi'| <= R D + Y on |w| <= D,   phi'' = 1.

    Lipschitz only on a ball: a problem with this loss needs `Ball(D)` as its domain. Targets are clipped to the bound.
    """

    target_bound: float

    def __post_init__(self) -> None:
        _positive("target_bound", self.target_bound)

    @property
    def slope_bound(self) -> float:
        return math.inf

    @property
    def curvature_bound(self) -> float:
        return 1.0

    @property
    def at_zero(self) -> float:
        return self.target_bound**2 / 2

    def lipschitz(self, row_norm: float, radius: float) -> float:
        return row_norm * (row_norm * radius + self.target_bound)

    def value(self, score: Array, y: Array) -> Array:
        return 0.5 * (score - _within(y, self.target_bound)) ** 2

    def slope(self, score: Array, y: Array) -> Array:
        return score - _within(y, self.target_bound)

    def curvature(self, score: Array, y: Array) -> Array:
        return np.ones_like(score)


@dataclass(frozen=True)
class Huber(_Scalar):
    r"""r = a - y.   phi = r^2/2 where |r| <= k = threshold, else k|r| - k^2/2;   |phi'| <= k,   phi'' <= 1.

    The slope is bounded whatever y is. `target_bound` is only needed to bound the loss at zero; targets are clipped
    to it, so that the bound holds.
    """

    threshold: float = 1.0
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        _positive("threshold", self.threshold)
        _positive_or_infinite("target_bound", self.target_bound)

    @property
    def slope_bound(self) -> float:
        return self.threshold

    @property
    def curvature_bound(self) -> float:
        return 1.0

    @property
    def at_zero(self) -> float:
        k, Y = self.threshold, self.target_bound
        return Y**2 / 2 if k >= Y else k * Y - k**2 / 2

    def value(self, score: Array, y: Array) -> Array:
        r, k = np.abs(score - _within(y, self.target_bound)), self.threshold
        return np.where(r <= k, 0.5 * r**2, k * r - 0.5 * k**2)

    def slope(self, score: Array, y: Array) -> Array:
        return np.clip(score - _within(y, self.target_bound), -self.threshold, self.threshold)

    def curvature(self, score: Array, y: Array) -> Array:
        return (np.abs(score - _within(y, self.target_bound)) <= self.threshold).astype(float)


@dataclass(frozen=True)
class HuberisedHinge(_Scalar):
    r"""y in {-1, +1}, m = y a.   phi = 0 for m > 1 + h;  (1 + h - m)^2 / (4h) for |1 - m| <= h;  1 - m below.

    |phi'| <= 1,   phi'' <= 1/(2h).
    """

    width: float = 0.5

    def __post_init__(self) -> None:
        _positive("width", self.width)

    @property
    def curvature_bound(self) -> float:
        return 1 / (2 * self.width)

    @property
    def at_zero(self) -> float:
        return float(self.value(np.zeros(1), np.ones(1))[0])

    def value(self, score: Array, y: Array) -> Array:
        m, h = y * score, self.width
        return np.where(m > 1 + h, 0.0, np.where(m < 1 - h, 1 - m, (1 + h - m) ** 2 / (4 * h)))

    def slope(self, score: Array, y: Array) -> Array:
        return -y * np.clip((1 + self.width - y * score) / (2 * self.width), 0.0, 1.0)

    def curvature(self, score: Array, y: Array) -> Array:
        return np.where(np.abs(1 - y * score) <= self.width, self.curvature_bound, 0.0)


@dataclass(frozen=True)
class _Kinked(_Scalar):
    """A loss with a kink: no curvature where it is differentiable, none that bounds it, and a closed-form prox."""

    def curvature(self, score: Array, y: Array) -> Array:
        return np.zeros_like(score)


@dataclass(frozen=True)
class Hinge(_Kinked):
    r"""y in {-1, +1}.   phi = max(0, 1 - y a),   |phi'| <= 1."""

    @property
    def at_zero(self) -> float:
        return 1.0

    def value(self, score: Array, y: Array) -> Array:
        return np.maximum(0.0, 1 - y * score)

    def slope(self, score: Array, y: Array) -> Array:
        return np.where(y * score < 1, -y, 0.0)

    def prox(self, score: Array, y: Array, step: Step) -> Array:
        """argmin_p phi(p) + (p - a)^2 / (2 step): the margin moves up by at most `step`, and not past 1."""
        m = y * score
        return y * np.where(m >= 1, m, np.minimum(1.0, m + step))


@dataclass(frozen=True)
class Absolute(_Kinked):
    r"""phi = |a - y|,   |phi'| <= 1.   Targets are clipped to `target_bound`, which only bounds the loss at zero."""

    target_bound: float = math.inf

    def __post_init__(self) -> None:
        _positive_or_infinite("target_bound", self.target_bound)

    @property
    def at_zero(self) -> float:
        return self.target_bound

    def value(self, score: Array, y: Array) -> Array:
        return np.abs(score - _within(y, self.target_bound))

    def slope(self, score: Array, y: Array) -> Array:
        return np.sign(score - _within(y, self.target_bound))

    def prox(self, score: Array, y: Array, step: Step) -> Array:
        """The score moves towards y by at most `step`."""
        return score - np.clip(score - _within(y, self.target_bound), -step, step)


@dataclass(frozen=True)
class Pinball(_Kinked):
    r"""r = y - a.   phi = tau r for r >= 0, (tau - 1) r below,   |phi'| <= max(tau, 1 - tau)."""

    quantile: float = 0.5
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile is {self.quantile}: it must lie strictly between 0 and 1.")
        _positive_or_infinite("target_bound", self.target_bound)

    @property
    def slope_bound(self) -> float:
        return max(self.quantile, 1 - self.quantile)

    @property
    def at_zero(self) -> float:
        return self.slope_bound * self.target_bound

    def value(self, score: Array, y: Array) -> Array:
        r = _within(y, self.target_bound) - score
        return np.maximum(self.quantile * r, (self.quantile - 1) * r)

    def slope(self, score: Array, y: Array) -> Array:
        r = _within(y, self.target_bound) - score
        return np.where(r > 0, -self.quantile, np.where(r < 0, 1 - self.quantile, 0.0))

    def prox(self, score: Array, y: Array, step: Step) -> Array:
        """The score moves towards y by at most step * tau from below and step * (1 - tau) from above."""
        return score + np.clip(_within(y, self.target_bound) - score, step * (self.quantile - 1), step * self.quantile)


@dataclass(frozen=True)
class EpsilonInsensitive(_Kinked):
    r"""r = a - y.   phi = max(0, |r| - e),   e = tolerance,   |phi'| <= 1."""

    tolerance: float = 0.1
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError(f"tolerance is {self.tolerance}: it must be finite and not negative.")
        _positive_or_infinite("target_bound", self.target_bound)

    @property
    def at_zero(self) -> float:
        return max(0.0, self.target_bound - self.tolerance)

    def value(self, score: Array, y: Array) -> Array:
        return np.maximum(0.0, np.abs(score - _within(y, self.target_bound)) - self.tolerance)

    def slope(self, score: Array, y: Array) -> Array:
        r = score - _within(y, self.target_bound)
        return np.where(np.abs(r) > self.tolerance, np.sign(r), 0.0)

    def prox(self, score: Array, y: Array, step: Step) -> Array:
        """A residual outside the tube moves towards it by at most `step`."""
        r = score - _within(y, self.target_bound)
        return score - np.clip(r - np.clip(r, -self.tolerance, self.tolerance), -step, step)


def _within(y: Array, bound: float) -> Array:
    return y if math.isinf(bound) else np.clip(y, -bound, bound)


def _sigmoid(a: Array) -> Array:
    # exp of a non-positive number only, so that nothing overflows
    e = np.exp(-np.abs(a))
    p: Array = np.where(a >= 0, 1.0, e) / (1 + e)
    return p


def _softmax(score: Array) -> Array:
    e = np.exp(score - score.max(axis=-1, keepdims=True))
    p: Array = e / e.sum(axis=-1, keepdims=True)
    return p


LOSSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (Logistic, Softmax, Squared, Huber, HuberisedHinge, Hinge, Absolute, Pinball, EpsilonInsensitive)
}
