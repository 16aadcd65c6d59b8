"""Reads hostile files in a process of its own, and tells how each reading ended.

    python -m fuzz.watchdog SEED NAME START COUNT [NAME START COUNT ..]

One JSON line before a reading and one after it: should the process be killed, the last line tells by which case.
Time is processor time, by a timer of the system, and memory is bounded by the system, so a busy machine changes
nothing. A reading ends well with a value, or with the one error that readers may raise: a ValueError that this library
raised itself, with a sentence.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

SECONDS, MEGABYTES = 2.0, 200
_LONGEST = 1000
"""Characters of a sentence: no error repeats a file."""


class TooSlow(BaseException):
    """Nothing handles it."""


def main(folder: Path, seed: str, parts: list[tuple[str, int, int]]) -> None:
    # what a ledger remembers of itself stays in here too
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    warnings.simplefilter("ignore")
    from fuzz.readers import readers

    made = readers(folder)
    signal.signal(signal.SIGPROF, _stop)
    for name, start, count in parts:
        reader = made[name]()
        _warm(reader)
        for number in range(start, start + count):
            content, what = reader.case(Random(f"{seed} {name} {number}"))
            _say({"case": [name, number], "what": what})
            _say({"case": [name, number], "what": what, **_outcome(reader.read, content)})


def _warm(reader: Any) -> None:
    """So that imports and compilation are nobody's time."""
    for number in range(5):
        content, _ = reader.case(Random(f"warm {number}"))
        with suppress(Exception):
            reader.read(content)


def _outcome(read: Any, content: Any) -> dict[str, Any]:
    begun = time.process_time()
    limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU)}
    _limit(resource.RLIMIT_AS, _virtual() + (MEGABYTES << 20))
    # for what never comes back to Python: the system ends the process
    _limit(resource.RLIMIT_CPU, int(begun + SECONDS) + 10)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        read(content)
        fault = ""
    except TooSlow:
        fault = f"took more than {SECONDS} seconds of processor time"
    except MemoryError:
        fault = f"took more than {MEGABYTES} MB"
    except ValueError as error:
        fault = _fault(error)
    except Exception as error:
        fault = f"{type(error).__name__} at {_place(error)}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        for kind, before in limits.items():
            resource.setrlimit(kind, before)
    return {"fault": fault, "seconds": round(time.process_time() - begun, 3)}


def _fault(error: ValueError) -> str:
    """What is wrong with a ValueError as the answer to a bad file; empty if nothing."""
    text = str(error)
    if type(error) is not ValueError or not _place(error).startswith("sordino"):
        return f"{type(error).__name__} at {_place(error)}, not the library's own: {text}"[:300]
    if not text.endswith((".", "?")) or len(text) > _LONGEST:
        return f"no sentence, or of {len(text)} characters, at {_place(error)}: {text[:100]} .. {text[-60:]}"
    return ""


def _place(error: BaseException) -> str:
    """The module and line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    parts = Path(frame.filename).parts
    name = "/".join(parts[parts.index("sordino", parts.index("src")) :]) if "src" in parts else frame.filename
    return f"{name}:{frame.lineno}"


def _limit(kind: int, to: int) -> None:
    resource.setrlimit(kind, (to, resource.getrlimit(kind)[1]))


def _virtual() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _stop(*_: object) -> None:
    raise TooSlow


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    _, seed, *rest = sys.argv
    with tempfile.TemporaryDirectory() as folder:
        parts = [(rest[k], int(rest[k + 1]), int(rest[k + 2])) for k in range(0, len(rest), 3)]
        main(Path(folder), seed, parts)
