r"""Noise on a lattice, each with the event it earns.

A double holds 53 bits, so value + noise computed in doubles can leave the value's low bits in the result: the set of
results that can occur depends on the value, and one result may rule out a neighbour altogether (Mironov 2012). Here
the value is rounded to whole multiples of a step g that depends on the noise alone, whole numbers are added, and the
sum times g is released: whatever the value, every multiple of g can occur.

    release = g (round(value / g) + Z),    Z whole,    g a power of two, 2^-30 to 2^-26 of the noise's size.

Rounding moves each coordinate by at most g/2, hence two values apart by C to at most C + g sqrt(dim). Where batches are
sampled and a record is replaced, each of its two contributions is compared with a batch without it, and either may grow
by that much: a sensitivity of 2C becomes 2(C + g sqrt(dim)). So the noise is measured against
sensitivity + 2 g sqrt(dim), which covers both relations, sampled or not. Beyond 2^53 steps the product is rounded to a
double, a function of what was already protected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.privacy.discrete_gaussian import FEW, discrete_gaussian, discrete_gaussian_rows, rounding_distance
from sordino.privacy.events import Approximate, Event, Gaussian, PureDP, compose
from sordino.privacy.ledger_context import require_release
from sordino.privacy.randomness import Randomness
from sordino.privacy.scale_mixture import deviations
from sordino.privacy.team import present

_LARGEST_STEPS = 2.0**62
_SMALLEST_SCALE, _LARGEST_SCALE = 2.0**-900, 2.0**900  # the step and its inverse are ordinary doubles
_ROUNDING = 4.0  # steps
_UP, _DOWN = 1 + 2.0**-50, 1 - 2.0**-50  # outweigh the rounding of the few operations of one formula


class Noise(Protocol):
    """What protects a vector of `dim` coordinates that one record moves by at most `sensitivity` (Euclidean)."""

    @property
    def sensitivity(self) -> float: ...
    @property
    def dim(self) -> int: ...
    @property
    def event(self) -> Event: ...

    def perturb(self, value: Array, randomness: Randomness) -> Array:
        """`value` has shape (..., dim); every row gets noise of its own."""
        ...


@dataclass(frozen=True)
class GaussianNoise:
    r"""value + N(0, std^2 I), through the discrete Gaussian of parameter s = std/g, 2^30 <= s < 2^31.

    Privacy. Let x be the value rounded to the lattice, in units of g: it moves by at most sensitivity/g + 2 sqrt(dim).
    1. round(x + N(0, s^2 I)) is the Gaussian mechanism of multiplier std / (sensitivity + 2 g sqrt(dim)), rounded.
    2. x is whole, so that is x + round(N(0, s^2 I)), and each of its coordinates is within `rounding_distance(s)`
       < 2e-20 in total variation of x + discrete Gaussian, which is released; independent coordinates add up.
    """

    sensitivity: float
    std: float
    dim: int

    def __post_init__(self) -> None:
        _check(self.sensitivity, self.dim)
        _check_scale("std", self.std)

    @staticmethod
    def at(multiplier: float, sensitivity: float, dim: int) -> GaussianNoise:
        """The noise whose event has this multiplier or a hair more, the lattice's share included."""
        _check(sensitivity, dim)
        if not (math.isfinite(multiplier) and multiplier > 0):
            raise ValueError(f"multiplier is {multiplier}: Gaussian noise needs a positive finite one.")
        std = multiplier * sensitivity
        # std = multiplier (sensitivity + 2 g(std) sqrt(dim)), where g is constant between powers of two
        for _ in range(3):
            _check_scale("multiplier times sensitivity", std)
            noise = GaussianNoise(sensitivity, std, dim)
            if noise.multiplier >= multiplier:
                return noise
            std = multiplier * (sensitivity + 2 * noise.step * math.sqrt(dim)) * (1 + 2.0**-48)
        raise ValueError(
            f"multiplier {multiplier} in {dim} dimensions: the lattice's step would be coarse beside the sensitivity. "
            "Ask for a multiplier below 2^27 / sqrt(dim)."
        )

    @property
    def step(self) -> float:
        """g, the lattice's step."""
        return _step(self.std, 30)

    @property
    def multiplier(self) -> float:
        """std / (sensitivity + 2 g sqrt(dim)), rounded down."""
        return self.std / (self.sensitivity + 2 * self.step * math.sqrt(self.dim)) * _DOWN

    @property
    def event(self) -> Approximate:
        return Approximate(Gaussian(self.multiplier), self.dim * rounding_distance(self.std / self.step) * _UP)

    def perturb(self, value: Array, randomness: Randomness) -> Array:
        value = shaped(value, self.dim)
        return add_to(value, self.draw(value.shape, randomness), self.step)

    def begin(self) -> GaussianNoise:
        """As a run adds it: every time anew (see `privacy.correlated_noise` for noise that remembers)."""
        return self

    def draw(self, shape: tuple[int, ...], randomness: Randomness) -> NDArray[np.int64]:
        """Noise for one value of this shape, in whole steps."""
        return discrete_gaussian(self.std / self.step, shape, randomness.noise)


@dataclass(frozen=True)
class L2LaplaceNoise:
    r"""value + z, density of z ~ exp(-|z|/scale), Euclidean norm: |z| ~ scale Gamma(dim), in a uniform direction.

    Privacy. With scale = (sensitivity + g sqrt(dim)) / epsilon the density's logarithm moves by at most epsilon
    between the lattice points of two neighbours (Hardt and Talwar 2010).

    Such a z is a Gaussian N(0, (scale a)^2 I) of random a (`scale_mixture`). Rounding that to the lattice at random, to
    k with probability ~ exp(-|k - z|^2 / 2w^2), gives the discrete Gaussian of variance (scale a)^2 + w^2, up to a
    factor 1 +- 4 exp(-2 pi^2 w^2) in every coordinate (Poisson's formula), which is 1 +- 10^-136 for w of four steps.
    So what is released is computed from the continuous mechanism, and is as private. Doubles enter through a and
    its probability alone: they change probabilities by a factor 1 +- `_residue` at most, which epsilon pays for, except
    in an event of probability 2^-1000.
    """

    sensitivity: float
    epsilon: float
    dim: int

    def __post_init__(self) -> None:
        _check(self.sensitivity, self.dim)
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon is {self.epsilon}: it must be a positive finite number.")
        if not self.epsilon > 4 * self._residue:
            raise ValueError(
                f"epsilon is {self.epsilon}: noise in {self.dim} dimensions is exact to {self._residue:g}."
            )
        _check_scale("sensitivity / epsilon", self.sensitivity / self.epsilon)

    @property
    def step(self) -> float:
        """g, the lattice's step: 2^26 or more of them in a coordinate's standard deviation, which leaves room for a."""
        return _step(self.sensitivity / self.epsilon * math.sqrt(self.dim + 1), 26)

    @property
    def scale(self) -> float:
        """(sensitivity + g sqrt(dim)) / epsilon, rounded up; less of epsilon where rounding takes its share."""
        left = self.epsilon - 2 * self._residue
        return (self.sensitivity + self.step * math.sqrt(self.dim)) / left * _UP

    @property
    def std(self) -> float:
        """Of a coordinate: |z|^2 is dim (dim + 1) scale^2 on average."""
        return self.scale * math.sqrt(self.dim + 1)

    @property
    def _residue(self) -> float:
        return 1e-11 + 1e-15 * self.dim

    @property
    def event(self) -> PureDP:
        return PureDP(self.epsilon)

    def perturb(self, value: Array, randomness: Randomness) -> Array:
        value = shaped(value, self.dim)
        a = deviations(self.dim, math.prod(value.shape[:-1]), randomness.noise)
        scales = np.hypot(self.scale / self.step * a, _ROUNDING)
        return add_to(value, discrete_gaussian_rows(scales, self.dim, randomness.noise), self.step)


@dataclass(frozen=True)
class NoisePerRow:
    """For a stack of values that are as many releases: every row has noise of its own kind, as if it came alone."""

    noises: tuple[Noise, ...]

    @property
    def sensitivity(self) -> float:
        """What every one of them was made for."""
        return min(noise.sensitivity for noise in self.noises)

    @property
    def dim(self) -> int:
        return self.noises[0].dim

    @property
    def event(self) -> Event:
        """Of all rows together."""
        return compose(*(noise.event for noise in self.noises))

    def perturb(self, value: Array, randomness: Randomness) -> Array:
        if len(value) != len(self.noises):
            raise ValueError(f"{len(value)} values and noise for {len(self.noises)} of them: every row needs its own.")
        perturbed, first = [], 0
        for noise, alike in groupby(self.noises):
            last = first + len(list(alike))
            perturbed.append(noise.perturb(value[first:last], randomness))
            first = last
        return np.concatenate(perturbed)


def _check(sensitivity: float, dim: int) -> None:
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise ValueError(
            f"sensitivity is {sensitivity}: it must be a positive finite number, a bound on how far one record moves "
            "the value."
        )
    if not (isinstance(dim, int) and dim >= 1):
        raise ValueError(f"dim is {dim!r}: noise needs a whole number of coordinates, at least one.")


def _check_scale(name: str, scale: float) -> None:
    if not _SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise ValueError(
            f"{name} is {scale}: it must be positive, between 1e-270 and 1e270, so that the lattice fits into doubles. "
            "Without noise nothing is private; at such magnitudes express the value in other units."
        )


def _step(std: float, bits: int) -> float:
    # 2^(e-1) <= std < 2^e
    return math.ldexp(1.0, math.frexp(std)[1] - 1 - bits)


def shaped(value: Array, dim: int) -> Array:
    """The value as a contiguous array of single or double precision; the former is exact as it is."""
    kind = np.float32 if getattr(value, "dtype", None) == np.float32 else np.float64
    value = np.asarray(value, dtype=kind, order="C")
    if value.shape[-1:] != (dim,):
        raise ValueError(f"the value has shape {value.shape}: noise in {dim} dimensions needs (..., {dim}).")
    return value


def add_to(value: Array, noise: NDArray[np.int64], step: float) -> Array:
    """step (round(value / step) + noise), written over the noise. The sentences name no private number."""
    require_release()
    if noise.size <= FEW:
        fits = _add_few(value.reshape(-1), noise.reshape(-1), step)
    else:
        from sordino.privacy.noise_kernels import add_on_lattice

        fits = add_on_lattice(value.reshape(-1), noise.reshape(-1), step, _LARGEST_STEPS, present(noise.size))
    if not fits:
        if not np.all(np.isfinite(value)):
            raise ValueError(
                "the value to protect is not finite, nothing was released: check the records for missing or infinite "
                "numbers, and that every contribution is clipped."
            )
        raise ValueError(
            "the value to protect is more than 2^31 times larger than the noise, nothing was released: check that "
            "every contribution is clipped, and that value and sensitivity are in the same units."
        )
    return noise.view(np.float64).reshape(value.shape)


def _add_few(value: Array, noise: NDArray[np.int64], step: float) -> bool:
    """`noise_kernels.add_on_lattice`, bit for bit, in NumPy."""
    # what is not a number fails the comparison
    if not (np.abs(value) < _LARGEST_STEPS * step).all():
        return False
    total = np.rint(np.multiply(value, 1.0 / step, dtype=np.float64)).astype(np.int64) + noise
    np.multiply(total, step, out=noise.view(np.float64))
    return True
