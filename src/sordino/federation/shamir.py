r"""A secure sum by Shamir's sharing over 2^61 - 1, and the arithmetic of joint noise (Ben-Or et al. 1988).

    round 1    every member shares its value among the holders, with polynomials of degree t
    round 2    every holder sends the sum of the shares it got; t + 1 of them give the sum, the others are compared

t members see t shares of each value, which are uniform, and the polynomial of the sum, whose other coefficients are
uniform too: nothing but the sum. Products of shares have degree 2t, so each member shares its product anew with degree
t (Gennaro, Rabin, Rabin 1998), which needs 2t + 1 members.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sordino.federation.field import (
    LIMIT,
    P,
    Words,
    combine,
    reconstruct,
    share,
    to_field,
    to_whole,
    uniform,
    weights_at,
)
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Mesh, Traffic
from sordino.federation.trust import Trust
from sordino.privacy.randomness import Randomness, Stream

Whole = NDArray[np.int64]


class ShamirAggregation:
    """One member's end. `holders` hold the shares: all members, or the servers of a committee."""

    limit = LIMIT

    def __init__(
        self, mesh: Mesh, tolerates: int, holders: Sequence[int] | None = None, stream: Stream | None = None
    ) -> None:
        """`stream` hides the shares; it is fresh from the operating system unless a test gives one."""
        self._mesh = mesh
        self.members = mesh.members
        self.local = (mesh.me,)
        self.tolerates = tolerates
        self.holders = tuple(range(mesh.members) if holders is None else holders)
        self._stream = Randomness.system().noise if stream is None else stream
        if not 1 <= tolerates < len(self.holders):
            raise ValueError(
                f"{len(self.holders)} members hold shares and {tolerates} of them may pool theirs: between 1 and "
                f"{len(self.holders) - 1} can be tolerated."
            )

    @staticmethod
    def among(trust: Trust, mesh: Mesh, stream: Stream | None = None) -> ShamirAggregation:
        """For the members and the coalitions of `trust`."""
        return ShamirAggregation(mesh, trust.coalition(trust.holders), trust.holders, stream)

    @property
    def traffic(self) -> Traffic:
        return self._mesh.traffic

    def tell(self, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        (message,) = messages
        heard = self._mesh.exchange(self._to(self._others, message), self._others)
        return tuple(message if i == self._mesh.me else heard[i] for i in range(self.members))

    def open_sum(self, values: Whole, joint: JointSampler | None = None) -> Whole:
        (value,) = np.asarray(values, dtype=np.int64)
        held = self._deal(to_field(value.reshape(-1)))
        if joint is not None:
            if self.holders != tuple(range(self.members)):
                raise ValueError("joint noise is drawn by all members together: it needs no committee.")
            noise = joint.shares(value.size, ShamirArithmetic(self._mesh, self.tolerates, self._stream))
            held = combine(np.stack([held, noise]), np.ones(2, dtype=np.uint64))
        return to_whole(self._open(held, value.size)).reshape(value.shape)

    def close(self) -> None:
        self._mesh.close()

    @property
    def _others(self) -> list[int]:
        return [i for i in range(self.members) if i != self._mesh.me]

    def _to(self, receivers: Sequence[int], message: bytes) -> dict[int, bytes]:
        return {i: message for i in receivers if i != self._mesh.me}

    def _deal(self, value: Words) -> Words:
        """This member's share of the sum, nothing where it holds none."""
        shares = share(value, self.tolerates, len(self.holders), self._stream)
        return exchange_sum(self._mesh, dict(zip(self.holders, shares, strict=True)), range(self.members))

    def _open(self, held: Words, size: int) -> Words:
        is_holder = self._mesh.me in self.holders
        outgoing = self._to(range(self.members), held.tobytes()) if is_holder else {}
        heard = self._mesh.exchange(outgoing, [i for i in self.holders if i != self._mesh.me])
        shares = [held if i == self._mesh.me else elements(heard[i], size) for i in self.holders]
        # the holders' points are 1, 2, .. in their own order
        return reconstruct(np.stack(shares), range(len(shares)), self.tolerates)


class ShamirArithmetic:
    """Products and coins on shares of degree t, held by all members."""

    def __init__(self, mesh: Mesh, degree: int, stream: Stream) -> None:
        if 2 * degree + 1 > mesh.members:
            raise ValueError(
                f"{mesh.members} members and {degree} who may pool what they saw: products of shares, and with them "
                f"joint noise, need at least {2 * degree + 1} members."
            )
        self._mesh, self._degree, self._stream = mesh, degree, stream

    def constant(self, value: int, shape: tuple[int, ...]) -> Words:
        return np.full(shape, value % P, dtype=np.uint64)

    def products(self, a: Words, b: Words) -> Words:
        from sordino.federation.field_kernels import products

        shape = a.shape[1:]
        local = np.empty(int(np.prod(shape)), dtype=np.uint64)
        products(np.ascontiguousarray(a).reshape(len(a), -1), np.ascontiguousarray(b).reshape(len(b), -1), local)
        dealers = range(2 * self._degree + 1)
        weights = weights_at(tuple(dealers), 0)
        if self._mesh.me in dealers:
            # lambda_i times the product, shared anew: the sum over the dealers is the product
            local = combine(local[None], weights[self._mesh.me : self._mesh.me + 1])
        return self._dealt(local, self._degree, dealers).reshape(shape)

    def coins(self, count: int, size: int) -> Words:
        """b = (r / root(r^2) + 1) / 2 with r uniform and r^2 opened: the sign of r is a fair coin."""
        from sordino.federation.field_kernels import inverse_roots, products

        dealers = range(self._degree + 1)
        n = count * size
        r = self._dealt(uniform(self._stream, (n,)), self._degree, dealers)
        # r^2 has degree 2t and is no random polynomial: a random one with value 0 at 0 hides all but r^2
        zero = self._dealt(np.zeros(n, dtype=np.uint64), 2 * self._degree, dealers)
        square = np.empty(n, dtype=np.uint64)
        products(np.stack([r, np.ones_like(r)]), np.stack([r, zero]), square)
        everybody = range(self._mesh.members)
        others = [i for i in everybody if i != self._mesh.me]
        heard = self._mesh.exchange({i: square.tobytes() for i in others}, others)
        shares = np.stack([square if i == self._mesh.me else elements(heard[i], n) for i in everybody])
        opened = reconstruct(shares, everybody, 2 * self._degree)
        if not opened.all():
            # once in 2^61 coins r is 0 and has no sign
            return self.coins(count, size)
        root = np.empty(n, dtype=np.uint64)
        inverse_roots(opened, root)
        signs = np.empty(n, dtype=np.uint64)
        products(r[None], root[None], signs)
        half = pow(2, -1, P)
        halves = np.array([half, half], dtype=np.uint64)
        return combine(np.stack([signs, np.ones_like(signs)]), halves).reshape(count, size)

    def _dealt(self, value: Words, degree: int, dealers: Sequence[int]) -> Words:
        """Shares of the sum of what the dealers hold."""
        shares = {}
        if self._mesh.me in dealers:
            shares = dict(enumerate(share(value, degree, self._mesh.members, self._stream)))
        return exchange_sum(self._mesh, shares, dealers, value.size)


def exchange_sum(mesh: Mesh, shares: dict[int, Words], dealers: Sequence[int], size: int | None = None) -> Words:
    """Send everybody its share and add up the shares that come from the dealers."""
    holders = set(shares) if size is None else set(range(mesh.members))
    count = next(iter(shares.values())).size if size is None else size
    outgoing = {i: part.tobytes() for i, part in shares.items() if i != mesh.me}
    expected = [i for i in dealers if i != mesh.me] if mesh.me in holders else []
    heard = mesh.exchange(outgoing, expected)
    parts = [elements(message, count) for message in heard.values()]
    if mesh.me in shares:
        parts.append(shares[mesh.me])
    if not parts:
        return np.zeros(count, dtype=np.uint64)
    return combine(np.stack(parts), np.ones(len(parts), dtype=np.uint64))


def elements(message: bytes, size: int) -> Words:
    """A message as field elements; a sentence if it is not what was agreed."""
    if len(message) != 8 * size:
        raise ValueError(
            f"a member sent {len(message)} bytes where {8 * size} were expected: it runs another plan or version."
        )
    words = np.frombuffer(message, dtype="<u8").astype(np.uint64, copy=False)
    if words.size and int(words.max()) >= P:
        raise ValueError("a member sent numbers outside the field: the message was altered or is of another version.")
    return words
