r"""How the excess population loss falls with n (Bassily, Feldman, Talwar & Thakurta 2019, which has no experiments).

    python benchmarks/papers/slopes_003.py [--runs 10] [--most 64000]

A generalised linear model whose population is known: x has norm one and d = 20 directions of weight 1.2^-j,
P(y = 1) = sigma(<w0, x>) with |w0| = M = 10, minimised over the ball of radius M, epsilon = 1, delta = 1/n^2, every run
on records of its own. Directions of all curvatures matter, so that every length of a descent leaves something to learn.
Theorem 3.2 promises

    E loss(w) - min loss  <=  10 M L max( sqrt(d log(1/delta)) / (epsilon n),  1/sqrt(n) ),

a slope of -1/2 against n where the second term rules and -1 where the first does.

One row per method: add (name, loss, method) to METHODS. Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from _results import RESULTS, keep

from sordino import Budget, NoisyGradientDescent, NoisySGD, Problem
from sordino.domains import Ball
from sordino.losses import Logistic, Loss
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.privacy.randomness import Randomness

D, M, EPSILON = 20, 10.0, 1.0
W0 = np.full(D, M / math.sqrt(D))
SIZES = (500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000)


class Row(NamedTuple):
    name: str
    loss: Loss
    method: Callable[[], Any]


METHODS = (
    Row("NSGD, theorem", Logistic(), NoisySGD),
    Row("NSGD, theorem, fixed-size batches", Logistic(), lambda: NoisySGD(sampling="fixed_size")),
    Row("NSGD, theorem, printed noise", Logistic(), lambda: NoisySGD(calibration="paper")),
    Row("NSGD, last iterate, balanced", Logistic(), lambda: NoisySGD(release="last", radius=M)),
    Row("noisy gradient descent", Logistic(), lambda: NoisyGradientDescent(radius=M)),
)


def unit_rows(n: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(n, D)) * 1.2 ** -np.arange(D)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def records(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = unit_rows(n, rng)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-(X @ W0))), 1.0, -1.0)


class Population:
    """Expected loss by a large sample of x, with both labels at their probabilities."""

    def __init__(self, loss: Loss) -> None:
        self.X, self.loss = unit_rows(100_000, np.random.default_rng(1)), loss
        self.positive = 1 / (1 + np.exp(-(self.X @ W0)))
        self.least = self.minimum()

    def value(self, w: np.ndarray) -> float:
        a = self.X @ w
        up, down = (self.loss.value(a, np.full(len(a), sign)) for sign in (1.0, -1.0))
        return float(np.mean(self.positive * up + (1 - self.positive) * down))

    def minimum(self) -> float:
        """Over the ball: w0 itself for the logistic loss, else by projected descent on the expected loss."""
        if isinstance(self.loss, Logistic):
            return self.value(W0)
        w, least = W0, self.value(W0)
        for t in range(2000):
            a = self.X @ w
            slopes = self.positive * self.loss.slope(a, np.ones(len(a)))
            slopes += (1 - self.positive) * self.loss.slope(a, -np.ones(len(a)))
            w = Ball(M).project(w - M / math.sqrt(t + 1) * (self.X.T @ slopes) / len(a))
            least = min(least, self.value(w))
        return least

    def excess(self, w: np.ndarray) -> float:
        return self.value(w) - self.least


def bound(n: int) -> float:
    return 10 * M * max(math.sqrt(D * math.log(n**2)) / (EPSILON * n), 1 / math.sqrt(n))


def measure(row: Row, n: int, runs: int, population: Population) -> list[float]:
    problem, budget = Problem(n, D, row.loss, domain=Ball(M)), Budget(EPSILON, 1 / n**2)
    method = row.method()
    plan = method.plan(problem, budget)
    found = []
    for seed in range(runs):
        X, y = records(n, np.random.default_rng([n, seed]))
        oracle = linear_oracle(X, y, problem, Rows(1.0))
        found.append(population.excess(method.run(plan, problem, oracle, Randomness.seeded(seed)).weights))
    return found


def slope(sizes: list[int], means: list[float]) -> float:
    """Of log excess against log n, least squares over the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(means[half:]), 1)[0])


def table(found: dict[str, Any], sizes: list[int]) -> str:
    heads = ("method", *(f"n = {n:,}" for n in sizes), "slope", "seconds")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, one in found.items():
        cells = [name, *(f"{mean:.4f}" for mean in one["mean"]), f"{one['slope']:.2f}", f"{one['seconds']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    bounds = [bound(n) for n in sizes]
    lines.append("| bound | " + " | ".join(f"{b:.3f}" for b in bounds) + f" | {slope(sizes, bounds):.2f} | |")
    return "\n".join(lines) + "\n"


def draw(found: dict[str, Any], sizes: list[int], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "sordino"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.8))
    for name, one in found.items():
        axes.plot(sizes, one["mean"], "o-", ms=3, lw=1, label=name)
    for power in (-0.5, -1.0):
        guide = [
            1.5 * one * (n / sizes[0]) ** power for n in sizes for one in [max(o["mean"][0] for o in found.values())]
        ]
        axes.plot(sizes, guide, color="grey", lw=0.6, ls=":")
        axes.annotate(f"slope {power:g}", (sizes[-1], guide[-1]), fontsize=7, color="grey", ha="right", va="bottom")
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel="excess population loss")
    axes.legend(fontsize=7, frameon=False, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


NOTES = """
Means over runs on fresh records; epsilon = 1, delta = 1/n^2, d = 20, ball of radius 10. Slopes are over the larger half
of the sizes. The theorem's T, batch and step give its rate, n^-1/2, some forty times below the bound, and
Poisson, fixed-size and printed noise hardly differ. Releasing the last iterate of a balanced descent is faster here,
because this loss is curved and the worst case is not.
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    asked = parser.parse_args()
    sizes = [n for n in SIZES if n <= asked.most]
    populations: dict[Loss, Population] = {}
    found: dict[str, Any] = {}
    for row in METHODS:
        start = time.perf_counter()
        population = populations.setdefault(row.loss, Population(row.loss))
        runs = [measure(row, n, asked.runs, population) for n in sizes]
        means = [float(np.mean(one)) for one in runs]
        found[row.name] = {
            "mean": means,
            "standard error": [float(np.std(one) / math.sqrt(len(one))) for one in runs],
            "slope": slope(sizes, means),
            "seconds": time.perf_counter() - start,
        }
        print(row.name, f"slope {found[row.name]['slope']:.2f}", flush=True)
    print(table(found, sizes))
    keep("papers/slopes_003", {"sizes": sizes, "runs": asked.runs, "bound": [bound(n) for n in sizes], **found})
    text = "# Excess population loss against n (Bassily, Feldman, Talwar & Thakurta 2019)\n\n" + table(found, sizes)
    text += NOTES + "\n![Excess population loss](slopes_003.svg)\n"
    (RESULTS / "papers" / "slopes_003.md").write_text(text)
    draw(found, sizes, RESULTS / "papers" / "slopes_003.svg")


if __name__ == "__main__":
    main()
