r"""Do two owners hold the same record? Counted without showing identifiers (Huberman, Franklin and Hogg 1999).

Owners i and j each take a new secret key for this pair alone. i hashes each of its identifiers x to a point H(x) of
Curve25519, raises it to its key a and sends j the sorted result; j raises what it got to its own key b and sends it
back sorted, and the other way round. As H(x)^(a b) is the same from either side, equal points of the two lists are
common identifiers. Both learn how many there are, not which; nobody else learns anything. Lists are as long as the
owners' public numbers of records, or of persons where those are protected, each with one identifier: filled up with
points of nobody or, where a public number is a stand-in below the true one, cut at random, because to stop there would
tell that one record more makes it too many. What was cut off is not compared.

This protects against owners who follow the protocol: one that fills in guesses instead of its own identifiers, each as
often as tells it from the others, learns which of its guesses another owner has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import sha256
from random import SystemRandom

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sordino.federation.aggregation import Aggregation
from sordino.federation.mesh import Refused

_P = 2**255 - 19
_A = 486662
_POINT = 32

Identifiers = Iterable[str | int | bytes]


def of_persons(identifiers: Identifiers) -> list[bytes]:
    """Those of the persons that the records belong to, each once."""
    return list(dict.fromkeys(_encoded(identifiers)))


def distinct(identifiers: Identifiers) -> list[bytes]:
    """The identifiers, if no two records of this owner have the same."""
    found = _encoded(identifiers)
    again = len(found) - len(set(found))
    if again:
        raise ValueError(
            f"{again} of {len(found)} records have an identifier that an earlier record has: a person with k records "
            "is protected k times less well. Agree on a plan that protects persons, keep one record of each, or name "
            "another column; nothing was compared."
        )
    return found


def _encoded(identifiers: Identifiers) -> list[bytes]:
    return [one if isinstance(one, bytes) else str(one).encode() for one in identifiers]


def common_identifiers(
    aggregation: Aggregation, mine: Sequence[bytes] | None, owners: Sequence[int], records: Sequence[int]
) -> dict[int, int]:
    """How many identifiers this member shares with each other one of `owners`; `mine` is None for who is not one.

    `records` are the public sizes of all owners' lists. All members call this, and only pairs send each other anything.
    """
    (me,) = aggregation.local
    peers = [] if mine is None else [owner for owner in owners if owner != me]
    points = b"" if mine is None else _points_of(mine, records[me])
    largest = _POINT * max(records)
    keys = {peer: X25519PrivateKey.generate() for peer in peers}
    told = aggregation.pass_on({peer: _raised(keys[peer], points, me) for peer in peers}, peers, largest)
    twice = {peer: _raised(keys[peer], _list(told[peer], records[peer], peer), peer) for peer in peers}
    back = aggregation.pass_on(twice, peers, largest)
    return {peer: len(set(_split(_list(back[peer], records[me], peer))) & set(_split(twice[peer]))) for peer in peers}


def _points_of(identifiers: Sequence[bytes], records: int) -> bytes:
    some = SystemRandom().sample(identifiers, min(len(identifiers), records))
    points = [_hashed(identifier) for identifier in some]
    return b"".join([*points, *(_hashed(os.urandom(32)) for _ in range(records - len(points)))])


def _list(content: bytes, records: int, peer: int) -> bytes:
    if len(content) != _POINT * records:
        raise Refused(f"member {peer} sent a malformed list of identifiers: it runs another plan or version.")
    return content


def _raised(key: X25519PrivateKey, points: bytes, member: int) -> bytes:
    # sorted by their values, which are as good as random, they say nothing of the order they came in
    try:
        return b"".join(sorted(key.exchange(X25519PublicKey.from_public_bytes(point)) for point in _split(points)))
    except ValueError:
        raise Refused(f"member {member} sent a list of identifiers with a point that is none.") from None


def _split(content: bytes) -> list[bytes]:
    return [content[start : start + _POINT] for start in range(0, len(content), _POINT)]


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
