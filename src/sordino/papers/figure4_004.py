r"""Figure 4 of Wang, Jayaraman, Evans & Gu 2019: CNN5 on all of CIFAR-10, by DP-SRM and by DP-SGD.

    sordino data get cifar10; sordino reproduce 004 figure4

50,000 pictures, epsilon 6, 8 and 10, delta = 1e-5, replace-one, Poisson batches of 500, 12 epochs of gradients, five
runs. Methods and settings are those of `figure3_004`, which were chosen on a fifth of these pictures: nothing here is
private, and seeds are fixed.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from sordino.budget import Relation
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.figure3_004 import EPOCHS, NetworkRuns, methods, one_run, test_errors
from sordino.papers.figure3_report import draw as draw, tables as tables
from sordino.papers.networks import Pictures, cifar_whole, cnn5

SEEDS = "the run: first weights, batches and noise"
STALE = ("noise",)
WHOLE = False
READING = """
Test errors in per cent, replace-one as in the paper, at its three budgets. Fewer epochs (12 of gradients, where the
paper has 100), five runs where it has ten, and tanh for its ReLU. Settings are those that were chosen on a fifth of the
training pictures. Panels b, d and f have the same errors against seconds, which grow with the iterations: those of a
whole run are in the table. Panels g and h, several owners, were made of Figure 3's network alone.
"""
EXPERIMENTS = {
    "CIFAR-10, all": NetworkRuns(
        cifar_whole, cnn5, (8.0, 6.0, 10.0), 500, 1.5, methods(0.25), Relation.REPLACE_ONE, 5, points=1.0
    ),
}


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """Quick: a quarter of an epoch at the middle budget."""

    @cache
    def pictures(name: str) -> Pictures:
        return EXPERIMENTS[name].read(folder)

    def run(name: str, method: str, budget: float, seed: int) -> dict[str, Any]:
        return one_run(EXPERIMENTS[name], pictures(name), method, budget, 0.15 if quick else EPOCHS, seed)

    runs = EXPERIMENTS["CIFAR-10, all"]
    return {"noise": cell(runs.noise, 50_000, 62_006), **runs.cells("CIFAR-10, all", run, quick)}


def values(known: Known) -> dict[str, Value]:
    return test_errors(known, EXPERIMENTS)
