r"""Table 2 and Figure 1 of Yu, Zhang, Chen, Yin & Liu 2020: minimum, average and expected curvature.

    sordino reproduce 002 table2

H = X'X/n of linear regression, for features mapped to [0, 1] by their minimum and maximum. The paper does not say which
columns count as features, nor whether there is an intercept: both readings are printed, and where another set of
columns comes closer, that one too. Figure 1 draws nu(0, sigma) of Eq. 5 against sigma. The last columns are what a
careful user may see: the average curvature of rows scaled to norm one, paid for with epsilon = 0.1.

Theorem 1 then says how long to descend, T = 2 log(n)/(eta nu). `Adult` runs it at epsilon 1 with a nu that is paid for,
beside the library's own plan. (Figure 2 is accuracy against epsilon: see table4_002.)

Everything but the private columns looks at the records: research, not for release.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sordino.budget import Budget
from sordino.curvature import Curvature, curvature, descent_for_curvature, private_curvature
from sordino.domains import Ball
from sordino.losses import Squared
from sordino.methods import NoisyGradientDescent
from sordino.oracle.rows import Rows
from sordino.papers.drawing import drawing
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.table4_002 import SplitTask
from sordino.papers.table4_data import adult
from sordino.privacy.accountants import gdp_mu
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

SEEDS = "paid curvatures by the data set's place, 1 on Adult; the descents by 3"
STALE = ("Graduate Admission, 7 features, without the serial number", "Sonar, 60 features")
WHOLE = True

PRINTED = {
    "Graduate Admission": (6.68e-3, 0.40),
    "Sonar": (3.63e-4, 0.19),
    "Boston Housing": (3.44e-3, 0.34),
    "Swedish Motor": (9.07e-6, 0.24),
}
FIRST, REST = 0.08, 0.99
RUNS = 5
SIGMAS = np.geomspace(1e-3, 10, 60)


def minmax(values: Any) -> np.ndarray:
    table = np.asarray(values, dtype=float)
    low, high = table.min(axis=0), table.max(axis=0)
    return (table - low) / (high - low)


SETS = {
    ("Graduate Admission", "7 features, without the serial number"): "graduate_admission",
    ("Sonar", "60 features"): "sonar",
    ("Boston Housing", "13 features"): "boston_housing",
    ("Swedish Motor", "6 features"): "swedish_motor",
    ("Swedish Motor", "all 7 columns, the target too"): "swedish_motor",
}
"""Data set and reading, the plain one first."""


def load(folder: Path, name: str, columns: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and target."""
    table = pq.read_table(folder / f"{SETS[name, columns]}.parquet")
    names = table.column_names

    def numbers(*of: str) -> np.ndarray:
        return minmax(np.column_stack([table[one].to_numpy() for one in of]))

    if name == "Sonar":
        return numbers(*names[:-1]), np.array(table[names[-1]].to_pylist()) == "R"
    if name == "Swedish Motor":
        features = names if columns.startswith("all") else [one for one in names if one != "Payment"]
        return numbers(*features), numbers("Payment")[:, 0]
    return numbers(*names[name == "Graduate Admission" : -1]), numbers(names[-1])[:, 0]


def with_intercept(X: np.ndarray) -> np.ndarray:
    return np.hstack([X, np.ones((len(X), 1))])


def measured(X: np.ndarray, y: np.ndarray) -> Curvature:
    return curvature(X, y, Squared(1.0))


def paid(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    """(paid for, exact) average curvature of rows divided by their public bound sqrt(features)."""
    n, d = X.shape
    problem = Problem(n, d, Squared(1.0), domain=Ball(1.0))
    rows = Rows(np.sqrt(d))
    found = private_curvature(X, y, problem, rows, Budget(0.1, 1 / n**2), randomness=Randomness.seeded(seed))
    return found.average, float((X**2).mean() / d)


def of_a_set(folder: Path, name: str, columns: str, seed: int) -> dict[str, Any]:
    X, y = load(folder, name, columns)
    plain, constant = measured(X, y), measured(with_intercept(X), y)
    return {
        "data": name,
        "columns": columns,
        "minimum": plain.minimum,
        "average": plain.average,
        "with intercept": (constant.minimum, constant.average),
        "unit rows": paid(X, y, seed),
        "expected at sigma 1": plain.expected(1.0),
        "expected": [plain.expected(float(sigma)) for sigma in SIGMAS],
    }


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    found = {
        f"{name}, {columns}": cell(of_a_set, folder, name, columns, seed) for seed, (name, columns) in enumerate(SETS)
    }
    # thousands of steps on all of Adult
    return found if quick else {**found, "Adult": cell(theorem_one, folder, RUNS)}


def values(known: Known) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for place, one in known.items():
        if place == "Adult":
            found |= {f"Adult, {way}": Value(one[way]["accuracy"]) for way in ("Theorem 1", "plan")}
            continue
        for end, which in enumerate(("minimum", "average")):
            found[f"{place}: {which}"] = Value(one[which], printed=PRINTED[one["data"]][end])
            found[f"{place}: {which}, with intercept"] = Value(
                one["with intercept"][end], printed=PRINTED[one["data"]][end]
            )
    return found


def tables(known: Known) -> str:
    heads = (
        "data",
        "columns",
        "minimum",
        "average",
        "with intercept: minimum",
        "average",
        "printed: minimum",
        "average",
    )
    lines = ["| " + " | ".join((*heads, "unit rows, paid", "exact")) + " |", "|" + "---|" * 10]
    for one in (one for place, one in known.items() if place != "Adult"):
        numbers = (one["minimum"], one["average"], *one["with intercept"], *PRINTED[one["data"]], *one["unit rows"])
        lines.append(
            f"| {one['data']} | {one['columns']} | " + " | ".join(f"{number:.3g}" for number in numbers) + " |"
        )
    descent = known["Adult"]
    one, plan = descent["Theorem 1"], descent["plan"]
    lines += [
        "",
        f"Adult at epsilon 1: nu = {descent['nu, paid for']:.4g}, paid for, asks for T = {one['steps']} steps of "
        f"{one['step size']:.3g} and reaches {one['accuracy']:.1f} %; the plan takes {plan['steps']} of "
        f"{plan['step size']:.3g} and reaches {plan['accuracy']:.1f} %.",
    ]
    return "\n".join(lines) + "\n"


def theorem_one(folder: Path, runs: int) -> dict[str, Any]:
    """Adult at epsilon 1: a little of the budget pays for nu, the rest for the descent it prescribes."""
    task = SplitTask(adult(folder)(0), ridge=1e-4)
    problem, delta = task.problem, task.budget(1.0).delta
    # squares of mu_G add up: both together stay within (1, delta)
    assert math.hypot(gdp_mu(FIRST, delta), gdp_mu(REST, delta)) <= gdp_mu(1.0, delta)
    little, randomness = Budget(FIRST, delta), Randomness.seeded(1)
    nu = private_curvature(task.data.X, task.data.y, problem, task.rows, little, randomness=randomness).average
    found: dict[str, Any] = {"nu, paid for": nu}
    for name, method in (("Theorem 1", descent_for_curvature(nu, problem)), ("plan", NoisyGradientDescent())):
        scores, plan = task.accuracies(method, REST, runs, 3)
        found[name] = {"steps": plan.steps, "step size": plan.step_size, "accuracy": 100 * float(scores.mean())}
    return found


def draw(known: Known, path: Path) -> None:
    """Figure 1: solid nu(0, sigma), dashed the average curvature, of the plain readings."""
    with drawing(path, figsize=(6, 3.4)) as axes:
        drawn = set()
        for one in (one for place, one in known.items() if place != "Adult"):
            if one["data"] not in drawn:
                (line,) = axes.plot(SIGMAS, one["expected"], lw=1.2, label=one["data"])
                axes.axhline(one["average"], color=line.get_color(), lw=0.7, ls="--")
                drawn.add(one["data"])
        axes.set(xscale="log", yscale="log", xlabel="sigma", ylabel="expected curvature at 0")
        axes.legend(fontsize=7, frameon=False)


READING = """
Graduate Admission comes out exactly: seven features, no intercept. So does Sonar's average; its minimum is 10 % higher
here. Swedish Motor's printed minimum is that of all seven columns, the target among them, and its printed average that
of six: no one matrix has both. Boston Housing matches neither with nor without an intercept; several tables of that
name circulate. Everywhere the average is tens to ten thousands of times the minimum, which is the paper's point.
"""
