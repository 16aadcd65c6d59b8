r"""The public description of a table: what every column may hold, written down before a record is read.

    number      v  ->  (clip(v, low, high) - centre) / half,  in [-1, 1]        centre, half = (high +- low) / 2
    category    v  ->  a one at v's place in the public list, zeros elsewhere
    boolean     v  ->  +1 or -1

Every column becomes a block of norm at most 1, so a row of B blocks has norm at most sqrt(B). Nothing is measured: a
bound, a category or a class that is not in the schema does not exist for the model.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sordino import wire

OTHER = "(other)"
"""The name of the column that takes every value a category does not list."""


@dataclass(frozen=True)
class Number:
    """A number clipped to [low, high]. `missing="middle"` puts a missing one at the centre; None refuses it."""

    low: float
    high: float
    missing: str | None = None

    def __post_init__(self) -> None:
        _require_range(self.low, self.high)
        _require_middle(self.missing)

    @property
    def centre(self) -> float:
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        # halves first: high - low may overflow
        return self.high / 2 - self.low / 2


@dataclass(frozen=True)
class Category:
    """One of `values`. With `other`, unlisted and missing ones share a column; `missing` may name a value instead."""

    values: tuple[str, ...]
    other: bool = False
    missing: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _texts("values", self.values))
        if len(self.values) + self.other < 2:
            raise ValueError("a category needs at least two values, or one and other = true.")
        if self.missing is not None:
            object.__setattr__(self, "missing", self.missing.strip())
            if self.missing not in self.values:
                raise ValueError(f"missing is {wire.shown(self.missing)}: it must be one of the listed values.")


@dataclass(frozen=True)
class Boolean:
    """True or false, also written yes/no, t/f, y/n or 1/0. `missing="middle"` encodes a missing one as 0."""

    missing: str | None = None

    def __post_init__(self) -> None:
        _require_middle(self.missing)


Column = Number | Category | Boolean


@dataclass(frozen=True)
class ClassTarget:
    """The column to predict, one of the public `classes`."""

    column: str
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", _texts("classes", self.classes))
        if len(self.classes) < 2:
            raise ValueError(f"the target has {len(self.classes)} class: list at least two in `classes`.")


@dataclass(frozen=True)
class NumberTarget:
    """The column to predict, a number clipped to [low, high] before training; predictions stay inside."""

    column: str
    low: float
    high: float

    def __post_init__(self) -> None:
        _require_range(self.low, self.high)

    @property
    def bounds(self) -> Number:
        return Number(self.low, self.high)


Target = ClassTarget | NumberTarget


@dataclass(frozen=True)
class Schema:
    """The target, the columns a model may use in their order, and the columns it is known not to use.

    `sources` says of columns where their bounds, values or classes are from: a code book, a law, an assumption.
    """

    target: Target
    columns: Mapping[str, Column]
    ignore: tuple[str, ...] = field(default=())
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("the schema lists no columns: a model needs at least one besides the target.")
        if self.target.column in self.columns:
            raise ValueError(
                f"{wire.shown(self.target.column)} is the target and a column at once: remove it from the columns."
            )
        for name in self.ignore:
            if name in self.columns or name == self.target.column:
                raise ValueError(
                    f"{wire.shown(name)} is ignored and used at once: remove it from `ignore` or from the columns."
                )
        for name in self.sources:
            if name not in self.columns and name != self.target.column:
                raise ValueError(f"{wire.shown(name)} has a source and is no column: remove it from `sources`.")

    @property
    def task(self) -> str:
        return "classification" if isinstance(self.target, ClassTarget) else "regression"

    @property
    def row_norm(self) -> float:
        """sqrt(B): a number adds at most 1 to the squared norm of a row, a category exactly 1."""
        return math.sqrt(len(self.columns))

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(feature for name, column in self.columns.items() for feature in _features(name, column))

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return sum(block_width(column) for column in self.columns.values())

    def to_toml(self) -> str:
        from sordino.tabular.toml import write_schema

        return write_schema(self)

    @staticmethod
    def from_toml(text: str) -> Schema:
        """The schema, or a sentence that names the first entry that is not right."""
        from sordino.tabular.toml import parse_schema

        return parse_schema(text)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Schema:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a schema: it is not UTF-8 text.") from None
        try:
            return Schema.from_toml(text)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def block_width(column: Column) -> int:
    """How many encoded columns a column becomes."""
    return len(column.values) + column.other if isinstance(column, Category) else 1


def _features(name: str, column: Column) -> list[str]:
    if not isinstance(column, Category):
        return [name]
    return [f"{name}={value}" for value in (*column.values, *([OTHER] if column.other else []))]


def _require_range(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"low is {low} and high is {high}: give finite numbers with low < high that are known without looking at "
            "the records."
        )


def _require_middle(missing: str | None) -> None:
    if missing not in (None, "middle"):
        raise ValueError(f"missing is {wire.shown(missing)}: it can be 'middle', or left out to refuse missing values.")


def _texts(key: str, values: tuple[str, ...]) -> tuple[str, ...]:
    # spaces around a value are the doing of whoever wrote the file: cells are stripped too
    texts = tuple(str(value).strip() for value in values)
    for text, count in Counter(texts).items():
        if count > 1:
            raise ValueError(f"{key} lists {wire.shown(text)} more than once.")
    return texts
