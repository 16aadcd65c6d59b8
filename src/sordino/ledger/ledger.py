"""What each data set has already spent: reserve, then spend.

    ledger = Ledger("survey.ledger")
    ledger.open("survey 2024", Budget(epsilon=2, delta=1e-6))
    plan = method.plan(problem, budget)
    with ledger.reserve("survey 2024", plan.event, budget.relation, "logistic model"):
        trained = train(problem, budget, method, oracle)

The reservation is on the disk before a record is touched, and counts from that moment on. Leaving the block marks it
spent; an exception, a crash or a power cut leaves it reserved, which counts the same, because something may have been
released. Only `release_unused()`, called before anything ran, gives it back, or `settle` by somebody who knows that
nothing was released, and signs for it.

A reservation may have a reference. Who chooses it beforehand and keeps it may reserve again after a crash, and is given
the same reservation: one run is charged once. So a run with a reference has ended, and may hand out what it made, only
when the ledger says that it is spent: otherwise the reference would buy a second run.

Later releases may be chosen in view of earlier ones, and what they cost adds up accordingly (`privacy.filter`).

The file is locked while a reservation is decided, so two processes cannot both spend the last of a budget. It knows a
data set by its name alone: the same records under two names have two budgets, and that is for whoever opens them to
prevent. How far the file reached is kept apart from it (`privacy.kept_heads`), so that lines taken away are noticed.

What the ledger asks of its storage is four things: all entries so far, an entry appended while nobody else can
(`writing`), the head, and whether an earlier head still stands (`ledger.journal`).
"""

from __future__ import annotations

import getpass
import math
import os
import secrets
import socket
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.ledger.journal import Journal
from sordino.ledger.kept_heads import KeptHead
from sordino.privacy import events
from sordino.privacy.accountants import guarantee
from sordino.privacy.events import Event
from sordino.privacy.filter import BudgetExceeded, Charge, charge, epsilon_of, room, total
from sordino.privacy.ledger_context import account

_HEADER = {"format": "sordino ledger", "version": 1}
_LARGEST = 1 << 26
"""Bytes of a ledger: tens of thousands of releases."""
_CHARGE = {"Charge": Charge}
_ROUNDING = 1e-9


class State(StrEnum):
    """How far a reservation came. Everything but `UNUSED` counts."""

    RESERVED = "reserved"
    SPENT = "spent"
    UNUSED = "unused"


@dataclass(frozen=True)
class Settlement:
    """What became of a reservation, and on whose word. `why` is empty where the run itself said so."""

    state: State
    created: str
    who: str = ""
    why: str = ""


@dataclass(frozen=True)
class Entry:
    """One reservation and what became of it."""

    number: int
    dataset: str
    event: Event
    charge: Charge
    note: str
    state: State
    created: str
    reference: str = ""
    by: str = ""
    """Who reserved it, on which machine and in which process."""
    settled: tuple[Settlement, ...] = ()

    @property
    def counts(self) -> bool:
        return self.state is not State.UNUSED

    @property
    def ended(self) -> bool:
        """Whether its own run said that it has ended; what is spent by hand may still be used by it."""
        return any(settled.state is State.SPENT and not settled.why for settled in self.settled)


class Reservation:
    """A part of a data set's budget that is set aside. Leave its `with` block normally and it is spent."""

    def __init__(
        self, ledger: Ledger, number: int, reference: str, state: State = State.RESERVED, is_new: bool = True
    ) -> None:
        self._ledger = ledger
        self.number = number
        self.reference = reference
        self.state = state
        self.is_new = is_new
        """Not one that an earlier part of the run had, which may have used the records."""

    def release_unused(self, why: str = "") -> None:
        """Give the reservation back. Only before anything ran: what has looked at the records has spent it."""
        if not self.is_new:
            raise ValueError(
                f"reservation {self.number} was made by an earlier part of this run, which may have used the records: "
                "who knows that it has not can settle it by hand."
            )
        self._settle(State.UNUSED, why)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None or self.state is not State.RESERVED:
            return
        try:
            self._settle(State.SPENT)
        except OSError as failure:
            if self.reference:
                raise OSError(
                    failure.errno,
                    f"reservation {self.number} could not be marked as spent ({failure}), so what it paid for is "
                    "withheld: see to the ledger, then run again with the same reference (a checkpoint has its own), "
                    "which is charged no second time",
                ) from failure
            if not self._ledger.entry(self.number).counts:
                raise
            # it counts, and nobody can reserve it again: losing what is paid for over a mark would help nobody
            warnings.warn(
                f"reservation {self.number} could not be marked as spent ({failure}); it counts all the same.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _settle(self, state: State, why: str = "") -> None:
        if self.state is not State.RESERVED:
            raise ValueError(f"reservation {self.number} is {self.state} already: it can be settled once.")
        self._ledger._settle(self.number, Settlement(state, _now(), whoami(), why))
        self.state = state


class Ledger:
    """The file at `path`, created by the first `open`. Any number of processes may use it at the same time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # absolute, so that it stays the same file where the working directory is another
        self.path = Path(path).absolute()
        self._journal = Journal(self.path, _HEADER, KeptHead(self.path), _LARGEST)

    def open(self, dataset: str, cap: Budget) -> None:
        """Give `dataset` its budget, once and for all. Opening it again with the same budget does nothing."""
        if not dataset:
            raise ValueError("a data set needs a name: give a string that is not empty.")
        with self._journal.writing() as writer:
            known = _Book.read(writer.entries[1:]).caps.get(dataset)
            if known is None:
                writer.append({"kind": "open", "dataset": dataset, "cap": wire.to_plain(cap), "created": _now()})
            elif known != cap:
                raise ValueError(
                    f"{dataset!r} is open with {_words(known)}, not with {_words(cap)}: what was promised about a data "
                    "set cannot be changed afterwards."
                )

    def reserve(
        self, dataset: str, event: Event, relation: Relation, note: str = "", reference: str | None = None
    ) -> Reservation:
        """Set aside what `event` costs under `relation`; `BudgetExceeded` when it does not fit beside what was spent.

        Use it in a `with` statement around everything that touches the records. With a `reference` that has a
        reservation already, it is that one, in the state it is in: what is spent buys nothing more.
        """
        with self._journal.writing() as writer:
            book = _Book.read(writer.entries[1:])
            cap = book.cap(dataset)
            if relation != cap.relation:
                raise ValueError(
                    f"the event is stated under {Relation(relation)}, and {dataset!r} is accounted under "
                    f"{cap.relation}: one cannot be turned into the other; plan again with {cap.relation}."
                )
            if (before := book.held(dataset, reference)) is not None:
                if before.event != event:
                    raise ValueError(
                        f"the reference {reference} stands for another release in reservation {before.number} of "
                        f"{dataset!r}: choose a new one for every run."
                    )
                state = State.SPENT if before.ended else State.RESERVED
                return Reservation(self, before.number, before.reference, state, is_new=False)
            counted = book.counted(dataset)
            costs = charge(event, cap, place=len(book.of(dataset)) + 1)
            needed = epsilon_of(total([*(entry.charge for entry in counted), costs]), cap)
            if not counted:
                # nothing was seen yet: the exact cost decides, up to the rounding of a plan that aims at the cap itself
                needed = min(needed, guarantee(event, cap.delta, cap.relation).epsilon / (1 + _ROUNDING))
            if needed > cap.epsilon:
                raise BudgetExceeded(_refusal(dataset, cap, needed, _remaining(counted, cap, 1)))
            number = len(book.entries)
            plain = {"event": events.to_json(event), "charge": wire.to_plain(costs), "note": note, "created": _now()}
            whose = {"reference": reference or "", "by": f"{whoami()}, process {os.getpid()}"}
            writer.append({"kind": "reserve", "number": number, "dataset": dataset, **plain, **whose})
        return Reservation(self, number, reference or "")

    def settle(self, number: int, state: State, who: str, why: str) -> Entry:
        """Say by hand what became of a reservation whose run was cut off, for the record.

        `State.UNUSED` gives its budget back: only for who knows that nothing computed from the records was seen, and
        that its run will not go on.
        """
        if state not in (State.SPENT, State.UNUSED) or not who.strip() or not why.strip():
            raise ValueError(
                f"reservation {number} is settled as spent or as unused, with who says so and why: a name and a reason "
                "are kept in the ledger."
            )
        return self._settle(number, Settlement(state, _now(), who, why), by_hand=True)

    def spent(self, dataset: str) -> Event | None:
        """Everything spent and reserved so far, as one event; None before the first reservation."""
        book = self._book()
        book.cap(dataset)
        counted = [entry.event for entry in book.counted(dataset)]
        return events.compose(*counted) if counted else None

    def remaining(self, dataset: str, releases: int = 1) -> Budget | None:
        """What each of so many further releases may ask for, at the cap's delta; None when nothing is left.

        It is stated for Gaussian noise on all records, or for pure noise under a pure cap; noise on batches may need
        a little less.
        """
        if releases < 1:
            raise ValueError(f"releases is {releases}: at least one is needed.")
        book = self._book()
        cap = book.cap(dataset)
        return _remaining(book.counted(dataset), cap, releases)

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """Every reservation in the order it was made, unused ones included."""
        book = self._book()
        book.cap(dataset)
        return tuple(book.of(dataset))

    def entry(self, number: int) -> Entry:
        """One reservation, by its number."""
        return self._book().entry(number)

    def datasets(self) -> dict[str, Budget]:
        """Every open data set and its cap."""
        return self._book().caps

    def head(self) -> str:
        """A checksum of everything written so far, to be kept where whoever can write the file cannot change it."""
        return self._journal.head()

    def extends(self, head: str) -> bool:
        """Whether everything written when `head()` gave `head` is still there, unchanged."""
        return self._journal.extends(head)

    def _book(self) -> _Book:
        return _Book.read(self._journal.entries())

    def _settle(self, number: int, settlement: Settlement, by_hand: bool = False) -> Entry:
        with self._journal.writing() as writer:
            entry = _Book.read(writer.entries[1:]).entry(number)
            # a run that ends has spent, whatever somebody took it for meanwhile; that it ends twice means two runs
            ends = settlement.state is State.SPENT and not by_hand
            if entry.ended if ends else entry.state is State.SPENT or (by_hand and not entry.counts):
                raise ValueError(f"reservation {number} is {entry.state} already: it can be settled once.")
            plain = {"state": settlement.state.value, "who": settlement.who, "why": settlement.why}
            writer.append({"kind": "settle", "number": number, "created": settlement.created, **plain})
        return _settled(entry, settlement)


@dataclass(frozen=True)
class _Book:
    """The ledger's lines, read from first to last."""

    caps: dict[str, Budget]
    entries: list[Entry]

    @staticmethod
    def read(lines: Iterable[dict[str, Any]]) -> _Book:
        book = _Book({}, [])
        for number, line in enumerate(lines, start=2):
            try:
                book._take(line)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                raise ValueError(
                    f"line {number} of the ledger is not one that this version writes: read it with the version that "
                    "wrote it, or restore the file from a copy."
                ) from None
        return book

    def _take(self, line: dict[str, Any]) -> None:
        match line:
            case {"kind": "open", "dataset": str(dataset), "cap": {"kind": "Budget"} as cap}:
                self.caps[dataset] = wire.from_plain(cap, {"Budget": Budget})
            case {"kind": "reserve", "number": int(number), "dataset": str(dataset), "note": str(note)}:
                happened, costs = events.from_json(line["event"]), wire.from_plain(line["charge"], _CHARGE)
                if number != len(self.entries) or dataset not in self.caps or not isinstance(costs, Charge):
                    raise ValueError
                whose = str(line.get("reference", "")), str(line.get("by", ""))
                entry = Entry(number, dataset, happened, costs, note, State.RESERVED, str(line["created"]), *whose)
                self.entries.append(entry)
            case {"kind": "settle", "number": int(number), "state": str(state)}:
                words = str(line["created"]), str(line.get("who", "")), str(line.get("why", ""))
                self.entries[number] = _settled(self.entry(number), Settlement(State(state), *words))
            case _:
                raise ValueError

    def entry(self, number: int) -> Entry:
        if not 0 <= number < len(self.entries):
            raise ValueError(
                f"there is no reservation {number}: `sordino ledger show` lists the {len(self.entries)} there are."
            )
        return self.entries[number]

    def held(self, dataset: str, reference: str | None) -> Entry | None:
        """The reservation that counts under a reference."""
        counted = [entry for entry in self.counted(dataset) if reference and entry.reference == reference]
        return counted[-1] if counted else None

    def cap(self, dataset: str) -> Budget:
        if dataset not in self.caps:
            known = ", ".join(map(repr, self.caps)) or "none yet"
            raise ValueError(
                f"{dataset!r} is not open (open: {known}): give it a budget with open(dataset, cap) first."
            )
        return self.caps[dataset]

    def of(self, dataset: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.dataset == dataset]

    def counted(self, dataset: str) -> list[Entry]:
        return [entry for entry in self.of(dataset) if entry.counts]


def _remaining(counted: list[Entry], cap: Budget, releases: int) -> Budget | None:
    if not counted and releases == 1:
        return cap
    epsilon = room(total(entry.charge for entry in counted), cap, releases)
    return replace(cap, epsilon=epsilon) if epsilon > 0 else None


def _refusal(dataset: str, cap: Budget, needed: float, left: Budget | None) -> str:
    if math.isinf(needed):
        why = f"this release cannot be bounded at delta {cap.delta:g}"
    else:
        why = f"with this release it would have spent epsilon {needed:.6g}"
    what = (
        "nothing is left" if left is None else f"one more release may ask for epsilon {left.epsilon:.6g} at that delta"
    )
    return f"{dataset!r} has {_words(cap)}: {why}, so nothing was run; {what}."


def _words(budget: Budget) -> str:
    return f"epsilon {budget.epsilon:g} and delta {budget.delta:g} under {budget.relation}"


def _settled(entry: Entry, settlement: Settlement) -> Entry:
    return replace(entry, state=settlement.state, settled=(*entry.settled, settlement))


def new_reference() -> str:
    """A name for one run, chosen before its budget is reserved."""
    return secrets.token_hex(16)


def whoami() -> str:
    """The user and the machine, for the record."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = f"user {os.getuid()}"
    return f"{user} on {socket.gethostname()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def reserved(
    event: Event, relation: Relation, note: str, reference: str | None = None
) -> AbstractContextManager[Reservation | None]:
    """The reservation to hold while the records are used; nothing where no `charged_to` block is open."""
    charged = account()
    if charged is None:
        return nullcontext()
    return Ledger(charged.ledger).reserve(charged.dataset, event, relation, note, reference)
