"""What scikit-learn would say by quoting a cell, or a column's name that may be one, said without it.

To be called before its own checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def require_numbers(name: str, values: Any) -> None:
    """Raise a sentence if some cell is a text that is no number."""
    kinds = [values.dtype] if hasattr(values, "dtype") else list(getattr(values, "dtypes", ()))
    if values is None or sparse.issparse(values) or (kinds and all(_is_numeric(kind) for kind in kinds)):
        return
    try:
        np.asarray(values, dtype=np.float64)
        return
    except TypeError:
        # about the kind of an object, not its value: scikit-learn's sentence is as good
        return
    except ValueError:
        pass
    raise ValueError(
        f"{name} holds a text that is not a number, or rows of different lengths: give numbers, one row per record; "
        "categories can be encoded with a public schema (see `sordino schema`)."
    )


def require_fitted_names(estimator: Any, X: Any) -> None:
    """Raise a sentence if a data frame has other columns than the one the estimator was fitted on."""
    fitted, given = getattr(estimator, "feature_names_in_", None), getattr(X, "columns", None)
    if fitted is not None and given is not None and list(fitted) != list(given):
        raise ValueError(
            "The feature names should match those that were passed during fit: give the same columns, of the same "
            "names and in the same order."
        )


def _is_numeric(kind: Any) -> bool:
    return getattr(kind, "kind", "O") in "biufc"
