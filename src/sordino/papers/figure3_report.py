"""Figures 3 to 5 of Wang, Jayaraman, Evans & Gu 2019 as Markdown and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.papers.drawing import drawing, name_lines
from sordino.papers.experiment import Known
from sordino.papers.networks import mean_and_spread

METHODS = ("DP-SGD", "DP-SGD, momentum", "DP-SRM")
BUDGETS = {
    "MNIST": ("1.2", "3", "7"),
    "MNIST, replace-one": ("1.2", "3", "7"),
    "CIFAR-10": ("2", "4", "8"),
    "CIFAR-10, all": ("6", "8", "10"),
    "CIFAR-10, public convolutions": ("2", "4", "8"),
}
SHOWN = {"MNIST": "MNIST, add/remove", "CIFAR-10": "a fifth of CIFAR-10, add/remove"}
"""What is said of data whose cells are not about the paper's own neighbours."""
# test errors in per cent: DP-SGD, DP-SRM; all of them are about replacing a record
PRINTED = {
    ("MNIST, replace-one", "1.2"): (5.33, 4.49),
    ("MNIST, replace-one", "3"): (3.81, 3.62),
    ("MNIST, replace-one", "7"): (2.93, 2.91),
    ("CIFAR-10, all", "6"): (51.0, 50.3),
    ("CIFAR-10, all", "8"): (50.2, 48.2),
    ("CIFAR-10, all", "10"): (49.3, 47.1),
    ("CIFAR-10, public convolutions", "2"): (33.2, 33.2),
    ("CIFAR-10, public convolutions", "4"): (21.2, 31.0),
    ("CIFAR-10, public convolutions", "8"): (29.4, 29.3),
}

CLAIMS = {
    "MNIST": "on MNIST at epsilon 3 DP-SRM needs 0.3 times the iterations of DP-SGD for a comparable error",
    "CIFAR-10, all": "DP-SRM ends below DP-SGD at every budget, and takes fewer iterations (how many is not said)",
    "CIFAR-10, public convolutions": "at epsilon 8 DP-SRM needs 0.45 times the iterations of DP-SGD for the same error",
}
"""Of the paper, by the data they are about."""

READING = """
Test errors in per cent. *Noise* is the multiplier of the steps after the first, relative to what one record moves;
*average* is a moving average over the last thirty iterates or so, which is free.

Privacy is about replacing a record, as in the paper, or about adding or removing one, as others report it: less noise
for the same epsilon, so that the paper's errors stand beside the first only.

Shortened: 8 epochs on MNIST and one and a half times as many on CIFAR-10 where the paper has 20 to 100, half of that
for DP-SRM, which computes two gradients per record; the number of runs in the table where it has 10; and a fifth of the
pictures of CIFAR-10, so that noise weighs five times as much. The paper prints CNN5 at epsilon 6, 8 and 10. Its DP-SGD
has no momentum and its networks have ReLU; here all have tanh. Clips, step sizes and mix are fixed, those of DP-SRM the
best of four tried on held-out training pictures, which is not private; nor is the paper's grid.
"""


def tables(known: Known) -> str:
    return "\n".join([errors(known), claim(known), *([costs(known)] if "printed noise" in known else [])])


def of(found: Known, data: str, budget: str, method: str) -> list[dict[str, Any]]:
    return [run for name, run in found.items() if name.startswith(f"{data}, {budget}, {method}, run")]


def error_curve(runs: list[dict[str, Any]]) -> tuple[Any, Any]:
    mean, spread = mean_and_spread([run["accuracy"] for run in runs])
    return 100 * (1 - mean), 100 * spread


def errors(found: Known) -> str:
    heads = (
        "data", "epsilon", "method", "runs", "steps", "noise", "error, last iterate", "error, average", "printed",
        "CPU s",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for data, budgets in BUDGETS.items():
        for budget in budgets:
            for method in METHODS:
                runs = of(found, data, budget, method)
                if runs:
                    lines.append("| " + " | ".join(_row(runs, data, budget, method)) + " |")
    return "\n".join(lines) + "\n"


def _row(runs: list[dict[str, Any]], data: str, budget: str, method: str) -> list[str]:
    printed = PRINTED.get((data, budget))
    told = {"DP-SGD": 0, "DP-SRM": 1}.get(method)
    return [
        SHOWN.get(data, data), budget, method, str(len(runs)), str(runs[0]["steps"][-1]),
        f"{runs[0]['noise multiplier']:.2f}",
        _cell([run["accuracy"][-1] for run in runs]), _cell([run["averaged"] for run in runs]),
        f"{printed[told]:g}" if printed and told is not None else "",
        f"{np.mean([run['cpu seconds'] for run in runs]):.0f}",
    ]  # fmt: skip


def _cell(scores: list[float]) -> str:
    mean = f"{100 - 100 * np.mean(scores):.2f}"
    return f"{mean} ± {100 * np.std(scores, ddof=1):.2f}" if len(scores) > 1 else mean


def first_at(runs: list[dict[str, Any]], level: float) -> int | None:
    """The first step at which the mean error of the iterates is at most `level`."""
    curve, steps = error_curve(runs)[0], runs[0]["steps"]
    return next((step for step, error in zip(steps, curve, strict=True) if error <= level), None)


def claim(found: Known) -> str:
    """Whether DP-SRM is where DP-SGD ends after fewer steps, for both kinds of DP-SGD, at every budget there is."""
    about = next((data for data in CLAIMS if any(name.startswith(f"{data},") for name in found)), "MNIST")
    said = f"The paper: {CLAIMS[about]}."
    lines = []
    for data, budgets in BUDGETS.items():
        for budget in budgets:
            recursive = of(found, data, budget, "DP-SRM")
            for method in METHODS[:2]:
                reference = of(found, data, budget, method)
                if recursive and reference:
                    lines.append(_compared(f"{SHOWN.get(data, data)}, epsilon {budget}", method, reference, recursive))
    if not lines:
        return f"{said} No run of DP-SRM is in these results, so they neither show that nor the opposite.\n"
    return "\n".join([f"{said} Here:\n", *lines]) + "\n"


def _compared(where: str, method: str, reference: list[dict[str, Any]], recursive: list[dict[str, Any]]) -> str:
    level = float(error_curve(reference)[0][-1])
    theirs, ours = first_at(reference, level), first_at(recursive, level)
    if ours is None:
        least = float(error_curve(recursive)[0].min())
        return f"- {where}: DP-SRM never reaches the {level:.2f} % at which {method} ends; its least is {least:.2f} %."
    assert theirs is not None
    return (
        f"- {where}: DP-SRM reaches the {level:.2f} % at which {method} ends after {ours} steps, {method} after "
        f"{theirs}: {ours / theirs:.2f} times the iterations and {2 * ours / theirs:.2f} times the gradients."
    )


def costs(found: Known) -> str:
    lines = [
        "What the noise of the paper's Theorem 4.1 costs (MNIST, five epochs, replacing a record, batches of fixed "
        "size), its side condition left aside:\n",
        "| batches | " + " | ".join(f"nominal {nominal}" for nominal in ("1.2", "3", "7")) + " |",
        "|---|---|---|---|",
    ]
    for batches, by_nominal in found["printed noise"].items():
        cells = (_cost(by_nominal[nominal]) for nominal in ("1.2", "3", "7"))
        lines.append(f"| {batches} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cost(epsilon: float) -> str:
    return f"{epsilon:.2f}" if np.isfinite(epsilon) else "no bound found"


def draw(known: Known, path: Path) -> None:
    cases = [
        (data, budget)
        for data, budgets in BUDGETS.items()
        for budget in budgets
        if any(of(known, data, budget, method) for method in METHODS)
    ]
    across = max(1, min(3, len(cases)))
    down = max(1, -(-len(cases) // across))
    with drawing(path, down, across, figsize=(3 * across, 2.8 * down), squeeze=False) as panels:
        for panel in panels.flat[len(cases) :]:
            panel.set_visible(False)
        for panel, (data, budget) in zip(panels.flat, cases, strict=False):
            for method in METHODS:
                runs = of(known, data, budget, method)
                if not runs:
                    continue
                mean, spread = error_curve(runs)
                (line,) = panel.plot(runs[0]["steps"], mean, "-", lw=1, label=method)
                panel.fill_between(runs[0]["steps"], mean - spread, mean + spread, color=line.get_color(), alpha=0.2)
                averaged = 100 - 100 * np.mean([run["averaged"] for run in runs])
                panel.plot(runs[0]["steps"][-1], averaged, "o", ms=3, color=line.get_color())
            panel.set(xlabel="iterations", ylabel="test error, %", yscale="log")
            panel.set_title(f"{SHOWN.get(data, data)},\nepsilon {budget}", fontsize=8)
        name_lines(panels.flat, 7)
