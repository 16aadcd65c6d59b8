"""What records count: by their class, and one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino import wire
from sordino.arrays import Array
from sordino.given import require_number
from sordino.losses import Loss, Weighted
from sordino.oracle.files.source import Source
from sordino.prepare import ClassBalance
from sordino.sentences import RECORDS_WEIGHTED

BALANCED = "balanced"


def with_class_weights(loss: Loss, given: Any, classes: NDArray[Any]) -> Loss:
    """The loss, with public weights of its classes; a class that is not named has weight 1, as in scikit-learn."""
    if given is None or (isinstance(given, str) and given == BALANCED):
        return loss
    if not isinstance(given, Mapping):
        raise ValueError(
            f"class_weight is {wire.shown(given)}: it must be None, 'balanced', which pays for a count of the classes, "
            "or a dictionary from labels to public numbers."
        )
    labels = classes.tolist()
    strange = [label for label in given if label not in labels]
    if strange:
        raise ValueError(f"class_weight names {wire.shown(strange[0])}, which is not among the classes.")
    for label, weight in given.items():
        require_number(f"class_weight of {label!r}", weight)
    return Weighted.of(loss, [float(given.get(label, 1.0)) for label in labels])


def balance_of(given: Any, classes: NDArray[Any]) -> ClassBalance | None:
    return ClassBalance(len(classes)) if isinstance(given, str) and given == BALANCED else None


def record_weights(given: Any, bound: float | None, X: Any) -> tuple[Array | None, tuple[str, ...]]:
    """Weights from 0 to 1 in units of their public bound, cut to it, and what a certificate says of them."""
    if given is None:
        return None, ()
    if bound is None:
        raise ValueError(
            "weight_bound is required with sample_weight: a bound on each record's weight that does not come from the "
            "data (weights above it are cut to it)."
        )
    require_number("weight_bound", bound)
    if not (math.isfinite(bound) and bound > 0):
        raise ValueError(f"weight_bound is {bound}: it must be a positive finite number.")
    if isinstance(X, Source):
        raise ValueError("sample_weight is for records in memory: those in files or on a cluster count one each.")
    try:
        weights = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        weights = None
    if weights is None:
        raise ValueError("sample_weight holds something that is not a number: one number for every record is needed.")
    if weights.ndim == 0:
        weights = np.full(X.shape[0], float(weights))
    if weights.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar: one number for every record is needed.")
    if weights.shape != (X.shape[0],):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(X.shape[0],)}!")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("sample_weight must hold finite numbers, none of them negative.")
    return np.minimum(weights / bound, 1.0), (RECORDS_WEIGHTED(weight_bound=bound),)
