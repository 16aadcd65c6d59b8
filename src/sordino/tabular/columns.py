"""What a column may hold: its kind, and its public range or values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sordino import wire

OTHER, MISSING = "(other)", "(missing)"
"""The names of the columns that take every value a category does not list, and what is missing."""

MIDDLE, INDICATOR = "middle", "indicator"
"""What `missing` may say: take the centre of the range, or mark it in a column of its own."""

MOST_DISCOVERED = 1000
"""Values that may be looked for in one column."""


@dataclass(frozen=True)
class Number:
    """A number clipped to [low, high].

    `missing` is a number that stands in for a missing one, "middle" for the centre, or "indicator"; None refuses it.
    `typical` is a number that most are near, as far as the public knows: it is encoded as 0 instead of the centre.
    """

    low: float
    high: float
    missing: float | str | None = None
    typical: float | None = None

    def __post_init__(self) -> None:
        _require_range(self.low, self.high)
        if self.typical is not None and not (
            isinstance(self.typical, int | float)
            and not isinstance(self.typical, bool)
            and self.low <= self.typical <= self.high
            and math.isfinite(self.unit)
        ):
            raise ValueError(f"typical is {wire.shown(self.typical)}: it must be a number between low and high.")
        if isinstance(self.missing, bool) or not (
            self.missing in (None, MIDDLE, INDICATOR)
            or (isinstance(self.missing, int | float) and self.low <= self.missing <= self.high)
        ):
            raise ValueError(
                f"missing is {wire.shown(self.missing)}: it can be 'middle', 'indicator' or a number between low and "
                "high, or left out to refuse missing values."
            )

    @property
    def centre(self) -> float:
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        # halves first: high - low may overflow
        return self.high / 2 - self.low / 2

    @property
    def origin(self) -> float:
        """What is encoded as 0."""
        return self.centre if self.typical is None else float(self.typical)

    @property
    def unit(self) -> float:
        """How far the further end is from there, which is encoded as 1 or -1."""
        return self.half if self.typical is None else max(self.high - self.typical, self.typical - self.low)


@dataclass(frozen=True)
class Date:
    """A date or time of day between two public dates, written 2024-12-31 or as `format` says (strptime's letters).

    `missing` is a date that stands in, "middle" or "indicator"; None refuses missing ones. `typical` is encoded as 0.
    """

    low: date
    high: date
    missing: date | str | None = None
    format: str | None = None
    typical: date | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _date("low", self.low))
        object.__setattr__(self, "high", _date("high", self.high))
        if self.missing not in (None, MIDDLE, INDICATOR):
            object.__setattr__(self, "missing", _date("missing", self.missing))
        if self.typical is not None:
            object.__setattr__(self, "typical", _date("typical", self.typical))
        if self.low >= self.high:
            raise ValueError(f"low is {self.low} and high is {self.high}: the first must be before the second.")
        _ = self.days

    @property
    def days(self) -> Number:
        """The range in days since 1970."""
        missing, typical = self.missing, None if self.typical is None else _days(self.typical)
        stand_in = _days(missing) if isinstance(missing, date) else missing
        return Number(_days(self.low), _days(self.high), stand_in, typical)


@dataclass(frozen=True)
class Category:
    """One of `values`. With `other`, unlisted and missing ones share a column.

    `missing` names a value that stands in, or is "indicator". `typical` is a value that is encoded as zeros.

    Where nobody can list the values, `discover` is how many to look for: those that occur often enough are found with
    noise, at a price, while a model is fitted (`sordino.prepare.Categories`). `values` is None until then.
    """

    values: tuple[str, ...] | None
    other: bool = False
    missing: str | None = None
    typical: str | None = None
    discover: int | None = None

    def __post_init__(self) -> None:
        if self.discover is not None:
            self._require_discovery()
        elif self.values is None:
            raise ValueError("a category needs its values, or with `discover` how many to look for.")
        if self.values is not None:
            object.__setattr__(self, "values", _texts("values", self.values))
        if self.slots + self.other < 2:
            raise ValueError("a category needs at least two values, or one and other = true.")
        object.__setattr__(self, "missing", _stand_in(self.missing, self.values or (), (INDICATOR,)))
        object.__setattr__(self, "typical", _typical_value(self.typical, self.values or ()))

    @property
    def slots(self) -> int:
        """Columns for values: as many as are looked for, however many are found."""
        return len(self.values or ()) if self.discover is None else self.discover

    def _require_discovery(self) -> None:
        most = self.discover
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_DISCOVERED:
            raise ValueError(
                f"discover is {wire.shown(most)}: it must be how many values to look for at most, from 1 to "
                f"{MOST_DISCOVERED}."
            )
        if self.values is not None and len(self.values) > most:
            raise ValueError(f"values lists {len(self.values)} values where at most {most} were looked for.")
        # what is not found must go somewhere
        object.__setattr__(self, "other", True)


@dataclass(frozen=True)
class Ordinal:
    """One of `values`, which are in their order. `missing` names a value, or is "middle" or "indicator".

    `typical` is a value that is encoded as 0 instead of the middle.
    """

    values: tuple[str, ...]
    missing: str | None = None
    typical: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _texts("values", self.values))
        if len(self.values) < 2:
            raise ValueError("an ordered category needs at least two values.")
        object.__setattr__(self, "missing", _stand_in(self.missing, self.values, (MIDDLE, INDICATOR)))
        object.__setattr__(self, "typical", _typical_value(self.typical, self.values))

    @property
    def places(self) -> Number:
        """The places among the values, as a range of numbers."""
        last = len(self.values) - 1
        return Number(0, last, typical=None if self.typical is None else self.values.index(self.typical))


@dataclass(frozen=True)
class Boolean:
    """True or false, also written yes/no, t/f, y/n or 1/0.

    `missing` is what stands in for a missing one, "middle" to encode it as halfway, or "indicator"; None refuses it.
    `typical` is which of them is encoded as 0.
    """

    missing: bool | str | None = None
    typical: bool | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.missing, bool) or self.missing in (None, MIDDLE, INDICATOR)):
            raise ValueError(
                f"missing is {wire.shown(self.missing)}: it can be 'middle', 'indicator', true or false, or left out "
                "to refuse missing values."
            )
        if not (self.typical is None or isinstance(self.typical, bool)):
            raise ValueError(f"typical is {wire.shown(self.typical)}: it can be true or false.")

    @property
    def places(self) -> Number:
        """False and true as numbers."""
        return Number(-1, 1, typical=None if self.typical is None else 2.0 * self.typical - 1)


Column = Number | Date | Category | Ordinal | Boolean

Label = str | int | bool


@dataclass(frozen=True)
class ClassTarget:
    """The column to predict, one of the public `classes`: all texts, all whole numbers, or False and True."""

    column: str
    classes: tuple[Label, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", _labels(self.classes))
        if len(self.classes) < 2:
            raise ValueError(f"the target has {len(self.classes)} class: list at least two in `classes`.")

    @property
    def sorted(self) -> tuple[Label, ...]:
        """In the order in which the weights know them."""
        return tuple(sorted(self.classes))


@dataclass(frozen=True)
class NumberTarget:
    """The column to predict, a number clipped to [low, high] before training; predictions stay inside."""

    column: str
    low: float
    high: float

    def __post_init__(self) -> None:
        _require_range(self.low, self.high)

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def bounds(self) -> Number:
        return Number(self.low, self.high)


Target = ClassTarget | NumberTarget


def block_width(column: Column) -> int:
    """How many encoded columns a column becomes."""
    return len(_endings(column))


def features(name: str, column: Column) -> list[str]:
    return [name if ending is None else f"{name}={ending}" for ending in _endings(column)]


def _endings(column: Column) -> list[str | None]:
    """The encoded columns of a column, each by what sets it apart from the others."""
    marked = [MISSING] if column.missing == INDICATOR else []
    if isinstance(column, Category):
        values = column.values or ()
        unused = [f"(unused {number})" for number in range(1, column.slots - len(values) + 1)]
        return [*values, *unused, *([OTHER] if column.other else []), *marked]
    return [None, *marked]


def _require_range(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"low is {low} and high is {high}: give finite numbers with low < high that are known without looking at "
            "the records."
        )


def _date(key: str, value: Any) -> date:
    try:
        # a time of day is a date to Python
        if not isinstance(value, datetime):
            return value if isinstance(value, date) else date.fromisoformat(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{key} is {wire.shown(value)}: write a date such as 2024-12-31.")


def _days(day: date) -> float:
    return float(day.toordinal() - date(1970, 1, 1).toordinal())


def _stand_in(missing: str | None, values: tuple[str, ...], others: tuple[str, ...]) -> str | None:
    missing = missing if missing is None else missing.strip()
    if missing not in (None, *values, *others) or (missing in values and missing in others):
        raise ValueError(
            f"missing is {wire.shown(missing)}: it must be one of the listed values, or "
            f"{' or '.join(map(repr, others))}, which then must not be listed."
        )
    return missing


def _typical_value(typical: str | None, values: tuple[str, ...]) -> str | None:
    typical = typical if typical is None else typical.strip()
    if typical not in (None, *values):
        raise ValueError(f"typical is {wire.shown(typical)}: it must be one of the listed values.")
    return typical


def _texts(key: str, values: Iterable[Any]) -> tuple[str, ...]:
    # spaces around a value are the doing of whoever wrote the file: cells are stripped too
    texts = tuple(str(value).strip() for value in values)
    require_different(key, texts)
    return texts


def _labels(classes: Iterable[Any]) -> tuple[Label, ...]:
    """As they are given, so that predictions are of the same kind; NumPy's numbers are numbers too."""
    labels = tuple(value.item() if hasattr(value, "item") else value for value in classes)
    if {type(label) for label in labels} in ({int}, {bool}):
        require_different("classes", labels)
        return labels
    if not all(isinstance(label, str) for label in labels):
        raise ValueError("classes must be all texts, all whole numbers, or false and true.")
    return _texts("classes", labels)


def require_different(key: str, values: tuple[Any, ...]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise ValueError(f"{key} lists {wire.shown(value)} more than once.")
