"""Where a number comes from: commit, command, day, versions and machine."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]
"""Of the checkout, where the package is in one."""


def commit() -> str:
    """The commit this code stands on, with a + where files differ from it; the version where there is no checkout."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)

    try:
        found = git("rev-parse", "HEAD") if (_ROOT / "pyproject.toml").exists() else None
    except OSError:
        found = None
    if found is None or found.returncode != 0:
        return f"sordino {version('sordino')}"
    changed = git("diff", "--quiet", "HEAD", "--", "*.py").returncode != 0
    return found.stdout.strip() + "+" * changed


def command() -> str:
    """What was typed, but for where this machine keeps its data sets, its results and its programs."""
    script, *options = sys.argv
    options = ["--out" if option == "-o" else option for option in options]
    for option in ("--data", "--newest", "--folder", "--texts", "--out"):
        known = option.removeprefix("--").upper()
        options = [f"{option}={known}" if one.startswith(f"{option}=") else one for one in options]
        if option in options:
            options[options.index(option) + 1] = known
    if Path(script).suffix == ".py" and Path(script).resolve().is_relative_to(_ROOT / "benchmarks"):
        return shlex.join(["python", os.path.relpath(script, _ROOT), *options])
    return shlex.join(["sordino", *options])


def provenance(*packages: str) -> dict[str, Any]:
    """What a reader needs to measure a result again: the commit, the command, the day, and where it ran."""
    return {"commit": commit(), "command": command(), "date": today(), "environment": environment(*packages)}


def today() -> str:
    return datetime.now(UTC).date().isoformat()


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
