"""The files of a checkpoint: one folder, written so that a crash at any instant leaves it usable.

    journal.jsonl                  what was reserved, begun, kept, shown and resumed, in order (see `ledger.journal`)
    state-<digest>.safetensors     the arrays of the last state, named by the SHA-256 of their content
    lock                           held by the process that is training

A state counts from the moment its journal line has reached the disk, which comes after its file has. Everything in here
was computed from answers with noise in them; keys are never written, so whoever resumes draws fresh noise.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino import outputs, wire
from sordino.ledger.journal import Journal, Writer

_HEADER = {"format": "sordino checkpoint", "version": 1}
_JOURNAL, _LOCK = "journal.jsonl", "lock"
_STATE = outputs.Kind("a state", rb".{8}\{", secret=True)

_Number = bool | int | float | str | None


@dataclass(frozen=True)
class KeptState:
    """A state on the disk: the steps behind it, the digest of its arrays, and its numbers."""

    step: int
    digest: str
    numbers: Mapping[str, _Number]

    @property
    def file(self) -> str:
        return f"state-{self.digest}.safetensors"


@dataclass(frozen=True)
class LogSummary:
    """A journal read from first to last."""

    facts: Mapping[str, Any] | None = None
    kept: KeptState | None = None
    seen: int = 0
    """The last step of the present line of states that was kept or shown."""
    lost: tuple[tuple[int, int], ...] = ()
    """(s, r) for every time a run went on from step s when step r had been seen."""
    resumes: int = 0
    seeded: bool = False
    reference: tuple[str, str] | None = None
    """The run's name in a ledger, and the digest of the facts of the run that has it."""

    @staticmethod
    def read(lines: tuple[dict[str, Any], ...]) -> LogSummary:
        summary: dict[str, Any] = {"lost": (), "resumes": 0, "seeded": False, "seen": 0}
        for line in lines:
            match line:
                case {"kind": "reserving", "reference": str(reference), "facts": str(mark)}:
                    summary["reference"] = reference, mark
                case {"kind": "begun", "facts": dict(facts), "seeded": bool(seeded)}:
                    summary |= {"facts": facts, "seeded": seeded}
                case {"kind": "kept", "step": int(step), "digest": str(digest), "numbers": dict(numbers)}:
                    summary |= {"kept": KeptState(step, digest, wire.from_plain(numbers, {})), "seen": step}
                case {"kind": "shown", "step": int(step)}:
                    summary["seen"] = max(summary["seen"], step)
                case {"kind": "resumed", "step": int(step), "seen": int(seen), "seeded": bool(seeded)}:
                    summary["lost"] += ((step, seen),) if seen > step else ()
                    summary |= {"resumes": summary["resumes"] + 1, "seen": step, "seeded": summary["seeded"] or seeded}
                case _:
                    raise ValueError(
                        f"the checkpoint's journal has a line that this version does not know: {wire.shown(line)}."
                    )
        return LogSummary(**summary)


@dataclass
class Held:
    """A checkpoint folder while this process alone may write to it."""

    path: Path
    _writer: Writer = field(repr=False)

    @property
    def summary(self) -> LogSummary:
        return LogSummary.read(self._writer.entries[1:])

    def note(self, line: dict[str, Any]) -> None:
        """Returns when the line has reached the disk."""
        self._writer.append(line)

    def keep(self, state: Any, step: int) -> None:
        content, numbers = _pack(state)
        kept = KeptState(step, hashlib.sha256(content).hexdigest(), numbers)
        outputs.write(self.path / kept.file, content, _STATE)
        self.note({"kind": "kept", "step": step, "digest": kept.digest, "numbers": wire.to_plain(dict(numbers))})
        for other in self.path.glob("state-*.safetensors"):
            if other.name != kept.file:
                other.unlink(missing_ok=True)

    def restore(self, kept: KeptState, state: Any) -> None:
        """Put what was kept into `state`, a dataclass of the same form."""
        file = self.path / kept.file
        content = file.read_bytes() if file.exists() else b""
        if hashlib.sha256(content).hexdigest() != kept.digest:
            raise ValueError(
                f"{file} is missing or damaged, so the run cannot go on from step {kept.step}: restore the folder from "
                "a copy. A run begun anew in another folder has a certificate of its own, and what both show adds up."
            )
        found = {**_arrays(content, file), **kept.numbers}
        if found.keys() != {place.name for place in fields(state)}:
            raise ValueError(f"{file} holds the state of another method: go on with what the run was begun with.")
        for name, value in found.items():
            setattr(state, name, value)


@contextmanager
def held(path: Path) -> Iterator[Held]:
    """Create the folder if need be, and keep every other process out of it until the block ends."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be created: the folder {path.parent} does not exist.")
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file: a checkpoint is a folder; name another place.")
    # weights that nobody was shown yet are for their owner's eyes
    path.mkdir(mode=0o700, exist_ok=True)
    outputs.sync_folder(path.parent)
    with _locked(path, fcntl.LOCK_EX), Journal(path / _JOURNAL, _HEADER).writing() as writer:
        yield Held(path, writer)


def read_summary(path: Path) -> LogSummary:
    """What the journal in a folder tells; an empty story where there is none."""
    if not (path / _JOURNAL).exists():
        return LogSummary()
    with _locked(path, fcntl.LOCK_SH):
        return LogSummary.read(Journal(path / _JOURNAL, _HEADER).entries())


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise RuntimeError(
            f"another process is training with the checkpoint {path}: two runs from one state would both be released "
            "and only one accounted for. Wait for it to end, or use another folder."
        ) from None
    finally:
        os.close(descriptor)


def _pack(state: Any) -> tuple[bytes, dict[str, _Number]]:
    arrays: dict[str, NDArray[Any]] = {}
    numbers: dict[str, _Number] = {}
    for place in fields(state):
        value = getattr(state, place.name)
        if isinstance(value, np.ndarray):
            arrays[place.name] = np.ascontiguousarray(value)
        elif isinstance(value, np.generic):
            numbers[place.name] = value.item()
        elif isinstance(value, _Number):
            numbers[place.name] = value
        else:
            raise TypeError(f"a state holds arrays and numbers, and its {place.name} is a {type(value).__name__}.")
    return _safetensors().save(arrays), numbers


def _arrays(content: bytes, file: Path) -> dict[str, NDArray[Any]]:
    numpy = _safetensors()
    from safetensors import SafetensorError

    try:
        # copies, because a step overwrites them
        return {name: np.array(value) for name, value in numpy.load(content).items()}
    except (SafetensorError, KeyError, TypeError, ValueError):
        raise ValueError(f"{file} is not a state as a checkpoint keeps it: restore the folder from a copy.") from None


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError("checkpoints need the safetensors package: pip install 'sordino[torch]'.") from None
    return safetensors.numpy
