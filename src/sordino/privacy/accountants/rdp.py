r"""Renyi differential privacy: a second opinion on every event, and the currency of the adaptive filter.

rho(alpha) bounds the Renyi divergence of order alpha between the outputs on neighbouring data.  It adds up under
composition, and (Canonne, Kamath & Steinke 2020, Proposition 12)

    epsilon = rho + log(1 - 1/alpha) - (log delta + log alpha) / (alpha - 1),     the best over all orders.

    Gaussian            alpha / (2 multiplier^2)
    mu-GDP              alpha mu^2 / 2
    pure epsilon        log((e^(alpha eps) + e^((1 - alpha) eps)) / (1 + e^eps)) / (alpha - 1), randomised response
    Poisson, add_remove log sum_k C(alpha, k) (1-q)^(alpha-k) q^k e^(k (k-1) / (2 z^2)) / (alpha - 1), alpha whole
                        (Mironov, Talwar & Zhang 2019: removing a record is the worse way)
    Poisson, replace    the divergence of (1-q) N(0) + q N(1/z) from (1-q) N(0) + q N(-1/z), by the trapezoidal rule
    fixed size, replace Wang, Balle & Kasiviswanathan 2019, Theorem 27, as implemented in dp_accounting

Between whole orders (alpha - 1) rho(alpha), a cumulant generating function, lies under its chords.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.privacy.accountants.event_leaves import (
    check_epsilon,
    read_samplable,
    samplable,
    smallest_epsilon,
    total_delta,
)
from sordino.privacy.events import Event, FixedSizeSampled, PoissonSampled

_WHOLE = np.unique(np.concatenate((np.arange(2, 65), np.rint(np.geomspace(66, 1024, 40))))).astype(np.float64)

ORDERS: Array = np.concatenate((1 + np.arange(1, 20) / 20, _WHOLE, _WHOLE[:15] + 0.5, [4096.0, 16384.0]))
ORDERS.sort()
"""Every order at which the divergences are kept."""


@dataclass(frozen=True)
class RenyiAccountant:
    name: str = "rdp"

    def supports(self, event: Event, relation: Relation) -> bool:
        return samplable(event, relation)

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        leaves = read_samplable(event, relation)
        rho, limit = divergences(event, relation), leaves.largest_loss
        beside = leaves.total_variation, leaves.leak
        return smallest_epsilon(lambda d: min(limit, least_epsilon(rho, d)), delta, *beside)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        leaves = read_samplable(event, relation)
        rho, limit = divergences(event, relation), leaves.largest_loss
        beside = leaves.total_variation, leaves.leak
        return total_delta(lambda e: 0.0 if e >= limit else least_delta(rho, e), epsilon, *beside)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """Not known: the conversion from moments to (epsilon, delta) is not tight."""
        return None


def divergences(event: Event, relation: Relation) -> Array:
    """rho at every order of `ORDERS`, leaks apart: they have none."""
    leaves = read_samplable(event, relation)
    rho: Array = ORDERS * leaves.mu**2 / 2
    for pure, count in leaves.pure:
        rho += count * _pure(pure.epsilon)
    for sampled, count in leaves.sampled:
        rho += count * _sampled(sampled, relation)
    return rho


def renyi_epsilon(alpha: float, rho: float, delta: float) -> float:
    """The epsilon that a divergence rho of order alpha implies at delta > 0."""
    return rho + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)


def largest_divergence(epsilon: float, delta: float) -> Array:
    """For every order, the largest rho that still implies (epsilon, delta), delta > 0; the inverse of the above."""
    return epsilon - np.log1p(-1 / ORDERS) + (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)


def least_epsilon(rho: Array, delta: float) -> float:
    """The least epsilon at delta that divergences rho at every order of `ORDERS` imply."""
    if delta == 0:
        return 0.0 if not rho.any() else math.inf
    return max(0.0, min(renyi_epsilon(alpha, r, delta) for alpha, r in zip(ORDERS.tolist(), rho.tolist(), strict=True)))


def least_delta(rho: Array, epsilon: float) -> float:
    """The least delta at epsilon."""
    log_delta = (ORDERS - 1) * (rho - epsilon + np.log1p(-1 / ORDERS)) - np.log(ORDERS)
    return min(1.0, math.exp(min(0.0, float(log_delta.min()))))


def _pure(epsilon: float) -> Array:
    cumulants: Array = np.logaddexp(ORDERS * epsilon, (1 - ORDERS) * epsilon) - np.logaddexp(0.0, epsilon)
    return cumulants / (ORDERS - 1)


def _sampled(event: PoissonSampled | FixedSizeSampled, relation: Relation) -> Array:
    multiplier, rate = event.event.multiplier, event.rate
    if isinstance(event, FixedSizeSampled):
        return _fixed_size(rate, multiplier)
    if relation is Relation.ADD_REMOVE:
        return _poisson_removed(rate, multiplier)
    return _poisson_replaced(rate, 1 / (2 * multiplier))


def _between_orders(whole: Array, cumulants: Array) -> Array:
    """rho at `ORDERS` from (alpha - 1) rho at whole orders, along chords; infinite beyond the last."""
    chords = np.interp(ORDERS, np.insert(whole, 0, 1.0), np.insert(cumulants, 0, 0.0), right=math.inf)
    rho: Array = chords / (ORDERS - 1)
    return rho


@lru_cache(maxsize=256)
def _poisson_removed(q: float, z: float) -> Array:
    alpha, k = _WHOLE[:, None], np.arange(2.0, _WHOLE[-1] + 1)
    x = k * (k - 1) / (2 * z**2)
    with np.errstate(invalid="ignore"):
        choose = gammaln(alpha + 1) - gammaln(k + 1) - gammaln(alpha - k + 1)
        # The binomial weights add up to 1, so the sum is 1 + sum_k weight_k (e^x_k - 1), and k = 0, 1 drop out.
        terms = choose + (alpha - k) * math.log1p(-q) + k * math.log(q) + x + np.log(-np.expm1(-x))
    excess = logsumexp(np.where(k <= alpha, terms, -np.inf), axis=1)
    return _between_orders(_WHOLE, np.logaddexp(0.0, excess))


@lru_cache(maxsize=256)
def _poisson_replaced(q: float, shift: float) -> Array:
    whole = _WHOLE[_WHOLE * shift <= 100]
    if not whole.size:
        return np.full_like(ORDERS, np.inf)
    # An analytic integrand that vanishes at both ends: the rule converges faster than any power of its step.
    step = 0.05 * min(1.0, 1 / shift)
    x = np.arange(-14.0 - shift, 2 * whole[-1] * shift + 14.0, step)
    ahead, behind = (q * np.expm1(np.minimum(700.0, sign * shift * x - shift**2 / 2)) for sign in (1, -1))
    loss = np.log1p(ahead) - np.log1p(behind)
    log_weight = -0.5 * x**2 + np.log1p(behind) + math.log(step / math.sqrt(2 * math.pi))
    cumulants = []
    for alpha in whole.tolist():
        # int Q (r^alpha - 1 - alpha (r - 1)) for r = e^loss: what makes the integral exceed 1, of one sign.
        power = alpha * loss
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            near = np.log(np.maximum(0.0, np.expm1(np.minimum(power, 2.0)) - alpha * np.expm1(loss)))
            far = power + np.log1p(-(1 + alpha * np.expm1(loss)) * np.exp(-power))
        excess = float(logsumexp(log_weight + np.where(power <= 1, near, far)))
        cumulants.append(np.logaddexp(0.0, excess) * (1 + 1e-9))
    return _between_orders(whole, np.array(cumulants))


@lru_cache(maxsize=64)
def _fixed_size(rate: float, multiplier: float) -> Array:
    import dp_accounting
    from dp_accounting import rdp

    # dp_accounting states the noise relative to the sensitivity under this relation, as we do, for this event alone.
    whole = np.concatenate((_WHOLE[_WHOLE <= 64], [96.0, 128.0, 257.0, 512.0]))
    records = 2**50
    accountant = rdp.RdpAccountant(whole.tolist(), dp_accounting.NeighboringRelation.REPLACE_ONE)
    gaussian = dp_accounting.GaussianDpEvent(multiplier)
    accountant.compose(
        dp_accounting.SampledWithoutReplacementDpEvent(records, min(records, math.ceil(rate * records)), gaussian)
    )
    return _between_orders(whole, np.asarray(accountant.rdp, dtype=np.float64) * (whole - 1))
