r"""A secure sum by MPyC (Schoenmakers), on our links.

    round 1    every member shares its value among all, with polynomials of degree t
    round 2    every member sends its share of the sum to t others, who then have t + 1 shares and the sum

t members see t shares of each value, which are uniform, and the polynomial of the sum, whose other coefficients are
uniform too: nothing but the sum. Nineteen coordinates share one element of the field of 2^1279 - 1, in lanes:

    element = sum_l x_l 2^(64 l)  mod p,       |sum over the members of x_l| < 2^63,

so that sums of elements are sums of lanes. A lane that overflows spills into the next one, which is a function of the
sums as well. Beside joint noise, whose products need a field of their own, coordinates are elements by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Traffic
from sordino.federation.mpyc_joint import PRIME, MpycArithmetic
from sordino.federation.mpyc_runtime import Engine, LoopMesh
from sordino.federation.trust import Trust

Whole = NDArray[np.int64]

LANES = 19
MODULUS = (1 << 1279) - 1
_BYTES = 160
_LANE = 1 << 63
_OFFSET = sum(_LANE << (64 * lane) for lane in range(LANES))


class MpycAggregation:
    """One member's end. All members hold shares; any `tolerates` of them together know nothing but the sum."""

    limit = 1 << 62

    def __init__(self, mesh: LoopMesh, tolerates: int) -> None:
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
        self._engine = Engine(mesh, tolerates)
        from mpyc import finfields

        self._wide: Any = finfields.GF(MODULUS)
        self._array: Any = finfields.GF(PRIME).array

    @staticmethod
    def among(trust: Trust, mesh: LoopMesh) -> MpycAggregation:
        """For the members and the coalitions of `trust`; parts are hidden from every single member in any case."""
        return MpycAggregation(mesh, max(1, trust.coalition(range(trust.members))))

    @property
    def traffic(self) -> Traffic:
        return self._mesh.traffic

    def tell(self, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        (message,) = messages
        others = [i for i in range(self.members) if i != self._mesh.me]
        heard = self._mesh.exchange(dict.fromkeys(others, message), others)
        return tuple(message if i == self._mesh.me else heard[i] for i in range(self.members))

    def open_sum(self, values: Whole, joint: JointSampler | None = None) -> Whole:
        (value,) = np.asarray(values, dtype=np.int64)
        flat = value.reshape(-1)
        opened = self._summed(flat) if joint is None else self._with_noise(flat, joint)
        return opened.reshape(value.shape)

    def close(self) -> None:
        self._mesh.close()

    def _summed(self, value: Whole) -> Whole:
        return unpacked(self._engine.run(self._open_lanes(packed(value))), value.size)

    async def _open_lanes(self, elements: list[int]) -> list[int]:
        self._take_round()
        inputs = await self._engine.mpc.input([self._wide(element) for element in elements])
        totals = [sum(column[1:], column[0]) for column in zip(*inputs, strict=True)]
        self._take_round()
        return [int(total.value) for total in await self._engine.mpc.output(totals)]

    def _with_noise(self, value: Whole, joint: JointSampler) -> Whole:
        arithmetic = MpycArithmetic(self._engine, self._mesh.me, self.tolerates, self.members, self._take_round)
        held = self._engine.run(self._deal(value))
        noise = joint.shares(value.size, arithmetic).astype(object)
        opened = self._engine.run(self._open(held + noise))
        total: Whole = np.where(opened > PRIME // 2, opened - PRIME, opened).astype(np.int64)
        return total

    async def _deal(self, value: Whole) -> Any:
        self._take_round()
        inputs = await self._engine.mpc.input(self._array(value.astype(object)))
        return sum(part.value for (part,) in inputs)

    async def _open(self, shares: Any) -> Any:
        self._take_round()
        return (await self._engine.mpc.output(self._array(shares))).value

    def _take_round(self) -> None:
        # all members count alike: the number labels the messages of the next exchange
        self.traffic.rounds += 1


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
    raw = b"".join(((element + _OFFSET) % MODULUS).to_bytes(_BYTES, "little")[: 8 * LANES] for element in elements)
    lanes = np.frombuffer(raw, dtype="<u8").astype(np.uint64) - np.uint64(_LANE)
    return lanes.view(np.int64)[:size].copy()
