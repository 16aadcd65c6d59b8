r"""Figure 1 of Zhou, Chen, Hong, Wu & Banerjee 2020: DP-SGD, DP-RMSProp and DP-Adam on MNIST at equal noise.

    python benchmarks/papers/figure1_001.py --data FOLDER [--epochs 5] [--runs 3] [--noise 8,4,2] [--go-on]

About fifteen minutes on one core. 784-128-128-10 with ReLU, cross entropy, batches of 128, clip 1, noise of 2, 4 and 8
times the clip, as in the paper. Different here:

    epochs      the first 5 of the paper's 100; its step sizes shrink after 30, so these are constant
    runs        3 of each, 5 in the paper
    batches     Poisson, which is what the paper's epsilon is about; it does not say what it drew
    pixels      scaled by the commonly printed mean and deviation, which are public
    nu, lambda  not printed in the paper: the library's, nu = the noise on a coordinate, lambda = 1; beta = .9, .999
                (Adam) and .99 (RMSProp)
    step size   of the paper's grid {.1, .01, .001} and the middle of its best two, the most accurate of runs as long as
                these on 50,000 training pictures, as scored on the 10,000 others. The paper takes the least training
                loss. Both look at records: not private

`--go-on` keeps the runs that are in the results file already. Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from _networks import Pictures, Runs, mlp, mnist, train
from _results import RESULTS, data_directory, keep

from sordino import Budget
from sordino.budget import Relation
from sordino.methods import DPSGD, DPAdam, DPRMSProp
from sordino.oracle.sampling import Poisson
from sordino.privacy.accountants import epsilon
from sordino.privacy.accountants.rdp import ORDERS, divergences
from sordino.privacy.events import Event, repeat
from sordino.privacy.noise import GaussianNoise

NAME = "papers/figure1_001"
METHODS = {"DP-SGD": DPSGD, "DP-RMSProp": DPRMSProp, "DP-Adam": DPAdam}
NOISE = (2.0, 4.0, 8.0)
STEP_SIZES = (0.1, 0.01, 0.001)
BATCH, CLIP, DELTA = 128, 1.0, 1e-5
# more than any of these runs costs: what they do cost is in their certificates
AMPLE = Budget(10.0, DELTA, Relation.ADD_REMOVE)


def released(z: float, epochs: float, records: int = 60_000) -> Event:
    """What `epochs` of noisy sums with noise multiplier z release."""
    sampling = Poisson(BATCH / records)
    return repeat(sampling.event(GaussianNoise.at(z, CLIP, 1).event, records), math.ceil(epochs * records / BATCH))


def moments_epsilon(event: Event) -> float:
    """epsilon = min over alpha of  rho(alpha) + log(1/delta) / (alpha - 1)   (Mironov 2017, Proposition 3)."""
    rho = divergences(event, Relation.ADD_REMOVE)
    return float(np.min(rho + math.log(1 / DELTA) / (ORDERS - 1)))


def costs(z: float, epochs: float) -> dict[str, float]:
    """epsilon by the paper's accountant and by ours, for a run as long as here and as long as there."""
    found = {}
    for length in (epochs, 100.0):
        event = released(z, length)
        found[f"moments, {length:g} epochs"] = moments_epsilon(event)
        found[f"ours, {length:g} epochs"] = epsilon(event, DELTA, Relation.ADD_REMOVE)
    return found


def one_run(pictures: Pictures, method: str, z: float, step_size: float, epochs: float, seed: int) -> dict[str, Any]:
    settings = METHODS[method](step_size=step_size, clip=CLIP, noise_multiplier=z)
    return {"step size": step_size, **train(mlp, pictures, settings, AMPLE, seed, epochs, BATCH, decay=0.999)}


def chosen_step_size(runs: Runs, pictures: Pictures, method: str, z: float, epochs: float) -> float:
    """The best of the grid and of the middle between its best two, on all but the last sixth of the training pictures
    and scored on those."""
    part = pictures.held_out(len(pictures.y) // 6)

    def score(eta: float) -> float:
        name = f"grid, {method}, {z:g}, {eta:.2g}"
        return float(runs.run(name, lambda: one_run(part, method, z, eta, epochs, 100))["accuracy"][-1])

    best, second = sorted(STEP_SIZES, key=score)[:-3:-1]
    return max(best, second, math.sqrt(best * second), key=score)


def measure(runs: Runs, pictures: Pictures, noise: list[float], epochs: float, repeats: int) -> None:
    cases = [(method, z) for z in noise for method in METHODS]
    chosen = {(method, z): chosen_step_size(runs, pictures, method, z, epochs) for method, z in cases}
    for seed in range(repeats):
        for (method, z), eta in chosen.items():
            name = f"{method}, {z:g}, run {seed}"
            runs.run(name, lambda m=method, z=z, eta=eta, s=seed: one_run(pictures, m, z, eta, epochs, s))


def main() -> None:
    from _figure1_report import write

    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--noise", default="8,4,2")
    parser.add_argument("--go-on", action="store_true")
    asked = parser.parse_args()
    runs = Runs.going_on(NAME) if asked.go_on else Runs.beginning(NAME)
    measure(runs, mnist(data_directory()), [float(z) for z in asked.noise.split(",")], asked.epochs, asked.runs)
    found = {
        "epochs": asked.epochs,
        "epsilon": {f"{z:g}": costs(z, asked.epochs) for z in NOISE},
        "runs": runs.found,
    }
    keep(NAME, found, "torch")
    write(found, RESULTS / "papers")


if __name__ == "__main__":
    main()
