r"""A secure sum by MPyC (Schoenmakers), on our links: a second implementation of the same protocol.

Nineteen coordinates share one element of the field of 2^1279 - 1, in lanes of 64 bits:

    element = sum_l x_l 2^(64 l)  mod p,       |sum over the members of x_l| < 2^63,

so that sums of elements are sums of lanes. A lane that overflows spills into the next one, which is a function of the
sums as well. MPyC's arrays are not used: it reads them from the network with pickle, which lets a member run any
program on the others. Its lists of field elements travel as plain bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Traffic

if TYPE_CHECKING:
    from sordino.federation.tls import TlsMesh

Whole = NDArray[np.int64]

LANES = 19
MODULUS = (1 << 1279) - 1
_BYTES = 160
_LANE = 1 << 63
_OFFSET = sum(_LANE << (64 * lane) for lane in range(LANES))


class MpycAggregation:
    """One member's end. All members hold shares; any `tolerates` of them together know nothing but the sum."""

    limit = 1 << 62

    def __init__(self, mesh: TlsMesh, tolerates: int) -> None:
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
        self._runtime, self._element = mesh.run(_runtime(mesh, tolerates))

    @property
    def traffic(self) -> Traffic:
        return self._mesh.traffic

    def tell(self, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        (message,) = messages
        others = [i for i in range(self.members) if i != self._mesh.me]
        heard = self._mesh.exchange(dict.fromkeys(others, message), others)
        return tuple(message if i == self._mesh.me else heard[i] for i in range(self.members))

    def open_sum(self, values: Whole, joint: JointSampler | None = None) -> Whole:
        if joint is not None:
            raise ValueError("joint noise is drawn by ShamirAggregation; MPyC's coins take seconds for 100 numbers.")
        (value,) = np.asarray(values, dtype=np.int64)
        elements = packed(value.reshape(-1))
        opened = self._mesh.run(self._open(elements))
        # shares to all others, and one message to each of `tolerates` others to open the sum
        message = bytes(_BYTES * len(elements))
        self.traffic.count(dict.fromkeys(range(self.members - 1), message))
        self.traffic.count(dict.fromkeys(range(self.tolerates), message))
        return unpacked(opened, value.size).reshape(value.shape)

    async def _open(self, elements: list[int]) -> list[int]:
        inputs = await self._runtime.input([self._element(element) for element in elements])
        totals = [sum(column[1:], column[0]) for column in zip(*inputs, strict=True)]
        return [int(total.value) for total in await self._runtime.output(totals)]

    def close(self) -> None:
        self._mesh.close()


async def _runtime(mesh: TlsMesh, tolerates: int) -> tuple[Any, Any]:
    """MPyC's runtime on the mesh's links and in its thread."""
    # importing the runtime reads the command line, which is not MPyC's here, and would log to the standard output
    arguments, sys.argv = sys.argv, [sys.argv[0], "--no-log"]
    try:
        import mpyc
        from mpyc import asyncoro, finfields
        from mpyc.runtime import Party, Runtime
    except ImportError:
        raise ImportError("MPyC is not installed: pip install 'sordino[federation]'.") from None
    finally:
        sys.argv = arguments
    options = mpyc._get_arg_parser().parse_args([])
    options.threshold, options.no_prss, options.no_log = tolerates, True, True
    runtime = Runtime(mesh.me, [Party(i, "", 0) for i in range(mesh.members)], options)
    runtime._loop = mesh.loop
    for party in runtime.parties:
        party.protocol = mesh.links.get(party.pid)
    asyncoro.runtime = runtime
    return runtime, finfields.GF(MODULUS)


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
