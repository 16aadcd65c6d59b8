r"""Populations that are known, for experiments about the population loss.

x has norm one and d directions of weight 1.2^-j, so that directions of all curvatures matter; |w0| = M, and

    signs      P(y = 1 | x) = sigma(<w0, x>)
    numbers    y = <w0, x> + u,   u logistic,   for which   E (c + u)_+ = log(1 + e^c)

so that the expected loss at given x is a closed form; over x it is the mean of a large sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from sordino.losses import Absolute, Loss, Pinball

D, M = 20, 10.0
SAMPLE = 100_000

Array = np.ndarray


def unit_rows(n: int, dim: int, rng: np.random.Generator) -> Array:
    x = rng.normal(size=(n, dim)) * 1.2 ** -np.arange(dim)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


@dataclass(frozen=True, eq=False)
class World:
    """What the records are drawn from, and what a loss costs on average there."""

    kind: Literal["signs", "numbers"]
    loss: Loss
    dim: int = D

    @property
    def w0(self) -> Array:
        return np.full(self.dim, M / math.sqrt(self.dim))

    def records(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        X = unit_rows(n, self.dim, rng)
        truth = X @ self.w0
        if self.kind == "signs":
            return X, np.where(rng.random(n) < sigmoid(truth), 1.0, -1.0)
        return X, truth + rng.logistic(size=n)

    @cached_property
    def rows(self) -> Array:
        return unit_rows(SAMPLE, self.dim, np.random.default_rng(1))

    @cached_property
    def truth(self) -> Array:
        return self.rows @ self.w0

    def value(self, w: Array) -> float:
        return float(self._expected(self.rows @ w)[0].mean())

    def gradient(self, w: Array) -> Array:
        return self.rows.T @ self._expected(self.rows @ w)[1] / SAMPLE

    def _expected(self, a: Array) -> tuple[Array, Array]:
        """Loss and slope at score a, on average over y."""
        if self.kind == "signs":
            up, one = sigmoid(self.truth), np.ones(SAMPLE)
            return (
                up * self.loss.value(a, one) + (1 - up) * self.loss.value(a, -one),
                up * self.loss.slope(a, one) + (1 - up) * self.loss.slope(a, -one),
            )
        # tau E r_+ + (1 - tau) E (-r)_+,  r = c + u;  the absolute loss is twice that with tau = 1/2
        c = self.truth - a
        if isinstance(self.loss, Absolute):
            tau, times = 0.5, 2.0
        else:
            assert isinstance(self.loss, Pinball)
            tau, times = self.loss.quantile, 1.0
        above, below = np.logaddexp(0.0, c), np.logaddexp(0.0, -c)
        return times * (tau * above + (1 - tau) * below), -times * (sigmoid(c) - (1 - tau))

    @cached_property
    def least(self) -> float:
        """min over the ball of radius M."""
        ball = {"type": "ineq", "fun": lambda w: M**2 - w @ w, "jac": lambda w: -2 * w}
        options = {"maxiter": 500, "ftol": 1e-9}
        found = minimize(self.value, self.w0, jac=self.gradient, method="SLSQP", constraints=[ball], options=options)
        return min(float(found.fun), self.value(self.w0))

    def excess(self, w: Array) -> float:
        return self.value(w) - self.least
