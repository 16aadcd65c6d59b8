r"""The privacy profile of Gaussian noise and its inverses, exactly (Balle & Wang 2018; Dong, Roth & Su 2022).

Telling N(0, 1) from N(mu, 1) is the worst that a Gaussian release of sensitivity Delta and standard deviation
Delta / mu can do:

    delta(epsilon) = H(epsilon, mu) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

The two terms of H nearly cancel when mu is small, so H is computed from the Mills ratio M(t) = Phi(-t) / phi(t)

    H = phi(u) (M(u) - M(v)),   u = epsilon/mu - mu/2,  v = u + mu,

and for small mu from M(t) = int_0^oo e^(-s^2/2 - ts) ds, which leaves nothing to cancel:

    M(u) - M(v) = int_0^oo e^(-s^2/2 - us) (1 - e^(-mu s)) ds.

Every result is rounded to its safe side: delta and epsilon up, mu down. SciPy is not needed, so that a ledger can be
read without it: it takes longer to load than all the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES, _WEIGHTS = (1 + _NODES) / 2, _WEIGHTS / 2
_NEGLIGIBLE = 45.0
"""e to the minus this is less than the rounding of what it is left out of."""
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
_HALVES = 2.0**27 + 1
"""Times this, a number falls into two halves whose products are exact (Dekker 1971)."""
_FAR = 36.0
"""From here on erfc is soon too small for a number."""
_OUT_OF_RANGE = 1e150
"""The square of more is no number."""
_TINY = 1e-290
"""Products with less have fewer digits."""


def gdp_delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP; any real epsilon."""
    if not 0 <= mu < math.inf:
        raise ValueError(f"mu is {mu}: it must be finite and not negative.")
    if epsilon < 0:
        # H(-e) = 1 - e^-e + e^-e H(e): what one side gains beyond a fair exchange the other side loses.
        return min(1.0, -math.expm1(epsilon) + math.exp(epsilon) * gdp_delta(-epsilon, mu))
    return min(1.0, math.exp(min(0.0, _log_profile(epsilon, mu))))


def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP."""
    if not 0 <= mu < math.inf:
        raise ValueError(f"mu is {mu}: it must be finite and not negative.")
    check_delta(delta)
    if mu == 0 or gdp_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0 or mu > _OUT_OF_RANGE:
        return math.inf
    target = math.log(delta)
    # Chernoff: H <= exp(-u^2 / 2) for u >= 0, so this end is on the private side.
    low, high = 0.0, mu * (mu / 2 + math.sqrt(-2 * target))
    epsilon = high
    for _ in range(200):
        log_delta = _log_profile(epsilon, mu)
        low, high = (epsilon, high) if log_delta > target else (low, epsilon)
        # Newton on log delta;  d delta / d epsilon = -e^epsilon Phi(-v) = -phi(u) M(v).
        u = epsilon / mu - mu / 2
        slope = math.exp(min(700.0, -u * u / 2 - _LOG_SQRT_TWO_PI - log_delta)) * _mills(u + mu)
        step = (log_delta - target) / slope if slope > 0 else math.inf
        if min(abs(step), high - low) <= 1e-15 * high:
            break
        epsilon += step
        if not low < epsilon < high:
            epsilon = (low + high) / 2
    return _nudged(epsilon, lambda e: gdp_delta(e, mu) <= delta, 1e-15)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP; 1 / gdp_mu is the analytic Gaussian multiplier."""
    check_delta(delta)
    if epsilon < 0 or not math.isfinite(epsilon):
        raise ValueError(f"epsilon is {epsilon}: it must be finite and not negative.")
    if delta == 0:
        return 0.0
    # more epsilon allows no less
    epsilon = min(epsilon, _OUT_OF_RANGE)
    target = math.log(delta)
    # H <= exp(-u^2 / 2) for u >= 0 and H <= mu / sqrt(2 pi), while u = -40 leaves no privacy at all.
    low, high = max(_mu_at(epsilon, math.sqrt(-2 * target)), delta * math.sqrt(2 * math.pi)), _mu_at(epsilon, -40.0)
    mu = low
    for _ in range(200):
        log_delta = _log_profile(epsilon, mu)
        low, high = (mu, high) if log_delta <= target else (low, mu)
        # Newton on log delta;  d delta / d mu = phi(u).
        u = epsilon / mu - mu / 2
        slope = math.exp(min(700.0, -u * u / 2 - _LOG_SQRT_TWO_PI - log_delta))
        step = (target - log_delta) / slope if slope > 0 else math.inf
        if min(abs(step), high - low) <= 1e-15 * mu:
            break
        mu += step
        if not low < mu < high:
            mu = (low + high) / 2
    return _nudged(mu, lambda m: gdp_delta(epsilon, m) <= delta, -1e-15)


def check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise ValueError(f"delta is {delta}: it must lie in [0, 1).")


def _log_profile(epsilon: float, mu: float) -> float:
    """log H(epsilon, mu) for epsilon >= 0, rounded up."""
    if mu == 0:
        return -math.inf
    if mu < _TINY:
        # H <= mu / sqrt(2 pi)
        return math.log(mu) - _LOG_SQRT_TWO_PI + 2e-13
    u, v = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if v > _OUT_OF_RANGE:
        # H <= exp(-u^2 / 2) for u >= 0, and is never more than 1
        return -math.inf if u > _OUT_OF_RANGE / 2 else 0.0
    # u enters as exp(-u^2 / 2): its rounding error counts u^2 times.
    rounding = 2e-13 + 5e-16 * v * v
    if u < -5:
        # H = 1 - Phi(u) - phi(u) M(v): both terms small
        below, above = math.erfc(-u / math.sqrt(2)) / 2, math.exp(-u * u / 2 - _LOG_SQRT_TWO_PI) * _mills(v)
        return math.log1p(-below - above) + rounding
    gap = _mills_gap(u, mu) if mu <= max(1.0, u) else _mills(u) - _mills(v)
    return -u * u / 2 - _LOG_SQRT_TWO_PI + math.log(gap) + rounding


def _mills_gap(u: float, mu: float) -> float:
    """M(u) - M(u + mu) for u >= -5, by Gauss's rule on the stretch where there is anything to add up."""
    # s^2/2 + us = 45 at its end
    end = 2 * _NEGLIGIBLE / (math.sqrt(u * u + 2 * _NEGLIGIBLE) + u)
    s = end * _NODES
    return -end * float(_WEIGHTS @ (np.exp(-s * (u + s / 2)) * np.expm1(-mu * s)))


def _mills(t: float) -> float:
    """M(t) = Phi(-t) / phi(t) = sqrt(pi/2) e^(x^2) erfc(x) at x = t / sqrt(2)."""
    if t > _FAR:
        # 1/t - 1/t^3 + 3/t^5 - ..
        inverse, series = 1 / (t * t), 1.0
        for k in range(15, 0, -2):
            series = 1 - k * inverse * series
        return series / t
    x = t / math.sqrt(2)
    # the square as a sum of two numbers: the rounding of one would count x^2 times
    square, high = x * x, _HALVES * x
    high -= high - x
    low = x - high
    rest = ((high * high - square) + 2 * high * low) + low * low
    return _SQRT_HALF_PI * math.exp(square) * (1 + rest) * math.erfc(x)


def _mu_at(epsilon: float, u: float) -> float:
    """mu with epsilon / mu - mu / 2 = u."""
    root = math.sqrt(u * u + 2 * epsilon)
    return 2 * epsilon / (u + root) if u > 0 else root - u


def _nudged(value: float, private: Callable[[float], bool], step: float) -> float:
    """`value`, moved by growing multiples of `step` until it is on the private side."""
    candidate = value
    while not private(candidate):
        candidate = value * (1 + step)
        step *= 2
    return candidate
