"""Whose each record is, by an array or by a column of the table that is fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.estimators.named_columns import PERSON
from sordino.oracle.persons import Persons, count_persons
from sordino.privacy.randomness import Randomness
from sordino.problem import Contribution, PersonUnit


@dataclass(frozen=True, eq=False)
class Whose:
    """Whose the records are; nothing says that each is somebody else's, and then a record is what is protected."""

    identifiers: Any = None
    unit: PersonUnit | None = None

    @staticmethod
    def of(
        X: Any,
        person: Any,
        has_schema: bool,
        records_per_person: int | None = None,
        contribution: Contribution = "mean",
        typical_records: float | None = None,
    ) -> tuple[Any, Whose]:
        """What is fitted on, without the column that `person` names, and whose it is."""
        unit = PersonUnit(records_per_person, contribution, typical_records)
        if person is None:
            if unit != PersonUnit():
                raise ValueError(
                    "records_per_person, contribution or typical_records was given, and nothing says whose the records "
                    "are: give `person`, an array or the name of a column, or leave them out, and what is protected is "
                    "a record."
                )
            return X, Whose()
        X, identifiers = identifiers_of(X, person, has_schema)
        return X, Whose(identifiers, unit)

    def persons(self, randomness: Randomness) -> Persons | None:
        return None if self.unit is None else Persons.of(self.identifiers, self.unit, randomness)

    def counted(self, records: int) -> tuple[int, str]:
        """How many units there are, of so many records, and of what kind."""
        return (records, "record") if self.unit is None else (count_persons(self.identifiers), "person")


def identifiers_of(X: Any, person: Any, has_schema: bool) -> tuple[Any, Any]:
    """The table without the column that `person` names, unless a schema says which columns count, and its cells.

    An array of identifiers is taken as it is.
    """
    if not isinstance(person, str):
        return X, person
    X, cells = PERSON.taken(X, person, has_schema)
    return X, np.concatenate([_cells(piece) for piece in cells] or [np.empty(0)])


def _cells(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    cells: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return cells
