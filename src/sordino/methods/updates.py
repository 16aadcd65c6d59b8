r"""How a noisy gradient becomes a step. g_t is the noisy mean over a batch, r_t = grad r(w_t) the penalty's own.

Plain                 w_{t+1} = Pi( w_t - eta_t (g_t + r_t) )
Momentum              m_t = rho m_{t-1} + g_t + r_t,                           w_{t+1} = Pi( w_t - eta_t m_t )
QuantileClip          the same, g_t clipped at C_t,     C_{t+1} = C_t exp( -(c_t - 1/2)/5 ),
                      c_t a noisy share of the batch with gradients within C_t, from the same release as g_t
Moments               m_t = beta_1 m_{t-1} + (1 - beta_1) (g_t + r_t),     psi_t likewise of (g_t + r_t)^2, by beta_2,
                      w_{t+1} = Pi( w_t - eta_t m_t / (sqrt(min(psi_t, lambda)) + nu) ),      coordinate by coordinate
         unbiased     w_{t+1} = Pi( w_t - eta_t m_t / sqrt(max(psi_t - nu^2, floor_t)) ),     nu a coordinate's noise
Recursive             v_t = (1 - gamma) v_{t-1} + g_t,       g_t from differences since w_{t-1} after the first step,
                      w_{t+1} = Pi( w_t - eta_t (v_t + r_t) ),      a step no longer than `reach` where there is one
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from sordino.arrays import Array
from sordino.oracle.query import CountedGradient, Difference, Gradient, Recursion

MomentsKind = Literal["plain", "corrected", "unbiased"]

CLIP_RATE, FARTHEST = 0.2, math.log(1e4)


class Update(Protocol):
    """Keeps `arrays` arrays like w between steps. They are zero at first, and every step overwrites them."""

    arrays: ClassVar[int]

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient | CountedGradient | Recursion:
        """What step t asks the records for, given the gradient's sum that it would ask for by default."""
        ...

    def move(self, w: Array, g: Array, r: Array, eta: float, memory: Array, t: int) -> Array:
        """w_t - w_{t+1} before the projection."""
        ...


@dataclass(frozen=True)
class Plain:
    arrays: ClassVar[int] = 0

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient:
        return gradient

    def move(self, w: Array, g: Array, r: Array, eta: float, memory: Array, t: int) -> Array:
        return eta * (g + r)


@dataclass(frozen=True)
class Momentum:
    """`decay` is rho."""

    decay: float
    arrays: ClassVar[int] = 1

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient:
        return gradient

    def move(self, w: Array, g: Array, r: Array, eta: float, memory: Array, t: int) -> Array:
        m: Array = memory[0]
        m *= self.decay
        m += g
        m += r
        return eta * m


@dataclass(frozen=True)
class QuantileClip:
    """Momentum with a clip that follows the median of the gradients' norms (Andrew et al. 2021), from `first` on.

    C_t follows from what was released, and stays within 10^-4 and 10^4 of the first. `count_weight` is that of the
    count in the release (`CountedGradient`), of which g_t is the rest.
    """

    decay: float
    first: float
    count_weight: float
    arrays: ClassVar[int] = 2

    def query(self, gradient: Gradient, memory: Array, t: int) -> CountedGradient:
        return CountedGradient(replace(gradient, clip=self._clip(memory)), self.count_weight)

    def move(self, w: Array, g: Array, r: Array, eta: float, memory: Array, t: int) -> Array:
        C, m = self._clip(memory), memory[0]
        m *= self.decay
        m += C / math.sqrt(1 - self.count_weight**2 / 4) * g[:-1]
        m += r
        within = 0.5 + g[-1] / self.count_weight
        # log(C_{t+1} / C_0)
        memory[1] = np.clip(memory[1] - CLIP_RATE * (within - 0.5), -FARTHEST, FARTHEST)
        moved: Array = eta * m
        return moved

    def _clip(self, memory: Array) -> float:
        return self.first * math.exp(memory[1].flat[0])


@dataclass(frozen=True)
class Moments:
    """`mean_decay` and `square_decay` are beta_1 and beta_2, `ceiling` and `stabiliser` lambda and nu.

    Corrected moments are divided by 1 - beta^{t+1}. Unbiased ones are too; then E psi_t = E g_t^2 holds what the noise
    adds, nu^2, which is taken off (Tang, Shpilevskiy and Lecuyer 2024), down to where what is left is noise itself.
    """

    mean_decay: float
    square_decay: float
    ceiling: float
    stabiliser: float
    moments: MomentsKind
    arrays: ClassVar[int] = 2

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient:
        return gradient

    def move(self, w: Array, g: Array, r: Array, eta: float, memory: Array, t: int) -> Array:
        m: Array = memory[0]
        psi: Array = memory[1]
        beta_1, beta_2 = self.mean_decay, self.square_decay
        g = g + r
        m *= beta_1
        m += (1 - beta_1) * g
        psi *= beta_2
        psi += (1 - beta_2) * g**2
        if self.moments != "plain":
            m, psi = m / (1 - beta_1 ** (t + 1)), psi / (1 - beta_2 ** (t + 1))
        if self.moments == "unbiased":
            s = self.stabiliser
            return eta * m / np.sqrt(np.maximum(psi - s**2, moment_floor(s, beta_2, t)))
        return eta * m / (np.sqrt(np.minimum(psi, self.ceiling)) + self.stabiliser)


def moment_floor(s: float, beta_2: float, t: int) -> float:
    r"""Three standard deviations of what noise of size s alone makes of psi_t - s^2.

    The squares s^2 chi^2_1 have variance 2 s^4, and psi_t weighs them by (1 - beta_2) beta_2^j / (1 - beta_2^{t+1}):

        floor_t = 3 s^2 sqrt( 2 (1 - beta_2)/(1 + beta_2) (1 + beta_2^{t+1})/(1 - beta_2^{t+1}) )
    """
    left = beta_2 ** (t + 1)
    return 3 * s**2 * math.sqrt(2 * (1 - beta_2) / (1 + beta_2) * (1 + left) / (1 - left))


@dataclass(frozen=True)
class Recursive:
    """`mix` is gamma. A record's gradient may have moved by `difference_clip` at most since the last step."""

    mix: float
    difference_clip: float
    reach: float | None
    arrays: ClassVar[int] = 2

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient | Recursion:
        if t == 0:
            return gradient
        # a copy: a query is a value, and the next step overwrites the memory
        return Recursion(
            Difference(gradient.at, memory[1].copy(), self.difference_clip, gradient.batch), gradient, self.mix
        )

    def move(self, w: Array, g: Array, r: Array, eta: float, memory: Array, t: int) -> Array:
        v: Array = memory[0]
        v *= 1 - self.mix
        v += g
        memory[1] = w
        direction = v + r
        if self.reach is None:
            return eta * direction
        # min(reach / |direction|, eta), for every run of a stack
        length = np.linalg.norm(direction, axis=-1, keepdims=True)
        shortened: Array = np.minimum(self.reach / np.maximum(length, 1e-300), eta) * direction
        return shortened
