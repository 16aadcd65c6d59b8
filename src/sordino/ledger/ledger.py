"""What each data set has already spent: reserve, then spend.

    ledger = Ledger("survey.ledger")                            a file, or postgresql://user@host/database
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

One writer at a time decides (`ledger.store`), so two processes cannot both spend the last of a budget; what may be
written is one set of rules (`ledger.book`). A ledger knows a data set by its name alone: the same records under two
names have two budgets, and that is for whoever opens them to prevent. How far it reached is kept apart from it
(`ledger.kept_heads`), so that lines taken away are noticed.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sordino import wire
from sordino.budget import Budget, Relation
from sordino.formatting import card, number
from sordino.ledger import book as rules
from sordino.ledger.book import (
    ApprovalNeeded,
    Book,
    Entry,
    Limit,
    Plain,
    Request,
    Role,
    Settlement,
    State,
    Tally,
    Terms,
)
from sordino.ledger.journal import Journal
from sordino.ledger.kept_heads import KeptHead, Mark
from sordino.ledger.store import LONGEST, Line, Store, Transaction, check_of, ledger_file
from sordino.privacy import events
from sordino.privacy.charges import BudgetExceeded, Charge, epsilon_of
from sordino.privacy.events import Event
from sordino.privacy.ledger_context import account

if TYPE_CHECKING:
    from sordino.identity import Face, Identity

__all__ = [
    "ApprovalNeeded",
    "Checked",
    "Entry",
    "Ledger",
    "Overview",
    "Request",
    "Reservation",
    "Role",
    "Settlement",
    "State",
    "Statement",
    "Terms",
    "new_reference",
    "reserved",
    "whoami",
]

_KEEP_EVERY = 1000
"""Lines after which what they came to is kept anew."""
_CHEAPER = 1e-9
_LARGEST_JOURNAL = 1 << 26
"""Bytes that the first version read."""


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
        self.model = ""
        """The digest of what was released, to be written down at the end."""

    def release_unused(self, why: str = "") -> None:
        """Give the reservation back. Only before anything ran: what has looked at the records has spent it."""
        if not self.is_new:
            raise ValueError(
                f"reservation {self.number} was made by an earlier part of this run, which may have used the records: "
                "who knows that it has not can settle it by hand."
            )
        self._settle(State.UNUSED, why)

    def name_model(self, digest: str) -> None:
        """Say what became of what was released, after the reservation was spent."""
        if digest == self.model:
            return
        try:
            self._ledger._append({"kind": "model", "number": self.number, "model": digest})
        except OSError as failure:
            # it is paid for, and the ledger says so
            warnings.warn(f"the ledger could not be told its model ({failure}).", RuntimeWarning, stacklevel=3)
        self.model = digest

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
            if not self._ledger._counts(self.number):
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
        told = {"who": whoami(), "why": why, **({"model": self.model} if self.model else {})}
        self._ledger._append({"kind": "settle", "number": self.number, "state": state.value, **told})
        self.state = state


@dataclass(frozen=True)
class Statement:
    """Where a data set stands, at the delta of its cap."""

    dataset: str
    terms: Terms
    releases: int
    """Reservations, unused ones included."""
    spent: float
    """The epsilon of everything that counts, as the privacy filter adds it up."""
    left: float
    """The epsilon that one more release may ask for; 0 when nothing is left."""
    this_year: tuple[tuple[str, float, float, float], ...]
    """Of each limit on a year: what it is about, its epsilon, what is spent and what is left of it."""
    recent: tuple[Entry, ...]
    """The last reservations."""
    open: tuple[Entry, ...]
    """Reservations that nobody has settled."""
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Overview:
    """Every data set's statement at one head, with what else is shown beside them."""

    lines: int
    head: str
    year: int
    signer: str
    """For whom: of limits on one member, those of this one are stated."""
    members: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Fingerprint, name and roles."""
    statements: tuple[Statement, ...]
    costs: tuple[tuple[int, float], ...]
    """Of every reservation that is open or recent: its number, and the epsilon that it would cost alone."""


_OVERVIEW: dict[str, type] = rules.KINDS | {kind.__name__: kind for kind in (Overview, Statement)}


@dataclass(frozen=True)
class Checked:
    """What `check` has found in order."""

    lines: int
    reservations: int
    signed: int
    officers: tuple[Face, ...]
    head: str


class Ledger:
    """A SQLite file or a PostgreSQL database, created by the first entry. Any number of processes may use it at once.

    `identity`, or its folder, signs what is written.
    """

    def __init__(
        self, address: str | os.PathLike[str], identity: Identity | str | os.PathLike[str] | None = None
    ) -> None:
        self._store = store_at(address)
        self.address = self._store.address
        self.identity = _identity(identity)
        self._kept = KeptHead(self.address, self.identity)
        self._memory = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return Ledger, (self.address, self.identity_folder or None)

    # what officers do

    def admit(self, member: Face, *roles: Role, login: str | None = None) -> None:
        """Give somebody these roles and no others. The first officer of a ledger admits oneself.

        `login` is the user of the database who may then read, and write if the roles need it.
        """
        plain = [Role(role).value for role in roles]
        self._append({"kind": "member", "certificate": member.pem, "roles": plain})
        if login is not None:
            self._store.grant(login, writes=any(role != Role.READER for role in plain))

    def open(
        self,
        dataset: str,
        cap: Budget,
        per_year: float | None = None,
        per_member_year: float | None = None,
        expires: str | None = None,
        approval: bool = False,
    ) -> None:
        """Give `dataset` its budget (see `Terms`), once and for all. Opening it again with the same does nothing."""
        if not dataset:
            raise ValueError("a data set needs a name: give a string that is not empty.")
        terms = Terms(cap, per_year, per_member_year, expires, approval)
        with self._writing() as writer:
            if dataset not in writer.book.tallies:
                plain = {key: value for key, value in wire.to_plain(terms).items() if value not in (None, False)}
                writer.append({**plain, "kind": "open", "dataset": dataset})
            elif (known := writer.book.tallies[dataset].terms) != terms:
                raise ValueError(
                    f"{dataset!r} is open with {known}, not with {terms}: what was promised about a data set cannot be "
                    "changed afterwards."
                )

    def approve(self, request: int, why: str = "") -> None:
        self._append({"kind": "decide", "request": request, "approved": True, "who": self._who, "why": why})

    def refuse(self, request: int, why: str) -> None:
        if not why.strip():
            raise ValueError(f"request {request} is refused with a reason: whoever asked reads it in the ledger.")
        self._append({"kind": "decide", "request": request, "approved": False, "who": self._who, "why": why})

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
        told = {"state": State(state).value, "who": who, "why": why, "by_hand": True}
        entry = self._append({"kind": "settle", "number": number, **told})
        assert entry is not None
        return entry

    def import_journal(self, path: str | os.PathLike[str]) -> int:
        """Bring over a ledger of the first version, a file of lines, into this new one; how many lines it had.

        Its chain is checked, and goes on: a head that was kept of it is one of this ledger too.
        """
        old = Path(path).absolute()
        if not old.exists():
            raise FileNotFoundError(f"{old} does not exist: name the ledger that is to be brought over.")
        entries = (rules.HEADERS[0], *Journal(old, rules.HEADERS[0], _LARGEST_JOURNAL).entries())
        with self._writing(rules.HEADERS[0]) as writer:
            if writer.book.lines != 1:
                raise ValueError(f"{self.address} holds a ledger already: name a new one.")
            checks = [writer.book.head]
            for line in entries[1:]:
                with _sentences(str(old), Line(len(checks) + 1, b"", "")):
                    writer.write(line)
                checks.append(writer.book.head)
            kept = KeptHead(str(old))
            if (mark := kept.mark()) is not None:
                kept.require(mark, mark.head in checks, len(checks))
        return len(checks)

    # what analysts do

    def request(self, dataset: str, event: Event, relation: Relation, note: str = "", unit: str = "record") -> Request:
        """Ask an officer for a release. What was asked for already is not asked for again, unless it was refused."""
        with self._writing() as writer:
            _require_relation(writer.book.tally(dataset), dataset, relation)
            writer.book.tally(dataset).require_unit(dataset, unit)
            return writer.ask(dataset, event, note, unit, again=True)

    def reserve(
        self,
        dataset: str,
        event: Event,
        relation: Relation,
        note: str = "",
        reference: str | None = None,
        unit: str = "record",
    ) -> Reservation:
        """Set aside what `event` costs under `relation`; `BudgetExceeded` when it does not fit beside what was spent.

        Use it in a `with` statement around everything that touches the records. With a `reference` that has a
        reservation already, it is that one, in the state it is in: what is spent buys nothing more. Where releases need
        an officer's word, the first call asks for it and raises `ApprovalNeeded`; after it, the same call succeeds.

        `unit` is what the event protects, "record" or "person": all releases of a data set are about the same, because
        what is promised of records and what is promised of persons do not add up.
        """
        self._price_beforehand(dataset, event)
        with self._writing() as writer:
            book = writer.book
            tally = book.tally(dataset)
            _require_relation(tally, dataset, relation)
            tally.require_unit(dataset, unit)
            if reference and (before := book.held(dataset, reference)) is not None:
                number, text, ended = before
                if text != rules.event_text(event):
                    raise ValueError(
                        f"the reference {reference} stands for another release in reservation {number} of "
                        f"{dataset!r}: choose a new one for every run."
                    )
                return Reservation(self, number, reference, State.SPENT if ended else State.RESERVED, is_new=False)
            costs = tally.price(event)
            tally.require_room(dataset, event, costs, writer.year, writer.signer)
            request = writer.ask(dataset, event, note, unit, again=False) if tally.terms.approval else None
            if request is None or request.approved:
                plain = {"event": events.to_json(event), "charge": wire.to_plain(costs), "note": note}
                whose = {"reference": reference or "", "by": _process(), "unit": unit}
                asked = {} if request is None else {"request": request.number}
                number = book.made
                writer.append({"kind": "reserve", "number": number, "dataset": dataset, **plain, **whose, **asked})
                return Reservation(self, number, reference or "")
        assert request is not None
        if request.approved is None:
            raise ApprovalNeeded(
                f"{dataset!r} needs an officer's approval, so nothing was run: request {request.number} waits for it "
                f"(sordino ledger approve {self.address} {request.number}). Then run this again."
            )
        raise PermissionError(
            f"request {request.number} of {dataset!r} was refused by {request.who}, so nothing was run: {request.why}"
        )

    # what everybody may ask

    def _repr_html_(self) -> str:
        """A notebook's card: where every data set stands."""
        stated = [self.statement(name) for name in self.datasets()]
        lines = [
            (
                one.dataset,
                f"epsilon {number(one.spent)} of {number(one.terms.cap.epsilon)} is spent or reserved, at delta "
                f"{number(one.terms.cap.delta)}; one more release may ask for {number(one.left)}. Reservations: "
                f"{one.releases}, {len(one.open)} of them open.",
            )
            for one in stated
        ]
        return card("Ledger", lines or [("data sets", "none yet")])

    def statement(self, dataset: str) -> Statement:
        """What is spent and left, what is open, and the last reservations."""
        with self._reading() as (book, transaction):
            return self._state(book, dataset, self._year(transaction))

    def overview(self) -> Overview:
        """All statements. What was worked out at the same head in the same year is kept, and not worked out again."""
        kept, mark = self._kept.page(_OVERVIEW), self._kept.mark()
        with self._forgetting_after_errors(), self._store.reading() as transaction:
            last, year = transaction.last(), self._year(transaction)
        if isinstance(kept, Overview) and last is not None:
            same = (last.number, last.check) == mark == (kept.lines, kept.head)
            if same and (kept.year, kept.signer) == (year, self._signer):
                return kept
        made = self._overview()
        if made.head:
            self._kept.keep_page(made)
        return made

    def _overview(self) -> Overview:
        with self._reading() as (book, transaction):
            year = self._year(transaction)
            statements = tuple(self._state(book, dataset, year) for dataset in book.tallies)
            costs = {e.number: epsilon_of(e.charge, s.terms.cap) for s in statements for e in (*s.open, *s.recent)}
            members = tuple((one, member.face.name, member.roles) for one, member in book.members.items())
            return Overview(
                book.lines, book.head, year, self._signer, members, statements, tuple(sorted(costs.items()))
            )

    def _state(self, book: Book, dataset: str, year: int) -> Statement:
        tally = book.tally(dataset)
        total, *yearly = tally.limits(year, self._signer)
        return Statement(
            dataset,
            tally.terms,
            tally.made,
            total.spent,
            _left([total, *yearly]),
            tuple((limit.words.strip(), limit.cap.epsilon, limit.spent, limit.left()) for limit in yearly),
            tuple(tally.recent.values()),
            tuple(e for e in book.pending.values() if e.dataset == dataset and e.state is State.RESERVED),
            tuple(request for request in book.requests.values() if request.dataset == dataset),
        )

    def spent(self, dataset: str) -> Event | None:
        """Everything spent and reserved so far, as one event; None before the first reservation."""
        return self._book().tally(dataset).spent()

    def remaining(self, dataset: str, releases: int = 1) -> Budget | None:
        """What each of so many further releases may ask for, at the cap's delta; None when nothing is left.

        It is stated for Gaussian noise on all records, or for pure noise under a pure cap; noise on batches may need
        a little less.
        """
        if releases < 1:
            raise ValueError(f"releases is {releases}: at least one is needed.")
        with self._reading() as (book, transaction):
            tally = book.tally(dataset)
            limits = [*tally.limits(self._year(transaction), self._signer)]
        epsilon = _left(limits, releases)
        return replace(tally.terms.cap, epsilon=epsilon) if epsilon > 0 else None

    def buys(self, dataset: str, epsilon: float) -> int:
        """How many further releases of so much epsilon each there is room for."""
        if not epsilon > 0:
            raise ValueError(f"epsilon is {epsilon}: a release that costs nothing needs no budget.")
        low, high = 0, 1
        with self._reading() as (book, transaction):
            tally = book.tally(dataset)
            limits = [*tally.limits(self._year(transaction), self._signer)]
        while _left(limits, high) >= epsilon:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _left(limits, middle) >= epsilon else (low, middle)
        return low

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """Every reservation in the order it was made, unused ones included."""
        self._book().tally(dataset)
        return tuple(entry for entry in self._history().values() if entry.dataset == dataset)

    def entry(self, number: int) -> Entry:
        """One reservation, by its number."""
        history = self._history()
        if number not in history:
            raise ValueError(
                f"there is no reservation {number}: `sordino ledger show` lists the {len(history)} there are."
            )
        return history[number]

    def datasets(self) -> dict[str, Budget]:
        """Every open data set and its cap."""
        return {name: tally.terms.cap for name, tally in self._book().tallies.items()}

    def members(self) -> dict[str, tuple[Face, tuple[Role, ...]]]:
        """Everybody who has signed or may sign, by fingerprint, and their roles."""
        members = self._book().members
        return {one: (member.face, tuple(map(Role, member.roles))) for one, member in members.items()}

    def head(self) -> str:
        """A checksum of everything written so far, to be kept where whoever can write the file cannot change it."""
        return self._book().head

    def extends(self, head: str) -> bool:
        """Whether everything written when `head()` gave `head` is still there, unchanged."""
        self._book()
        with self._store.reading() as transaction:
            # all of them: a line behind the one that is looked for may be altered
            return head in ["", *(line.check for line in _verified(self.address, transaction))]

    def check(self) -> Checked:
        """Read everything anew, trusting nothing that is kept: chain, signatures, roles, prices and limits."""
        book, signed = Book(), 0
        believed = [one for one in (self._kept.book(), self._book()) if one is not None]
        with self._store.reading() as transaction:
            for line in _verified(self.address, transaction):
                with _sentences(self.address, line):
                    plain = rules.read_body(line.body)
                    signed += "signature" in plain
                    if plain.get("kind") == "reserve":
                        _require_fair(book, plain)
                    _advance(book, line, plain)
                self._kept.require_same(all(one == book for one in believed if one.lines == book.lines))
        faces = tuple(one.face for one in book.members.values() if Role.OFFICER in one.roles)
        return Checked(book.lines, book.made, signed, faces, book.head)

    # how it is done

    @property
    def identity_folder(self) -> str:
        """Of whoever signs; empty where nobody does."""
        return "" if self.identity is None else str(self.identity.folder.absolute())

    @property
    def _signer(self) -> str:
        return "" if self.identity is None else self.identity.face.fingerprint

    @property
    def _who(self) -> str:
        return whoami() if self.identity is None else self.identity.face.name

    def _book(self) -> Book:
        with self._reading() as (book, _):
            return book

    def _counts(self, number: int) -> bool:
        pending = self._book().pending
        return number not in pending or pending[number].counts

    def _append(self, line: Plain) -> Entry | None:
        with self._writing() as writer:
            return writer.append(line)

    def _price_beforehand(self, dataset: str, event: Event) -> None:
        """What takes seconds is computed while others may write; the accountants remember it."""
        book: Book = getattr(self._memory, "book", None) or self._book()
        if dataset in book.tallies:
            book.tallies[dataset].price(event)

    def _history(self) -> dict[int, Entry]:
        book, found = Book(), {}
        with self._reading() as (_, transaction):
            for line in _verified(self.address, transaction):
                with _sentences(self.address, line):
                    plain = rules.read_body(line.body)
                    entry = _advance(book, line, plain)
                if entry is not None:
                    found[entry.number] = entry
                elif plain.get("kind") == "model":
                    found[plain["number"]] = replace(found[plain["number"]], model=plain["model"])
        return found

    @contextmanager
    def _reading(self) -> Iterator[tuple[Book, Transaction]]:
        with self._forgetting_after_errors():
            remembered = self._remembered()
            with self._store.reading() as transaction:
                book = self._follow(transaction, *remembered)
                self._keep(book)
                yield book, transaction

    @contextmanager
    def _writing(self, header: Plain = rules.HEADER) -> Iterator[_Writer]:
        with self._forgetting_after_errors():
            remembered = self._remembered()
            with self._store.writing() as transaction:
                book = self._follow(transaction, *remembered)
                writer = _Writer(book, transaction, self.identity, self._now(transaction))
                if writer.book.lines == 0:
                    writer.write(header)
                yield writer
            self._keep(writer.book)

    def _now(self, transaction: Transaction) -> str:
        """Not before the last entry: a clock that was set back gives nobody a year again, or a day that has passed."""
        last, before = transaction.last(), ""
        if last is not None:
            with _sentences(self.address, last):
                before = str(rules.read_body(last.body).get("created", ""))
        return max(before, transaction.now().replace(microsecond=0).isoformat())

    def _year(self, transaction: Transaction) -> int:
        """Which year's budget the next entry is charged to."""
        return int(self._now(transaction)[:4])

    @contextmanager
    def _forgetting_after_errors(self) -> Iterator[None]:
        try:
            yield
        except BudgetExceeded:
            raise
        except BaseException:
            # what was taken but not written must not be believed; a refusal takes nothing
            self._memory.__dict__.clear()
            raise

    def _remembered(self) -> tuple[Mark | None, Book | None]:
        """What is kept of the ledger. Asked for before a transaction begins, which may not see what comes later."""
        return self._kept.mark(), None if getattr(self._memory, "book", None) else self._kept.book()

    def _follow(self, transaction: Transaction, kept: Mark | None, kept_book: Book | None) -> Book:
        """The book up to the last line. What this object, or a book that is kept, has read is not read again.

        Whoever changes an earlier line changes no sum with it, and is found out by whatever reads all lines.
        """
        book: Book = getattr(self._memory, "book", None) or kept_book or Book()
        before, again = book.lines, book.lines > 0
        marks = {mark.lines: mark for mark in (kept, Mark(book.lines, book.head)) if mark is not None}
        first = book.lines if again else 1
        last = first - 1
        for line in _verified(self.address, transaction, first, known=again):
            last = line.number
            if last in marks:
                self._kept.require(marks[last], line.check == marks[last].head, last)
            if last > book.lines:
                with _sentences(self.address, line):
                    _advance(book, line, rules.read_body(line.body))
        furthest = marks[max(marks)]
        self._kept.require(furthest, last >= furthest.lines, last)
        self._memory.book, self._memory.before = book, before
        return book

    def _keep(self, book: Book) -> None:
        self._kept.remember(Mark(book.lines, book.head))
        if book.lines // _KEEP_EVERY > self._memory.before // _KEEP_EVERY:
            self._kept.keep(book)


class _Writer:
    """The ledger, held by this operation alone until its block ends."""

    def __init__(self, book: Book, transaction: Transaction, identity: Identity | None, now: str) -> None:
        self.book = book
        self._transaction = transaction
        self._identity = identity
        self.now = now

    @property
    def year(self) -> int:
        return int(self.now[:4])

    @property
    def signer(self) -> str:
        return "" if self._identity is None else self._identity.face.fingerprint

    def append(self, line: Plain) -> Entry | None:
        """With the time, and signed where there is an identity, which a ledger without officers gets to know first."""
        book, identity = self.book, self._identity
        line = {**line, "created": self.now}
        if identity is not None:
            if self.signer not in book.members and line["kind"] != "member" and not book.managed:
                self.append({"kind": "member", "certificate": identity.face.pem, "roles": []})
            line = rules.sign(line, book.head, identity)
        return self.write(line)

    def write(self, line: Plain) -> Entry | None:
        """As it is."""
        book, body = self.book, wire.canonical(line).encode()
        if len(body) > LONGEST:
            raise ValueError(f"the entry has {len(body)} bytes, and at most {LONGEST} are kept: shorten its note.")
        written = Line(book.lines + 1, body, check_of(book.head, body))
        entry = _advance(book, written, rules.read_body(body))
        self._transaction.append(written)
        return entry

    def ask(self, dataset: str, event: Event, note: str, unit: str, again: bool) -> Request:
        """The request for a release: the one there is, or a new one; after a refusal only if asked `again`."""
        for request in reversed(self.book.requests.values()):
            if request.is_for(dataset, event, self.signer, unit) and not (again and request.approved is False):
                return request
        number = self.book.asked
        plain = {"dataset": dataset, "event": events.to_json(event), "note": note, "by": _process(), "unit": unit}
        self.append({"kind": "request", "number": number, **plain})
        return self.book.requests[number]


def _verified(address: str, transaction: Transaction, first: int = 1, known: bool = False) -> Iterator[Line]:
    """The lines from `first` on, each of which follows from the one before; `known` says that the first one is."""
    previous, expected = "", first
    for line in transaction.lines(first):
        fits = line.number == expected
        if fits and not (known and expected == first):
            fits = line.check == check_of(previous, line.body)
        if not fits:
            raise ValueError(
                f"line {expected} of {address} was altered or damaged: its checksum does not follow from the lines "
                "before it. Nothing from there on can be trusted: restore it from a copy, and find out what happened."
            )
        yield line
        previous, expected = line.check, expected + 1


def _advance(book: Book, line: Line, plain: Plain) -> Entry | None:
    entry = book.take(plain, book.head)
    book.lines, book.head = line.number, line.check
    return entry


@contextmanager
def _sentences(address: str, line: Line) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, PermissionError) as error:
        why = f" ({error})" if isinstance(error, PermissionError) else ""
        raise ValueError(
            f"line {line.number} of {address} is not one that this version writes{why}: read it with the version that "
            "wrote it, or restore it from a copy."
        ) from None


def _require_fair(book: Book, line: Plain) -> None:
    """That a reservation was charged what it costs, and fitted."""
    from sordino.privacy.filter import charge_at

    tally, event = book.tally(line["dataset"]), events.from_json(line["event"])
    stated: Charge = wire.from_plain(line["charge"], {"Charge": Charge})
    true = charge_at(stated.leak, event, tally.terms.cap)
    for name in ("mu", "epsilon", "total_variation"):
        if getattr(stated, name) < getattr(true, name) * (1 - _CHEAPER):
            raise PermissionError("it was charged less than it costs")
    tally.require_room(line["dataset"], event, stated, int(line["created"][:4]), line.get("signer", ""))


def _left(limits: list[Limit], releases: int = 1) -> float:
    return min(limit.left(releases) for limit in limits)


def _require_relation(tally: Tally, dataset: str, relation: Relation) -> None:
    stated = tally.terms.cap.relation
    if relation != stated:
        raise ValueError(
            f"the event is stated under {Relation(relation)}, and {dataset!r} is accounted under {stated}: one cannot "
            f"be turned into the other; plan again with {stated}."
        )


def _identity(given: Identity | str | os.PathLike[str] | None) -> Identity | None:
    if given is None:
        return None
    from sordino.identity import Identity

    return given if isinstance(given, Identity) else Identity.load(Path(given))


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


def _process() -> str:
    return f"{whoami()}, process {os.getpid()}"


def reserved(
    event: Event, relation: Relation, note: str, reference: str | None = None, unit: str = "record"
) -> AbstractContextManager[Reservation | None]:
    """The reservation to hold while the records are used; nothing where no `charged_to` block is open."""
    charged = account()
    if charged is None:
        return nullcontext()
    ledger = Ledger(charged.ledger, charged.identity or None)
    return ledger.reserve(charged.dataset, event, relation, note, reference, unit)


def store_at(address: str | os.PathLike[str]) -> Store:
    """`postgresql://..`, or the path of a SQLite file."""
    if (file := ledger_file(address)) is None:
        from sordino.ledger.postgres import PostgresStore

        return PostgresStore(os.fspath(address))
    from sordino.ledger.sqlite import SqliteStore

    return SqliteStore(file)
