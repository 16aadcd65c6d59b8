"""`sordino schema`: a schema to fill in, from column names alone."""

from __future__ import annotations

from typing import Annotated

import typer

from sordino.cli.console import say


def schema(
    columns: Annotated[list[str], typer.Argument(help="The names of the columns to use.")],
    target: Annotated[str, typer.Option(help="The name of the column to predict.")],
) -> None:
    """Print a schema to fill in: redirect it to a file and write the public facts down."""
    from sordino.tabular.formats import ENDINGS
    from sordino.tabular.toml import write_sketch

    for name in columns:
        if name.endswith(ENDINGS):
            raise ValueError(
                f"{name} is a table: give the names of its columns, such as age job, or in Python the table itself to "
                "Schema.sketch(..)."
            )
    say(write_sketch(dict.fromkeys(columns, "unknown"), target))
