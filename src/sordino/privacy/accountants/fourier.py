r"""Composing discretised losses by Fourier transform, in the tilted measure.

    delta(epsilon) = sum_{s > epsilon} e^(K(t) - t s) (1 - e^(epsilon - s)) P_t(S = s)

Tilting makes the rounding errors of the transform relative to delta instead of to 1.  The transform also wraps S
around the window.  Wrapped mass only adds to what stands there, so all that an upper bound has to add is P(S > top);
a lower bound gives up as much as could have been wrapped in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sordino.arrays import Array, Index
from sordino.privacy.accountants.discretise import Atoms, Grid, lower, upper
from sordino.privacy.accountants.exponential_tilt import Level, Tilt, no_tilt, tilt_for_delta, tilt_for_epsilon
from sordino.privacy.accountants.pairs import LARGEST_LOSS, Added, Dominating, Pure

_Spectrum = npt.NDArray[np.complex128]

_ROUNDING = 8 * 2.0**-52
"""Of one transform, relative, for every factor of two of its length and every factor multiplied in."""

_LOOK, _DEAD, _SHORT = 8, 1e-20, 16
"""After so many releases, see how many frequencies are left that are not next to nothing: where these, times the points
of a loss, are no more than so many lengths of a transform, a product of two short tables is faster."""

_GONE = -80.0
"""log of a power of a frequency that carries nothing"""

_SAMPLED = 16
"""A transform that is so much shorter tells where the frequencies are that matter."""

_LEFT_OF_CENTRE = 0.1
"""As a part of the window: epsilon is seldom further left of the centre."""


@dataclass(frozen=True)
class Profile:
    """delta as a function of epsilon inside the window, plus what is to be added or given up for a bound."""

    points: Array
    weight: Array
    """e^(K(t) - t s) P_t(S = s)"""
    centre: float
    added: float
    forgone: Array
    """What could have been wrapped in beyond each of the points; one zero where nothing is given up."""

    def delta(self, epsilon: float) -> float:
        beyond = self.points > epsilon
        first = max(0, int(np.argmax(beyond)) - 1)
        sum_ = float(self.weight[beyond] @ -np.expm1(epsilon - self.points[beyond]))
        return min(1.0, max(0.0, sum_ + self.added - self._forgone(first)))

    def epsilon_above(self, delta: float) -> float:
        """The smallest epsilon with profile <= delta, or the bottom of the window if that is enough."""
        assert not self.forgone.any()
        left = self.centre - _LEFT_OF_CENTRE * (self.points[-1] - self.points[0])
        # the sums begin at the right end, and go on to the left end only where they have to
        for first in (int(np.searchsorted(self.points, left)), 0):
            heavy, light, profile = self._sums(first)
            over = np.flatnonzero(profile > delta)
            if over.size:
                break
        else:
            return float(self.points[0])
        j = int(over[-1]) + 1
        if j == len(profile):
            return math.inf
        return self._within(first + j, heavy[j] + self.added - delta, light[j])

    def epsilon_below(self, delta: float) -> float:
        """The largest epsilon with profile >= delta, or minus infinity if there is none in the window."""
        heavy, light, profile = self._sums(0)
        profile -= self.forgone
        over = np.flatnonzero(profile >= delta)
        if over.size == 0 or over[-1] + 1 == len(self.points):
            return -math.inf
        j = int(over[-1]) + 1
        return self._within(j, heavy[j] - self._forgone(j - 1) - delta, light[j])

    def _forgone(self, j: int) -> float:
        return float(self.forgone[min(j, len(self.forgone) - 1)])

    def _sums(self, first: int) -> tuple[Array, Array, Array]:
        """Suffix sums of w and of w e^(centre - s), and the profile at the points: A_{>j} - e^(s_j - centre) B_{>j}.

        From the first point on that is asked for; nothing is given up yet.
        """
        points, weight = self.points[first:], self.weight[first:]
        heavy = np.cumsum(weight[::-1])[::-1]
        light = np.cumsum((weight * _exponentials(points, -1.0, self.centre))[::-1])[::-1]
        profile = _exponentials(points, 1.0, -self.centre)
        np.multiply(profile[:-1], light[1:], out=profile[:-1])
        np.subtract(heavy[1:], profile[:-1], out=profile[:-1])
        profile[-1] = 0.0
        profile += self.added
        return heavy, light, profile

    def _within(self, j: int, excess: float, light: float) -> float:
        """Between two points the profile is linear in e^epsilon."""
        epsilon = self.centre + math.log(excess / light) if excess > 0 and light > 0 else -math.inf
        return min(max(epsilon, float(self.points[j - 1])), float(self.points[j]))


def epsilon_above(levels: Sequence[Level], delta: float, grain: float, enough: float) -> float:
    """An upper bound of the composed epsilon at delta > 0; once it is `enough`, it need not be sharp."""
    if _out_of_range(levels) > delta:
        return math.inf
    tilt = tilt_for_delta(levels, delta, grain)
    low, high = 0.0, _largest(levels)
    for _ in range(60):
        profile = _upper_profile(levels, tilt)
        epsilon = profile.epsilon_above(delta)
        if profile.points[0] < epsilon < math.inf or epsilon <= 0:
            return max(0.0, min(high, epsilon * (1 + 1e-10)))
        # The answer lies left or right of the window: look there.
        low, high = (low, min(high, epsilon)) if epsilon < math.inf else (float(profile.points[-1]), high)
        if high <= enough or high - low < 1e-6 * high < math.inf:
            break
        tilt = tilt_for_epsilon(levels, (low + min(high, 3 * low + 1)) / 2, grain)
    return high


def epsilon_below(levels: Sequence[Level], delta: float, grain: float) -> float:
    """A lower bound of the composed epsilon at delta > 0."""
    return max(0.0, _lower_profile(levels, tilt_for_delta(levels, delta, grain)).epsilon_below(delta))


def delta_above(levels: Sequence[Level], epsilon: float, grain: float) -> float:
    """An upper bound of the composed delta at epsilon >= 0."""
    if epsilon >= _largest(levels):
        return 0.0
    if _out_of_range(levels) > 0.5:
        return 1.0
    tilt = tilt_for_epsilon(levels, epsilon, grain)
    profile = _upper_profile(levels, tilt)
    # Without a tilt, what lies left of the window is wrapped upwards; with one, it would be missing.
    delta = profile.delta(epsilon) if tilt.t == 0 or profile.points[0] <= epsilon else 1.0
    if delta == 1:
        delta = _upper_profile(levels, no_tilt(levels, grain)).delta(epsilon)
    # Again on the grid that `epsilon_above` uses at this delta: sharper, and inverse to it.
    for _ in range(8):
        if not 1e-40 < delta < 1:
            break
        profile = _upper_profile(levels, tilt_for_delta(levels, delta, grain))
        again = profile.delta(epsilon) if profile.points[0] <= epsilon else delta
        delta, last = min(delta, again), delta
        if delta > 0.99 * last:
            break
    return delta


def _largest(levels: Sequence[Level]) -> float:
    """What the sum of the losses never exceeds."""
    bounds = (
        (pair.epsilon if isinstance(pair, Pure) else pair.largest if isinstance(pair, Added) else math.inf, count)
        for pair, count in levels
    )
    return math.fsum(count * bound for bound, count in bounds) * (1 + 1e-12)


def _out_of_range(levels: Sequence[Level]) -> float:
    """The probability of a single loss that counts as infinite."""
    edges = np.array([LARGEST_LOSS, np.inf])
    return math.fsum(count * float(pair.cells(edges)[0][0]) for pair, count in levels if not isinstance(pair, Pure))


def _upper_profile(levels: Sequence[Level], tilt: Tilt) -> Profile:
    sum_ = _compose(levels, tilt, upper)
    beyond = math.exp(min(0.0, sum_.K_u - tilt.u * sum_.points[-1]))
    tilted = (np.maximum(sum_.tilted, 0.0) + sum_.noise) * (1 + sum_.drift)
    return sum_.profile(tilt, tilted, sum_.infinite + beyond, 0.0)


def _lower_profile(levels: Sequence[Level], tilt: Tilt) -> Profile:
    sum_ = _compose(levels, tilt, lower)
    above = math.exp(min(0.0, sum_.K_u - sum_.K - (tilt.u - tilt.t) * sum_.points[-1]))
    below = math.exp(min(0.0, sum_.K_r - sum_.K + (tilt.t - tilt.r) * sum_.points[0]))
    tilted = np.maximum(sum_.tilted - sum_.noise, 0.0) * (1 - sum_.drift)
    return sum_.profile(tilt, tilted, 0.0, above + below)


@dataclass(frozen=True)
class _Sum:
    """The tilted law of S on the window, K where it is needed, and rounding: of a probability, and of e^K."""

    points: Array
    tilted: Array
    K: float
    K_u: float
    K_r: float
    infinite: float
    noise: float
    drift: float

    def profile(self, tilt: Tilt, tilted: Array, added: float, wrapped: float) -> Profile:
        # Below the window's centre the factor may overflow; so far left every profile exceeds every delta.
        factor = _exponentials(self.points, -tilt.t, self.K)
        forgone = wrapped * np.append(factor[1:], 0.0) if wrapped else np.zeros(1)
        return Profile(self.points, np.multiply(factor, tilted, out=factor), tilt.centre, added, forgone)


def _compose(levels: Sequence[Level], tilt: Tilt, discretise: Callable[[Dominating | Pure, Grid], Atoms]) -> _Sum:
    from scipy import fft

    step = tilt.grid.step
    size = fft.next_fast_len(math.ceil((tilt.top - tilt.bottom) / step) + 2, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    K = K_u = K_r = anchor = infinite = dropped = 0.0
    # frequencies from `low` on are next to nothing; 0 where nobody knows
    releases, low = 0, 0
    for number, (pair, count) in enumerate(levels):
        atoms = discretise(pair, tilt.grid)
        present = atoms.mass > 0
        at, losses, log_mass = atoms.at[present], atoms.losses(step)[present], np.log(atoms.mass[present])
        log_mgf = _log_mgf(losses, log_mass, tilt.t)
        K += count * log_mgf
        K_u += count * _log_mgf(losses, log_mass, tilt.u)
        K_r += count * _log_mgf(losses, log_mass, tilt.r)
        anchor += count * atoms.anchor
        infinite += count * atoms.infinite
        releases += count
        tilted = np.exp(log_mass + tilt.t * losses - log_mgf)
        if not low and count >= _LOOK:
            low = _lowest(at, tilted, size, count)
        if low:
            product = product[:low] * _power(_low_frequencies(at, tilted, size, low), count)
        else:
            product *= _power(fft.rfft(np.bincount(at % size, tilted, size)), count)
        if low or number % _LOOK == _LOOK - 1:
            # no factor is larger than 1, so that frequencies which have died away stay so: they go into the rounding
            sizes = np.abs(product)
            alive = int(np.flatnonzero(sizes > _DEAD)[-1]) + 1
            if alive * len(at) <= _SHORT * size:
                low, dropped = alive, dropped + 2 * float(sizes[alive:].sum()) / size * (1 + 1e-6)
                product = product[:low]
    # Every part is on the grid up to its anchor, so S is up to the sum of the anchors.
    first = math.floor((tilt.bottom - anchor) / step)
    mean = float(np.abs(product).sum()) / (size // 2 + 1)
    # short tables are made by doubling: no more is rounded in a row than in a transform
    noise = _ROUNDING * (releases + math.log2(size)) * mean + dropped
    law = np.roll(fft.irfft(product, size), -(first % size))
    points = anchor + (first + np.arange(size, dtype=np.float64)) * step
    return _Sum(points, law, K, K_u, K_r, infinite, noise, min(0.1, _ROUNDING * releases * 10))


def _exponentials(points: Array, rate: float, constant: float) -> Array:
    """e^(constant + rate s) at evenly spaced points s, none above about e^600, as products of two short lists."""
    step = (points[-1] - points[0]) / max(1, len(points) - 1)
    columns = max(1, min(1024, int(1 / max(abs(rate * step), 1e-3))))
    starts = points[::columns]
    within = np.exp(rate * step * np.arange(columns))
    table = np.exp(np.minimum(constant + rate * starts, 600.0))[:, None] * within
    found: Array = table.ravel()[: len(points)]
    return found


def _log_mgf(losses: Array, log_mass: Array, t: float) -> float:
    exponent = log_mass + t * losses
    highest = float(exponent.max())
    return highest + math.log(np.exp(exponent - highest).sum())


def _lowest(at: Index, mass: Array, size: int, count: int) -> int:
    """From which frequency on `count` copies carry nothing; 0 where too many are left.

    A shorter transform has fewer frequencies. Between two of them, w apart, the size of E e^(i w X) changes by no more
    than w E |X - m|, whatever m is.
    """
    from scipy import fft

    fewer = fft.next_fast_len(max(1, size // _SAMPLED), real=True)
    sizes = np.abs(fft.rfft(np.bincount(at % fewer, mass, fewer)))
    spread = float(np.abs(at - at @ mass) @ mass)
    nearest = math.pi / fewer
    alive = np.flatnonzero(sizes + (nearest * spread * (1 + 1e-6) + 1e-12) > math.exp(_GONE / count))
    low = min(math.floor((float(alive[-1]) + 0.5) * size / fewer), size // 2) + 1
    return low if low * len(at) <= _SHORT * size else 0


def _low_frequencies(at: Index, mass: Array, size: int, low: int) -> _Spectrum:
    """sum_j mass_j z_j^k, z_j = e^(-2 pi i at_j / size), for k < low, as z^(a w + b) = z^(a w) z^b."""
    width = math.isqrt(low - 1) + 1
    # an angle near zero is rounded less, and its multiples are too
    angle = -2 * math.pi / size * ((at + size // 2) % size - size // 2)
    once = np.empty(len(at), dtype=np.complex128)
    # far faster than exponentials of complex numbers
    once.real, once.imag = np.cos(angle), np.sin(angle)
    powers = _powers(np.ones(len(at)), once, width)
    strides = _powers(mass, powers[-1] * once, width)
    return (strides @ powers.T).ravel()[:low]


def _powers(first: Array, ratio: _Spectrum, count: int) -> _Spectrum:
    """first ratio^k for k < count."""
    table = np.empty((count, len(ratio)), dtype=np.complex128)
    table[0] = first
    done = 1
    while done < count:
        more = min(done, count - done)
        np.multiply(table[:more], ratio, out=table[done : done + more])
        done, ratio = done + more, ratio * ratio
    return table


def _power(transform: _Spectrum, count: int) -> _Spectrum:
    """The transform of `count` copies; frequencies whose power is next to nothing carry nothing."""
    if count == 1:
        return transform
    size = np.abs(transform)
    kept = size > math.exp(_GONE / count)
    result = np.zeros_like(transform)
    result[kept] = transform[kept] ** count
    return result
