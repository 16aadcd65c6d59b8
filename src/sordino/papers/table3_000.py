r"""Table 3 of Zhang, Zheng, Mou & Wang 2017: output perturbation against noisy mini-batch SGD on five data sets.

    sordino reproduce 000 table3 [--only wine]

The paper leaves open how rows are scaled, the Huber threshold, L, beta, D and what the mini-batch baseline is. Here
features are one-hot and min-max by public schemas (`schemas/`), targets lie in [0, 1], the threshold is 1, w_0 = 0, and

    paper            rows as they are, |x| <= sqrt(columns);  printed constants, L + 2 mu D, D = sqrt(2 F(0)/mu)
    same rows        the same problem with the least noise that earns the budget
    unit rows        rows divided by their public bound, least noise

For mu = 0 nothing bounds |w*|; D is then the planner's public guess. The baseline takes batches of m = 50 and is run
to its end, (n/m)^2 steps, in a loop of its own (`table3_baseline`). With unit rows its noise is the least that T
sampled releases need. With printed constants it depends on how its paper's theorem is carried over to batches:

    baseline                 sigma = (2L/m) sqrt(log(3n/(m delta)) log(2/delta)) / epsilon,  with the L + 2 mu D of ours
    baseline, data term      the same with the L of the data term, which the library charges for (mu > 0 only)
    baseline, 2014           sigma = (L/m) sqrt(32 log(n/(m delta)) log(1/delta)) / epsilon: the constant of the
                             original at rate m/n, again with L + 2 mu D

Errors are F(w) - F(w*) on the training records, means over the runs. Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sordino.budget import Budget
from sordino.losses import Huber, Logistic, Loss
from sordino.methods import BassilySmithThakurta, OutputPerturbation
from sordino.methods.protocol import Calibration
from sordino.methods.schedule import expected_radius
from sordino.oracle import linear_oracle
from sordino.oracle.protocol import LinearOracle
from sordino.oracle.rows import Rows
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.table3_baseline import descend
from sordino.papers.table3_report import READING as READING, assembled, draw as draw, printed_errors, tables as tables
from sordino.penalties import Ridge
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem
from sordino.tabular.columns import ClassTarget, Number, block_width
from sordino.tabular.encode import encode_features, encode_target
from sordino.tabular.schema import Schema

SEEDS = "noise of ours by 1, of the baseline by 2, of its timing by 3"
STALE = ("WINE, mu 0.5, same rows", "WINE, mu 0.5, paper, baseline")
WHOLE = False
RUNS, BASELINE_RUNS = 100, 10
HERE = Path(__file__).parent
EPSILONS, DELTA = (0.1, 0.5, 1.0, 2.0), 1e-3
BATCH = 50
TIMED_STEPS = 5000
"""Of the baseline."""


@dataclass(frozen=True)
class TableSource:
    name: str
    file: str
    printed_features: int
    loss: Loss
    mu: float


SOURCES = (
    TableSource("BANK", "bank", 42, Logistic(), 0.1),
    TableSource("ADULT", "adult", 110, Logistic(), 0.1),
    TableSource("CreditCard", "creditcard_default", 34, Logistic(), 0.1),
    TableSource("WINE", "wine_quality", 12, Huber(1.0, 1.0), 0.5),
    TableSource("BIKE", "bike_hour", 62, Huber(1.0, 1.0), 0.5),
)

# name, rows divided by their bound, calibration
MODES: tuple[tuple[str, bool, Calibration], ...] = (
    ("paper", False, "paper"),
    ("same rows", False, "tight"),
    ("unit rows", True, "tight"),
)


Read = tuple[np.ndarray, np.ndarray, float]


def load(source: TableSource, folder: Path) -> Read:
    """Rows with numbers in [0, 1], targets +-1 or in [0, 1], and the public bound on a row's norm."""
    schema = Schema.load(HERE / "schemas" / f"{source.name.lower()}.toml")
    table = pq.read_table(folder / f"{source.file}.parquet")
    if "split" in table.column_names:
        table = table.filter(pc.equal(table["split"], "train"))
    X, y = np.asarray(encode_features(schema, table)), encode_target(schema, table)
    first = 0
    for column in schema.columns.values():
        if isinstance(column, Number):
            X[:, first] = (1 + X[:, first]) / 2
        first += block_width(column)
    if isinstance(schema.target, ClassTarget):
        return X, np.where(y == schema.target.classes[1], 1.0, -1.0), schema.row_norm
    return X, (1 + y) / 2, schema.row_norm


@dataclass(frozen=True, eq=False)
class ErmTask:
    """One data set in one mode at one mu."""

    X: np.ndarray
    y: np.ndarray
    problem: Problem
    oracle: LinearOracle
    radius: float
    least: float
    """F at the minimiser."""
    trace: float
    """Of the Hessian there."""

    def errors(self, w: np.ndarray) -> np.ndarray:
        return self.oracle.value(w) + self.problem.penalty.value(w) - self.least


def stated(X: np.ndarray, y: np.ndarray, bound: float, loss: Loss, mu: float, unit: bool) -> ErmTask:
    norm = 1.0 if unit else bound
    n, d = X.shape
    problem = Problem(n, d, loss, row_norm=norm, penalty=Ridge(mu))
    oracle = linear_oracle(X, y, problem, Rows(bound, norm=norm))
    scaled = np.ascontiguousarray(X * (norm / bound))
    radius = expected_radius(problem) if mu == 0 else problem.radius
    return ErmTask(scaled, y, problem, oracle, radius, *least(scaled, y, loss, mu))


def least(X: np.ndarray, y: np.ndarray, loss: Loss, mu: float) -> tuple[float, float]:
    """min F by Newton's method, damped, and the trace of the Hessian there."""
    n, d = X.shape
    w = np.zeros(d)

    def objective(w: np.ndarray) -> float:
        return float(loss.value(X @ w, y).mean() + mu / 2 * w @ w)

    now = objective(w)
    for _ in range(100):
        a = X @ w
        gradient = X.T @ loss.slope(a, y) / n + mu * w
        # collinear columns leave directions without curvature, in which the objective does not change
        hessian = (X.T * loss.curvature(a, y)) @ X / n + (mu + 1e-9) * np.eye(d)
        step, length = np.linalg.solve(hessian, gradient), 1.0
        while objective(w - length * step) > now and length > 1e-8:
            length /= 2
        w = w - length * step
        before, now = now, objective(w)
        if before - now < 1e-13:
            break
    return now, float(np.trace(hessian))


def ours(task: ErmTask, calibration: Calibration, runs: int) -> Iterator[dict[str, Any]]:
    """Every epsilon on one path of descent: it has no noise, so a shorter run is its beginning."""
    problem = task.problem
    method = OutputPerturbation(radius=task.radius, calibration=calibration)
    plans: dict[float, Any] = {epsilon: method.plan(problem, Budget(epsilon, DELTA)) for epsilon in EPSILONS}
    w, step, seconds = problem.start(), 0, 0.0
    # kernels are loaded before anything is timed
    task.oracle.gradient(w)
    for epsilon, plan in plans.items():
        began = time.process_time()
        while step < plan.steps:
            w = w - plan.step_size * (task.oracle.gradient(w) + problem.penalty.gradient(w))
            step += 1
        seconds += time.process_time() - began
        errors = task.errors(plan.noise.perturb(np.tile(w, (runs, 1)), Randomness.seeded(1)))
        yield {
            "epsilon": epsilon,
            "steps": plan.steps,
            "noise": plan.noise.std,
            "error": float(errors.mean()),
            "standard error": float(errors.std() / math.sqrt(runs)),
            "error without noise": float(task.errors(w)),
            "seconds": seconds,
        }


def readings(task: ErmTask, calibration: Calibration, epsilon: float) -> dict[str, float]:
    """Noise of the baseline on the mean over a batch, for every way to read its theorem."""
    problem = task.problem
    L, _, mu = problem.constants
    method = BassilySmithThakurta(BATCH, radius=task.radius, calibration=calibration)
    planned: Any = method.plan(problem, Budget(epsilon, DELTA))
    sigma = planned.noise.std / BATCH
    if calibration == "tight":
        return {"baseline": sigma}
    # what the paper's own theorem charges for: the penalised loss on the ball of radius 2D
    penalised = (L + 2 * mu * task.radius) / L
    original = L / BATCH * math.sqrt(32 * math.log(problem.records / (BATCH * DELTA)) * math.log(1 / DELTA)) / epsilon
    found = {"baseline": sigma * penalised, "baseline, 2014": original * penalised}
    return {**found, "baseline, data term": sigma} if mu > 0 else found


def short(task: ErmTask) -> bool:
    """Whether a run of the baseline is."""
    return task.problem.records < 20_000


def baseline(task: ErmTask, sigma: float, runs: int) -> dict[str, Any]:
    """(n/m)^2 steps, `runs` times side by side, or four times as often where they are short."""
    runs *= 4 if short(task) else 1
    L, _, mu = task.problem.constants
    T = math.ceil((task.problem.records / BATCH) ** 2)
    first = 1 / mu if mu > 0 else task.radius / math.sqrt(L**2 + task.problem.dim * sigma**2)
    w = descend(task.X, task.y, task.problem, T, BATCH, sigma, first, runs, seed=2)
    errors = task.errors(w)
    spread = float(errors.std() / math.sqrt(runs))
    return {"steps": T, "runs": runs, "noise": sigma, "error": float(errors.mean()), "standard error": spread}


def seconds_per_step(task: ErmTask, steps: int) -> float:
    """Of one baseline run."""

    def run(steps: int) -> float:
        began = time.process_time()
        descend(task.X, task.y, task.problem, steps, BATCH, 1.0, 1.0, 1, seed=3)
        return time.process_time() - began

    run(10)
    return run(steps) / steps


def facts(source: TableSource, data: Read, timed: int) -> dict[str, Any]:
    X, y, bound = data
    per_step = seconds_per_step(stated(X, y, bound, source.loss, 0.0, unit=False), timed)
    return {
        "records": len(y),
        "features": X.shape[1],
        "features, first categories dropped": dropped_first(source),
        "printed features": source.printed_features,
        "row norm": bound,
        "seconds per baseline step": per_step,
    }


def dropped_first(source: TableSource) -> int:
    """Columns where a category of k values has k - 1 of them."""
    columns = Schema.load(HERE / "schemas" / f"{source.name.lower()}.toml").columns.values()
    return sum(block_width(column) - (not isinstance(column, Number)) for column in columns)


def ours_in(source: TableSource, data: Read, mu: float, mode: str, runs: int) -> dict[str, Any]:
    """Every epsilon."""
    _, unit, calibration = next(one for one in MODES if one[0] == mode)
    task = stated(*data, source.loss, mu, unit)
    about = {"dataset": source.name, "mu": mu, "mode": mode, "trace": task.trace}
    return {"rows": [{**about, "ours": mine} for mine in ours(task, calibration, runs)], "runs": runs}


def baseline_in(source: TableSource, data: Read, mu: float, mode: str, runs: int) -> dict[str, Any]:
    """Every epsilon and reading."""
    _, unit, calibration = next(one for one in MODES if one[0] == mode)
    task = stated(*data, source.loss, mu, unit)
    noises = [readings(task, calibration, epsilon) for epsilon in EPSILONS]
    return {"rows": [{name: baseline(task, sigma, runs) for name, sigma in those.items()} for those in noises]}


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """Every data set, mu and mode, ours and the baseline apart. Quick: the baseline on WINE alone, run four times."""

    @cache
    def read(source: TableSource) -> Read:
        return load(source, folder)

    def measured(what: Callable[..., dict[str, Any]], source: TableSource, *setting: Any) -> dict[str, Any]:
        return what(source, read(source), *setting)

    found: dict[str, Cell] = {}
    for source in SOURCES:
        found[f"{source.name}, size"] = cell(measured, facts, source, TIMED_STEPS // 10 if quick else TIMED_STEPS)
        for mu in (0.0, source.mu):
            for mode, _, _ in MODES:
                name = f"{source.name}, mu {mu:g}, {mode}"
                found[name] = cell(measured, ours_in, source, mu, mode, RUNS)
                if mode != "same rows" and (source.name == "WINE" or not quick):
                    often = 1 if quick else BASELINE_RUNS
                    found[f"{name}, baseline"] = cell(measured, baseline_in, source, mu, mode, often)
    return found


def values(known: Known) -> dict[str, Value]:
    printed = printed_errors()
    found = {}
    for one in assembled(known).values():
        for row in one["rows"]:
            where = f"{row['dataset']}, mu {row['mu']:g}, epsilon {row['ours']['epsilon']:g}, {row['mode']}"
            theirs = printed[row["dataset"], row["mu"], row["ours"]["epsilon"]] if row["mode"] == "paper" else {}
            own = float(theirs["ours_error"]) if theirs else None
            mine = row["ours"]
            found[f"{where}: ours"] = Value(mine["error"], mine["standard error"], row["runs"], own)
            for name in ("baseline", "baseline, data term", "baseline, 2014"):
                if name in row:
                    beside = float(theirs["bassily_error"]) if theirs and name == "baseline" else None
                    found[f"{where}: {name}"] = Value(
                        row[name]["error"], row[name]["standard error"], row[name]["runs"], beside
                    )
    return found
