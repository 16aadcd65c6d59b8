"""The one way to the records.

A method that perturbs gradients calls `release`, which never returns an exact answer. Methods that perturb the output
or the objective may use the exact answers of an `ExactOracle`, and say so in their signature.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.query import Choice, Gradient
from sordino.oracle.sampling import Batch, Sampling
from sordino.privacy.noise import Noise
from sordino.privacy.randomness import Randomness
from sordino.privacy.selection import NoisyMinimum

Array = NDArray[np.float64]


class Oracle(Protocol):
    """Holds the records; answers queries with noise."""

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch: ...
    def release(self, query: Gradient, noise: Noise, randomness: Randomness) -> Array: ...


class ChoosingOracle(Oracle, Protocol):
    """Also names the best of several parameters, with noise in the choice."""

    def choose(self, query: Choice, selection: NoisyMinimum, randomness: Randomness) -> int: ...


class ExactOracle(Oracle, Protocol):
    """Also answers exactly, for methods that add their noise elsewhere."""

    def gradient(self, at: Array, batch: Batch = None) -> Array:
        """(1/n) sum_{i in batch} grad l(at; z_i), the penalty left out: n is the problem's, whatever the batch."""
        ...

    def value(self, at: Array) -> Array:
        """(1/n) sum_i l(at; z_i), the penalty left out."""
        ...
