r"""Figures 3 and 4 of Wang, Jayaraman, Evans & Gu 2019: convolutional networks by DP-SRM and by DP-SGD.

    python benchmarks/papers/figure3_004.py --data FOLDER [--epochs 8] [--runs 1] [--only MNIST,CIFAR-10] [--go-on]

About forty minutes on one core. delta = 1e-5, add/remove, Poisson batches, noise by privacy loss distributions.

    MNIST      28 x 28, 26,010 weights, epsilon 1.2, 3 and 7, batches of 512
    CIFAR-10   CNN5, 62,006 weights, epsilon 2, 4 and 8, batches of 250; 10,000 of the 50,000 pictures, so five times
               the noise that the paper's runs need

Three methods with the same network (tanh, whose gradients are small), batches and number of gradients:

    DP-SGD              as in the paper, without momentum
    DP-SGD, momentum    m_t = .9 m_{t-1} + g_t
    DP-SRM              recursive momentum: two gradients per record and step, so half as many steps

Different here: runs and epochs are fewer than the paper's 10 and 20 or more, the paper's networks have ReLU, and step
sizes, clips and mix are fixed numbers instead of the best of a grid on the test pictures: values that are common for
private networks, and for DP-SRM the best of four tried on held-out training pictures, which looks at records and is
not in epsilon. `--go-on` keeps the runs that are in the results file already. Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _networks import Pictures, Runs, cifar, cnn5, mnist, small_cnn, train
from _results import RESULTS, data_directory, keep
from torch import nn

from sordino import Budget
from sordino.methods import DPSGD, RecursiveMomentum
from sordino.methods.rates import Cosine
from sordino.privacy.accountants import epsilon
from sordino.problem import NetworkProblem

NAME = "papers/figure3_004"
DELTA = 1e-5
RATE = Cosine(0.1)


@dataclass(frozen=True)
class Experiment:
    """A data set, its network, the budgets, and the settings of every method."""

    read: Callable[[Path], Pictures]
    network: Callable[[], nn.Module]
    epsilons: tuple[float, ...]
    batch_size: int
    lengthened: float
    """How many times the epochs that were asked for."""
    methods: dict[str, Any]


def methods(scale: float) -> dict[str, Any]:
    """The settings of all three."""
    return {
        "DP-SGD, momentum": DPSGD(step_size=2 * scale, clip=0.1, momentum=0.9, rate=RATE),
        "DP-SRM": RecursiveMomentum(step_size=4 * scale, clip=1.0, difference_clip=0.03, mix=0.1, rate=RATE),
        "DP-SGD": DPSGD(step_size=10 * scale, clip=0.1, rate=RATE),
    }


GRADIENTS = {"DP-SRM": 2}
"""Per record and step, where it is not one."""
EXPERIMENTS = {
    "MNIST": Experiment(mnist, small_cnn, (3.0, 1.2, 7.0), 512, 1.0, methods(1.0)),
    "CIFAR-10": Experiment(cifar, cnn5, (8.0, 2.0, 4.0), 250, 1.5, methods(0.25)),
}


def one_run(
    experiment: Experiment, pictures: Pictures, method: str, budget: float, epochs: float, seed: int
) -> dict[str, Any]:
    return train(
        experiment.network,
        pictures,
        experiment.methods[method],
        Budget(budget, DELTA, "add_remove"),
        seed,
        epochs * experiment.lengthened / GRADIENTS.get(method, 1),
        experiment.batch_size,
        decay=0.97,
        points=2,
    )


def measure(runs: Runs, name: str, pictures: Pictures, epochs: float, repeats: int) -> None:
    """Every method at every budget, the printed figure's middle budget first."""
    experiment = EXPERIMENTS[name]
    for seed in range(repeats):
        for budget in experiment.epsilons:
            for method in experiment.methods:
                runs.run(
                    f"{name}, {budget:g}, {method}, run {seed}",
                    lambda m=method, e=budget, s=seed: one_run(experiment, pictures, m, e, epochs, s),
                )


def cost_of_printed_noise(nominal: float, batch: int, steps: int) -> float:
    """What the noise of Theorem 4.1 for MNIST costs (replace-one, fixed batches), its side condition left aside."""
    method = RecursiveMomentum(
        steps, batch, 4 * batch, 0.1, 1.5, 0.1, 0.1, sampling="fixed_size", calibration="paper"
    )  # fmt: skip
    budget = Budget(nominal, DELTA)
    plan = method.plan(NetworkProblem(60_000, 26_010), budget)
    return epsilon(plan.event, DELTA, budget.relation)


def printed_noise() -> dict[str, dict[str, float]]:
    """By batch size, five epochs of it: nominal epsilon to true one."""
    lengths = {b: 5 * 60_000 // b for b in (256, 512, 1024)}
    return {
        f"b = {b}, T = {T}": {f"{nominal:g}": cost_of_printed_noise(nominal, b, T) for nominal in (1.2, 3.0, 7.0)}
        for b, T in lengths.items()
    }


def main() -> None:
    from _figure3_report import write

    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=float, default=8)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", default=",".join(EXPERIMENTS))
    parser.add_argument("--go-on", action="store_true")
    asked = parser.parse_args()
    folder = data_directory()
    runs = Runs.going_on(NAME) if asked.go_on else Runs.beginning(NAME)
    for name in asked.only.split(","):
        measure(runs, name, EXPERIMENTS[name].read(folder), asked.epochs, asked.runs)
    found = {"epochs": asked.epochs, "printed noise": printed_noise(), "runs": runs.found}
    keep(NAME, found, "torch")
    write(found, RESULTS / "papers")


if __name__ == "__main__":
    main()
