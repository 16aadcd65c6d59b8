"""Slopes as tables, a figure, and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sordino.papers.drawing import drawing
from sordino.papers.experiment import Value

READING = """
Where 1/sqrt(n) rules (epsilon = 1) a slope of -1/2 is promised; where the privacy term rules (epsilon = 0.1), towards
-1; a row that is steeper than its bound over these sizes does better than promised. Constants are another matter: the
last columns show how far the bounds are above what is measured, and the dashed lines of the figure are the lower bound
without its constant, so that rows may lie below them.

The printed noise of objective perturbation is not private under replace-one at such a delta; it is run here for its
slope. Planned rows have no theorem: a balanced descent of at most 2,000 passes, which an envelope that grows sharper
with n may need more of, and objective perturbation whose regularisation is for a spectrum that falls like a power of j,
where here it falls like 1.2^-2j. For logistic regression the two are close (.0016 and .0013 at n = 64,000 and epsilon
1, .0082 and .0125 at .1); on envelopes at epsilon .1 too little is added for the flattest directions from n = 32,000
on, and the ball is what holds them.

Along d errors rise up to d = 10 or 20, in planned rows by more than the bounds' sqrt(d), and fall from there or stay
where they are: these populations have less to win in more dimensions. w0 has the same length everywhere, and more and
more of it lies where rows are short. The rows *zero weights* say how much. Noisy SGD on the hinge's envelopes at
epsilon .1 alone goes on rising, like d^.52.

A prox in closed form costs what a gradient costs. A descent inside the step is a subgradient method: a digit for many
times the work.
"""


def page(figures: dict[str, Any]) -> str:
    lines = [
        f"Means over {figures['runs']} runs on fresh records; delta = 1/n^2, d = 20, ball of radius 10. Slopes are of "
        "log mean excess against log n over the larger half of the sizes, with the standard error the runs give them; "
        "the bound's slope is over the same sizes. `sordino.papers.slopes_003` says what the populations and rows are.",
        "",
    ]
    for name, rows in figures["slopes"].items():
        lines += [f"## {name}", "", *_table(rows, figures["sizes"]), ""]
    lines += _dimensions(figures["dimensions"])
    if figures["inner descent"]:
        lines += ["## Prox in closed form", "", *_inner(figures["inner descent"])]
    return "\n".join([*lines, ""])


def _dimensions(by_epsilon: dict[str, Any]) -> list[str]:
    """Mean excess along d, at the n where it is changed."""
    lines = []
    for name, rows in by_epsilon.items():
        if not rows:
            continue
        heads = sorted({d for there in rows.values() for d in there})
        lines += [f"## {name}, n = 8,000, along d", "", "| method | " + " | ".join(f"d = {d}" for d in heads) + " |"]
        lines += ["|---" * (len(heads) + 1) + "|"]
        for row, there in rows.items():
            cells = (_value(there[d]) if d in there else "" for d in heads)
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def _value(one: Value) -> str:
    return f"{one.mean:.4f}" + ("" if one.error is None else f" ({one.error:.4f})")


def _table(rows: dict[str, Any], sizes: list[int]) -> list[str]:
    heads = ("method", *(f"n = {n:,}" for n in sizes), "slope", "bound's slope", "bound / measured")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, one in rows.items():
        bounded = "bound" in one
        above = [bound / mean for bound, mean in zip(one.get("bound", []), one["mean"], strict=bounded)]
        cells = [
            name,
            *(f"{mean:.4f}" for mean in one["mean"]),
            f"{one['slope']:.2f} +- {one['slope error']:.2f}",
            f"{one['bound slope']:.2f}" if bounded else "",
            f"{min(above):.0f} to {max(above):.0f}" if bounded else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _inner(one: dict[str, Any]) -> list[str]:
    lines = [
        f"One gradient of the hinge loss's envelope (n = {one['records']:,}, a batch of {one['batch']}, beta = "
        f"{one['beta']:.3g}), of which a run needs T = {one['steps']:,}.",
        "",
        "| prox | milliseconds | error of the gradient | one run |",
        "|---|---|---|---|",
        f"| closed form | {1e3 * one['closed form']:.3f} | none | {3600 * one['hours by closed form']:.2g} s |",
    ]
    lines += [
        f"| {inner['steps']:,} inner steps | {1e3 * inner['seconds']:.3g} | {inner['error']:.2g} | "
        f"{one['steps'] * inner['seconds']:.2g} s |"
        for inner in one["inner"]
    ]
    years = one["hours as counted in section 4"] / 8766
    lines.append(f"| n^2 T of them, as counted in section 4 | | | {years:.2g} years |")
    return lines


def pictures(figures: dict[str, Any], path: Path) -> None:
    sizes = figures["sizes"]
    losses = ("logistic", "hinge", "absolute", "pinball")
    shape = max(1, len(figures["slopes"])), len(losses)
    with drawing(path, *shape, figsize=(14, 6.4), sharex=True, sharey="col", squeeze=False) as axes:
        for line, (title, rows) in zip(axes, figures["slopes"].items(), strict=False):
            for axis, loss in zip(line, losses, strict=True):
                those = {name: one for name, one in rows.items() if name.startswith(loss)}
                for name, one in those.items():
                    label = name.partition(", ")[2]
                    axis.errorbar(sizes, one["mean"], one["standard error"], fmt="o-", ms=3, lw=1, label=label)
                top = 1.5 * max((one["mean"][0] for one in those.values()), default=1.0)
                for power in (-0.5, -1.0):
                    guide = [top * (n / sizes[0]) ** power for n in sizes]
                    axis.plot(sizes, guide, color="grey", lw=0.6, ls=":")
                least = [figures["lower"](n, float(title.split()[-1])) for n in sizes]
                axis.plot(sizes, least, color="black", lw=0.8, ls="--", label="M sqrt(d) / (epsilon n)")
                axis.set(xscale="log", yscale="log", title=f"{loss}, {title}")
                axis.legend(fontsize=5.5, frameon=False, loc="lower left")
        for axis in axes[-1]:
            axis.set_xlabel("n")
        for axis in axes[:, 0]:
            axis.set_ylabel("excess population loss")
