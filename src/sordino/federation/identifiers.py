r"""Do two owners hold the same record? Counted without showing identifiers (Huberman, Franklin and Hogg 1999).

Owner i hashes each identifier x to a point H(x) of Curve25519, raises it to its secret key a_i and tells the sorted
result. Everybody raises everybody else's points to its own key and tells them sorted again. As H(x)^(a_i a_j) is the
same from either side, equal points of the two lists are common identifiers. What is learnt is how many there are for
each pair of owners, not which; lists are filled up to the owners' public numbers of records.

This protects against owners who follow the protocol: one that fills in guesses instead of its own identifiers learns
how many of its guesses another owner has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import combinations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sordino.federation.aggregation import Aggregation

_P = 2**255 - 19
_A = 486662
_POINT = 32

Identifiers = Iterable[str | int | bytes]


def common_identifiers(
    aggregation: Aggregation, given: Sequence[Identifiers | None], records: Sequence[int]
) -> dict[tuple[int, int], int]:
    """How many identifiers each pair of owners shares. `given` is for the local members, None where there are none.

    `records` are the public sizes of all owners' lists.
    """
    keys = [X25519PrivateKey.generate() for _ in given]
    local = list(zip(aggregation.local, keys, given, strict=True))
    lists = aggregation.tell([_first(key, some, records, member) for member, key, some in local])
    for told in lists:
        if len(told) % _POINT:
            raise ValueError("a member sent a malformed list of identifiers: it runs another version.")
    answers = aggregation.tell([b"".join(_raised(key, told) for told in lists) for _, key, _ in local])
    ends = [sum(map(len, lists[: j + 1])) for j in range(len(lists))]
    shared = {}
    for i, j in combinations(range(len(records)), 2):
        # i's points raised by j, and j's points raised by i
        one = answers[j][ends[i] - len(lists[i]) : ends[i]]
        other = answers[i][ends[j] - len(lists[j]) : ends[j]]
        shared[i, j] = len(set(_points(one)) & set(_points(other)))
    return shared


def _first(key: X25519PrivateKey, identifiers: Identifiers | None, records: Sequence[int], member: int) -> bytes:
    if identifiers is None:
        return b""
    points = {_hashed(_bytes(identifier)) for identifier in identifiers}
    points |= {_hashed(os.urandom(32)) for _ in range(records[member] - len(points))}
    return _raised(key, b"".join(points))


def _raised(key: X25519PrivateKey, points: bytes) -> bytes:
    # sorted by their values, which are as good as random, they say nothing of the order they came in
    return b"".join(sorted(key.exchange(X25519PublicKey.from_public_bytes(point)) for point in _points(points)))


def _points(content: bytes) -> list[bytes]:
    return [content[start : start + _POINT] for start in range(0, len(content), _POINT)]


def _bytes(identifier: str | int | bytes) -> bytes:
    return identifier if isinstance(identifier, bytes) else str(identifier).encode()


def _hashed(identifier: bytes) -> bytes:
    """The first of a row of hashes that is a point of the curve, not of its twist: else a bit of it would show."""
    attempt = 0
    while True:
        digest = sha256(b"sordino identifier %d " % attempt + identifier).digest()
        u = int.from_bytes(digest, "little") % 2**255
        # v^2 = u^3 + A u^2 + u has a root
        if 1 < u < _P and pow(u**3 + _A * u**2 + u, (_P - 1) // 2, _P) == 1:
            return u.to_bytes(_POINT, "little")
        attempt += 1
