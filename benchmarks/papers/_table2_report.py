"""Tables 2 and 3 as Markdown and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NOTES = ""

METHODS = ("DP-GD", "DP-AGD", "RRPSGD", "DP-SRM", "DP-SGD")

Printed = dict[tuple[str, float], dict[str, tuple[float, ...]]]
"""Data set and epsilon to method to test loss, passes, CPU seconds and gradient norm."""


def write(
    found: dict[str, Any],
    folder: Path | None,
    printed: dict[Any, dict[str, tuple[float, ...]]],
    baseline: dict[str, float],
) -> None:
    """The tables on the screen and, where a folder is given, beside the results."""
    text = tables(found, printed, baseline)
    print(text)
    if folder is not None:
        title = "# Tables 2 and 3 of Wang, Jayaraman, Evans & Gu 2019\n\n"
        picture = (
            "\n![Training objective against passes](table2_004.svg)\n\nFigures 1 and 2: the first run of each plan.\n"
        )
        (folder / "table2_004.md").write_text(title + text + NOTES + picture)
        draw(found, folder / "table2_004.svg")


def tables(found: dict[str, Any], printed: Printed, baseline: dict[str, float]) -> str:
    heads = (
        "epsilon",
        "method",
        "test loss",
        "with penalty",
        "gradient norm",
        "passes",
        "gradients / n",
        "CPU s",
        "printed: loss",
        "gradient norm",
        "passes",
        "CPU s",
    )
    lines = []
    for name, one in _data_sets(found):
        lines.append(
            f"**{name}**, {one['records']} records, {one['features']} features; not private: test loss "
            f"{one['not private']['test loss']:.4f}, {one['not private']['test objective']:.4f} with the penalty "
            f"(printed {baseline[name]:.4f}).\n"
        )
        lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for key, ways in one.items():
            if not key.startswith("epsilon"):
                continue
            epsilon = float(key.split()[1])
            for way, row in sorted(ways.items(), key=lambda item: _order(item[0])):
                theirs = printed[name, epsilon].get(way.split(",")[0])
                cells = [
                    f"{epsilon:g}",
                    way,
                    _loss(row),
                    f"{row['test objective']:.4f}",
                    f"{row['gradient norm']:.4f}",
                    f"{row['passes']:.3g}",
                    f"{row['gradients']:.3g}",
                    f"{row['seconds']:.3g}",
                    *(
                        [f"{theirs[0]:.4f}", f"{theirs[3]:.4f}", f"{theirs[1]}", f"{theirs[2]:.3g}"]
                        if theirs
                        else 4 * [""]
                    ),
                ]
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines) + "\n"


def _data_sets(found: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted((name, one) for name, one in found.items() if isinstance(one, dict) and "records" in one)


def _order(way: str) -> tuple[int, int]:
    method, setting = way.split(", ")
    return ("plan", "grid", "printed").index(setting), METHODS.index(method)


def _loss(row: dict[str, Any]) -> str:
    spread = row["deviation"]
    return f"{row['test loss']:.4f}" + (f" ({spread:.4f})" if spread is not None else "")


def draw(found: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "sordino"
    import matplotlib.pyplot as plt

    sets = _data_sets(found)
    keys = [key for key in sets[0][1] if key.startswith("epsilon")]
    figure, panels = plt.subplots(len(sets), len(keys), figsize=(8, 2.8 * len(sets)), squeeze=False)
    for row, (name, one) in zip(panels, sets, strict=True):
        for axes, key in zip(row, keys, strict=True):
            for way, figures in one[key].items():
                if way.endswith("plan") or way == "DP-SRM, grid":
                    passes, values = zip(*figures["curve"], strict=True)
                    axes.plot(passes, values, lw=1, label=way)
            axes.axhline(one["not private"]["objective"], color="black", lw=0.5, ls=":")
            axes.set(xscale="symlog", title=f"{name}, {key}", xlabel="passes", ylabel="training objective")
            axes.set_ylim(top=0.72)
    panels[0][0].legend(fontsize=6, frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
