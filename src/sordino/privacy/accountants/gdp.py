r"""Gaussian differential privacy, exactly (Balle & Wang 2018; Dong, Roth & Su 2022).

Telling N(0, 1) from N(mu, 1) is the worst that a Gaussian release of sensitivity Delta and standard deviation
Delta / mu can do, and adaptive composition keeps it that simple:

    delta(epsilon) = H(epsilon, mu) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2),
    mu_total^2 = sum_t mu_t^2.

The two terms of H nearly cancel when mu is small, so H is computed from the Mills ratio M(t) = Phi(-t) / phi(t)

    H = phi(u) (M(u) - M(v)),   u = epsilon/mu - mu/2,  v = u + mu,

and for small mu from the integral of -M'(t) = 1 - t M(t) > 0, which has nothing left to cancel.
Every result is rounded to its safe side: delta and epsilon up, mu down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, ndtr

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.privacy.accountants.event_leaves import (
    EventLeaves,
    check_delta,
    check_epsilon,
    leaves_of,
    smallest_epsilon,
    total_delta,
)
from sordino.privacy.events import Event

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)


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
    if delta == 0:
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
        epsilon, last = epsilon + step, epsilon
        if not low < epsilon < high:
            epsilon = (low + high) / 2
        if abs(epsilon - last) <= 1e-15 * high:
            break
    return _nudged(epsilon, lambda e: gdp_delta(e, mu) <= delta, 1e-15)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP; 1 / gdp_mu is the analytic Gaussian multiplier."""
    check_delta(delta)
    if epsilon < 0 or not math.isfinite(epsilon):
        raise ValueError(f"epsilon is {epsilon}: it must be finite and not negative.")
    if delta == 0:
        return 0.0
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
        mu, last = mu + step, mu
        if not low < mu < high:
            mu = (low + high) / 2
        if abs(mu - last) <= 1e-15 * mu:
            break
    return _nudged(mu, lambda m: gdp_delta(epsilon, m) <= delta, -1e-15)


@dataclass(frozen=True)
class GaussianAccountant:
    """Closed form for any composition of Gaussian releases, Gaussian-DP events and leaks, under either relation."""

    name: str = "gdp"

    def supports(self, event: Event, relation: Relation) -> bool:
        return leaves_of(event, relation).gaussian

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        leaves = self._content(event, relation)
        return smallest_epsilon(lambda d: gdp_epsilon(leaves.mu, d), delta, leaves.total_variation, leaves.leak)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        leaves = self._content(event, relation)
        return total_delta(lambda e: gdp_delta(e, leaves.mu), epsilon, leaves.total_variation, leaves.leak)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """Rounding only."""
        return 1e-9 * epsilon

    def _content(self, event: Event, relation: Relation) -> EventLeaves:
        leaves = leaves_of(event, relation)
        if not leaves.gaussian:
            raise ValueError(
                "the closed form covers Gaussian releases and Gaussian-DP events only; "
                "ask sordino.privacy.accountants for the accountant that supports this event."
            )
        return leaves


def _log_profile(epsilon: float, mu: float) -> float:
    """log H(epsilon, mu) for epsilon >= 0, rounded up."""
    if mu == 0:
        return -math.inf
    u, v = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # u enters as exp(-u^2 / 2): its rounding error counts u^2 times.
    rounding = 2e-13 + 5e-16 * v * v
    if u < -5:
        # H = 1 - Phi(u) - phi(u) M(v): both terms small
        return math.log1p(-float(ndtr(u)) - math.exp(-u * u / 2 - _LOG_SQRT_TWO_PI) * _mills(v)) + rounding
    if mu <= max(1.0, u):
        # M(u) - M(v) = int_u^v (1 - t M(t)) dt
        t = u + mu * (0.5 + 0.5 * _NODES)
        gap = 0.5 * mu * float(_WEIGHTS @ _mills_descent(t))
    else:
        gap = _mills(u) - _mills(v)
    return -u * u / 2 - _LOG_SQRT_TWO_PI + math.log(gap) + rounding


def _mills(t: float) -> float:
    """M(t) = Phi(-t) / phi(t)."""
    return _SQRT_HALF_PI * float(erfcx(t / math.sqrt(2)))


def _mills_descent(t: Array) -> Array:
    """-M'(t) = 1 - t M(t); where that would cancel, its asymptotic series 1/t^2 - 3/t^4 + 15/t^6 - ..."""
    if t[0] < 12:
        descent: Array = 1 - t * _SQRT_HALF_PI * erfcx(t / math.sqrt(2))
        return descent
    inverse = 1 / (t * t)
    series = np.ones_like(t)
    for k in range(20, 0, -1):
        series = 1 - (2 * k + 1) * inverse * series
    return inverse * series


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
