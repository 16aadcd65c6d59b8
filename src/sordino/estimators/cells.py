"""What scikit-learn would say by quoting a cell, or a column's name that may be one, said without it.

To be called before its own checks, which need not look for numbers that are not finite again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from sordino.oracle.files.source import Source


def require_numbers(name: str, values: Any) -> None:
    """Raise a sentence unless these are finite numbers, of X one row per record. No sentence quotes a cell."""
    require_unmasked(name, values)
    if values is None and name == "X":
        raise ValueError("X is None: give numbers, one row per record.")
    if isinstance(values, Source):
        raise TypeError(
            f"{name} holds records in files ({type(values).__name__}), which are fitted and evaluated as such and "
            "predicted as rows in memory: give those of a file, or of a piece of it."
        )
    names = names_of(values) or []
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of {name} have the same name: give every column a name of its own.")
    kinds = [values.dtype] if hasattr(values, "dtype") else list(getattr(values, "dtypes", ()))
    if any(_kind(kind) in "mM" for kind in kinds):
        raise ValueError(
            f"{name} holds dates or times: give numbers, such as days since a public date that does not depend on the "
            "records."
        )
    if any(_kind(kind) == "c" for kind in kinds):
        raise ValueError(f"Complex data not supported: {name} holds complex numbers; give real ones.")
    with np.errstate(over="ignore"):
        numbers = _as_numbers(name, values.tocsr().data if sparse.issparse(values) else values, kinds)
    if numbers is None or values is None:
        return
    if name == "X" and not sparse.issparse(values) and numbers.ndim != 2:
        raise ValueError(
            f"Expected 2D array: X has {numbers.ndim} dimensions and needs two, one row per record. Reshape your data, "
            "with reshape(-1, 1) if it has a single feature or reshape(1, -1) if it is a single record."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        # the sum tells nearly always, and needs no memory
        finite = np.isfinite(numbers.sum()) or np.isfinite(numbers).all()
    if not finite:
        raise ValueError(
            f"{name} contains NaN or infinite numbers, or numbers too large for a double: drop such records, or fill "
            "the gaps with a number that does not come from the records."
        )


def require_unmasked(name: str, values: Any) -> None:
    """A mask would be ignored, and what is under it used."""
    if np.ma.isMaskedArray(values):
        raise ValueError(
            f"{name} is a masked array: fill what is masked with a number that does not come from the records, with "
            "its method `filled`, or drop such records."
        )


def require_labels(y: Any) -> None:
    """Raise a sentence about labels under a mask, or missing among pandas' own kinds, which cannot be compared."""
    require_unmasked("y", y)
    if hasattr(getattr(y, "dtype", None), "na_value") and y.isna().any():
        raise ValueError(
            "y contains NaN or another missing label: give every record a label, or drop those that have none."
        )


def _as_numbers(name: str, values: Any, kinds: list[Any]) -> Any:
    """The numbers; None where scikit-learn's sentence is as good, because it is about the kind of an object."""
    may_lack = any(hasattr(kind, "na_value") for kind in kinds)
    if kinds and not may_lack and all(_kind(kind) in "biuf" and kind.itemsize <= 8 for kind in kinds):
        return np.asarray(values)
    try:
        if may_lack:
            # kinds of pandas' own: what is missing there is no number to NumPy, and not even comparable to one
            return values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(values, dtype=np.float64)
    except TypeError:
        return None
    except OverflowError:
        sentence = f"{name} holds a whole number that is too large for a double: give numbers of a bounded range."
    except ValueError:
        sentence = (
            f"{name} holds a text that is not a number, or rows of different lengths: give numbers, one row per "
            "record; categories can be encoded with a public schema (see `sordino schema`)."
        )
    # outside of the block above, because what NumPy says quotes the cell
    raise ValueError(sentence)


def require_fitted_names(estimator: Any, X: Any) -> None:
    """Raise a sentence if a data frame has other columns than the one the estimator was fitted on."""
    fitted, given = getattr(estimator, "feature_names_in_", None), names_of(X)
    if fitted is not None and given is not None and list(fitted) != given:
        raise ValueError(
            "The feature names should match those that were passed during fit: give the same columns, of the same "
            "names and in the same order."
        )


def names_of(X: Any) -> list[Any] | None:
    """Of a table's columns; one of PyArrow has what is in them under `columns`."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def _kind(dtype: Any) -> str:
    return str(getattr(dtype, "kind", "O"))
