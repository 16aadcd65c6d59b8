"""What records count: by their class, and one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino import wire
from sordino.arrays import Array
from sordino.estimators.named_columns import WEIGHT
from sordino.given import require_number
from sordino.losses import Loss, Weighted
from sordino.prepare import ClassBalance
from sordino.sentences import RECORDS_WEIGHTED
from sordino.tabular.schema import Schema

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


def weights_in(X: Any, given: Any, bound: float | None, schema: Schema | None) -> tuple[Any, Any]:
    """What is fitted on, without the column that `given` may name, and its cells; an array is taken as it is."""
    if given is not None:
        _require_bound(bound)
    if not isinstance(given, str):
        return X, given
    if schema is not None and given in (*schema.columns, schema.target.column):
        raise ValueError(
            f"column {given!r} is to hold the weights, and the schema has it as a feature or as the target: a weight "
            "is neither. Take it out of the schema's `columns`."
        )
    X, cells = WEIGHT.taken(X, given, schema is not None)
    from sordino.tabular.encode import numbers_in

    weights = np.concatenate([numbers_in(given, piece) for piece in cells] or [np.empty(0)])
    if not (weights >= 0).all() or np.isinf(weights).any():
        raise ValueError(
            f"column {given!r} has a weight that is missing, negative or infinite in at least one record: mend the "
            "records; a weight of 0 leaves one out."
        )
    return X, weights


def record_weights(given: Any, bound: float | None, X: Any) -> tuple[Array | None, tuple[str, ...]]:
    """Weights from 0 to 1 in units of their public bound, cut to it, and what a certificate says of them."""
    if given is None or bound is None:
        return None, ()
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
    # cut first: what overflowed beside a small bound would be told by a warning
    return np.minimum(weights, bound) / bound, (RECORDS_WEIGHTED(weight_bound=bound),)


def _require_bound(bound: float | None) -> None:
    if bound is None:
        raise ValueError(
            "weight_bound is required with sample_weight: a bound on each record's weight that does not come from the "
            "data (weights above it are cut to it)."
        )
    require_number("weight_bound", bound)
    if not (math.isfinite(bound) and bound > 0):
        raise ValueError(f"weight_bound is {bound}: it must be a positive finite number.")
