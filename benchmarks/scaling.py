"""How time and memory grow, with fitted exponents, and a model of what does not fit this machine.

    python benchmarks/scaling.py                    everything, some ten minutes
    python benchmarks/scaling.py --only owners      one part; the rest of the results stays

Time is processor time on one thread, the least of several fits, in a process of its own for every point; memory is what
fitting adds to the records. The exponent is the slope of a straight line through the logarithms of the upper half of
the points, where constant costs no longer count.

Workers and owners are processes on this machine. Their costs are fitted on some numbers of them and then predicted for
one that had no say: `docs/scale.md` uses the same formulas for numbers that no single machine can hold.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _results import RESULTS, keep, table

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "scale.svg"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "SORDINO_THREADS"), "1")

BASE = {"records": 50_000, "columns": 50, "classes": 2, "steps": 50}
SWEEPS = {
    "records": (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "columns": (5, 15, 50, 150, 500),
    "classes": (3, 6, 12, 24, 48),
    "steps": (10, 30, 100, 300, 1000),
}
WORKERS, WORKERS_LEFT_OUT = (1, 2, 4, 8), 16
OWNERS, OWNERS_LEFT_OUT = (3, 5, 10, 20), 40
OWNERS_DIM = 2_000

Row = dict[str, float]


def linear() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for what, sizes in SWEEPS.items():
        points = [{"size": size, **_in_a_process({**BASE, what: size})} for size in sizes]
        found[what] = {
            "base": {name: value for name, value in BASE.items() if name != what},
            "points": points,
            "exponent of time": _exponent([(p["size"], p["seconds"]) for p in points]),
            "exponent of memory": _exponent([(p["size"], p["megabytes"]) for p in points]),
        }
    return found


def _in_a_process(sizes: dict[str, int]) -> Row:
    command = [sys.executable, __file__, "--point", json.dumps(sizes)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD})
    return json.loads(run.stdout)  # type: ignore[no-any-return]


def point(records: int, columns: int, classes: int, steps: int) -> Row:
    """Seconds of a fit, and megabytes that it adds to the records."""
    import warnings

    from sordino import NoisyGradientDescent, PrivateLogisticRegression

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((records, columns))
    y = rng.integers(0, classes, size=records)
    model = PrivateLogisticRegression(
        epsilon=1.0, row_norm=float(columns) ** 0.5, classes=range(classes), prepare=None,
        method=NoisyGradientDescent(steps=steps),
    )  # fmt: skip
    # compiled, planned, and the libraries loaded
    model.fit(X[:1000], y[:1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(3):
        start = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": min(times), "megabytes": (peak - before) / 1024, "megabytes of records": X.nbytes / 2**20}


def _exponent(points: list[tuple[float, float]]) -> float | None:
    upper = [(x, y) for x, y in points[len(points) // 2 - 1 :] if y > 1e-3]
    if len(upper) < 2:
        return None
    logs = np.log(np.array(upper))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def workers() -> dict[str, Any]:
    """A step asks every worker once: seconds = step + worker W + number n d, on processors that all of them share."""
    from sordino.cluster import connected
    from sordino.losses import Logistic
    from sordino.oracle import linear_oracle
    from sordino.oracle.query import Gradient
    from sordino.oracle.rows import Rows
    from sordino.privacy.noise import GaussianNoise
    from sordino.privacy.randomness import Randomness
    from sordino.problem import Problem

    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for count in (*WORKERS, WORKERS_LEFT_OUT):
        with connected("local", count, threads=1) as cluster:
            for n, d in ((20_000, 50), (200_000, 50), (200_000, 200)):
                X = rng.standard_normal((n, d), dtype=np.float32)
                y = np.where(X[:, 0] > 0, 1.0, -1.0)
                problem = Problem(n, d + 1, Logistic())
                oracle = linear_oracle(cluster.hold(X, y), None, problem, Rows(float(d) ** 0.5, 0.4))
                noise, w = GaussianNoise.at(1.0, 2.0, problem.dim), rng.normal(size=problem.dim) * 0.1
                times = []
                for _ in range(12):
                    start = time.perf_counter()
                    oracle.release(Gradient(w, 1.0), noise, Randomness.system())
                    times.append(time.perf_counter() - start)
                rows.append({"workers": count, "records": n, "columns": d, "seconds": statistics.median(times[2:])})
    fitted = [row for row in rows if row["workers"] != WORKERS_LEFT_OUT]

    def terms(row: Row) -> list[float]:
        at_once = min(row["workers"], os.cpu_count() or 1)
        return [1.0, row["workers"], row["records"] * row["columns"] / at_once]

    constants = _fit(fitted, terms)
    names = ("seconds of a step", "seconds of a worker", "seconds of a number on one thread")
    return {
        "points": rows,
        "constants": dict(zip(names, constants, strict=True)),
        "left out": _judged([row for row in rows if row["workers"] == WORKERS_LEFT_OUT], constants, terms),
    }


TERMS: dict[str, tuple[Callable[[Row], list[float]], Callable[[Row], list[float]]]] = {
    "distributed": (
        lambda row: [row["owners"], row["owners"] ** 2, row["owners"] ** 2 * row["dim"]],
        lambda row: [row["owners"], row["owners"] * row["dim"]],
    ),
    "committee": (
        lambda row: [row["owners"], row["owners"] ** 2, row["owners"] * row["dim"]],
        lambda row: [row["owners"], row["dim"], row["owners"] * row["dim"]],
    ),
}
"""What seconds and bytes are sums of. Distributed noise: everybody deals to everybody; a committee: to its three."""


def owners() -> dict[str, Any]:
    """A secure sum of three rounds among processes that share the processors here: m owners, d numbers.

    Everybody signs a statement and hears everybody's: m^2 signatures in all, and bytes of an owner that grow with m.
    """
    from federation import run

    rows: list[Row] = []
    for count in (*OWNERS, OWNERS_LEFT_OUT):
        for mode in TERMS:
            rows += [dict(row) for row in run(count, mode, [(100, 3), (OWNERS_DIM, 3)])]
    found: dict[str, Any] = {"points": rows}
    for mode in TERMS:
        some = [row for row in rows if row["mode"] == mode]
        fitted = [row for row in some if row["owners"] != OWNERS_LEFT_OUT]
        rest = [row for row in some if row["owners"] == OWNERS_LEFT_OUT]
        time_terms, size_terms = TERMS[mode]
        seconds = _fit(fitted, time_terms)
        size = _fit(fitted, size_terms, "bytes")
        found[mode] = {
            "constants of seconds": seconds,
            "constants of bytes": size,
            "left out, seconds": _judged(rest, seconds, time_terms),
            "left out, bytes": _judged(rest, size, size_terms, "bytes"),
        }
    return found


def _fit(rows: list[Row], terms: Any, of: str = "seconds") -> list[float]:
    """Not negative, by least squares of relative errors."""
    from scipy.optimize import nnls

    values = np.array([row[of] for row in rows])
    return nnls(np.array([terms(row) for row in rows]) / values[:, None], np.ones(len(rows)))[0].tolist()  # type: ignore[no-any-return]


def _judged(rows: list[Row], constants: list[float], terms: Any, of: str = "seconds") -> list[Row]:
    return [
        {"measured": row[of], "predicted": predicted, "predicted / measured": predicted / row[of]}
        for row in rows
        for predicted in [float(np.dot(constants, terms(row)))]
    ]


def draw(found: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(12, 5.2), constrained_layout=True)
    for column, (what, sweep) in enumerate(found["linear"].items()):
        for row, (of, unit) in enumerate((("seconds", "CPU s"), ("megabytes", "MB added"))):
            axis = axes[row, column]
            points = [(p["size"], p[of]) for p in sweep["points"] if p[of] > 0]
            axis.loglog(*zip(*points, strict=True), "o-", markersize=4)
            exponent = sweep[f"exponent of {'time' if row == 0 else 'memory'}"]
            axis.set_title(f"{what}: exponent {exponent:.2f}" if exponent is not None else what, fontsize=10)
            axis.set_ylabel(unit)
            axis.grid(alpha=0.3)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("linear", "workers", "owners"))
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        print(json.dumps(point(**json.loads(given.point))))
        return
    path = RESULTS / "scaling.json"
    figures = json.loads(path.read_text()) if given.only and path.is_file() else {}
    for name, part in (("linear", linear), ("workers", workers), ("owners", owners)):
        if given.only in (None, name):
            figures[name] = part()
    kept = {name: figures[name] for name in ("linear", "workers", "owners") if name in figures}
    keep("scaling", kept, "ray", "mpyc")
    if "linear" in kept:
        draw(kept)
    lines = [("figure", "measured", "goal")]
    for what, sweep in kept.get("linear", {}).items():
        for of in ("time", "memory"):
            exponent = sweep[f"exponent of {of}"]
            lines.append((f"{of} in {what}", "flat" if exponent is None else f"{exponent:.2f}", "<= 1"))
    lines += [
        (f"{WORKERS_LEFT_OUT} workers, predicted / measured", f"{judged['predicted / measured']:.2f}", "1")
        for judged in kept.get("workers", {}).get("left out", ())
    ]
    for mode in TERMS:
        for of in ("seconds", "bytes"):
            for judged in kept.get("owners", {}).get(mode, {}).get(f"left out, {of}", ()):
                figure = f"{OWNERS_LEFT_OUT} owners, {mode}, {of}, predicted / measured"
                lines.append((figure, f"{judged['predicted / measured']:.2f}", "1"))
    table(lines)


if __name__ == "__main__":
    main()
