r"""How often records were trained on in this session, by this process and by those it started (joblib's workers).

Only a warning depends on it. A release leaves the smallest fingerprints of its rows,

    S(X) = the k smallest of { h(x) : x a row of X that occurs once },        h a keyed hash,

a sample that depends on the rows and not on their order: where two sets of records share rows, the samples share those
below both their largest elements. A copy, a shuffled one, a fold and a subset are so found alike.

The key passes to child processes in the environment and is never written; what is on the disk, in a folder that the
first process removes at its end, is encrypted with it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

_SESSION = "SORDINO_SESSION"
_KEPT = 1024
_LOOKED_AT = 4 * _KEPT
"""About so many of the smallest hashes are sorted."""

_LARGEST = np.uint64(2**64 - 1)
_SHARED = 0.05
"""Which part of the comparable fingerprints must be the same, where rows seldom occur twice."""

_CELLS = 1 << 16
"""So many at a time: they stay in the cache."""

_MANY = 1 << 17
"""Cells of which others' sums are compiled anyway (`DenseBlock.small`)."""

Prints = NDArray[np.uint64]


def _begin() -> None:
    """At import, before a worker is started: whoever inherits the environment belongs to the session."""
    if not re.fullmatch(r"[0-9a-f]{64}", os.environ.get(_SESSION, "")):
        os.environ[_SESSION] = secrets.token_hex(32)
        folder, owner = _folder(), os.getpid()
        atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)


def count_release(X: Any) -> int:
    """1 for records of which none was met before, 2 the second time, and so on.

    By their features alone: another target, or the same in another code, is still a release on the same records.
    """
    prints, repeated = _prints(X)
    earlier = _earlier()
    _write(prints)
    # other records of the same kind share about as many rows as occur twice among these: well above it is no chance
    least = max(_SHARED, min(1.5 * repeated, 0.9))
    return 1 + sum(times for other, times in earlier if _overlap(prints, other) > least)


def _earlier() -> list[tuple[Prints, int]]:
    """Samples, and how often each was left: whoever tries many settings on the same rows leaves the same one."""
    same = defaultdict(list)
    for path in _folder().glob("*.seen"):
        same[path.name.partition("-")[0]].append(path)
    return [(_read(paths[0]), len(paths)) for paths in same.values()]


def _overlap(one: Prints, other: Prints) -> float:
    """Which part of the smaller set's rows is in the other one too."""
    # below both largest elements the samples are complete; a sample of fewer than k is complete everywhere
    reach = min(prints[-1] if prints.size == _KEPT else _LARGEST for prints in (one, other))
    few, many = sorted((prints[: prints.searchsorted(reach, "right")] for prints in (one, other)), key=len)
    if not few.size:
        return 0.0
    return float(np.mean(many[many.searchsorted(few).clip(max=many.size - 1)] == few))


def _prints(X: Any) -> tuple[Prints, float]:
    """The sample, and which part of the rows occurs more than once: of other records' rows, so many are here too."""
    if hasattr(X, "identity"):
        mark = hashlib.blake2b(X.identity, key=_key(), digest_size=8).digest()
        return np.frombuffer(mark, dtype=np.uint64), 0.0
    every = _hashes(X)
    # all copies of a row or none, and nearly always enough that occur once: to sort them all would take longer
    few = every[every <= _LARGEST // max(1, every.size // _LOOKED_AT)]
    hashes, counts = np.unique(few, return_counts=True)
    if np.count_nonzero(counts == 1) < _KEPT and few.size < every.size:
        hashes, counts = np.unique(every, return_counts=True)
    once = hashes[counts == 1]
    # where no row occurs once, other records of the same kind have the same rows: how often they occur differs
    if once.size == 0:
        return np.sort(_mixed(hashes + counts.astype(np.uint64)))[:_KEPT], 0.5
    return once[:_KEPT], float(1 - once.size / counts.sum())


def _hashes(X: Any) -> Prints:
    """sum_j a_j m(x_ij) modulo 2^64, mixed: a_j is a column's secret number, m folds the bits of a cell."""
    seed = int.from_bytes(hashlib.blake2b(b"%d columns" % X.shape[1], key=_key()).digest(), "little")
    a = np.random.default_rng(seed).integers(1, 2**64, size=X.shape[1], dtype=np.uint64, endpoint=False)
    if hasattr(X, "tocsr"):
        rows = X.tocsr()
        cells = _folded(np.array(rows.data, dtype=np.float64)) * a[rows.indices]
        ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(cells, dtype=np.uint64)])[rows.indptr]
        return _mixed(ends[1:] - ends[:-1])
    block = max(1, _CELLS // X.shape[1])
    sums = np.empty(X.shape[0], dtype=np.uint64)
    hashed = _row_hashes
    if X.shape[0] * X.shape[1] > _MANY:
        from sordino.estimators.release_kernels import row_hashes

        hashed = row_hashes
        if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.flags.c_contiguous:
            # nothing is copied
            block = X.shape[0]
    for first in range(0, X.shape[0], block):
        cells = np.ascontiguousarray(X[first : first + block], dtype=np.float64)
        # the kernel is compiled for one kind of array
        cells.flags.writeable = False
        hashed(cells, a, sums[first : first + block])
    return _mixed(sums)


def _row_hashes(rows: NDArray[np.float64], multipliers: Prints, hashes: Prints) -> None:
    np.einsum("ij,j->i", _folded(rows.copy()), multipliers, out=hashes)


def _folded(cells: NDArray[np.float64]) -> Prints:
    """In place: the bits of the cells, the high ones brought down too, for round numbers have zeros for low ones."""
    # makes minus zero zero, which a sparse row need not hold at all; zero stays zero
    cells += 0.0
    bits = cells.view(np.uint64)
    bits ^= bits >> np.uint64(32)
    return bits


def _mixed(bits: Prints) -> Prints:
    bits = bits ^ (bits >> np.uint64(32))
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(29)
    return bits


def _key() -> bytes:
    return bytes.fromhex(os.environ[_SESSION])


def _folder() -> Path:
    name = hashlib.blake2b(b"folder", key=_key(), digest_size=16).hexdigest()
    return Path(tempfile.gettempdir()) / f"sordino-{name}"


def _write(prints: Prints) -> None:
    folder, nonce = _folder(), secrets.token_bytes(12)
    sealed = AESGCM(_key()).encrypt(nonce, prints.tobytes(), None)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        sample = hashlib.blake2b(prints.tobytes(), key=_key(), digest_size=16).hexdigest()
        part = folder / f"{sample}-{secrets.token_hex(8)}.part"
        part.write_bytes(nonce + sealed)
        part.rename(part.with_suffix(".seen"))
    except OSError:
        # a full disk takes a warning away, never a release
        return


@cache
def _read(path: Path) -> Prints:
    try:
        content = path.read_bytes()
        return np.frombuffer(AESGCM(_key()).decrypt(content[:12], content[12:], None), dtype=np.uint64)
    except (InvalidTag, ValueError, OSError):
        # gone since it was listed, as at the end of the process that began: it takes a warning away, never a release
        return np.empty(0, dtype=np.uint64)


_begin()
