r"""A secure sum by Shamir's secret sharing, with MPyC's functions (Schoenmakers) on our links.

    round 1    every member shares its value among all, with polynomials of degree t
    round 2    members 0, .., t tell all their shares of the sum, which have it
    round 3    everybody tells all what it heard in round 2, and nobody uses a sum before (`broadcast`)

t members see t shares of each value, which are uniform, and the polynomial of the sum, whose other coefficients are
uniform too: nothing but the sum. Nineteen coordinates share one element of the field of 2^1279 - 1, in lanes:

    element = sum_l x_l 2^(64 l)  mod p,       |sum over the members of x_l| < 2^63,

so that sums of elements are sums of lanes. A lane that overflows spills into the next one, which is a function of the
sums as well. Beside joint noise, whose products need a field of their own, coordinates are elements by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sordino.arrays import Whole
from sordino.federation.broadcast import Broadcast
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Mesh, Traffic
from sordino.federation.mpyc_joint import PRIME, WORDS, MpycArithmetic
from sordino.federation.sharing import Elements, Field, Sharing
from sordino.federation.trust import Trust

LANES = 19
MODULUS = (1 << 1279) - 1
_WIDE = Field(MODULUS, 160)
_LANE = 1 << 63
_OFFSET = sum(_LANE << (64 * lane) for lane in range(LANES))


class MpycAggregation:
    """One member's end. All members hold shares; any `tolerates` of them together know nothing but the sum."""

    limit = 1 << 62

    def __init__(self, mesh: Mesh, tolerates: int) -> None:
        if not 1 <= tolerates < mesh.members:
            raise ValueError(
                f"{mesh.members} members and {tolerates} who may pool what they saw: between 1 and {mesh.members - 1} "
                "can be tolerated."
            )
        self._mesh = mesh
        self.members = mesh.members
        self.local = (mesh.me,)
        self.holders = tuple(range(mesh.members))
        self.tolerates = tolerates
        self._broadcast = Broadcast(mesh)
        self._lanes = Sharing(mesh, self._broadcast, tolerates, _WIDE)
        self._words = Sharing(mesh, self._broadcast, tolerates, WORDS)

    @staticmethod
    def among(trust: Trust, mesh: Mesh) -> MpycAggregation:
        """For the members and the coalitions of `trust`; parts are hidden from every single member in any case."""
        return MpycAggregation(mesh, max(1, trust.coalition(range(trust.members))))

    @property
    def traffic(self) -> Traffic:
        return self._mesh.traffic

    def tell(self, messages: Sequence[bytes], largest: int = 1 << 20) -> tuple[bytes, ...]:
        (message,) = messages
        return self._broadcast.tell(message, largest)

    def pass_on(self, outgoing: Mapping[int, bytes], senders: Sequence[int], largest: int) -> dict[int, bytes]:
        return self._mesh.exchange(outgoing, senders, largest)

    def open_sum(self, values: Whole, joint: JointSampler | None = None) -> Whole:
        return self.witnessed_sum(values, joint, lambda total: b"")[0]

    def witnessed_sum(
        self, values: Whole, joint: JointSampler | None, witness: Callable[[Whole], bytes]
    ) -> tuple[Whole, tuple[bytes, ...]]:
        (value,) = np.asarray(values, dtype=np.int64)
        flat = value.reshape(-1)
        total = (self._summed(flat) if joint is None else self._with_noise(flat, joint)).reshape(value.shape)
        return total, self._broadcast.confirm(witness(total))

    def close(self) -> None:
        self._mesh.close()

    def _summed(self, value: Whole) -> Whole:
        shares = self._shares_of_sum(self._lanes, np.array(packed(value), dtype=object))
        return unpacked(self._lanes.heard(shares).tolist(), value.size)

    def _with_noise(self, value: Whole, joint: JointSampler) -> Whole:
        shares = self._shares_of_sum(self._words, value.astype(object) % PRIME)
        noise = joint.shares(value.size, MpycArithmetic(self._words)).astype(object)
        opened = self._words.heard((shares + noise) % PRIME)
        total: Whole = np.where(opened > PRIME // 2, opened - PRIME, opened).astype(np.int64)
        return total

    def _shares_of_sum(self, sharing: Sharing, elements: Elements) -> Elements:
        total: Elements = np.sum(sharing.dealt(elements, range(self.members)), axis=0) % sharing.field.prime
        return total


def packed(values: Whole) -> list[int]:
    """Lanes of 64 bits, as elements of the field."""
    padded = np.zeros(-(-values.size // LANES) * LANES, dtype=np.int64)
    padded[: values.size] = values
    # lanes above zero, and their offsets taken off again
    raw = (padded.view(np.uint64) + np.uint64(_LANE)).astype("<u8").tobytes()
    width = 8 * LANES
    return [
        (int.from_bytes(raw[start : start + width], "little") - _OFFSET) % MODULUS
        for start in range(0, len(raw), width)
    ]


def unpacked(elements: list[int], size: int) -> Whole:
    """The lanes again."""
    raw = b"".join(((element + _OFFSET) % MODULUS).to_bytes(_WIDE.width, "little")[: 8 * LANES] for element in elements)
    lanes = np.frombuffer(raw, dtype="<u8").astype(np.uint64) - np.uint64(_LANE)
    return lanes.view(np.int64)[:size].copy()
