"""The cover of a discrete Gaussian's graph by strips, and the table that picks one of them: see `discrete_gaussian`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COLUMN_BITS = 11
"""The table has 2^11 columns of 8 bytes: half of a first-level cache."""

OTHER = -(1 << 15)
"""Stands in the table for everything that is not the certain part of a strip."""


@dataclass(frozen=True)
class Grain:
    """How finely the graph is covered. It decides the speed; the law is the same for all of them.

    `slack` bounds the relative error of K exp(-k^2/2s^2) in double precision. K < 2^40, so where the graph is above one
    unit the exponent is below 28: four roundings move it by less than 2^-46, and `exp` adds a few times 2^-53.
    """

    strips: int = 2 ** (COLUMN_BITS - 1) - 1  # on either side, at most
    level_bits: int = 28
    reach: float = 6.5
    slack: float = 2.0**-42


DEFAULT_GRAIN = Grain()


class Strips(NamedTuple):
    """The cover of the graph at one scale, laid out for the kernels. Areas are in units of w x 1."""

    scale: float
    table: NDArray[np.int64]  # column -> first strip (16 bits), second strip (16 bits), threshold (32 bits)
    level_bits: int
    width_bits: int
    first: int  # the leftmost strip's number
    certain: NDArray[np.int64]  # strip -> m
    starts: NDArray[np.int64]  # the uncertain parts end to end, then the tail, then padding
    guide: NDArray[np.int64]  # leading bits of a point -> where to begin looking in `starts`
    guide_bits: int
    limit: np.uint64  # the largest word whose remainder by the uncertain total is uniform
    height: float  # K
    decay: float  # 1/2s^2
    slack: float


@lru_cache(maxsize=64)
def cover(scale: float, grain: Grain = DEFAULT_GRAIN) -> Strips:
    """The strips, their areas and the alias table for one scale."""
    # w > reach s / strips
    width_bits = max(0, math.frexp(grain.reach * scale / grain.strips)[1])
    w = 1 << width_bits
    n = math.ceil(grain.reach * scale / w)

    # |k| goes from i w to i w + w - 1 in strip i >= 0, from i w + 1 to i w + w in strip -1 - i
    left = np.arange(n, dtype=np.float64) * w
    near = np.concatenate([(left + 1)[::-1], left])
    far = np.concatenate([(left + w)[::-1], left + w - 1])
    # 2^-40 outweighs the error of these doubles wherever the area is one unit or more
    lower = np.exp(-((far / scale) ** 2) / 2) * (1 - 2.0**-40)
    upper = np.exp(-((near / scale) ** 2) / 2) * (1 + 2.0**-40)
    beyond = 4 * (1 << tail_bits(scale)) / w * math.exp(-((n * w / scale) ** 2) / 2) * (1 + 2.0**-40)

    # the largest height whose areas, rounded to whole units, fit into the table
    space = 1 << (COLUMN_BITS + grain.level_bits)
    K = space
    while True:
        areas, tail = np.floor(K * upper).astype(np.int64) + 1, math.floor(K * beyond) + 1
        total = int(areas.sum()) + tail
        if total <= space:
            break
        K = K * space // total - 1
    certain = np.floor(K * lower).astype(np.int64)

    parts = [0, *(areas - certain).tolist(), tail, space - total]
    starts = np.cumsum(np.array(parts, dtype=np.int64))
    rest = int(starts[-1])
    guide_bits = max(0, rest.bit_length() - COLUMN_BITS)
    corners = np.arange(((rest - 1) >> guide_bits) + 1, dtype=np.int64) << guide_bits
    return Strips(
        scale=scale,
        table=_alias_table([*certain.tolist(), rest], [*range(-n, n), OTHER], grain.level_bits),
        level_bits=grain.level_bits,
        width_bits=width_bits,
        first=-n,
        certain=certain,
        starts=starts,
        guide=np.searchsorted(starts, corners, side="right") - 1,
        guide_bits=guide_bits,
        limit=np.uint64((1 << 64) - (1 << 64) % rest - 1),
        height=float(K),
        decay=0.5 / scale**2,
        slack=grain.slack,
    )


def _alias_table(areas: list[int], names: list[int], level_bits: int) -> NDArray[np.int64]:
    """Columns of 2^level_bits units, each shared by at most two names, that give every name exactly its area."""
    columns, capacity = 1 << COLUMN_BITS, 1 << level_bits
    left = areas + [0] * (columns - len(areas))
    first = names + [0] * (columns - len(names))
    second = [0] * columns
    small = [c for c in range(columns) if left[c] < capacity]
    large = [c for c in range(columns) if left[c] >= capacity]
    while small:
        poor, rich = small.pop(), large[-1]
        second[poor] = first[rich]
        left[rich] -= capacity - left[poor]
        if left[rich] < capacity:
            small.append(large.pop())
    one, other, threshold = np.array([first, second, left], dtype=np.int64)
    return np.asarray(one << 48 | (other & 0xFFFF) << 32 | threshold)


def tail_bits(scale: float) -> int:
    return max(0, math.frexp(scale)[1])
