"""Figure 1 of Zhou, Chen, Hong, Wu & Banerjee 2020 as Markdown and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.papers.drawing import drawing, name_lines
from sordino.papers.experiment import Known
from sordino.papers.networks import mean_and_spread

METHODS = ("DP-SGD", "DP-RMSProp", "DP-Adam")
PRINTED = {"2": 1.22, "4": 0.57, "8": 0.28}
EARLY = 1


EPOCHS = 5
READING = """
Accuracy in per cent, mean and standard deviation over the runs. The first table is of the first 5 of the paper's 100
epochs, with constant steps and 3 runs; the second of all 100, with 5 runs and steps a tenth as long after every 30
epochs: the adaptive methods are ahead at noise 8, behind at 4 and level at 2. Training accuracy is that on the first
10,000 training pictures. The paper shows curves and prints no accuracy. Step sizes were chosen on held-out training
pictures after 5 epochs, from its grid and the middle of the best two, which is not private and not in epsilon (there it
is the training loss, and neither is that). *Average*: the weights averaged over the last thousand steps or so, which is
free.

Noise is a multiple of the clip, batches are Poisson, delta = 1e-5, add/remove. The paper defines privacy by replacing a
record, and its epsilon is about adding one. *Its accountant* is Renyi moments with the conversion of Mironov 2017,
which gives the printed numbers; *ours* is what the same noise costs by privacy loss distributions.
"""


def assembled(known: Known) -> dict[str, Any]:
    costs = {z: known[name] for z in PRINTED if (name := f"epsilon of noise {z}") in known}
    return {"epochs": EPOCHS, "epsilon": costs, "runs": {n: one for n, one in known.items() if ", run " in n}}


def tables(known: Known) -> str:
    found = assembled(known)
    return "\n".join([accuracies(found), whole(known), budgets(found), finding(known, found)]) + "\n"


def whole(known: Known) -> str:
    """The hundred epochs, as far as they have been run."""
    lines = ["| noise | method | runs of 100 epochs | test accuracy | training accuracy |", "|---|---|---|---|---|"]
    for z in PRINTED:
        for method in METHODS:
            if runs := in_full(known, method, z):
                cells = [_cell([run[key][-1] for run in runs]) for key in ("accuracy", "training accuracy")]
                lines.append(f"| {z} | {method} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "None of the runs of 100 epochs has been made yet.\n"


def of(found: dict[str, Any], method: str, z: str) -> list[dict[str, Any]]:
    return [run for name, run in found["runs"].items() if name.startswith(f"{method}, {z}, run")]


def accuracies(found: dict[str, Any]) -> str:
    end = f"{found['epochs']:g}"
    heads = (
        "noise", "method", "step size", "runs", f"accuracy after {EARLY} epoch", f"after {end}",
        f"average after {end}",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for z in found["epsilon"]:
        for method in METHODS:
            runs = of(found, method, z)
            if not runs:
                continue
            early = min(EARLY, len(runs[0]["steps"])) - 1
            curves = [run["accuracy"] for run in runs]
            points = [[curve[early] for curve in curves], [curve[-1] for curve in curves]]
            cells = [_cell(scores) for scores in (*points, [run["averaged"] for run in runs])]
            lines.append(f"| {z} | {method} | {runs[0]['step size']:.2g} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(scores: list[float]) -> str:
    mean = f"{100 * np.mean(scores):.1f}"
    return f"{mean} ± {100 * np.std(scores, ddof=1):.1f}" if len(scores) > 1 else mean


def budgets(found: dict[str, Any]) -> str:
    here = f"{found['epochs']:g} epochs"
    heads = (
        "noise",
        "epsilon printed, 100 epochs",
        "its accountant",
        "ours",
        f"its accountant, {here}",
        f"ours, {here}",
    )
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for z, costs in found["epsilon"].items():
        keys = ("moments, 100 epochs", "ours, 100 epochs", f"moments, {here}", f"ours, {here}")
        lines.append(f"| {z} | {PRINTED[z]} | " + " | ".join(f"{costs[key]:.4f}" for key in keys) + " |")
    return "\n".join(lines) + "\n"


def finding(known: Known, found: dict[str, Any]) -> str:
    """Whether the adaptive methods are ahead at the largest noise, early, later and in the end, in numbers."""
    measured = [z for z in found["epsilon"] if all(of(found, m, z) for m in METHODS)]
    if not measured:
        return ""
    z = max(measured, key=float)
    short = {method: mean_and_spread([run["accuracy"] for run in of(found, method, z)])[0] for method in METHODS}
    stages = [
        (f"After {EARLY} epoch", {method: 100 * curve[0] for method, curve in short.items()}),
        (f"after {found['epochs']:g}", {method: 100 * curve[-1] for method, curve in short.items()}),
    ]
    if all(in_full(known, method, z) for method in METHODS):
        ends = {m: 100 * np.mean([run["accuracy"][-1] for run in in_full(known, m, z)]) for m in METHODS}
        stages.append(("after 100", ends))
    said = []
    for when, scores in stages:
        best = max(METHODS[1:], key=scores.__getitem__)
        ahead = scores[best] - scores["DP-SGD"]
        said.append(
            f"{when} {best} is {abs(ahead):.1f} points {'above' if ahead >= 0 else 'below'} DP-SGD "
            f"({scores[best]:.1f} against {scores['DP-SGD']:.1f})"
        )
    return f"At noise {z} the paper sees the widest gap. {', '.join(said)}."


def in_full(known: Known, method: str, z: str) -> list[dict[str, Any]]:
    return [run for name, run in known.items() if name.startswith(f"{method}, {z}, in full, run")]


def draw(known: Known, path: Path) -> None:
    """Test accuracy of the first epochs; below, where they have been run, test and training accuracy of the hundred."""
    found, noises = assembled(known), [z for z in PRINTED if f"epsilon of noise {z}" in known]
    whole = any(in_full(known, method, z) for method in METHODS for z in noises)
    rows = [("test accuracy, %", "accuracy", False)]
    rows += (
        [("test accuracy, %", "accuracy", True), ("training accuracy, %", "training accuracy", True)] if whole else []
    )
    size = (9, 3 * len(rows))
    with drawing(path, len(rows), len(noises), figsize=size, sharey="row", squeeze=False) as panels:
        for line, (words, key, full) in zip(panels, rows, strict=True):
            for panel, z in zip(line, noises, strict=True):
                for colour, method in enumerate(METHODS):
                    runs = in_full(known, method, z) if full else of(found, method, z)
                    if not runs:
                        continue
                    mean, spread = mean_and_spread([run[key] for run in runs])
                    epochs = np.array(runs[0]["steps"]) / runs[0]["steps"][-1] * (100 if full else found["epochs"])
                    panel.plot(
                        epochs, 100 * mean, "o-", ms=2, lw=1, color=f"C{colour}", label=f"{method}, {len(runs)} runs"
                    )
                    panel.fill_between(
                        epochs, 100 * (mean - spread), 100 * (mean + spread), color=f"C{colour}", alpha=0.2
                    )
                length = "100" if full else f"{found['epochs']:g}"
                ours = found["epsilon"][z][f"ours, {length} epochs"]
                panel.set(xlabel="epochs", title=f"noise {z}, epsilon {ours:.2f}")
            line[0].set_ylabel(words)
            name_lines(line, 6)
