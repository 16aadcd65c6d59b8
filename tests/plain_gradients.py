"""Per-record gradients written out one after the other: what the oracles must agree with.

Nothing here is fast and nothing is shared with the kernels except the losses, rows and their formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.losses import (
    Absolute,
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    HuberisedHinge,
    Logistic,
    MoreauSmoothed,
    Pinball,
    Poisson,
    Softmax,
    Squared,
    Weighted,
)


@dataclass(frozen=True)
class Silence:
    """Noise that adds nothing, to look at the sum itself."""

    sensitivity: float = math.inf

    def perturb(self, value, randomness):
        return value


def exact(oracle, query):
    """The sum that an oracle would perturb."""
    return oracle.release(query, Silence(), None)


LOSSES = (
    Logistic(),
    Softmax(3),
    Squared(target_bound=0.8),
    Huber(threshold=0.4),
    Huber(threshold=0.4, target_bound=0.8),
    HuberisedHinge(width=0.3),
    Hinge(),
    Absolute(target_bound=0.8),
    Pinball(quantile=0.3, target_bound=0.8),
    EpsilonInsensitive(tolerance=0.2, target_bound=0.8),
    MoreauSmoothed(Hinge(), 4.0),
    MoreauSmoothed(Absolute(target_bound=0.8), 2.0),
    MoreauSmoothed(Pinball(quantile=0.3), 0.5),
    MoreauSmoothed(EpsilonInsensitive(tolerance=0.2), 3.0),
    Poisson(target_bound=0.8, clip=0.5),
    Gamma(least_target=0.1, target_bound=0.8, clip=1.5),
    Weighted(Logistic(), (0.3, 1.0)),
    Weighted(Softmax(3), (1.0, 0.0, 0.4)),
    Weighted(MoreauSmoothed(Hinge(), 4.0), (1.0, 0.6)),
)


def label(loss):
    """A test's name for it."""
    name = type(loss).__name__
    return f"{name}-{label(loss.base)}" if isinstance(loss, MoreauSmoothed | Weighted) else name


def targets(loss, count, rng):
    """Labels for a classifier, numbers for a regression."""
    if isinstance(loss, Weighted):
        return targets(loss.base, count, rng)
    if isinstance(loss, Softmax):
        return rng.integers(0, loss.classes, count).astype(float)
    if isinstance(getattr(loss, "base", loss), Logistic | Hinge | HuberisedHinge):
        return rng.choice([-1.0, 1.0], count)
    return rng.normal(size=count)


def norm(x):
    """Euclidean norm without overflow; infinite when an entry is not finite."""
    x = np.asarray(x, dtype=np.float64).ravel()
    if not np.isfinite(x).all():
        return math.inf
    return math.hypot(*x.tolist())


def bounded_row(x, rows):
    """(scale x, rho), without its features when they are not finite or too long for a score that does not overflow."""
    x = np.asarray(x, dtype=np.float64)
    scale = rows.scales(np.array([norm(x)]))[0]
    features = x * scale if scale > max(1e-290, rows.factor * 1e-100) else np.zeros(len(x))
    return np.append(features, rows.intercept) if rows.has_intercept else features


def usable(loss, y):
    """A finite number; a class's number; a label, as the loss's docstring says."""
    if isinstance(loss, Weighted):
        return usable(loss.base, y)
    if loss.outputs > 1:
        return y in range(loss.outputs)
    return y in (-1, 1) if "{-1, +1}" in getattr(loss, "base", loss).__doc__ else math.isfinite(y)


def gradient(x, y, rows, loss, w, clip):
    """One record's clipped gradient, times its weight; zero where its target or slope is not usable."""
    if isinstance(loss, Weighted):
        return weight(loss, y) * gradient(x, y, rows, loss.base, w, clip)
    full = _full(x, y, rows, loss, w)
    if not np.isfinite(full).all():
        return np.zeros(full.size)
    return full * min(1.0, clip / max(norm(full), 1e-300))


def weight(loss, y):
    """Of one record's class; nothing where it has none."""
    return loss.weights[int(y > 0) if loss.outputs == 1 else int(y)] if usable(loss, y) else 0.0


def _full(x, y, rows, loss, w):
    row = bounded_row(x, rows)
    table = np.asarray(w).reshape(loss.outputs, -1)
    if not usable(loss, y):
        return np.zeros(table.size)
    with np.errstate(all="ignore"):
        scores = table @ row
        slopes = loss.slope(scores if loss.outputs > 1 else scores[0], np.float64(y))
        return np.outer(slopes, row).ravel()


def difference(x, y, rows, loss, w, since, clip):
    """How far one record's gradient moved, clipped, times its weight; zero where either gradient is not usable."""
    if isinstance(loss, Weighted):
        return weight(loss, y) * difference(x, y, rows, loss.base, w, since, clip)
    with np.errstate(all="ignore"):
        full = _full(x, y, rows, loss, w) - _full(x, y, rows, loss, since)
    if not np.isfinite(full).all():
        return np.zeros(full.size)
    return full * min(1.0, clip / max(norm(full), 1e-300))


def recursion(x, y, rows, loss, w, since, near, clip, mix):
    return (1 - mix) * difference(x, y, rows, loss, w, since, near) + mix * gradient(x, y, rows, loss, w, clip)


def recursive_sum(X, y, rows, loss, w, since, near, clip, mix, batch=None):
    chosen = range(len(X)) if batch is None else batch
    zero = np.zeros(np.size(w))
    return sum((recursion(X[i], y[i], rows, loss, w, since, near, clip, mix) for i in chosen), zero)


def clipped_sum(X, y, rows, loss, w, clip, batch=None):
    chosen = range(len(X)) if batch is None else batch
    zero = np.zeros(np.size(w))
    return sum((gradient(X[i], y[i], rows, loss, w, clip) for i in chosen), zero)


def mean_loss(X, y, rows, loss, w):
    table = np.asarray(w).reshape(loss.outputs, -1)
    total = 0.0
    for x, target in zip(X, y, strict=True):
        if usable(loss, target):
            scores = table @ bounded_row(x, rows)
            value = float(loss.value(scores if loss.outputs > 1 else scores[0], np.float64(target)))
            total += value if math.isfinite(value) else 0.0
    return total / len(X)
