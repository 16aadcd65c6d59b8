"""The rules of a ledger: what its entries mean, read from first to last, and which may follow.

`Book.take` is the one place that knows them. It takes an entry before it is written and whenever it is read, so what
one program may not write the next one does not believe. A book holds no more than what later entries depend on, equal
releases together, so that it can be kept beside the ledger and need not be read anew from the first entry. Accountants
are loaded by what asks them: they take longer than all of the rest.

    header                                  what it is, and in which version
    member     certificate, roles           who signs, and what they may do; signed by an officer, or by oneself
    open       data set, budget, limits     once and for all
    request    data set, event              asks an officer; `decide` answers
    reserve    data set, event, charge      counts from now on
    settle     reservation, state           spent or unused, on whose word
    model      reservation, digest          what became of what was released

From the first officer on, every entry must be signed by a member whose role allows it. A signature covers the entry and
the check of the one before it, so it holds at one place of one ledger.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from sordino import wire
from sordino.budget import Budget
from sordino.privacy import events
from sordino.privacy.charges import BudgetExceeded, Charge, epsilon_of, room, total
from sordino.privacy.events import Event

if TYPE_CHECKING:
    from sordino.identity import Face, Identity

Plain = dict[str, Any]

HEADER: Plain = {"format": "sordino ledger", "version": 2}
HEADERS = ({"format": "sordino ledger", "version": 1}, HEADER)
"""The first was written as a file of lines, and is imported."""
UNITS = ("record", "person")
RECENT = 20
"""Reservations of each data set that are at hand without reading all entries."""
_ROUNDING = 1e-9
_PURPOSE = "ledger"
_CHARGE: dict[str, type] = {"Charge": Charge}


class Role(StrEnum):
    """What a member may do. Who may read is for the storage to say: permissions of a file, grants of a database."""

    OFFICER = "officer"
    """Admits members, opens data sets, decides requests, and settles what others left open."""
    ANALYST = "analyst"
    """Requests and reserves, and says what became of it."""
    READER = "reader"
    """Writes nothing."""


class State(StrEnum):
    """How far a reservation came. Everything but `UNUSED` counts."""

    RESERVED = "reserved"
    SPENT = "spent"
    UNUSED = "unused"


class ApprovalNeeded(RuntimeError):
    """The data set's releases need an officer's word, and this one has none; it has not happened."""


@dataclass(frozen=True)
class Member:
    certificate: str
    roles: tuple[str, ...] = ()

    @property
    def face(self) -> Face:
        from sordino.identity import Face

        return Face(self.certificate)


@dataclass(frozen=True)
class Terms:
    """What was promised about a data set when it was opened. All limits are at the cap's delta."""

    cap: Budget
    per_year: float | None = None
    """The epsilon of everything in one calendar year (UTC): what a record may lose in a year, or a person where the
    releases protect persons."""
    per_member_year: float | None = None
    """The epsilon of what one member reserves in one calendar year."""
    expires: str | None = None
    """The last day (UTC) on which anything may be reserved."""
    approval: bool = False
    """Whether every release needs an officer's word."""

    def __post_init__(self) -> None:
        if not isinstance(self.cap, Budget):
            raise TypeError(f"cap is {wire.shown(self.cap)}: give a Budget, such as Budget(epsilon=2, delta=1e-6).")
        for name in ("per_year", "per_member_year"):
            epsilon = getattr(self, name)
            if epsilon is not None and not 0 < epsilon <= self.cap.epsilon:
                raise ValueError(f"{name} is {epsilon}: a limit lies between 0 and the budget's {self.cap.epsilon:g}.")
        if self.expires is not None:
            try:
                date.fromisoformat(self.expires)
            except ValueError:
                raise ValueError(f"expires is {self.expires!r}: write a day as 2027-12-31.") from None

    def __str__(self) -> str:
        parts = [f"epsilon {self.cap.epsilon:g} and delta {self.cap.delta:g} under {self.cap.relation}"]
        if self.per_year is not None:
            parts.append(f"at most epsilon {self.per_year:g} in a year")
        if self.per_member_year is not None:
            parts.append(f"at most epsilon {self.per_member_year:g} of one member in a year")
        if self.expires is not None:
            parts.append(f"until {self.expires}")
        if self.approval:
            parts.append("with an officer's approval")
        return ", ".join(parts)


_TERMS: dict[str, type] = {"Terms": Terms, "Budget": Budget}


@dataclass(frozen=True)
class Settlement:
    """What became of a reservation, and on whose word. `why` is empty where the run itself said so."""

    state: State
    created: str
    who: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))


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
    signer: str = ""
    """The fingerprint of the member who signed for it."""
    settled: tuple[Settlement, ...] = ()
    model: str = ""
    """The digest of the weights that were released (`Certificate.weights`)."""
    unit: str = ""
    """What it protects, a record or a person; empty where an earlier version wrote it down."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    @property
    def counts(self) -> bool:
        return self.state is not State.UNUSED

    @property
    def ended(self) -> bool:
        """Whether its own run said that it has ended; what is spent by hand may still be used by it."""
        return any(settled.state is State.SPENT and not settled.why for settled in self.settled)


@dataclass(frozen=True)
class Request:
    """A release that somebody asks an officer for, and the answer."""

    number: int
    dataset: str
    event: Event
    note: str
    created: str
    by: str = ""
    signer: str = ""
    approved: bool | None = None
    """None until an officer has decided."""
    who: str = ""
    why: str = ""
    unit: str = ""
    """What it would protect, as in an entry."""

    def is_for(self, dataset: str, event: Event, signer: str, unit: str) -> bool:
        """Whether it asks for just this."""
        return (self.dataset, self.event, self.signer) == (dataset, event, signer) and self.unit in ("", unit)


class Group(NamedTuple):
    """Releases that a budget cannot tell apart."""

    event: str
    charge: Charge
    year: int
    signer: str
    unit: str


class References:
    """Of reservations whose run has ended: their number and the event, by reference.

    Those of a kept book are read when one is asked for: there may be a hundred thousand, and who only looks at a ledger
    asks for none.
    """

    def __init__(self, kept: str = "") -> None:
        self._kept = kept
        self._read: dict[str, tuple[int, str]] = {}

    def get(self, reference: str) -> tuple[int, str] | None:
        return self._all().get(reference)

    def __setitem__(self, reference: str, ended: tuple[int, str]) -> None:
        self._read[reference] = ended

    def __eq__(self, other: object) -> bool:
        return isinstance(other, References) and self._all() == other._all()

    __hash__ = None  # type: ignore[assignment]

    def to_text(self) -> str:
        # every reference has its event's text, of which there are few
        texts = {text: place for place, text in enumerate(sorted({text for _, text in self._all().values()}))}
        numbered = {one: [number, texts[text]] for one, (number, text) in self._all().items()}
        return wire.canonical({"texts": list(texts), "references": numbered})

    def _all(self) -> dict[str, tuple[int, str]]:
        if self._kept:
            try:
                plain = json.loads(self._kept)
                texts, kept = plain["texts"], plain["references"].items()
                earlier = {str(one): (int(number), str(texts[text])) for one, (number, text) in kept}
            except (ValueError, KeyError, TypeError, AttributeError, IndexError):
                raise ValueError(
                    "what is kept of the ledger beside its head was altered: remove the file .book in the folder of "
                    "heads, so that the ledger is read anew."
                ) from None
            self._read, self._kept = earlier | self._read, ""
        return self._read


@dataclass
class Tally:
    """A data set: what was promised about it, and what counts against that."""

    terms: Terms
    made: int = 0
    """Reservations so far, unused ones included."""
    counted: Counter[Group] = field(default_factory=Counter)
    references: References = field(default_factory=References)
    recent: dict[int, Entry] = field(default_factory=dict)

    def spent(self) -> Event | None:
        parts: Counter[str] = Counter()
        for group, count in self.counted.items():
            parts[group.event] += count
        if not parts:
            return None
        read = [(events.from_json(json.loads(text)), count) for text, count in parts.items()]
        return read[0][0] if len(read) == 1 and read[0][1] == 1 else events.Composed(tuple(read))

    def limits(self, year: int, signer: str) -> Iterator[Limit]:
        cap = self.terms.cap
        for words, epsilon, when, whose in (
            ("", cap.epsilon, None, None),
            (f" in {year}", self.terms.per_year, year, None),
            (f" for one member in {year}", self.terms.per_member_year, year, signer),
        ):
            if epsilon is not None:
                counted = [
                    (g, c) for g, c in self.counted.items() if when in (None, g.year) and whose in (None, g.signer)
                ]
                taken, times = total(_times(g.charge, c) for g, c in counted), sum(c for _, c in counted)
                yield Limit(words, replace(cap, epsilon=epsilon), taken, times, counted[0][0].event if counted else "")

    def require_room(self, dataset: str, event: Event, costs: Charge, year: int, signer: str) -> None:
        """`BudgetExceeded` unless `event`, which takes `costs`, fits beside what counts."""
        for limit in self.limits(year, signer):
            cap = limit.cap
            needed = epsilon_of(total((limit.taken, costs)), cap)
            if not limit.releases:
                # nothing was seen yet: the exact cost decides, up to the rounding of a plan that aims at the cap itself
                needed = min(needed, _exactly(event, cap))
            if needed > cap.epsilon:
                raise BudgetExceeded(_refusal(dataset, limit, needed))

    def require_unit(self, dataset: str, unit: str) -> None:
        """Raise a sentence where other releases promise something about another unit, which does not add up.

        Epsilon of a record is up to k times that of a person with k records. And one record less, or one that becomes
        somebody else's, is a person who changes, or two: not what a promise about persons who come or go speaks of.
        """
        if unit not in UNITS:
            raise ValueError(f"unit is {unit!r}: a release is about a record or a person.")
        # entries of earlier versions do not say
        for other in {group.unit for group in self.counted} - {"", unit}:
            raise ValueError(
                f"the releases of {dataset!r} protect every {other}, and this one protects every {unit}: what is "
                f"promised of the two does not add up, so nothing was run. Protect every {other} here as well."
            )

    def price(self, event: Event) -> Charge:
        """What `event` takes as the next release."""
        from sordino.privacy.filter import charge

        return charge(event, self.terms.cap, place=self.made + 1)


class Limit(NamedTuple):
    words: str
    cap: Budget
    taken: Charge
    releases: int
    only: str
    """The event, where there is one release."""

    @property
    def spent(self) -> float:
        """The epsilon of everything that counts, at the cap's delta."""
        if not self.releases:
            return 0.0
        added = epsilon_of(self.taken, self.cap)
        if self.releases > 1:
            return added
        # nothing was chosen in view of anything: the exact cost
        return min(added, _exactly(events.from_json(json.loads(self.only)), self.cap))

    def left(self, releases: int = 1) -> float:
        """The epsilon that each of so many further releases may ask for."""
        if not self.releases and releases == 1:
            return self.cap.epsilon
        return room(self.taken, self.cap, releases)


@dataclass
class Book:
    """The ledger up to the line `lines`, whose check is `head`."""

    lines: int = 0
    head: str = ""
    made: int = 0
    asked: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    pending: dict[int, Entry] = field(default_factory=dict)
    """Reservations whose run has not ended, and may yet."""
    requests: dict[int, Request] = field(default_factory=dict)
    """Those that were not used."""

    @property
    def managed(self) -> bool:
        return any(Role.OFFICER in member.roles for member in self.members.values())

    def tally(self, dataset: str) -> Tally:
        if dataset not in self.tallies:
            known = ", ".join(map(repr, self.tallies)) or "none yet"
            raise ValueError(
                f"{dataset!r} is not open (open: {known}): name one that is, or give it a budget first, with "
                "`sordino ledger open` or open(dataset, cap)."
            )
        return self.tallies[dataset]

    def held(self, dataset: str, reference: str) -> tuple[int, str, bool] | None:
        """The reservation that counts under a reference: its number, its event, and whether its run has ended."""
        for entry in reversed(self.pending.values()):
            if entry.reference == reference and entry.dataset == dataset and entry.counts:
                return entry.number, event_text(entry.event), False
        ended = self.tally(dataset).references.get(reference)
        return None if ended is None else (*ended, True)

    def name(self, signer: str) -> str:
        return self.members[signer].face.name if signer in self.members else "somebody who is no member"

    def take(self, line: Plain, previous: str) -> Entry | None:
        """What the entry says, after the check `previous`; the reservation it is about. A sentence if it may not be."""
        if self.lines == 0:
            if line not in HEADERS:
                raise ValueError("it does not begin as a ledger does")
            return None
        signer = self._signer(line, previous)
        match line["kind"]:
            case "member":
                self._take_member(line, signer)
            case "open":
                self._take_open(line, signer)
            case "request":
                self._take_request(line, signer)
            case "decide":
                self._take_decide(line, signer)
            case "model":
                self._take_model(line, signer)
            case "reserve":
                return self._take_reserve(line, signer)
            case "settle":
                return self._take_settle(line, signer)
            case _:
                raise ValueError("its kind is unknown")
        return None

    def _signer(self, line: Plain, previous: str) -> str:
        """Whose signature an entry carries; empty where it needs none and has none."""
        signer, signature = line.get("signer", ""), line.get("signature", "")
        if not signer:
            if self.managed or signature:
                raise PermissionError(
                    "every entry of this ledger is signed by a member: name your identity (--identity FOLDER)."
                )
            return ""
        member = self.members.get(signer)
        if member is None and line["kind"] == "member":
            member = Member(line["certificate"])
        if member is None or member.face.fingerprint != signer:
            raise PermissionError("whoever signs it is no member of this ledger: an officer admits members.")
        if not member.face.is_valid_at(datetime.fromisoformat(line["created"])):
            raise PermissionError(
                f"the certificate of {member.face.name} had expired: make a new identity, and have an officer admit it."
            )
        if not member.face.signed(_PURPOSE, _signed(line, previous), signature):
            raise ValueError("its signature is not that of its signer")
        return str(signer)

    def _require(self, role: Role, signer: str, to: str) -> None:
        if self.managed and (signer not in self.members or role not in self.members[signer].roles):
            raise PermissionError(f"{self.name(signer)} may not {to} here: that is for {role.value}s.")

    def _take_member(self, line: Plain, signer: str) -> None:
        member = Member(line["certificate"], tuple(Role(role).value for role in line["roles"]))
        fingerprint = member.face.fingerprint
        if self.managed:
            self._require(Role.OFFICER, signer, "admit members")
        elif signer != fingerprint:
            raise PermissionError("the first officer of a ledger admits oneself: sign with that identity.")
        managed = self.managed
        self.members[fingerprint] = member
        if managed and not self.managed:
            raise ValueError("a ledger with officers keeps at least one: admit another one first.")

    def _take_open(self, line: Plain, signer: str) -> None:
        self._require(Role.OFFICER, signer, "open data sets")
        plain: Plain = {"kind": "Terms", "cap": line["cap"]}
        plain |= {key: line[key] for key in ("per_year", "per_member_year", "expires", "approval") if key in line}
        terms = wire.from_plain(plain, _TERMS)
        if not line["dataset"] or line["dataset"] in self.tallies:
            raise ValueError("a data set has one name, and is opened once")
        self.tallies[line["dataset"]] = Tally(terms)

    def _take_request(self, line: Plain, signer: str) -> None:
        self._require(Role.ANALYST, signer, "ask for releases")
        self.tally(line["dataset"])
        if line["number"] != self.asked:
            raise ValueError("its number is another request's")
        event = events.from_json(line["event"])
        words = line["dataset"], event, line["note"], line["created"], line["by"]
        self.requests[self.asked] = Request(self.asked, *words, signer, unit=str(line.get("unit", "")))
        self.asked += 1

    def _take_decide(self, line: Plain, signer: str) -> None:
        self._require(Role.OFFICER, signer, "decide requests")
        request = self.request(line["request"])
        if request.approved is not None:
            raise ValueError(f"request {request.number} was decided already: ask again for another answer.")
        if signer and signer == request.signer:
            raise PermissionError("nobody decides their own request: another officer does.")
        decided = replace(request, approved=line["approved"] is True, who=line["who"], why=line["why"])
        self.requests[request.number] = decided

    def _take_reserve(self, line: Plain, signer: str) -> Entry:
        self._require(Role.ANALYST, signer, "reserve")
        tally, event = self.tally(line["dataset"]), events.from_json(line["event"])
        costs = wire.from_plain(line["charge"], _CHARGE)
        if line["number"] != self.made or not isinstance(costs, Charge):
            raise ValueError("its number is another reservation's, or it has no price")
        if tally.terms.expires is not None and line["created"][:10] > tally.terms.expires:
            raise ValueError(
                f"the budget of {line['dataset']!r} has expired on {tally.terms.expires}: nothing more is reserved."
            )
        if tally.terms.approval:
            request = self.requests.pop(line["request"])
            if not (request.approved is True and request.is_for(line["dataset"], event, signer, line.get("unit", ""))):
                raise PermissionError("no officer has approved it")
        if "unit" in line:
            tally.require_unit(line["dataset"], line["unit"])
        words = str(line["note"]), State.RESERVED, str(line["created"])
        whose = str(line.get("reference", "")), str(line.get("by", "")), signer
        entry = Entry(self.made, line["dataset"], event, costs, *words, *whose, unit=line.get("unit", ""))
        self.made += 1
        tally.made += 1
        tally.counted[group(entry)] += 1
        self._keep(entry)
        return entry

    def _take_settle(self, line: Plain, signer: str) -> Entry:
        entry = self._unsettled(line["number"])
        settled = Settlement(line["state"], str(line["created"]), str(line.get("who", "")), str(line.get("why", "")))
        by_hand = line.get("by_hand") is True
        if signer != entry.signer or (by_hand and settled.state is State.UNUSED):
            self._require(Role.OFFICER, signer, "give a reservation back, or settle one of somebody else,")
        # a run that ends has spent, whatever somebody took it for meanwhile; that it ends twice means two runs
        ends = settled.state is State.SPENT and not settled.why
        if settled.state is State.RESERVED or (
            not ends and (entry.state is State.SPENT or (by_hand and not entry.counts))
        ):
            raise ValueError(f"reservation {entry.number} is {entry.state} already: it can be settled once.")
        after = replace(entry, state=settled.state, settled=(*entry.settled, settled))
        after = replace(after, model=str(line.get("model", after.model)))
        tally = self.tallies[entry.dataset]
        if after.counts != entry.counts:
            tally.counted[group(entry)] += 1 if after.counts else -1
            # so that equal books have equal counters
            tally.counted += Counter()
        self._keep(after)
        return after

    def _take_model(self, line: Plain, signer: str) -> None:
        number, digest = line["number"], str(line["model"])
        if not 0 <= number < self.made:
            raise ValueError("there is no such reservation")
        for tally in self.tallies.values():
            if number in tally.recent:
                if tally.recent[number].signer != signer:
                    raise PermissionError("a model is named by whoever reserved for it")
                tally.recent[number] = replace(tally.recent[number], model=digest)

    def _keep(self, entry: Entry) -> None:
        tally = self.tallies[entry.dataset]
        if entry.ended:
            self.pending.pop(entry.number)
            if entry.reference:
                tally.references[entry.reference] = entry.number, event_text(entry.event)
        else:
            self.pending[entry.number] = entry
        if entry.number in tally.recent or entry.state is State.RESERVED:
            tally.recent[entry.number] = entry
        while len(tally.recent) > RECENT:
            del tally.recent[min(tally.recent)]

    def _unsettled(self, number: int) -> Entry:
        if type(number) is not int or not 0 <= number < self.made:
            raise ValueError(
                f"there is no reservation {number}: `sordino ledger show` lists the {self.made} there are."
            )
        if number not in self.pending:
            raise ValueError(f"reservation {number} is spent already: it can be settled once.")
        return self.pending[number]

    def request(self, number: int) -> Request:
        if number not in self.requests:
            raise ValueError(f"there is no open request {number}: `sordino ledger show` lists those there are.")
        return self.requests[number]


def group(entry: Entry) -> Group:
    return Group(event_text(entry.event), entry.charge, int(entry.created[:4]), entry.signer, entry.unit)


def event_text(event: Event) -> str:
    return wire.canonical(events.to_json(event))


def read_body(body: bytes) -> Plain:
    """An entry as it was written. Total variation had a shorter name in the first version."""
    line = json.loads(body, object_hook=_renamed if b'"distance"' in body else None)
    if not isinstance(line, dict):
        raise TypeError("an entry is a dictionary")
    return line


def _renamed(plain: Plain) -> Plain:
    if plain.get("kind") in ("Charge", "Approximate") and "distance" in plain:
        plain["total_variation"] = plain.pop("distance")
    return plain


def sign(line: Plain, previous: str, identity: Identity) -> Plain:
    signed = {**line, "signer": identity.face.fingerprint}
    return {**signed, "signature": identity.sign(_PURPOSE, _signed(signed, previous))}


def _signed(line: Plain, previous: str) -> bytes:
    unsigned = {key: value for key, value in line.items() if key != "signature"}
    return wire.digest({"entry": unsigned, "previous": previous}).encode()


def _exactly(event: Event, cap: Budget) -> float:
    from sordino.privacy.accountants import guarantee

    return guarantee(event, cap.delta, cap.relation).epsilon / (1 + _ROUNDING)


def _times(one: Charge, count: int) -> Charge:
    """The total of equal charges. A number times a count, rounded once, is their rounded sum."""
    return Charge(one.mu * math.sqrt(count), one.epsilon * count, one.leak * count, one.total_variation * count)


def _refusal(dataset: str, limit: Limit, needed: float) -> str:
    cap, left = limit.cap, limit.left()
    if math.isinf(needed):
        why = f"this release cannot be bounded at delta {cap.delta:g}"
    else:
        why = f"with this release it would have spent epsilon {needed:.6g}"
    what = "nothing is left" if left <= 0 else f"one more release may ask for epsilon {left:.6g} at that delta"
    has = f"epsilon {cap.epsilon:g} and delta {cap.delta:g} under {cap.relation}{limit.words}"
    return f"{dataset!r} has {has}: {why}, so nothing was run; {what}."


KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (Member, Terms, Budget, Entry, Settlement, Request, Charge)
} | events.KINDS
"""Of what a ledger's entries come to, for files."""


def to_plain(book: Book) -> Plain:
    """A book that can be kept in a file."""
    named = {name: getattr(book, name) for name in ("lines", "head", "made", "asked", "members")}
    tallies = {
        name: {
            "terms": tally.terms,
            "made": tally.made,
            "counted": [[*group, count] for group, count in tally.counted.items()],
            "references": tally.references.to_text(),
            "recent": list(tally.recent.values()),
        }
        for name, tally in book.tallies.items()
    }
    open_ = {"pending": list(book.pending.values()), "requests": list(book.requests.values())}
    plain: Plain = wire.to_plain({**named, "tallies": tallies, **open_})
    return plain


def from_plain(plain: Plain) -> Book:
    kept = wire.from_plain(plain, KINDS)
    tallies = {
        name: Tally(
            one["terms"],
            one["made"],
            Counter({Group(*group): count for *group, count in one["counted"]}),
            References(one["references"]),
            {entry.number: entry for entry in one["recent"]},
        )
        for name, one in kept.pop("tallies").items()
    }
    numbered: dict[str, Any] = {name: {one.number: one for one in kept.pop(name)} for name in ("pending", "requests")}
    return Book(**kept, tallies=tallies, **numbered)
