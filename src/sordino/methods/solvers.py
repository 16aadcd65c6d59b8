r"""Minimisers of a smooth, strongly convex objective that stop at a certified gradient norm, or say that they did not.

With J Lambda-strongly convex,  |grad J(w)| <= tau  implies  |w - w*| <= tau/Lambda. The test is on the full gradient
and tau is fixed beforehand: relaxing it for one data set would reveal something about that data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from sordino.arrays import Array
from sordino.privacy.randomness import Stream

Map = Callable[[Array], Array]

_LENGTHS = 100
"""To try for a step: a rounded gradient may leave none that fits."""


class NotCertified(RuntimeError):
    """The solver stopped short of the tolerance the guarantee needs."""


def _refuse(tolerance: float) -> NotCertified:
    # how near it came, and what stopped it, was computed from the records
    return NotCertified(
        f"the solver stopped short of the gradient norm {tolerance:.3g} that the guarantee needs: nothing was "
        "released. More strong convexity (a larger penalty) makes the problem easier to solve."
    )


def newton(gradient: Map, curvature: Callable[[Array], Map], start: Array, tolerance: float, most: int = 200) -> Array:
    """Newton steps by conjugate gradients, of a length at which the gradient is shorter, or the objective is lower.

    The Newton direction p = -H^{-1} g decreases |g|^2 at rate 2 |g|^2 wherever H is positive definite, so the gradient
    norm itself can be the merit function, and no function value (with its coarser rounding) is needed. Where the slope
    of a loss has a kink, that rate may end a tiny part of p further on. The objective falls along p all the same, as
    long as <g, p> is negative, and further than to where it is half of what it was.
    """
    w, g = start, gradient(start)
    norm = float(np.linalg.norm(g))
    for _ in range(most):
        if norm <= tolerance:
            return w
        H = LinearOperator((len(w), len(w)), matvec=curvature(w), dtype=float)
        # a tighter system close to the solution gives the quadratic convergence
        p, _ = cg(H, -g, rtol=min(0.1, norm**0.5), atol=0.5 * tolerance, maxiter=10 * len(w))
        w, g = _step(gradient, w, p, g, tolerance)
        norm = float(np.linalg.norm(g))
    if norm <= tolerance:
        return w
    raise _refuse(tolerance)


def _step(gradient: Map, w: Array, p: Array, g: Array, tolerance: float) -> tuple[Array, Array]:
    """Where to go along p, and the gradient there."""
    norm, falls = float(np.linalg.norm(g)), float(g @ p)
    near, far, length = 0.0, math.inf, 1.0
    for _ in range(_LENGTHS):
        trial = w + length * p
        there = gradient(trial)
        along = float(there @ p)
        if np.linalg.norm(there) <= (1 - 1e-4 * length) * norm or falls / 2 <= along <= 0:
            return trial, there
        if along > 0:
            far = length
        else:
            near = length
        length = 2 * near if math.isinf(far) else (near + far) / 2
    raise _refuse(tolerance)


def svrg(
    gradient: Map,
    batch_gradient: Callable[[Array, NDArray[np.intp]], Array],
    records: int,
    smoothness: float,
    convexity: float,
    start: Array,
    tolerance: float,
    stream: Stream,
    batch_size: int = 64,
    most: int = 400,
) -> Array:
    r"""Stochastic variance-reduced gradient (Johnson & Zhang 2013), restarted at the last inner iterate.

    w <- w - eta ( grad_B J(w) - grad_B J(anchor) + grad J(anchor) )
    """
    from sordino.oracle.kernels.subsets import subset

    size = min(batch_size, records)
    # batches average the variance, so the step may grow with them, up to 1/(2 beta)
    eta = min(size / (8 * smoothness), 0.5 / smoothness)
    # two passes a round, more when the condition number asks for it
    inner = int(np.clip(1 / (eta * convexity), 2 * records // size, 20 * max(1, records // size)))
    w, g = start, gradient(start)
    for _ in range(most):
        norm = float(np.linalg.norm(g))
        if norm <= tolerance:
            return w
        anchor, full = w, g
        for _ in range(inner):
            batch = subset(records, size, stream)
            w = w - eta * (batch_gradient(w, batch) - batch_gradient(anchor, batch) + full)
        g = gradient(w)
    if float(np.linalg.norm(g)) <= tolerance:
        return w
    raise _refuse(tolerance)
