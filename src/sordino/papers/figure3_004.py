r"""Figures 3 and 4 of Wang, Jayaraman, Evans & Gu 2019: convolutional networks by DP-SRM and by DP-SGD.

    sordino reproduce 004 figure3 [--only mnist]

delta = 1e-5, Poisson batches, noise by privacy loss distributions. The paper's neighbours differ in the value of a
record (replace-one, five runs of MNIST); the runs under add/remove are what others report. All of CIFAR-10 is in
`figure4_004` and `figure5_004`.

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
not in epsilon. Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from sordino.budget import Budget, Relation
from sordino.methods import DPSGD, RecursiveMomentum
from sordino.methods.rates import Cosine
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.figure3_report import PRINTED, READING as READING, SHOWN, draw as draw, of, tables as tables
from sordino.papers.networks import Pictures, cifar, cnn5, mnist, small_cnn, train
from sordino.privacy.accountants import epsilon
from sordino.problem import NetworkProblem

SEEDS = "the run: first weights, batches and noise"
STALE = ("printed noise",)
WHOLE = False
EPOCHS = 8.0
DELTA = 1e-5
RATE = Cosine(0.1)


@dataclass(frozen=True)
class NetworkRuns:
    """A data set, its network, the budgets, and the settings of every method."""

    read: Callable[[Path], Pictures]
    network: Callable[[], nn.Module]
    epsilons: tuple[float, ...]
    batch_size: int
    lengthened: float
    """How many times the epochs that were asked for."""
    methods: dict[str, Any]
    relation: Relation = Relation.ADD_REMOVE
    runs: int = 1
    points: float = 2.0
    """How often an epoch is scored."""

    def cells(self, name: str, run: Callable[..., Any], quick: bool) -> dict[str, Cell]:
        """Every method at every budget, run by run, the first budget first. Quick: one run of that."""
        return {
            f"{name}, {budget:g}, {method}, run {seed}": cell(run, name, method, budget, seed)
            for seed in range(1 if quick else self.runs)
            for budget in self.epsilons[: 1 if quick else None]
            for method in self.methods
        }

    def noise(self, records: int, weights: int) -> dict[str, float]:
        """The multipliers of the plans."""
        found = {}
        for nominal in self.epsilons:
            for name, method in self.methods.items():
                T = math.ceil(EPOCHS * self.lengthened / GRADIENTS.get(name, 1) * records / self.batch_size)
                planned = replace(method, steps=T, batch_size=self.batch_size)
                plan = planned.plan(NetworkProblem(records, weights), Budget(nominal, DELTA, self.relation))
                found[f"{nominal:g}, {name}"] = plan.noise.multiplier
        return found


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
    "MNIST": NetworkRuns(mnist, small_cnn, (3.0, 1.2, 7.0), 512, 1.0, methods(1.0)),
    "CIFAR-10": NetworkRuns(cifar, cnn5, (8.0, 2.0, 4.0), 250, 1.5, methods(0.25)),
    "MNIST, replace-one": NetworkRuns(
        mnist, small_cnn, (3.0, 1.2, 7.0), 512, 1.0, methods(1.0), Relation.REPLACE_ONE, 5
    ),
}


def one_run(
    experiment: NetworkRuns, pictures: Pictures, method: str, budget: float, epochs: float, seed: int
) -> dict[str, Any]:
    run = train(
        experiment.network,
        pictures,
        experiment.methods[method],
        Budget(budget, DELTA, experiment.relation),
        seed,
        epochs * experiment.lengthened / GRADIENTS.get(method, 1),
        experiment.batch_size,
        decay=0.97,
        points=experiment.points,
    )
    return {**run, "length": epochs / EPOCHS}


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


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """What the printed noise costs, and the runs. Quick: half an epoch of MNIST at the middle budget."""

    @cache
    def pictures(name: str) -> Pictures:
        return EXPERIMENTS[name].read(folder)

    def run(name: str, method: str, budget: float, seed: int) -> dict[str, Any]:
        return one_run(EXPERIMENTS[name], pictures(name), method, budget, 0.5 if quick else EPOCHS, seed)

    found = {"printed noise": cell(printed_noise)}
    for name, experiment in EXPERIMENTS.items():
        if not quick or name == "MNIST":
            found |= experiment.cells(name, run, quick)
    return found


def values(known: Known) -> dict[str, Value]:
    return test_errors(known, EXPERIMENTS)


def test_errors(known: Known, experiments: dict[str, NetworkRuns]) -> dict[str, Value]:
    """Of the last iterates."""
    found = {}
    for name, experiment in experiments.items():
        for budget in experiment.epsilons:
            for method in experiment.methods:
                runs = of(known, name, f"{budget:g}", method)
                if not runs:
                    continue
                ends = [100 - 100 * one["accuracy"][-1] for one in runs]
                error = float(np.std(ends, ddof=1) / math.sqrt(len(ends))) if len(ends) > 1 else None
                told = {"DP-SGD": 0, "DP-SRM": 1}.get(method)
                # a short run is compared with nothing
                part = runs[0].get("length", 1.0)
                after = "" if part == 1 else f", {part:.3g} of the length"
                printed = PRINTED.get((name, f"{budget:g}")) if part == 1 else None
                found[f"{SHOWN.get(name, name)}, epsilon {budget:g}, {method}{after}: test error"] = Value(
                    float(np.mean(ends)), error, len(ends), printed[told] if printed and told is not None else None
                )
    return found
