"""Correlated noise: records in their order, without secret batches, and what noise each kind of run is planned with.

    python benchmarks/correlated.py --data FOLDER [--runs N] [--choose]

`FOLDER` has mnist.npz. A softmax model of histograms of oriented gradients, four epochs in order, cosine steps, delta
1e-5, replace-one. Batches, clip and step size were chosen on the last 10,000 training pictures, by runs on the first
50,000 (`--choose` does so again, in half an hour); what is kept is trained on all 60,000 and measured on the test
pictures, which had no say in that grid, but were looked at in first trials before it. Independent noise has two rows:
with the hundred batches of an epoch with which correlated noise is mostly compared, and with the few large ones that
are best for it. Beside them, without records, the noise of the mean iterate that the plans of other runs have.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _results import data_directory, keep

from sordino import DPSGD, Budget, PrivateLogisticRegression, verify
from sordino.features import HOG
from sordino.losses import Logistic
from sordino.methods import Cosine, DescentPlan
from sordino.oracle.sampling import CyclicPoisson
from sordino.privacy.correlated_noise import CorrelatedNoise
from sordino.privacy.correlation import BandedToeplitz
from sordino.privacy.correlation_choice import prefix_error
from sordino.problem import Problem

EPOCHS, DELTA = 4, 1e-5


class Setting(NamedTuple):
    batches: int
    clip: float
    step: float


# by the kind of noise and epsilon
CHOSEN = {
    ("independent, 100 batches", 1.0): Setting(100, 0.3, 10.0),
    ("independent, 100 batches", 3.0): Setting(100, 0.5, 14.0),
    ("independent", 1.0): Setting(10, 0.3, 400.0),
    ("independent", 3.0): Setting(10, 0.3, 467.0),
    ("correlated, one vector", 1.0): Setting(50, 0.3, 133.0),
    ("correlated, one vector", 3.0): Setting(100, 0.3, 200.0),
    ("correlated, bands", 1.0): Setting(50, 0.3, 133.0),
    ("correlated, bands", 3.0): Setting(100, 0.3, 200.0),
}
# batches, clips, and step sizes times the clip at 100 batches; fewer batches take longer steps
GRID = {
    ("independent, 100 batches", 1.0): ((100,), (0.3, 0.5), (1.5, 3.0, 5.0)),
    ("independent, 100 batches", 3.0): ((100,), (0.3, 0.5), (4.0, 7.0, 10.0)),
    ("independent", 1.0): ((20, 10, 4), (0.3,), (3.0, 6.0, 12.0, 20.0)),
    ("independent", 3.0): ((20, 10, 4), (0.3,), (7.0, 14.0, 28.0, 40.0)),
    ("correlated, one vector", 1.0): ((100, 50, 25), (0.3, 0.5), (14.0, 20.0, 30.0)),
    ("correlated, one vector", 3.0): ((100, 50, 25), (0.3, 0.5), (40.0, 60.0, 80.0)),
}


def noise_of(name: str, batches: int) -> dict[str, Any]:
    if name.startswith("independent"):
        return {"noise": "independent"}
    return {"bands": batches} if name.endswith("bands") else {}


def accuracy(train: Any, test: Any, epsilon: float, name: str, setting: Setting) -> tuple[float, float]:
    X, y = train
    batches, clip, step = setting
    noise = noise_of(name, batches)
    method = DPSGD(EPOCHS * batches, len(X) // batches, step, clip, rate=Cosine(0.0), sampling="in_order", **noise)
    model = PrivateLogisticRegression(
        epsilon, DELTA, row_norm=1.0, classes=range(10), fit_intercept=False, method=method, l2=0.0
    )
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.process_time() - began
    if not all(finding.holds for finding in verify(model.certificate_)):
        raise RuntimeError("a certificate does not verify, so that its figure would say nothing.")
    return float(model.score(*test)), seconds


def choose(train: Any, runs: int) -> None:
    """The best of a grid on records that are kept apart."""
    (X, y), left = train, 50_000
    part, rest = (X[:left], y[:left]), (X[left:], y[left:])
    for (name, epsilon), (batches, clips, reaches) in GRID.items():
        found = {}
        for b, clip, reach in itertools.product(batches, clips, reaches):
            setting = Setting(b, clip, reach / clip * 100 / b)
            found[setting] = np.mean([accuracy(part, rest, epsilon, name, setting)[0] for _ in range(runs)])
        best = max(found, key=lambda one: found[one])
        print(name, epsilon, best, f"{found[best]:.4f}", flush=True)


def pictures(train: Any, test: Any, runs: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for (name, epsilon), setting in CHOSEN.items():
        measured = [accuracy(train, test, epsilon, name, setting) for _ in range(runs)]
        scores, seconds = zip(*measured, strict=True)
        mean = float(np.mean(scores))
        figures[f"{name}, epsilon {epsilon:g}"] = {
            "accuracy": mean,
            "standard error": float(np.std(scores, ddof=1) / math.sqrt(runs)),
            "runs": scores,
            **setting._asdict(),
            "least processor seconds of a fit": min(seconds),
        }
        print(f"{name}, epsilon {epsilon:g}: {mean:.4f} of {np.round(scores, 4)}", flush=True)
    return figures


def planned_error(plan: DescentPlan) -> float:
    """Noise of the mean iterate, in units of the step size, the clip and 1/n."""
    noise = plan.noise
    correlation = noise.correlation if isinstance(noise, CorrelatedNoise) else BandedToeplitz()
    return noise.std * prefix_error(correlation, plan.steps) * plan.records / plan.sampling.expected_size(plan.records)


def plans() -> dict[str, Any]:
    """Public facts alone: n = 60,000, b batches an epoch."""
    problem, figures = Problem(60_000, 10, Logistic()), {}
    for b, epochs, epsilon in itertools.product((100, 20), (1, 4, 10), (1.0, 3.0, 8.0)):
        budget = Budget(epsilon, DELTA)

        def plan(budget: Budget = budget, b: int = b, epochs: int = epochs, **kind: Any) -> DescentPlan:
            return DPSGD(b * epochs, 60_000 // b, 1.0, 1.0, **kind).plan(problem, budget)

        drawn, turns = plan(), plan(noise="correlated")
        one, bands = (planned_error(plan(sampling="in_order", **kind)) for kind in ({}, {"bands": b}))
        found = {
            "in order, independent over correlated": planned_error(plan(sampling="in_order", noise="independent"))
            / one,
            "in order, one vector over bands": one / bands,
            "correlated in order over Poisson": one / planned_error(drawn),
            "Poisson over bands in turns": planned_error(drawn) / planned_error(turns),
            "bands in turns": turns.sampling.period if isinstance(turns.sampling, CyclicPoisson) else 1,
            "multiplier of Poisson batches": drawn.noise.multiplier,
        }
        figures[f"{b} batches, {epochs} epochs, epsilon {epsilon:g}"] = found
        print(b, epochs, epsilon, *(f"{name} {value:.3g};" for name, value in found.items()), flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--choose", action="store_true", help="clip and step sizes, on held-out training pictures")
    asked = parser.parse_args()
    with np.load(data_directory() / "mnist.npz") as file:
        X, y, test, labels = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    features = HOG().fit(X)
    train = features.transform(X), y.ravel()
    if asked.choose:
        choose(train, asked.runs)
        return
    figures = {
        "guarantee": "(epsilon, 1e-5), replace-one",
        "MNIST, oriented gradients, 4 epochs in order": pictures(
            train, (features.transform(test), labels.ravel()), asked.runs
        ),
        "planned noise, n = 60,000": plans(),
    }
    keep("correlated", figures)


if __name__ == "__main__":
    main()
