"""The one way to the records.

A method that perturbs gradients calls `release`, which never returns an exact answer. Methods that perturb the output
or the objective may use the exact answers of an `ExactOracle`, and say so in their signature.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.query import Gradient
from sordino.oracle.sampling import Batch, Sampling
from sordino.privacy.noise import Noise
from sordino.privacy.randomness import Randomness

Array = NDArray[np.float64]


class Oracle(Protocol):
    """Holds the records; answers queries with noise."""

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch: ...
    def release(self, query: Gradient, noise: Noise, randomness: Randomness) -> Array: ...


class ExactOracle(Oracle, Protocol):
    """Also answers exactly, for methods that add their noise elsewhere."""

    def gradient(self, at: Array) -> Array:
        """(1/n) sum_i grad l(at; z_i), the penalty left out."""
        ...

    def value(self, at: Array) -> Array:
        """(1/n) sum_i l(at; z_i), the penalty left out."""
        ...
