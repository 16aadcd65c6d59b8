"""`sordino explain`: what a file promises, in five plain sentences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.console import complain, say_explanation

if TYPE_CHECKING:
    from sordino.words import Explanation

_LEDGER = rb'SQLite format 3|.{0,40}"format": ?"sordino ledger"'


def explain(
    file: Annotated[
        str, typer.Argument(help="A model file, a certificate, a private evaluation, or a ledger (or its address).")
    ],
    number: Annotated[int | None, typer.Option(help="Of a ledger: the reservation to explain.")] = None,
) -> None:
    """Say in five plain sentences what is promised about whom, against whom, at what price, and on what it rests."""
    from sordino.cli.verify import read_and_verify
    from sordino.words import explain as in_words

    if number is not None:
        say_explanation(_entry(file, number))
        return
    with Path(file).open("rb") as start:
        if re.match(_LEDGER, start.read(64)):
            raise ValueError(f"{file} is a ledger: name a reservation in it, as in --number 0.")
    certificate, findings = read_and_verify(Path(file))
    say_explanation(in_words(certificate, findings))
    if not all(finding.holds for finding in findings):
        complain("NOT VERIFIED: the guarantee does not hold as stated.")
        raise typer.Exit(1)


def _entry(file: str, number: int) -> Explanation:
    from sordino.ledger.ledger import Ledger
    from sordino.privacy.accountants import epsilon
    from sordino.words import explain_entry

    ledger = Ledger(file)
    entry = ledger.entry(number)
    cap = ledger.datasets()[entry.dataset]
    return explain_entry(entry, cap, epsilon(entry.event, cap.delta, cap.relation))
