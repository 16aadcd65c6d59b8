"""What an event costs.  The smallest bound of all accountants that support it counts; if none does, a sentence says so.

    epsilon(event, delta, relation)      the smallest epsilon the event satisfies at delta
    delta(event, epsilon, relation)      the smallest delta at epsilon
    guarantee(event, delta, relation)    the same, with who computed it and how far from exact it may be
    second_opinion(...)                  the answer of another method, or nothing

All are upper bounds: rounding, truncation and discretisation go to the safe side. Infinity is an answer: no epsilon
holds at this delta. In JSON, which has no word for it, it is the string "inf" (`wire`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from sordino.budget import Relation
from sordino.privacy.accountants.dp_accounting_check import DPAccountingCheck
from sordino.privacy.accountants.gdp import GaussianAccountant
from sordino.privacy.accountants.objective import ObjectiveAccountant
from sordino.privacy.accountants.pld import LossAccountant
from sordino.privacy.accountants.rdp import RenyiAccountant
from sordino.privacy.accountants.repeated import RepeatedAccountant
from sordino.privacy.events import Event
from sordino.privacy.gaussian_profile import gdp_delta, gdp_epsilon, gdp_mu

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
    "require_supported",
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

OPINIONS: tuple[Accountant, ...] = (GaussianAccountant(), LossAccountant(), DPAccountingCheck(), RenyiAccountant())
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
    """The least epsilon at delta that any accountant finds. It is infinite where the event has none at this delta."""
    return _guarantee(event, delta, Relation(relation), ACCOUNTANTS)


@lru_cache(maxsize=32)
def _guarantee(event: Event, delta: float, relation: Relation, _: tuple[Accountant, ...]) -> Guarantee:
    """Kept, by who there is to ask: an event is asked about before a run, after it and for its certificate."""
    # who finds a finite epsilon at all finds a smaller one than those after
    accountant, epsilon = _least(
        event, relation, lambda accountant: accountant.epsilon(event, delta, relation), math.inf
    )
    error = accountant.error(event, delta, relation, epsilon) if math.isfinite(epsilon) else None
    return Guarantee(epsilon, delta, relation, accountant.name, error)


def epsilon(event: Event, delta: float, relation: Relation) -> float:
    """An upper bound of the smallest epsilon the event satisfies at delta; infinity if there is none."""
    relation = Relation(relation)
    return _least(event, relation, lambda accountant: accountant.epsilon(event, delta, relation), math.inf)[1]


def delta(event: Event, epsilon: float, relation: Relation) -> float:
    """An upper bound of the smallest delta the event satisfies at epsilon."""
    relation = Relation(relation)
    return _least(event, relation, lambda accountant: accountant.delta(event, epsilon, relation), 0.0)[1]


def require_supported(event: Event, relation: Relation) -> None:
    """Raise a sentence where nobody can tell what the event costs."""
    if not _supporting(event, relation):
        raise ValueError(
            f"no accountant supports this event under {relation}: fixed-size batches have no meaning where the number "
            "of records is private (use Poisson sampling, or the replace_one relation), and objective perturbation is "
            "accounted for together with Gaussian releases only."
        )


def second_opinion(event: Event, delta: float, relation: Relation, first: str) -> Guarantee | None:
    """The guarantee by the tightest accountant not named `first`; None if no other finds a finite epsilon."""
    relation = Relation(relation)
    require_supported(event, relation)
    for accountant in OPINIONS:
        if accountant.name != first and accountant.supports(event, relation):
            epsilon = accountant.epsilon(event, delta, relation)
            if math.isfinite(epsilon):
                return Guarantee(epsilon, delta, relation, accountant.name, None)
    return None


def _supporting(event: Event, relation: Relation) -> list[Accountant]:
    return [accountant for accountant in ACCOUNTANTS if accountant.supports(event, relation)]


def _least(
    event: Event, relation: Relation, ask: Callable[[Accountant], float], enough: float
) -> tuple[Accountant, float]:
    """The smallest of all answers, and whose it is. One below `enough` is not undercut by those after it."""
    require_supported(event, relation)
    first, *others = _supporting(event, relation)
    least = ask(first)
    for other in others:
        if least < enough:
            break
        if (found := ask(other)) < least:
            first, least = other, found
    return first, least
