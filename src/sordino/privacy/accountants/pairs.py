r"""Dominating pairs: for each kind of release, two one-dimensional laws (P, Q) that are its worst case.

The privacy loss is L = log dP/dQ under P.  With noise scaled to standard deviation 1 a contribution moves the output
by `shift`; s(x) = exp(shift x - shift^2 / 2) is then the density ratio of N(shift, 1) and N(0, 1).

    Removed    P = (1-q) N(0) + q N(shift)     Q = N(0)                        Poisson sampling, add_remove, one way
    Added      P = N(0)                        Q = (1-q) N(0) + q N(shift)     ... and the other way
    Replaced   P = (1-q) N(0) + q N(shift)     Q = (1-q) N(0) + q N(-shift)    Poisson sampling, replace_one
    FixedSize  the symmetric profile of sampling without replacement           replace_one
    Pure       randomised response, the loss is +-epsilon                      any pure release

(Zhu, Dong & Wang 2022 for the first two; a contribution and its opposite for the third; for the fourth Dong, Roth &
Su 2022, Theorem 4.2: delta(epsilon) = q H(log(1 + (e^epsilon - 1)/q), shift) for epsilon >= 0 and the mirror image
below, which is `Removed` where the loss is positive, `Added` where it is negative, and an atom at zero.)

A pair answers one question, about intervals of the loss with ends a < b:

    mass = P(a < L <= b),     excess = P(a < L <= b) - e^a Q(a < L <= b).

The excess is a small difference: each class computes it from integrals of one sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri_exp

from sordino.arrays import Array

LARGEST_LOSS = 600.0
"""Losses beyond this count as infinite: e^600 still fits a double."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_AHEAD = (0.5 + 0.5 * _NODES)[:, None]
"""How far into a cell, as a part of it, its density is looked at; one row for each of five places,"""
_SHARES = _WEIGHTS * (0.5 / math.sqrt(2 * math.pi))
"""... and what it counts for there, with the constant of the normal density."""


class Dominating(Protocol):
    @property
    def scale(self) -> float:
        """How far the loss typically strays from zero."""

    @property
    def anchor(self) -> float:
        """A loss near which much of the mass may crowd: it belongs on the grid."""

    @property
    def atom(self) -> float:
        """The probability, under P and Q alike, that the loss is exactly zero; then the anchor is zero."""

    def span(self, log_above: float, log_below: float) -> tuple[float, float]:
        """Losses that P exceeds with log-probability at most `log_above`, and undercuts with at most `log_below`."""

    def cells(self, edges: Array) -> tuple[Array, Array]:
        """Mass and excess between consecutive edges, the atom left out."""


@dataclass(frozen=True)
class Removed:
    """With q = 1 this is the Gaussian mechanism, whose two ways are alike."""

    rate: float
    shift: float

    @property
    def scale(self) -> float:
        return max((self.loss(1.0) - self.loss(-1.0)) / 2, 1e-9 * self.shift)

    @property
    def anchor(self) -> float:
        return self.loss(0.0) if self.rate < 1 else 0.0

    @property
    def smallest(self) -> float:
        """log(1 - q)"""
        return math.log1p(-self.rate) if self.rate < 1 else -math.inf

    @property
    def atom(self) -> float:
        return 0.0

    def span(self, log_above: float, log_below: float) -> tuple[float, float]:
        top = _highest(self.rate, self.shift, log_above)
        return _limit(self.loss(-_quantile(log_below))), _limit(self.loss(top))

    def cells(self, edges: Array) -> tuple[Array, Array]:
        q = self.rate
        x = self.point(edges)
        still, moved, rising = _rising(x[:-1], x[1:], self.shift)
        # P - e^a Q = q (int s dN - s_a int dN), for e^a = 1 - q + q s_a; below log(1 - q), s_a = 0 and a rest remains
        rest = np.maximum(0.0, -(np.expm1(edges[:-1]) + q))
        return (1 - q) * still + q * moved, q * rising + rest * still

    def loss(self, x: float) -> float:
        """log(1 - q + q s(x))"""
        exponent = self.shift * x - self.shift**2 / 2
        if self.rate == 1:
            return exponent
        if exponent < 30:
            return math.log1p(self.rate * math.expm1(exponent))
        return exponent + math.log(self.rate + (1 - self.rate) * math.exp(-exponent))

    def point(self, losses: Array) -> Array:
        """The x at which the loss is reached; minus infinity below log(1 - q)."""
        if self.rate == 1:
            return losses / self.shift + self.shift / 2
        with np.errstate(divide="ignore"):
            return np.log1p(np.maximum(-1.0, np.expm1(losses) / self.rate)) / self.shift + self.shift / 2


@dataclass(frozen=True)
class Added:
    rate: float
    shift: float

    @property
    def scale(self) -> float:
        return Removed(self.rate, self.shift).scale

    @property
    def largest(self) -> float:
        """-log(1 - q): a loss that is never exceeded."""
        return -Removed(self.rate, self.shift).smallest

    @property
    def anchor(self) -> float:
        return -Removed(self.rate, self.shift).anchor

    @property
    def atom(self) -> float:
        return 0.0

    def span(self, log_above: float, log_below: float) -> tuple[float, float]:
        removed = Removed(self.rate, self.shift)
        return _limit(-removed.loss(_quantile(log_below))), _limit(-removed.loss(-_quantile(log_above)))

    def cells(self, edges: Array) -> tuple[Array, Array]:
        x = Removed(self.rate, self.shift).point(-edges)
        still, falling = _falling(x[1:], x[:-1], self.shift)
        # P - e^a Q = q e^a (s_a int dN - int s dN), for e^-a = 1 - q + q s_a
        with np.errstate(invalid="ignore"):
            return still, self.rate * np.exp(edges[:-1]) * falling


@dataclass(frozen=True)
class Replaced:
    rate: float
    shift: float

    @property
    def scale(self) -> float:
        return max(self.loss(1.0), 1e-9 * self.shift)

    @property
    def anchor(self) -> float:
        return 0.0

    @property
    def atom(self) -> float:
        return 0.0

    def span(self, log_above: float, log_below: float) -> tuple[float, float]:
        top = _highest(self.rate, self.shift, log_above)
        return _limit(self.loss(-_quantile(log_below))), _limit(self.loss(top))

    def cells(self, edges: Array) -> tuple[Array, Array]:
        q = self.rate
        x = self.point(edges)
        still, moved, rising = _rising(x[:-1], x[1:], self.shift)
        _, falling = _falling(-x[1:], -x[:-1], self.shift)
        # P - e^a Q = q (int s dN - s_a int dN) + q e^a (r_a int dN - int r dN), for r(x) = s(-x)
        with np.errstate(invalid="ignore"):
            return (1 - q) * still + q * moved, q * (rising + np.exp(edges[:-1]) * falling)

    def loss(self, x: float) -> float:
        removed = Removed(self.rate, self.shift)
        return removed.loss(x) - removed.loss(-x)

    def point(self, losses: Array) -> Array:
        """shift x = l/2 + asinh((1-q)/q e^(shift^2/2) sinh(l/2)), from a quadratic in e^(shift x)."""
        if self.rate == 1:
            return losses / (2 * self.shift)
        half = np.abs(losses) / 2
        with np.errstate(divide="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half) / 2)
        exponent = log_sinh + math.log1p(-self.rate) - math.log(self.rate) + self.shift**2 / 2
        asinh = np.where(exponent > 20, exponent + math.log(2), np.arcsinh(np.exp(np.minimum(exponent, 20.0))))
        return np.copysign(half + asinh, losses) / self.shift


@dataclass(frozen=True)
class FixedPair:
    rate: float
    shift: float

    @property
    def scale(self) -> float:
        return Removed(self.rate, self.shift).scale

    @property
    def anchor(self) -> float:
        return 0.0

    @property
    def atom(self) -> float:
        # (1 - q) (2 Phi(shift / 2) - 1)
        return (1 - self.rate) * math.erf(self.shift / math.sqrt(8))

    def span(self, log_above: float, log_below: float) -> tuple[float, float]:
        _, top = Removed(self.rate, self.shift).span(log_above, log_below)
        bottom, _ = Added(self.rate, self.shift).span(log_above, log_below)
        return min(bottom, 0.0), max(top, 0.0)

    def cells(self, edges: Array) -> tuple[Array, Array]:
        """Needs 0 among the edges, or all of them above it."""
        zero = int(np.searchsorted(edges, 0.0))
        below = Added(self.rate, self.shift).cells(edges[: zero + 1])
        above = Removed(self.rate, self.shift).cells(edges[zero:])
        return np.concatenate((below[0], above[0])), np.concatenate((below[1], above[1]))


@dataclass(frozen=True)
class Pure:
    """Not a `Dominating`: two atoms and nothing between."""

    epsilon: float

    @property
    def scale(self) -> float:
        return self.epsilon

    @property
    def likely(self) -> float:
        """P(L = epsilon) = e^epsilon / (1 + e^epsilon)"""
        return 1 / (1 + math.exp(-self.epsilon))

    @property
    def unlikely(self) -> float:
        return math.exp(-self.epsilon) * self.likely


def _rising(a: Array, b: Array, shift: float) -> tuple[Array, Array, Array]:
    """Over a < x <= b: int dN, int s dN and int (s - s(a)) dN, where s dN is the law N(shift, 1).

    Narrow cells by quadrature of positive integrands, wide ones by differences of the distribution function.
    """
    still, moved, rising = np.empty((3, len(a)))
    narrow = _narrow(a, b, shift)
    left, width = a[narrow], b[narrow] - a[narrow]
    ahead = _AHEAD * width
    x = left + ahead
    moving = np.exp(-0.5 * (x - shift) ** 2)
    still[narrow] = width * (_SHARES @ np.exp(-0.5 * x**2))
    moved[narrow] = width * (_SHARES @ moving)
    rising[narrow] = -width * (_SHARES @ (moving * np.expm1(-shift * ahead)))
    wide = ~narrow
    a, b = a[wide], b[wide]
    still[wide] = N = _between(a, b)
    moved[wide] = M = _between(a - shift, b - shift)
    with np.errstate(over="ignore", invalid="ignore"):
        rising[wide] = M - np.exp(shift * a - shift**2 / 2) * N
    return still, moved, rising


def _falling(a: Array, b: Array, shift: float) -> tuple[Array, Array]:
    """Over a < x <= b: int dN and int (s(b) - s) dN, in the same way."""
    still, falling = np.empty((2, len(a)))
    narrow = _narrow(a, b, shift)
    left, width = a[narrow], b[narrow] - a[narrow]
    ahead = _AHEAD * width
    x = left + ahead
    still[narrow] = width * (_SHARES @ np.exp(-0.5 * x**2))
    falling[narrow] = width * (_SHARES @ (np.exp(-0.5 * (x - shift) ** 2) * np.expm1(shift * (width - ahead))))
    wide = ~narrow
    a, b = a[wide], b[wide]
    still[wide] = N = _between(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        falling[wide] = np.exp(shift * b - shift**2 / 2) * N - _between(a - shift, b - shift)
    return still, falling


def _narrow(a: Array, b: Array, shift: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        found: NDArray[np.bool_] = (b - a) * (1 + shift + np.maximum(np.abs(a), np.abs(b))) < 0.2
    return found


def _between(a: Array, b: Array) -> Array:
    """Phi(b) - Phi(a), from the tail that does not cancel."""
    mass: Array = np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
    return mass


def _highest(rate: float, shift: float, log_above: float) -> float:
    """An x that (1-q) N(0) + q N(shift) exceeds with log-probability at most `log_above`."""
    half = log_above - math.log(2)
    return max(_quantile(half), shift + _quantile(half - math.log(rate)))


def _quantile(log_probability: float) -> float:
    """t with log Phi(-t) = log_probability."""
    return -float(ndtri_exp(min(log_probability, -1e-6)))


def _limit(loss: float) -> float:
    return max(-LARGEST_LOSS, min(LARGEST_LOSS, loss))
