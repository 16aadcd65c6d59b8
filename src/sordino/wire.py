"""Frozen dataclasses to plain JSON values and back, for files a stranger may read.

Reading builds only the kinds the caller names, from values of the types their fields have, so a file cannot make
anything else happen.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

LONGEST, DEEPEST, LARGEST = 1 << 20, 50, 1 << 53
"""Of a text in characters, of its nesting, and of a whole number in it: what is beyond was not written here."""
LATER = {"later": True}
"""Metadata of a field that older files do not have: with its default it is not written, as in those."""
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def parse(text: str, longest: int = LONGEST) -> Any:
    """Strict JSON of bounded size and depth: no name twice, no NaN, nothing infinite. A sentence for anything else."""
    if len(text) > longest:
        raise ValueError(f"it has {len(text)} characters, and at most {longest} are read.")
    depth = 0
    # a text without its end too, which would otherwise be looked for once more from every quote in it
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'(?s)"(?:[^"\\]|\\.)*+"?', "", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep.")
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite, parse_int=_countable
        )
    except json.JSONDecodeError:
        raise ValueError("it is not JSON.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("it says something twice under one name.")
    return named


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("it holds a number that is not finite.")
    return value


def _countable(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > LARGEST:
        raise ValueError(f"it holds a whole number beyond {LARGEST}.")
    return value


def shown(value: Any) -> str:
    """A value from a file for an error, which must not repeat the file."""
    try:
        return _SHORT.repr(value)
    except ValueError:
        # Python does not write out whole numbers of thousands of digits
        return "a number beyond reach"


def to_plain(value: Any) -> Any:
    """Dictionaries with a 'kind', lists, numbers and strings; infinities become the strings JSON can carry."""
    if is_dataclass(value) and not isinstance(value, type):
        written = [field for field in fields(value) if not _is_left_out(field, value)]
        named = {field.name: to_plain(_as_declared(field, getattr(value, field.name))) for field in written}
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
                raise ValueError(f"unknown kind {shown(kind)}: one of {', '.join(kinds)} is needed.")
            try:
                built = {str(name): from_plain(item, kinds) for name, item in named.items()}
                return kinds[kind](**{name: _typed(kinds[kind], name, item) for name, item in built.items()})
            except (TypeError, AttributeError, ArithmeticError) as error:
                raise ValueError(f"the fields of {kind!r} do not fit: {error}.") from None
        case dict():
            return {key: from_plain(item, kinds) for key, item in data.items()}
        case list():
            return tuple(from_plain(item, kinds) for item in data)
        case "inf" | "-inf":
            return float(data)
    return data


def _is_left_out(field: Field[Any], value: Any) -> bool:
    return "later" in field.metadata and getattr(value, field.name) == field.default


def _as_declared(field: Field[Any], value: Any) -> Any:
    """One spelling for one number: a float field holds 1.0 also where 1 was given."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return float(value) if whole and field.type in ("float", "float | None") else value


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _typed(kind: type, name: str, value: Any) -> Any:
    hint = _types(kind).get(name, Any)
    if _fits(hint, value):
        return value
    if type(value) is int and abs(value) <= LARGEST and _fits(hint, float(value)):
        return float(value)
    raise TypeError(f"{name} has a value of another type")


def _fits(hint: Any, value: Any) -> bool:
    if hint is Any:
        return True
    if hint in (bool, int, float, str, NoneType):
        # not isinstance, which takes True for 1
        return type(value) is hint
    match get_origin(hint):
        case origin if origin in (Union, UnionType):
            return any(_fits(option, value) for option in get_args(hint))
        case origin if origin is Literal:
            return isinstance(value, str) and value in get_args(hint)
        case origin if origin is tuple:
            inner = get_args(hint)
            inner = inner[:1] * len(value) if isinstance(value, tuple) and inner[1:] == (...,) else inner
            return isinstance(value, tuple) and len(value) == len(inner) and all(map(_fits, inner, value))
    kind: Any = get_origin(hint) or hint
    if issubclass(kind, Enum):
        return isinstance(value, str)
    # a protocol's part can be any of the kinds; whoever asked for them says which
    return isinstance(value, kind) if isinstance(kind, type) and is_dataclass(kind) else is_dataclass(value)


def canonical(plain: Any) -> str:
    """One text for one value, types included."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(plain: Any) -> str:
    """SHA-256 of the canonical text of a plain value."""
    return hashlib.sha256(canonical(plain).encode()).hexdigest()


def close(one: Any, other: Any) -> bool:
    """Equal plain values of equal types, fractions up to what another version of a numerical library may change."""
    if type(one) is not type(other):
        return False
    match one:
        case dict():
            return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
        case list():
            return len(one) == len(other) and all(map(close, one, other))
        case float():
            return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)
