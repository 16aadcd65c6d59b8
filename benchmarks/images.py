"""Pictures by public features and a linear model: accuracy on unseen pictures, and how long it takes.

    python benchmarks/images.py --data FOLDER [--quick] [--sets NAME ..] [--runs N]

`FOLDER` has mnist.npz, and what there is of fashion.npz and of CIFAR-10 (all of it as cifar10.npz, or a part of it).
delta is 1e-5, replace-one. Settings are the defaults, planned from public facts; the noise that a score is planned to
end with was chosen on MNIST.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from _results import data_directory, keep

from sordino import PrivateImageClassifier

SETS = {
    "MNIST": ("mnist.npz", "hog"),
    "MNIST, scattering": ("mnist.npz", "scattering"),
    "Fashion-MNIST": ("fashion.npz", "hog"),
    "CIFAR-10": ("cifar10.npz", "scattering"),
    "CIFAR-10, 10,000 pictures": ("cifar10_subset_10000_2000.npz", "scattering"),
}
EPSILONS = (1.0, 3.0)


def measure(path: Any, features: str, runs: int, epsilons: tuple[float, ...]) -> dict[str, Any]:
    with np.load(path) as file:
        X, y, test, labels = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    classes = [int(label) for label in np.unique(labels)]
    found: dict[str, Any] = {"pictures": len(X), "features": features}
    for epsilon in epsilons:
        scores, seconds = [], []
        for _ in range(runs):
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = PrivateImageClassifier(epsilon, 1e-5, features=features, classes=classes).fit(X, y.ravel())
            seconds.append(time.perf_counter() - began)
            scores.append(float(model.score(test, labels.ravel())))
        method = model.certificate_.method
        found[str(epsilon)] = {
            "accuracy": float(np.mean(scores)),
            "runs": scores,
            "seconds a fit, the map included": float(np.mean(seconds)),
            "batch": method.batch_size,
            "steps": method.steps,
            "step size": method.step_size,
        }
        print(path.name, features, epsilon, found[str(epsilon)], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--quick", action="store_true", help="MNIST by histograms, one run; kept nowhere")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    folder, figures = data_directory(), {}
    for name in ["MNIST"] if asked.quick else asked.sets:
        file, features = SETS[name]
        if not (folder / file).exists():
            figures[name] = f"not measured: {file} is not there"
            continue
        figures[name] = measure(folder / file, features, 1 if asked.quick else asked.runs, EPSILONS)
    if not asked.quick:
        keep("images", {"guarantee": "(epsilon, 1e-5), replace-one", "sets": figures})


if __name__ == "__main__":
    main()
