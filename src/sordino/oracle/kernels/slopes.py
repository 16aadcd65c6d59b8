r"""A record's slope and loss from its score, for every loss, and the clipping of what it adds to a gradient.

The gradient of one record is slope * row, of norm |slope| |row|. Clipping it to norm C is therefore clipping the
slope to [-C/|row|, C/|row|], which needs no pass over the features.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sordino.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    HuberisedHinge,
    Logistic,
    Loss,
    MoreauSmoothed,
    Pinball,
    Softmax,
    Squared,
)
from sordino.oracle.kernels.native import bits_of, compiled, exact, from_bits

Array = NDArray[np.float64]
Parameters = tuple[float, float]
"""A loss's own parameter, and the sharpness of its Moreau envelope: infinite for the loss as it is."""

LOGISTIC, SQUARED, HUBER, HUBERISED_HINGE, HINGE, ABSOLUTE, PINBALL, EPSILON_INSENSITIVE, SOFTMAX, QUADRATIC = range(10)

_CODES: dict[type, tuple[int, str | None]] = {
    Logistic: (LOGISTIC, None),
    Squared: (SQUARED, None),
    Huber: (HUBER, "threshold"),
    HuberisedHinge: (HUBERISED_HINGE, "width"),
    Hinge: (HINGE, None),
    Absolute: (ABSOLUTE, None),
    Pinball: (PINBALL, "quantile"),
    EpsilonInsensitive: (EPSILON_INSENSITIVE, "tolerance"),
    Softmax: (SOFTMAX, None),
}


Kernel = tuple[int, Parameters]
"""How the kernels know a loss."""

WEIGHTED_SQUARE: Kernel = (QUADRATIC, (0.0, math.inf))
"""phi(a, y) = y a^2 / 2: a quadratic form, whose weights stand where a loss has its targets."""


def kernel_of(loss: Loss) -> Kernel:
    """The number under which the kernels know this loss, and its parameters."""
    plain, sharpness = (loss.base, loss.sharpness) if isinstance(loss, MoreauSmoothed) else (loss, math.inf)
    try:
        code, parameter = _CODES[type(plain)]
    except KeyError:
        known = ", ".join(sorted(kind.__name__ for kind in _CODES))
        raise TypeError(
            f"{type(plain).__name__} has no compiled slope: the kernels know {known}; "
            "a new loss needs a code, a slope and a value in sordino.oracle.kernels.slopes."
        ) from None
    return code, (float(getattr(plain, parameter)) if parameter else 0.0, float(sharpness))


# exp(x) = 2^k exp(r), k = round(x / log 2), |r| <= log(2)/2: the series up to r^12/12! is exact to 2e-16
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (1 / math.factorial(k) for k in range(13))
# log 2 in two parts: k times the first, of 32 leading bits, is exact
_LOG2_HIGH = math.ldexp(math.floor(math.ldexp(math.log(2), 32)), -32)
_LOG2_LOW = 1.9082149292705877e-10  # log 2 - _LOG2_HIGH
_PER_LOG2 = 1 / math.log(2)
# adding it leaves a double's nearest integer in its lowest bits
_ROUND = 1.5 * 2.0**52


@exact
def exp(x: float) -> float:
    """e^x for x <= 0, without a branch or a call, so that a loop over it becomes vector instructions."""
    # from here on down k = -1023, and the bits below are those of 0
    x = -709.2 if x < -709.2 else x
    shifted = x * _PER_LOG2 + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    # in pairs and pairs of pairs: fewer steps wait for each other than from one power to the next
    r2 = r * r
    r4 = r2 * r2
    low = (_C0 + _C1 * r) + r2 * (_C2 + _C3 * r)
    middle = (_C4 + _C5 * r) + r2 * (_C6 + _C7 * r)
    high = (_C8 + _C9 * r) + r2 * (_C10 + _C11 * r)
    series = (low + r4 * middle) + r4 * r4 * (high + r4 * _C12)
    power: float = from_bits((bits_of(shifted) << 52) + (1023 << 52))
    return series * power


@compiled
def logistic_slope(a: float, y: float) -> float:
    # -y sigmoid(-y a)
    m = y * a
    e = exp(-abs(m))
    return -y * ((e if m >= 0.0 else 1.0) / (1.0 + e))


@compiled
def slope(code: int, parameters: Parameters, a: float, y: float) -> float:
    """phi'(a, y) of a loss with one score, for a target within the loss's bound."""
    p = parameters[0]
    sharpness = parameters[1]
    r = a - y
    if code == LOGISTIC:
        return logistic_slope(a, y)
    if code == QUADRATIC:
        return y * a
    if code == SQUARED:
        return r
    if code == HUBER:
        return min(max(r, -p), p)
    if code == HUBERISED_HINGE:
        return -y * min(max((1.0 + p - y * a) / (2.0 * p), 0.0), 1.0)
    if sharpness < math.inf:
        return sharpness * _pull(code, p, 1.0 / sharpness, a, y)
    if code == HINGE:
        return -y if y * a < 1.0 else 0.0
    if code == PINBALL:
        return 1.0 - p if r > 0.0 else (-p if r < 0.0 else 0.0)
    sign = 1.0 if r > 0.0 else (-1.0 if r < 0.0 else 0.0)
    if code == ABSOLUTE:
        return sign
    return sign if abs(r) > p else 0.0


@compiled
def _pull(code: int, p: float, step: float, a: float, y: float) -> float:
    """a - prox(a): how far the proximal step of a loss with a kink moves the score."""
    r = a - y
    if code == HINGE:
        return -y * min(max(1.0 - y * a, 0.0), step)
    if code == ABSOLUTE:
        return min(max(r, -step), step)
    if code == PINBALL:
        return min(max(r, -step * p), step * (1.0 - p))
    return min(max(r - min(max(r, -p), p), -step), step)


@compiled
def value(code: int, parameters: Parameters, a: float, y: float) -> float:
    """phi(a, y) of a loss with one score, for a target within the loss's bound."""
    p = parameters[0]
    sharpness = parameters[1]
    envelope = 0.0
    if sharpness < math.inf:
        # phi_s(a) = phi(prox(a)) + (s/2)(a - prox(a))^2
        pull = _pull(code, p, 1.0 / sharpness, a, y)
        a -= pull
        envelope = 0.5 * sharpness * pull * pull
    m = y * a
    r = a - y
    if code == LOGISTIC:
        return max(-m, 0.0) + math.log1p(exp(-abs(m)))
    if code == QUADRATIC:
        return 0.5 * m * a
    if code == SQUARED:
        return 0.5 * r * r
    if code == HUBER:
        return 0.5 * r * r if abs(r) <= p else p * abs(r) - 0.5 * p * p
    if code == HUBERISED_HINGE:
        return 0.0 if m > 1.0 + p else (1.0 - m if m < 1.0 - p else (1.0 + p - m) ** 2 / (4.0 * p))
    if code == HINGE:
        return max(0.0, 1.0 - m) + envelope
    if code == ABSOLUTE:
        return abs(r) + envelope
    if code == PINBALL:
        return max(-p * r, (1.0 - p) * r) + envelope
    return max(0.0, abs(r) - p) + envelope


@compiled
def score(dot: float, scale: float, offset: float) -> float:
    # not scale * dot alone: the dot product of a row without usable features may be NaN
    return (scale * dot if scale != 0.0 else 0.0) + offset


@compiled
def bounded(s: float, bound: float) -> float:
    s = s if abs(s) < math.inf else 0.0
    s = s if s < bound else bound
    return s if s > -bound else -bound


@compiled
def coefficients(
    code: int,
    parameters: Parameters,
    dots: Array,
    y: Array,
    scales: Array,
    inverses: Array,
    offset: float,
    clip: float,
) -> float:
    r"""In place of <x_i, w>: what raw row i is multiplied by in the clipped sum. Returns the sum of clipped slopes.

    a_i = scale_i <x_i, w> + offset,    s_i = clip(phi'(a_i, y_i), C / |row_i|),    dots_i <- scale_i s_i

    scale_i = 0 marks a row without usable features, 1/|row_i| = 0 a record that counts for nothing.
    """
    total = 0.0
    if code == LOGISTIC:
        # a loop of its own, without branches, which the compiler turns into vector instructions
        for i in range(dots.size):
            s = logistic_slope(score(dots[i], scales[i], offset), y[i])
            s = bounded(s, clip * inverses[i])
            total += s
            dots[i] = s * scales[i]
    else:
        for i in range(dots.size):
            a = score(dots[i], scales[i], offset)
            s = slope(code, parameters, a, y[i]) if a == a else 0.0
            s = bounded(s, clip * inverses[i])
            total += s
            dots[i] = s * scales[i]
    return total
