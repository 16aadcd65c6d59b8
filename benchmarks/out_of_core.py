"""Training on more data than memory: the speed of a step beside the speed of reading, and the memory it takes.

python benchmarks/out_of_core.py --size 2 --folder FOLDER        2 GB of Parquet, then of arrays; deleted in the end

Every form is measured in a process of its own that may not have more than `--limit` gigabytes to write to. Reading
and steps take turns. Before each of them the files are dropped from the page cache, as files larger than memory are.
Both have all processors: reading is that of one thread or of all, whichever is faster. Every figure is the least of
several.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = 100
FILE_ROWS = 1 << 20
STEPS = 5
GOAL = 0.8


def rows(count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and labels in pieces of a file; what they hold does not matter to the speed, so pieces are alike."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((min(FILE_ROWS, count), FEATURES), dtype=np.float32)
    y = np.where(X[:, :10].sum(axis=1) + rng.logistic(size=len(X)) > 0, 1, -1).astype(np.int8)
    for start in range(0, count, FILE_ROWS):
        yield X[: count - start], y[: count - start]


def write(form: str, folder: Path, count: int) -> None:
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        for number, (X, y) in enumerate(rows(count)):
            table = pa.table({**{f"x{j}": X[:, j] for j in range(FEATURES)}, "y": y})
            pq.write_table(table, folder / f"{number:04}.parquet", row_group_size=1 << 17, use_dictionary=False)
    else:
        for number, (X, y) in enumerate(rows(count)):
            np.save(folder / f"X{number:04}.npy", X)
            np.save(folder / f"y{number:04}.npy", y)
    # what is not on the disk yet cannot be dropped from memory
    os.sync()


def source(form: str, folder: Path) -> Any:
    from sordino.files import Arrays, Table

    if form == "parquet":
        return Table(folder, "y")
    return Arrays(sorted(folder.glob("X*.npy")), sorted(folder.glob("y*.npy")))


def read_parquet(folder: Path, use_threads: bool) -> None:
    import pyarrow.parquet as pq

    for path in sorted(folder.iterdir()):
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for _ in file.iter_batches(1 << 16, use_threads=use_threads):
                pass


def read_arrays(folder: Path) -> None:
    place = np.empty(1 << 23, dtype=np.uint8)
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as file:
            while file.readinto(place):
                pass


def reading(form: str, folder: Path) -> dict[str, Callable[[], None]]:
    if form == "arrays":
        return {"read": lambda: read_arrays(folder)}
    return {
        "read, one thread": lambda: read_parquet(folder, use_threads=False),
        "read, threads": lambda: read_parquet(folder, use_threads=True),
    }


def drop(folder: Path) -> None:
    """Forget what the page cache holds of the files."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def clocks() -> np.ndarray:
    """Seconds on the wall, and of the process on all processors."""
    return np.array([time.perf_counter(), time.process_time()])


def peak() -> float:
    """Of this process alone: what the system counts for children begins with what their parent had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure(form: str, folder: Path, limit: float) -> dict[str, Any]:
    """In a process of its own: a fit, with the files read in between its steps."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit * 2**30),) * 2)
    from sordino import NoisyGradientDescent, PrivateLogisticRegression
    from sordino.progress import watching

    warnings.simplefilter("ignore")
    reads = reading(form, folder)
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*reads, "step")}
    started: list[np.ndarray] = []

    def turn(done: int, planned: int) -> None:
        # the first step also plans, checks the labels and compiles
        if started:
            found["step"].append(clocks() - started[-1])
        for name, read in reads.items():
            drop(folder)
            start = clocks()
            read()
            found[name].append(clocks() - start)
        drop(folder)
        started.append(clocks())

    model = PrivateLogisticRegression(
        epsilon=1.0, row_norm=12.0, classes=[-1, 1], method=NoisyGradientDescent(steps=STEPS + 1)
    )
    records = source(form, folder)
    with watching(turn):
        model.fit(records)
    least = {name: np.min(values, axis=0) for name, values in found.items()}
    seconds, cpu = np.min([least[name] for name in reads], axis=0)
    X, y = next(rows(20_000))
    return {
        "records": records.shape[0],
        "gigabytes": sum(path.stat().st_size for path in folder.iterdir()) / 1e9,
        "seconds": {name: [round(value[0], 3) for value in values] for name, values in found.items()},
        "CPU seconds": {name: [round(value[1], 3) for value in values] for name, values in found.items()},
        "gigabytes a second": {
            "read": sum(path.stat().st_size for path in folder.iterdir()) / 1e9 / seconds,
            "step": sum(path.stat().st_size for path in folder.iterdir()) / 1e9 / least["step"][0],
        },
        "step / read speed": seconds / least["step"][0],
        "CPU of reading / of a step": cpu / least["step"][1],
        "peak resident megabytes": peak(),
        "accuracy": float(model.score(X, y)),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=float, default=0.2, help="gigabytes of features")
    parser.add_argument("--limit", type=float, default=2.0, help="gigabytes that a measured process may write to")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--measure", choices=("parquet", "arrays"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.folder, given.limit)))
        return

    from _results import keep, table

    figures: dict[str, Any] = {
        "limit, gigabytes of private writable memory (RLIMIT_DATA)": given.limit,
        "features": f"{FEATURES}, float32",
    }
    lines = [("figure", "measured", "goal")]
    for form in ("parquet", "arrays"):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            write(form, Path(folder), int(given.size * 1e9 / (4 * FEATURES)))
            command = [sys.executable, __file__, "--measure", form, "--folder", folder, "--limit", str(given.limit)]
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        result = json.loads(run.stdout)
        figures[form] = result
        speed = result["gigabytes a second"]
        lines += [
            (f"{form}: step / read speed", f"{result['step / read speed']:.2f}", f">= {GOAL}"),
            (f"{form}: CPU of reading / of a step", f"{result['CPU of reading / of a step']:.2f}", ""),
            (f"{form}: GB/s of a step, of reading", f"{speed['step']:.2f}, {speed['read']:.2f}", ""),
            (f"{form}: peak resident MB", f"{result['peak resident megabytes']:.0f}", "< 2048"),
        ]
    table(lines)
    # a small run shows that it works; how fast it is, a large one
    if given.size >= 1:
        keep("out_of_core", figures, "pyarrow")


if __name__ == "__main__":
    main()
