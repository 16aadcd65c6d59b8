r"""One Newton step of which every part is noisy, and the covariance of where it ends.

    d = -H^-1 g,     S = H^-1 (sigma^2 I + J + K(d)) H^-1,     K(v) = (s^2/2) (|v|^2 I + v v^T)

g is the gradient of the objective at w with noise of deviation sigma, H its Hessian with symmetric noise E, of
deviation s on the diagonal and s/sqrt 2 beside it, and J the second moments of the records' own gradients: all of them
sums over records, so that their number does not occur. w + d is then about normal around the minimiser of the expected
objective, its penalty included: J is what other records would change, sigma^2 the noise in g, and K(d) the covariance
of E d, the first-order effect of the noise in H.

Two things make that false, and both are seen in what was released:

* E has a spectral norm of about s sqrt(2k) for k parameters. A Hessian whose least eigenvalue is not above twice that
  has no inverse that is known to be near.
* What a quadratic leaves out moves w + d by up to about  (1/2) d^T H d sqrt(k/(n beta)),  in the metric of H in which
  the estimate's own spread is sqrt(tr H S), for n records and a third derivative that is no larger than the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.arrays import Array

CLEAR = 2.0
"""How many spectral norms of the noise the least eigenvalue of a curvature must be above."""

BENT = 0.3
"""The most that may be left out by a quadratic, relative to the spread of the estimate."""


@dataclass(frozen=True, eq=False)
class Linearised:
    """A gradient and a Hessian, the penalty's included in both, with the deviations of their noise."""

    gradient: Array
    gradient_std: float
    curvature: Array
    curvature_std: float

    @property
    def clear(self) -> bool:
        """Whether the noise leaves every direction of the curvature."""
        d = len(self.gradient)
        return bool(np.linalg.eigvalsh(self.curvature)[0] > CLEAR * self.curvature_std * math.sqrt(2 * d))

    @property
    def step(self) -> Array:
        return np.asarray(-np.linalg.solve(self.curvature, self.gradient), dtype=np.float64)

    @property
    def guarded_step(self) -> Array:
        """About the step, and never a wild one: directions that noise may have flattened count as clear ones."""
        e, U = np.linalg.eigh(self.curvature)
        least = CLEAR * self.curvature_std * math.sqrt(2 * len(e))
        return np.asarray(-(U @ ((U.T @ self.gradient) / np.maximum(e, least))))

    def covariance(self, slopes: Array, at_the_end: Array | None = None) -> Array:
        """`slopes` is J, where noise made a direction of it negative there was none.

        What other records would change is decided by the curvature where the step ends, if that is known to be another.
        """
        d, s, identity = self.step, self.curvature_std, np.eye(len(self.gradient))
        e, U = np.linalg.eigh(slopes)
        J = (U * np.maximum(e, 0.0)) @ U.T
        K = s**2 / 2 * (d @ d * identity + np.outer(d, d))
        inverse = np.linalg.inv(self.curvature)
        own = inverse if at_the_end is None else np.linalg.inv(at_the_end)
        found = inverse @ (self.gradient_std**2 * identity + K) @ inverse + own @ J @ own
        return np.asarray((found + found.T) / 2)

    def bend(self, covariance: Array, scale: float) -> float:
        """What a quadratic leaves out, relative to the spread; `scale` is n beta."""
        d, H = self.step, self.curvature
        return float(d @ H @ d / 2 * math.sqrt(len(d) / scale) / math.sqrt(np.trace(H @ covariance)))
