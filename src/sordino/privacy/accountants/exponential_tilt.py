r"""Where to look for the answer: the exponential tilt, the window and the grid of a composition.

Let S be the sum of all losses and K(t) = log E e^(tS), so K = sum_i count_i log E e^(t L_i).  The tilted law

    P_t(S = s) = e^(t s - K(t)) P(S = s),        mean K'(t), variance K''(t),

is a composition of tilted parts.  For a given epsilon, t centres S on it: K'(t) = epsilon.  For a given delta, t is
where the best bound of its kind, delta <= e^(K(t) - t epsilon) t^t / (1 + t)^(1 + t) (Canonne, Kamath & Steinke
2020), is smallest in epsilon: t K'(t) - K(t) + log(1 + t) = log(1 / delta).  The window holds almost all of P_t:

    P_t(S > top)    <= exp(K(u) - K(t) - (u - t) top),     u > t,
    P_t(S < bottom) <= exp(K(r) - K(t) + (t - r) bottom),  r < t.

Nothing here needs to be exact: whatever tilt is chosen, `fourier` computes bounds that hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sordino.arrays import Array, Index
from sordino.privacy.accountants.discretise import Grid, connect
from sordino.privacy.accountants.pairs import Dominating, Pure

Level = tuple[Dominating | Pure, int]
"""A pair and how often it happens."""

_OUTSIDE = 20.0
"""The tilted law leaves about e^-20 outside the window on either side."""

_ABOVE, _BELOW = 12.0, 30.0
"""Parts are cut off above at e^-12 delta and below at e^-30, all together.  Heavy tails cut off higher would pull
the tilt away from where delta is decided; this much costs less than 1e-6 of epsilon."""

_MANY = 10_000
"""Releases from which on the grain is taken as it is."""

_MANY_LEVELS = 400
"""Different releases from which on the grain is taken as it is too."""

_GROWTH = 0.1
"""Growth of the cells with the loss, as a fraction of the step over the standard deviation of a single loss."""

_FARTHEST = -250.0
"""log delta beyond which more digits are not worth having."""

_MOST_POINTS, _MOST_WORK, _FEWEST = 2**22, 2**23, 2**17
"""Largest transform, sum of their lengths, and what each may have anyway; beyond, the grid coarsens."""


@dataclass(frozen=True)
class Tilt:
    t: float
    u: float
    r: float
    centre: float
    bottom: float
    top: float
    grid: Grid


@dataclass(frozen=True)
class Sketch:
    """K and its derivatives from some hundred points a level."""

    losses: Array
    log_mass: Array
    starts: Index
    counts: Array

    def __call__(self, t: float) -> tuple[float, float, float]:
        """K, K', K'' at t."""
        exponent = self.log_mass + t * self.losses
        highest = np.maximum.reduceat(exponent, self.starts)
        sizes = np.diff(np.append(self.starts, len(exponent)))
        weight = np.exp(exponent - np.repeat(highest, sizes))
        total = np.add.reduceat(weight, self.starts)
        mean = np.add.reduceat(weight * self.losses, self.starts) / total
        square = np.add.reduceat(weight * self.losses**2, self.starts) / total
        K = self.counts @ (highest + np.log(total))
        return float(K), float(self.counts @ mean), float(self.counts @ np.maximum(0.0, square - mean**2))


def tilt_for_delta(levels: Sequence[Level], delta: float, grain: float) -> Tilt:
    """The tilt that centres S on the Chernoff bound of epsilon at `delta`."""
    log_delta = max(_FARTHEST, math.log(delta))
    sketch = _sketch(levels, log_delta)

    def deviation(t: float) -> tuple[float, float]:
        K, mean, variance = sketch(t)
        return t * mean - K + math.log1p(t) + log_delta, t * variance + 1 / (1 + t)

    t = _root(deviation, math.sqrt(-2 * log_delta / _floored(sketch(0.0)[2], levels)), _steepest(levels))
    return _tilt(levels, sketch, t, log_delta, grain)


def tilt_for_epsilon(levels: Sequence[Level], epsilon: float, grain: float) -> Tilt:
    """The tilt that centres S on `epsilon`: none where S is centred above it anyway, less where S hardly reaches it."""
    sketch = _sketch(levels, _FARTHEST)

    def deviation(t: float) -> tuple[float, float]:
        K, mean, variance = sketch(t)
        far = _FARTHEST - (K - t * epsilon)
        return (mean - epsilon, variance) if mean - epsilon >= far else (far, epsilon - mean)

    _, mean, variance = sketch(0.0)
    t = 0.0
    if mean < epsilon:
        t = _root(deviation, (epsilon - mean) / _floored(variance, levels), _steepest(levels))
    log_delta = max(_FARTHEST, min(0.0, sketch(t)[0] - t * epsilon))
    return _tilt(levels, sketch, t, log_delta, grain)


def no_tilt(levels: Sequence[Level], grain: float) -> Tilt:
    """For an epsilon that a bounded loss just reaches, on which no tilt can centre it."""
    return _tilt(levels, _sketch(levels, _FARTHEST), 0.0, -2 * _OUTSIDE, grain)


def _tilt(levels: Sequence[Level], sketch: Sketch, t: float, log_delta: float, grain: float) -> Tilt:
    K, centre, variance = sketch(t)
    releases = sum(count for _, count in levels)
    # Rare large losses may dominate the tilted variance; the grid must also resolve the common small ones.
    resolved = _floored(min(variance, sketch(0.0)[2], sketch(t / 2)[2]), levels)
    deviation = math.sqrt(max(variance, resolved))
    bottom, top, r, u = -math.inf, math.inf, t, t
    for factor in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0):
        s = factor / deviation
        reached = (sketch(t + s)[0] - K + _OUTSIDE) / s
        if reached < top:
            top, u = reached, t + s
        reached = (K - sketch(t - s)[0] - _OUTSIDE) / s
        if reached > bottom:
            bottom, r = reached, t - s
    most = max(_FEWEST, min(_MOST_POINTS, _MOST_WORK // len(levels)))
    single = math.sqrt(resolved / releases)
    # Few releases make short transforms, and leave the shape of a single loss visible: refine. A level is a transform.
    grain *= min(1.0, max(0.25, (releases / _MANY) ** 0.25, (len(levels) / _MANY_LEVELS) ** 0.5))
    step = max(grain * single, (top - bottom) / most)
    growth = _GROWTH * min(step / single, 2 * grain)
    margin = math.log(releases)
    grid = Grid(_aligned(levels, step), growth, log_delta - _ABOVE - margin, -_BELOW - margin)
    return Tilt(t, u, r, centre, bottom, top, grid)


def _aligned(levels: Sequence[Level], step: float) -> float:
    """A step of about the same size on which the pure losses that matter most fall without rounding."""
    pure = {pair.epsilon: pair.epsilon**2 * count for pair, count in levels if isinstance(pair, Pure)}
    if len(levels) == len(pure) == 1:
        return next(iter(pure))
    epsilon = max(pure, key=lambda e: pure[e], default=0.0)
    return epsilon / math.ceil(epsilon / step) if epsilon > step else step


def _sketch(levels: Sequence[Level], log_delta: float) -> Sketch:
    margin = math.log(sum(count for _, count in levels))
    losses: list[Array] = []
    masses: list[Array] = []
    for pair, _ in levels:
        if isinstance(pair, Pure):
            edges, mass = np.array([-pair.epsilon, pair.epsilon]), np.array([pair.unlikely, pair.likely])
        else:
            low, high = pair.span(log_delta - _ABOVE - margin, -_BELOW - margin)
            growth, width = 0.02, 0.05 * max(pair.scale, 1e-12 * (high - low))
            first, last = (math.asinh(growth * loss / width) / growth for loss in (low, high))
            inside = np.sinh(growth * np.arange(math.ceil(first), math.floor(last) + 1)) * (width / growth)
            edges = np.unique(np.clip(np.concatenate(([low, high, pair.anchor], inside)), low, high))
            mass, _ = connect(pair, edges)
        losses.append(edges)
        masses.append(mass)
    starts = np.cumsum([0] + [len(edges) for edges in losses[:-1]])
    with np.errstate(divide="ignore"):
        log_mass = np.log(np.concatenate(masses))
    return Sketch(np.concatenate(losses), log_mass, starts, np.array([float(count) for _, count in levels]))


def _spread(levels: Sequence[Level]) -> float:
    return math.sqrt(math.fsum(count * pair.scale**2 for pair, count in levels))


def _floored(variance: float, levels: Sequence[Level]) -> float:
    """The variance, or a millionth of its usual size where a bounded loss sits on its largest value."""
    return max(variance, 1e-6 * _spread(levels) ** 2)


def _steepest(levels: Sequence[Level]) -> float:
    """A tilt beyond which a bounded loss would only sit on its largest value."""
    return 1e4 / _spread(levels)


def _root(function: Callable[[float], tuple[float, float]], start: float, largest: float) -> float:
    """About where an increasing function (value, derivative) crosses zero, between 0 and `largest`."""
    low, high, t = 0.0, largest, min(start, largest)
    for _ in range(60):
        value, slope = function(t)
        low, high = (t, high) if value < 0 else (low, t)
        step = -value / slope if slope > 0 else math.inf
        if abs(step) < 1e-3 * t or high - low < 1e-3 * high:
            break
        guess = min(max(t + step, t / 4), 4 * t)
        t = guess if low < guess < high else math.sqrt(max(low, high * 1e-4) * high)
    return t
