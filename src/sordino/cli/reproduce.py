"""`sordino reproduce`: the tables and figures of the five papers, listed, measured again and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.console import complain, say, show_table

if TYPE_CHECKING:
    from sordino.papers.catalogue import Piece

Data = Annotated[Path | None, typer.Option(help="The folder of the data sets; SORDINO_DATA if left out.")]


def reproduce(
    paper: Annotated[str | None, typer.Argument(help="000 to 004; all of them are listed if left out.")] = None,
    name: Annotated[str | None, typer.Argument(help="table4, figure1, ..; all of the paper's if left out.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few cells and runs: minutes for all five papers.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="The cell of this name, or those with it in theirs; repeat it for several.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Run cells that are there already.")] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Leave cells that are there, also those of another commit.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Make some cells of every committed file again, and fail if one differs.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Run everything, hours of it.")] = False,
    data: Data = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for pages, figures and numbers.")] = Path(
        "reproduction"
    ),
) -> None:
    """Measure a paper's tables and figures again, cell by cell; what is interrupted goes on where it was."""
    from sordino.datasets.sources import folder
    from sordino.papers import reproduction
    from sordino.papers.catalogue import find

    where = folder(data)
    if check:
        if not reproduction.check(where, say):
            complain("A committed result is not what this code gives: measure it again, or find out what changed.")
            raise typer.Exit(1)
        return
    if paper is None and not (quick or every):
        _list(where)
        return
    for piece in find(paper, name):
        say(f"{piece.paper} {piece.names[0]}: {piece.what}", style="bold")
        try:
            reproduction.require_data(piece, where)
        except FileNotFoundError as lacking:
            if name is not None:
                raise
            complain(f"Not run: {lacking}")
            continue
        say(f"Page: {reproduction.reproduce(piece, where, out, quick, only or (), again, missing, say)}")


def _list(where: Path) -> None:
    from sordino.datasets.sources import missing, ways
    from sordino.papers.catalogue import PAPERS, PIECES

    for paper, title in PAPERS.items():
        rows = [row for piece in PIECES if piece.paper == paper for row in _rows(piece, where)]
        show_table(f"{paper}  {title}", ("", "what", "needs", "takes", "committed"), rows)
    say("Run one:                    sordino reproduce 002 table4 [--quick] [--only adult]")
    say("Or a little of everything:  sordino reproduce --quick")
    say(f"Data sets are looked for in {where} (--data, SORDINO_DATA); `sordino data list` says how to have them.")
    for name in dict.fromkeys(name for piece in PIECES for name in piece.data if missing(name, where)):
        say(f"{name} is missing: {ways(name)[0]}.")


def _rows(piece: Piece, where: Path) -> list[tuple[str, ...]]:
    from sordino.datasets.sources import missing
    from sordino.papers.reproduction import kept

    first, *others = piece.names
    along = [(name, f"with {first}", "", "", "") for name in others]
    if not piece.module:
        return [(first, f"{piece.what}: not measured, {piece.why_not}", "", "", ""), *along]
    file = kept(piece)
    lacking = [name for name in piece.data if missing(name, where)]
    needs = "\n".join(f"{name} (missing)" if name in lacking else name for name in piece.data) or "nothing"
    takes, stands = "", "nothing yet"
    if file is not None:
        known = [cell["seconds"] for cell in file["cells"].values()]
        timed = [seconds for seconds in known if seconds is not None]
        least = "" if len(timed) == len(known) else "more than "
        takes = f"{least}{_shown(sum(timed))}" if timed else "not recorded"
        dates = sorted({cell["date"] for cell in file["cells"].values()})
        commits = sorted({cell["commit"][:8] for cell in file["cells"].values()})
        several = commits[0] if len(commits) == 1 else f"{len(commits)} commits"
        stands = f"{len(known)} cells of {' to '.join(dates[:: max(1, len(dates) - 1)])} ({several})"
    return [(first, piece.what, needs, takes, stands), *along]


def _shown(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
