"""How time and memory grow, with fitted exponents, and a model of what does not fit this machine.

    python benchmarks/scaling.py                    everything, some ten minutes; what was measured before stays
    python benchmarks/scaling.py --only owners      one part; `--again` measures it anew
    python benchmarks/scaling.py --only page        nothing is measured: plots and docs/scale.md from the results

Time is processor time, which other work on the machine changes little: on one thread, the least of several fits, in a
process of its own for every point. Memory is what fitting adds to the records. The exponent is the slope of a straight
line through the logarithms of the upper half of the points, where constant costs no longer count.

Workers and owners are processes on this machine. Their costs are fitted on some numbers of them and then predicted for
one that had no say; docs/scale.md, which this script writes, has the same formulas for numbers that no single machine
can hold.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import RESULTS, keep
from encoding import resident

from sordino.oracle.files.source import record_units

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "SORDINO_THREADS"), "1")

BASE = {"records": 50_000, "columns": 50, "classes": 2, "steps": 50}
SWEEPS = {
    "records": (3_000, 10_000, 30_000, 100_000, 300_000),
    "columns": (5, 15, 50, 150, 500),
    "classes": (3, 6, 12, 24, 48),
    "steps": (10, 30, 100, 300),
}
WORKERS, WORKERS_LEFT_OUT = (1, 2, 4, 8), (16,)
TABLES = ((20_000, 50), (200_000, 50), (200_000, 200))
OWNERS, OWNERS_LEFT_OUT = (3, 5, 10, 20), (40, 30, 50)
MODES = ("distributed", "committee")
DIMS = (100, 2_000)

Row = dict[str, Any]
Terms = Callable[[Row], list[float]]


def linear() -> Iterator[Callable[[], list[Row]]]:
    for what, sizes in SWEEPS.items():
        for size in sizes:
            yield lambda what=what, size=size: [{"what": what, "size": size, **_in_a_process({**BASE, what: size})}]


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
    model.fit(X, y)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    times = []
    for _ in range(2):
        start = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - start)
    added = resident("VmHWM") - before
    return {"seconds": min(times), "megabytes": added, "megabytes of records": X.nbytes / 2**20}


def workers() -> Iterator[Callable[[], list[Row]]]:
    for count in (*WORKERS, *WORKERS_LEFT_OUT):
        yield lambda count=count: _steps_on(count)


def _steps_on(count: int) -> list[Row]:
    """A step asks every worker once: processor time of the driver, seconds on the clock, memory of a worker."""
    from sordino.cluster import connected
    from sordino.losses import Logistic
    from sordino.oracle import linear_oracle
    from sordino.oracle.query import Gradient
    from sordino.oracle.rows import Rows
    from sordino.privacy.noise import GaussianNoise
    from sordino.privacy.randomness import Randomness
    from sordino.problem import Problem

    # Ray's workers give way to everything else on a machine, as they should not on this one
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  as Ray spells it
    rng, rows = np.random.default_rng(0), []
    with connected("local", count, threads=1) as cluster:
        for n, d in TABLES:
            X = rng.standard_normal((n, d), dtype=np.float32)
            y = np.where(X[:, 0] > 0, 1.0, -1.0)
            problem = Problem(n, d + 1, Logistic())
            oracle = linear_oracle(cluster.hold(X, y), None, problem, Rows(float(d) ** 0.5, 0.4))
            noise, w = GaussianNoise.at(1.0, 2.0, problem.dim), rng.normal(size=problem.dim) * 0.1
            wall, busy = [], []
            for _ in range(12):
                start, worked = time.perf_counter(), time.process_time()
                oracle.release(Gradient(w, 1.0), noise, Randomness.system())
                wall.append(time.perf_counter() - start)
                busy.append(time.process_time() - worked)
            # the first rounds load, compile and start threads
            row = {"workers": count, "records": n, "columns": d, "seconds": min(wall[2:])}
            row["CPU seconds of the driver"] = float(np.median(busy[2:]))
            row["megabytes of a worker"] = max(_worker_megabytes(), default=math.nan)
            rows.append(row)
            # before the next table is there, and before the cluster is gone
            del oracle
    return rows


def _worker_megabytes() -> Iterator[float]:
    """Of the busy workers of the Ray that this process started: children of its raylet."""
    facts = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines if ":" in line)
            command = (folder / "cmdline").read_bytes()
            facts[int(folder.name)] = int(fields["PPid"]), command, int(fields.get("VmRSS", "0 kB").split()[0]) / 1024
        except (OSError, ValueError, KeyError):
            continue
    for parent, command, megabytes in facts.values():
        if command.startswith(b"ray::") and parent in facts and facts[parent][0] == os.getpid():
            yield megabytes


def owners() -> Iterator[Callable[[], list[Row]]]:
    """A secure sum among processes that share the processors here: m owners, d numbers."""
    from federation import run

    for count in (*OWNERS, *OWNERS_LEFT_OUT):
        for mode in MODES:
            yield lambda count=count, mode=mode: [dict(row) for row in run(count, mode, [(d, 3) for d in DIMS])]


PARTS = {"linear": linear, "workers": workers, "owners": owners}


def _of_step(row: Row) -> list[float]:
    """Once, for every worker that has a block of records, and for every number that those answer."""
    asked = min(row["workers"], record_units(row["records"], row["columns"]).blocks)
    return [1.0, asked, asked * (row["columns"] + 1)]


def _of_worker(row: Row) -> list[float]:
    """A process, and what it holds of the records, in whole blocks of them and in single precision."""
    units = record_units(row["records"], row["columns"])
    records = min(math.ceil(units.blocks / row["workers"]) * units.block, row["records"])
    return [1.0, records * row["columns"] * 4 / 2**20]


def _of_sum(row: Row) -> list[float]:
    """Once; and to every other member once, a signature of each member, and every number."""
    members = row["owners"] + (3 if row["mode"] == "committee" else 0)
    return [1.0, members - 1, (members - 1) * members, (members - 1) * row["dim"]]


MODELS: dict[str, tuple[str, str, Terms]] = {
    "driver, CPU seconds of a step": ("workers", "CPU seconds of the driver", _of_step),
    "megabytes of a worker": ("workers", "megabytes of a worker", _of_worker),
    "distributed: CPU seconds of an owner": ("distributed", "CPU seconds of an owner", _of_sum),
    "distributed: bytes that an owner sends": ("distributed", "bytes", _of_sum),
    "committee: CPU seconds of an owner": ("committee", "CPU seconds of an owner", _of_sum),
    "committee: bytes that an owner sends": ("committee", "bytes", _of_sum),
    "committee: CPU seconds of a member": ("committee", "CPU seconds of a member", _of_sum),
    "committee: bytes that a member sends": ("committee", "bytes of a member", _of_sum),
}
"""What is predicted: on which points, which of their figures, as a sum of which terms."""


def analysed(points: dict[str, list[Row]]) -> dict[str, Any]:
    """Exponents, constants, and how well they predict what had no say."""
    found: dict[str, Any] = {"exponents": {}, "models": {}}
    for what in SWEEPS:
        sweep = sorted((p for p in points.get("linear", ()) if p["what"] == what), key=lambda p: p["size"])
        if sweep:
            found["exponents"][what] = {
                of: _exponent([(p["size"], p[unit]) for p in sweep])
                for of, unit in (("time", "seconds"), ("memory", "megabytes"))
            }
    for name, (kind, of, terms) in MODELS.items():
        part, out = ("workers", WORKERS_LEFT_OUT) if kind == "workers" else ("owners", OWNERS_LEFT_OUT)
        rows = [row for row in points.get(part, ()) if kind in ("workers", row.get("mode"))]
        fitted, rest = ([row for row in rows if (row[part] in out) is left] for left in (False, True))
        if not fitted or not rest:
            continue
        constants = _fit(fitted, terms, of)
        judged = [{"measured": row[of], "predicted": float(np.dot(constants, terms(row)))} for row in rest]
        found["models"][name] = {"constants": constants, "left out": judged}
    return found


def _exponent(points: list[tuple[float, float]]) -> float | None:
    """None where nothing grows that could be measured."""
    upper = [(x, y) for x, y in points[len(points) // 2 - 1 :] if y > 1e-3]
    if len(upper) < 2:
        return None
    logs = np.log(np.array(upper))
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def _fit(rows: list[Row], terms: Terms, of: str) -> list[float]:
    """Not negative, by least squares of relative errors."""
    from scipy.optimize import nnls

    values = np.array([row[of] for row in rows])
    constants: list[float] = nnls(np.array([terms(row) for row in rows]) / values[:, None], np.ones(len(rows)))[
        0
    ].tolist()
    return constants


def draw(points: dict[str, list[Row]], exponents: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "scale"
    figure, axes = plt.subplots(2, 5, figsize=(14, 5.2), constrained_layout=True)
    for column, what in enumerate(SWEEPS):
        for row, (of, unit, label) in enumerate((("time", "seconds", "CPU s"), ("memory", "megabytes", "MB added"))):
            shown = [(p["size"], p[unit]) for p in points["linear"] if p["what"] == what and p[unit] > 0]
            exponent = exponents[what][of]
            title = what if exponent is None else f"{what}: exponent {exponent:.2f}"
            _curve(axes[row, column], shown, title, label)
    for row, (unit, label) in enumerate(
        (("CPU seconds of a member", "CPU s of a member"), ("bytes", "bytes of an owner"))
    ):
        for mode in MODES:
            some = [p for p in points["owners"] if p["mode"] == mode and p["dim"] == DIMS[-1]]
            shown = [(p["owners"], p[unit]) for p in some]
            exponent = _exponent(shown)
            _curve(axes[row, 4], shown, f"owners, d = {DIMS[-1]:,}", label, f"{mode}: exponent {exponent:.2f}")
        axes[row, 4].legend(fontsize=8)
    figure.savefig(DOCS / "scale.svg", metadata={"Date": None})


def _curve(axis: Any, points: list[tuple[float, float]], title: str, label: str, name: str | None = None) -> None:
    axis.loglog(*zip(*sorted(points), strict=True), "o-", markersize=4, label=name)
    axis.set_title(title, fontsize=10)
    axis.set_ylabel(label)
    axis.grid(alpha=0.3)


RECORDS, COLUMNS, MACHINES = 10**9, 1_000, 100
MANY = (10**3, 10**4, 10**5, 10**6)
GROUP, NUMBERS = 20, 1_001
ROUND_TRIP, BANDWIDTH = 0.05, 12.5e6
"""Seconds, and bytes a second: assumed of connections between owners, 50 ms and 100 Mbit/s."""


def _predicted(figures: dict[str, Any], model: str, row: Row) -> float:
    return float(np.dot(figures["models"][model]["constants"], MODELS[model][2](row)))


def page(figures: dict[str, Any]) -> str:
    """docs/scale.md: every number in it is one of the results, or computed here from them."""
    points, exponents = figures["points"], figures["exponents"]
    largest = max((p for p in points["linear"] if p["what"] == "records"), key=lambda p: p["size"])
    number = largest["seconds"] / (largest["size"] * BASE["columns"] * BASE["steps"])
    lines = [
        "# Scale",
        "",
        "Written by `python benchmarks/scaling.py` from `benchmarks/results/scaling.json`, which has every point. What "
        "is *measured* was run on one machine of two cores, in processor time. What is "
        "*predicted* comes from constants fitted to those points; each formula is first tested on one size that had "
        "no part in the fit. What is *assumed* is said to be.",
        "",
        "## How a fit grows",
        "",
        "![time and memory against records, columns, classes, steps and owners](scale.svg)",
        "",
        f"`NoisyGradientDescent` on one thread, from {BASE['records']:,} records of {BASE['columns']} columns in "
        f"double precision, {BASE['classes']} classes and {BASE['steps']} steps, one of which changes. The exponent is "
        "that of a power law through the upper half of the points; memory is what a fit adds to the records. Below 1 "
        "means that constant costs still count at these sizes; in memory, small sizes use again what an earlier fit "
        "left behind, and show less than they take.",
        "",
        "| in | exponent of time | exponent of memory | largest measured |",
        "|---|---|---|---|",
    ]
    for what, found in exponents.items():
        last = max((p for p in points["linear"] if p["what"] == what), key=lambda p: p["size"])
        time_, memory = (_power(found[of]) for of in ("time", "memory"))
        lines.append(
            f"| {what} | {time_} | {memory} | {last['size']:,}: {last['seconds']:.2f} s, {last['megabytes']:.0f} MB "
            f"beside {last['megabytes of records']:.0f} MB of records |"
        )
    lines += [
        "",
        f"At the largest number of records a step costs {1e9 * number:.2f} ns for every number of the matrix, on one "
        "thread.",
        "",
        "## The models, and how well they predict",
        "",
        f"Workers of a local Ray ({', '.join(map(str, WORKERS))}) and owners ({', '.join(map(str, OWNERS))}) are "
        f"processes here. The test is {_either(WORKERS_LEFT_OUT)} workers and {_either(OWNERS_LEFT_OUT)} owners. The "
        "terms are those of the protocol. They were put right after first forms, without signatures that are passed "
        f"on and with workers that have no block, did badly at {OWNERS_LEFT_OUT[0]} owners and {WORKERS_LEFT_OUT[0]} "
        f"workers; {OWNERS_LEFT_OUT[-1]} owners were measured after that. For every size there is a figure for every "
        f"table, or for {_either(DIMS)} numbers. Bytes and memory are told within {_worst(figures, False)}, processor "
        f"time within a factor of {_worst(figures, True)}: trust the predictions of seconds no further than that.",
        "",
        "| figure | predicted / measured, at the size left out | sum of |",
        "|---|---|---|",
    ]
    for name, model in figures["models"].items():
        ratios = ", ".join(f"{found['predicted'] / found['measured']:.2f}" for found in model["left out"])
        terms = MODELS[name][2].__doc__ or ""
        lines.append(f"| {name} | {ratios} | {terms[0].lower()}{terms[1:].rstrip('.')} |")
    table = {"workers": MACHINES, "records": RECORDS, "columns": COLUMNS}
    blocks = RECORDS * COLUMNS / MACHINES / 2**21
    share = RECORDS * COLUMNS / MACHINES
    sums = 2 * math.ceil(math.log2(blocks))
    lines += [
        "",
        f"## {RECORDS:,} records of {COLUMNS:,} columns on {MACHINES} Ray workers",
        "",
        "Predicted, for one step over all records:",
        "",
        f"- A worker computes {share * number:.1f} s on one thread ({share:.0e} numbers at the measured "
        f"{1e9 * number:.2f} ns), divided by its threads as long as memory keeps up.",
        f"- The driver adds {_predicted(figures, 'driver, CPU seconds of a step', table):.2f} s of processor time.",
        f"- A worker is sent {8 * (COLUMNS + 1) / 1e3:.0f} kB of parameters and answers with at most {sums} sums of "
        f"the tree of blocks, {8 * sums * (COLUMNS + 1) / 1e3:.0f} kB; the driver hears "
        f"{8 * sums * MACHINES * (COLUMNS + 1) / 1e6:.0f} MB at most. This is arithmetic, not a measurement.",
        "- A worker that holds its records in single precision has "
        f"{_predicted(figures, 'megabytes of a worker', table) / 1024:.0f} GB. "
        "Where that is more than `memory` allows, it reads its partition for every step, at the speed in "
        "[larger than memory](larger_than_memory.md).",
        "",
        "## A thousand to a million owners",
        "",
        "**Built:** every member of a federation is connected with every other, and hears a signed statement of each "
        "about every sum. So what an owner sends grows with the number of owners, in `committee` mode too. "
        f"Predicted for one sum of {NUMBERS:,} numbers, by that formula, far beyond what it was tested on:",
        "",
        "| owners | committee, sent by an owner | CPU of an owner | distributed, sent by an owner | CPU of an owner |",
        "|---|---|---|---|---|",
    ]
    for count in MANY:
        rows = [{"owners": count, "dim": NUMBERS, "mode": mode} for mode in ("committee", "distributed")]
        cells = [
            _size(_predicted(figures, f"{row['mode']}: bytes that an owner sends", row))
            + f" | {_predicted(figures, str(row['mode']) + ': CPU seconds of an owner', row):,.0f} s"
            for row in rows
        ]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    of_group = {"owners": GROUP, "dim": NUMBERS, "mode": "committee"}
    member, sent, owner = (
        _predicted(figures, f"committee: {what}", of_group)
        for what in ("CPU seconds of a member", "bytes that a member sends", "bytes that an owner sends")
    )
    lines += [
        "",
        f"**Not built, a model:** committees in a tree. Groups of {GROUP} owners deal their shares to three servers of "
        "their own; server j of a group adds up the shares that it holds and deals no further, but passes the sum of "
        "shares to server j of the group above, which does the same. Only the servers at the top open anything, so "
        "that no sum of a group is ever opened. A level then costs what a committee with as many owners costs, "
        f"by the fit: {1e3 * member:.1f} ms of processor time and {_size(sent)} of a server. Assumed: "
        f"{1e3 * ROUND_TRIP:.0f} ms for each of three rounds of a level, and {BANDWIDTH * 8 / 1e6:.0f} Mbit/s.",
        "",
        "| owners | levels | servers | sent by an owner | seconds of a sum |",
        "|---|---|---|---|---|",
    ]
    for count in MANY:
        levels, groups, servers = 0, count, 0
        while groups > 1:
            groups, levels = math.ceil(groups / GROUP), levels + 1
            servers += 3 * groups
        seconds = levels * (member + sent / BANDWIDTH + 3 * ROUND_TRIP)
        lines.append(f"| {count:,} | {levels} | {servers:,} | {_size(owner)} | {seconds:.2f} |")
    lines += [
        "",
        "What it would take: shares of one polynomial degree and one set of places at every level, so that sums of "
        "shares are shares of the sum; statements signed to a group and its servers instead of to everybody, with the "
        "root's record naming the groups; and a rule for a server that is lost, whose group would be missing from the "
        "sum. Trust would change: one server of *every* group may collude with any number of owners, but two of the "
        "same group can open that group's sum, without noise unless the group's servers add their part. Until that is "
        "proved and tested, federations are as large as the first table allows.",
    ]
    return "\n".join(lines) + "\n"


def _worst(figures: dict[str, Any], of_time: bool) -> str:
    """The largest factor between what was predicted and measured, for seconds or for everything else."""
    factors = [
        max(found["predicted"] / found["measured"], found["measured"] / found["predicted"])
        for name, model in figures["models"].items()
        if ("CPU" in name) is of_time
        for found in model["left out"]
    ]
    return f"{max(factors):.1f}" if of_time else f"{max(factors) - 1:.0%}"


def _either(numbers: tuple[int, ...]) -> str:
    *first, last = sorted(numbers)
    return f"{', '.join(map(str, first))} and {last}" if first else str(last)


def _power(exponent: float | None) -> str:
    return "flat" if exponent is None else f"{exponent:.2f}"


def _size(count: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count:.0f} B"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=(*PARTS, "page"))
    parser.add_argument("--again", action="store_true", help="measure what was measured before")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        print(json.dumps(point(**json.loads(given.point))))
        return
    path = RESULTS / "scaling.json"
    before = json.loads(path.read_text()) if path.is_file() else {"points": {}}
    points: dict[str, list[Row]] = before["points"]
    for name, part in PARTS.items():
        if given.only not in (None, name):
            continue
        tasks = list(part())
        per_task = {"linear": 1, "workers": len(TABLES), "owners": len(DIMS)}[name]
        if given.again:
            points[name] = []
        # a part that was cut short goes on where it was
        for task in tasks[len(points.get(name, ())) // per_task :]:
            points.setdefault(name, []).extend(task())
            keep("scaling", {"points": points, **analysed(points)}, "ray", "mpyc")
    if all(points.get(name) for name in PARTS):
        if given.only == "page":
            # where the points come from stays
            path.write_text(json.dumps({**before, **analysed(points)}, indent=1, allow_nan=False) + "\n")
        figures = json.loads(path.read_text())
        draw(points, figures["exponents"])
        (DOCS / "scale.md").write_text(page(figures))
        print(page(figures))


if __name__ == "__main__":
    main()
