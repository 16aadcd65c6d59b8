"""Is anything slower than it was?  One ratio a row: processor time of ours over that of a yardstick, in the same run.

    python benchmarks/quick.py            goal, committed and now; fails where a ratio is worse by over a fifth
    python benchmarks/quick.py --keep     the same, and what was measured becomes what is committed
    python benchmarks/quick.py dense      these rows alone

Fair by construction: one thread on both sides, runs in turn, the least of several on either side. The time on the
clock is told too; other processes disturb it more, so that it decides nothing. A yardstick is what a peer takes for the
same work where there is one, else work of a fixed size: a read of the matrix, a Fourier transform, an import.
"""

from __future__ import annotations

import os

# before NumPy is imported: its library of matrix products reads them once
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SORDINO_THREADS"), "1"))

import argparse
import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from _results import RESULTS, keep
from numba import njit
from scipy import fft, sparse

from sordino.budget import Budget, Relation
from sordino.estimators.linear import prepared_method
from sordino.losses import Logistic, Softmax
from sordino.methods import NoisyGradientDescent, ObjectivePerturbation, RepeatedSelection, Setting
from sordino.methods.protocol import planned
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Poisson
from sordino.papers.provenance import provenance
from sordino.privacy import accountants, calibrate as calibration
from sordino.privacy.events import Composed, FixedSizeSampled, Gaussian, PoissonSampled, repeat
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

WORSE = 1.2
CLIP = 0.5
Run = Callable[[], object]
"""Timed from outside, unless it says what it `Took`."""


@dataclass(frozen=True)
class Took:
    cpu: float
    wall: float


@dataclass(frozen=True)
class Row:
    """`ours` takes at most `goal` times as long as `theirs`; or, in processor seconds, at most `seconds`."""

    name: str
    theirs: str
    ours: Run
    yardstick: Run
    goal: float | None = None
    seconds: float | None = None
    rounds: int = 5


@dataclass(frozen=True)
class Measured:
    cpu: float
    wall: float
    our_seconds: float
    their_seconds: float


def measured(row: Row) -> Measured:
    least = np.full((2, 2), math.inf)
    for number in range(row.rounds + 1):
        for side, run in enumerate((row.ours, row.yardstick)):
            wall, cpu = time.perf_counter(), _processor_seconds()
            told = run()
            outside = _processor_seconds() - cpu, time.perf_counter() - wall
            took = (told.cpu, told.wall) if isinstance(told, Took) else outside
            # the first round compiles
            if number or row.rounds == 1:
                least[side] = np.minimum(least[side], took)
    (cpu, wall), (their_cpu, their_wall) = least
    return Measured(*(float(f"{x:.4g}") for x in (cpu / their_cpu, wall / their_wall, cpu, their_cpu)))


def _processor_seconds() -> float:
    """Of this process and of those it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


@njit(nogil=True)
def _read(words):
    """Nothing that takes longer than the memory does: a sum of floats would be slower than a read of them."""
    seen = np.uint64(0)
    for i in range(words.size):
        seen |= words[i]
    return seen


def exact(oracle: Any, query: Gradient) -> np.ndarray:
    """The sum that a release would perturb."""
    return oracle._total(oracle.model.asked(query), query.batch, query.at.shape)


def dense() -> Iterator[Row]:
    """A matrix that a large last cache holds, on some machines, and one of 256 MB that comes from memory.

    Both sides find it in the same place, and a cache is read twice as fast: the same work is a larger ratio there.
    """
    goals = {2: None, 5: 2.5, 20: 1.6, 100: 1.4, 1000: 1.3, 10_000: None}
    for kind in (np.float64, np.float32):
        for d, goal in goals.items():
            sizes = [8_000_000 // d] + [(1 << 28) // (np.dtype(kind).itemsize * d)] * (goal is not None)
            for n in sizes:
                X, y, w = _records(n, d, kind)
                oracle = linear_oracle(X, y, Problem(n, d, Logistic()), Rows(2.0))
                yield Row(
                    f"dense gradient, {n:,} x {d} {np.dtype(kind).name}",
                    "reading it",
                    partial(exact, oracle, Gradient(w, CLIP)),
                    partial(_read, X.reshape(-1)[: n * d // 2 * 2].view(np.uint64)),
                    goal if kind is np.float64 or goal is None else round(1.5 * goal, 2),
                )


def softmax() -> Iterator[Row]:
    n, d, K = 50_000, 100, 10
    X, y, _ = _records(n, d, np.float32)
    rng = np.random.default_rng(1)
    for name, loss, targets, at in (
        ("softmax of 10 classes", Softmax(K), rng.integers(0, K, n).astype(float), rng.standard_normal(K * d)),
        ("10 models", Logistic(), y, rng.standard_normal((K, d))),
    ):
        problem = Problem(n, d, loss)
        single, double = (linear_oracle(A, targets, problem, Rows(2.0)) for A in (X, X.astype(np.float64)))
        query = Gradient(at, CLIP)
        yield Row(
            f"{name}, {n:,} x {d} float32", "float64", partial(exact, single, query), partial(exact, double, query), 1.0
        )
    oracle = linear_oracle(X.astype(np.float64), y, Problem(n, d, Logistic()), Rows(2.0))
    seven, eight = (partial(exact, oracle, Gradient(at[:k], CLIP)) for k in (7, 8))
    yield Row(f"a stack of 7, {n:,} x {d} float64", "one of 8", seven, eight, 1.0)


def rows_as_given() -> Iterator[Row]:
    """Fits of rows that are not a matrix of doubles in C order."""
    import pandas as pd

    from sordino import PrivateLogisticRegression

    n, d = 40_000, 20
    X, y, _ = _records(n, d, np.float64)
    labels = (y > 0).astype(int)
    model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], prepare=None, method=NoisyGradientDescent(steps=20))
    for name, given in (
        ("F order", np.asfortranarray(X)),
        ("int8", (20 * X).astype(np.int8)),
        ("pandas", pd.DataFrame(X, columns=[f"c{j}" for j in range(d)])),
    ):
        yield Row(
            f"fit of {name} rows, {n:,} x {d}",
            "C order",
            partial(model.fit, given, labels),
            partial(model.fit, X, labels),
            1.5,
        )


def predict() -> Iterator[Row]:
    from sklearn.linear_model import LogisticRegression

    from sordino import PrivateLogisticRegression

    for kind in (np.float32, np.float64):
        X, y, _ = _records(60_000, 200, kind)
        few, labels = X[:5000], (y[:5000] > 0).astype(int)
        peer = LogisticRegression(max_iter=3).fit(few, labels)
        for prepare, what, goal in ((None, "", 1.05), ("auto", ", prepared", None)):
            model = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], prepare=prepare).fit(few, labels)
            yield Row(
                f"predict, 60,000 x 200 {np.dtype(kind).name}{what}",
                "scikit-learn",
                partial(model.predict, X),
                partial(peer.predict, X),
                goal,
            )


def sparse_rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    n, d, entries = 30_000, 47_236, 75
    zipf = 1 / np.arange(1, d + 1)
    for law, columns in (
        ("uniform", rng.integers(0, d, (n, entries))),
        ("Zipf", rng.permutation(d)[rng.choice(d, (n, entries), p=zipf / zipf.sum())]),
    ):
        starts = np.arange(0, n * entries + 1, entries, dtype=np.int32)
        values = rng.standard_normal(n * entries) / math.sqrt(entries)
        X = sparse.csr_matrix((values, np.sort(columns, axis=1).ravel().astype(np.int32), starts), shape=(n, d))
        X.sum_duplicates()
        y, w = rng.choice([-1.0, 1.0], n), rng.standard_normal(d)
        oracle = linear_oracle(X, y, Problem(n, d, Logistic()), Rows(2.0))
        yield Row(
            f"sparse gradient, {law} columns",
            "SciPy's two passes",
            partial(exact, oracle, Gradient(w, CLIP)),
            partial(_two_passes, X, y, w, oracle),
            round(1 / 1.7, 3),
        )


def _two_passes(X: Any, y: np.ndarray, w: np.ndarray, oracle: Any) -> np.ndarray:
    given = oracle.blocks.blocks[0].given
    limits = CLIP * given.inverses
    slopes = -y / (1 + np.exp(y * (given.scales * (X @ w))))
    return X.T @ (given.scales * np.clip(slopes, -limits, limits))


def draws() -> Iterator[Row]:
    """Each between two gradients, which drive it out of the caches. A mean: some draws are made for several steps."""
    n, d = 1_000_000, 20
    X, y, w = _records(n, d, np.float64)
    oracle = linear_oracle(X, y, Problem(n, d, Logistic()), Rows(2.0))
    for rate, steps in ((0.001, 512), (0.01, 96), (0.1, 8)):
        randomness = Randomness.system()
        draw = partial(oracle.draw, Poisson(rate), randomness)
        gradient = partial(exact, oracle, Gradient(w, CLIP, draw()))
        yield Row(
            f"Poisson draw, rate {rate}, {n:,} x {d}",
            "the batch's gradient",
            partial(_in_turn, draw, gradient, steps),
            partial(_in_turn, gradient, draw, steps),
            0.1,
            rounds=8,
        )


def _in_turn(told: Run, other: Run, times: int) -> Took:
    """What the one takes in the mean, of processor and clock."""
    cpu = wall = 0.0
    for _ in range(times):
        before = time.process_time(), time.perf_counter()
        told()
        cpu, wall = cpu + time.process_time() - before[0], wall + time.perf_counter() - before[1]
        other()
    return Took(cpu / times, wall / times)


def accounting() -> Iterator[Row]:
    signal = np.random.default_rng(0).standard_normal(1 << 20)
    transform = partial(fft.rfft, signal)
    for name, kind, relation in (
        ("Poisson, add_remove", PoissonSampled, Relation.ADD_REMOVE),
        ("Poisson, replace_one", PoissonSampled, Relation.REPLACE_ONE),
        ("fixed size, replace_one", FixedSizeSampled, Relation.REPLACE_ONE),
    ):
        yield Row(
            f"calibration, 100,000 steps, {name}",
            "a transform of 2^20",
            partial(_calibrated, kind, Budget(1.0, 1e-6, relation)),
            transform,
            seconds=0.5,
            rounds=3,
        )
    levels = np.linspace(1.0, 3.0, 1000).tolist()
    schedule = Composed(tuple((PoissonSampled(Gaussian(z), 0.01), 1) for z in levels))
    guarantee = partial(_guaranteed, schedule)
    yield Row("guarantee of 1,000 noise levels", "a transform of 2^20", guarantee, transform, seconds=3.0, rounds=2)


def _guaranteed(schedule: Composed) -> float:
    accountants._guarantee.cache_clear()
    return accountants.guarantee(schedule, 1e-5, Relation.ADD_REMOVE).epsilon


def _calibrated(kind: type, budget: Budget) -> float:
    # what was found before is not looked for again
    calibration._found.clear()
    return calibration.calibrate(lambda z: repeat(kind(Gaussian(z), 1e-4), 10**5), budget)


def planning() -> Iterator[Row]:
    """What "auto" prepares, which method it takes and all of its numbers; every table has a size of its own."""
    from sordino import PrivateLinearRegression, PrivateLogisticRegression

    x = np.random.default_rng(0).standard_normal(2**20)
    sizes = itertools.count()

    def plan(n: int, d: int, classes: int, epsilon: float) -> object:
        records = n + next(sizes)
        budget = Budget(epsilon, 1 / records**2)
        if classes:
            task = PrivateLogisticRegression(row_norm=1.0).task(np.arange(classes))
        else:
            task = PrivateLinearRegression(row_norm=1.0, target_bound=1.0).task()
        problem = task.problem(records, d, budget=budget)
        return planned(prepared_method("auto", "auto", problem, budget), problem, budget)

    def plans(n: int) -> None:
        for d, classes, epsilon in itertools.product((10, 100), (0, 2, 10), (0.1, 1.0)):
            plan(n, d, classes, epsilon)

    for n in (500, 3_000, 20_000):
        transforms = partial(fft.rfft, x)
        yield Row(f"12 plans of {n:,} records", "a transform of 2^20", partial(plans, n), transforms, seconds=12 * 0.06)


def fits() -> Iterator[Row]:
    from sklearn.linear_model import LogisticRegression

    from sordino import PrivateLogisticRegression

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 5))
    y = (X @ [2, -1, 0.5, 0, 1] + rng.logistic(size=20_000) > 0).astype(int)
    model = PrivateLogisticRegression(epsilon=1.0, row_norm=math.sqrt(5), classes=[0, 1])
    plain = LogisticRegression()
    yield Row(
        "second fit of the README's example",
        "scikit-learn",
        partial(model.fit, X, y),
        partial(plain.fit, X, y),
        seconds=0.06,
    )
    X, y, _ = _records(30_000, 100, np.float64)
    labels, l2 = (y > 0).astype(int), 1e-4
    perturbed = PrivateLogisticRegression(row_norm=2.0, classes=[0, 1], l2=l2, method=ObjectivePerturbation())
    # the same penalty for both: l2/2 |w|^2 on rows divided by 2 against the sum of losses + |w|^2 / (2 C)
    plain = LogisticRegression(C=4 / (len(y) * l2), max_iter=1000)
    yield Row(
        "objective perturbation, 30,000 x 100",
        "scikit-learn",
        partial(perturbed.fit, X, labels),
        partial(plain.fit, X, labels),
        1.0,
    )


def many_classes() -> Iterator[Row]:
    """As many records and columns as MNIST has; how long a plan is depends on nothing else about them."""
    from sordino import PrivateLogisticRegression

    rng = np.random.default_rng(0)
    X, y = rng.random((60_000, 784)), rng.integers(10, size=60_000)
    model = PrivateLogisticRegression(3.0, row_norm=math.sqrt(784), classes=range(10))
    read = partial(_read, X.reshape(-1).view(np.uint64))
    yield Row("fit of 60,000 x 784, 10 classes", "reading it", partial(model.fit, X, y), read, seconds=30.0, rounds=1)


def search() -> Iterator[Row]:
    """The same runs every time: their number is random, and what is compared must not be."""
    from sklearn.linear_model import LogisticRegression

    from sordino import PrivateLogisticRegression, PrivateSearch

    n, d, steps = 100_000, 50, 50
    X, y, _ = _records(n, d, np.float64)
    problem, rows, budget = Problem(n, d, Logistic()), Rows(2.0), Budget(1.0, 1e-10)
    oracle, one = linear_oracle(X, y, problem, rows), NoisyGradientDescent(steps=steps)
    settings = RepeatedSelection(tuple(Setting(one, l2) for l2 in (1e-5, 1e-4, 1e-3, 1e-2)))
    plan, single = settings.plan(problem, budget), one.plan(problem, budget)

    def runs() -> object:
        return settings.run(plan, problem, oracle, Randomness.seeded(0))

    def alone() -> object:
        return one.run(single, problem, oracle, Randomness.seeded(0))

    yield Row(f"search of 4 settings, {n:,} x {d}, {steps} steps", "one of its runs", runs, alone, rounds=2)
    strengths = {"l2": [1e-4, 1e-3, 1e-2, 1e-1]}
    best = PrivateSearch(PrivateLogisticRegression(row_norm=2.0, classes=[-1.0, 1.0], random_state=0), strengths)
    fit, plain = partial(best.fit, X, y), partial(LogisticRegression().fit, X, y)
    yield Row(f"search of 4 penalties, {n:,} x {d}", "one fit of scikit-learn", fit, plain, seconds=6.0, rounds=2)


_EXAMPLE = """
import numpy as np
from sordino import PrivateLogisticRegression
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=({n}, {d}))
y = (X[:, :5] @ [2, -1, 0.5, 0, 1] + rng.logistic(size={n}) > 0).astype(int)
PrivateLogisticRegression(epsilon=1.0, row_norm={d}**0.5, classes=[0, 1]).fit(X, y)
"""
_IMPORT = "from sordino import PrivateLogisticRegression"


def processes() -> Iterator[Row]:
    """Whole processes, from their start to their end; goals are those of a fit and of what is imported together."""
    folder = tempfile.TemporaryDirectory()

    # a session of their own: others' releases are nothing to warn of. And bytecode is kept, as that of an installed
    # package is: a source tree whose modules are compiled anew in every process would be compared with one that is not
    left_out = "SORDINO_SESSION", "PYTHONDONTWRITEBYTECODE"
    around = {name: value for name, value in os.environ.items() if name not in left_out}

    def run(code: str, cache: str = folder.name) -> None:
        subprocess.run([sys.executable, "-c", code], check=True, env={**around, "NUMBA_CACHE_DIR": cache})

    def cold(code: str) -> None:
        with tempfile.TemporaryDirectory() as empty:
            run(code, empty)

    peer, own = partial(run, "import sklearn.linear_model"), partial(run, _IMPORT)
    yield Row("import, fresh process", "importing scikit-learn", partial(run, _IMPORT), peer, 1.15, rounds=3)
    small, large = _EXAMPLE.format(n=20_000, d=5), _EXAMPLE.format(n=100_000, d=20)
    for name, code, seconds in (("first fit", small, 2.5), ("first fit of 100,000 x 20", large, None)):
        yield Row(f"{name}, kernels kept", "its imports", partial(run, code), own, 1.3 if seconds else None, rounds=2)
        yield Row(f"{name}, nothing compiled", "its imports", partial(cold, code), own, seconds=seconds, rounds=1)
    folder.cleanup()


def _records(n: int, d: int, kind: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=kind) / kind(math.sqrt(d))
    return X, rng.choice([-1.0, 1.0], n), rng.standard_normal(d)


TOPICS = (
    dense,
    softmax,
    rows_as_given,
    predict,
    sparse_rows,
    draws,
    accounting,
    planning,
    fits,
    many_classes,
    search,
    processes,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", nargs="?", default="", choices=["", *(topic.__name__ for topic in TOPICS)])
    parser.add_argument("--keep", action="store_true", help="commit to what is measured now")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    # rows may be measured by themselves, so that each says by which code
    path, commit = RESULTS / "quick.json", provenance()["commit"]
    committed = json.loads(path.read_text())["rows"] if path.exists() else {}
    print(f"{'':52} {'over':22} {'goal':>9} {'committed':>9} {'now':>8} {'clock':>8} {'seconds':>9}")
    found, worse = {}, []
    for topic in TOPICS:
        if told.topic not in ("", topic.__name__):
            continue
        for row in topic():
            now, before = measured(row), committed.get(row.name, {}).get("cpu")
            if before is not None and now.cpu > WORSE * before:
                # once more: a busy machine makes some runs slow, and none fast
                now = min(now, measured(row), key=lambda one: one.cpu)
            about = {"over": row.theirs, "goal": row.goal, "goal seconds": row.seconds, "commit": commit}
            found[row.name] = {**about, **vars(now)}
            if before is not None and now.cpu > WORSE * before:
                worse.append(row.name)
            goal = f"{row.goal:g}" if row.goal is not None else f"{row.seconds:g} s" if row.seconds else ""
            was, mark = "" if before is None else f"{before:.2f}", "  WORSE" if row.name in worse else ""
            figures = f"{goal:>9} {was:>9} {now.cpu:8.2f} {now.wall:8.2f} {now.our_seconds:9.3g}{mark}"
            print(f"{row.name:52} {row.theirs:22} {figures}", flush=True)
    if told.keep:
        keep("quick", {"threads": 1, "rows": {**committed, **found}}, "numba", "threadpoolctl")
    elif worse:
        sys.exit(f"Slower than committed by more than a fifth: {'; '.join(worse)}.")


if __name__ == "__main__":
    main()
