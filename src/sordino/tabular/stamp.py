"""How a changed file is noticed, and one that goes by two names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stamp:
    """What a file looked like when it was opened.

    Its path begins at the root, so that it names the same file in a process that works in another folder.
    """

    path: Path
    size: int
    modified: int

    @staticmethod
    def of(path: Path) -> Stamp:
        state = os.stat(path)
        return Stamp(path.absolute(), state.st_size, state.st_mtime_ns)

    def require_unchanged(self) -> None:
        try:
            now = Stamp.of(self.path)
        except FileNotFoundError:
            now = None
        if now != self:
            gone = "is gone" if now is None else "was changed"
            raise RuntimeError(
                f"{self.path} {gone} since it was opened: a guarantee is about one set of records, so nothing computed "
                "from it was released. Keep the files as they are while a model is trained, and start again."
            )


def require_different(paths: Iterable[Path]) -> None:
    """Raise a sentence where two paths, or links, lead to one file."""
    known: dict[tuple[int, int] | Path, Path] = {}
    for path in paths:
        state = os.stat(path)
        # a file system without numbers for its files has zeros
        mark = (state.st_dev, state.st_ino) if state.st_ino else path.resolve()
        if mark in known:
            raise ValueError(
                f"{known[mark]} and {path} are one file: each of its records would count twice, and what is "
                "guaranteed of a record would be false of it. Leave one of them out."
            )
        known[mark] = path


def identity(stamps: Iterable[Stamp], *more: object) -> bytes:
    return repr((sorted((str(s.path.resolve()), s.size, s.modified) for s in stamps), *more)).encode()
