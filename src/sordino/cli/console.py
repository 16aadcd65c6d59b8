"""What is printed where: results on standard output, everything else on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import StyleType

    from sordino.words import Explanation


def say(text: str, style: StyleType = "") -> None:
    """A line of the result. Never wrapped, so that it can be searched, and never read as markup."""
    _console("out").print(_visible(text), style=style, soft_wrap=True, markup=False, highlight=False)


def complain(text: str) -> None:
    _console("err").print(_visible(text), style="bold red", soft_wrap=True, markup=False, highlight=False)


def show_table(title: str, headings: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    say(title, style="bold")
    table = Table(box=SIMPLE_HEAD, show_header=any(headings))
    for heading in headings:
        table.add_column(escape(_visible(heading)), overflow="fold")
    for row in rows:
        table.add_row(*(escape(_visible(cell)) for cell in row))
    _console("out").print(table, highlight=False)


@contextmanager
def progress(budget: str) -> Iterator[None]:
    """A bar with steps, time and budget for the training run inside: nothing that was computed from the records."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from sordino.progress import watching

    console = _console("err")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn(budget, markup=False),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("Planning", total=None)

        def listener(done: int, planned: int) -> None:
            bar.update(task, description="Training", completed=done, total=planned)

        with watching(listener):
            yield


def _visible(text: str) -> str:
    """Names in a stranger's file must not move the cursor, or write over what was said."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


@cache
def _console(which: str) -> Console:
    from rich.console import Console

    return Console(stderr=which == "err")


def say_explanation(explanation: Explanation) -> None:
    for heading, sentence in explanation:
        say(f"{heading + ':':<20}{sentence}")
