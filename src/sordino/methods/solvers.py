r"""Minimisers of a smooth, strongly convex objective that stop at a certified gradient norm, or say that they did not.

With J Lambda-strongly convex,  |grad J(w)| <= tau  implies  |w - w*| <= tau/Lambda. The test is on the full gradient
and tau is fixed beforehand: relaxing it for one data set would reveal something about that data set.

Over the ball |w| <= M the same follows from  |grad J(w) + nu w| <= tau  with nu >= 0, if nu = 0 or |w| = M: with e for
that sum,  <grad J(w), w - w*> = <e, w - w*> - nu (M^2 - <w, w*>) <= tau |w - w*|,  and <grad J(w*), w - w*> >= 0.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg

from sordino.arrays import Array
from sordino.domains import Domain
from sordino.privacy.randomness import Stream

Map = Callable[[Array], Array]

_PAIRS, _FEW_PAIRS, _FEW = 80, 10, 4096
"""That the curvature is known by: many for up to so many parameters. Of more, often those of sparse rows, many pairs
would take longer than a product, and a few do not precondition it."""

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


def norm_within(w: Array, g: Array, radius: float) -> float:
    """|grad J + nu w| at the nu >= 0 that makes it least, on the sphere; |grad J| within it."""
    nu = max(0.0, -float(g @ w) / radius**2) if np.linalg.norm(w) >= (1 - 1e-14) * radius else 0.0
    return float(np.linalg.norm(g + nu * w))


def newton(gradient: Map, curvature: Callable[[Array], Map], start: Array, tolerance: float, most: int = 200) -> Array:
    """Newton steps by conjugate gradients, of a length at which the gradient is shorter, or the objective is lower.

    The Newton direction p = -H^{-1} g decreases |g|^2 at rate 2 |g|^2 wherever H is positive definite, so the gradient
    norm itself can be the merit function, and no function value (with its coarser rounding) is needed. Where the slope
    of a loss has a kink, that rate may end a tiny part of p further on. The objective falls along p all the same, as
    long as <g, p> is negative, and further than to where it is half of what it was.

    Every step and every product with H shows the curvature along a line (Nocedal 1980). As long as what is known of it
    leads to half of the gradient, no products are asked for; and where they are, it preconditions them (Morales &
    Nocedal 2000).
    """
    w, g, known = start, gradient(start), _Known(len(start))
    norm = float(np.linalg.norm(g))
    for _ in range(most):
        if norm <= tolerance:
            return w
        if known:
            trial = w - known.times(g)
            there = gradient(trial)
            known.learn(trial - w, there - g)
            if float(np.linalg.norm(there)) <= norm / 2:
                w, g = trial, there
                norm = float(np.linalg.norm(g))
                continue
        # a tighter system close to the solution gives the quadratic convergence
        p = _solve(curvature(w), -g, known, rtol=min(0.1, norm**0.5), atol=0.5 * tolerance)
        trial, there = _step(gradient, w, p, g, tolerance)
        known.learn(trial - w, there - g)
        w, g = trial, there
        norm = float(np.linalg.norm(g))
    if norm <= tolerance:
        return w
    raise _refuse(tolerance)


def newton_within(
    gradient: Map, curvature: Callable[[Array], Map], start: Array, radius: float, tolerance: float
) -> Array:
    """The minimiser over |w| <= radius: that of J, or of J + (nu/2)|w|^2 at the nu that puts it on the sphere.

    That nu lies between 0 and |grad J(0)|/radius. From near it Newton steps go to w and nu together,

        (H + nu) p + w q = -(grad J + nu w),      <w, p> = (radius^2 - |w|^2)/2,

    since minimisers alone would leave |w| as far off as their tolerance allows.
    """
    w = newton(gradient, curvature, start, tolerance)
    if np.linalg.norm(w) <= radius:
        return w
    middle = np.zeros_like(w)
    most = float(np.linalg.norm(gradient(middle)))
    if most <= tolerance:
        # there need be no nu below; the search for it would fail in its own words
        return middle

    def tilted(nu: float) -> tuple[Map, Callable[[Array], Map]]:
        def along(at: Array) -> Map:
            product = curvature(at)
            return lambda v: product(v) + nu * v

        return lambda at: gradient(at) + nu * at, along

    def beyond(nu: float) -> float:
        nonlocal w
        w = newton(*tilted(nu), w, tolerance)
        return 1 / radius - 1 / float(np.linalg.norm(w))

    # at twice that much it ends within, as it is less than half a radius from a minimiser that is as near to zero; and
    # how the search went is nobody's business
    nu = brentq(beyond, 0.0, 2 * most / radius, rtol=1e-6, maxiter=_LENGTHS, disp=False)
    for _ in range(_LENGTHS):
        on_sphere = w * (radius / np.linalg.norm(w))
        if norm_within(on_sphere, gradient(on_sphere), radius) <= tolerance:
            return on_sphere
        slope, along = tilted(nu)
        product, known = along(w), _Known(len(w))
        down, inward = (_solve(product, v, known, rtol=1e-12, atol=0.0) for v in (-slope(w), w))
        q = float((w @ down + (w @ w - radius**2) / 2) / (w @ inward))
        w, nu = w + down - q * inward, nu + q
    raise _refuse(tolerance)


class _Known:
    """An inverse of the Hessian made of pairs s, y = H s, of which the last so many are kept (L-BFGS)."""

    def __init__(self, dim: int) -> None:
        self.pairs: deque[tuple[Array, Array]] = deque(maxlen=_PAIRS if dim <= _FEW else _FEW_PAIRS)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def learn(self, s: Array, y: Array) -> None:
        # an update is positive definite where <s, y> is positive, which rounding may take away
        if s @ y > 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):
            self.pairs.append((s, y))

    def times(self, v: Array) -> Array:
        """The two loops of Nocedal 1980."""
        q, shares = v.copy(), []
        for s, y in reversed(self.pairs):
            shares.append(s @ q / (s @ y))
            q -= shares[-1] * y
        if self.pairs:
            s, y = self.pairs[-1]
            q *= s @ y / (y @ y)
        for (s, y), share in zip(self.pairs, reversed(shares), strict=True):
            q += (share - y @ q / (s @ y)) * s
        return q


def _solve(product: Map, b: Array, known: _Known, rtol: float, atol: float) -> Array:
    """H^{-1} b, roughly; what the products with H show is learnt after that."""
    found: list[tuple[Array, Array]] = []

    def told(v: Array) -> Array:
        found.append((v.copy(), product(v)))
        return found[-1][1]

    H, M = (LinearOperator((len(b), len(b)), matvec=one, dtype=float) for one in (told, known.times))
    p, _ = cg(H, b, rtol=rtol, atol=atol, maxiter=10 * len(b), M=M if len(b) <= _FEW else None)
    for pair in found:
        known.learn(*pair)
    return np.asarray(p)


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
    domain: Domain,
    tolerance: float,
    stream: Stream,
    batch_size: int = 64,
    most: int = 400,
) -> Array:
    r"""Stochastic variance-reduced gradient (Johnson & Zhang 2013; on a domain Xiao & Zhang 2014), restarted at the
    last inner iterate.

    w <- Pi( w - eta ( grad_B J(w) - grad_B J(anchor) + grad J(anchor) ) )
    """
    from sordino.oracle.kernels.subsets import subset

    size = min(batch_size, records)
    # batches average the variance, so the step may grow with them, up to 1/(2 beta)
    eta = min(size / (8 * smoothness), 0.5 / smoothness)
    # two passes a round, more when the condition number asks for it
    inner = int(np.clip(1 / (eta * convexity), 2 * records // size, 20 * max(1, records // size)))
    w = domain.project(start)
    g = gradient(w)
    for _ in range(most):
        if norm_within(w, g, domain.radius) <= tolerance:
            return w
        anchor, full = w, g
        for _ in range(inner):
            batch = subset(records, size, stream)
            w = domain.project(w - eta * (batch_gradient(w, batch) - batch_gradient(anchor, batch) + full))
        g = gradient(w)
    if norm_within(w, g, domain.radius) <= tolerance:
        return w
    raise _refuse(tolerance)
