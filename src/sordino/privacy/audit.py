r"""A lower bound on epsilon from many outputs on two neighbouring data sets.

If a mechanism is (epsilon, delta)-private then every event has  P(event) <= e^epsilon Q(event) + delta. So an event
seen often on one data set and seldom on its neighbour proves

    epsilon >= log( (P_low - delta) / Q_high ),       P_low, Q_high: Clopper-Pearson bounds.

The event, a half-line of a one-dimensional statistic, is chosen on one half of the outputs and measured on the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Sample = NDArray[np.float64]

_THRESHOLDS = 400


@dataclass(frozen=True)
class Audit:
    """`epsilon` is certain up to `1 - confidence`; the rates are those of the chosen event on the second halves."""

    epsilon: float
    delta: float
    confidence: float
    seen: float
    seen_on_neighbour: float


def audit(one: Sample, other: Sample, delta: float, confidence: float = 0.999) -> Audit:
    """The largest epsilon that these outputs of a mechanism on two neighbouring data sets rule out."""
    one, other = np.asarray(one, dtype=float).ravel(), np.asarray(other, dtype=float).ravel()
    if min(len(one), len(other)) < 20:
        raise ValueError(f"{min(len(one), len(other))} outputs: an audit needs at least 20 from each data set.")
    (choose_one, measure_one), (choose_other, measure_other) = _halves(one), _halves(other)
    choices = [
        (_best_threshold(sign * a, sign * b, delta), sign, swapped)
        for sign in (1, -1)
        for a, b, swapped in ((choose_one, choose_other, False), (choose_other, choose_one, True))
    ]
    ((_, threshold), sign, swapped) = max(choices)
    P, Q = (measure_other, measure_one) if swapped else (measure_one, measure_other)
    p, q = int((sign * P >= threshold).sum()), int((sign * Q >= threshold).sum())
    # two one-sided bounds share the error
    low = _lower(p, len(P), (1 - confidence) / 2)
    high = 1 - _lower(len(Q) - q, len(Q), (1 - confidence) / 2)
    epsilon = math.log((low - delta) / high) if low > delta else 0.0
    return Audit(max(0.0, epsilon), delta, confidence, p / len(P), q / len(Q))


def _halves(sample: Sample) -> tuple[Sample, Sample]:
    return sample[: len(sample) // 2], sample[len(sample) // 2 :]


def _lower(successes: int, trials: int, error: float) -> float:
    """Clopper-Pearson: the smallest probability not ruled out by so many successes."""
    return float(beta.ppf(error, successes, trials - successes + 1)) if successes else 0.0


def _best_threshold(P: Sample, Q: Sample, delta: float) -> tuple[float, float]:
    """The (score, threshold) where P above it stands out most, with counts pulled towards safety."""
    thresholds = np.quantile(np.concatenate([P, Q]), np.linspace(0, 1, _THRESHOLDS, endpoint=False))
    P, Q = np.sort(P), np.sort(Q)
    p, q = (len(S) - np.searchsorted(S, thresholds, side="left") for S in (P, Q))
    # about three standard errors either way, so that a lucky tail of a few outputs is not chosen
    low = (p - 3 * np.sqrt(p + 1)) / len(P) - delta
    high = (q + 3 * np.sqrt(q + 1) + 5) / len(Q)
    score = np.log(np.maximum(low, 1e-300) / high)
    best = int(score.argmax())
    return float(score[best]), float(thresholds[best])
