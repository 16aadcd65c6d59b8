"""Tables 2 and 3 as Markdown and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sordino.papers.drawing import drawing, name_lines
from sordino.papers.experiment import Known

READING = """
DP-SRM is ahead of DP-GD and RRPSGD at the same budget, as in print; plain DP-SGD, which the paper leaves out, is about
as good.

*Printed* has the paper's sizes and constants with the least noise that earns the budget. On a9a it ends above the
printed loss; with every row divided by its bound, sqrt(14), it ends below, so that the paper's rows may well have been
scaled. *Printed noise* is that of Theorem 4.1, whose condition fails here: it is far more than epsilon needs (its true
epsilon is in the column *epsilon*), and costs what such noise costs.

DP-GD's plan on ijcnn1 hardly depends on epsilon because noise is not what holds it back. Its 20 steps, the paper's
number, are 1.9/beta long, beta being the public bound R^2/4 with R = 2; the records' curvature is far below it, and the
grid, which looks at held-out records, takes steps of 48/beta. DP-AGD's plan searches for its step lengths instead, and
pays for every search: it reads the records over a thousand times, and most of the budget goes into choices. The paper's
settings of both were found by search on the records; here nothing private chooses them.
"""

# test loss, passes, CPU seconds, gradient norm
PRINTED = {
    ("a9a", 0.2): {
        "DP-GD": (0.4153, 20, 1.240, 0.0950),
        "DP-AGD": (0.3708, 360, 95.18, 0.0431),
        "RRPSGD": (0.4026, 8, 39.50, 0.2138),
        "DP-SRM": (0.3598, 4, 0.6003, 0.0534),
    },
    ("a9a", 0.5): {
        "DP-GD": (0.3856, 20, 1.266, 0.0861),
        "DP-AGD": (0.3619, 365, 95.88, 0.0405),
        "RRPSGD": (0.3859, 10, 51.90, 0.1460),
        "DP-SRM": (0.3517, 5, 0.7390, 0.0504),
    },
    ("ijcnn1", 0.2): {
        "DP-GD": (0.3160, 20, 0.5180, 0.0184),
        "DP-AGD": (0.2645, 346, 90.05, 0.0133),
        "RRPSGD": (0.3110, 8, 47.64, 0.0175),
        "DP-SRM": (0.2503, 5, 0.4748, 0.0117),
    },
    ("ijcnn1", 0.5): {
        "DP-GD": (0.2717, 20, 0.4990, 0.0171),
        "DP-AGD": (0.2416, 365, 94.28, 0.0397),
        "RRPSGD": (0.3033, 10, 59.06, 0.0160),
        "DP-SRM": (0.2341, 5, 0.4368, 0.0082),
    },
}
NOT_PRIVATE = {"a9a": 0.3346, "ijcnn1": 0.2096}
METHODS = ("DP-GD", "DP-AGD", "RRPSGD", "DP-SRM", "DP-SGD")


def tables(known: Known) -> str:
    found = assembled(known)
    heads = (
        "epsilon",
        "method",
        "test loss",
        "with penalty",
        "gradient norm",
        "passes",
        "gradients / n",
        "CPU s",
        "epsilon",
        "printed: loss",
        "gradient norm",
        "passes",
        "CPU s",
    )
    lines = ["Means (deviations) over the runs at delta = 1e-5, replace-one; passes and seconds of one run.\n"]
    for name, one in found.items():
        if (plain := one.get("not private")) is None:
            continue
        lines.append(
            f"**{name}**, {plain['records']} records, {plain['features']} features; not private: test loss "
            f"{plain['test loss']:.4f}, {plain['test objective']:.4f} with the penalty "
            f"(printed {NOT_PRIVATE[name]:.4f}).\n"
        )
        lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for key, ways in one.items():
            if not key.startswith("epsilon"):
                continue
            epsilon = float(key.split()[1])
            for way, row in sorted(ways.items(), key=lambda item: _order(item[0])):
                theirs = PRINTED[name, epsilon].get(way.split(",")[0])
                cells = [
                    f"{epsilon:g}",
                    way,
                    _loss(row),
                    f"{row['test objective']:.4f}",
                    f"{row['gradient norm']:.4f}",
                    f"{row['passes']:.3g}",
                    f"{row['gradients']:.3g}",
                    f"{row['seconds']:.3g}",
                    f"{row['epsilon']:.3g}" if "epsilon" in row else "",
                    *(
                        [f"{theirs[0]:.4f}", f"{theirs[3]:.4f}", f"{theirs[1]}", f"{theirs[2]:.3g}"]
                        if theirs
                        else 4 * [""]
                    ),
                ]
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines) + "\n"


def assembled(known: Known) -> dict[str, dict[str, Any]]:
    """By data set and budget."""
    found: dict[str, dict[str, Any]] = {}
    for cell, one in known.items():
        name, key, *way = cell.split(", ", 2)
        if way:
            found.setdefault(name, {}).setdefault(key, {})[way[0]] = one
        else:
            found.setdefault(name, {})[key] = one
    return found


def _order(way: str) -> tuple[int, int]:
    method, _, setting = way.partition(", ")
    order = ("plan", "grid", "printed", "printed, unit rows", "printed noise")
    return order.index(setting), METHODS.index(method)


def _loss(row: dict[str, Any]) -> str:
    spread = row["deviation"]
    return f"{row['test loss']:.4f}" + (f" ({spread:.4f})" if spread is not None else "")


def draw(known: Known, path: Path) -> None:
    """Figures 1 and 2: training objective and gradient norm along a run of each plan."""
    sets = assembled(known)
    cases = [(name, key) for name, one in sets.items() for key in one if key.startswith("epsilon")]
    with drawing(path, 2, len(cases), figsize=(3.6 * len(cases), 6), squeeze=False) as panels:
        for column, (name, key) in enumerate(cases):
            above, below = panels[0][column], panels[1][column]
            for place, way in enumerate([*(f"{method}, plan" for method in METHODS), "DP-SRM, grid"]):
                figures = sets[name][key].get(way, {})
                for axes, what in ((above, "curve"), (below, "gradient norms")):
                    if what in figures:
                        axes.plot(*zip(*figures[what], strict=True), lw=1, color=f"C{place}", label=way)
            if plain := sets[name].get("not private"):
                above.axhline(plain["objective"], color="black", lw=0.5, ls=":")
            above.set(xscale="symlog", title=f"{name}, {key}", ylabel="training objective")
            above.set_ylim(top=0.72)
            below.set(xscale="symlog", yscale="log", xlabel="passes", ylabel="gradient norm")
            below.tick_params(axis="y", which="minor", labelsize=6)
            for axes in (above, below):
                axes.set_xlim(left=0)
        name_lines(panels[0], 6)
