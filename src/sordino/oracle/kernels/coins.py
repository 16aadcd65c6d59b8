r"""Which of many records fall on heads, each by its own coin of probability q: from member to member, without rounding.

How many records k are passed over before the next member has the law  P(k) = q (1-q)^k,  and what comes after a
member, or after a number of records without one, does not depend on what was before. So one draw says k, or that the
next 2^m-1 records hold no member. These are 2^m possibilities: as many columns, each shared by two of them (Walker
1977), the first m bits of a word choosing the column. The other bits choose between the two as soon as they differ from
the first bits of the share of the first; where they do not, 128 more bits decide.

Shares are whole numbers of 192 bits. What is rounded there, or falls between two of 2^128 numbers, is less than
`counts.DISTANCE` in total variation for up to 2^40 draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled
from sordino.privacy.randomness import Stream

_WEIGHT, _MORE = 192, 128
_FEWEST, _MOST = 6, 13
"""m: more columns say more about coins that fall on tails, and fewer stay in the nearest cache."""

_PIECE = 1 << 15
"""Words of 64 bits at a time, which stay in the second cache."""


@dataclass(frozen=True, eq=False)
class _Columns:
    """The first 32 - m bits of a column's share, beside the other possibility; the rest of the share, 128 bits."""

    low: np.uint64
    entries: NDArray[np.uint64]
    rest: list[int]
    draws: float
    """Per record."""


def heads(records: int, rate: float, stream: Stream, steps: int = 1) -> list[NDArray[np.intp]]:
    """The members among 0 .. records-1, in order, for a rate below 1, a double taken at its exact value.

    Of so many steps, in each of which every record has another coin: like so many more records, one behind another.
    """
    law = _columns(rate)
    expected = steps * records * law.draws
    members = np.empty(int(expected + 4 * math.sqrt(expected)) + 8, dtype=np.intp)
    ends = np.zeros(steps + 1, dtype=np.intp)
    found = position = step = 0
    while step < steps:
        if found == members.size:
            members = np.concatenate([members, np.empty_like(members)])
        # a draw finds one member at most
        words = stream.words((min(members.size - found, 2 * _PIECE) + 1) // 2).view(np.uint32)[: members.size - found]
        passed = np.empty(words.size, dtype=np.uint32)
        if _pass_over(words, law.entries, law.low, passed):
            _decide(words, law, passed, stream)
        found, position, step = _walk(passed, law.entries.size - 1, position, records, members, found, ends, step)
    return [members[start:end] for start, end in pairwise(ends.tolist())]


def _decide(words: NDArray[np.uint32], law: _Columns, passed: NDArray[np.uint32], stream: Stream) -> None:
    """Where the bits of a word are the first ones of its column's share."""
    columns, other = words >> np.uint32(law.low), law.entries >> np.uint64(32)
    shares = (law.entries & np.uint64(0xFFFFFFFF))[columns]
    for i in np.flatnonzero(words - (columns << np.uint32(law.low)) == shares):
        high, low = stream.words(2).tolist()
        column = int(columns[i])
        passed[i] = column if (high << 64 | low) < law.rest[column] else other[column]


@lru_cache(maxsize=64)
def _columns(rate: float) -> _Columns:
    bits = math.ceil(min(max(math.log2(4 / rate), _FEWEST), _MOST))
    last = (1 << bits) - 1
    head, all_ = Fraction(rate).as_integer_ratio()
    left, weights = 1 << _WEIGHT, []
    for _ in range(last):
        after = left * (all_ - head) // all_
        weights.append(left - after)
        left = after
    # of 2^m equal columns everybody fills up what is left of another's
    full = 1 << (_WEIGHT - bits)
    own, other = [*weights, left], list(range(last + 1))
    small = [k for k, weight in enumerate(own) if weight < full]
    large = [k for k, weight in enumerate(own) if weight >= full]
    while small:
        k, rich = small.pop(), large[-1]
        other[k] = rich
        own[rich] -= full - own[k]
        if own[rich] < full:
            small.append(large.pop())
    low = 32 - bits
    shares = [divmod(weight << low, full) for weight in own]
    entries = np.array([k << 32 | share for k, (share, _) in zip(other, shares, strict=True)], dtype=np.uint64)
    rest = [(part << _MORE) // full for _, part in shares]
    return _Columns(np.uint64(low), entries, rest, rate / -math.expm1(last * math.log1p(-rate)))


@compiled
def _pass_over(
    words: NDArray[np.uint32], entries: NDArray[np.uint64], low: np.uint64, passed: NDArray[np.uint32]
) -> np.uint64:
    """How many records each word passes over, and how many words do not say."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    below = (np.uint64(1) << low) - np.uint64(1)
    open_ = np.uint64(0)
    for i in range(words.size):
        word = np.uint64(words[i])
        column = word >> low
        entry = entries[column]
        share, rest = entry & mask, word & below
        open_ += np.uint64(rest == share)
        passed[i] = np.uint32(column if rest < share else entry >> half)
    return open_


@compiled
def _walk(
    passed: NDArray[np.uint32],
    last: int,
    position: int,
    records: int,
    members: NDArray[np.intp],
    found: int,
    ends: NDArray[np.intp],
    step: int,
) -> tuple[int, int, int]:
    """From member to member, and behind the last record to the first one of the next step."""
    at, here, none, all_ = np.uint64(found), np.uint64(position), np.uint64(last), np.uint64(records)
    for i in range(passed.size):
        k = np.uint64(passed[i])
        is_member = np.uint64(k != none)
        place = here + k
        while place >= all_:
            place -= all_
            step += 1
            ends[step] = at
            if step == ends.size - 1:
                return int(at), int(place), step
        members[at] = np.int64(place)
        here = place + is_member
        at += is_member
    return int(at), int(here), step
