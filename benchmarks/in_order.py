"""Records that are read in their order a few times, without settings: what correlated noise wins, and what is left.

    python benchmarks/in_order.py --data FOLDER [--runs 4]

Tables whose files are in FOLDER (`_tables.py` says how they are coded), (epsilon, 1/n^2), replace-one, everything
planned from public facts. `auto` may read the records as often as it likes. The others read them four times:
`correlated` and `independent` in order (`DPSGD(sampling="in_order")`), `Poisson` in secret batches that are as large as
those of `correlated`. Log-loss and accuracy on records that were not trained on, means of runs.
"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import Any

import numpy as np
from _results import data_directory, keep
from _tables import Split, tables
from tables import auto, scores

from sordino import DPSGD

TABLES, EPSILONS = ("compas", "credit", "a9a", "bank", "adult", "ijcnn1"), (0.5, 1.0, 3.0)


def measured(split: Split, epsilon: float) -> dict[str, Any]:
    ordered = auto(split, epsilon, method=DPSGD(sampling="in_order"))
    plan = ordered.certificate_.plan
    size = math.ceil(len(split.y) / plan["sampling"]["batches"])
    drawn = DPSGD(steps=plan["steps"], batch_size=size)
    models = {
        "auto": auto(split, epsilon),
        "correlated": ordered,
        "independent": auto(split, epsilon, method=DPSGD(sampling="in_order", noise="independent")),
        "Poisson": auto(split, epsilon, method=drawn),
    }
    return {name: scores(split, model) for name, model in models.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--runs", type=int, default=4)
    asked = parser.parse_args()
    known, figures = tables(data_directory()), {}
    for name in TABLES:
        table = known[name]()
        for epsilon in EPSILONS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs = [measured(table.split(number), epsilon) for number in range(asked.runs)]
            found = {
                kind: dict(zip(("log-loss", "accuracy"), np.mean([run[kind] for run in runs], axis=0), strict=True))
                for kind in runs[0]
            }
            figures[f"{name}, epsilon {epsilon:g}"] = found
            print(name, epsilon, {kind: f"{of['log-loss']:.4f} {of['accuracy']:.4f}" for kind, of in found.items()})
    kinds = list(next(iter(figures.values())))
    mean = {kind: float(np.mean([cell[kind]["log-loss"] for cell in figures.values()])) for kind in kinds}
    print("mean log-loss", mean)
    keep(
        "in_order", {"guarantee": "(epsilon, 1/n^2), replace-one", "runs": asked.runs, "mean log-loss": mean, **figures}
    )


if __name__ == "__main__":
    main()
