r"""Figure 1 of Zhou, Chen, Hong, Wu & Banerjee 2020: DP-SGD, DP-RMSProp and DP-Adam on MNIST at equal noise.

    sordino reproduce 001 figure1

784-128-128-10 with ReLU, cross entropy, batches of 128, clip 1, noise of 2, 4 and 8 times the clip, 100 epochs, 5 runs,
steps divided by ten after every 30 epochs, as in the paper: some five hours on one core. The first five epochs, whose
steps are constant, are run by themselves too, three times, and choose the step size. Different here:

    batches     Poisson, which is what the paper's epsilon is about; it does not say what it drew
    pixels      scaled by the commonly printed mean and deviation, which are public
    nu, lambda  not printed in the paper: the library's, nu = the noise on a coordinate, lambda = 1; beta = .9, .999
                (Adam) and .99 (RMSProp)
    step size   of the paper's grid {.1, .01, .001} and the middle of its best two, the most accurate of runs as long as
                these on 50,000 training pictures, as scored on the 10,000 others. The paper takes the least training
                loss. Both look at records: not private

Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import math
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from sordino.budget import Budget, Relation
from sordino.methods import DPSGD, DPAdam, DPRMSProp
from sordino.methods.rates import StepDecay
from sordino.oracle.sampling import Poisson
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.figure1_report import EPOCHS, PRINTED, READING as READING, draw as draw, tables as tables
from sordino.papers.networks import Pictures, mlp, mnist, train
from sordino.privacy.accountants import epsilon
from sordino.privacy.accountants.rdp import ORDERS, divergences
from sordino.privacy.events import Event, repeat
from sordino.privacy.noise import GaussianNoise

SEEDS = "runs 0 to 2, in full 0 to 4, settings of the grid by 100: first weights, batches and noise"
STALE = ("epsilon of noise 2",)
WHOLE = False
RUNS, FULL_RUNS, FULL = 3, 5, 100
METHODS = {"DP-SGD": DPSGD, "DP-RMSProp": DPRMSProp, "DP-Adam": DPAdam}
NOISE = (2.0, 4.0, 8.0)
STEP_SIZES = (0.1, 0.01, 0.001)
QUICK_STEPS = {"DP-SGD": 0.03, "DP-RMSProp": 0.003, "DP-Adam": 0.003}
"""About where the grids end."""
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
    shrinks = {"rate": StepDecay(30 * len(pictures.y) // BATCH)} if epochs > 30 else {}
    settings = METHODS[method](step_size=step_size, clip=CLIP, noise_multiplier=z, **shrinks)
    return {"step size": step_size, **train(mlp, pictures, settings, AMPLE, seed, epochs, BATCH, decay=0.999)}


def grid(pictures: Pictures, method: str, z: float, epochs: float) -> dict[str, Any]:
    """The best of the grid and of the middle between its best two, on all but the last sixth of the training pictures
    and scored on those."""
    part = pictures.held_out(len(pictures.y) // 6)

    @cache
    def score(eta: float) -> float:
        return float(one_run(part, method, z, eta, epochs, 100)["accuracy"][-1])

    best, second = sorted(STEP_SIZES, key=score)[:-3:-1]
    middle = math.sqrt(best * second)
    chosen = max(best, second, middle, key=score)
    return {"step size": chosen, "accuracy": {f"{eta:.2g}": score(eta) for eta in (*STEP_SIZES, middle)}}


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """What the noise costs, the grids, the runs. Quick: one run of one epoch at the largest noise, by chosen steps."""

    @cache
    def pictures() -> Pictures:
        return mnist(folder)

    def run(method: str, z: float, seed: int, epochs: int, known: Known) -> dict[str, Any]:
        if quick:
            return one_run(pictures(), method, z, QUICK_STEPS[method], 1, seed)
        return one_run(pictures(), method, z, known[f"grid, {method}, {z:g}"]["step size"], epochs, seed)

    found = {f"epsilon of noise {z:g}": cell(costs, z, EPOCHS) for z in NOISE}
    for z in NOISE[-1:] if quick else NOISE:
        for method in METHODS:
            grids = f"grid, {method}, {z:g}"
            if not quick:
                found[grids] = cell(lambda *case: grid(pictures(), *case), method, z, EPOCHS)
            for seed in range(1 if quick else RUNS):
                needs = () if quick else (grids,)
                found[f"{method}, {z:g}, run {seed}"] = Cell(partial(run, method, z, seed, EPOCHS), needs)
    # the widest gap of the paper first, and every run of a panel before the next run
    for z in () if quick else NOISE[::-1]:
        for seed in range(FULL_RUNS):
            for method in METHODS:
                made = partial(run, method, z, seed, FULL)
                found[f"{method}, {z:g}, in full, run {seed}"] = Cell(made, (f"grid, {method}, {z:g}",))
    return found


def values(known: Known) -> dict[str, Value]:
    """Accuracy after the first epoch and at the end; the epsilon of the paper's hundred epochs by its accountant."""
    found = {}
    for z in NOISE:
        if (costly := f"epsilon of noise {z:g}") in known:
            found[f"noise {z:g}: epsilon by moments, 100 epochs"] = Value(
                known[costly]["moments, 100 epochs"], printed=PRINTED[f"{z:g}"]
            )
        for method in METHODS:
            short = [one for place, one in known.items() if place.startswith(f"{method}, {z:g}, run")]
            whole = [one for place, one in known.items() if place.startswith(f"{method}, {z:g}, in full, run")]
            for words, place, runs in (
                ("after 1 epoch", 0, short),
                (f"after {EPOCHS} epochs", EPOCHS - 1, short),
                (f"after {FULL} epochs", FULL - 1, whole),
            ):
                reached = [100 * one["accuracy"][place] for one in runs if len(one["accuracy"]) > place]
                if reached:
                    error = float(np.std(reached, ddof=1) / math.sqrt(len(reached))) if len(reached) > 1 else None
                    found[f"{method}, noise {z:g}, {words}"] = Value(float(np.mean(reached)), error, len(reached))
    return found
