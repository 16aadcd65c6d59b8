r"""Smoothing a kink: the Moreau envelope of a loss in its score (Bassily, Feldman, Talwar & Thakurta 2019, section 4).

    phi_s(a) = min_p phi(p) + (s/2)(p - a)^2,        phi_s'(a) = s (a - prox(a)),     prox with step 1/s

For a convex phi with |phi'| <= g the envelope is convex, |phi_s'| <= g, phi_s'' <= s and

    phi - g^2/(2s) <= phi_s <= phi.

Let |x| <= R, L = g R and s = beta/R^2. Then w -> phi_s(<w, x>) is convex, L-Lipschitz, beta-smooth and within
g^2/(2s) = L^2/(2 beta) of phi(<w, x>): all that the theorem of section 4 uses of the envelope in w. That envelope has
sharpness beta/|x|^2 record by record; here one sharpness serves all records, with the same guarantee. The paper's
Lemma 4.3 says 2L where L is enough, because prox never moves further than L/beta. And as prox has a closed form,
the n^2 T^2 m gradients of the paper's inner loops become T m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.arrays import Array
from sordino.losses.elementary import Formula, Number
from sordino.losses.kinked import Kinked
from sordino.losses.scalar import Scalar, positive


def envelope(phi: Formula, pull: Formula) -> tuple[Formula, Formula]:
    """phi_s and phi_s' as functions of a score, a target, the sharpness s and the parameters of phi."""

    def value(a: Number, y: Number, s: float, *parameters: float) -> Number:
        moved = pull(a, y, 1.0 / s, *parameters)
        return phi(a - moved, y, *parameters) + 0.5 * s * moved * moved

    def slope(a: Number, y: Number, s: float, *parameters: float) -> Number:
        return s * pull(a, y, 1.0 / s, *parameters)

    return value, slope


@dataclass(frozen=True)
class MoreauSmoothed(Scalar):
    r"""phi_s of the loss `base`, s = sharpness:   |phi_s'| <= the base's bound,   phi_s'' <= s."""

    base: Kinked
    sharpness: float

    def __post_init__(self) -> None:
        if not isinstance(self.base, Kinked):
            raise ValueError(
                f"base is {self.base!r}: only a loss with a kink (Hinge, Absolute, Pinball, EpsilonInsensitive) is "
                "smoothed; use any other as it is."
            )
        positive("sharpness", self.sharpness)

    @property
    def slope_bound(self) -> float:
        return self.base.slope_bound

    @property
    def curvature_bound(self) -> float:
        return self.sharpness

    @property
    def target_bound(self) -> float:
        return getattr(self.base, "target_bound", math.inf)

    @property
    def settings(self) -> tuple[float, ...]:
        return (float(self.sharpness), *self.base.settings)

    @property
    def at_zero(self) -> float:
        # the envelope grows with the distance to the target, which is -Y or Y at worst, or a label
        Y = getattr(self.base, "target_bound", 1.0)
        return math.inf if math.isinf(Y) else float(self.value(np.zeros(2), np.array([-Y, Y])).max())

    def admit(self, y: Array) -> Array:
        return self.base.admit(y)

    def phi(self, a: Number, y: Number, *settings: float) -> Number:
        return envelope(self.base.phi, self.base.pull)[0](a, y, *settings)

    def phi1(self, a: Number, y: Number, *settings: float) -> Number:
        return envelope(self.base.phi, self.base.pull)[1](a, y, *settings)

    def phi2(self, a: Number, y: Number, s: float, *settings: float) -> Number:
        # none where the slope is that of a linear piece; between two of them prox stays at the kink
        step = 1.0 / s
        linear = np.isin(self.base.pull(a, y, step, *settings), [step * slope for slope in self.base.slopes])
        return np.where(linear, 0.0, s)
