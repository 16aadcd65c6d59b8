r"""Expected curvature (Yu, Zhang, Chen, Yin & Liu 2020): how steep an objective is where noise takes the iterates.

    nu(x, sigma) = ( sigma^2 tr(H_x) + <grad F(x), x - x*> ) / ( sigma^2 p + |x - x*|^2 )            (Eq. 5)

approaches the average eigenvalue tr(H_x)/p as the noise grows, which may be far above the smallest one. In the excess
risk of noisy descent it takes the place of strong convexity, up to logarithms:

    Theorem 1:   eta <= 1/beta,   T = 2 log(n) / (eta nu)    gives    beta p L^2 / (nu n epsilon)^2
    Theorem 2:   eta_t = 1/(nu t)                            gives    p L^2 / (nu n^2 epsilon^2)

nu, H_x and x* are read off the records. A T or a step computed from them is no longer public, so there are two ways:
`curvature` measures for research, and its result says that it is not private; `private_curvature` pays for tr(H_x)/p.

Privacy of the latter. Record i adds tr(Hessian of l_i) to a sum, which lies between 0 and c = loss.trace(R) for every
possible record. So the sum moves by at most c when a record is replaced, added or removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sordino.arrays import Array
from sordino.budget import Budget
from sordino.losses import Loss
from sordino.methods import Inverse, NoisyGradientDescent, NoisySGD
from sordino.methods.solvers import newton
from sordino.oracle.rows import Rows
from sordino.penalties import Ridge
from sordino.privacy.calibrate import calibrate
from sordino.privacy.events import Event
from sordino.privacy.ledger_context import account
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.release import release
from sordino.row_by_row import row_by_row, squared_lengths

_MOST_PARAMETERS = 5000


@dataclass(frozen=True)
class Curvature:
    """The Hessian's eigenvalues at x, and what Eq. 5 needs beside them. Measured on the records: not private."""

    parameters: int
    trace: float
    minimum: float
    largest: float
    descent: float
    """<grad F(x), x - x*>"""
    distance: float
    """|x - x*|, x* the closest minimiser"""

    @property
    def average(self) -> float:
        return self.trace / self.parameters

    def expected(self, std: float) -> float:
        """nu for noise of standard deviation `std`, Eq. 5."""
        if not (math.isfinite(std) and std > 0):
            raise ValueError(f"std is {std}: the expected curvature is that under positive finite noise.")
        return (std**2 * self.trace + self.descent) / (std**2 * self.parameters + self.distance**2)

    def __repr__(self) -> str:
        return (
            f"Curvature(minimum={self.minimum:.4g}, average={self.average:.4g}, largest={self.largest:.4g}, "
            "measured on the records: not private)"
        )


def curvature(X: Any, y: Any, loss: Loss, penalty: Ridge | None = None, at: Array | None = None) -> Curvature:
    """Curvatures of F(w) = mean loss + penalty at `at` (zero), for rows as they are. For research: not private."""
    if (charged := account()) is not None:
        raise ValueError(
            f"curvature measures the records without noise, and here everything that is computed from them is charged "
            f"to {charged.dataset!r}: use private_curvature, or measure outside of charged_to, for research alone."
        )
    ridge = (penalty or Ridge()).strength
    X, y = _matrix(X), np.asarray(y, dtype=float)
    K, d = loss.outputs, X.shape[1]
    p = K * d
    if p > _MOST_PARAMETERS:
        raise ValueError(
            f"{p} parameters: eigenvalues are computed for at most {_MOST_PARAMETERS}. For the average curvature alone "
            "use private_curvature, which needs no matrix."
        )
    x = np.zeros(p) if at is None else np.asarray(at, dtype=float)
    gradient, hessian = _derivatives(X, y, loss, ridge)
    H = hessian(x)
    eigenvalues = np.linalg.eigvalsh(H)
    g = gradient(x)
    # a thousand-millionth of where it starts; steps stay in the range of H, which leads to the closest minimiser
    tolerance = 1e-9 * max(float(np.linalg.norm(g)), 1e-9)
    closest = newton(gradient, lambda w: hessian(w).__matmul__, x, tolerance)
    return Curvature(
        parameters=p,
        trace=float(np.trace(H)),
        minimum=float(eigenvalues[0]),
        largest=float(eigenvalues[-1]),
        descent=float(g @ (x - closest)),
        distance=float(np.linalg.norm(x - closest)),
    )


def _derivatives(
    X: Any, y: Array, loss: Loss, ridge: float
) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """grad F and its Hessian, one block of d x d per pair of outputs."""
    n, d = X.shape
    K = loss.outputs

    def scores(w: Array) -> Array:
        table = np.asarray(X @ w.reshape(K, d).T)
        return table if K > 1 else table[:, 0]

    def gradient(w: Array) -> Array:
        slopes = loss.slope(scores(w), y).reshape(n, K)
        mean: Array = np.asarray(X.T @ slopes).T.ravel() / n
        return mean + ridge * w

    def hessian(w: Array) -> Array:
        second = loss.curvature(scores(w), y).reshape(n, K, K)
        blocks = [[_gram(X, second[:, k, j]) / n for j in range(K)] for k in range(K)]
        return np.asarray(np.block(blocks)) + ridge * np.eye(K * d)

    return gradient, hessian


def _matrix(X: Any) -> Any:
    return X.tocsr().astype(float) if hasattr(X, "tocsr") else np.asarray(X, dtype=float)


def _gram(X: Any, weights: Array) -> Array:
    """X' diag(weights) X."""
    product = X.T @ (sparse.diags_array(weights) @ X)
    return product if isinstance(product, np.ndarray) else np.asarray(product.toarray())


@dataclass(frozen=True)
class PrivateCurvature:
    """tr(H)/p with noise. `event` is what it cost; inside `charged_to` a ledger has been charged with it."""

    average: float
    noise: GaussianNoise | L2LaplaceNoise

    @property
    def event(self) -> Event:
        return self.noise.event


def curvature_noise(problem: Problem, budget: Budget) -> GaussianNoise | L2LaplaceNoise:
    """The noise that `private_curvature` adds to a sum over records; its event is known before one is read."""
    problem.require("the average curvature", "convex", "smooth")
    if problem.person is not None:
        raise ValueError("the average curvature is private for records, not for persons: state the problem without.")
    c = problem.loss.trace(problem.row_norm)
    if budget.pure:
        return L2LaplaceNoise(c, budget.epsilon, 1)
    return GaussianNoise.at(calibrate(lambda m: GaussianNoise.at(m, c, 1).event, budget), c, 1)


def private_curvature(
    X: Any,
    y: Any,
    problem: Problem,
    rows: Rows,
    budget: Budget,
    at: Array | None = None,
    randomness: Randomness | None = None,
) -> PrivateCurvature:
    """An (epsilon, delta)-private estimate of tr(H)/p at `at`: zero, or weights that are public or already released.

    One number is enough at a small budget: its standard deviation is about c / (epsilon n p).
    """
    noise = curvature_noise(problem, budget)
    at = problem.start() if at is None else np.asarray(at, dtype=float)
    records = _Records(_matrix(X), np.asarray(y, dtype=float), problem, rows, at.reshape(problem.loss.outputs, -1))

    def run(records: _Records) -> PrivateCurvature:
        c = noise.sensitivity
        total = np.array([np.clip(records.traces(), 0.0, c).sum()])
        noisy = float(noise.perturb(total, randomness or Randomness.system())[0])
        # what no data set can have is noise, and rounding it off looks at no record
        data_term = min(max(noisy / problem.records, 0.0), c) / problem.dim
        return PrivateCurvature(data_term + problem.penalty.convexity, noise)

    note = f"average curvature, epsilon {budget.epsilon:.6g}"
    return release(noise.event, budget, note, records, run, unit=problem.unit)[0]


@dataclass(frozen=True, eq=False)
class _Records:
    X: Any
    y: Array
    problem: Problem
    rows: Rows
    at: Array

    def traces(self) -> Array:
        """tr(Hessian of l_i) per record: the loss's own trace in the scores, times the squared norm of the row."""
        X, w, rows, loss, K = self.X, self.at, self.rows, self.problem.loss, self.problem.loss.outputs
        with np.errstate(all="ignore"):
            squares = squared_lengths(X) if isinstance(X, np.ndarray) else X.multiply(X).sum(axis=1)
            norms = np.sqrt(np.asarray(squares, dtype=float).ravel())
            scales = rows.scales(norms)
            features = w[:, :-1] if rows.has_intercept else w
            constant = rows.intercept * w[:, -1] if rows.has_intercept else np.zeros(K)
            # curvatures may jump, so that a score is its record's own to the last bit
            dots = row_by_row(X, features.T)
            scores = np.where(scales[:, None] > 0, scales[:, None] * dots, 0.0) + constant
            # labels do not enter the curvature of these losses; a missing one must not stop the others
            second = loss.curvature(scores if K > 1 else scores[:, 0], np.where(np.isfinite(self.y), self.y, 0.0))
            inner = np.trace(second, axis1=-2, axis2=-1) if K > 1 else second
            lengths = np.where(scales > 0, scales * norms, 0.0)
            traces: Array = inner * (lengths**2 + rows.intercept**2)
            return np.nan_to_num(traces, nan=0.0)


def descent_for_curvature(nu: float, problem: Problem, step_size: float | None = None) -> NoisyGradientDescent:
    """Theorem 1's T = 2 log(n)/(eta nu) with eta = 1/beta, last iterate, for a nu that is public or paid for."""
    _possible(nu, problem)
    eta = 1 / problem.constants.beta if step_size is None else step_size
    T = math.ceil(2 * math.log(problem.records) / (eta * nu))
    return NoisyGradientDescent(steps=max(1, T), step_size=eta)


def sgd_for_curvature(nu: float, problem: Problem, steps: int, batch_size: int) -> NoisySGD:
    """Theorem 2's eta_t = 1/(nu t), last iterate, for a nu that is public or paid for.

    The theorem takes T = n^2 epsilon^2 steps on one record each; fewer steps on batches reach as far for less noise.
    """
    _possible(nu, problem)
    return NoisySGD(steps=steps, batch_size=batch_size, step_size=1 / nu, rate=Inverse(), release="last")


def _possible(nu: float, problem: Problem) -> None:
    beta = problem.constants.beta
    if not 0 < nu <= beta:
        raise ValueError(
            f"nu is {nu}: an expected curvature lies above 0 and at most at the smoothness {beta:g} of the objective."
        )
