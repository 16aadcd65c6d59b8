"""What a method may ask of the records. A query knows how far one record can move its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.oracle.sampling import Batch


@dataclass(frozen=True, eq=False)
class Gradient:
    """sum_{i in batch} clip(grad l(at; z_i), clip), a sum and not a mean: the method divides by a public count.

    `at` is one parameter vector, or a stack of them (last axis) for as many independent runs side by side. With a
    `softening` s > 0 a gradient g becomes clip g / (|g| + s) instead, whatever its length: shorter than the clip too.
    """

    at: NDArray[np.float64]
    clip: float
    batch: Batch = None
    softening: float = 0.0

    def sensitivity(self, relation: Relation) -> float:
        return relation.distance * self.clip


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Gradients of all records at stacks of points, each stack with a clip of its own, for one pass over the records.

    They are as many releases as there are points: every one is protected by noise for its own clip.
    """

    gradients: tuple[Gradient, ...]
    batch: ClassVar[Batch] = None

    def __post_init__(self) -> None:
        plain = (one.at.ndim == 2 and one.batch is None and not one.softening for one in self.gradients)
        if not self.gradients or not all(plain):
            raise ValueError(
                "only plain gradients of all records at stacks of points go side by side: ask for others alone."
            )

    @property
    def at(self) -> NDArray[np.float64]:
        return np.concatenate([one.at for one in self.gradients])

    @property
    def clips(self) -> NDArray[np.float64]:
        """One for every point."""
        return np.repeat([one.clip for one in self.gradients], [len(one.at) for one in self.gradients])


@dataclass(frozen=True, eq=False)
class CountedGradient:
    r"""A gradient's sum and, of the same records, how many have one within the clip, as one vector of dim + 1 numbers:

        ( (a/C) sum_i clip(g_i, C),   b sum_i (1[|g_i| <= C] - 1/2) ),       a^2 + b^2/4 = 1,   b = `count_weight`

    A record has length 1 in it at most, whatever C is, so that the noise need not follow C.
    """

    gradient: Gradient
    count_weight: float
    clip: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.count_weight < 2:
            raise ValueError(f"count_weight is {self.count_weight}: it lies between 0 and 2, or no gradient is left.")
        if self.gradient.softening:
            raise ValueError("gradients that are all scaled to the clip have no norms to count: leave softening out.")

    @property
    def at(self) -> NDArray[np.float64]:
        return self.gradient.at

    @property
    def batch(self) -> Batch:
        return self.gradient.batch

    @property
    def gradient_weight(self) -> float:
        """a."""
        return math.sqrt(1 - self.count_weight**2 / 4)

    def sensitivity(self, relation: Relation) -> float:
        return relation.distance * self.clip


@dataclass(frozen=True, eq=False)
class Difference:
    """sum_{i in batch} clip(grad l(at; z_i) - grad l(since; z_i), clip): each record's difference, clipped as one."""

    at: NDArray[np.float64]
    since: NDArray[np.float64]
    clip: float
    batch: Batch = None

    def sensitivity(self, relation: Relation) -> float:
        return relation.distance * self.clip


@dataclass(frozen=True, eq=False)
class Recursion:
    """(1 - mix) difference + mix gradient at the same point, over the same batch, released as one vector.

    A record moves it by (1 - mix) times what it moves the difference and mix times what it moves the gradient.
    """

    difference: Difference
    gradient: Gradient
    mix: float

    def __post_init__(self) -> None:
        if not 0 <= self.mix <= 1:
            raise ValueError(f"mix is {self.mix}: it weighs two sums and lies in [0, 1].")
        if self.difference.at is not self.gradient.at or self.difference.batch is not self.gradient.batch:
            raise ValueError("a recursion mixes two sums at one point over one batch: give both the same arrays.")

    @property
    def at(self) -> NDArray[np.float64]:
        return self.gradient.at

    @property
    def batch(self) -> Batch:
        return self.gradient.batch

    @property
    def clip(self) -> float:
        return (1 - self.mix) * self.difference.clip + self.mix * self.gradient.clip

    def sensitivity(self, relation: Relation) -> float:
        return relation.distance * self.clip


StepQuery = Gradient | CountedGradient | Difference | Recursion
"""What one step of a descent may ask for."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Which j has the least  sum_i min(l(points_j; z_i), clip) + extra_j,  `extra` being public: a penalty's values.

    A record adds between 0 and `clip` to every score, so replacing one moves a score by `clip` at most, and so does
    adding one, which raises them all.
    """

    points: NDArray[np.float64]
    clip: float
    extra: NDArray[np.float64]

    def sensitivity(self, relation: Relation) -> float:
        return self.clip


@dataclass(frozen=True, eq=False)
class ClippedLoss:
    """sum_i min(l(at; z_i), clip), one number for every parameter vector of a stack.

    A record adds between 0 and `clip`, so replacing one moves the sum by `clip` at most, and so does adding one.
    """

    at: NDArray[np.float64]
    clip: float

    def sensitivity(self, relation: Relation) -> float:
        return self.clip
