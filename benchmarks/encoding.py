"""From a table on disk to encoded rows in memory, beside PyArrow's own reading of the same file.

python benchmarks/encoding.py --records 400000 --peak 800 --folder FOLDER

Each table is read in a process of its own, by PyArrow (`read_csv`, `read_table`) and by `read_records` in turn, with as
many threads; CPU seconds of the process and seconds on the clock are the least of several rounds. The peak is what one
reading adds to the memory in use before it, over the size of its result, of a table so often repeated that its rows
take about `--peak` megabytes: what is beside them does not grow with the records.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 7
GOALS = {"CPU": 1.5, "peak": 1.1}
SHAPES = {
    "mixed": (6, 2, (2, 5, 7, 9, 16, 20)),
    "numbers": (20, 0, ()),
    "whole numbers": (0, 20, ()),
    "categories": (0, 0, (3, 4, 5, 6, 8, 8, 10, 12)),
    "narrow": (3, 0, (4,)),
    "wide, hence sparse": (4, 0, (40, 60, 80, 100)),
}
"""Numbers, whole numbers, and of every column of categories how many values it has."""


def table(shape: str, records: int) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    numbers, whole, categories = SHAPES[shape]
    columns: dict[str, Any] = {f"x{k}": rng.normal(size=records).round(6) for k in range(numbers)}
    columns |= {f"i{k}": rng.integers(0, 100, size=records) for k in range(whole)}
    for k, count in enumerate(categories):
        codes = rng.integers(0, count, size=records, dtype=np.int32)
        texts = pa.DictionaryArray.from_arrays(codes, [f"value {value}" for value in range(count)])
        columns[f"c{k}"] = texts.cast(pa.string())
    columns["y"] = pa.DictionaryArray.from_arrays(rng.integers(0, 2, size=records, dtype=np.int32), ["no", "yes"])
    columns["y"] = columns["y"].cast(pa.string())
    return pa.table(columns)


def schema(shape: str) -> Any:
    from sordino.tabular import Category, ClassTarget, Number, Schema

    numbers, whole, categories = SHAPES[shape]
    return Schema(
        ClassTarget("y", ("no", "yes")),
        {
            **{f"x{k}": Number(-5, 5) for k in range(numbers)},
            **{f"i{k}": Number(0, 100) for k in range(whole)},
            **{
                f"c{k}": Category(tuple(f"value {value}" for value in range(count)))
                for k, count in enumerate(categories)
            },
        },
    )


def resident(key: str) -> float:
    """Megabytes: VmRSS now, VmHWM at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def peak(read: Callable[[], Any], size: Callable[[Any], int]) -> tuple[float, float]:
    """Megabytes that a reading adds to what is in use, and those of its result."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    found = read()
    return resident("VmHWM") - before, size(found) / 2**20


def bytes_of(found: Any) -> int:
    X, y = found
    held = (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else (X,)
    return sum(int(array.nbytes) for array in (*held, y))


def measure(shape: str, path: Path, threads: int, what: str) -> dict[str, float]:
    """In a process of its own."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from sordino.tabular.read import open_table, read_records

    pa.set_cpu_count(threads)
    described = schema(shape)
    ways = {
        "PyArrow": lambda: pa.csv.read_csv(path) if path.suffix == ".csv" else pa.parquet.read_table(path),
        "encoded": lambda: read_records(open_table(path, described), described),
    }
    few = path.with_stem("few")
    # compiled, and the libraries loaded
    read_records(open_table(few, described), described)
    if what == "peak":
        added, held = peak(ways["encoded"], bytes_of)
        return {"megabytes of rows": held, "megabytes beside the rows": added - held, "peak": added / held}
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, read in ways.items():
            cpu, wall = time.process_time(), time.perf_counter()
            kept = read()
            found.setdefault(f"{name}, CPU seconds", []).append(time.process_time() - cpu)
            found.setdefault(f"{name}, seconds", []).append(time.perf_counter() - wall)
            del kept
    return {name: min(values) for name, values in found.items()}


def repeat(whole: Any, path: Path, times: int) -> None:
    """A table that often, one time after the other."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if path.suffix == ".csv":
        writer: Any = pa.csv.CSVWriter(path, whole.schema)
    else:
        writer = pa.parquet.ParquetWriter(path, whole.schema)
    with writer:
        for _ in range(times):
            writer.write_table(whole)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--peak", type=int, default=60, help="megabytes of rows of the table whose peak is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        shape, path, what = given.measure
        print(json.dumps(measure(shape, Path(path), given.threads, what)))
        return

    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet
    from _results import keep, table as show

    from sordino.tabular.encode import row_bytes

    write = {".csv": pa.csv.write_csv, ".parquet": pa.parquet.write_table}
    results: dict[str, Any] = {}
    lines = [("figure", "measured", "goal")]
    for shape in SHAPES:
        whole = table(shape, given.records)
        for form, save in write.items():
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                path = Path(folder) / f"table{form}"
                save(whole, path)
                save(whole.slice(0, 1000), path.with_stem("few"))
                result: dict[str, Any] = {"megabytes on disk": path.stat().st_size / 1e6}
                times = -(-given.peak * 10**6 // (given.records * row_bytes(schema(shape))))
                for what in ("time", "peak"):
                    if what == "peak":
                        repeat(whole, path, times)
                    command = [sys.executable, __file__, "--measure", shape, str(path), what]
                    command += ["--threads", str(given.threads)]
                    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    result |= json.loads(run.stdout)
            for clock in ("CPU seconds", "seconds"):
                result[f"{clock}, ratio"] = result[f"encoded, {clock}"] / result[f"PyArrow, {clock}"]
            results[f"{shape}, {form[1:]}"] = {name: float(f"{value:.4g}") for name, value in result.items()}
            lines += [
                (f"{shape}, {form[1:]}: CPU, of reading", f"{result['CPU seconds, ratio']:.2f}", f"<= {GOALS['CPU']}"),
                (f"{shape}, {form[1:]}: peak, of the rows", f"{result['peak']:.2f}", f"<= {GOALS['peak']}"),
                (f"{shape}, {form[1:]}: MB beside the rows", f"{result['megabytes beside the rows']:.0f}", ""),
            ]
    show(lines)
    # a small run shows that it works; what it measures, a large one
    if given.records >= 200_000:
        facts = {"records": given.records, "threads": given.threads, "rounds": ROUNDS}
        keep("encoding", {"settings": facts, "tables": results}, "pyarrow")


if __name__ == "__main__":
    main()
