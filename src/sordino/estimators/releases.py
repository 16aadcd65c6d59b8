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

_secret = secrets.token_bytes(32)
_seen: Counter[bytes] = Counter()

_ROWS = 256


def count_release(X: Any) -> int:
    """1 for records not met before, 2 the second time, and so on.

    By their features alone: another target, or the same in another code, is still a release on the same records.
    """
    mark = hashlib.blake2b(key=_secret)
    if hasattr(X, "identity"):
        mark.update(X.identity)
    else:
        rows = np.linspace(0, X.shape[0] - 1, num=min(_ROWS, X.shape[0]), dtype=int)
        sample = np.asarray(X[rows].todense() if hasattr(X, "todense") else X[rows])
        for part in (np.array(X.shape), np.ascontiguousarray(sample, dtype=float)):
            mark.update(part.tobytes())
    _seen[mark.digest()] += 1
    return _seen[mark.digest()]
