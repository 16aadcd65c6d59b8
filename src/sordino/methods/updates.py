r"""How a noisy gradient becomes a step. g_t is the noisy mean over a batch, r_t = grad r(w_t) the penalty's own.

Networks have many weights, so steps are taken in place: g_t is the update's to overwrite.

Plain                 w_{t+1} = Pi( w_t - eta_t (g_t + r_t) )
Momentum              m_t = rho m_{t-1} + g_t + r_t,                           w_{t+1} = Pi( w_t - eta_t m_t )
QuantileClip          the same, g_t clipped at C_t,     C_{t+1} = C_t exp( -(c_t - 1/2)/5 ),
                      c_t a noisy share of the batch with gradients within C_t, from the same release as g_t
Moments               m_t = beta_1 m_{t-1} + (1 - beta_1) (g_t + r_t),     psi_t likewise of (g_t + r_t)^2, by beta_2,
                      w_{t+1} = Pi( w_t - eta_t m_t / (sqrt(min(psi_t, lambda)) + nu) ),      coordinate by coordinate
         unbiased     w_{t+1} = Pi( w_t - eta_t m_t / sqrt(max(psi_t - nu^2, floor_t)) ),     nu a coordinate's noise
Recursive             v_t = (1 - gamma) v_{t-1} + g_t,       g_t from differences since w_{t-1} after the first step,
         periodic     v_t = g_t,   g_t from gradients, in the first of every `period` steps,
                      w_{t+1} = Pi( w_t - eta_t (v_t + r_t) ),      a step no longer than `reach` where there is one
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from sordino.arrays import Array
from sordino.oracle.query import CountedGradient, Difference, Gradient, Recursion
from sordino.penalties import Penalty
from sordino.privacy.discrete_gaussian import FEW

MomentsKind = Literal["plain", "corrected", "unbiased"]

CLIP_RATE, FARTHEST = 0.2, math.log(1e4)


class Update(Protocol):
    """Keeps `arrays` arrays like w between steps. They are zero at first, and every step overwrites them."""

    arrays: ClassVar[int]

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient | CountedGradient | Recursion:
        """What step t asks the records for, given the gradient's sum that it would ask for by default."""
        ...

    def move(self, w: Array, g: Array, penalty: Penalty, eta: float, memory: Array, t: int) -> Array:
        """w_t - w_{t+1} before the projection, perhaps in the memory of g."""
        ...


@dataclass(frozen=True)
class Plain:
    arrays: ClassVar[int] = 0

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient:
        return gradient

    def move(self, w: Array, g: Array, penalty: Penalty, eta: float, memory: Array, t: int) -> Array:
        penalty.add_gradient(w, g)
        g *= eta
        return g


@dataclass(frozen=True)
class Momentum:
    """`decay` is rho."""

    decay: float
    arrays: ClassVar[int] = 1

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient:
        return gradient

    def move(self, w: Array, g: Array, penalty: Penalty, eta: float, memory: Array, t: int) -> Array:
        penalty.add_gradient(w, g)
        m: Array = memory[0]
        m *= self.decay
        m += g
        return np.multiply(m, eta, out=g)


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

    def move(self, w: Array, g: Array, penalty: Penalty, eta: float, memory: Array, t: int) -> Array:
        m, (g, count) = memory[0], (g[:-1], g[-1])
        g *= self._clip(memory) / math.sqrt(1 - self.count_weight**2 / 4)
        penalty.add_gradient(w, g)
        m *= self.decay
        m += g
        within = 0.5 + count / self.count_weight
        # log(C_{t+1} / C_0)
        memory[1] = np.clip(memory[1].flat[0] - CLIP_RATE * (within - 0.5), -FARTHEST, FARTHEST)
        moved: Array = np.multiply(m, eta, out=g)
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

    def move(self, w: Array, g: Array, penalty: Penalty, eta: float, memory: Array, t: int) -> Array:
        penalty.add_gradient(w, g)
        m, psi, s = memory[0], memory[1], self.stabiliser
        beta_1, beta_2 = self.mean_decay, self.square_decay
        # m_t / (1 - beta_1^{t+1}) and psi_t / (1 - beta_2^{t+1}), unless plain
        mean, square = (1.0 if self.moments == "plain" else 1 / (1 - beta ** (t + 1)) for beta in (beta_1, beta_2))
        if self.moments == "unbiased":
            low, high, off, nu = moment_floor(s, beta_2, t), math.inf, s**2, 0.0
        else:
            low, high, off, nu = 0.0, self.ceiling, 0.0, s
        if g.size > FEW:
            from sordino.methods.update_kernels import adapt

            flat = g.reshape(-1), m.reshape(-1), psi.reshape(-1)
            adapt(*flat, beta_1, beta_2, eta * mean, square, off, low, high, nu)
            return g
        m *= beta_1
        m += (1 - beta_1) * g
        psi *= beta_2
        psi += (1 - beta_2) * g**2
        moved: Array = eta * mean * m / (np.sqrt(np.clip(square * psi - off, low, high)) + nu)
        return moved


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
    period: int | None = None
    arrays: ClassVar[int] = 2

    def query(self, gradient: Gradient, memory: Array, t: int) -> Gradient | Recursion:
        if self._begins(t):
            return gradient
        # a copy: a query is a value, and the next step overwrites the memory
        return Recursion(
            Difference(gradient.at, memory[1].copy(), self.difference_clip, gradient.batch), gradient, self.mix
        )

    def move(self, w: Array, g: Array, penalty: Penalty, eta: float, memory: Array, t: int) -> Array:
        v: Array = memory[0]
        v *= 0.0 if self._begins(t) else 1 - self.mix
        v += g
        memory[1] = w
        g[...] = v
        penalty.add_gradient(w, g)
        if self.reach is None:
            g *= eta
        else:
            # min(reach / |direction|, eta), for every run of a stack
            length = np.linalg.norm(g, axis=-1, keepdims=True)
            g *= np.minimum(self.reach / np.maximum(length, 1e-300), eta)
        return g

    def _begins(self, t: int) -> bool:
        return t == 0 if self.period is None else t % self.period == 0
