"""How often this process has trained on the same records.

Only a warning depends on it, so a fingerprint of a few rows is enough. It is keyed with a secret that never leaves the
process, so that it says nothing about the records to anyone.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

_secret = secrets.token_bytes(32)
_seen: Counter[bytes] = Counter()

_ROWS = 256


def count_release(X: Any, y: NDArray[np.float64] | None) -> int:
    """1 for records not met before, 2 the second time, and so on."""
    mark = hashlib.blake2b(key=_secret)
    if y is None:
        mark.update(X.identity)
    else:
        rows = np.linspace(0, len(y) - 1, num=min(_ROWS, len(y)), dtype=int)
        sample = np.asarray(X[rows].todense() if hasattr(X, "todense") else X[rows])
        for part in (np.array(X.shape), np.ascontiguousarray(sample, dtype=float), np.asarray(y[rows], dtype=float)):
            mark.update(part.tobytes())
    _seen[mark.digest()] += 1
    return _seen[mark.digest()]
