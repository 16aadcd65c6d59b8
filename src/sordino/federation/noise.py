r"""Gaussian noise that no owner knows, in whole numbers, at least as private as the noise a method planned.

A method plans `GaussianNoise`: value + N(0, std^2 I) on a lattice of step g. A federation puts others in its place:

    distributed   every maker adds a discrete Gaussian of its own. Against t colluders only h = makers - t of them
                  count, so each has variance std^2 / h, and all together makers / h times the variance asked for.
    joint         most of the noise comes from coins that nobody sees; only as much is left to the makers as hides the
                  gaps between its multiples of a coarse spacing.
    correlated    where a method plans `CorrelatedNoise`, every maker adds such noise of its own.

The lemma behind the first two. Let X be discrete Gaussian of parameter a on the multiples of w, and Y of parameter b on
the whole numbers. With s = a b / sqrt(a^2 + b^2) and some c_k,

    P(X + Y = k)  ~  exp(-k^2 / 2(a^2 + b^2)) sum_j exp(-(w j - c_k)^2 / 2s^2),

and by Poisson's formula the sum over j is a constant times 1 + r_k, |r_k| <= rho = 2 sum_{l>=1} exp(-2 pi^2 (s l/w)^2).
Hence X + Y is within total variation rho / (1 - rho) of the discrete Gaussian of parameter sqrt(a^2 + b^2).

Both are measured against the value on the lattice, which moves by at most sensitivity + 2 g sqrt(dim). Wrapping around
in the ring of the secure sum is a function of the sum, so it can cost accuracy but never privacy.

Correlated noise. Every maker remembers, and rounds, what it alone added, so that all of it together is no correlated
noise of one. But let the h honest ones share the sum x as well, in thought, s_k(x) = floor((x + k)/h), k = 0 .. h - 1,
which add up to x: then x and their noise is a function of the h rows  s_k(x) + W_k,  that is, of one run with
correlated noise in h dim coordinates. Where x moves by D, its parts move by at most D/h and one step in every
coordinate, all together by  D/sqrt(h) + g sqrt(h dim).  With D <= sensitivity + g sqrt(dim), where no batch is sampled,
that is the case of `privacy.correlated_noise` for a sensitivity of  sensitivity/sqrt(h)  in  h dim  dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from sordino.arrays import Array, Whole
from sordino.federation.joint import SCALE, JointSampler
from sordino.privacy.correlated_noise import CorrelatedNoise, NoiseOfRun
from sordino.privacy.correlation import Correlation
from sordino.privacy.discrete_gaussian import discrete_gaussian, rounding_distance
from sordino.privacy.events import Approximate, Gaussian, GaussianDP
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness

SMALLEST_SCALE = 2.0
"""Below two steps the sum of discrete Gaussians is not close to one."""

_UP, _DOWN = 1 + 2.0**-50, 1 - 2.0**-50  # outweigh the rounding of the few operations of one formula
_MARGIN = 1 + 2.0**-40
"""A hair more noise: it lowers the lattice's distance by 2^-39 of itself, which pays for that of the sum."""
_GAP = 2.55
"""(s/w)^2 of the lemma for joint noise: rho = 2.8e-22."""


class SharedNoise(Protocol):
    """Noise of which every maker adds a share, and some of which may be drawn jointly."""

    @property
    def sensitivity(self) -> float: ...
    @property
    def dim(self) -> int: ...
    @property
    def step(self) -> float: ...
    @property
    def makers(self) -> int: ...
    @property
    def joint(self) -> JointSampler | None: ...
    @property
    def event(self) -> Approximate:
        """What those who are not makers, together with the colluders among these, learn at most."""
        ...

    @property
    def std(self) -> float:
        """Of all the noise, the colluders' included."""
        ...

    def begin(self) -> Share:
        """One maker's part in a run."""
        ...


class Share(Protocol):
    def next(self, shape: tuple[int, ...], randomness: Randomness) -> Whole:
        """What one maker adds to the next sum, in steps."""
        ...


@dataclass(frozen=True)
class DistributedGaussian:
    """Each of `makers` adds a discrete Gaussian of parameter `scale` steps; `colluders` of them know their own."""

    sensitivity: float
    step: float
    scale: float
    dim: int
    makers: int
    colluders: int
    joint = None

    def __post_init__(self) -> None:
        _check_makers(self.makers, self.colluders)
        if not self.scale >= SMALLEST_SCALE:
            raise ValueError(
                f"a share of noise has {self.scale:.3g} steps: at least {SMALLEST_SCALE:g} are needed for the sum of "
                "shares to be as good as one Gaussian; take a finer grid, or fewer owners to share the noise."
            )

    @staticmethod
    def covering(noise: GaussianNoise, makers: int, colluders: int) -> DistributedGaussian:
        """At least as private as `noise`, on the same lattice."""
        _check_makers(makers, colluders)
        scale = noise.std / noise.step / math.sqrt(makers - colluders) * _MARGIN
        return DistributedGaussian(noise.sensitivity, noise.step, scale, noise.dim, makers, colluders)

    @property
    def std(self) -> float:
        return self.scale * math.sqrt(self.makers) * self.step

    @property
    def event(self) -> Approximate:
        honest = self.makers - self.colluders
        total = self.scale * math.sqrt(honest) * _DOWN
        distance = rounding_distance(total) + sum_distance(self.scale, honest)
        return _event(self.sensitivity, total, self.step, self.dim, distance)

    def begin(self) -> Self:
        """Every sum gets noise of its own."""
        return self

    def next(self, shape: tuple[int, ...], randomness: Randomness) -> Whole:
        return discrete_gaussian(self.scale, shape, randomness.noise)


@dataclass(frozen=True)
class JointGaussian:
    """`spacing` times a number that nobody knows, and from each of `makers` a discrete Gaussian of `scale` steps."""

    sensitivity: float
    step: float
    spacing: int
    scale: float
    dim: int
    makers: int
    colluders: int

    def __post_init__(self) -> None:
        _check_makers(self.makers, self.colluders)
        if 2 * self.colluders + 1 > self.makers:
            raise ValueError(
                f"{self.colluders} of {self.makers} owners may collude: joint noise needs an honest majority, at most "
                f"{(self.makers - 1) // 2} of them."
            )

    @staticmethod
    def covering(noise: GaussianNoise, makers: int, colluders: int) -> JointGaussian:
        """At least as private as `noise`, on a lattice twice as fine: that pays for the distance of the joint part."""
        _check_makers(makers, colluders)
        step = noise.step / 2
        # (s/w)^2 = a^2 b^2/(a^2 + b^2) = _GAP with a = SCALE w and b = fine w
        fine = math.sqrt(_GAP * SCALE**2 / (SCALE**2 - _GAP)) * _UP
        spacing = math.ceil(noise.std / step / math.hypot(SCALE, fine) * _MARGIN)
        scale = fine * spacing / math.sqrt(makers - colluders) * _UP
        return JointGaussian(noise.sensitivity, step, spacing, scale, noise.dim, makers, colluders)

    @property
    def joint(self) -> JointSampler:
        return JointSampler(self.spacing)

    @property
    def std(self) -> float:
        return math.hypot(self.joint.scale, self.scale * math.sqrt(self.makers)) * self.step

    @property
    def event(self) -> Approximate:
        honest = self.makers - self.colluders
        fine = self.scale * math.sqrt(honest) * _DOWN
        total = math.hypot(self.joint.scale, fine) * _DOWN
        distance = (
            rounding_distance(total)
            + sum_distance(self.scale, honest)
            + gap_distance(self.joint.scale, fine, self.spacing)
            + self.joint.distance
        )
        return _event(self.sensitivity, total, self.step, self.dim, distance)

    def begin(self) -> Self:
        """Every sum gets noise of its own."""
        return self

    def next(self, shape: tuple[int, ...], randomness: Randomness) -> Whole:
        return discrete_gaussian(self.scale, shape, randomness.noise)


@dataclass(frozen=True)
class CorrelatedShares:
    """Each of `makers` adds correlated noise of its own, whose fresh part has `scale` steps, to the sums of one run.

    For records that are taken in order: nothing here is said of batches that are sampled.
    """

    sensitivity: float
    step: float
    scale: float
    dim: int
    correlation: Correlation
    steps: int
    apart: int
    makers: int
    colluders: int
    joint = None

    def __post_init__(self) -> None:
        _check_makers(self.makers, self.colluders)
        if not self.correlation.remembers(self.scale):
            raise ValueError(
                f"{self.makers} members would remember shares of {self.scale:.3g} steps, more than are told apart when "
                "they are taken back: let a committee add the noise."
            )

    @staticmethod
    def covering(noise: CorrelatedNoise, makers: int, colluders: int) -> CorrelatedShares:
        """At least as private as `noise`, on a finer lattice: that pays for the distance of h times as many numbers."""
        _check_makers(makers, colluders)
        honest = makers - colluders
        step = noise.step / 2 ** (1 + math.ceil(math.log2(honest)))
        settings = (noise.dim, noise.correlation, noise.steps, noise.apart, makers, colluders)
        moved = CorrelatedShares(noise.sensitivity, step, 1.0, *settings)._moved
        return CorrelatedShares(noise.sensitivity, step, noise.multiplier * moved / step * _MARGIN, *settings)

    @property
    def honest(self) -> int:
        """h."""
        return self.makers - self.colluders

    @cached_property
    def _reach(self) -> float:
        return self.correlation.sensitivity(self.steps, self.apart)

    @property
    def _moved(self) -> float:
        """How far a record moves what the honest makers share of a sum, with what their rounding adds."""
        rows = self.correlation.touched(self.steps, self.apart)
        lattice = 2 * self.step * math.sqrt(self.honest * self.dim) * (1 + 2 * math.sqrt(rows) / self._reach)
        return (self.sensitivity / math.sqrt(self.honest) + lattice) * _UP

    @property
    def _spacing(self) -> int:
        """w, one where the sampler can draw it at once: else a discrete Gaussian on w Z, and one of 4 w on Z."""
        return 1 << max(0, math.ceil(math.log2(self.scale / 2.0**31)))

    @property
    def _coarse(self) -> float:
        """The parameter of the former, in units of w."""
        return math.sqrt((self.scale / self._spacing) ** 2 - 16) * _UP

    @property
    def event(self) -> Approximate:
        """The whole run, whatever part of it is seen."""
        mu = self._reach * self._moved / (self.scale * self.step) * _UP
        w, distance = self._spacing, rounding_distance(self.scale)
        if w > 1:
            distance += gap_distance(self._coarse * w, 4.0 * w, w)
        return Approximate(GaussianDP(mu), self.steps * self.honest * self.dim * distance * _UP)

    @property
    def std(self) -> float:
        """Of what all add to the sum of the last step."""
        kept = float(np.linalg.norm(self.correlation.inverse(self.steps)))
        return kept * self.scale * math.sqrt(self.makers) * self.step

    def fresh(self, shape: tuple[int, ...], randomness: Randomness) -> Whole:
        w, stream = self._spacing, randomness.noise
        if w == 1:
            return discrete_gaussian(self.scale, shape, stream)
        return w * discrete_gaussian(self._coarse, shape, stream) + discrete_gaussian(4.0 * w, shape, stream)

    def begin(self) -> NoiseOfRun:
        return NoiseOfRun(self)


def gap_distance(a: float, b: float, w: int) -> float:
    """The lemma: total variation between X + Y and one discrete Gaussian, for parameters a on w Z and b on Z."""
    s = a * b / math.hypot(a, b)
    q = math.exp(-2 * math.pi**2 * (s / w) ** 2 * _DOWN)
    # sum_{l >= 1} q^(l^2) <= q / (1 - q)
    rho = 2 * q / (1 - q) if q < 1 else math.inf
    return min(1.0, rho / (1 - rho) * _UP) if rho < 1 else 1.0


def sum_distance(scale: float, count: int) -> float:
    """Total variation between the sum of `count` discrete Gaussians and one of parameter scale sqrt(count)."""
    # one more at a time: s^2 = scale^2 k/(k + 1)
    return min(1.0, math.fsum(gap_distance(scale * math.sqrt(k), scale, 1) for k in range(1, count)))


def on_grid(value: Array, step: float, limit: int) -> Whole:
    """round(value / step), held to `limit`: two values move apart by at most sqrt(d) steps."""
    if not np.all(np.isfinite(value)):
        raise ValueError(
            "the sum to protect is not finite, nothing was sent: check that every contribution is clipped."
        )
    return np.clip(np.rint(value / step), -float(limit), float(limit)).astype(np.int64)


def _event(sensitivity: float, total: float, step: float, dim: int, distance: float) -> Approximate:
    multiplier = total * step / (sensitivity + 2 * step * math.sqrt(dim)) * _DOWN
    return Approximate(Gaussian(multiplier), dim * distance * _UP)


def _check_makers(makers: int, colluders: int) -> None:
    if not 0 <= colluders < makers:
        raise ValueError(
            f"{colluders} of {makers} who add noise may collude: at least one must be honest, or no noise is left."
        )
