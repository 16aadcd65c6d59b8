"""`sordino ledger`: give a data set its budget, see what became of it, and say by hand what a crash left open."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.budget import Budget, Relation
from sordino.cli.console import complain, say, show_table
from sordino.cli.options import Epsilon, Neighbours

if TYPE_CHECKING:
    from sordino.ledger.ledger import Entry, Ledger

app = typer.Typer(help="What each data set may spend, and what it has spent.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The ledger.")]
Dataset = Annotated[str, typer.Argument(help="The data set's name.")]


@app.command("open")
def open_(
    file: File,
    dataset: Dataset,
    epsilon: Epsilon,
    delta: Annotated[float, typer.Option(help="The delta of everything together.")],
    relation: Neighbours = Relation.REPLACE_ONE,
) -> None:
    """Give a data set its budget, once and for all."""
    from sordino.ledger.ledger import Ledger

    Ledger(file).open(dataset, Budget(epsilon, delta, relation))
    say(f"{dataset} may spend epsilon {epsilon:g} at delta {delta:g} under {relation}.")
    say(f"Next:  sordino fit .. --ledger {file} --dataset {dataset!r}")


@app.command()
def show(
    file: File,
    number: Annotated[int | None, typer.Option(help="Explain this reservation alone.")] = None,
) -> None:
    """Every data set, its releases, and what one more may ask for; or one reservation in full."""
    ledger = _existing(file)
    if number is not None:
        _explain(ledger, number)
        return
    for dataset, cap in ledger.datasets().items():
        rows = [
            (str(one.number), one.created, one.state.value, one.note, _last_word(one))
            for one in ledger.entries(dataset)
        ]
        show_table(
            f"{dataset}: epsilon {cap.epsilon:g}, delta {cap.delta:g}, {cap.relation}",
            ("", "when", "state", "what", "settled"),
            rows,
        )
        _say_what_is_left(ledger, dataset)


class Verdict(StrEnum):
    spent = "spent"
    unused = "unused"


@app.command()
def settle(
    file: File,
    number: Annotated[int, typer.Argument(help="The reservation's number, as `show` prints it.")],
    verdict: Annotated[
        Verdict, typer.Option("--as", help="spent, or unused if nothing was released and its run will not go on.")
    ],
    why: Annotated[str, typer.Option(help="How you know. It is kept in the ledger.")],
    who: Annotated[str | None, typer.Option(help="Who says so; the user of this session if left out.")] = None,
) -> None:
    """Say what became of a reservation whose run was cut off. It is written down with your name, the time and why."""
    from sordino.ledger.ledger import State, whoami

    ledger = _existing(file)
    entry = ledger.settle(number, State(verdict.value), who or whoami(), why)
    say(f"Reservation {number} of {entry.dataset} is {entry.state.value}: {_last_word(entry)}.")
    _say_what_is_left(ledger, entry.dataset)


@app.command()
def head(file: File) -> None:
    """Print what stands for everything in the ledger, to be kept where nobody who writes to it can change it."""
    say(_existing(file).head())


@app.command()
def check(
    file: File,
    head: Annotated[str | None, typer.Option(help="What `sordino ledger head` printed earlier.")] = None,
) -> None:
    """Whether the ledger is intact, and whether everything from the time of `--head` is still there."""
    ledger = _existing(file)
    lines = sum(len(ledger.entries(dataset)) for dataset in ledger.datasets())
    if head is not None and not (head and ledger.extends(head)):
        complain(f"{file} does NOT hold what it held when its head was {head}: it was cut, emptied or exchanged.")
        raise typer.Exit(1)
    since = "" if head is None else ", and holds everything from the time of that head"
    say(f"{file} is intact{since}: {lines} reservation{'' if lines == 1 else 's'}.")


def _existing(file: Path) -> Ledger:
    from sordino.ledger.ledger import Ledger

    ledger = Ledger(file)
    # one that was removed is noticed before it is called new
    if not ledger.head():
        raise ValueError(f"{file} does not exist: sordino ledger open writes one.")
    return ledger


def _say_what_is_left(ledger: Ledger, dataset: str) -> None:
    left = ledger.remaining(dataset)
    say("Nothing is left." if left is None else f"One more release may ask for epsilon {left.epsilon:.6g}.")


def _explain(ledger: Ledger, number: int) -> None:
    from sordino.ledger.ledger import State
    from sordino.privacy.accountants import epsilon
    from sordino.privacy.events import to_json

    entry = ledger.entry(number)
    cap = ledger.datasets()[entry.dataset]
    cost = epsilon(entry.event, cap.delta, cap.relation)
    say(f"Reservation {number} of {entry.dataset}: {entry.note}", style="bold")
    say(f"Made:       {entry.created}, {entry.by}")
    say(f"Reference:  {entry.reference or 'none: nobody can go on with its run'}")
    say(f"Costs:      epsilon {cost:.6g} at delta {cap.delta:g} under {cap.relation}, if it were alone")
    say(f"Event:      {json.dumps(to_json(entry.event), allow_nan=False)}")
    for settled in entry.settled:
        parts = (settled.state.value, settled.created, settled.who, settled.why)
        say(f"Settled:    {', '.join(part for part in parts if part)}")
    if entry.state is State.RESERVED:
        say("It counts. Its run still goes on, or was cut off and may have released something; one with a checkpoint")
        say("takes it up when it goes on. If you know what became of it:")
        say(f"       sordino ledger settle {ledger.path} {number} --as spent|unused --why ..")


def _last_word(entry: Entry) -> str:
    if not entry.settled:
        return ""
    last = entry.settled[-1]
    return ", ".join(part for part in (last.created, last.who, last.why) if part)
