r"""The mini-batch baseline of Table 3, to its end.

    w_{t+1} = w_t - eta_t ( (1/m) sum_{i in B_t} grad l(w_t; z_i) + N(0, sigma^2 I) + mu w_t ),     t = 1, .., (n/m)^2

with m = 50: up to 817,614 steps for one run. The library's own loop (`BassilySmithThakurta`) takes a third of a
millisecond to two for a step, most of it outside the arithmetic. This one takes the same eta, sigma, m and T, draws
batches without replacement too, and advances ten runs by a step in some 20 microseconds. Its noise is in double
precision instead of on a lattice: it is for measuring errors, not for private records. It is held to the library's in
`tests/papers/test_zhang_2017.py`.
"""

from __future__ import annotations

import numba
import numpy as np

from sordino.losses import Huber, Logistic, Loss
from sordino.problem import Problem

Array = np.ndarray


def descend(
    X: Array,
    y: Array,
    problem: Problem,
    steps: int,
    batch: int,
    sigma: float,
    first: float,
    runs: int,
    seed: int,
) -> Array:
    """`runs` last iterates (runs x dim), on shared batches as the library's runs side by side, with noise of their own.

    eta_t = first/t where mu > 0, else first/sqrt(t).
    """
    kind, threshold = _loss(problem.loss)
    mu = problem.constants.mu
    rng = np.random.default_rng(seed)
    return _descend(X, y, kind, threshold, mu, steps, batch, sigma, first, mu > 0, runs, rng)


def _loss(loss: Loss) -> tuple[int, float]:
    if isinstance(loss, Logistic):
        return 0, 0.0
    if isinstance(loss, Huber):
        return 1, loss.threshold
    raise ValueError(f"loss is {loss!r}: the baseline's loop knows Logistic and Huber.")


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def _descend(
    X: Array,
    y: Array,
    kind: int,
    threshold: float,
    mu: float,
    steps: int,
    batch: int,
    sigma: float,
    first: float,
    inverse: bool,
    runs: int,
    rng: np.random.Generator,
) -> Array:
    n, d = X.shape
    W, g = np.zeros((d, runs)), np.empty((d, runs))
    slope = np.empty(runs)
    taken = np.zeros(n, dtype=np.int64)
    for t in range(1, steps + 1):
        g[:] = 0.0
        drawn = 0
        while drawn < batch:
            i = rng.integers(0, n)
            if taken[i] == t:
                continue
            taken[i] = t
            drawn += 1
            slope[:] = 0.0
            # most features are indicators, and most indicators zero
            for j in range(d):
                if X[i, j] != 0.0:
                    for r in range(runs):
                        slope[r] += X[i, j] * W[j, r]
            for r in range(runs):
                if kind == 0:
                    slope[r] = -y[i] / (1.0 + np.exp(y[i] * slope[r]))
                else:
                    slope[r] = min(max(slope[r] - y[i], -threshold), threshold)
            for j in range(d):
                if X[i, j] != 0.0:
                    for r in range(runs):
                        g[j, r] += slope[r] * X[i, j]
        eta = first / t if inverse else first / np.sqrt(t)
        for j in range(d):
            for r in range(runs):
                W[j, r] -= eta * (g[j, r] / batch + sigma * rng.standard_normal() + mu * W[j, r])
    return W.T.copy()
