r"""Which correlation leaves the least noise in the iterates of a run.

Iterate t sums the noise of the steps before it, with h = 1/c summed up: its variance is sigma^2 q_t, q_t = sum_{j<=t}
h_j^2. What is least is the mean over the run, at the sigma that the same guarantee needs:

    error = S sqrt(mean of q_t) = S sqrt( sum_t v_t h_t^2 ),      v_t = (T - t)/T.

Momentum, weight decay and falling steps sum otherwise, and gain as much by the same c.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from sordino.arrays import Array
from sordino.privacy.correlation import SLOWEST_DECAY, BandedToeplitz, BufferedToeplitz, Correlation

_LONGEST = 2048
"""Coefficients are fitted to so many steps at most; they are nearly as good for longer runs."""

_STEPS = 200

WORTH_IT = 0.99
"""Noise that remembers is taken where it leaves so much of the error at most."""


def prefix_error(correlation: Correlation, steps: int) -> float:
    """sqrt(mean of q_t): how large the mean iterate's noise is, in units of sigma and of the step size."""
    match correlation:
        case BufferedToeplitz(scale, decay):
            return math.sqrt(_buffered_error(scale, decay, steps))
        case BandedToeplitz(coefficients=()):
            return math.sqrt((steps + 1) / 2)
    return math.sqrt(_weights(steps) @ np.cumsum(correlation.inverse(steps)) ** 2)


@lru_cache(maxsize=64)
def best_in_order(steps: int, apart: int) -> Correlation:
    """Of one vector of memory, for records that come back after `apart` steps; independent where nothing is gained."""

    def error(x: Array) -> float:
        decay = float(expit(x[0]))
        scale = decay * float(expit(x[1]))
        if not 0 < scale < decay <= SLOWEST_DECAY:
            return math.inf
        tried = BufferedToeplitz(scale, decay)
        return math.log(tried.sensitivity(steps, apart)) + 0.5 * math.log(_buffered_error(scale, decay, steps))

    independent = BandedToeplitz()
    if steps < 3:
        return independent
    starts = ((3.8, -0.9), (5.0, -2.0), (1.0, -1.0))
    settings = {"xatol": 1e-10, "fatol": 1e-15, "maxiter": 2000, "maxfev": 2000}
    found = min((minimize(error, x, method="Nelder-Mead", options=settings) for x in starts), key=lambda o: o.fun)
    decay = float(expit(found.x[0]))
    best = BufferedToeplitz(decay * float(expit(found.x[1])), decay)
    return best if _error(best, steps, apart) < WORTH_IT * _error(independent, steps, apart) else independent


def _error(correlation: Correlation, steps: int, apart: int) -> float:
    return correlation.sensitivity(steps, apart) * prefix_error(correlation, steps)


@lru_cache(maxsize=64)
def best_banded(steps: int, bands: int) -> BandedToeplitz:
    """The best of so many bands, where no record comes back within them: S is |c| times a constant then."""
    if not 1 <= bands <= steps:
        raise ValueError(f"bands is {bands} for {steps} steps: there must be at least one, and not more than steps.")
    if bands == 1:
        return BandedToeplitz()
    T = min(steps, max(_LONGEST, 2 * bands))
    root = np.cumprod(np.concatenate([[1.0], 1 - 0.5 / np.arange(1, bands)]))
    flat = np.concatenate([[1.0], 0.8 * root[1:] ** 0.3])
    found = min(
        (
            minimize(
                _loss, logit(start[1:] / start[:-1]), (T,), "L-BFGS-B", True, options={"maxiter": _STEPS, "maxcor": 20}
            )
            for start in (root, flat)
        ),
        key=lambda o: o.fun,
    )
    c = _polished(np.cumprod(expit(found.x)), T)
    return BandedToeplitz(tuple(c.tolist()))


def _loss(u: Array, T: int) -> tuple[float, Array]:
    """log(E |c|^2) and its gradient, c_j the product of the first j of sigmoid(u), which keeps it decreasing."""
    ratios = expit(u)
    c = np.cumprod(ratios)
    value, gradient, _ = _derivatives(c, T, curved=False)
    # d c_j / d u_i = (1 - r_i) c_j for j >= i
    return value, (1 - ratios) * np.cumsum((c * gradient)[::-1])[::-1]


def _polished(c: Array, T: int) -> Array:
    """The minimum to the last digits, so that whoever plans again finds the same numbers: Newton's method."""
    value, gradient, curvature = _derivatives(c, T, curved=True)
    for _ in range(50):
        lowest, vectors = np.linalg.eigh(curvature)
        step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(lowest), 1e-9 * np.abs(lowest).max()))
        length = 1.0
        while length > 1e-6:
            tried = c - length * step
            if tried[0] < 1 and tried[-1] > 0 and (np.diff(tried) <= 0).all():
                found = _derivatives(tried, T, curved=True)
                if found[0] <= value + 1e-14:
                    break
            length /= 2
        else:
            return c
        moved = np.abs(tried / c - 1).max()
        c, (value, gradient, curvature) = tried, found
        if moved < 1e-11:
            return c
    return c


def _derivatives(c: Array, T: int, curved: bool) -> tuple[float, Array, Array]:
    r"""log(E |c|^2) with E = sum_t v_t h_t^2, and its gradient and Hessian in c_1, .., c_{p-1}.

    With y = h/c and z = y/c:  d h_t / d c_j = -y_{t-j}  and  d^2 h_t / d c_j d c_k = 2 z_{t-j-k}.
    """
    # imported here: it takes a second to load, and most plans have no correlation
    from scipy.signal import lfilter

    p, full = len(c), np.concatenate([[1.0], c])
    v = _weights(T)
    h = lfilter([1.0], full, np.ones(T))
    y = lfilter([1.0], full, h)
    E, vh, square = float(v @ h**2), v * h, float(full @ full)
    slope = np.array([-2 * vh[j:] @ y[: T - j] for j in range(1, p + 1)])
    value, gradient = math.log(E) + math.log(square), slope / E + 2 * c / square
    if not curved:
        return value, gradient, np.empty((0, 0))
    z = lfilter([1.0], full, y)
    later = np.array([vh[m:] @ z[: T - m] if m < T else 0.0 for m in range(2, 2 * p + 1)])
    shifted = np.zeros((p, T))
    for j in range(1, p + 1):
        shifted[j - 1, j:] = y[: T - j]
    curvature = 2 * (shifted * v) @ shifted.T + 4 * later[np.add.outer(np.arange(p), np.arange(p))]
    curvature = curvature / E - np.outer(slope, slope) / E**2
    curvature += 2 * np.eye(p) / square - 4 * np.outer(c, c) / square**2
    return value, gradient, curvature


def _weights(T: int) -> Array:
    v: Array = np.arange(T, 0, -1) / T
    return v


def _buffered_error(s: float, q: float, T: int) -> float:
    r"""E in closed form:  h_t = A + B x^t  with  x = q - s,  B = s/(1 - x),  A = 1 - B,  and

    sum_{t<T} (1 - t/T) x^t = 1/(1 - x) - x (1 - x^T) / (T (1 - x)^2).
    """
    x = q - s
    B = s / (1 - x)
    A = 1 - B

    def falling(x: float) -> float:
        return 1 / (1 - x) - x * -math.expm1(T * math.log(x)) / (T * (1 - x) ** 2)

    return A**2 * (T + 1) / 2 + 2 * A * B * falling(x) + B**2 * falling(x * x)
