"""`sordino schema`: a schema to fill in, from column names alone."""

from __future__ import annotations

from typing import Annotated

import typer

from sordino.cli.console import say

_ADVICE = """\
# What each column may hold, written down without looking at the records. Keep one line per column:
#   a number, clipped to its range        { low = 17, high = 90 }              missing = "middle" accepts missing ones
#   a category with its public values     { values = ["a", "b"] }              other = true takes all other values
#   true or false                         { boolean = true }                   missing = "middle" accepts missing ones
"""


def schema(
    columns: Annotated[list[str], typer.Argument(help="The names of the columns to use.")],
    target: Annotated[str, typer.Option(help="The name of the column to predict.")],
) -> None:
    """Print a schema to fill in: redirect it to a file and write the public facts down."""
    from sordino.tabular.toml import quoted_key, quoted_text

    say(_ADVICE)
    say(f"[target]\ncolumn = {quoted_text(target)}")
    say("classes = []          # every class that may occur; to predict a number: low = .., high = ..\n")
    say("[columns]")
    for name in columns:
        say(f"{quoted_key(name)} = {{ }}")
    say("\n[sources]             # where ranges and values are from, for the report: a code book, a law, an assumption")
