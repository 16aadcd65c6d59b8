"""Five thousand hostile files and messages: each gives a value or the library's own sentence, soon and cheaply.

What is wrong with a file that a stranger may have written is told by a ValueError with a sentence, by every reader. The
cases come from a fixed seed; `python -m fuzz.watchdog 1 NAME NUMBER 1` reads one of them again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.readers import readers

TESTS = Path(__file__).parents[1]
SEED = "1"
NAMES = tuple(readers(Path()))
QUICK, ALL = 40, 500
"""Of each reader, in every run of the tests and in the long one."""


def watched(*parts: tuple[str, int, int]) -> tuple[int, list[str]]:
    """How many cases were read, and what is wrong with their endings."""
    read, faults, left = 0, [], list(parts)
    while left:
        arguments = [str(argument) for part in left for argument in part]
        run = subprocess.run(
            [sys.executable, "-m", "fuzz.watchdog", SEED, *arguments], cwd=TESTS, capture_output=True, text=True
        )
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        ended = [line for line in lines if "fault" in line]
        read += len(ended)
        faults += [f"{line['case']} {line['what']}: {line['fault']}" for line in ended if line["fault"]]
        if run.returncode == 0:
            break
        assert lines, run.stderr
        assert "fault" not in lines[-1], run.stderr
        # the case that ended the process is named, and the others are read all the same
        (name, number), read = lines[-1]["case"], read + 1
        faults.append(f"{[name, number]} {lines[-1]['what']}: ended the process ({run.returncode})")
        first = next(k for k, part in enumerate(left) if part[0] == name)
        end = left[first][1] + left[first][2]
        left = [(name, number + 1, end - number - 1), *left[first + 1 :]]
    return read, faults


def test_a_few_of_every_kind() -> None:
    read, faults = watched(*((name, 0, QUICK) for name in NAMES))
    assert not faults
    assert read == QUICK * len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_of_one_kind(name: str) -> None:
    read, faults = watched((name, QUICK, ALL - QUICK))
    assert not faults
    assert read == ALL - QUICK


def test_there_are_five_thousand() -> None:
    assert ALL * len(NAMES) >= 5000
