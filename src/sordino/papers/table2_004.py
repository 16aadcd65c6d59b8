r"""Tables 2 and 3 of Wang, Jayaraman, Evans & Gu 2019: non-convex logistic regression on a9a and ijcnn1.

    sordino reproduce 004 table2 [--only a9a]

minimise   (1/n) sum_i log(1 + exp(-y_i <w, x_i>)) + lambda sum_j w_j^2/(1 + w_j^2),     lambda = 1e-3

delta = 1e-5, replace-one, Poisson batches; features as they come, no intercept. Public facts: a9a codes fourteen
attributes by zeros and ones, so a row has norm sqrt(14) at most; rows of ijcnn1 are held to norm 2. Every run is made
by itself, on batches of its own; its noise is calibrated to what it releases. Three ways to set the numbers of a run:

    plan      from n, d, the row norm and the budget alone, so all of it is private: the theorems' numbers for DP-SRM
              and RRPSGD with clip L/2, which leaves records that are classified correctly as they are; 20 balanced
              steps of DP-GD; the defaults of DP-AGD
    grid      the best of a few settings on a fifth of the training records held out, within the paper's number of
              passes. Choosing so looks at records: not private, here as there
    printed   DP-SRM with the paper's C_1 = 1, C_2 = gamma = .01, b in {50, 100, 200} and a grid of step sizes, and the
              least noise that earns the budget
    unit rows     the same with every row divided by its bound, which the paper does not rule out
    printed noise the same sizes with the noise of Theorem 4.1, its condition on alpha left aside: batches of fixed
              size, and what that noise is worth

A pass is n records read. DP-SRM takes two gradients of every record it reads; the grid's runs keep within the paper's
passes even if both are counted. DP-SGD, which the paper leaves out here, is the library's own reference: its grid has
the gradients of DP-SRM, its plan is not held to any number of passes.

Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from sordino.budget import Budget
from sordino.losses import Logistic
from sordino.methods import (
    DPSGD,
    AdaptiveGradientDescent,
    Cosine,
    DescentPlan,
    NoisyGradientDescent,
    RandomRoundSGD,
    RecursiveMomentum,
)
from sordino.methods.baselines.adaptive_gradient_descent import AdaptiveGradientDescentPlan
from sordino.methods.protocol import AnyMethod
from sordino.methods.updates import Recursive
from sordino.oracle import linear_oracle
from sordino.oracle.protocol import ExactOracle, LinearOracle
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import FullBatch
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.table2_report import (
    NOT_PRIVATE as NOT_PRIVATE,
    PRINTED as PRINTED,
    READING as READING,
    draw as draw,
    tables as tables,
)
from sordino.penalties import BoundedPenalty
from sordino.privacy.accountants import epsilon as epsilon_of
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

SEEDS = "runs 0 to 9; settings of a grid by their place; the held-out fifth by 1"
STALE = ("a9a, epsilon 0.2, DP-GD, plan", "a9a, epsilon 0.2, RRPSGD, plan", "a9a, epsilon 0.2, DP-SRM, grid")
WHOLE = False
RUNS = 10
DELTA, PENALTY = 1e-5, BoundedPenalty(1e-3)
EPSILONS = (0.2, 0.5)
BOUNDS = {"a9a": math.sqrt(14), "ijcnn1": 2.0}
TRIALS = 3
"""Runs of every setting of a grid, side by side."""


@dataclass(frozen=True, eq=False)
class Task:
    """One data set, stated and ready to be trained on."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    unit: bool = False
    """Whether rows have been divided by their bound."""

    @property
    def rows(self) -> Rows:
        bound = 1.0 if self.unit else BOUNDS[self.name]
        return Rows(bound, norm=bound)

    @property
    def problem(self) -> Problem:
        n, d = self.X.shape
        return Problem(n, d, Logistic(), row_norm=self.rows.norm, penalty=PENALTY)

    def divided(self) -> Task:
        bound = BOUNDS[self.name]
        return replace(self, X=self.X / bound, X_test=self.X_test / bound, unit=True)

    def oracle(self) -> Any:
        return linear_oracle(self.X, self.y, self.problem, self.rows)

    def held_out(self) -> Task:
        """A fifth of the training records in the place of the test records."""
        order = np.random.default_rng(1).permutation(len(self.y))
        cut = int(0.8 * len(order))
        train, test = np.sort(order[:cut]), np.sort(order[cut:])
        return Task(self.name, self.X[train], self.y[train], self.X[test], self.y[test], self.unit)

    def test_loss(self, w: np.ndarray) -> float:
        return float(np.logaddexp(0, -self.y_test * (self.X_test @ w)).mean())


def load(folder: Path, name: str) -> Task:
    parts: list[Any] = []
    for part in ("train", "test"):
        path = folder / f"{name}_{part}.npz"
        parts += [sparse.load_npz(path).tocsr().astype(np.float64), np.load(path)["y"].astype(float)]
    return Task(name, *parts)


class Counting:
    """An oracle that counts what it reads, and keeps the points it is asked about: for a table, not for a release."""

    def __init__(self, oracle: LinearOracle, records: int) -> None:
        self.oracle, self.records = oracle, records
        self.read = self.gradients = 0.0
        self.path: list[tuple[float, np.ndarray]] = []

    def draw(self, *asked: Any) -> Any:
        return self.oracle.draw(*asked)

    def release(self, query: Any, *asked: Any) -> Any:
        self.path.append((self.read / self.records, query.at))
        size = self.records if query.batch is None else len(query.batch)
        self.read += size
        self.gradients += 2 * size if hasattr(query, "difference") else size
        return self.oracle.release(query, *asked)

    def choose(self, *asked: Any) -> Any:
        self.read += self.records
        return self.oracle.choose(*asked)


def srm(n: int, passes: int, b: int, eta: float, clip: float, near: float, mix: float, **rate: Any) -> Any:
    """As many steps as the passes allow when both gradients of a record are counted, and a first batch of four."""
    return RecursiveMomentum(int(n * passes / (2 * b)) - 2, b, 4 * b, eta, clip, near, mix, **rate)


def plans(problem: Problem) -> dict[str, Any]:
    half = problem.constants.L / 2
    return {
        "DP-GD": NoisyGradientDescent(20),
        "DP-AGD": AdaptiveGradientDescent(),
        "RRPSGD": RandomRoundSGD(clip=half),
        "DP-SRM": RecursiveMomentum(clip=half),
        "DP-SGD": DPSGD(),
    }


def grids(problem: Problem, passes: dict[str, int]) -> dict[str, list[Any]]:
    L, beta, _ = problem.constants
    n = problem.records
    clips, strides = (L / 2, 3 * L / 4), (1.5, 3.0, 6.0, 12.0)
    return {
        "DP-GD": [NoisyGradientDescent(passes["DP-GD"], k / beta, C) for C in clips for k in (*strides, 24.0, 48.0)],
        "RRPSGD": [
            RandomRoundSGD(int(n * passes["RRPSGD"] / b), b, k / beta, C)
            for b in (200, 800)
            for C in clips
            for k in (0.5, 1.0, 1.9)
        ],
        "DP-SRM": [
            srm(n, passes["DP-SRM"], b, k / beta, C, C / 100, mix, rate=Cosine())
            for b in (200, 800)
            for C in clips
            for k in strides
            for mix in (0.1, 0.3)
        ],
        "DP-SGD": [
            DPSGD(int(n * passes["DP-SRM"] / 200), 200, k / beta, C, rate=Cosine()) for C in clips for k in strides
        ],
        "DP-SRM, printed": [
            srm(n, passes["DP-SRM"], b, eta, 1.0, 0.01, 0.01)
            for b in (50, 100, 200)
            for eta in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
        ],
        "DP-SRM, printed noise": [
            srm(n, passes["DP-SRM"], b, eta, 1.0, 0.01, 0.01, sampling="fixed_size", calibration="paper")
            for b in (50, 100, 200)
            for eta in (0.03, 0.1, 0.3, 1.0)
        ],
    }


def best(task: Task, budget: Budget, passes: dict[str, int], name: str) -> int:
    """Which setting of a grid does best on the held-out fifth."""
    part = task.held_out()
    problem, oracle = part.problem, part.oracle()
    start = np.zeros((TRIALS, problem.dim))
    losses = []
    for seed, method in enumerate(grids(problem, passes)[name]):
        weights = method.run(method.plan(problem, budget), problem, oracle, Randomness.seeded(seed), start).weights
        losses.append(np.mean([part.test_loss(w) for w in weights]))
    return int(np.argmin(losses))


def measure(task: Task, method: AnyMethod, budget: Budget, runs: int) -> dict[str, Any]:
    problem, oracle = task.problem, task.oracle()
    begun = time.process_time()
    plan = method.plan(problem, budget)
    planning = time.process_time() - begun
    columns: dict[str, list[float]] = {
        name: [] for name in ("test loss", "test objective", "gradient norm", "passes", "gradients", "seconds")
    }
    paths = []
    for seed in range(runs):
        counting = Counting(oracle, problem.records)
        begun = time.process_time()
        w = method.run(plan, problem, counting, Randomness.seeded(seed)).weights
        columns["seconds"].append(time.process_time() - begun)
        loss = task.test_loss(w)
        columns["test loss"].append(loss)
        columns["test objective"].append(loss + float(PENALTY.value(w)))
        columns["gradient norm"].append(float(np.linalg.norm(oracle.gradient(w) + PENALTY.gradient(w))))
        columns["passes"].append(counting.read / problem.records)
        columns["gradients"].append(counting.gradients / problem.records)
        paths.append([*counting.path, (counting.read / problem.records, w)])
    figures: dict[str, Any] = {name: float(np.mean(values)) for name, values in columns.items()}
    figures["runs"] = runs
    figures["deviation"] = float(np.std(columns["test loss"], ddof=1)) if runs > 1 else None
    figures["planning seconds"] = planning
    figures["settings"] = settings(plan, problem)
    figures["curve"] = curve(oracle, max(paths, key=len))
    figures["gradient norms"] = norms(oracle, max(paths, key=len))
    figures["epsilon"] = epsilon_of(plan.event, budget.delta, budget.relation)
    return figures


def settings(plan: DescentPlan | AdaptiveGradientDescentPlan, problem: Problem) -> dict[str, Any]:
    L, beta, _ = problem.constants
    kept: dict[str, Any] = {}
    if isinstance(plan, DescentPlan):
        kept["steps"] = plan.steps
        if isinstance(plan.update, Recursive):
            kept |= {"mix": plan.update.mix, "difference_clip": plan.update.difference_clip}
        kept["step size times beta"] = plan.step_size * beta
        if not isinstance(plan.sampling, FullBatch):
            kept["batch"] = plan.sampling.expected_size(problem.records)
        if plan.first is not None:
            kept["first batch"] = plan.first.sampling.expected_size(problem.records)
    return {**kept, "clip over L": plan.clip / L, "noise multiplier": plan.noise.multiplier}


def curve(oracle: ExactOracle, path: list[tuple[float, np.ndarray]], points: int = 60) -> list[tuple[float, float]]:
    """(passes, training objective) at a few points of one run."""
    some = np.unique(np.linspace(0, len(path) - 1, points).astype(int))
    values = oracle.value(np.stack([path[i][1] for i in some])) + PENALTY.value(np.stack([path[i][1] for i in some]))
    return [(float(path[i][0]), float(value)) for i, value in zip(some, values, strict=True)]


def norms(oracle: ExactOracle, path: list[tuple[float, np.ndarray]], points: int = 30) -> list[tuple[float, float]]:
    """(passes, norm of the whole gradient) at a few points of the same run."""
    some = np.unique(np.linspace(0, len(path) - 1, points).astype(int))
    at = [path[i][1] for i in some]
    lengths = [float(np.linalg.norm(oracle.gradient(w) + PENALTY.gradient(w))) for w in at]
    return [(float(path[i][0]), length) for i, length in zip(some, lengths, strict=True)]


def not_private(task: Task) -> dict[str, float]:
    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        margins = task.y * (task.X @ w)
        slopes = -task.y * np.exp(-np.logaddexp(0, margins))
        value = np.logaddexp(0, -margins).mean() + float(PENALTY.value(w))
        return value, task.X.T @ slopes / len(task.y) + PENALTY.gradient(w)

    found = minimize(objective, np.zeros(task.X.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    loss = task.test_loss(found.x)
    n, d = task.X.shape
    facts = {"records": n, "features": d, "objective": float(found.fun)}
    return {**facts, "test loss": loss, "test objective": loss + float(PENALTY.value(found.x))}


def one_way(task: Task, epsilon: float, way: str, runs: int) -> dict[str, Any]:
    budget, passes = Budget(epsilon, DELTA), _passes(task.name, epsilon)
    name = way.removesuffix(", grid").removesuffix(", plan")
    if way.endswith("unit rows"):
        task, name = task.divided(), name.removesuffix(", unit rows")
    if way.endswith("plan"):
        return measure(task, plans(task.problem)[name], budget, runs)
    chosen = best(task, budget, passes, name)
    return measure(task, grids(task.problem, passes)[name][chosen], budget, runs)


def _passes(name: str, epsilon: float) -> dict[str, int]:
    return {method: int(row[1]) for method, row in PRINTED[name, epsilon].items()}


_PLANS = ("DP-GD", "DP-AGD", "RRPSGD", "DP-SRM", "DP-SGD")
_GRIDS = (
    "DP-GD, grid",
    "RRPSGD, grid",
    "DP-SRM, grid",
    "DP-SGD, grid",
    "DP-SRM, printed",
    "DP-SRM, printed, unit rows",
    "DP-SRM, printed noise",
)


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """Every data set, budget and way. Quick: two runs of the plans, without DP-AGD."""

    @cache
    def read(name: str) -> Task:
        return load(folder, name)

    def measured(name: str, epsilon: float, way: str) -> dict[str, Any]:
        return one_way(read(name), epsilon, way, 2 if quick else RUNS)

    plain = [f"{name}, plan" for name in _PLANS if not (quick and name == "DP-AGD")]
    ways = plain if quick else [*plain, *_GRIDS]
    found: dict[str, Cell] = {}
    for name in BOUNDS:
        found[f"{name}, not private"] = cell(lambda name: not_private(read(name)), name)
        for epsilon in EPSILONS:
            for way in ways:
                found[f"{name}, epsilon {epsilon:g}, {way}"] = cell(measured, name, epsilon, way)
    return found


def values(known: Known) -> dict[str, Value]:
    found = {}
    for place, one in known.items():
        name, _, rest = place.partition(", epsilon ")
        if not rest:
            found[place] = Value(one["test loss"], printed=NOT_PRIVATE[name.split(",")[0]])
            continue
        epsilon, method, *_ = rest.split(", ")
        printed = PRINTED[name, float(epsilon)].get(method)
        runs = one.get("runs", RUNS)
        error = one["deviation"] / math.sqrt(runs) if one["deviation"] is not None else None
        found[place] = Value(one["test loss"], error, runs, printed[0] if printed else None)
    return found
