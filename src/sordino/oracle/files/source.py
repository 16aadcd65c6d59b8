"""Records that stay in files: what a source offers, and how its targets are coded."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
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

    @property
    def ahead(self) -> int:
        """How many blocks may be ready while one is in use: one, where they are overwritten, see `rows`."""
        ...

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
    def sparse(self) -> bool:
        """Whether its rows are matrices in sparse form, for good."""
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

    def encoded(self, numbers: Array) -> Array:
        """The same for what a schema encodes as a target."""
        ...

    def back(self, coefficients: Array, intercepts: Array) -> tuple[Array, Array]:
        """From weights that predict the coded target to those that predict the target."""
        ...


@dataclass(frozen=True)
class InUnits:
    """Targets that are numbers, counted from a public origin in a public unit."""

    unit: float = 1.0
    origin: float = 0.0

    def numbers(self, targets: NDArray[Any]) -> Array:
        return _in_units(real_numbers(targets), self.unit, self.origin)

    def cells(self, targets: Any) -> Array:
        from sordino.oracle.files.arrow import doubles

        return _in_units(doubles(targets), self.unit, self.origin)

    def encoded(self, numbers: Array) -> Array:
        # a schema counts from the middle of the range in halves of it
        return numbers

    def back(self, coefficients: Array, intercepts: Array) -> tuple[Array, Array]:
        return self.unit * coefficients, self.unit * intercepts + self.origin


AS_GIVEN = InUnits()


def _in_units(numbers: Array, unit: float, origin: float = 0.0) -> Array:
    # a number that is too large in them counts for nothing, and a warning would tell that there is one
    with np.errstate(over="ignore"):
        return (numbers - origin) / unit


@dataclass(frozen=True)
class Multiples:
    """Targets that are not negative, as multiples of a public unit; a score is the logarithm of one.

    `half` and `centre` are those of their range, by which a schema encodes them.
    """

    unit: float
    half: float
    centre: float

    def numbers(self, targets: NDArray[Any]) -> Array:
        return _in_units(real_numbers(targets), self.unit)

    def cells(self, targets: Any) -> Array:
        from sordino.oracle.files.arrow import doubles

        return _in_units(doubles(targets), self.unit)

    def encoded(self, numbers: Array) -> Array:
        return (self.centre + self.half * numbers) / self.unit

    def back(self, coefficients: Array, intercepts: Array) -> tuple[Array, Array]:
        return coefficients, intercepts + math.log(self.unit)


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

    def encoded(self, numbers: Array) -> Array:
        # a schema gives the place among the sorted classes
        return np.asarray(self.values)[numbers.astype(np.intp)]

    def back(self, coefficients: Array, intercepts: Array) -> tuple[Array, Array]:
        return coefficients, intercepts


S = TypeVar("S")


def with_coding(source: S, coding: Coding) -> S:
    """The same source with other targets. What it knows of its files is kept, and so they must still be the same."""
    other = copy(source)
    object.__setattr__(other, "coding", coding)
    return other
