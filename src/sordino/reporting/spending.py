"""What a ledger says about the data set that a model was trained on."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.budget import Budget
from sordino.certificate import Certificate
from sordino.formatting import number
from sordino.ledger.ledger import Entry, Ledger, State
from sordino.reporting.section import Section, Table


@dataclass(frozen=True)
class Spending:
    """Of one data set. `own` are the model's entries; `like` are those of the same event that name another model."""

    dataset: str
    cap: Budget
    spent: float
    left: Budget | None
    entries: tuple[Entry, ...]
    own: tuple[Entry, ...]
    like: tuple[Entry, ...]
    head: str

    @property
    def open(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.state is State.RESERVED)


def read_spending(ledger: Ledger, dataset: str | None, certificate: Certificate) -> Spending:
    """The state of the data set, found by the certificate's event where it is not named."""
    if not ledger.head():
        raise ValueError(f"{ledger.address} does not exist: `sordino ledger open` writes one.")
    known = ledger.datasets()
    holding = [name for name in known if any(_is_of(entry, certificate) for entry in ledger.entries(name))]
    if dataset is None:
        candidates = holding or list(known)
        if len(candidates) != 1:
            raise ValueError(
                f"the ledger has {len(known)} data sets, and the model's release is in {len(holding)} of them: name "
                "the data set."
            )
        (dataset,) = candidates
    entries = ledger.entries(dataset)
    cap = known[dataset]
    alike = [entry for entry in entries if _is_of(entry, certificate)]
    named = tuple(entry for entry in entries if entry.counts and entry.model == certificate.weights)
    return Spending(
        dataset,
        cap,
        ledger.statement(dataset).spent,
        ledger.remaining(dataset),
        entries,
        # an entry that names no model may be anyone's of the same event; one that names another is not this one's
        named or tuple(entry for entry in alike if not entry.model),
        tuple(entry for entry in alike if entry.model and entry.model != certificate.weights),
        ledger.head(),
    )


def _is_of(entry: Entry, certificate: Certificate) -> bool:
    return entry.counts and entry.event == certificate.event


def spending_section(spending: Spending) -> Section:
    cap = spending.cap
    left = "nothing" if spending.left is None else f"epsilon {number(spending.left.epsilon)}"
    own = ", ".join(str(entry.number) for entry in spending.own)
    counts = {state: sum(entry.state is state for entry in spending.entries) for state in State}
    lines = (
        ("cap, for everything ever released", f"epsilon {number(cap.epsilon)}, delta {number(cap.delta)}"),
        ("spent and reserved, at most", f"epsilon {number(spending.spent)}"),
        ("one more release may ask for", left),
        ("reservations", ", ".join(f"{count} {state.value}" for state, count in counts.items())),
        ("this model's reservation", own or "none"),
        ("head of the ledger", spending.head),
    )
    paragraphs = [
        "A ledger keeps what every release from the data set takes, and refuses one that would exceed the cap before "
        "it touches a record. Its head stands for everything in it: keep it elsewhere, and compare.",
    ]
    if len(spending.own) > 1:
        paragraphs.append("Several reservations are for a release like this one; which of them is its own is not told.")
    if spending.open:
        paragraphs.append(
            f"{len(spending.open)} of the reservations are open: their runs go on, or were cut off. They count."
        )
    table = Table("The ledger when this page was written", ("", ""), lines)
    return Section(f"The data set: {spending.dataset}", tuple(paragraphs), tables=(table,))
