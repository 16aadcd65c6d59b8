"""`sordino ledger`: give a data set its budget, and see what is left of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.budget import Budget, Relation
from sordino.cli.console import say, show_table
from sordino.cli.options import Epsilon, Neighbours

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
    from sordino.privacy.ledger import Ledger

    Ledger(file).open(dataset, Budget(epsilon, delta, relation))
    say(f"{dataset} may spend epsilon {epsilon:g} at delta {delta:g} under {relation}.")
    say(f"Next:  sordino fit .. --ledger {file} --dataset {dataset!r}")


@app.command()
def show(file: File) -> None:
    """Every data set, its releases, and what one more may ask for."""
    from sordino.privacy.ledger import Ledger

    ledger = Ledger(file)
    if not file.exists():
        raise ValueError(f"{file} does not exist: sordino ledger open writes one.")
    for dataset, cap in ledger.datasets().items():
        rows = [(str(one.number), one.created, one.state.value, one.note) for one in ledger.entries(dataset)]
        show_table(
            f"{dataset}: epsilon {cap.epsilon:g}, delta {cap.delta:g}, {cap.relation}",
            ("", "when", "state", "what"),
            rows,
        )
        left = ledger.remaining(dataset)
        say("Nothing is left." if left is None else f"One more release may ask for epsilon {left.epsilon:.6g}.")
