"""`sordino data`: the data sets of the papers, built from where a user can have them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.console import say, show_table
from sordino.cli.reproduce import Data

app = typer.Typer(help="The data sets of the five papers: what there is, and how to have it.", no_args_is_help=True)


@app.command("list")
def list_(data: Data = None) -> None:
    """Every data set: where it comes from, under which licence, and whether it is here."""
    from sordino.datasets.sources import DATA_SETS, folder, missing, ways

    where = folder(data)
    say(f"Data sets, as {where} has them", style="bold")
    for name, one in DATA_SETS.items():
        first, *others = ways(name)
        rows = [("how", first), *(("or", other) for other in others)]
        rows += [("prepared", one.preparation), ("licence", one.licence)]
        show_table(f"{name}: {'missing' if missing(name, where) else 'here'}", ("", ""), rows)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="As `list` prints it.")],
    downloaded: Annotated[
        list[Path] | None, typer.Option("--from", help="Files or folders that you downloaded; repeat it for several.")
    ] = None,
    data: Data = None,
) -> None:
    """Build a data set from what you downloaded, or from a registry. Its content must be what results rest on."""
    from sordino.datasets.sources import folder, get as build, named

    for path in downloaded or ():
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist: name the files that you downloaded, or their folder.")
    for path in build(name, folder(data), downloaded or ()):
        say(f"{path} is what the results were measured on. Licence: {named(name).licence}.")
