"""Objective perturbation on a9a: a full private fit beside scikit-learn's fit without privacy, in one run.

Processor time, in turn, one thread on both sides.

python benchmarks/objective.py --data FOLDER
"""

from __future__ import annotations

import os

# before NumPy is imported: its library of matrix products reads them once
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SORDINO_THREADS"), "1"))

import math
import statistics
import time
import warnings
from typing import Any

import numpy as np
from _results import data_directory, keep, table
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from sordino import PrivateLogisticRegression
from sordino.methods import ObjectivePerturbation

ROUNDS = 9
L2 = 1e-4


def main() -> None:
    folder = data_directory()
    warnings.simplefilter("ignore")
    (X, y), (X_test, y_test) = (
        (
            sparse.load_npz(folder / f"a9a_{part}.npz").tocsr().astype(np.float64),
            np.load(folder / f"a9a_{part}.npz")["y"],
        )
        for part in ("train", "test")
    )
    # the same penalty for both: l2/2 |w|^2 on rows divided by sqrt(14) against sum of losses + |w|^2 / (2 C)
    plain: Any = LogisticRegression(C=14 / (len(y) * L2), max_iter=1000)
    private: Any = PrivateLogisticRegression(
        epsilon=1.0, row_norm=math.sqrt(14), classes=[-1, 1], l2=L2, method=ObjectivePerturbation()
    )
    private.fit(X, y)
    seconds: dict[str, list[float]] = {"not private": [], "private": []}
    scores: dict[str, list[float]] = {"not private": [], "private": []}
    for _ in range(ROUNDS):
        for name, model in (("not private", plain), ("private", private)):
            start = time.process_time()
            model.fit(X, y)
            seconds[name].append(time.process_time() - start)
            scores[name].append(model.score(X_test, y_test))
    ratio = statistics.median(
        ours / theirs for ours, theirs in zip(seconds["private"], seconds["not private"], strict=True)
    )
    keep(
        "objective",
        {
            "settings": {"epsilon": 1.0, "delta": "1/n^2", "l2": L2, "rounds": ROUNDS, "threads": 1},
            "seconds": {name: statistics.median(times) for name, times in seconds.items()},
            "accuracy": {name: statistics.mean(found) for name, found in scores.items()},
            "private / not private": ratio,
        },
        "dp-accounting",
    )
    table(
        [
            ("figure", "measured", "goal"),
            ("private fit over scikit-learn's", f"{ratio:.2f}", "<= 1"),
            *((f"seconds, {name}", f"{statistics.median(times):.3f}", "") for name, times in seconds.items()),
            *((f"test accuracy, {name}", f"{statistics.mean(found):.4f}", "") for name, found in scores.items()),
        ]
    )


if __name__ == "__main__":
    main()
