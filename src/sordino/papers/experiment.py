"""What a table or figure is here: cells that run by themselves, and what is read off them.

A module of this package that has the names of `Experiment` is one. Its cells never see each other's records, noise or
seeds, so any of them can be run alone, again, or on another day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

Known = Mapping[str, Any]
"""Cells by name, each a plain value."""


class Cell(NamedTuple):
    run: Callable[[Known], Any]
    """Given the cells that it needs; what it returns goes into a file as JSON."""
    needs: tuple[str, ...] = ()


def cell(run: Callable[..., Any], *arguments: Any) -> Cell:
    """One that needs no other."""
    return Cell(lambda known: run(*arguments))


class Value(NamedTuple):
    """A number that is compared: with the paper's, and with the one that stands committed."""

    mean: float
    error: float | None = None
    """One standard error of the mean: over independent splits where there are several, else over runs."""
    runs: int | None = None
    printed: float | None = None


class Experiment(Protocol):
    SEEDS: str
    """How they are set, for the result file."""
    STALE: tuple[str, ...]
    """Cells that take seconds and need no other, which `make stale` makes again: of different code, where they can."""
    READING: str
    """What it shows, in Markdown."""
    WHOLE: bool
    """Whether its tables and figure need every cell; else they are made of those that are there."""

    def cells(self, folder: Path, quick: bool) -> dict[str, Cell]:
        """All of them, or a few that take little; the data sets are read when a cell is run."""
        ...

    def values(self, known: Known) -> dict[str, Value]:
        """What is compared, of the cells that are there."""
        ...

    def tables(self, known: Known) -> str:
        """In Markdown."""
        ...

    def draw(self, known: Known, path: Path) -> None:
        """As SVG."""
        ...
