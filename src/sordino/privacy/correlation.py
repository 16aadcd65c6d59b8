r"""Noise of a run whose steps cancel one another: which filter it goes through, and what a record can then learn.

A run releases sums g_0, .., g_{T-1}, row by row, as g + C^-1 Z, with Z independent Gaussians of size sigma and C lower
triangular with C_ts = c_{t-s}, c_0 = 1 (matrix factorisation; Denisov, McMahan, Rush, Smith and Thakurta 2022). The
steps' noise adds up to much less than T independent ones, because every step takes back a part of what the steps before
it added.

Privacy. The outputs are a bijection of C g + Z. If a record takes part in the steps of a set pi, the rows of C g move
by at most Delta S together, whatever the steps depend on,

    S^2 = max over pi of  sum_{s, s' in pi} |(C^T C)_{ss'}|,

and Gaussians whose shifts are chosen in view of earlier outputs, under a bound on their total, are as private as one
Gaussian of that shift: mu = Delta S / sigma (Smith and Thakurta 2022). Where c_0 >= c_1 >= .. >= 0 and two steps of pi
are at least b apart, the worst pi is {0, b, 2b, ..} (Kalinin and Lampert 2024, Theorem 2), which makes S a sum.

Such c also have no zero of c(x) in the closed unit disc where c_1 < 1 (Enestrom and Kakeya), so that the filter 1/c is
stable: what a run adds never grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from sordino.arrays import Array, Whole

MOST_STEPS, MOST_PARTICIPATIONS = 10**6, 10**5
"""Of a run with correlated noise, and of a record in it: whoever verifies it adds them up."""

MOST_BANDS = 128

SLOWEST_DECAY = 1 - 2.0**-17
"""Of a buffer: rounding of less than 2^-52 of 2^34 steps, added up 2^17 times, is less than half a step."""

LARGEST_SCALE = 2.0**36
"""Of fresh noise, in steps: a sum of some bands of it is rounded by less than half a step in doubles."""

_UP = 1 + 2.0**-40
"""Outweighs the rounding of a sum of positive terms."""


class Memory(Protocol):
    """What a run remembers of the noise that it added, in whole steps of its lattice. It is as secret as the noise."""

    def feedback(self) -> Array:
        """sum_{j >= 1} c_j W_{t-j}."""
        ...

    def add(self, noise: Array | Whole) -> None:
        """Takes in W_t."""
        ...


@dataclass(frozen=True)
class BandedToeplitz:
    """c = (1, c_1, .., c_{p-1}) with 1 > c_1 >= c_2 >= .. > 0: p bands. Without coefficients noise is independent."""

    coefficients: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        c = (1.0, *self.coefficients)
        if not (all(math.isfinite(x) and x > 0 for x in c) and sorted(c, reverse=True) == list(c)):
            raise ValueError("the coefficients of a banded correlation must be positive and must not grow.")
        if self.coefficients and not self.coefficients[0] < 1:
            raise ValueError(
                f"the first coefficient of a banded correlation is {self.coefficients[0]}: it must be below 1, or the "
                "noise of a run would not die out."
            )
        if self.bands > MOST_BANDS:
            raise ValueError(f"a correlation of {self.bands} bands: at most {MOST_BANDS} are supported.")

    @property
    def bands(self) -> int:
        """p."""
        return 1 + len(self.coefficients)

    @property
    def norm(self) -> float:
        """|c|, rounded up: how far one participation moves the rows of C g, in units of its contribution."""
        return math.sqrt(math.fsum(x * x for x in (1.0, *self.coefficients))) * _UP

    def sensitivity(self, steps: int, apart: int) -> float:
        """S. Columns of one record are orthogonal where p <= b; the last one may be cut off by the end of the run."""
        times = participations(steps, apart)
        if self.bands > apart:
            raise ValueError(
                f"a correlation of {self.bands} bands, and a record may come back after {apart} steps: take at most "
                f"{apart} bands."
            )
        last = (1.0, *self.coefficients)[: steps - (times - 1) * apart]
        return math.sqrt((times - 1) * self.norm**2 + math.fsum(x * x for x in last)) * _UP

    def touched(self, steps: int, apart: int) -> int:
        """How many rows a record moves at most."""
        return participations(steps, apart) * self.bands

    def inverse(self, steps: int) -> Array:
        """r = 1/c, as many coefficients as there are steps: what Z_0 adds to each of them."""
        from scipy.signal import lfilter

        r: Array = lfilter([1.0], [1.0, *self.coefficients], np.eye(1, steps)[0])
        return r

    def remembers(self, scale: float) -> bool:
        """Whether what doubles round of the feedback is below half a step, for fresh noise of `scale` steps."""
        return scale <= LARGEST_SCALE

    def memory(self, shape: tuple[int, ...]) -> Memory:
        return _Ring(self.coefficients, shape)


@dataclass(frozen=True)
class BufferedToeplitz:
    """c_j = scale decay^(j-1) for j >= 1, with 0 < scale < decay < 1: one vector of memory.

    The inverse is as simple:  r_j = -scale (decay - scale)^(j-1)  (buffered linear Toeplitz; McMahan, Xu and Zhang
    2024). The memory is a sum in doubles, whose rounding dies out as the decay does: a decay next to 1 is refused, so
    that it stays below half a step of the lattice (`privacy.correlated_noise`). No run of at most `MOST_STEPS` steps
    gains by one.
    """

    scale: float
    decay: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < self.decay < 1:
            raise ValueError(
                f"scale is {self.scale} and decay is {self.decay}: a buffered correlation needs 0 < scale < decay < 1."
            )
        if self.decay > SLOWEST_DECAY:
            raise ValueError(
                f"decay is {self.decay}, and at most {SLOWEST_DECAY} is supported: the memory of the noise would be "
                "rounded faster than it forgets."
            )

    def sensitivity(self, steps: int, apart: int) -> float:
        r"""S, with s the scale and q the decay. In the rows after the m-th participation, r = 1, 2, .. steps later,

        sum_j c_{t-jb} = s q^(r-1) (1 + q^b + .. + q^(mb)),        and  1 + s q^(b-1) (1 + .. + q^((m-1)b))  at r = 0.
        """
        s, q, times = self.scale, self.decay, participations(steps, apart)
        earlier = -np.expm1(np.arange(times + 1) * (apart * math.log(q))) / -math.expm1(apart * math.log(q))
        rows = np.full(times, float(apart))
        rows[-1] = steps - (times - 1) * apart
        later = -np.expm1(2 * (rows - 1) * math.log(q)) / -math.expm1(2 * math.log(q))
        own = 1 + s * q ** (apart - 1) * earlier[:-1]
        return math.sqrt(math.fsum(own**2) + s**2 * math.fsum(earlier[1:] ** 2 * later)) * _UP

    def touched(self, steps: int, apart: int) -> int:
        return steps

    def inverse(self, steps: int) -> Array:
        r = -self.scale * (self.decay - self.scale) ** np.arange(-1.0, steps - 1)
        r[:1] = 1.0
        return r

    def remembers(self, scale: float) -> bool:
        """The same. The feedback has a deviation of at most `scale`, and stays below 16 of them.

        Every step rounds it by 2^-52 of that at most, and what was rounded fades with the decay.
        """
        return scale <= LARGEST_SCALE and 2.0**-52 * 16 * scale <= 0.5 * (1 - self.decay)

    def memory(self, shape: tuple[int, ...]) -> Memory:
        return _Buffer(self.scale, self.decay, shape)


Correlation = BandedToeplitz | BufferedToeplitz


def participations(steps: int, apart: int) -> int:
    """How often a record can take part in a run, where two steps that it takes part in are `apart` or more apart."""
    if not (1 <= steps <= MOST_STEPS and apart >= 1 and steps <= apart * MOST_PARTICIPATIONS):
        raise ValueError(
            f"{steps} steps, of which a record takes part in some that are {apart} apart: correlated noise is for 1 to "
            f"{MOST_STEPS} steps that are at least one apart, and at most {MOST_PARTICIPATIONS} of them with a record."
        )
    return -(-steps // apart)


class _Ring:
    """The last p - 1 rows. Whole numbers below 2^53 in doubles, so that nothing of them is rounded."""

    def __init__(self, coefficients: tuple[float, ...], shape: tuple[int, ...]) -> None:
        self._weights = _turned(coefficients)
        self._rows = np.zeros((len(coefficients), math.prod(shape)))
        self._shape, self._next = shape, 0

    def feedback(self) -> Array:
        if not len(self._rows):
            return np.zeros(self._shape)
        # row i was added (next - i) mod (p - 1) steps ago, a whole turn for the next to be overwritten
        found: Array = (self._weights[self._next] @ self._rows).reshape(self._shape)
        return found

    def add(self, noise: Array | Whole) -> None:
        if len(self._rows):
            self._rows[self._next] = noise.reshape(-1)
            self._next = (self._next + 1) % len(self._rows)


@lru_cache(maxsize=8)
def _turned(coefficients: tuple[float, ...]) -> Array:
    """Row k holds the coefficients of the ring's rows when its k-th is the next to be overwritten."""
    size = len(coefficients)
    ago = (np.arange(size)[:, None] - np.arange(size)[None, :] - 1) % max(1, size)
    turned: Array = np.asarray(coefficients)[ago] if size else np.zeros((0, 0))
    return turned


class _Buffer:
    """u_t = sum_j q^j W_{t-1-j}."""

    def __init__(self, scale: float, decay: float, shape: tuple[int, ...]) -> None:
        self._scale, self._decay, self._sum = scale, decay, np.zeros(shape)

    def feedback(self) -> Array:
        return self._scale * self._sum

    def add(self, noise: Array | Whole) -> None:
        self._sum *= self._decay
        self._sum += noise
