"""Updates of every coordinate, compiled on first use: networks have many, and NumPy passes over them a dozen times."""

from __future__ import annotations

import math

from sordino.arrays import Array
from sordino.oracle.kernels.native import compiled


@compiled
def adapt(
    g: Array,
    m: Array,
    psi: Array,
    beta_1: float,
    beta_2: float,
    eta: float,
    square: float,
    off: float,
    low: float,
    high: float,
    nu: float,
) -> None:
    """`Moments.move`, in place: both moments, and in the place of g the step

    eta m / (sqrt(min(max(square psi - off, low), high)) + nu)
    """
    for i in range(g.size):
        m[i] = beta_1 * m[i] + (1 - beta_1) * g[i]
        psi[i] = beta_2 * psi[i] + (1 - beta_2) * (g[i] * g[i])
        x = square * psi[i] - off
        x = low if x < low else x
        x = high if x > high else x
        g[i] = eta * m[i] / (math.sqrt(x) + nu)
