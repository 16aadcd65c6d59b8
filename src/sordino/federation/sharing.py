r"""Shamir's secret sharing (1979) among all members, by MPyC's pure functions on our own links.

A value is the constant term of a random polynomial of degree t; member i holds what it is at i + 1. Any t shares are
uniform, whatever the value. Sums of shares are shares of sums, and a product of shares is one of degree 2t, which
`reshared` brings down to t again (Gennaro, Rabin and Rabin 1998).

A value is always opened by members 0, .., t, who tell their shares to all. These t + 1 shares are those of exactly one
polynomial of degree t, whatever anybody dealt or told: so there is one value, and all members get the same one as soon
as the openers told everybody the same, which is `broadcast`'s part.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.federation.broadcast import Broadcast
from sordino.federation.mesh import Mesh, Refused

Elements = NDArray[np.object_]


@dataclass(frozen=True)
class Field:
    """Whole numbers modulo a prime, each in `width` bytes."""

    prime: int
    width: int

    @cached_property
    def elements(self) -> Any:
        """As MPyC knows it, which takes some time to make sure that the prime is one."""
        _mpyc()
        from mpyc import finfields

        return finfields.GF(self.prime)

    def to_bytes(self, elements: Elements) -> bytes:
        if self.width == 8:
            return elements.astype("<u8").tobytes()
        return b"".join(int(element).to_bytes(self.width, "little") for element in elements)

    def from_bytes(self, content: bytes) -> Elements:
        if self.width == 8:
            elements = np.frombuffer(content, dtype="<u8").astype(object)
        else:
            starts = range(0, len(content), self.width)
            elements = np.array(
                [int.from_bytes(content[start : start + self.width], "little") for start in starts], dtype=object
            )
        reduced: Elements = elements % self.prime
        return reduced


@dataclass(frozen=True, eq=False)
class Sharing:
    """One member's end, with polynomials of degree `degree`."""

    mesh: Mesh
    broadcast: Broadcast
    degree: int
    field: Field

    def dealt(self, values: Elements, dealers: Sequence[int]) -> list[Elements]:
        """This member's shares of what each of the dealers has; `values` are this member's own."""
        me, members, size = self.mesh.me, self.mesh.members, self.field.width * values.size
        outgoing, mine = {}, {}
        if me in dealers:
            # one row for every member
            rows = _mpyc().np_random_split(self.field.elements, values.reshape(-1), self.degree, members)
            outgoing = {i: self.field.to_bytes(rows[i]) for i in range(members) if i != me}
            mine = {me: rows[me]}
        heard = self.mesh.exchange(outgoing, [dealer for dealer in dealers if dealer != me], size)
        shares = {dealer: self._read(dealer, content, size) for dealer, content in heard.items()} | mine
        return [shares[dealer].reshape(values.shape) for dealer in dealers]

    def reshared(self, products: Elements) -> Elements:
        """Shares of degree t again, after a sum of products."""
        dealers = range(2 * self.degree + 1)
        return self._recombined(dealers, self.dealt(products, dealers))

    def heard(self, shares: Elements) -> Elements:
        """The value of which everybody holds shares, as the openers tell it: not yet confirmed."""
        openers, size = range(self.degree + 1), self.field.width * shares.size
        told = self.broadcast.hear(self.field.to_bytes(shares.reshape(-1)), openers, size)
        rows = [self._read(opener, told[opener], size).reshape(shares.shape) for opener in openers]
        return self._recombined(openers, rows)

    def _read(self, member: int, content: bytes, size: int) -> Elements:
        if len(content) != size:
            raise Refused(
                f"member {member} sent {len(content)} bytes where {size} were agreed: it runs another plan or version. "
                "Nothing more was opened."
            )
        return self.field.from_bytes(content)

    def _recombined(self, members: Sequence[int], rows: Sequence[Elements]) -> Elements:
        points = [(member + 1, row.reshape(-1)) for member, row in zip(members, rows, strict=True)]
        value: Elements = _mpyc().np_recombine(self.field.elements, points).value
        return value.reshape(rows[0].shape)


@cache
def _mpyc() -> Any:
    """Its functions for shares."""
    # importing MPyC reads the command line, which is not MPyC's here, and would log to the standard output
    arguments, sys.argv = sys.argv, [sys.argv[0], "--no-log"]
    try:
        from mpyc import thresha
    except ImportError:
        raise ImportError("MPyC is not installed: pip install 'sordino[federation]'.") from None
    finally:
        sys.argv = arguments
    return thresha
