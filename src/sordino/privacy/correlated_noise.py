r"""Gaussian noise that is correlated over the steps of a run, on the lattice of `privacy.noise`.

In whole steps of the lattice, g, with x_t the sum of step t rounded to it and Z_t a discrete Gaussian of size std/g,

    W_t = Z_t - round( sum_{j >= 1} c_j W_{t-j} ),        released is  g (x_t + W_t).

Privacy. Given what was released, x' for x means W' = W + (x - x') and

    Z' - Z = C (x - x') + e,       e_t = what rounding changed,     |e_t| <= 2 in every coordinate,

because either of two sums is rounded by half a step, and by far less in doubles before that (W is whole and below 2^40,
except with a probability that no budget has). e_t = 0 unless a participation lies in the rows that c reaches back to.
C (x - x') + e is whole, as the argument of `GaussianNoise` needs: the law of round(N) moved by whole numbers, row by
row, each chosen in view of the rows before it. A sum is moved by at most sensitivity + g sqrt(dim); where batches are
sampled and a record is replaced, either of its two contributions grows by that much, so it counts twice, and so does e.
With S of `privacy.correlation` and the rows that a record reaches,

    the rows of Z move by at most  S (sensitivity + 2 g sqrt(dim)) + 4 g sqrt(dim rows),        mu = that / std.

What was added in the steps before, W, is secret: whoever has it and what was released has the sums. It lives in one
object for one run (`begin`), which cannot be copied or written down, refuses to go on in a child process, and adds
noise to as many sums as were planned, each once.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, Protocol

import numpy as np

from sordino.arrays import Array, Whole
from sordino.privacy.correlation import BandedToeplitz, Correlation, Memory, participations
from sordino.privacy.discrete_gaussian import rounding_distance
from sordino.privacy.events import Approximate, Gaussian, GaussianDP
from sordino.privacy.noise import GaussianNoise, add_to, shaped
from sordino.privacy.randomness import Randomness

_UP, _DOWN = 1 + 2.0**-50, 1 - 2.0**-50

_LARGEST_MEMORY = 2**28
"""Numbers that a run may have to remember: two gigabytes."""


@dataclass(frozen=True)
class CorrelatedNoise:
    """For `steps` sums, two of which a record moves by `sensitivity` each only if they are `apart` steps apart or more.

    `std` is that of the independent Z; what a step adds to its sum is larger, and what the steps add together smaller.
    """

    sensitivity: float
    std: float
    dim: int
    correlation: Correlation
    steps: int
    apart: int

    def __post_init__(self) -> None:
        _ = self._fresh
        _ = self.reach
        rows = self.correlation.bands - 1 if isinstance(self.correlation, BandedToeplitz) else 1
        if rows * self.dim > _LARGEST_MEMORY:
            raise ValueError(
                f"noise that remembers {rows} steps of {self.dim} numbers would fill the memory: take fewer bands."
            )

    @staticmethod
    def at(
        multiplier: float, sensitivity: float, dim: int, correlation: Correlation, steps: int, apart: int
    ) -> CorrelatedNoise:
        """The noise of this multiplier or a hair more, the lattice's share included."""
        std = GaussianNoise.at(multiplier, sensitivity, dim).std
        for _ in range(4):
            noise = CorrelatedNoise(sensitivity, std, dim, correlation, steps, apart)
            if noise.multiplier >= multiplier:
                return noise
            std = multiplier * (sensitivity + noise.lattice) * (1 + 2.0**-48)
        raise ValueError(
            f"multiplier {multiplier} in {dim} dimensions: the lattice's step would be coarse beside the sensitivity. "
            "Ask for less noise, or fewer steps."
        )

    @property
    def _fresh(self) -> GaussianNoise:
        """Z by itself."""
        return GaussianNoise(self.sensitivity, self.std, self.dim)

    @property
    def step(self) -> float:
        """g, the lattice's step."""
        return self._fresh.step

    @cached_property
    def reach(self) -> float:
        """S: how far a record moves the rows of Z, in units of how far it moves a sum."""
        return self.correlation.sensitivity(self.steps, self.apart)

    @property
    def lattice(self) -> float:
        """What the lattice adds to the sensitivity."""
        rows = self.correlation.touched(self.steps, self.apart)
        return 2 * self.step * math.sqrt(self.dim) * (1 + 2 * math.sqrt(rows) / self.reach) * _UP

    @property
    def multiplier(self) -> float:
        """std / (sensitivity + lattice), rounded down."""
        return self.std / (self.sensitivity + self.lattice) * _DOWN

    @property
    def distance(self) -> float:
        """Total variation between one row of Z and a rounded Gaussian."""
        return self.dim * rounding_distance(self.std / self.step) * _UP

    @property
    def event(self) -> Approximate:
        """The whole run, every sum of which may be seen; a run that ends early has told less."""
        return Approximate(GaussianDP(self.reach / self.multiplier * _UP), self.steps * self.distance)

    @property
    def participation(self) -> Approximate:
        """What one participation shows in the rows that it reaches, where those of no two overlap."""
        if not isinstance(self.correlation, BandedToeplitz) or self.correlation.bands > self.apart:
            raise ValueError(
                "this noise remembers longer than a record stays away, so that its participations cannot be counted "
                "one by one: sample groups of records with bands, at most as many as there are groups."
            )
        return Approximate(Gaussian(self.multiplier / self.correlation.norm * _DOWN), self.apart * self.distance)

    @property
    def participations(self) -> int:
        return participations(self.steps, self.apart)

    def fresh(self, shape: tuple[int, ...], randomness: Randomness) -> Whole:
        """Z_t, in whole steps."""
        return self._fresh.draw(shape, randomness)

    def begin(self) -> NoiseOfRun:
        """The noise of one run, which begins with it."""
        return NoiseOfRun(self)


class Remembered(Protocol):
    """Noise of which later steps take back what earlier ones added: all of it, or one owner's share."""

    @property
    def sensitivity(self) -> float: ...
    @property
    def dim(self) -> int: ...
    @property
    def step(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def correlation(self) -> Correlation: ...
    @property
    def event(self) -> Approximate: ...
    def fresh(self, shape: tuple[int, ...], randomness: Randomness) -> Whole: ...


class NoiseOfRun:
    """Adds the noise of one run to its sums, in their order. What it added is known to itself alone."""

    __slots__ = ("_left", "_memory", "_process", "_shape", "noise")

    def __init__(self, noise: Remembered) -> None:
        self.noise, self._left, self._process = noise, noise.steps, os.getpid()
        self._memory: Memory | None = None
        self._shape: tuple[int, ...] = ()

    @property
    def sensitivity(self) -> float:
        return self.noise.sensitivity

    @property
    def dim(self) -> int:
        return self.noise.dim

    @property
    def event(self) -> Approximate:
        return self.noise.event

    def perturb(self, value: Array, randomness: Randomness) -> Array:
        value = shaped(value, self.noise.dim)
        return add_to(value, self.next(value.shape, randomness), self.noise.step)

    def next(self, shape: tuple[int, ...], randomness: Randomness) -> Whole:
        """W_t, in whole steps: what is added to the next sum."""
        noise = self.noise
        if self._process != os.getpid():
            raise RuntimeError(
                "a run with correlated noise goes on in another process: both would add other noise to the same steps, "
                "and the difference would show the records. Begin a run there."
            )
        if self._memory is None:
            self._memory, self._shape = noise.correlation.memory(shape), shape
        if shape != self._shape:
            raise ValueError(f"a sum of shape {shape} in a run whose first one had {self._shape}.")
        if not self._left:
            raise ValueError(
                f"all {noise.steps} sums that this noise was planned for have been released: plan a run of more steps."
            )
        self._left -= 1
        W = noise.fresh(shape, randomness)
        W -= np.rint(self._memory.feedback()).astype(np.int64)
        self._memory.add(W)
        return W

    def __copy__(self) -> NoReturn:
        raise TypeError(
            "the noise of a run cannot be copied or pickled: both copies would add other noise to the same steps, and "
            "the difference would show the records. Begin another run."
        )

    def __deepcopy__(self, memo: dict[int, object]) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        self.__copy__()

    def __repr__(self) -> str:
        return f"NoiseOfRun({self.noise!r})"
