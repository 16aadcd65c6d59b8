"""How far a ledger reached when it was last used here: kept apart from it, so that lines taken away are noticed.

    $XDG_STATE_HOME/sordino/ledgers/<digest of the ledger's path>.json          (~/.local/state where that is not set)

Every user has their own, and knows a ledger by its path. Whoever can change both files can still take lines away
unnoticed: for that, keep what `sordino ledger head` prints where they cannot write.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from sordino import outputs, wire
from sordino.ledger.journal import Chain

_HEAD = outputs.Kind("a ledger's head", rb'\{"ledger": ', secret=True)
_LARGEST = 1 << 16


@dataclass(frozen=True)
class KeptHead:
    """The head of the ledger at `path`, an absolute one."""

    path: Path

    def require(self, chain: Chain) -> None:
        kept = self._read()
        if kept is None or kept["head"] in chain.checks:
            return
        raise ValueError(
            f"{self.path} was emptied, cut or exchanged: it had {kept['lines']} lines here, ending in the head "
            f"{kept['head']}, and has {len(chain.checks)} without it now. What its data sets have spent cannot be read "
            "from it any more: restore the file from a copy that has that head; for a new ledger name another file. "
            f"(The head is kept in {self._file()}.)"
        )

    def remember(self, chain: Chain) -> None:
        kept = self._read()
        if not chain.checks or (kept is not None and kept["head"] == chain.head):
            return
        plain = {"ledger": str(self.path), "head": chain.head, "lines": len(chain.checks)}
        try:
            file = self._file()
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            outputs.write(file, json.dumps(plain, allow_nan=False).encode(), _HEAD)
        except (OSError, RuntimeError) as failure:
            # the ledger itself is written: a release must not fail over its second witness
            warnings.warn(
                f"the head of {self.path} could not be kept apart from it ({failure}): keep what `sordino ledger head` "
                "prints in a safe place, or set XDG_STATE_HOME to a folder that can be written.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _read(self) -> dict[str, str | int] | None:
        try:
            with self._file().open("rb") as file:
                kept = json.loads(file.read(_LARGEST))
            if not (isinstance(kept["head"], str) and isinstance(kept["lines"], int)):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(
                f"{self._file()} was damaged: it keeps the head of {self.path}. Compare the checksum in the ledger's "
                "last line with a head that you kept elsewhere, then remove that file."
            ) from None
        except (OSError, RuntimeError):
            return None
        return {"head": kept["head"], "lines": kept["lines"]}

    def _file(self) -> Path:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(state) / "sordino" / "ledgers" / f"{wire.digest(str(self.path))[:32]}.json"
