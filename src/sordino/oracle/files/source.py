"""Records that stay in files: what a source offers, how its targets are coded, and how a changed file is noticed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.allowed import real_numbers
from sordino.oracle.units import RecordUnits, Units

_NUMBERS = 1 << 21
"""In a block: so many that starting one costs little beside working on it, so few that several fit the last cache."""


def record_units(records: int, numbers: int) -> RecordUnits:
    """Every record a unit. How many make a block depends on how many numbers a record has, and on nothing else.

    So the same records in other files, or on other machines, have the same sums.
    """
    return RecordUnits(records, min(max(_NUMBERS // max(1, numbers) & ~7, 256), 1 << 16))


class Reader(Protocol):
    """Goes once, forward, through the records."""

    def rows(self, start: int, stop: int, which: Index | None) -> tuple[Any, Array]:
        """Features and targets of records start..stop, or of those at the increasing positions `which` among them.

        The features are a matrix, or `Columns` still to be made into one. A matrix that can be written to may be
        overwritten by the call after the next two.
        """
        ...


@runtime_checkable
class Source(Protocol):
    """Records in files, or wherever they are kept in their order."""

    @property
    def shape(self) -> tuple[int, int]:
        """Records and features."""
        ...

    @property
    def units(self) -> Units:
        """Which rows belong together, and which of them make a block."""
        ...

    @property
    def row_bytes(self) -> int:
        """What a record takes in memory."""
        ...

    @property
    def identity(self) -> bytes:
        """The same for the same files with the same content."""
        ...

    def coded(self, coding: Coding) -> Self:
        """The same records with other targets."""
        ...

    def check(self) -> int:
        """How many targets the coding does not know. A sentence where a record cannot be read at all.

        To be called before training, so that a run does not end on a record that its last step meets first.
        """
        ...

    def reader(self) -> AbstractContextManager[Reader]: ...


class Coding(Protocol):
    """From what a file holds as a target to the number a loss is given; not a number where there is none."""

    def numbers(self, targets: NDArray[Any]) -> Array: ...
    def cells(self, targets: Any) -> Array:
        """The same for an Arrow array."""
        ...


@dataclass(frozen=True)
class InUnits:
    """Targets that are numbers, divided by a public unit."""

    unit: float = 1.0

    def numbers(self, targets: NDArray[Any]) -> Array:
        return real_numbers(targets) / self.unit

    def cells(self, targets: Any) -> Array:
        from sordino.oracle.files.arrow import doubles

        return doubles(targets) / self.unit


AS_GIVEN = InUnits()

_FEW = 8


@dataclass(frozen=True)
class Labels:
    """Targets that are labels: the k-th of the public, sorted `classes` becomes the k-th of `values`."""

    classes: tuple[Any, ...]
    values: tuple[float, ...]

    def numbers(self, targets: NDArray[Any]) -> Array:
        classes = np.asarray(self.classes)
        if len(classes) <= _FEW:
            # a search for every label takes longer than a few comparisons
            found = np.full(len(targets), np.nan)
            for label, value in zip(classes, self.values, strict=True):
                found[targets == label] = value
            return found
        codes = np.searchsorted(classes, targets).clip(0, len(classes) - 1)
        return np.where(classes[codes] == targets, np.asarray(self.values)[codes], np.nan)

    def cells(self, targets: Any) -> Array:
        from sordino.oracle.files.arrow import arrow_places

        # the last value is what place -1 finds
        return np.asarray((*self.values, np.nan))[arrow_places(targets, self.classes)]


@dataclass(frozen=True)
class Stamp:
    """What a file looked like when it was opened."""

    path: Path
    size: int
    modified: int

    @staticmethod
    def of(path: Path) -> Stamp:
        state = os.stat(path)
        return Stamp(path, state.st_size, state.st_mtime_ns)

    def require_unchanged(self) -> None:
        try:
            now = Stamp.of(self.path)
        except FileNotFoundError:
            now = None
        if now != self:
            gone = "is gone" if now is None else "was changed"
            raise RuntimeError(
                f"{self.path} {gone} since it was opened: a guarantee is about one set of records, so nothing computed "
                "from it was released. Keep the files as they are while a model is trained, and start again."
            )


S = TypeVar("S")


def with_coding(source: S, coding: Coding) -> S:
    """The same source with other targets. What it knows of its files is kept, and so they must still be the same."""
    other = copy(source)
    object.__setattr__(other, "coding", coding)
    return other


def identity(stamps: Iterable[Stamp], *more: object) -> bytes:
    return repr((sorted((str(s.path.resolve()), s.size, s.modified) for s in stamps), *more)).encode()
