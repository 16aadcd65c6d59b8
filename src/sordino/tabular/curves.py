r"""Curves in the place of slopes: which columns are curves, of how many pieces, and which depend on each other.

A curve is a line and hats over knots that halve the public range again and again (`tabular.expansion`). Level l has
2^(l-1) hats. An interaction of two columns is made of products of their columns, without those that are fine in both:
their levels add up to log2(pieces) at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from sordino import wire
from sordino.tabular.columns import INDICATOR, Column, Date, Number, Ordinal, block_width, features

MOST_PIECES = 256
INTERACTION = 0.5
"""The norm of an interaction's block beside a column's of 1."""


@dataclass(frozen=True)
class Curves:
    """Every number, date and ordered category is a curve of `pieces` pieces, a power of two.

    `interactions` names pairs of columns, of any kind, whose effects depend on each other.
    """

    pieces: int = 16
    interactions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        known = isinstance(self.pieces, int) and not isinstance(self.pieces, bool)
        if not known or not 2 <= self.pieces <= MOST_PIECES or self.pieces & (self.pieces - 1):
            raise ValueError(
                f"pieces is {wire.shown(self.pieces)}: it must be a power of two from 2 to {MOST_PIECES}, into how "
                "many parts a range is cut."
            )
        object.__setattr__(self, "interactions", _pairs(self.interactions))

    def require_columns(self, columns: Mapping[str, Column]) -> None:
        for name in dict.fromkeys(name for pair in self.interactions for name in pair):
            if name not in columns:
                raise ValueError(
                    f"interactions names {wire.shown(name)}, which is no column of the schema: name two of its columns."
                )

    def levels(self, column: Column) -> int | None:
        """Of hats; None for a column that is no curve."""
        match column:
            case Number() | Date():
                return self.pieces.bit_length() - 1
            case Ordinal(values=values):
                # no more pieces than there are steps from value to value
                return min(self.pieces.bit_length() - 1, (len(values) - 2).bit_length())
        return None

    def products(self, a: Column, b: Column) -> tuple[list[int], list[int]]:
        """Which columns of two blocks are multiplied in their interaction."""
        pairs = product(enumerate(self._depths(a)), enumerate(self._depths(b)))
        kept = [(i, j) for (i, first), (j, second) in pairs if 2 ** (first + second) <= self.pieces]
        return [i for i, _ in kept], [j for _, j in kept]

    def row_norm(self, columns: Mapping[str, Column]) -> float:
        return math.sqrt(len(columns) + INTERACTION**2 * len(self.interactions))

    def feature_names(self, columns: Mapping[str, Column]) -> tuple[str, ...]:
        own = {name: self._names(name, column) for name, column in columns.items()}
        found = [name for names in own.values() for name in names]
        for a, b in self.interactions:
            both = zip(*self.products(columns[a], columns[b]), strict=True)
            found += [f"{own[a][i]} x {own[b][j]}" for i, j in both]
        return tuple(found)

    def entries(self, columns: Mapping[str, Column]) -> int:
        """The most numbers of a row that are not zero."""
        most = {name: 1 + (self.levels(column) or 0) for name, column in columns.items()}
        return sum(most.values()) + sum(most[a] * most[b] for a, b in self.interactions)

    def _names(self, name: str, column: Column) -> list[str]:
        levels, own = self.levels(column) or 0, features(name, column)
        # the place of a hat's tip in the range, in its parts
        tips = [f"{name}~{2 * hat + 1}/{2**level}" for level in range(1, levels + 1) for hat in range(2 ** (level - 1))]
        return [own[0], *tips, *own[1:]]

    def _depths(self, column: Column) -> list[int]:
        """The level of every column of a block, 0 for what is no hat."""
        levels = self.levels(column)
        if levels is None:
            return [0] * block_width(column)
        hats = [level for level in range(1, levels + 1) for _ in range(2 ** (level - 1))]
        return [0, *hats, *([0] if column.missing == INDICATOR else [])]


def _pairs(given: Any) -> tuple[tuple[str, str], ...]:
    listed = isinstance(given, tuple | list) and all(isinstance(pair, tuple | list) for pair in given)
    pairs = tuple(tuple(pair) for pair in given) if listed else ()
    good = [pair for pair in pairs if len(pair) == 2 and all(isinstance(name, str) for name in pair)]
    if not listed or len(good) < len(pairs):
        raise ValueError(
            f"interactions is {wire.shown(given)}: it must be a list of pairs of columns, such as [('age', 'hours')]."
        )
    for pair in good:
        if pair[0] == pair[1]:
            raise ValueError(f"interactions pairs {wire.shown(pair[0])} with itself: name two different columns.")
    if len({frozenset(pair) for pair in good}) < len(good):
        raise ValueError("interactions names a pair more than once.")
    return tuple((a, b) for a, b in good)
