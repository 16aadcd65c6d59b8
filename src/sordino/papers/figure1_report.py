"""Figure 1 of Zhou, Chen, Hong, Wu & Banerjee 2020 as Markdown and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.papers.drawing import drawing
from sordino.papers.experiment import Known
from sordino.papers.networks import mean_and_spread

METHODS = ("DP-SGD", "DP-RMSProp", "DP-Adam")
PRINTED = {"2": 1.22, "4": 0.57, "8": 0.28}
EARLY = 1


EPOCHS = 5
READING = """
Test accuracy in per cent, mean and standard deviation over the runs. Shortened: the first 5 of the paper's 100 epochs,
and fewer runs than its 5. The paper shows curves and prints no accuracy. Its step sizes shrink after 30 epochs; here
they are constant. They were chosen on held-out training pictures, from its grid and the middle of the best two, which
is not private and not in epsilon (there it is the training loss, and neither is that). *Average*: the weights averaged
over the last thousand steps or so, which is free.

Noise is a multiple of the clip, batches are Poisson, delta = 1e-5, add/remove. The paper defines privacy by replacing a
record, and its epsilon is about adding one. *Its accountant* is Renyi moments with the conversion of Mironov 2017,
which gives the printed numbers; *ours* is what the same noise costs by privacy loss distributions.
"""


def assembled(known: Known) -> dict[str, Any]:
    costs = {z: known[f"epsilon of noise {z}"] for z in PRINTED}
    return {"epochs": EPOCHS, "epsilon": costs, "runs": {n: one for n, one in known.items() if ", run " in n}}


def tables(known: Known) -> str:
    found = assembled(known)
    return "\n".join([accuracies(found), budgets(found), finding(found)]) + "\n"


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


def finding(found: dict[str, Any]) -> str:
    """Whether the adaptive methods are ahead at the largest noise, early and late, in a sentence of numbers."""
    z = max((z for z in found["epsilon"] if all(of(found, m, z) for m in METHODS)), key=float)
    scores = {}
    for method in METHODS:
        curve = mean_and_spread([run["accuracy"] for run in of(found, method, z)])[0]
        scores[method] = (100 * curve[0], 100 * curve[-1])
    best = max(("DP-RMSProp", "DP-Adam"), key=lambda m: scores[m][1])
    ahead = scores[best][1] - scores["DP-SGD"][1]
    return (
        f"At noise {z}, where the paper sees the widest gap, {best} ends {abs(ahead):.1f} points "
        f"{'above' if ahead >= 0 else 'below'} DP-SGD ({scores[best][1]:.1f} against {scores['DP-SGD'][1]:.1f}); after "
        f"the first epoch it is {scores[best][0]:.1f} against {scores['DP-SGD'][0]:.1f}."
    )


def draw(known: Known, path: Path) -> None:
    found = assembled(known)
    noises = [z for z in found["epsilon"] if any(of(found, method, z) for method in METHODS)]
    with drawing(path, 1, len(noises), figsize=(9, 3), sharey=True, squeeze=False) as panels:
        for panel, z in zip(panels[0], noises, strict=True):
            for method in METHODS:
                runs = of(found, method, z)
                mean, spread = mean_and_spread([run["accuracy"] for run in runs])
                epochs = np.array(runs[0]["steps"]) / runs[0]["steps"][-1] * found["epochs"]
                (line,) = panel.plot(epochs, 100 * mean, "o-", ms=2, lw=1, label=method)
                band = 100 * (mean - spread), 100 * (mean + spread)
                panel.fill_between(epochs, *band, color=line.get_color(), alpha=0.2)
            ours = found["epsilon"][z][f"ours, {found['epochs']:g} epochs"]
            panel.set(xlabel="epochs", title=f"noise {z}, epsilon {ours:.2f}")
        panels[0][0].set_ylabel("test accuracy, %")
        panels[0][0].legend(fontsize=7, frameon=False)
