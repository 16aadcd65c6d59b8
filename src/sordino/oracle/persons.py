"""Whose each record is, where the unit is a person, and which of a person's records count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Index
from sordino.problem import NetworkProblem, PersonUnit, Problem

if TYPE_CHECKING:
    from sordino.privacy.randomness import Randomness

_LARGEST_WHOLE = 2.0**53
"""Beyond it, two whole numbers may be the same float."""


@dataclass(frozen=True, eq=False)
class Persons:
    """`owners` has the number, below `count`, of the person of every record; `kept` are the records that count."""

    unit: PersonUnit
    count: int
    owners: Index
    kept: Index

    @staticmethod
    def of(identifiers: Any, unit: PersonUnit, randomness: Randomness) -> Persons:
        """Equal identifiers are one person. Who has more records than the unit takes has some left out at random.

        Every person's coins are their own, so that one person's records do not decide which of another's count.
        """
        found, owners = np.unique(_identifiers(identifiers), return_inverse=True)
        owners = owners.astype(np.intp, copy=False)
        return Persons(unit, len(found), owners, _kept(owners, unit.most_records, randomness))

    def __len__(self) -> int:
        return self.count


def count_persons(identifiers: Any) -> int:
    return len(np.unique(_identifiers(identifiers)))


def require_same_unit(problem: Problem | NetworkProblem, persons: Persons | None, records: int) -> None:
    """Raise a sentence unless it is known whose the records are, just where the problem is about persons."""
    given = None if persons is None else persons.unit
    if problem.person != given:
        raise ValueError(
            f"the problem protects {problem.person or 'every record'}, and the records are told apart by "
            f"{given or 'nothing but themselves'}: what is protected must be the same in both."
        )
    if persons is not None and len(persons.owners) != records:
        raise ValueError(f"person has {len(persons.owners)} identifiers for {records} records: one for each is needed.")


def _kept(owners: Index, most: int | None, randomness: Randomness) -> Index:
    everybody = np.arange(len(owners))
    if most is None:
        return everybody
    # every record has a number of its own, and the `most` least of each person's count
    order = np.lexsort((randomness.sampling.generator.random(len(owners)), owners))
    sizes = np.bincount(owners)
    place = everybody - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[place < most])


def _identifiers(given: Any) -> NDArray[Any]:
    """Whole numbers or texts, none missing; or a sentence, which quotes none of them."""
    if np.ma.is_masked(given):
        raise ValueError(_MISSING)
    # a list as it is: NumPy would make texts of numbers beside texts, and of what is missing
    values = np.asarray(given) if hasattr(given, "dtype") else np.asarray(given, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"person has {values.ndim} dimensions: it must hold one identifier for every record.")
    if values.dtype.kind == "O":
        values = _of_one_kind(values)
    if values.dtype.kind == "f":
        if np.isnan(values).any():
            raise ValueError(_MISSING)
        # what was rounded may be two persons in one, which is safe, or one in two, which is not
        if not (np.abs(values) < _LARGEST_WHOLE).all() or (values != np.floor(values)).any():
            raise ValueError(_KIND)
    elif values.dtype.kind in "US":
        values = np.char.strip(np.char.decode(values, "latin-1") if values.dtype.kind == "S" else values)
        if np.isin(np.char.lower(values), _NOBODY).any():
            raise ValueError(_MISSING)
    elif values.dtype.kind not in "iuO":
        raise ValueError(_KIND)
    return values


def _of_one_kind(values: NDArray[Any]) -> NDArray[Any]:
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    # what is missing: None, pandas' NA and NaT, and what is not itself
    if any(value is None or type(value).__name__ in ("NAType", "NaTType") for value in plain) or any(
        isinstance(value, float) and value != value for value in plain
    ):
        raise ValueError(_MISSING)
    for kind, kept_as in ((str, str), (float, np.float64), (int, object)):
        # whole numbers as they are: those of Python may be larger than any of NumPy's
        if all(type(value) is kind for value in plain):
            return np.array(plain, dtype=kept_as)
    raise ValueError(_KIND)


_NOBODY = ("", "na", "n/a", "<na>", "nan", "nat", "none", "null")
"""Texts that stand for a missing one."""
_MISSING = (
    "person has a missing identifier: a record that is nobody's protects nobody. Leave such records out, or give each "
    "an identifier of its own if they are of different persons who have no other record."
)
_KIND = (
    "person must hold whole numbers, or texts, all of one kind: the same person as 7 and as '7' would be two, and be "
    "protected as two."
)
