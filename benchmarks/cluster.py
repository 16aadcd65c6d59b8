"""A step on two workers of a local Ray beside the same step in one process, with the records in memory in both.

python benchmarks/cluster.py                  1,000,000 x 100 records of single precision

Steps of either kind take turns, so that both meet the same machine. The workers have a share of its processors each;
the one process has them all.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import numpy as np
from _results import keep, table

from sordino.cluster import connected
from sordino.losses import Logistic
from sordino.oracle import linear_oracle
from sordino.oracle.query import Gradient
from sordino.oracle.rows import Rows
from sordino.privacy.noise import GaussianNoise
from sordino.privacy.randomness import Randomness
from sordino.problem import Problem

GOAL = 1.5
WORKERS = 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.records, given.features), dtype=np.float32)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem, rows = Problem(given.records, given.features + 1, Logistic()), Rows(12.0, 0.4)
    noise = GaussianNoise.at(1.0, 2.0, problem.dim)
    w = rng.normal(size=problem.dim) * 0.1
    batch = np.sort(rng.choice(given.records, given.records // 100, replace=False))
    # Ray's workers give way to everything else on a machine; here they are compared with a process that does not
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  as Ray spells it
    with connected("local", WORKERS) as cluster:
        oracles = {
            "one process": linear_oracle(X, y, problem, rows),
            f"{WORKERS} workers": linear_oracle(cluster.hold(X, y), None, problem, rows),
        }
        asked = {"all records": None, "one in a hundred": batch, "nobody": batch[:0]}
        found: dict[str, dict[str, list[float]]] = {which: {who: [] for who in oracles} for which in asked}
        for round_ in range(given.rounds + 2):
            for which, some in asked.items():
                for who, oracle in oracles.items():
                    start = time.perf_counter()
                    oracle.release(Gradient(w, 1.0, some), noise, Randomness.system())
                    took = time.perf_counter() - start
                    # the first rounds load, compile and start threads
                    if round_ >= 2:
                        found[which][who].append(took)
    figures: dict[str, Any] = {
        "records": given.records,
        "features": f"{given.features}, float32",
        "rounds": given.rounds,
    }
    lines = [("figure", "measured", "goal")]
    for which, times in found.items():
        medians = {who: statistics.median(values) for who, values in times.items()}
        ratio = medians[f"{WORKERS} workers"] / medians["one process"]
        figures[which] = {
            "median seconds": medians,
            "least seconds": {who: min(values) for who, values in times.items()},
            "workers / one process": ratio,
        }
        goal = f"<= {GOAL}" if which == "all records" else ""
        lines.append((f"{which}: {WORKERS} workers / one process", f"{ratio:.2f}", goal))
        lines += [(f"{which}: milliseconds, {who}", f"{1000 * value:.1f}", "") for who, value in medians.items()]
    keep("cluster", figures, "ray")
    table(lines)


if __name__ == "__main__":
    main()
