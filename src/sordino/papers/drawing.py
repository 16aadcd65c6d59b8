"""Figures as SVG, the same bytes for the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from sordino import outputs

_SVG = outputs.Kind("a figure", rb"<\?xml.*<svg")


class NothingToDraw(Exception):
    """None of the cells that a figure is made of is there."""


def name_lines(panels: Iterable[Any], size: int) -> None:
    """A legend in the first of them that has lines with names."""
    for panel in panels:
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=size, frameon=False)
            return


@contextmanager
def drawing(path: Path, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[Any]:
    """The axes, one or an array of them, saved at the end."""
    if columns == 0:
        raise NothingToDraw
    try:
        import matplotlib as mpl
    except ImportError:
        raise ImportError("figures need matplotlib, which is not installed: pip install 'sordino[papers]'.") from None
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "sordino"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, **options)
    yield axes
    figure.tight_layout()
    drawn = BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    plt.close(figure)
    outputs.write(path, drawn.getvalue(), _SVG)
