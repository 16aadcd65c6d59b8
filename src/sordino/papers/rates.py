r"""Tables of rates, measured: how an error and the number of gradients change with n, d and epsilon.

Made-up records: rows of norm one without a preferred direction, P(y = 1 | x) = sigma(<w0, x>), |w0| = 3; logistic loss,
delta = 1e-6. One of

    n in 1,000 .. 16,000,     d in 5 .. 80,     epsilon in .125 .. 1,       around  n = 4,000, d = 20, epsilon = .5

is changed at a time; a row may have an n of its own, where these take too many steps. An exponent is the slope of the
logarithm of the mean against the logarithm of what is changed, by least squares; its error is that of the means, which
are over independent sets of records. A theorem's exponent leaves logarithms out: log(n) alone adds some .1 to a slope
over these sizes.

    excess      F(w) - min F on the records
    norm        of the gradient of F at the released point
    gradients   of one record each, as many as the plan asks for

Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

from sordino.budget import Budget
from sordino.losses import Logistic
from sordino.methods import DescentPlan, HasBound, OutputPerturbationPlan
from sordino.methods.protocol import AnyMethod, Plan
from sordino.methods.updates import Recursive
from sordino.oracle import linear_oracle
from sordino.oracle.protocol import ExactOracle
from sordino.oracle.rows import Rows
from sordino.papers.drawing import drawing
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.penalties import Penalty
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

DELTA = 1e-6
SETS, RUNS = 4, 5
"""Sets of records, and runs on each."""
GRID: dict[str, tuple[float, ...]] = {
    "n": (1000, 2000, 4000, 8000, 16_000),
    "d": (5, 10, 20, 40, 80),
    "epsilon": (0.125, 0.25, 0.5, 1.0),
}
BASE = {"d": 20, "epsilon": 0.5}

Powers = tuple[float, float, float]
"""Of n, d and epsilon."""


@dataclass(frozen=True)
class Row:
    """A line of a table of rates: a method, what its theorem is about, and the theorem's exponents."""

    name: str
    method: Callable[[Problem, Budget], AnyMethod]
    of: Literal["excess", "norm"]
    promised: Powers
    gradients: Powers | None = None
    penalty: Penalty | None = None
    pure: bool = False
    sizes: tuple[float, ...] = GRID["n"]
    """n; the middle one goes with every d and epsilon."""
    ends: Callable[[Any, Problem, np.ndarray, np.ndarray, int, int], np.ndarray] | None = None
    """What that many runs of a plan on these records end at, by a seed, where the library's loop would take hours."""

    def problem(self, n: int, d: int) -> Problem:
        return Problem(n, d, Logistic()) if self.penalty is None else Problem(n, d, Logistic(), penalty=self.penalty)


def records(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, d, seed])
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w0 = np.full(d, 3 / math.sqrt(d))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ w0)), 1.0, -1.0)


def measure(row: Row, n: int, d: int, epsilon: float, sets: int, runs: int) -> dict[str, Any]:
    problem, budget = row.problem(n, d), Budget(epsilon, 0.0 if row.pure else DELTA)
    method = row.method(problem, budget)
    plan = method.plan(problem, budget)
    means = []
    for seed in range(sets):
        X, y = records(n, d, seed)
        oracle = linear_oracle(X, y, problem, Rows(1.0))
        if row.ends is None:
            # one by one: runs side by side share their batches, and where they stop
            some = [Randomness.seeded(1000 * seed + run) for run in range(runs)]
            ends = [method.run(plan, problem, oracle, randomness).weights for randomness in some]
        else:
            ends = list(row.ends(plan, problem, X, y, seed, runs))
        means.append(float(np.mean([_error(row, problem, oracle, w) for w in ends])))
        if row.of == "excess":
            means[-1] -= _least(problem, oracle)
    found: dict[str, Any] = {"by set": means, "runs": sets * runs, "gradients": _gradients(plan, problem)}
    if isinstance(method, HasBound):
        found["bounds"] = {bound.theorem: bound.value for bound in method.bound(problem, budget) if bound.holds}
    return found


def _error(row: Row, problem: Problem, oracle: ExactOracle, w: np.ndarray) -> float:
    if row.of == "excess":
        return float(oracle.value(w) + problem.penalty.value(w))
    return float(np.linalg.norm(oracle.gradient(w) + problem.penalty.gradient(w)))


def _least(problem: Problem, oracle: ExactOracle) -> float:
    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        return float(oracle.value(w) + problem.penalty.value(w)), oracle.gradient(w) + problem.penalty.gradient(w)

    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return float(minimize(objective, np.zeros(problem.dim), jac=True, method="L-BFGS-B", options=options).fun)


def _gradients(plan: Plan, problem: Problem) -> float | None:
    n = problem.records
    if isinstance(plan, DescentPlan):
        first = 0.0 if plan.first is None else plan.first.sampling.expected_size(n)
        later = plan.steps - (plan.first is not None)
        return first + later * plan.sampling.expected_size(n) * (2 if isinstance(plan.update, Recursive) else 1)
    if isinstance(plan, OutputPerturbationPlan):
        return plan.steps * n / plan.batches
    return None


def places(row: Row, quick: bool) -> list[tuple[str, dict[str, float]]]:
    """Which of the three is changed, and all three. Quick: the least and the largest of each."""
    base = {"n": row.sizes[len(row.sizes) // 2], **BASE}
    return [
        (axis, {**base, axis: value})
        for axis, grid in {**GRID, "n": row.sizes}.items()
        for value in ((grid[0], grid[-1]) if quick else grid)
    ]


def named(row: Row, at: dict[str, float]) -> str:
    return f"{row.name}, n = {at['n']:g}, d = {at['d']:g}, epsilon = {at['epsilon']:g}"


def along(known: Known, row: Row, axis: str) -> dict[float, Any]:
    """The cells of a row in which this one is changed, by its value."""
    asked = {at[axis]: named(row, at) for changed, at in places(row, False) if changed == axis}
    return {value: known[name] for value, name in asked.items() if name in known}


def exponent(x: list[float], y: list[float], errors: list[float]) -> tuple[float, float]:
    """Slope of log y against log x, and its standard error."""
    away = np.log(x) - np.log(x).mean()
    weights = away / (away @ away)
    relative = np.array(errors) / np.array(y)
    # no digits where nothing changes
    return round(float(weights @ np.log(y)), 12), float(np.sqrt(((weights * relative) ** 2).sum()))


@dataclass(frozen=True)
class Rates:
    """The experiment of one paper's table."""

    rows: tuple[Row, ...]

    def cells(self, folder: Path, quick: bool) -> dict[str, Cell]:
        sets, runs = (2, 2) if quick else (SETS, RUNS)
        return {
            named(row, at): cell(partial(measure, row, int(at["n"]), int(at["d"]), at["epsilon"], sets, runs))
            for row in self.rows
            for _, at in places(row, quick)
        }

    def exponents(self, known: Known) -> dict[tuple[str, str, str], tuple[float, float, float]]:
        """By row, what and axis: the exponent, its error and the theorem's; of axes with at least two places."""
        found: dict[tuple[str, str, str], tuple[float, float, float]] = {}
        for row in self.rows:
            for number, axis in enumerate(GRID):
                there = along(known, row, axis)
                if len(there) < 2:
                    continue
                means = [float(np.mean(one["by set"])) for one in there.values()]
                spreads = [
                    float(np.std(one["by set"], ddof=1)) / math.sqrt(len(one["by set"])) for one in there.values()
                ]
                if min(means) > 0:
                    found[row.name, row.of, axis] = (*exponent(list(there), means, spreads), row.promised[number])
                counts = [one["gradients"] for one in there.values()]
                if row.gradients is not None and None not in counts:
                    found[row.name, "gradients", axis] = (
                        exponent(list(there), counts, [0.0] * len(counts))[0],
                        0.0,
                        row.gradients[number],
                    )
        return found

    def values(self, known: Known) -> dict[str, Value]:
        runs = max((one["runs"] for one in known.values()), default=0)
        return {
            f"{name}: exponent of {axis} in the {what}": Value(slope, error, runs, promised)
            for (name, what, axis), (slope, error, promised) in self.exponents(known).items()
        }

    def tables(self, known: Known) -> str:
        found = self.exponents(known)
        said = f"Privacy is about replacing a record, at delta = {DELTA:g}, or 0 where it is pure.\n"
        heads = ["method", "what", *(part for axis in GRID for part in (f"{axis}: measured", "promised"))]
        lines = [said, "| " + " | ".join([*heads, "bound / measured"]) + " |", "|" + "---|" * (len(heads) + 1)]
        for row in self.rows:
            for what in (row.of, "gradients"):
                cells = []
                for axis in GRID:
                    one = found.get((row.name, what, axis))
                    if one is None:
                        cells += ["", ""]
                    else:
                        error = f" +- {one[1]:.2f}" if what != "gradients" else ""
                        cells += [f"{one[0]:.2f}{error}", f"{one[2]:.3g}"]
                if any(cells):
                    lines.append("| " + " | ".join([row.name, what, *cells, self._above(row, what, known)]) + " |")
        return "\n".join(lines) + "\n"

    def _above(self, row: Row, what: str, known: Known) -> str:
        """How far the theorem's own bound, with its constants, is above what is measured."""
        if what == "gradients":
            return ""
        ratios = []
        for _, at in places(row, False):
            one = known.get(named(row, at), {})
            mean = float(np.mean(one["by set"])) if one else 0.0
            # theorems about squared norms, of which the mean norm is at most the root
            values = [math.sqrt(v) if what == "norm" else v for v in one.get("bounds", {}).values()]
            if values and mean > 0:
                ratios.append(min(values) / mean)
        return f"{min(ratios):.1f} to {max(ratios):.1f}" if ratios else ""

    def draw(self, known: Known, path: Path) -> None:
        with drawing(path, 1, len(GRID) + 1, figsize=(4 * len(GRID) + 3, 4), squeeze=False) as panels:
            *plots, beside = panels[0]
            for axes, axis in zip(plots, GRID, strict=True):
                ticks: set[float] = set()
                for colour, row in enumerate(self.rows):
                    there = along(known, row, axis)
                    if not there:
                        continue
                    x, means = list(there), [float(np.mean(one["by set"])) for one in there.values()]
                    axes.plot(x, means, "o-", ms=3, lw=1, color=f"C{colour}", label=f"{row.name} ({row.of})")
                    power = row.promised[list(GRID).index(axis)]
                    axes.plot(x, [means[0] * (one / x[0]) ** power for one in x], ":", lw=1, color=f"C{colour}")
                    ticks |= set(x)
                axes.set(xscale="log", yscale="log", xlabel=axis)
                axes.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)], fontsize=7)
                axes.set_xticks([], minor=True)
            plots[0].set_ylabel("error; dotted: the theorem's slope")
            beside.set_axis_off()
            beside.legend(*plots[0].get_legend_handles_labels(), loc="center left", fontsize=8, frameon=False)
