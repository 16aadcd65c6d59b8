"""Plots as SVG that live inside the page: its fonts, its colours, its dark mode.

matplotlib writes colours as literals. Each of ours is a placeholder that becomes a CSS variable of the page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from sordino.reporting.section import Figure

_INK, _FAINT, _LINE, _BAND, _MARK = "#010101", "#020202", "#030303", "#040404", "#050505"
_VARIABLES = {
    _INK: "var(--ink)",
    _FAINT: "var(--faint)",
    _LINE: "var(--accent)",
    _BAND: "var(--band)",
    _MARK: "var(--mark)",
}


@dataclass(frozen=True)
class Tradeoff:
    """One measure of quality on held-out data against epsilon. Every number is a share between 0 and 1.

    `runs` holds, for each epsilon, the values of independent training runs; `references` are horizontal lines with
    their labels; `released` is the epsilon and value of the model that is being released.
    """

    measure: str
    runs: dict[float, tuple[float, ...]]
    references: dict[str, float]
    released: tuple[float, float] | None = None


def tradeoff_figure(tradeoff: Tradeoff, caption: str = "") -> Figure:
    """The median of the runs with a band from the least to the greatest."""
    epsilons = np.array(sorted(tradeoff.runs))
    runs = [100 * np.asarray(tradeoff.runs[epsilon]) for epsilon in epsilons]
    low, middle, high = ([float(statistic(values)) for values in runs] for statistic in (np.min, np.median, np.max))
    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(5.2, 3.5), layout="constrained")
        axes = canvas.add_subplot()
        axes.fill_between(epsilons, low, high, color=_BAND, linewidth=0)
        axes.plot(epsilons, middle, color=_LINE, linewidth=2.2, marker="o", markersize=5, label="private, median run")
        for (label, value), dash in zip(tradeoff.references.items(), ("--", ":", "-."), strict=False):
            axes.axhline(100 * value, color=_INK, linewidth=1.1, linestyle=dash)
            # the curve climbs from the lower left to the upper right: labels stand where it does not
            left = 100 * value > (min(low) + max(high)) / 2
            axes.annotate(
                f"{label} {100 * value:.1f} %",
                (0.01 if left else 0.99, 100 * value),
                xycoords=("axes fraction", "data"),
                xytext=(0, 4),
                textcoords="offset points",
                ha="left" if left else "right",
                va="bottom",
                color=_INK,
                fontsize=9.5,
            )
        if tradeoff.released is not None:
            epsilon, value = tradeoff.released
            axes.plot([epsilon], [100 * value], linestyle="", marker="D", markersize=8, color=_MARK)
        _dress(axes, epsilons, tradeoff, (low, high))
        return Figure(_svg(canvas), _alternative(tradeoff, epsilons, low, middle, high), caption)


def drawn(draw: Callable[[Axes], None]) -> str:
    """A small plot in the page's colours."""
    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=[_LINE, _MARK, _INK, _FAINT])}):
        canvas = Canvas(figsize=(3.6, 2.6), layout="constrained")
        draw(canvas.add_subplot())
        return _svg(canvas)


_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sordino",
    "font.size": 10.5,
    "font.family": "sans-serif",
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
}


def _dress(axes: Axes, epsilons: np.ndarray, tradeoff: Tradeoff, band: tuple[list[float], list[float]]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([float(epsilon) for epsilon in epsilons]))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{epsilon:g}" for epsilon in epsilons]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epsilon  (more private ←   → less private)")
    axes.set_ylabel(f"{tradeoff.measure}, %")
    shown = [*band[0], *band[1], *(100 * value for value in tradeoff.references.values())]
    margin = 0.14 * max(1.0, max(shown) - min(shown))
    axes.set_ylim(min(shown) - margin, max(shown) + margin)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def _svg(canvas: Canvas) -> str:
    file = io.StringIO()
    canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # the viewBox stays, so the drawing takes the width it is given
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r"font-family: [^;\"]*|'DejaVu Sans'[^;\"]*sans-serif", "font-family: inherit", text)
    for placeholder, variable in _VARIABLES.items():
        text = text.replace(placeholder, variable)
    return text


def _alternative(
    tradeoff: Tradeoff, epsilons: np.ndarray, low: list[float], middle: list[float], high: list[float]
) -> str:
    runs = "; ".join(
        f"epsilon {epsilon:g}: median {m:.1f} %, from {a:.1f} to {b:.1f} %"
        for epsilon, a, m, b in zip(epsilons, low, middle, high, strict=True)
    )
    lines = "; ".join(f"{label}: {100 * value:.1f} %" for label, value in tradeoff.references.items())
    return f"{tradeoff.measure} against epsilon. {runs}. For comparison, {lines}."
