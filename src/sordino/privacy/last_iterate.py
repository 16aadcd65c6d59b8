r"""What full-batch noisy gradient descent costs when only the last iterate is released.

    w_{k+1} = Proj(w_k - eta (grad F(w_k) + Z_k)),   Z_k ~ N(0, std^2 I),   k < T;      release w_T.

One record moves the gradient by at most Delta (2L/n under replace_one).  Every loss is convex and smooth, and
without noise a step contracts distances by c = max(|1 - eta mu|, |1 - eta beta|) <= 1.  Then w_T is mu_G-GDP with the
least of (Bok, Su & Altschuler 2024; the second for c < 1 follows from their shifted interpolation)

    composition      (Delta/std) sqrt(T),
    contraction      (Delta/std) sqrt((1 - c^T)/(1 + c^T) (1 + c)/(1 - c)),
    bounded domain   (Delta/std) (c^K D/(eta Delta) + S_1) / sqrt(S_2),   any K <= T,  D the diameter,
                     S_1 = sum_{j<K} c^j,  S_2 = sum_{j<K} c^{2j}.

For the last: K steps before the end two runs are at most D apart.  Interpolate between them with shifts a_j that
bring the distance z to zero, z_{j+1} = c z_j + eta Delta - a_{j+1}; each costs a_j / (eta std), and by Cauchy-Schwarz
sum a_j^2 is least for a_j proportional to c^(T-j), which keeps z >= 0.

Not valid for averages of iterates, released trajectories, momentum or adaptive steps, losses that are not convex, or
step sizes that look at noisy gradients.  Valid for a stopping time drawn without the data, with T its largest value.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def last_iterate_factor(steps: int, contraction: float, reach: float) -> float:
    """A_T with mu_G = A_T Delta/std: the least of the three bounds; `reach` as in `domain_factor`."""
    factors = (contraction_factor(steps, contraction), domain_factor(steps, contraction, reach))
    return min(math.sqrt(steps), *(factor * (1 + 1e-12) for factor in factors))


def contraction_factor(steps: int, contraction: float) -> float:
    """sqrt((1 - c^T)/(1 + c^T) (1 + c)/(1 - c)), which tends to sqrt(T) for c -> 1."""
    _check(steps, contraction)
    if contraction == 1:
        return math.sqrt(steps)
    c, power = contraction, contraction**steps
    return math.sqrt(_one_minus_power(c, steps) / (1 + power) * (1 + c) / (1 - c))


def domain_factor(steps: int, contraction: float, reach: float) -> float:
    """min over K of (c^K reach + S_1) / sqrt(S_2), reach = D / (eta Delta): the diameter in steps of one record."""
    _check(steps, contraction)
    if not reach >= 0:
        raise ValueError(f"the diameter over step size and sensitivity is {reach}: it must not be negative.")
    if math.isinf(reach):
        return math.inf
    # Any K is valid: a geometric choice finds the best one roughly, and its surroundings settle it.
    roughly = np.unique(np.geomspace(1, steps, 400).astype(np.int64))
    best = roughly[np.argmin(_domain_bounds(roughly, contraction, reach))]
    around = np.unique(np.linspace(max(1, 0.95 * best), min(steps, 1.05 * best + 1), 400).astype(np.int64))
    return float(_domain_bounds(np.append(around, best), contraction, reach).min())


def _domain_bounds(K: NDArray[np.int64], c: float, reach: float) -> NDArray[np.float64]:
    if c == 1:
        return np.asarray((reach + K) / np.sqrt(K))
    if c == 0:
        return np.ones(len(K))
    log_c = math.log(c)
    S1 = -np.expm1(K * log_c) / (1 - c)
    S2 = -np.expm1(2 * K * log_c) / (1 - c * c)
    return np.asarray((np.exp(K * log_c) * reach + S1) / np.sqrt(S2))


def _one_minus_power(c: float, steps: int) -> float:
    return -math.expm1(steps * math.log(c)) if c > 0 else 1.0


def _check(steps: int, contraction: float) -> None:
    if steps < 1:
        raise ValueError(f"steps is {steps}: at least one is needed.")
    if not 0 <= contraction <= 1:
        raise ValueError(
            f"contraction is {contraction}: it must lie in [0, 1], as it does for convex losses and step sizes up to "
            "2 / smoothness; otherwise account for every step instead."
        )
