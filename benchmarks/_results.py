"""What every benchmark shares: where data sets lie, and how results are kept."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sordino.papers.provenance import environment as environment, provenance

RESULTS = Path(__file__).parent / "results"


def data_directory() -> Path:
    """The folder of the data sets, from `--data` or SORDINO_DATA; a sentence where neither is given."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--data", default=os.environ.get("SORDINO_DATA"))
    given = parser.parse_known_args()[0].data
    if not given or not Path(given).is_dir():
        sys.exit("This benchmark needs data sets: name their folder with --data or SORDINO_DATA.")
    return Path(given)


def deadline(told: str | None) -> datetime:
    """The next time that a clock says HH:MM; a day that never comes where nothing was said."""
    if told is None:
        return datetime.max
    now, (hours, minutes) = datetime.now(), map(int, told.split(":"))
    at = now.replace(hour=hours, minute=minutes, second=0)
    return at if at > now else at + timedelta(days=1)


def keep(name: str, figures: dict[str, Any], *packages: str) -> None:
    """Write `figures` with where they come from."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**provenance(*packages), **figures}, indent=1, allow_nan=False) + "\n")


def table(rows: list[tuple[str, str, str]]) -> None:
    """Figure, measured, goal."""
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
