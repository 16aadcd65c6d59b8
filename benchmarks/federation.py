"""What one secure sum with noise costs, next to the garbled circuits of Wang et al. 2019 (Tables 4 to 6).

    python benchmarks/federation.py                 everything, a few minutes
    python benchmarks/federation.py --owners 5      only federations of five; the rest of the results stays

All owners are processes on this machine, connected by TCP with mutual TLS, so that seconds are those of all of them
sharing its cores. Bytes are what one owner sends, without TLS's own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _results import RESULTS, keep, table

from sordino.federation.trust import Trust
from sordino.papers.passes import addresses, issue

HERE = Path(__file__).parent

LAYERS = {
    "MNIST": [16 * 64, 16, 32 * 16 * 16, 32, 32 * 512, 32, 10 * 32, 10],
    "CIFAR-10": [6 * 75, 6, 16 * 150, 16, 120 * 400, 120, 84 * 120, 84, 10 * 84, 10],
}

# seconds and bytes of the garbled circuits with five owners; for the networks, of all layers together
PRINTED = {
    22: (3.52, 296.23e6),
    123: (18.04, 1657.44e6),
    26_010: (2370.53, 344.16e9),
    62_006: (5626.63, 820.40e9),
}
PRINTED_LAYERS = {
    "MNIST": [94.49, 1.65, 745.12, 3.05, 1493.11, 3.05, 28.99, 1.07],
    "CIFAR-10": [41.96, 0.73, 219.08, 1.74, 4352.29, 11.07, 914.49, 7.84, 76.36, 1.07],
}


def run(owners: int, mode: str, cases: list[tuple[int, int]]) -> list[dict[str, float]]:
    """Seconds, bytes of the owner who sends most, and rounds, for every (dimension, repetitions)."""
    colluders = 1 if mode == "committee" else (owners - 1) // 2
    members = Trust(owners, mode, colluders).members  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        issue(Path(folder), members)
        setting = {
            "owners": owners, "mode": mode, "colluders": colluders, "cases": cases, "folder": folder,
            "addresses": addresses(members),
        }  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        command = [sys.executable, str(HERE / "_federation_member.py")]
        processes = [
            subprocess.Popen([*command, str(me), json.dumps(setting)], stdout=subprocess.PIPE, env=environment)
            for me in range(members)
        ]
        found = [json.loads(process.communicate()[0]) for process in processes]
    return [
        {
            "owners": owners, "colluders": colluders, "mode": mode, "dim": dim,
            "seconds": max(member[case]["seconds"] for member in found),
            "CPU seconds of an owner": max(member[case]["CPU seconds"] for member in found[:owners]),
            "CPU seconds of a member": max(member[case]["CPU seconds"] for member in found),
            "bytes": max(member[case]["bytes"] for member in found[:owners]),
            "bytes of a member": max(member[case]["bytes"] for member in found),
            "total_bytes": sum(member[case]["bytes"] for member in found),
            "rounds": max(member[case]["rounds"] for member in found),
        }
        for case, (dim, _) in enumerate(cases)
    ]  # fmt: skip


def groups(owners: int) -> list[dict[str, float]]:
    small = [(22, 15), (123, 15)]
    large = [(26_010, 5), (62_006, 3)] if owners < 10 else [(26_010, 2), (62_006, 1)]
    found = run(owners, "distributed", [*small, *large]) + run(owners, "committee", [*small, *large])
    # joint noise takes its time in proportion to the coordinates
    found += run(owners, "joint", [(22, 5), (123, 5)] if owners < 10 else [(22, 2), (123, 2)])
    return found


def layers() -> dict[str, list[float]]:
    """Seconds for each layer of the two networks, by five owners with distributed noise."""
    sizes = [size for network in LAYERS.values() for size in network]
    measured = iter(run(5, "distributed", [(size, 5) for size in sizes]))
    return {name: [next(measured)["seconds"] for _ in network] for name, network in LAYERS.items()}


def markdown(figures: dict[str, Any]) -> str:
    lines = [
        "# One secure sum with noise, all owners on one machine of two cores",
        "",
        "| d | owners, colluders | noise | seconds | sent by an owner | rounds | garbled circuits (5 owners) |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = [row for group in figures["sums"].values() for row in group]
    for row in sorted(rows, key=lambda row: (row["dim"], row["owners"], row["mode"])):
        seconds, size = PRINTED[row["dim"]]
        printed = f"{seconds:g} s, {_bytes(size)}" if row["owners"] == 5 else ""
        lines.append(
            f"| {row['dim']} | {row['owners']}, {row['colluders']} | {row['mode']} "
            f"| {row['seconds']:.3f} | {_bytes(row['bytes'])} | {row['rounds']} | {printed} |"
        )
    lines += [
        "",
        "The garbled circuits draw the noise inside, as joint noise does. Their numbers are those of Wang et al. 2019,",
        "Tables 4 to 6, with oblivious transfer; for the networks the seconds of all layers together and the total of",
        "bytes as printed (the layers' bytes of CIFAR-10 in Table 6 add up to 502.65 GB, the text says 804.24 GB).",
        "",
        "Layer by layer, five owners, distributed noise:",
        "",
    ]
    for network, measured in figures["layers"].items():
        lines += [f"| {network}, parameters | seconds | garbled circuits, seconds |", "|---|---|---|"]
        for size, seconds, printed in zip(LAYERS[network], measured, PRINTED_LAYERS[network], strict=True):
            lines.append(f"| {size} | {seconds:.4f} | {printed:g} |")
        lines.append("")
    return "\n".join(lines)


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def goals(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = [row for group in figures["sums"].values() for row in group]

    def one(dim: int, mode: str) -> dict[str, Any] | None:
        for row in rows:
            if (row["owners"], row["dim"], row["mode"]) == (5, dim, mode):
                return row
        return None

    wanted = [
        (123, "distributed", 0.1, 16e6),
        (26_010, "distributed", 1.5, 3.4e9),
        (123, "joint", 1.0, 3.4e9),
    ]
    found = [("five owners", "measured", "goal")]
    for dim, mode, seconds, size in wanted:
        row = one(dim, mode)
        if row is not None:
            measured = f"{row['seconds']:.3f} s, {_bytes(row['total_bytes'])} in all"
            found.append((f"d = {dim}, {mode}", measured, f"<= {seconds:g} s, {_bytes(size)}"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--owners", type=int, choices=(3, 5, 10))
    only = parser.parse_args().owners
    path = RESULTS / "federation.json"
    figures = json.loads(path.read_text()) if only and path.is_file() else {"sums": {}, "layers": {}}
    for owners in (3, 5, 10):
        if only in (None, owners):
            figures["sums"][str(owners)] = groups(owners)
    if only in (None, 5):
        figures["layers"] = layers()
    kept = {"sums": figures["sums"], "layers": figures["layers"]}
    keep("federation", kept, "mpyc", "cryptography")
    (RESULTS / "federation.md").write_text(markdown(kept))
    table(goals(kept))


if __name__ == "__main__":
    main()
