"""Uniform subsets and orders of whole numbers, from the secret stream's bits, without rounding.

A number below m is the upper half of a 32-bit word times m; words for which some numbers would come up more often than
others are drawn again (Lemire 2019). A subset of k among n is Floyd's: for j = n-k .. n-1 a number t <= j is drawn, and
t becomes a member, or j if t is one already. Members are bits of a table, from which they are read in order. Where few
words of the table have one, a second table has a bit for each of those, and is read first.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.kernels.native import compiled, lowest_bit, number_of_bits
from sordino.privacy.randomness import Stream

MOST = 1 << 31
"""Numbers lie below this."""

SPARSE = 1 << 13
"""A table is read where at least one number in so many is a member; among others NumPy keeps a list of the members."""

_OUTLINED = 1 << 9
"""There is a second table where fewer than one number in so many is a member."""


def subset(records: int, size: int, stream: Stream) -> NDArray[np.intp]:
    """A uniform subset of 0 .. records-1 of this size, in order."""
    few = min(size, records - size)
    if records >= MOST or few < records // SPARSE:
        drawn = stream.generator.choice(records, size, replace=False, shuffle=False).astype(np.intp, copy=False)
        drawn.sort()
        return drawn
    table = np.zeros(records // 64 + 1, dtype=np.uint64)
    outline = np.zeros(len(table) // 64 + 1 if size < records // _OUTLINED else 0, dtype=np.uint64)
    first = records - few
    while first < records:
        first = _mark(table, outline, first, records, _words(records - first, stream))
    if few < size:
        np.invert(table, out=table)
        table[-1] &= np.uint64((1 << records % 64) - 1)
    every = np.arange(0)
    return _read(table, _read(outline, every, few) if len(outline) else every, size)


def permutation(count: int, stream: Stream) -> NDArray[np.intp]:
    """A uniform order of 0 .. count-1 (Fisher and Yates)."""
    if count >= MOST:
        return stream.generator.permutation(count).astype(np.intp, copy=False)
    order = np.arange(count)
    last = count - 1
    while last > 0:
        last = _exchange(order, last, _words(last, stream))
    return order


def _words(count: int, stream: Stream) -> NDArray[np.uint32]:
    """At least one for each draw, and some more for those that have to be drawn again."""
    return stream.words(count // 2 + 4).view(np.uint32)


@compiled
def _below(m: int, words: NDArray[np.uint32], used: int) -> tuple[np.int64, int]:
    """A uniform number below m and how many words are used then; -1 where they do not suffice."""
    bound = np.uint64(m)
    while used < words.size:
        product = np.uint64(words[used]) * bound
        used += 1
        lower = product & np.uint64(0xFFFFFFFF)
        # most words need no division
        if lower >= bound or lower >= (np.uint64(1 << 32) - bound) % bound:
            return np.int64(product >> np.uint64(32)), used
    return np.int64(-1), used


@compiled
def _mark(
    table: NDArray[np.uint64], outline: NDArray[np.uint64], first: int, records: int, words: NDArray[np.uint32]
) -> int:
    """Floyd's draws from `first` on, as far as the words reach; where to go on."""
    used = 0
    one, six, low = np.uint64(1), np.uint64(6), np.uint64(63)
    for j in range(first, records):
        drawn, used = _below(j + 1, words, used)
        if drawn < 0:
            return j
        t = np.uint64(drawn)
        if table[t >> six] >> (t & low) & one:
            t = np.uint64(j)
        place = t >> six
        table[place] |= one << (t & low)
        if outline.size:
            outline[place >> six] |= one << (place & low)
    return records


@compiled
def _read(table: NDArray[np.uint64], places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """The members in order, `most` at most; where `places` are given, no other words of the table have any.

    How many members a word has cannot be foreseen, and a wrong guess takes as long as reading several. So as many are
    read of every word as few of them exceed; where it has not so many, those of the next word are written over the
    rest.
    """
    one = np.uint64(1)
    count = places.size if places.size else table.size
    mean = most / count
    fours = int(max(mean + 2 * math.sqrt(mean) + 1.0, 0.0)) // 4
    members = np.empty(most + 64 + 4 * fours, np.intp)
    found = 0
    for i in range(count):
        k = places[i] if places.size else i
        word = table[k]
        start = 64 * k
        at = found
        found += number_of_bits(word)
        members[at] = start + lowest_bit(word)
        word &= word - one
        members[at + 1] = start + lowest_bit(word)
        word &= word - one
        members[at + 2] = start + lowest_bit(word)
        word &= word - one
        at += 3
        for _ in range(fours):
            members[at] = start + lowest_bit(word)
            word &= word - one
            members[at + 1] = start + lowest_bit(word)
            word &= word - one
            members[at + 2] = start + lowest_bit(word)
            word &= word - one
            members[at + 3] = start + lowest_bit(word)
            word &= word - one
            at += 4
        while word:
            members[at] = start + lowest_bit(word)
            word &= word - one
            at += 1
    return members[:found]


@compiled
def _exchange(order: NDArray[np.intp], last: int, words: NDArray[np.uint32]) -> int:
    """Fisher's and Yates' exchanges from `last` down, as far as the words reach; where to go on."""
    used = 0
    for i in range(last, 0, -1):
        drawn, used = _below(i + 1, words, used)
        if drawn < 0:
            return i
        order[i], order[drawn] = order[drawn], order[i]
    return 0
