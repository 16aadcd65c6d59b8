"""How fast noise is drawn on one thread, as ratios to NumPy's generator timed in the same run.

    python benchmarks/noise.py

Every competitor runs in every round, so that a busy machine slows all of them; the table shows the best rate of each
and the median over rounds of its ratio to the baseline of its group.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from _results import keep

from sordino.privacy.discrete_gaussian import discrete_gaussian
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
from sordino.privacy.strips import cover

COUNT = 1 << 20
ROUNDS = 25
SCALE = 1.37 * 2**30  # the middle of the range that GaussianNoise uses

FIRST_CALL = """
import time
import numpy as np
from sordino.privacy.noise import GaussianNoise, L2LaplaceNoise
from sordino.privacy.randomness import Randomness
start = time.perf_counter()
randomness = Randomness.system()
GaussianNoise(1.0, 1.0, 10_000).perturb(np.zeros(10_000), randomness)
L2LaplaceNoise(1.0, 1.0, 10_000).perturb(np.zeros(10_000), randomness)
print(time.perf_counter() - start)
"""


def groups() -> dict[str, dict[str, Callable[[], object]]]:
    """Each group's first competitor is its baseline."""
    stream = Randomness.system().noise
    randomness = Randomness.system()
    pcg = np.random.Generator(np.random.PCG64())
    chacha = stream.generator
    value = pcg.standard_normal(COUNT)
    gaussian, laplace = GaussianNoise(1.0, 1.0, COUNT), L2LaplaceNoise(1.0, 1.0, COUNT)
    return {
        "normals": {
            "NumPy PCG64 (not secure)": lambda: pcg.standard_normal(COUNT),
            "NumPy on ChaCha20": lambda: chacha.standard_normal(COUNT),
            "Stream.normals (AES-256)": lambda: stream.normals(COUNT),
            "Stream.words, 64 bits (AES-256)": lambda: stream.words(COUNT),
        },
        "integers": {
            "rounded PCG64 normals (not exact)": lambda: np.rint(SCALE * pcg.standard_normal(COUNT)).astype(np.int64),
            "discrete_gaussian, s = 1.37 2^30": lambda: discrete_gaussian(SCALE, COUNT, stream),
            "discrete_gaussian, s = 1000": lambda: discrete_gaussian(1000.0, COUNT, stream),
            "discrete_gaussian, s = 20": lambda: discrete_gaussian(20.0, COUNT, stream),
        },
        "releases": {
            "value + PCG64 normals (not private)": lambda: value + pcg.standard_normal(COUNT),
            "GaussianNoise.perturb": lambda: gaussian.perturb(value, randomness),
            "L2LaplaceNoise.perturb, one row": lambda: laplace.perturb(value, randomness),
        },
    }


def seconds(run: Callable[[], object]) -> float:
    """The better of two: the first also pays for the memory that its predecessor gave back."""
    durations = []
    for _ in range(2):
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return min(durations)


def measure(competitors: dict[str, Callable[[], object]]) -> dict[str, dict[str, float]]:
    for run in competitors.values():
        run()
    rounds = [{name: seconds(run) for name, run in competitors.items()} for _ in range(ROUNDS)]
    baseline = next(iter(competitors))
    return {
        name: {
            "million_per_second": COUNT / min(r[name] for r in rounds) / 1e6,
            "ratio": statistics.median(r[baseline] / r[name] for r in rounds),
        }
        for name in competitors
    }


def setup_milliseconds() -> float:
    scales = [SCALE + i for i in range(20)]
    return 1e3 * statistics.median(seconds(lambda scale=scale: cover.__wrapped__(scale)) for scale in scales)


def first_call_seconds() -> dict[str, float]:
    """A new process that has never compiled, then one that finds the compiled kernels on disk."""
    command = [sys.executable, "-c", FIRST_CALL]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, NUMBA_CACHE_DIR=folder)
        runs = [subprocess.run(command, env=environment, capture_output=True, check=True) for _ in range(2)]
    return dict(zip(("compiling", "from disk"), (float(run.stdout) for run in runs), strict=True))


def main() -> None:
    tables = {group: measure(competitors) for group, competitors in groups().items()}
    result = {
        "settings": {"count": COUNT, "rounds": ROUNDS, "threads": 1, "scale": SCALE},
        "rates": tables,
        "setup_milliseconds_per_scale": setup_milliseconds(),
        "first_call_seconds": first_call_seconds(),
    }
    for table in tables.values():
        print(f"{'':38}{'M/s':>8}{'ratio':>8}")
        for name, row in table.items():
            print(f"{name:38}{row['million_per_second']:8.0f}{row['ratio']:8.2f}")
        print()
    print(f"setup per scale {result['setup_milliseconds_per_scale']:.1f} ms")
    print(
        "first call, imports included: " + ", ".join(f"{k} {v:.2f} s" for k, v in result["first_call_seconds"].items())
    )
    keep("noise", result, "cryptography", "randomgen")


if __name__ == "__main__":
    main()
