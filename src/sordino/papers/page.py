"""One page about one table: the paper's values, those that stand committed and new ones, with errors and plots."""

from __future__ import annotations

import math
from pathlib import Path

from sordino import outputs
from sordino.papers.catalogue import Piece
from sordino.papers.drawing import NothingToDraw, drawing
from sordino.papers.experiment import Known, Value

_MARKDOWN = outputs.Kind("a page about a paper's table", rb"# ")
_HTML = outputs.Kind("a page about a paper's table", rb"<!doctype html>\n<!-- sordino reproduce -->")
_FAR = 3.0
"""Standard errors."""
_MOST = 60
"""Values in the plot of a comparison."""


_MOST_NAMED = 8
"""Cells that are not there."""


def write_page(piece: Piece, known: Known, committed: Known, out: Path, quick: bool) -> Path:
    """In Markdown and HTML; tables and figures where the cells that they need are there."""
    experiment, name = piece.experiment, piece.module
    new, before = experiment.values(known), experiment.values(committed)
    parts = [f"# {piece.title}", ""]
    if quick:
        parts += ["Quick: fewer cells, and fewer or shorter runs than what stands committed.", ""]
    parts += ["## Compared", "", compared(new, before), summary(new, before), ""]
    if new:
        draw_comparison(new, before, out / f"{name}-compared.svg")
        if len(new) > _MOST:
            parts += [f"The first {_MOST} of them:", ""]
        parts += [f"![Paper, committed and new values]({name}-compared.svg)", ""]
    every = experiment.cells(Path(), quick=False)
    missing = [cell for cell in every if cell not in known]
    if not quick and missing:
        parts += [f"{len(every) - len(missing)} of {len(every)} cells have been run. Not yet: {_listed(missing)}.", ""]
    if not quick and not (missing and experiment.WHOLE):
        parts += ["## In full", "", experiment.tables(known), ""]
        try:
            experiment.draw(known, out / f"{name}.svg")
            parts += [f"![{piece.what}]({name}.svg)", ""]
        except NothingToDraw:
            pass
    parts += ["## Reading", experiment.READING.rstrip(), ""]
    text = "\n".join(parts)
    page = out / f"{name}.md"
    outputs.write(page, text.encode(), _MARKDOWN)
    outputs.write(out / f"{name}.html", html(text, piece.title, out).encode(), _HTML)
    return page


def compared(new: dict[str, Value], before: dict[str, Value]) -> str:
    heads = ("value", "paper", "committed", "new", "error", "runs", "new - committed, in errors")
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for name, value in new.items():
        old = before.get(name)
        cells = [
            name,
            _number(value.printed),
            _number(old and old.mean),
            _number(value.mean),
            _number(value.error, 2),
            "" if value.runs is None else str(value.runs),
            _number(_distance(value, old), 2),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summary(new: dict[str, Value], before: dict[str, Value]) -> str:
    """What the table comes to, in sentences."""
    both = {name: (value, before[name]) for name, value in new.items() if name in before}
    said = [f"{len(new)} values, {len(both) or 'none'} of which stand committed."]
    if both:
        exact = [name for name, (a, b) in both.items() if math.isclose(a.mean, b.mean, rel_tol=1e-6)]
        said.append(f"{len(exact)} of those are the same to six digits.")
        far = [name for name, (a, b) in both.items() if (d := _distance(a, b)) is not None and abs(d) > _FAR]
        if far:
            said.append(f"More than {_FAR:g} standard errors apart: {'; '.join(far)}.")
        else:
            said.append(f"None is more than {_FAR:g} standard errors from the committed one.")
    ratios = sorted(value.mean / value.printed for value in new.values() if value.printed)
    # of exponents, whose signs may differ, a ratio says nothing
    if ratios and ratios[0] > 0:
        said.append(
            f"Over the paper's, {len(ratios)} values are {ratios[0]:.3g} to {ratios[-1]:.3g} times as large, the "
            f"median {ratios[len(ratios) // 2]:.3g}."
        )
    return " ".join(said) + "\n"


def _distance(value: Value, old: Value | None) -> float | None:
    if old is None or not (value.error or old.error):
        return None
    return (value.mean - old.mean) / math.hypot(value.error or 0.0, old.error or 0.0)


def _listed(names: list[str]) -> str:
    return "; ".join(names[:_MOST_NAMED]) + (f"; and {rest} more" if (rest := len(names) - _MOST_NAMED) > 0 else "")


def _number(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def draw_comparison(new: dict[str, Value], before: dict[str, Value], path: Path) -> None:
    shown = dict(list(new.items())[:_MOST])
    everything = [one.mean for one in (*shown.values(), *(before[name] for name in shown if name in before))]
    spread = min(everything) > 0 and max(everything) > 30 * min(everything)
    with drawing(path, figsize=(9, 1 + 0.22 * len(shown))) as axes:
        for place, (name, value) in enumerate(shown.items()):
            if value.printed is not None:
                axes.plot(value.printed, place, "|", ms=11, color="black", label="paper")
            if name in before:
                axes.plot(before[name].mean, place, "s", ms=5, mfc="none", color="C0", label="committed")
            axes.errorbar(value.mean, place, xerr=value.error, fmt="o", ms=3, color="C1", capsize=2, label="new")
        axes.set_yticks(range(len(shown)), list(shown), fontsize=6)
        axes.invert_yaxis()
        axes.grid(axis="x", lw=0.3)
        if spread:
            axes.set_xscale("log")
        handles, labels = axes.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        axes.legend(once.values(), once.keys(), fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(once))


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #8886; padding: .25rem .6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; background: white; }
"""


def html(markdown: str, title: str, folder: Path) -> str:
    """One file: its figures are inside."""
    from base64 import b64encode
    from html import escape

    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    for picture in folder.glob("*.svg"):
        inside = f"data:image/svg+xml;base64,{b64encode(picture.read_bytes()).decode()}"
        body = body.replace(f'src="{picture.name}"', f'src="{inside}"')
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return (
        "<!doctype html>\n<!-- sordino reproduce -->\n"
        f'<html lang="en"><head>{head}<style>{_STYLE}</style></head><body>\n{body}</body></html>\n'
    )
