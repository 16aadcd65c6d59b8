"""How a changed file is noticed."""

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


def identity(stamps: Iterable[Stamp], *more: object) -> bytes:
    return repr((sorted((str(s.path.resolve()), s.size, s.modified) for s in stamps), *more)).encode()
