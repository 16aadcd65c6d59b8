"""`sordino report`: a page about a model, for whoever has to answer for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.console import complain, say


def report(
    model: Annotated[Path, typer.Argument(help="A model file, or a certificate in JSON.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, in HTML.")] = Path("report.html"),
    schema: Annotated[
        Path | None, typer.Option(help="The schema, where the model does not carry it or its sources.")
    ] = None,
    ledger: Annotated[str | None, typer.Option(help="The ledger of the data set (see `sordino ledger`).")] = None,
    dataset: Annotated[str | None, typer.Option(help="The data set's name in the ledger.")] = None,
    evaluation: Annotated[
        Path | None, typer.Option(help="How good the model is (see `sordino evaluate`, and docs/evaluation.md).")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
) -> None:
    """Write a page about a model: what is promised, to whom, on what it rests, and how to check it."""
    from sordino.reporting import report as write

    findings = write(model, out, schema=schema, ledger=ledger, dataset=dataset, evaluation=evaluation, title=title)
    say(f"Report: {out}")
    if not all(finding.holds for finding in findings):
        complain("NOT VERIFIED: the guarantee does not hold as stated, and the page says so at its top.")
        raise typer.Exit(1)
