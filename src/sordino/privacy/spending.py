"""Which data set's budget the training runs in a block are charged to.

    with charged_to(Ledger("survey.ledger"), "survey 2024"):
        model.fit(X, y)

Every run inside reserves its event in the ledger before it touches a record, or is refused. Outside of such a block
nothing keeps count: a certificate then covers its one release, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sordino.budget import Relation
from sordino.privacy.events import Event

if TYPE_CHECKING:
    from sordino.privacy.ledger import Ledger, Reservation

_account: ContextVar[tuple[Ledger, str] | None] = ContextVar("account", default=None)


@contextmanager
def charged_to(ledger: Ledger, dataset: str) -> Iterator[None]:
    """Charge every training run of the block to `dataset`, which must be open in the ledger."""
    token = _account.set((ledger, dataset))
    try:
        yield
    finally:
        _account.reset(token)


def reserved(
    event: Event, relation: Relation, note: str, before: int | None = None
) -> AbstractContextManager[Reservation | None]:
    """The reservation to hold while the records are used; nothing where no ledger is named.

    A run that goes on names the reservation it made `before`: if it is still held for the same event, it is taken up
    again, and if it is spent, the run has ended and there is nothing left to pay.
    """
    account = _account.get()
    if account is None:
        return nullcontext()
    ledger, dataset = account
    if before is None:
        return ledger.reserve(dataset, event, relation, note)
    return ledger.take_up(before, dataset, event) or ledger.reserve(dataset, event, relation, note)
