r"""The public description of a table: what every column may hold, written down before a record is read.

    number      v  ->  (clip(v, low, high) - centre) / half,  in [-1, 1]        centre, half = (high +- low) / 2
                       or with a public typical value t  (.. - t) / max(high - t, t - low)
    date        v  ->  the same, of the days since 1970: its origin is the centre, its unit half the range
    ordinal     v  ->  -1 for the first of the public list, 1 for the last, evenly spaced between
    category    v  ->  a one at v's place in the public list, zeros elsewhere
    boolean     v  ->  +1 or -1
    missing     a public stand-in, or with an indicator  ->  a one in a column of its own, zeros elsewhere

Every column becomes a block of norm at most 1, because one entry of it at most is not zero. So a row of B blocks has
norm at most sqrt(B). With `curves` what is a single entry here becomes a curve (see `tabular.curves`). Nothing is
measured: a bound, a category or a class that is not in the schema does not exist for the model.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino import wire
from sordino.tabular.columns import Category, ClassTarget, Column, Target, block_width, features
from sordino.tabular.curves import Curves

if TYPE_CHECKING:
    from sordino.tabular.expansion import Expansion


@dataclass(frozen=True)
class Schema:
    """The target, the columns a model may use in their order, and the columns it is known not to use.

    `sources` says of columns where their bounds, values or classes are from: a code book, a law, an assumption. With
    `curves` a model is additive: every number may have a curve instead of a slope.
    """

    target: Target
    columns: Mapping[str, Column]
    ignore: tuple[str, ...] = field(default=())
    sources: Mapping[str, str] = field(default_factory=dict)
    curves: Curves | None = None

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
        if self.curves is not None:
            self.curves.require_columns(self.columns)
            for name, column in self.columns.items():
                if column.typical is not None or (isinstance(column, Category) and column.discover is not None):
                    raise ValueError(
                        f"{wire.shown(name)} has `typical` or `discover`, and the schema has curves, which know "
                        "neither: remove it, or the curves."
                    )

    @property
    def task(self) -> str:
        return "classification" if isinstance(self.target, ClassTarget) else "regression"

    @property
    def row_norm(self) -> float:
        """sqrt(B): a number adds at most 1 to the squared norm of a row, a category exactly 1."""
        return math.sqrt(len(self.columns)) if self.curves is None else self.curves.row_norm(self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        if self.curves is not None:
            return self.curves.feature_names(self.columns)
        return tuple(feature for name, column in self.columns.items() for feature in features(name, column))

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        if self.curves is not None:
            return len(self.feature_names)
        return sum(block_width(column) for column in self.columns.values())

    @property
    def entries(self) -> int:
        """The most numbers of an encoded row that are not zero."""
        return len(self.columns) if self.curves is None else self.curves.entries(self.columns)

    @property
    def expansion(self) -> Expansion | None:
        """What rows of the columns become where there are curves."""
        from sordino.tabular.expansion import Expansion

        return None if self.curves is None else Expansion(self.columns, self.curves)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns whose values are still to be discovered."""
        return tuple(
            name for name, column in self.columns.items() if isinstance(column, Category) and column.values is None
        )

    def with_values(self, found: Mapping[str, tuple[str, ...]]) -> Schema:
        """The same with the values that were found, none in a column that is not named."""
        known: dict[str, Column] = dict(self.columns)
        for name, column in self.columns.items():
            if isinstance(column, Category) and column.values is None:
                known[name] = replace(column, values=found.get(name, ()))
        return replace(self, columns=known)

    @property
    def digest(self) -> str:
        """SHA-256 of its TOML form."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()

    def to_toml(self) -> str:
        from sordino.tabular.toml import write_schema

        return write_schema(self.target, self.columns, self.ignore, self.sources, self.curves)

    @staticmethod
    def from_toml(text: str) -> Schema:
        """The schema, or a sentence that names the first entry that is not right."""
        from sordino.tabular.toml import parse_schema

        return Schema(*parse_schema(text))

    @staticmethod
    def sketch(data: Any, target: str | None = None) -> str:
        """A schema in TOML to fill in, from the names and types of a data frame's columns; no cell is looked at."""
        from sordino.tabular.cells import require_columns
        from sordino.tabular.frames import column_kinds
        from sordino.tabular.toml import write_sketch

        kinds = column_kinds(data)
        if target is not None:
            require_columns([target], list(kinds), "the table")
        return write_sketch(kinds, target)

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


def require_schema(schema: Any) -> Schema:
    if not isinstance(schema, Schema):
        raise TypeError(
            f"schema is a {type(schema).__name__}: give a sordino.Schema, such as Schema.load('schema.toml')."
        )
    return schema
