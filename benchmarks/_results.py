"""What every benchmark shares: where data sets lie, what machine this is, and how results are kept."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
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


def commit() -> str:
    """The commit these scripts stand on, with a + where files differ from it."""
    here = Path(__file__).parent
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    files = ["git", "diff", "--quiet", "HEAD", "--", "../src", "*.py"]
    changed = subprocess.run(files, cwd=here, capture_output=True, check=False).returncode != 0
    return head.stdout.strip() + "+" * changed


def command() -> str:
    """What was typed, but for where this machine keeps its data sets."""
    script, *options = sys.argv
    if "--data" in options:
        options[options.index("--data") + 1] = "DATA"
    return shlex.join(["python", os.path.relpath(script, Path(__file__).parents[1]), *options])


def provenance(*packages: str) -> dict[str, Any]:
    """What a reader needs to measure a result again: the commit, the command, the day, and where it ran."""
    return {
        "commit": commit(),
        "command": command(),
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment(*packages),
    }


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
    """Write `figures` with where they come from."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**provenance(*packages), **figures}, indent=1, allow_nan=False) + "\n")


def table(rows: list[tuple[str, str, str]]) -> None:
    """Figure, measured, goal."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
