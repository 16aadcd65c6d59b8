"""Frozen dataclasses to plain JSON values and back, for files a stranger may read.

Reading builds only the kinds the caller names, so a file cannot make anything else happen.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np


def to_plain(value: Any) -> Any:
    """Dictionaries with a 'kind', lists, numbers and strings; infinities become the strings JSON can carry."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **named}
    match value:
        case Enum():
            return value.value
        case dict():
            return {str(key): to_plain(item) for key, item in value.items()}
        case list() | tuple():
            return [to_plain(item) for item in value]
        case np.generic():
            return to_plain(value.item())
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case float() if math.isnan(value):
            raise ValueError("not-a-number cannot be written to a file.")
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"{type(value).__name__} has no plain form.")


def from_plain(data: Any, kinds: Mapping[str, type]) -> Any:
    """What `to_plain` wrote; lists come back as tuples. A kind outside `kinds` is refused with a sentence."""
    match data:
        case {"kind": str(kind), **named}:
            if kind not in kinds:
                raise ValueError(f"unknown kind {kind!r}: one of {', '.join(kinds)} is needed.")
            try:
                return kinds[kind](**{str(name): from_plain(item, kinds) for name, item in named.items()})
            except TypeError as error:
                raise ValueError(f"the fields of {kind!r} do not fit: {error}.") from None
        case dict():
            return {key: from_plain(item, kinds) for key, item in data.items()}
        case list():
            return tuple(from_plain(item, kinds) for item in data)
        case "inf" | "-inf":
            return float(data)
    return data


def digest(plain: Any) -> str:
    """SHA-256 of the canonical text of a plain value."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
