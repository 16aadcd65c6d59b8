"""What may be spent, and between which data sets the guarantee holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from sordino.given import require_number


class Relation(StrEnum):
    """Which two data sets must be hard to tell apart."""

    REPLACE_ONE = "replace_one"
    """One record takes another value; the number of records is public. The five papers' definition."""

    ADD_REMOVE = "add_remove"
    """One record is present or absent; the number of records is private, a public count stands in for it."""

    @classmethod
    def _missing_(cls, value: object) -> Relation:
        known = ", ".join(repr(str(relation)) for relation in cls)
        raise ValueError(f"relation is {value!r}: it must be one of {known}.")

    @property
    def distance(self) -> int:
        """How far a sum moves, in units of the largest contribution of one record."""
        return 2 if self is Relation.REPLACE_ONE else 1


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) guarantee to aim for, under a relation."""

    epsilon: float
    delta: float = 0.0
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        require_number("epsilon", self.epsilon)
        require_number("delta", self.delta)
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(
                f"epsilon is {self.epsilon}: it must be a positive finite number; "
                "common choices lie between 0.1 and 10, smaller is more private."
            )
        if not 0 <= self.delta < 1:
            raise ValueError(
                f"delta is {self.delta}: it must lie in [0, 1), well below one over the number of records; "
                "0 asks for pure differential privacy."
            )
        object.__setattr__(self, "relation", Relation(self.relation))

    @staticmethod
    def of(epsilon: float, delta: float | None, relation: Relation | str, records: int) -> Budget:
        """With a delta of 1/n^2 where none is given."""
        if delta is None and records < 2:
            raise ValueError(
                f"delta is None and there is {records} record, or person: 1/n^2, which stands in for it, says nothing "
                "below two. Give more, or a delta."
            )
        return Budget(epsilon, 1 / records**2 if delta is None else delta, Relation(relation))

    @property
    def pure(self) -> bool:
        return self.delta == 0
