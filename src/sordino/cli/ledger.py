"""`sordino ledger`: give a data set its budget, see what became of it, and say by hand what a crash left open."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.budget import Budget, Relation
from sordino.cli.console import complain, say, show_table
from sordino.cli.options import Epsilon, Neighbours

if TYPE_CHECKING:
    from sordino.ledger.ledger import Entry, Ledger, Overview, Request, Statement

app = typer.Typer(help="What each data set may spend, and what it has spent.", no_args_is_help=True)

Address = Annotated[str, typer.Argument(help="The ledger: a file, or postgresql://user@host/database.")]
Dataset = Annotated[str, typer.Argument(help="The data set's name.")]
Signer = Annotated[
    Path | None, typer.Option("--identity", help="Sign with the key in this folder (see `sordino identity`).")
]
Number = Annotated[int, typer.Argument(help="The request's number, as `show` prints it.")]

_BUYS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of releases in a preview."""


class As(StrEnum):
    officer = "officer"
    analyst = "analyst"
    reader = "reader"
    nobody = "nobody"


class Verdict(StrEnum):
    spent = "spent"
    unused = "unused"


@app.command("open")
def open_(
    ledger: Address,
    dataset: Dataset,
    epsilon: Epsilon,
    delta: Annotated[float, typer.Option(help="The delta of everything together.")],
    relation: Neighbours = Relation.REPLACE_ONE,
    per_year: Annotated[
        float | None, typer.Option(help="The epsilon of everything in one calendar year, at the same delta.")
    ] = None,
    per_member_year: Annotated[
        float | None, typer.Option(help="The epsilon of what one member reserves in one calendar year.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="The last day of the budget: 2027-12-31.")] = None,
    approval: Annotated[bool, typer.Option("--approval", help="Every release needs an officer's word.")] = False,
    identity: Signer = None,
) -> None:
    """Give a data set its budget, once and for all."""
    from sordino.ledger.ledger import Ledger, Terms

    cap = Budget(epsilon, delta, relation)
    Ledger(ledger, identity).open(dataset, cap, per_year, per_member_year, expires, approval)
    say(f"{dataset} may spend {Terms(cap, per_year, per_member_year, expires, approval)}.")
    say(f"Next:  sordino fit .. --ledger {ledger} --dataset {dataset!r}")


@app.command()
def admit(
    ledger: Address,
    certificate: Annotated[Path, typer.Argument(help="The member's certificate.pem, as `sordino identity` wrote it.")],
    role: Annotated[list[As], typer.Option("--as", help="Repeat it for several roles; nobody takes all of them away.")],
    identity: Annotated[
        Path, typer.Option(help="The officer's own folder; the first officer admits oneself, and rules from then on.")
    ],
    login: Annotated[str | None, typer.Option(help="The member's user in PostgreSQL, to be given access.")] = None,
) -> None:
    """Say what somebody may do here: from the first officer on, every entry is signed by a member who may."""
    from sordino.identity import Face
    from sordino.ledger.ledger import Ledger, Role

    face = Face(certificate.read_text())
    roles = [Role(one.value) for one in role if one is not As.nobody]
    Ledger(ledger, identity).admit(face, *roles, login=login)
    say(f"{face.name} is {' and '.join(roles) or 'nobody'} here. Fingerprint: {face.fingerprint}")


@app.command()
def approve(ledger: Address, request: Number, why: str = "", identity: Signer = None) -> None:
    """Let a release take place that somebody has asked for. Nobody approves their own."""
    from sordino.ledger.ledger import Ledger

    Ledger(ledger, identity).approve(request, why)
    say(f"Request {request} is approved: whoever asked runs the same again.")


@app.command()
def refuse(
    ledger: Address,
    request: Number,
    why: Annotated[str, typer.Option(help="Why not: whoever asked reads it.")],
    identity: Signer = None,
) -> None:
    """Refuse a release that somebody has asked for."""
    from sordino.ledger.ledger import Ledger

    Ledger(ledger, identity).refuse(request, why)
    say(f"Request {request} is refused.")


@app.command()
def show(
    ledger: Address,
    number: Annotated[int | None, typer.Option(help="Explain this reservation alone.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every reservation, not the last ones alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Every data set: what is spent and left, its reservations, and what waits for somebody; or one reservation."""
    if number is not None:
        _explain(_existing(ledger), number)
        return
    from sordino.ledger.ledger import Ledger

    book = Ledger(ledger)
    overview = book.overview()
    _require_exists(book, overview.head)
    entries = {one.dataset: book.entries(one.dataset) if every else _listed(one) for one in overview.statements}
    if as_json:
        typer.echo(json.dumps(_plain(book, overview, entries), indent=1, allow_nan=False))
        return
    for one in overview.statements:
        _show(book, overview, one, entries[one.dataset])


@app.command()
def preview(
    ledger: Address,
    dataset: Dataset,
    epsilon: Annotated[float | None, typer.Option(help="How many releases of this epsilon there is room for.")] = None,
) -> None:
    """What is left of a budget would buy: so many more releases of so much epsilon each."""
    book = _existing(ledger)
    cap = book.datasets().get(dataset) or book.statement(dataset).terms.cap
    if epsilon is not None:
        say(f"{book.buys(dataset, epsilon)} more of epsilon {epsilon:g} each, at delta {cap.delta:g}.")
        return
    rows = [(str(count), f"{left.epsilon:.6g}") for count in _BUYS if (left := book.remaining(dataset, count))]
    show_table(f"{dataset}: what is left buys, at delta {cap.delta:g}", ("releases", "epsilon of each"), rows)


@app.command()
def settle(
    ledger: Address,
    number: Annotated[int, typer.Argument(help="The reservation's number, as `show` prints it.")],
    verdict: Annotated[
        Verdict, typer.Option("--as", help="spent, or unused if nothing was released and its run will not go on.")
    ],
    why: Annotated[str, typer.Option(help="How you know. It is kept in the ledger.")],
    who: Annotated[str | None, typer.Option(help="Who says so; the user of this session if left out.")] = None,
    identity: Signer = None,
) -> None:
    """Say what became of a reservation whose run was cut off. It is written down with your name, the time and why."""
    from sordino.ledger.ledger import State, whoami

    book = _existing(ledger, identity)
    entry = book.settle(number, State(verdict.value), who or whoami(), why)
    say(f"Reservation {number} of {entry.dataset} is {entry.state.value}: {_last_word(entry)}.")
    _say_what_is_left(book.statement(entry.dataset))


@app.command()
def head(ledger: Address) -> None:
    """Print what stands for everything in the ledger, to be kept where nobody who writes to it can change it."""
    say(_existing(ledger).head())


@app.command()
def check(
    ledger: Address,
    head: Annotated[str | None, typer.Option(help="What `sordino ledger head` printed earlier.")] = None,
) -> None:
    """Read everything anew: chain, signatures, roles, prices and limits, and whether all is there since `--head`."""
    book = _existing(ledger)
    if head is not None and not (head and book.extends(head)):
        complain(f"{ledger} does NOT hold what it held when its head was {head}: it was cut, emptied or exchanged.")
        raise typer.Exit(1)
    found = book.check()
    since = "" if head is None else ", and holds everything from the time of that head"
    say(f"{ledger} is intact{since}: {found.reservations} reservation{'' if found.reservations == 1 else 's'}.")
    say(f"Signed: {found.signed} of {found.lines} lines. Nothing was reserved beyond a limit, or below its price.")
    for face in found.officers:
        say(f"Officer: {face.name}, {face.fingerprint}    (compare it with the one they have made known)")


@app.command("import")
def import_(
    old: Annotated[Path, typer.Argument(help="A ledger of the first version: a file of lines.")],
    ledger: Annotated[str, typer.Argument(help="The new ledger: a file, or postgresql://user@host/database.")],
) -> None:
    """Bring over a ledger of the first version. Its chain is checked, and heads kept of it stay good."""
    from sordino.ledger.ledger import Ledger

    say(f"{Ledger(ledger).import_journal(old)} lines are in {ledger} now: use it from here on, and put {old} away.")


def _existing(address: str, identity: Path | None = None) -> Ledger:
    from sordino.ledger.ledger import Ledger

    ledger = Ledger(address, identity)
    _require_exists(ledger, ledger.head())
    return ledger


def _require_exists(ledger: Ledger, head: str) -> None:
    # one that was removed is noticed before it is called new
    if not head:
        raise ValueError(f"{ledger.address} does not exist: sordino ledger open writes one.")


def _listed(statement: Statement) -> tuple[Entry, ...]:
    """The last reservations, and before them whatever is open."""
    listed = {entry.number: entry for entry in (*statement.open, *statement.recent)}
    return tuple(listed[number] for number in sorted(listed))


def _show(ledger: Ledger, overview: Overview, one: Statement, entries: tuple[Entry, ...]) -> None:
    cap, members, costs = one.terms.cap, _names(overview), dict(overview.costs)
    rows = [
        (
            str(entry.number),
            _minute(entry.created),
            entry.state.value,
            entry.note,
            f"{costs[entry.number] if entry.number in costs else _cost(entry, cap):.6g}",
            entry.model[:16],
            members.get(entry.signer, entry.by),
            _last_word(entry),
        )
        for entry in entries
    ]
    headings = ("", "when", "state", "what", "epsilon charged", "model", "by", "settled")
    show_table(f"{one.dataset}: {one.terms}", headings, rows)
    if len(entries) < one.releases:
        say(f"{one.releases - len(entries)} earlier ones are not listed: --all lists them.")
    made = f"{one.releases} reservation{'' if one.releases == 1 else 's'}"
    say(f"Spent: epsilon {one.spent:.6g} of {cap.epsilon:g} at delta {cap.delta:g}, in {made}.")
    for words, epsilon, spent, left in one.this_year:
        say(f"{words.capitalize()}: epsilon {spent:.6g} of {epsilon:g}; one more release may ask for {left:.6g}.")
    _say_what_is_left(one)
    signed = " --identity FOLDER" if any(roles for _, _, roles in overview.members) else ""
    for entry in one.open:
        say(f"Reservation {entry.number} is open: its run goes on, or was cut off. If you know what became of it:")
        say(f"       sordino ledger settle {ledger.address} {entry.number} --as spent|unused --why ..{signed}")
    for request in one.requests:
        _say_request(ledger, request, members, signed)


def _names(overview: Overview) -> dict[str, str]:
    return {fingerprint: name for fingerprint, name, _ in overview.members}


def _say_request(ledger: Ledger, request: Request, members: dict[str, str], signed: str) -> None:
    who = members.get(request.signer, request.by)
    if request.approved is None:
        protects = f", which would protect every {request.unit}" if request.unit else ""
        say(f"Request {request.number} of {who}{protects}, waits for an officer: {request.note}")
        say(f"       sordino ledger approve {ledger.address} {request.number}{signed}")
        say(f"       sordino ledger refuse {ledger.address} {request.number} --why ..{signed}")
        return
    answer = "approved, and not used yet" if request.approved else "refused"
    say(f"Request {request.number} of {who}, {request.note}: {answer}, by {request.who}. {request.why}".rstrip())


def _plain(ledger: Ledger, overview: Overview, entries: dict[str, tuple[Entry, ...]]) -> dict[str, Any]:
    from sordino import wire

    return {
        "ledger": ledger.address,
        "head": overview.head,
        "members": [{"name": name, "fingerprint": one, "roles": list(roles)} for one, name, roles in overview.members],
        "datasets": [
            {
                "dataset": one.dataset,
                "terms": wire.to_plain(one.terms),
                "reservations": one.releases,
                "spent": one.spent,
                "left": one.left,
                "this_year": [
                    dict(zip(("limit", "epsilon", "spent", "left"), limit, strict=True)) for limit in one.this_year
                ],
                "entries": [wire.to_plain(entry) for entry in entries[one.dataset]],
                "open": [entry.number for entry in one.open],
                "requests": [wire.to_plain(request) for request in one.requests],
            }
            for one in overview.statements
        ],
    }


def _say_what_is_left(one: Statement) -> None:
    say("Nothing is left." if one.left <= 0 else f"One more release may ask for epsilon {one.left:.6g}.")


def _cost(entry: Entry, cap: Budget) -> float:
    from sordino.privacy.charges import epsilon_of

    return epsilon_of(entry.charge, cap)


def _explain(ledger: Ledger, number: int) -> None:
    from sordino.ledger.ledger import State
    from sordino.privacy.accountants import epsilon
    from sordino.privacy.events import to_json

    entry = ledger.entry(number)
    cap = ledger.datasets()[entry.dataset]
    alone = epsilon(entry.event, cap.delta, cap.relation)
    say(f"Reservation {number} of {entry.dataset}: {entry.note}", style="bold")
    say(f"Made:       {entry.created}, {entry.by}")
    if entry.signer:
        say(f"Signed:     {ledger.members()[entry.signer][0].name}, {entry.signer}")
    say(f"Reference:  {entry.reference or 'none: nobody can go on with its run'}")
    say(f"Costs:      epsilon {alone:.6g} at delta {cap.delta:g} under {cap.relation}, if it were alone")
    say(f"Charged:    as epsilon {_cost(entry, cap):.6g}, because others may be chosen in view of it")
    say(f"Event:      {json.dumps(to_json(entry.event), allow_nan=False)}")
    if entry.model:
        say(f"Model:      {entry.model}")
    for settled in entry.settled:
        parts = (settled.state.value, settled.created, settled.who, settled.why)
        say(f"Settled:    {', '.join(part for part in parts if part)}")
    if entry.state is State.RESERVED:
        say("It counts. Its run still goes on, or was cut off and may have released something; one with a checkpoint")
        say("takes it up when it goes on. If you know what became of it:")
        say(f"       sordino ledger settle {ledger.address} {number} --as spent|unused --why ..")


def _last_word(entry: Entry) -> str:
    if not entry.settled:
        return ""
    last = entry.settled[-1]
    return ", ".join(part for part in (_minute(last.created), last.who, last.why) if part)


def _minute(created: str) -> str:
    """2026-05-03 10:12, in UTC: shorter than what is kept, and it can be broken where a terminal is narrow."""
    return created[:16].replace("T", " ")
