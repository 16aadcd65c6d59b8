"""docs/utility.md and docs/utility.svg, from the cells of `tables.py`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _tables import SPEC

DOCS = Path(__file__).parent.parent / "docs"
PEERS = ("DP-EBM", "AdaSSP", "diffprivlib", "Opacus")
METHODS = (
    "additive",
    "network",
    "descent",
    "objective perturbation",
    "output perturbation",
    "sufficient statistics",
    "Huber",
)
SHORT = {"objective perturbation": "objective", "output perturbation": "output", "sufficient statistics": "statistics"}


class Compared(NamedTuple):
    """A column minus another, run by run: the mean and its standard error. More is better."""

    mean: float
    error: float

    @property
    def at_least(self) -> bool:
        return self.mean >= -self.error


class Row:
    """A table's cells. Figures of quality: accuracy or R^2, more is better."""

    def __init__(self, name: str, stored: dict[str, Any]) -> None:
        self.name, self.cells = name, stored["cells"]
        self.records, self.features, self.classes = (stored[key] for key in ("records", "features", "classes"))

    def runs(self, column: str, epsilon: str, figure: int = -1) -> np.ndarray:
        cell = self.cells.get(column, {})
        found = cell.get(epsilon) or cell.get("any") or {"scores": []}
        return np.array([one[figure] for one in found["scores"]], dtype=float)

    def mean(self, column: str, epsilon: str, figure: int = -1) -> float:
        runs = self.runs(column, epsilon, figure)
        return float(runs.mean()) if len(runs) else math.nan

    def error(self, column: str, epsilon: str, figure: int = -1) -> float:
        runs = self.runs(column, epsilon, figure)
        return float(runs.std(ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else math.nan

    def against(self, other: str, epsilon: str, figure: int = -1, column: str = "auto") -> Compared:
        """On the splits that both were run on; log-loss (figure 0 of a classifier) counts less as better."""
        mine, theirs = self.runs(column, epsilon, figure), self.runs(other, epsilon, figure)
        if len(theirs) and self.published and other in ("trivial", "not private"):
            theirs = np.full(len(mine), theirs[0])
        both = min(len(mine), len(theirs))
        if both == 0:
            return Compared(math.nan, math.nan)
        gain = mine[:both] - theirs[:both]
        gain = -gain if self.classes and figure == 0 else gain
        return Compared(float(gain.mean()), float(gain.std(ddof=1) / math.sqrt(both)) if both > 1 else 0.0)

    @property
    def published(self) -> bool:
        return len(self.runs("not private", "any")) == 1

    def grid(self, epsilon: str) -> tuple[float, int]:
        """The best setting by the even runs, as the odd ones have it, and the other way round; and how many runs."""
        table = {name: self.runs(name, epsilon) for name in self.cells if name.startswith("grid")}
        table = {name: runs for name, runs in table.items() if len(runs)}
        least = min((len(runs) for runs in table.values()), default=0)
        # the best of 30 single runs would be the luckiest
        if least < 2 or len(table) < 30:
            return math.nan, 0
        runs = np.array([of[:least] for of in table.values()])
        even, odd = runs[:, ::2], runs[:, 1::2]
        crossed = odd[even.mean(axis=1).argmax()].mean(), even[odd.mean(axis=1).argmax()].mean()
        return float(np.mean(crossed)), least

    def epsilons(self) -> list[str]:
        return sorted(self.cells.get("auto", {}), key=float)


def goals(rows: dict[str, Row]) -> list[tuple[str, str, str, bool]]:
    """What was aimed at, what came out, and whether it was reached."""
    cells = [(row, epsilon) for row in rows.values() for epsilon in row.epsilons()]
    found: list[tuple[str, str, str, bool]] = []

    def share(text: str, goal: float, held: list[bool]) -> None:
        if held:
            found.append((text, f"{goal:.0%}", f"{np.mean(held):.0%} of {len(held)}", bool(np.mean(held) >= goal)))

    def peers_of(row: Row, epsilon: str) -> list[str]:
        return [peer for peer in PEERS if len(row.runs(peer, epsilon))]

    with_peers = [(row, epsilon) for row, epsilon in cells if peers_of(row, epsilon)]
    share(
        "`auto` at or above every peer, within a standard error",
        0.9,
        [all(row.against(peer, epsilon).at_least for peer in peers_of(row, epsilon)) for row, epsilon in with_peers],
    )
    for peer in PEERS:
        share(
            f"the same, {peer} alone",
            0.9,
            [row.against(peer, epsilon).at_least for row, epsilon in cells if len(row.runs(peer, epsilon))],
        )
    gridded = [(row.runs("auto", epsilon), *row.grid(epsilon)) for row, epsilon in cells]
    share(
        "`auto` within a point, or .01 of R^2, of the best of the grid",
        0.8,
        [bool(runs[:same].mean() >= best - 0.01) for runs, best, same in gridded if same],
    )
    share(
        "`auto` not below the trivial model by more than a standard error, accuracy or R^2",
        1.0,
        [row.against("trivial", epsilon).at_least for row, epsilon in cells],
    )
    share(
        "the same, log-loss",
        1.0,
        [row.against("trivial", epsilon, 0).at_least for row, epsilon in cells if row.classes],
    )
    spec = [
        row.mean("auto", epsilon, 0) / row.mean("trivial", epsilon, 0) for row, epsilon in cells if row.name in SPEC
    ]
    if spec:
        mean = float(np.mean(spec))
        found.append(
            (
                f"log-loss relative to the class frequencies, mean of {len(spec)} cells over eleven tables",
                "<= .795",
                f"{mean:.4f}",
                mean <= 0.795,
            )
        )
    numbers = [(row, epsilon) for row, epsilon in cells if not row.classes]
    for other, slack in (("Huber", 0.01), ("sufficient statistics", 0.01)):
        share(
            f"least squares at least {other} minus .01",
            1.0,
            [row.against(other, epsilon).mean >= -slack for row, epsilon in numbers if len(row.runs(other, epsilon))],
        )
    for table, epsilon, least in (
        ("breast", "1.0", 0.92),
        ("breast", "3.0", 0.95),
        ("digits", "1.0", 0.78),
        ("a9a", "0.1", 0.83),
        ("a9a", "1.0", 0.849),
        ("mnist", "1.0", 0.893),
        ("rcv1", "0.1", 0.693),
        ("rcv1", "1.0", 0.92),
    ):
        if table in rows and len(rows[table].runs("auto", epsilon)):
            row = rows[table]
            mean, error = row.mean("auto", epsilon), row.error("auto", epsilon)
            told = (
                f"{mean:.4f}"
                + ("" if math.isnan(error) else f" +- {error:.4f}")
                + f", {len(row.runs('auto', epsilon))} runs"
            )
            found.append((f"{table}, accuracy at {float(epsilon):g}", f">= {least}", told, mean >= least))
    return found


def report(whole: dict[str, Any]) -> None:
    rows = {name: Row(name, stored) for name, stored in whole["tables"].items()}
    page = DOCS / "utility.md"
    begin, end = "<!-- figures -->", "<!-- end of figures -->"
    text = page.read_text() if page.exists() else f"# How good is the default?\n\n{begin}\n{end}\n"
    before, after = text[: text.index(begin) + len(begin)], text[text.index(end) :]
    page.write_text(f"{before}\n\n{_figures(whole, rows)}\n\n{after}")
    _plot(rows)


def _figures(whole: dict[str, Any], rows: dict[str, Row]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in whole["environment"]["packages"].items())
    lines = [
        f"Measured at commit `{whole['commit']}`, {whole['date']}, by `{whole['command']}`; Python "
        f"{whole['environment']['python']}, {packages}. {whole['guarantee']}.",
        "",
        "| aim | goal | measured | reached |",
        "|---|---|---|---|",
        *(f"| {text} | {goal} | {told} | {'yes' if held else '**no**'} |" for text, goal, told, held in goals(rows)),
        "",
    ]
    for title, chosen, figure in (
        ("Two classes and more: accuracy", [row for row in rows.values() if row.classes], -1),
        ("Two classes and more: log-loss", [row for row in rows.values() if row.classes], 0),
        ("Numbers: R^2", [row for row in rows.values() if not row.classes], -1),
    ):
        shown = [
            column
            for column in (*PEERS, *METHODS)
            if any(len(row.runs(column, epsilon, figure)) for row in chosen for epsilon in row.epsilons())
        ]
        head = [
            "table",
            "epsilon",
            "runs",
            "trivial",
            "not private",
            "**auto**",
            *(SHORT.get(one, one) for one in shown),
        ]
        head += ["grid"] if figure else []
        lines += [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for row in chosen:
            for place, epsilon in enumerate(row.epsilons()):
                size = f"{row.name}, {row.records:,} x {row.features:,}" + (
                    f", {row.classes}" if row.classes > 2 else ""
                )
                cells = [size if place == 0 else "", f"{float(epsilon):g}", str(len(row.runs("auto", epsilon)))]
                cells += [_number(row.mean(column, epsilon, figure)) for column in ("trivial", "not private")]
                error = row.error("auto", epsilon, figure)
                cells.append(
                    f"**{_number(row.mean('auto', epsilon, figure))}**"
                    + ("" if math.isnan(error) else f" +- {_number(error)}")
                )
                cells += [_number(row.mean(column, epsilon, figure)) for column in shown]
                cells += [_number(row.grid(epsilon)[0])] if figure else []
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip()


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.3g}"


def _plot(rows: dict[str, Row]) -> None:
    """What is left of the trivial model's loss, table by table: 0 is what a model without privacy leaves."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "sordino"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(11, 5.5), layout="constrained")
    shades = {"0.1": "#c6dbef", "0.5": "#6baed6", "1.0": "#2171b5", "3.0": "#08306b"}
    for place, row in enumerate(rows.values()):
        for epsilon, shade in shades.items():
            won = [_won(row, column, epsilon) for column in ("auto", *PEERS)]
            axes.plot(
                place, won[0], "o", color=shade, label=f"auto, epsilon {float(epsilon):g}" if place == 0 else None
            )
            best = max((one for one in won[1:] if not math.isnan(one)), default=math.nan)
            axes.plot(
                place + 0.28, best, "x", color=shade, label=f"best peer, {float(epsilon):g}" if place == 0 else None
            )
    axes.axhline(1, color="black", lw=0.8)
    axes.axhline(0, color="grey", lw=0.8, ls=":")
    axes.set(ylim=(-0.6, 1.1), ylabel="accuracy or R^2: 0 is the trivial model, 1 the one without privacy")
    axes.set_xticks(range(len(rows)), list(rows), rotation=60, ha="right")
    axes.legend(ncols=4, fontsize=8, loc="lower right")
    figure.savefig(DOCS / "utility.svg", metadata={"Date": None})


def _won(row: Row, column: str, epsilon: str) -> float:
    """Of the way from the trivial model to the one without privacy, by log-loss where there are classes."""
    figure = 0 if row.classes else -1
    trivial, best, mine = (row.mean(one, epsilon, figure) for one in ("trivial", "not private", column))
    return (mine - trivial) / (best - trivial)
