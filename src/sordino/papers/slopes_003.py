r"""How the excess population loss falls with n (Bassily, Feldman, Talwar & Thakurta 2019, which has no experiments).

    sordino reproduce 003 slopes [--only logistic]

Populations that are known (`slopes_worlds`), minimised over the ball of radius M = 10, d = 20, delta = 1/n^2, every
run on records of its own. Theorems 3.2, 4.4 and 5.3 promise, with

    rate = max( sqrt(d log(1/delta)) / (epsilon n),  1/sqrt(n) ),

    noisy SGD                 10 M L rate
    the same on envelopes     24 M L rate
    objective perturbation     4 M L sqrt( 2/n + 4 d log(1/delta) / (epsilon n)^2 ), printed with 2 for 4

a slope of -1/2 against n where the second term rules (here epsilon = 1) and -1 where the first does (epsilon = 0.1).
Slopes are of log mean excess against log n, by least squares over the larger half of the sizes, for the bounds too. No
private method can do better than about M L min(1, sqrt(d)/(epsilon n)) in the worst case, which is drawn in. At one n
the dimension is changed too, for the logistic rows and those of the hinge loss's envelopes.

The last part times one gradient of a smoothed loss, in processor seconds: by the closed form of its prox, and by
descent inside every step, for which section 4 counts n^2 T^2 m gradients. Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sordino.budget import Budget
from sordino.domains import Ball
from sordino.losses import Absolute, Hinge, Logistic, Loss, MoreauSmoothed, Pinball
from sordino.methods import DescentPlan, NoisyGradientDescent, NoisySGD, ObjectivePerturbation, ProximalSmoothing
from sordino.methods.protocol import AnyMethod, Plan
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.papers.experiment import Cell, Known, Value, cell
from sordino.papers.plans import numbers
from sordino.papers.slopes_report import READING as READING, page, pictures
from sordino.papers.slopes_worlds import D, M, World
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

SEEDS = "records by (n, run) in any dimension, noise by the run, 0 to 9; the timed gradient by 7"
STALE = (
    "plans",
    "epsilon 0.1, logistic, objective perturbation, planned, n = 4000",
    "epsilon 1, logistic, noisy SGD, n = 500",
    "epsilon 1, hinge, noisy SGD on envelopes, n = 500",
)
WHOLE = False
RUNS = 10
EPSILONS = (1.0, 0.1)
SIZES = (500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000)
INNER = (10, 100, 1000, 10_000)

DIMENSIONS, AT = (5, 10, 20, 40, 80), 8000
"""d is changed at one n."""

Bound = Callable[[float, int, float, int], float]


def rate(n: int, epsilon: float, d: int) -> float:
    return max(math.sqrt(d * math.log(n**2)) / (epsilon * n), 1 / math.sqrt(n))


def theorem_3_2(L: float, n: int, epsilon: float, d: int) -> float:
    return 10 * M * L * rate(n, epsilon, d)


def theorem_4_4(L: float, n: int, epsilon: float, d: int) -> float:
    return 24 * M * L * rate(n, epsilon, d)


def theorem_5_3(L: float, n: int, epsilon: float, d: int) -> float:
    """4 M L, which its proof gives, where 2 M L is printed."""
    return 4 * M * L * math.sqrt(2 / n + 4 * d * math.log(n**2) / (epsilon * n) ** 2)


def algorithm_1(n: int, epsilon: float) -> NoisySGD:
    """The numbers of Theorem 3.2 for L = 1, also at the sizes where its condition on beta does not hold."""
    T = math.ceil(max(1, min(n / 8, (epsilon * n) ** 2 / (32 * D * math.log(n**2)))))
    return NoisySGD(T, math.ceil(n * math.sqrt(epsilon / (4 * T))), M / math.sqrt(T), calibration="paper")


class Measured(NamedTuple):
    name: str
    world: World
    method: AnyMethod | Callable[[int, float], AnyMethod]
    """Or a function of n and epsilon that gives it."""
    bound: Bound | None = None


@cache
def rows(d: int = D) -> list[Measured]:
    logistic, hinge = World("signs", Logistic(), d), World("signs", Hinge(), d)
    absolute, pinball = World("numbers", Absolute(), d), World("numbers", Pinball(0.8), d)
    return [
        Measured("logistic, noisy SGD", logistic, NoisySGD(), theorem_3_2),
        Measured("logistic, noisy SGD, fixed-size batches", logistic, NoisySGD(sampling="fixed_size"), theorem_3_2),
        Measured("logistic, noisy SGD, printed noise", logistic, algorithm_1, theorem_3_2),
        Measured("logistic, noisy SGD, last iterate, planned", logistic, NoisySGD(release="last", radius=M)),
        Measured("logistic, noisy gradient descent, planned", logistic, NoisyGradientDescent(radius=M)),
        Measured(
            "logistic, objective perturbation, printed",
            logistic,
            ObjectivePerturbation(radius=M, calibration="paper"),
            theorem_5_3,
        ),
        Measured("logistic, objective perturbation, planned", logistic, ObjectivePerturbation(radius=M)),
        *(
            row
            for name, world in (("hinge", hinge), ("absolute", absolute), ("pinball 0.8", pinball))
            for row in (
                Measured(f"{name}, noisy SGD on envelopes", world, ProximalSmoothing(NoisySGD()), theorem_4_4),
                Measured(
                    f"{name}, noisy SGD on envelopes, printed",
                    world,
                    ProximalSmoothing(calibration="paper"),
                    theorem_4_4,
                ),
                Measured(
                    f"{name}, noisy gradient descent on envelopes, planned",
                    world,
                    ProximalSmoothing(NoisyGradientDescent(radius=M)),
                ),
                Measured(
                    f"{name}, objective perturbation on envelopes, planned",
                    world,
                    ProximalSmoothing(ObjectivePerturbation(radius=M)),
                ),
            )
        ),
    ]


def stated(row: Measured, n: int, epsilon: float) -> tuple[Problem, AnyMethod]:
    method: AnyMethod = row.method(n, epsilon) if callable(row.method) else row.method
    return Problem(n, row.world.dim, row.world.loss, domain=Ball(M)), method


def plan_of(row: Measured, n: int, epsilon: float) -> Plan:
    problem, method = stated(row, n, epsilon)
    plan: Plan = method.plan(problem, Budget(epsilon, 1 / n**2))
    return plan


def measure(row: Measured, n: int, epsilon: float, runs: int) -> dict[str, list[float]]:
    problem, method = stated(row, n, epsilon)
    plan = plan_of(row, n, epsilon)
    found = []
    for seed in range(runs):
        X, y = row.world.records(n, np.random.default_rng([n, seed]))
        oracle = linear_oracle(X, y, problem, Rows(1.0))
        weights = method.run(plan, problem, oracle, Randomness.seeded(seed)).weights
        found.append(row.world.excess(weights))
    return {"excess": found}


def slope(sizes: list[int], means: list[float], errors: list[float] | None = None) -> tuple[float, float]:
    """Of log mean against log n over the larger half of the sizes, and its standard error."""
    half = len(sizes) // 2
    x = np.log(sizes[half:]) - np.log(sizes[half:]).mean()
    weights = x / (x @ x)
    relative = np.array(errors[half:] if errors else [0.0] * len(x)) / np.array(means[half:])
    return float(weights @ np.log(means[half:])), float(np.sqrt(((weights * relative) ** 2).sum()))


def inside(n: int) -> dict[str, Any]:
    """One gradient of a batch's envelopes at the sizes of Theorem 4.4: closed form, and descent inside the step.

    The inner problem of a record,  min_v phi(<v, x>) + (beta/2)|v - w|^2,  is strongly convex; subgradient steps of
    2/(beta (k + 1)) from w with weighted averages need no more than that.
    """
    hinge = Hinge()
    world = World("signs", hinge)
    problem, budget = Problem(n, D, world.loss, domain=Ball(M)), Budget(1.0, 1 / n**2)
    plan = ProximalSmoothing(calibration="paper").plan(problem, budget)
    assert isinstance(plan.inner, DescentPlan)
    beta, T, m = plan.sharpness, plan.inner.steps, round(plan.inner.sampling.expected_size(n))
    X, y = world.records(n, np.random.default_rng(7))
    oracle = linear_oracle(X, y, problem, Rows(1.0)).under(MoreauSmoothed(hinge, beta))
    batch, w = np.arange(m), np.full(D, 0.5)
    exact = oracle.gradient(w, batch) * n / m

    def seconds(what: Callable[[], Any], times: int) -> float:
        what()
        took = []
        for _ in range(times):
            start = time.process_time()
            what()
            took.append(time.process_time() - start)
        return float(np.median(took))

    found: dict[str, Any] = {"records": n, "steps": T, "batch": m, "beta": beta}
    found["closed form"] = seconds(lambda: oracle.gradient(w, batch), 200)
    found["inner"] = []
    for inner in INNER:
        descent = partial(_inner_descent, world, X[:m], y[:m], w, beta, inner)
        gradient, took = descent(), seconds(descent, 1 if inner > 1000 else 5)
        error = float(np.linalg.norm(gradient - exact))
        found["inner"].append({"steps": inner, "seconds": took, "error": error})
    # n^2 T^2 m gradients in all, T m of them side by side in the batch
    found["hours as counted in section 4"] = (n * T) ** 2 * found["inner"][-1]["seconds"] / INNER[-1] / 3600
    found["hours by closed form"] = T * found["closed form"] / 3600
    return found


def _inner_descent(world: World, X: np.ndarray, y: np.ndarray, w: np.ndarray, beta: float, inner: int) -> np.ndarray:
    v = np.tile(w, (len(y), 1))
    average = np.zeros_like(v)
    for k in range(1, inner + 1):
        g = world.loss.slope((v * X).sum(axis=1), y)[:, None] * X + beta * (v - w)
        v = v - 2 / (beta * (k + 1)) * g
        average += 2 * k / (inner * (inner + 1)) * v
    return beta * (w - average).mean(axis=0)


def cells(folder: Path, quick: bool) -> dict[str, Cell]:
    """Every epsilon, row and size by itself. Quick: three runs of the logistic rows, up to n = 8,000."""
    sizes, runs = (SIZES[:5], 3) if quick else (SIZES, RUNS)
    found = {
        f"epsilon {epsilon:g}, {row.name}, n = {n}": cell(measure, row, n, epsilon, runs)
        for epsilon in EPSILONS
        for row in rows()
        if not quick or row.name.startswith("logistic")
        for n in sizes
    }
    if quick:
        return found
    wider = {
        f"epsilon {epsilon:g}, {row.name}, d = {d}": cell(measure, row, AT, epsilon, runs)
        for epsilon in EPSILONS
        for d in DIMENSIONS
        for row in rows(d)
        if row.name in IN_DIMENSION
    }
    to_win = {f"{name}, d = {d}": cell(of_zero, d, loss) for d in DIMENSIONS for name, loss in ZERO_WEIGHTS.items()}
    return {**found, "inner descent": cell(inside, 8000), **wider, **to_win, "plans": cell(planned)}


def planned() -> dict[str, dict[str, Any]]:
    """The numbers of every plan that no theorem makes."""
    found = {}
    for epsilon in EPSILONS:
        for d in DIMENSIONS:
            for row in rows(d):
                if not row.name.endswith("planned") or not (d == D or row.name in IN_DIMENSION):
                    continue
                for n in SIZES if d == D else (AT,):
                    found[f"epsilon {epsilon:g}, {row.name}, n = {n}, d = {d}"] = numbers(plan_of(row, n, epsilon))
    return found


IN_DIMENSION = (
    "logistic, noisy SGD",
    "logistic, noisy gradient descent, planned",
    "logistic, objective perturbation, planned",
    "hinge, noisy SGD on envelopes",
    "hinge, noisy gradient descent on envelopes, planned",
)


ZERO_WEIGHTS = {"logistic, zero weights": Logistic(), "hinge, zero weights": Hinge()}
"""What there is to win."""


def of_zero(d: int, loss: Loss) -> dict[str, list[float]]:
    return {"excess": [World("signs", loss, d).excess(np.zeros(d))]}


def values(known: Known) -> dict[str, Value]:
    """Mean excess of every cell. The paper has no experiments: what it promises is in the table of slopes."""
    found = {}
    for place, one in known.items():
        if "excess" in one:
            runs = len(one["excess"])
            error = float(np.std(one["excess"], ddof=1) / math.sqrt(runs)) if runs > 1 else None
            found[place] = Value(float(np.mean(one["excess"])), error, runs)
    return found


def assembled(known: Known) -> dict[str, Any]:
    """By epsilon and row, along n."""
    found = values(known)
    slopes: dict[str, dict[str, Any]] = {}
    for epsilon in EPSILONS:
        for row in rows():
            names = [f"epsilon {epsilon:g}, {row.name}, n = {n}" for n in SIZES]
            if not all(name in found for name in names):
                continue
            means = [found[name].mean for name in names]
            errors = [found[name].error or 0.0 for name in names]
            its_slope, uncertain = slope(list(SIZES), means, errors)
            one: dict[str, Any] = {"mean": means, "standard error": errors}
            one |= {"slope": its_slope, "slope error": uncertain}
            if row.bound is not None:
                L = row.world.loss.lipschitz(1.0, M)
                bounds = [row.bound(L, n, epsilon, D) for n in SIZES]
                one |= {"bound": bounds, "bound slope": slope(list(SIZES), bounds)[0]}
            slopes.setdefault(f"epsilon = {epsilon:g}", {})[row.name] = one
    runs = max((one.runs or 0 for one in found.values()), default=0)
    together = {"sizes": list(SIZES), "runs": runs, "slopes": slopes, "dimensions": in_dimensions(found)}
    return {**together, "lower": lower, "inner descent": known.get("inner descent")}


def lower(n: int, epsilon: float, d: int = D) -> float:
    """What no (epsilon, delta)-private method can beat by more than a constant, L = 1."""
    return M * min(1.0, math.sqrt(d) / (epsilon * n))


def in_dimensions(found: dict[str, Value]) -> dict[str, dict[str, dict[int, Value]]]:
    """By epsilon and row, what is there along d; and what zero weights lose, which is what there is to win."""
    return {
        f"epsilon = {epsilon:g}": {
            name: there
            for before, names in ((f"epsilon {epsilon:g}, ", IN_DIMENSION), ("", tuple(ZERO_WEIGHTS)))
            for name in names
            if (there := {d: found[place] for d in DIMENSIONS if (place := f"{before}{name}, d = {d}") in found})
        }
        for epsilon in EPSILONS
    }


def tables(known: Known) -> str:
    return page(assembled(known))


def draw(known: Known, path: Path) -> None:
    pictures(assembled(known), path)
