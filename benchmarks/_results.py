"""What every benchmark shares: where data sets lie, what machine this is, and how results are kept."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def data_directory() -> Path:
    """The folder of the data sets, from `--data` or SORDINO_DATA; a sentence where neither is given."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", default=os.environ.get("SORDINO_DATA"))
    given = parser.parse_known_args()[0].data
    if not given or not Path(given).is_dir():
        sys.exit("This benchmark needs data sets: name their folder with --data or SORDINO_DATA.")
    return Path(given)


def environment(*packages: str) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {
            name: _version(name) for name in ("sordino", "numpy", "scipy", "scikit-learn", "numba", *packages)
        },
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def keep(name: str, figures: dict[str, Any], *packages: str) -> None:
    """Write `figures` with the environment they were measured in."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(*packages), **figures}, indent=1) + "\n")


def table(rows: list[tuple[str, str, str]]) -> None:
    """Figure, measured, goal."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
