"""Pictures by public features and a linear model: accuracy on unseen pictures, and how long it takes.

    python benchmarks/images.py --data FOLDER [--quick] [--sets NAME ..] [--epsilons E ..] [--runs N]

`FOLDER` has mnist.npz, and what there is of fashion.npz and of CIFAR-10 (all of it as cifar10.npz, or a part of it).
delta is 1e-5, under both relations. Settings are the defaults of `PrivateImageClassifier`, planned from the number of
pictures, the number of columns and the budget; a few of them were chosen on training pictures of MNIST and of a fifth
of CIFAR-10 (see there). What a map is told was chosen on training pictures as well (`docs/pictures.md`).
The map is computed once for all budgets, and its time is told apart. Processor seconds are those of all threads
together. Results are kept after every budget, each set with where it comes from; those of other sets stay.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _results import RESULTS, data_directory

from sordino import Budget, PrivateLogisticRegression, Relation
from sordino.estimators.pictures import picture_method, picture_preparation
from sordino.features import HOG, Scattering
from sordino.papers.provenance import provenance

SETS = {
    "MNIST": ("mnist.npz", HOG),
    "CIFAR-10": ("cifar10.npz", partial(Scattering, mirrored=True, smoothed=True)),
    "CIFAR-10, opponent colours": (
        "cifar10.npz",
        partial(Scattering, mirrored=True, smoothed=True, opponent=True, compressed=True),
    ),
    "MNIST, deskewed": ("mnist.npz", partial(HOG, deskewed=True)),
    "MNIST, scattering": ("mnist.npz", partial(Scattering, deskewed=True)),
    "Fashion-MNIST": ("fashion.npz", HOG),
    "CIFAR-10, 10,000 pictures": ("cifar10_subset_10000_2000.npz", partial(Scattering, mirrored=True, smoothed=True)),
}
DELTA = 1e-5
CHOSEN = (
    "Settings and maps were chosen on training pictures. Test pictures of CIFAR-10 have been classified by six rules, "
    "each a later one, none of which was chosen by that: docs/pictures.md has their results."
)


class Clock:
    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        now = time.perf_counter(), time.process_time()
        names = ("seconds", "processor seconds")
        return {name: round(b - a, 1) for name, a, b in zip(names, self._began, now, strict=True)}


def measure(path: Any, kind: Any, runs: int, budgets: list[Budget], keep: Callable[[dict[str, Any]], None]) -> None:
    with np.load(path) as file:
        X, y, test, labels = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    y, labels, map = y.ravel(), labels.ravel(), kind(X.shape[1:])
    # scikit-learn breaks long names into lines
    name_of_map = " ".join(str(map).split())
    clock = Clock()
    rows, unseen = (map.fit(part).transform(part.astype(np.float32) / 255) for part in (X, test))
    found: dict[str, Any] = {
        "map": name_of_map,
        "pictures": len(X),
        "columns": rows.shape[1],
        "map of all pictures": clock.read(),
    }
    print(path.name, name_of_map, found, flush=True)
    for budget in budgets:
        method, scores, clocks = picture_method(len(X), rows.shape[1], budget), [], []
        for _ in range(runs):
            clock = Clock()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = PrivateLogisticRegression(
                    budget.epsilon,
                    budget.delta,
                    row_norm=1.0,
                    classes=[int(label) for label in np.unique(labels)],
                    method=method,
                    prepare=picture_preparation(len(X), rows.shape[1], budget),
                    relation=budget.relation.value,
                    records=len(X) if budget.relation is Relation.ADD_REMOVE else None,
                ).fit(rows, y)
            clocks.append(clock.read())
            scores.append(float(model.score(unseen, labels)))
        name = f"epsilon {budget.epsilon:g}, {budget.relation.value}"
        found[name] = {
            "accuracy": float(np.mean(scores)),
            "runs": scores,
            "one fit": min(clocks, key=lambda one: one["processor seconds"]),
            "batch": method.batch_size,
            "steps": method.steps,
            "step size": method.step_size,
        }
        print(path.name, name_of_map, name, found[name], flush=True)
        keep(found)


def keep(name: str, found: dict[str, Any]) -> None:
    path = RESULTS / "images.json"
    kept = json.loads(path.read_text())["sets"] if path.exists() else {}
    kept[name] = {**provenance(), **found}
    path.write_text(json.dumps({"delta": DELTA, "chosen": CHOSEN, "sets": kept}, indent=1, allow_nan=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--quick", action="store_true", help="MNIST by histograms, one run; kept nowhere")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=[3.0, 1.0])
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    folder = data_directory()
    for name in ["MNIST"] if asked.quick else asked.sets:
        file, kind = SETS[name]
        if not (folder / file).exists():
            print(f"{name} is not measured: {file} is not there")
            continue
        budgets = [Budget(epsilon, DELTA, relation) for epsilon in asked.epsilons for relation in Relation]
        if asked.quick:
            measure(folder / file, kind, 1, budgets[:1], lambda found: None)
        else:
            measure(folder / file, kind, asked.runs, budgets, partial(keep, name))


if __name__ == "__main__":
    main()
