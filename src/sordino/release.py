"""One path releases: account, reserve, run, account.

Everything that is computed from records and leaves goes through `release`: a model, a search, a curvature. What has no
price is not run, what does not fit the budget in force (`charged_to`) is not run, and what turns out to cost more than
was set aside is not returned.

A refusal costs nothing. Records reach a run through one object alone, its oracle; a run that ends in an error before it
has asked that object anything has used no record, and its reservation is given back. From the first question on it
stays, whatever happens: an error may depend on a record, and whether there was one is then seen. A run that goes on has
the reservation of its earlier part, whose questions this one does not know, so it gives nothing back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from sordino.budget import Budget
from sordino.ledger.ledger import Reservation, State, reserved
from sordino.privacy.accountants import Guarantee, guarantee
from sordino.privacy.events import Event
from sordino.privacy.ledger_context import releasing

_ROUNDING = 1e-9


class Outcome(Protocol):
    @property
    def event(self) -> Event:
        """What happened to the records."""
        ...


R = TypeVar("R", bound=Outcome)
RecordsT = TypeVar("RecordsT")


def release(
    planned: Event,
    budget: Budget,
    note: str,
    records: RecordsT,
    run: Callable[[RecordsT], R],
    reference: str | None = None,
    unit: str = "record",
) -> tuple[R, Guarantee]:
    """What `run` makes of the records, and what it cost at the budget's delta.

    `planned` is known before a record is used, and what happened may cost at most as much. `note` says in the ledger
    what it was, and `unit` what is protected, a record or a person. A run that goes on after a crash names its
    `reference` again, and is charged once.
    """
    allowed = guarantee(planned, budget.delta, budget.relation)
    with reserved(planned, budget.relation, note, reference, unit) as reservation, releasing():
        asked = Watched(records, reservation)
        try:
            outcome = run(cast(RecordsT, asked))
        except BaseException as error:
            if reservation is not None:
                error.add_note(_settled(reservation, asked, error))
            raise
    earned = allowed if outcome.event == planned else guarantee(outcome.event, budget.delta, budget.relation)
    if not earned.epsilon <= allowed.epsilon * (1 + _ROUNDING):
        raise RuntimeError(
            f"{note}: the run cost epsilon {earned.epsilon:.6g} where {allowed.epsilon:.6g} was planned and set aside, "
            "so its result is withheld. This is a bug: please report it."
        )
    return outcome, earned


def _settled(reservation: Reservation, asked: Watched, error: BaseException) -> str:
    """Gives back what was not used; what a run that ended early was charged, for whoever ended it."""
    if asked.anything or not reservation.is_new:
        return f"Charged: reservation {reservation.number} stays in the ledger, because the records were used."
    reservation.release_unused(f"{type(error).__name__} before a record was used")
    return f"Not charged: no record was used, and reservation {reservation.number} was given back."


class KeptAnswers(ABC):
    """Declares records whose answers are kept elsewhere: asked again, they say what they said."""

    @property
    @abstractmethod
    def knows_next(self) -> bool:
        """Whether the next answer is kept. One that is not would be new."""


class Watched:
    """Stands before the records and notes whether anything was asked of them."""

    def __init__(self, records: object, reservation: Reservation | None) -> None:
        self._records, self.reservation = records, reservation
        self.anything = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._records, name)
        spent = self.reservation is not None and self.reservation.state is State.SPENT
        if spent and not (isinstance(self._records, KeptAnswers) and self._records.knows_next):
            raise RuntimeError(
                "what was reserved for this run was spent by a run that has ended, and this one would ask the records "
                "for more: its checkpoint or record is an older copy. Begin a run of its own, with its own reference."
            )
        self.anything = True
        return found
