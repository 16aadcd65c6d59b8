"""What an event costs.  The tightest accountant that supports it answers; if none does, a sentence says so.

    epsilon(event, delta, relation)      the smallest epsilon the event satisfies at delta
    delta(event, epsilon, relation)      the smallest delta at epsilon
    guarantee(event, delta, relation)    the same, with who computed it and how far from exact it may be
    second_opinion(...)                  the answer of another method, or nothing

All are upper bounds: rounding, truncation and discretisation go to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from sordino.budget import Relation
from sordino.privacy.accountants.gdp import GaussianAccountant, gdp_delta, gdp_epsilon, gdp_mu
from sordino.privacy.accountants.independent import IndependentAccountant
from sordino.privacy.accountants.objective import ObjectiveAccountant
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.accountants.rdp import RenyiAccountant
from sordino.privacy.accountants.repeated import RepeatedAccountant
from sordino.privacy.events import Event

__all__ = [
    "ACCOUNTANTS",
    "LOOSE",
    "OPINIONS",
    "Accountant",
    "Guarantee",
    "delta",
    "epsilon",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "guarantee",
    "second_opinion",
]


class Accountant(Protocol):
    @property
    def name(self) -> str:
        """How certificates refer to it."""

    def supports(self, event: Event, relation: Relation) -> bool:
        """Whether this method has a valid answer for the event under the relation."""

    def epsilon(self, event: Event, delta: float, relation: Relation) -> float:
        """An upper bound of the smallest epsilon at delta; infinity if there is none."""

    def delta(self, event: Event, epsilon: float, relation: Relation) -> float:
        """An upper bound of the smallest delta at epsilon."""

    def error(self, event: Event, delta: float, relation: Relation, epsilon: float) -> float | None:
        """How far an `epsilon` of this accountant may lie above the exact one; None if that is not known."""


ACCOUNTANTS: tuple[Accountant, ...] = (
    GaussianAccountant(),
    LossAccountant(),
    ObjectiveAccountant(),
    RepeatedAccountant(),
    RenyiAccountant(),
)
"""Who is asked for the guarantee, tightest first."""

OPINIONS: tuple[Accountant, ...] = (GaussianAccountant(), LossAccountant(), IndependentAccountant(), RenyiAccountant())
"""Who is asked for a second opinion, tightest first."""


LOOSE = ACCOUNTANTS[-1].name
"""The one that others may undercut by far."""


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy under a relation, and on whose word."""

    epsilon: float
    delta: float
    relation: Relation
    accountant: str
    error: float | None
    """epsilon is at most this much larger than the exact value for the same worst case; None if that is not known."""


def guarantee(event: Event, delta: float, relation: Relation) -> Guarantee:
    """The event's epsilon at delta by the tightest accountant that supports it and finds a finite one."""
    relation = Relation(relation)
    first: Guarantee | None = None
    for accountant in _supporting(event, relation):
        epsilon = accountant.epsilon(event, delta, relation)
        if math.isfinite(epsilon):
            error = accountant.error(event, delta, relation, epsilon)
            return Guarantee(epsilon, delta, relation, accountant.name, error)
        first = first or Guarantee(epsilon, delta, relation, accountant.name, None)
    if first is None:
        raise ValueError(_nobody(relation))
    return first


def epsilon(event: Event, delta: float, relation: Relation) -> float:
    """An upper bound of the smallest epsilon the event satisfies at delta; infinity if there is none."""
    relation = Relation(relation)
    values = (accountant.epsilon(event, delta, relation) for accountant in _supporting(event, relation))
    found = math.nan
    for found in values:
        if math.isfinite(found):
            break
    if math.isnan(found):
        raise ValueError(_nobody(relation))
    return found


def delta(event: Event, epsilon: float, relation: Relation) -> float:
    """An upper bound of the smallest delta the event satisfies at epsilon."""
    relation = Relation(relation)
    for accountant in _supporting(event, relation):
        return accountant.delta(event, epsilon, relation)
    raise ValueError(_nobody(relation))


def second_opinion(event: Event, delta: float, relation: Relation, first: str) -> Guarantee | None:
    """The guarantee by the tightest accountant not named `first`; None if no other finds a finite epsilon."""
    relation = Relation(relation)
    for accountant in OPINIONS:
        if accountant.name != first and accountant.supports(event, relation):
            epsilon = accountant.epsilon(event, delta, relation)
            if math.isfinite(epsilon):
                return Guarantee(epsilon, delta, relation, accountant.name, None)
    return None


def _supporting(event: Event, relation: Relation) -> Iterator[Accountant]:
    return (accountant for accountant in ACCOUNTANTS if accountant.supports(event, relation))


def _nobody(relation: Relation) -> str:
    return (
        f"no accountant supports this event under {relation}: fixed-size batches have no meaning where the number of "
        "records is private (use Poisson sampling, or the replace_one relation), and objective perturbation is not "
        "accounted for together with other events."
    )
