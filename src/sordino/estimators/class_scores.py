"""Labels and probabilities from scores: one per row for two classes, one per row and class for more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from sordino.arrays import Array


def most_likely(scores: Array, classes: NDArray[Any]) -> NDArray[Any]:
    labels: NDArray[Any] = classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
    return labels


def class_probabilities(scores: Array) -> Array:
    """One per row and class."""
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    probabilities: Array = softmax(scores, axis=1)
    return probabilities
