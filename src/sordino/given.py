"""Parameters as they are given: whatever is no number is refused in a sentence that names it, before it is used."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any


def require_number(name: str, value: Any) -> None:
    """One real number that a double can hold, or a sentence. Which numbers make sense is for the caller to say."""
    # a truth value of NumPy is no Real
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {_shown(value)}: it must be a number.")
    try:
        float(value)
    except OverflowError:
        raise ValueError(f"{name} is a number beyond reach: it must be one that a double can hold.") from None


def require_strength(name: str, value: Any) -> None:
    """Of a penalty."""
    require_number(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}: a penalty needs a finite strength that is not negative.")


def require_choice(name: str, value: Any) -> None:
    """True or False: any other text or number would be taken for one of them."""
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {_shown(value)}: it must be True or False.")


def _shown(value: Any) -> str:
    # here and not above: whoever only asks for help waits for no NumPy
    import numpy as np

    from sordino import wire

    return "an array" if isinstance(value, np.ndarray) else wire.shown(value)
