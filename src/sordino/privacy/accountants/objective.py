r"""The privacy profile of objective perturbation for losses with one score per record.

    theta* = argmin  sum_i l_i(theta) + (Lambda/2)|theta|^2 + <b, theta>,     b ~ N(0, sigma^2 I)

With kappa = beta/Lambda (Lambda holds all strong convexity there is), c = log(1 + kappa) for the Jacobian of
b -> theta*, and m = Delta/sigma, Delta = L for adding or removing a record, the privacy loss is at most
c + m^2/2 + m|u|, u ~ N(0, 1), because the direction x of the record is fixed and only its slope depends on b
(Redberg, Koskela & Wang 2023). Hence, with x = epsilon - c and H the profile of a Gaussian shift,

    delta(epsilon) = 2 H(x, m)  where x >= m^2/2,      1 - 2 e^x Phi(-m)  below.

Replacing a record moves the gradient by s x - s'x', whose extreme points +-L(x +- x') lie on two orthogonal diagonals
of squared lengths that add up to 4 L^2: the loss is at most c + max_i (a_i^2/2 + a_i |u_i|) with a_1^2 + a_2^2 =
(2L/sigma)^2 and independent u_i, so delta is at most the largest sum of the two profiles over all splits.

Over a ball W the minimiser is the limit, for every b, of those of the sum and (k/2) dist(theta, W)^2 as k grows. Each
of these has the profile above: what is added is the same for all records, and its curvature makes the ratio of the
Jacobians smaller. Bounds on expectations of continuous functions are kept in the limit, so it has the profile too.

A minimiser known only up to a certified distance is released with Gaussian noise of its own, of shift m_o:

    delta(epsilon) = int_0^inf 2 phi(u) H(epsilon - c - m^2/2 - m u, m_o) du.

Losses of releases one after the other add up, so Gaussian releases beside it, mu-GDP together, only make that shift
longer: m_o^2 + mu^2 takes the place of m_o^2. Its own (epsilon, delta) at one point would not do: it is not as private
as the Gaussian release that is (epsilon, delta), and beside others it costs up to 1.64 times the delta of one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sordino.budget import Relation
from sordino.privacy.accountants.event_leaves import (
    check_epsilon,
    leaves_of,
    smallest_epsilon,
    total_delta,
)
from sordino.privacy.events import Event, ObjectivePerturbed
from sordino.privacy.gaussian_profile import check_delta

_ANGLES = np.linspace(0, math.pi / 4, 33)
"""Splits a_1 = m cos, a_2 = m sin of the squared shift between the two diagonals."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def _log_shift(epsilon: NDArray[np.float64] | float, m: NDArray[np.float64]) -> NDArray[np.float64]:
    """log H(epsilon, m), H = Phi(-epsilon/m + m/2) - e^epsilon Phi(-epsilon/m - m/2), without cancellation."""
    a = log_ndtr(-epsilon / m + m / 2)
    b = epsilon + log_ndtr(-epsilon / m - m / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b < a, a + np.log1p(-np.exp(np.minimum(b - a, 0.0))), -np.inf)


def line_delta(epsilon: float, kappa: float, m: NDArray[np.float64], m_out: float = 0.0) -> NDArray[np.float64]:
    """delta(epsilon) when the gradient moves along one fixed line, for each shift in `m`."""
    x = epsilon - math.log1p(kappa)
    m = np.maximum(np.atleast_1d(np.asarray(m, dtype=float)), 1e-12)
    if m_out == 0:
        above = 2 * np.exp(_log_shift(x, m))
        below = -np.expm1(np.minimum(math.log(2) + x + log_ndtr(-m), 0.0))
        return np.where(x >= m * m / 2, above, below)
    # the integrand turns on where the loss passes epsilon, over a width of m_out/m, and dies out at u = 40
    turn, width = x / m - m / 2, 12 * m_out / m
    fixed = [np.full_like(m, edge) for edge in (0.0, 2.0, 5.0, 10.0, 20.0, 40.0)]
    edges = np.sort(np.clip(np.stack([*fixed, turn - width, turn, turn + width, turn + width + 3]), 0, 40), axis=0)
    total = np.zeros_like(m)
    for low, high in itertools.pairwise(edges):
        u = low + (high - low) * (_NODES[:, None] + 1) / 2
        density = 2 * np.exp(-u * u / 2 + _log_shift(x - m * m / 2 - m * u, np.full_like(u, m_out)))
        total += (high - low) / 2 * (_WEIGHTS[:, None] * density).sum(axis=0) / math.sqrt(2 * math.pi)
    return total


def objective_delta(epsilon: float, kappa: float, multiplier: float, relation: Relation, m_out: float = 0.0) -> float:
    """delta(epsilon) of one release; `multiplier` is sigma over the relation's gradient sensitivity."""
    m = 1 / multiplier
    if relation is Relation.ADD_REMOVE:
        return min(1.0, float(line_delta(epsilon, kappa, np.array([m]), m_out)[0]))
    one, other = (line_delta(epsilon, kappa, m * part, m_out) for part in (np.cos(_ANGLES), np.sin(_ANGLES)))
    # at the collinear split the second line does not exist
    other[0] = 0.0
    return min(1.0, float((one + other).max()))


def largest_shift(epsilon: float, delta: float, kappa: float) -> float:
    """The largest m with delta(epsilon) <= delta along one line and without output noise; 0 if there is none.

    For planning, where a quick estimate is enough.
    """
    if math.log1p(kappa) >= epsilon:
        return 0.0

    def excess(log_m: float) -> float:
        found = float(line_delta(epsilon, kappa, np.array([math.exp(log_m)]))[0])
        return math.log(max(found, 1e-300) / delta)

    # scipy.optimize is slow to load, and few need it
    from scipy.optimize import brentq

    return math.exp(float(brentq(excess, math.log(1e-6), math.log(1e3), xtol=1e-6)))


@dataclass(frozen=True)
class ObjectiveAccountant:
    """One objective perturbation, with Gaussian releases and leaks beside it or without."""

    name: str = "objective"

    def supports(self, event: Event, relation: Relation) -> bool:
        leaves = leaves_of(event, relation)
        return not (leaves.pure or leaves.sampled) and [
            (type(special), count) for special, count in leaves.special
        ] == [(ObjectivePerturbed, 1)]

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        check_delta(delta)
        profile, *beside = self._profile(event, relation)
        return smallest_epsilon(lambda d: _epsilon(profile, d), delta, *beside)

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        check_epsilon(epsilon)
        profile, *beside = self._profile(event, relation)
        return total_delta(profile, epsilon, *beside)

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """The profile is a bound, not the exact one, and how far above it lies is not known."""
        return None

    def _profile(self, event: Event, relation: Relation) -> tuple[Callable[[float], float], float, float]:
        """delta as a function of epsilon, the total variation distance from what was run, and the leak beside it."""
        if not self.supports(event, relation):
            raise ValueError(
                "this event is not one objective perturbation, alone or beside Gaussian releases: with anything else, "
                "or a second one, it is not accounted for."
            )
        leaves = leaves_of(event, relation)
        ((happened, _),) = leaves.special
        assert isinstance(happened, ObjectivePerturbed)
        kappa, multiplier = happened.curvature_ratio, happened.multiplier
        m_out = math.hypot(1 / happened.output_multiplier, leaves.mu)

        def profile(epsilon: float) -> float:
            # quadrature and rounding are below 1e-9 relative
            return min(1.0, objective_delta(epsilon, kappa, multiplier, relation, m_out) * (1 + 1e-8))

        return profile, leaves.total_variation, leaves.leak


def _epsilon(profile: Callable[[float], float], delta: float) -> float:
    """The least epsilon with profile(epsilon) <= delta."""
    if delta <= 0:
        return math.inf
    if profile(0.0) <= delta:
        return 0.0
    high = 1.0
    while profile(high) > delta:
        high *= 2
        if high > 1e6:
            return math.inf
    from scipy.optimize import brentq

    epsilon = float(brentq(lambda e: math.log(max(profile(e), 1e-300) / delta), 0.0, high, rtol=1e-10))
    # to the private side of the root
    while profile(epsilon) > delta:
        epsilon *= 1 + 1e-9
    return epsilon
