"""How fast clipped gradients are, as ratios to what the same machine does in the same minute.

    python benchmarks/kernels.py            a few minutes, both cores
    python benchmarks/kernels.py --quick    smaller data, fewer rounds

Every competitor runs in every round, so that a busy machine slows all of them. A ratio is the median over rounds of
the ratio within a round; seconds are the best of all rounds. `work` is the same ratio in processor seconds of all
threads together, which other processes disturb less: two processors well used make the speed twice the work.
`read` adds up all numbers of the matrix on all processors and does nothing else: the bound that memory sets.
Goals hold for the full size on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np
from _results import keep
from numba import njit
from scipy import sparse

from sordino.losses import Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.kernels.pool import cut, share, threads
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.problem import Problem

CLIP = 0.5

FIRST_FIT = """
import sys, time
import numpy as np
import numba
start = time.perf_counter()
numba.njit(lambda x: x + 1)(1.0)
own = time.perf_counter() - start
from sordino.losses import Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.rows import Rows
from sordino.problem import Problem
X = np.random.default_rng(0).normal(size=(100, 5))
start = time.perf_counter()
linear_oracle(X, np.sign(X[:, 0]), Problem(100, 6, Logistic()), Rows(1.0, 0.5)).gradient(np.zeros(6))
print(time.perf_counter() - start, own)
"""


@dataclass(frozen=True)
class Line:
    """What is compared: `ours` over `theirs`, at most (or at least) the goal."""

    name: str
    ours: str
    theirs: str
    seconds: float
    their_seconds: float
    ratio: float
    work: float
    goal: str


@njit(nogil=True, fastmath=True)
def _total(values):
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


def reading(X: np.ndarray) -> Callable[[], object]:
    flat = X.reshape(-1)
    ranges = cut(len(flat), max(threads(), min(128, len(flat) >> 18)))
    return lambda: share(lambda part: _total(flat[slice(*ranges[part])]), len(ranges))


Durations = dict[str, list[tuple[float, float]]]


def in_turn(runs: dict[str, Callable[[], object]], rounds: int) -> Durations:
    """(seconds, processor seconds) of every run in every round."""
    durations: Durations = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            start, work = time.perf_counter(), time.process_time()
            run()
            durations[name].append((time.perf_counter() - start, time.process_time() - work))
    return durations


def times(name: str, durations: Durations, ours: str, theirs: str, goal: str, per: float = 1.0) -> Line:
    """How many times theirs ours takes, divided by `per`."""
    pairs = list(zip(durations[ours], durations[theirs], strict=True))
    ratio, work = (round(statistics.median(a[k] / b[k] / per for a, b in pairs), 3) for k in (0, 1))
    return Line(name, ours, theirs, min(durations[ours])[0], min(durations[theirs])[0], ratio, work, goal)


def faster(name: str, durations: Durations, ours: str, theirs: str, goal: str) -> Line:
    """How many times faster ours is than theirs."""
    line = times(name, durations, ours, theirs, f"times faster, at least {goal}")
    return replace(line, ratio=round(1 / line.ratio, 3), work=round(1 / line.work, 3))


def records(n: int, d: int, kind: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=kind) / kind(np.sqrt(d))
    return X, rng.choice([-1.0, 1.0], n), rng.standard_normal(d)


def exact(oracle, query: Gradient) -> np.ndarray:
    """The sum that a release would perturb."""
    return oracle._total(oracle.model.asked(query), query.batch, query.at.shape)


def bounds(oracle) -> tuple[np.ndarray, np.ndarray]:
    """What every raw row is multiplied by, and the largest slope it may have."""
    given = oracle.blocks.blocks[0].given
    return given.scales, CLIP * given.inverses


def two_pass(X: np.ndarray, y: np.ndarray, w: np.ndarray, oracle) -> Callable[[], object]:
    """The same clipped sum in NumPy: scores, slopes, product with the transpose."""
    scales, limits = bounds(oracle)
    w = w.astype(X.dtype)

    def run() -> object:
        slopes = -y / (1 + np.exp(y * (scales * (X @ w))))
        return X.T @ (scales * np.clip(slopes, -limits, limits)).astype(X.dtype)

    return run


def dense(n: int, d: int, kind: type, rounds: int, goal: str) -> list[Line]:
    X, y, w = records(n, d, kind)
    oracle = linear_oracle(X, y, Problem(n, d, Logistic()), Rows(2.0))
    label = f"{n:,} x {d} {np.dtype(kind).name}"

    def gradient() -> object:
        return exact(oracle, Gradient(w, CLIP))

    # the threads of a BLAS library keep spinning after a product, so what uses them gets rounds of its own
    read = in_turn({"gradient": gradient, "read": reading(X)}, rounds)
    plain = in_turn({"gradient": gradient, "two-pass NumPy": two_pass(X, y, w, oracle)}, rounds)
    return [
        times(label, read, "gradient", "read", goal),
        faster(label, plain, "gradient", "two-pass NumPy", "1"),
    ]


def batches(n: int, d: int, rounds: int) -> list[Line]:
    X, y, w = records(n, d, np.float64)
    oracle = linear_oracle(X, y, Problem(n, d, Logistic()), Rows(2.0))
    batch = np.sort(np.random.default_rng(1).choice(n, n // 20, replace=False))
    scales, limits = bounds(oracle)

    def plain() -> object:
        rows, target, scale, limit = X[batch], y[batch], scales[batch], limits[batch]
        slopes = -target / (1 + np.exp(target * (scale * (rows @ w))))
        return rows.T @ (scale * np.clip(slopes, -limit, limit))

    durations = in_turn({"batch": lambda: exact(oracle, Gradient(w, CLIP, batch)), "NumPy": plain}, rounds)
    label = f"5 % of {n:,} x {d} float64"
    return [faster(label, durations, "batch", "NumPy", "1")]


def stack(n: int, d: int, models: int, kind: type, rounds: int, goal: str) -> list[Line]:
    X, y, w = records(n, d, kind)
    oracle = linear_oracle(X, y, Problem(n, d, Logistic()), Rows(2.0))
    many = np.random.default_rng(1).standard_normal((models, d))
    name = f"{models} models"
    durations = in_turn(
        {name: lambda: exact(oracle, Gradient(many, CLIP)), "one model": lambda: exact(oracle, Gradient(w, CLIP))},
        rounds,
    )
    label = f"{n:,} x {d} {np.dtype(kind).name}, per model"
    return [times(label, durations, name, "one model", goal, per=models)]


def sparse_rows(n: int, d: int, entries: int, rounds: int) -> list[Line]:
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, d, (n, entries)), axis=1).ravel().astype(np.int32)
    starts = np.arange(0, n * entries + 1, entries, dtype=np.int32)
    X = sparse.csr_matrix((rng.standard_normal(n * entries) / np.sqrt(entries), columns, starts), shape=(n, d))
    X.sum_duplicates()
    y, w = rng.choice([-1.0, 1.0], n), rng.standard_normal(d)
    oracle = linear_oracle(X, y, Problem(n, d, Logistic()), Rows(2.0))
    everyone = np.arange(n)
    many = rng.standard_normal((8, d))
    runs = {
        "with transpose": lambda: exact(oracle, Gradient(w, CLIP)),
        "rows only": lambda: exact(oracle, Gradient(w, CLIP, everyone)),
        "two-pass SciPy": two_pass(X, y, w, oracle),
        "8 models": lambda: exact(oracle, Gradient(many, CLIP)),
    }
    durations = in_turn(runs, rounds)
    label = f"{n:,} x {d:,}, {entries} entries a row"
    return [
        faster(label, durations, "with transpose", "two-pass SciPy", "1.7"),
        faster(label, durations, "rows only", "two-pass SciPy", "1"),
        times(f"{label}, per model", durations, "8 models", "with transpose", "none", per=8),
    ]


def first_fit() -> list[Line]:
    """A new process with an empty and then a filled cache of compiled kernels."""
    lines = []
    with tempfile.TemporaryDirectory() as cache:
        for name, goal in (("first fit, nothing compiled", "at most 5 s"), ("first fit, kernels kept", "none")):
            run = subprocess.run(
                [sys.executable, "-c", FIRST_FIT],
                env=dict(os.environ, NUMBA_CACHE_DIR=cache),
                capture_output=True,
                text=True,
                check=True,
            )
            ours, own = map(float, run.stdout.split())
            ratio = round(ours / own, 3)
            lines.append(Line(name, "seconds", "an empty Numba function", ours, own, ratio, ratio, goal))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the records and a few rounds; nothing is written"
    )
    quick = parser.parse_args().quick
    large, rounds = (100_000, 5) if quick else (1_000_000, 21)
    load = round(os.getloadavg()[0], 2)
    lines = [
        *dense(large, 100, np.float64, rounds, "at most 1.5"),
        *dense(32_561, 110, np.float64, 20 * rounds, "at most 2.2"),
        *dense(large, 100, np.float32, rounds, "none"),
        *batches(large, 100, rounds),
        *stack(large, 100, 100, np.float64, max(3, rounds // 4), "at most 0.25"),
        *stack(large, 100, 100, np.float32, max(3, rounds // 4), "none"),
        *sparse_rows(5_000 if quick else 50_000, 47_236, 75, 2 * rounds),
        *first_fit(),
    ]
    for line in lines:
        print(
            f"{line.name:42} {line.ours:16} {1e3 * line.seconds:9.2f} ms   {line.theirs:24} "
            f"{1e3 * line.their_seconds:9.2f} ms   ratio {line.ratio:7.3f}   work {line.work:7.3f}   goal: {line.goal}"
        )
    if quick:
        return
    settings = {
        "processors": threads(),
        "rounds": rounds,
        "other processes running": load,
        "clip": CLIP,
        "loss": "Logistic",
    }
    keep("kernels", {"settings": settings, "lines": [asdict(line) for line in lines]}, "threadpoolctl")


if __name__ == "__main__":
    main()
