"""What a page is made of, whoever writes it: the report itself, or a caller who adds to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """An SVG element and the sentence that replaces it for whoever cannot see it."""

    svg: str
    alternative: str
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """The first column names the row. `numeric` columns, counted from 0, are set flush right."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page. Figures stand side by side where there is room; what is warned of stands first."""

    title: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    warning: str = ""
