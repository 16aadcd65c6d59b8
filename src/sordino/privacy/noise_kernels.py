"""The inner loops of the noise, compiled on first use."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sordino.privacy import pieces, strips
from sordino.privacy.kept import kept, stamp_of
from sordino.privacy.pieces import each
from sordino.privacy.strips import COLUMN_BITS, OTHER, Strips
from sordino.privacy.team import Team

F = TypeVar("F", bound=Callable[..., object])

PIECE = 1 << 14
"""Numbers that one thread takes at a time. Neither it nor the number of threads changes a bit of the noise."""


_STAMP = stamp_of([Path(pieces.__file__), Path(strips.__file__)])


def _kernel(function: F) -> F:
    # contraction to fused multiply-add only: nothing here may be reassociated
    return kept(function, _STAMP, fastmath={"contract"})


@_kernel
def box_muller(a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    """In place: random bits in, independent N(0, 1) out.   r = sqrt(-2 log u),  (r cos x, r sin x).

    u is an odd multiple of 2^-53 in (0, 1). The angle is uniform in (-pi/4, pi/4); a random sign of the cosine and a
    random exchange of the two take it round the circle. Straight-line arithmetic, so that the compiler can put four
    pairs side by side in vector registers: log and the trigonometric functions are their Taylor series, to 1e-15.
    """
    for i in range(a.size):
        w = np.float64(a[i]).view(np.uint64)
        q = np.float64(b[i]).view(np.uint64)

        # 52 bits behind an exponent of zero lie in [1, 2)
        u = np.uint64((w >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - (1.0 - 2.0**-53)
        # u = 2^e m with m in [sqrt(1/2), sqrt(2)); the exponent becomes a float behind the bits of 2^52
        bits = np.float64(u).view(np.uint64) + np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCC)
        e = np.uint64((bits >> np.uint64(52)) | np.uint64(0x4330000000000000)).view(np.float64) - (2.0**52 + 1023.0)
        m = np.uint64((bits & np.uint64(0x000FFFFFFFFFFFFF)) + np.uint64(0x3FE6A09E667F3BCC)).view(np.float64)
        # log m = 2 artanh t = 2 (t + t^3/3 + t^5/5 + ...),  t = (m - 1)/(m + 1),  |t| < 0.172
        t = (m - 1.0) / (m + 1.0)
        z = t * t
        p = z * (1 / 17) + 1 / 15
        p = z * p + 1 / 13
        p = z * p + 1 / 11
        p = z * p + 1 / 9
        p = z * p + 1 / 7
        p = z * p + 1 / 5
        p = z * p + 1 / 3
        r = math.sqrt(-2.0 * math.log(2.0) * e - 4.0 * (t + t * z * p))

        v = np.uint64((q >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.5
        x = (v + 2.0**-53) * (math.pi / 2)
        y = x * x
        s = 1 / 6227020800 - y * (1 / 1307674368000)
        s = y * s - 1 / 39916800
        s = y * s + 1 / 362880
        s = y * s - 1 / 5040
        s = y * s + 1 / 120
        s = y * s - 1 / 6
        s = r * (x + x * y * s)
        c = y * (1 / 20922789888000) - 1 / 87178291200
        c = y * c + 1 / 479001600
        c = y * c - 1 / 3628800
        c = y * c + 1 / 40320
        c = y * c - 1 / 720
        c = y * c + 1 / 24
        c = y * c - 1 / 2
        c = r * (1.0 + y * c)

        # the lowest bits did not enter the angle
        c = np.uint64(np.float64(c).view(np.uint64) ^ (q << np.uint64(63))).view(np.float64)
        exchange = (q & np.uint64(2)) == 0
        a[i] = s if exchange else c
        b[i] = c if exchange else s


@_kernel
def place(
    values: NDArray[np.int64],
    start: int,
    stop: int,
    table: NDArray[np.int64],
    level_bits: int,
    width_bits: int,
    others: NDArray[np.int64],
    count: int,
    team: Team,
) -> int:
    """In place, from start to stop: one random word in, one integer out, or its position noted in `others`.

    `count` is how many are noted already; returns how many there are now, in their order.
    """
    noted = np.empty((stop - start + PIECE - 1) // PIECE, dtype=np.int64)
    each(_place_piece, noted.size, (values, start, stop, table, level_bits, width_bits, others, noted), team)
    # every piece has noted them where it begins itself, which is not before those of the pieces before it end
    for piece in range(noted.size):
        for k in range(noted[piece]):
            others[count + k] = others[start + piece * PIECE + k]
        count += noted[piece]
    return count


@_kernel
def _place_piece(
    piece: int,
    values: NDArray[np.int64],
    start: int,
    stop: int,
    table: NDArray[np.int64],
    level_bits: int,
    width_bits: int,
    others: NDArray[np.int64],
    noted: NDArray[np.int64],
) -> None:
    """The word's top bits choose a column of the table."""
    columns = np.empty(64, dtype=np.int64)
    begin = start + piece * PIECE
    end, count = min(begin + PIECE, stop), begin
    # the look-up and the notes by themselves, so that the arithmetic between them is done for four words at once; half
    # of the time there is nothing to note
    for first in range(begin, end, columns.size):
        some, found = values[first : min(first + columns.size, end)], 0
        for i in range(some.size):
            columns[i] = table[np.uint64(some[i]) >> np.uint64(64 - COLUMN_BITS)]
        for i in range(some.size):
            some[i] = _placed(np.uint64(some[i]), columns[i], level_bits, width_bits)
            found += some[i] >> width_bits == OTHER
        if found == 0:
            continue
        for i in range(some.size):
            if some[i] >> width_bits == OTHER:
                others[count] = first + i
                count += 1
    noted[piece] = count - begin


@_kernel
def _placed(word: np.uint64, column: np.int64, level_bits: int, width_bits: int) -> np.int64:
    """The bits below the top ones are compared with the column's threshold and choose one of its two strips; the lowest
    bits are the place inside the strip.
    """
    level = np.int64(word >> np.uint64(64 - COLUMN_BITS - level_bits)) & ((np.int64(1) << level_bits) - 1)
    strip = (column if level < (column & 0xFFFFFFFF) else column << 16) >> 48
    return np.int64((strip << width_bits) + (np.int64(word) & ((np.int64(1) << width_bits) - 1)))


@_kernel
def settle(
    values: NDArray[np.int64],
    others: NDArray[np.int64],
    words: NDArray[np.uint64],
    strips: Strips,
    doubts: NDArray[np.int64],
) -> tuple[int, int]:
    """Write into `values` at the positions `others`, in turn, until the words come to an end.

    An attempt takes three words. After a rejected one the next word is placed as every draw begins, and may call for
    another attempt. After words that make no attempt the next three are taken: the draw must not begin anew, or the
    uncertain parts would be drawn too rarely. Returns how many positions are done with and how many of them are in
    `doubts`: those whose attempt is undecided, each with where its words begin. The position after the last one done
    with is due an attempt.
    """
    used = 0
    doubtful = 0
    for k in range(others.size):
        while True:
            if used + 4 > words.size:
                return k, doubtful
            verdict, value = attempt(words[used], words[used + 1], words[used + 2], strips)
            used += 3
            if verdict == AGAIN:
                continue
            if verdict == REJECTED:
                column = strips.table[words[used] >> np.uint64(64 - COLUMN_BITS)]
                value = _placed(words[used], column, strips.level_bits, strips.width_bits)
                used += 1
                if value >> strips.width_bits == OTHER:
                    continue
            elif verdict == UNDECIDED:
                # one by one: a pair at once brings in code for its error message, which takes seconds to compile
                doubts[doubtful, 0] = others[k]
                doubts[doubtful, 1] = used - 3
                doubtful += 1
            values[others[k]] = value
            break
    return others.size, doubtful


ACCEPTED, REJECTED, UNDECIDED, AGAIN = range(4)


@_kernel
def attempt(pick: np.uint64, low: np.uint64, fraction: np.uint64, strips: Strips) -> tuple[int, np.int64]:
    """A value where everything but the certain parts was picked, and a verdict on it.

    A point is uniform in the uncertain parts laid end to end, strip j from starts[j] to starts[j+1]. It lies at
    y = certain[j] + (point - starts[j]) + fraction above value v, and is accepted when y < height exp(-decay v^2).
    Undecided is what double precision cannot tell and what lies beyond the strips. No attempt at all are words whose
    first is above the limit.
    """
    if pick > strips.limit:  # so that the remainder below is uniform
        return AGAIN, np.int64(0)
    point = np.int64(pick % np.uint64(strips.starts[-1]))
    j = strips.guide[point >> strips.guide_bits]
    while strips.starts[j + 1] <= point:
        j += 1
    if j >= strips.certain.size:
        return UNDECIDED if j == strips.certain.size else REJECTED, np.int64(0)
    v = ((strips.first + j) << strips.width_bits) + (np.int64(low) & ((np.int64(1) << strips.width_bits) - 1))
    y = float(strips.certain[j] + point - strips.starts[j]) + float(fraction >> np.uint64(11)) * 2.0**-53
    top = strips.height * math.exp(-strips.decay * float(v) * float(v))
    if abs(y - top) <= strips.slack * (y + top + 1.0):
        return UNDECIDED, v
    return ACCEPTED if y < top else REJECTED, v


@_kernel
def thin(
    values: NDArray[np.int64],
    positions: NDArray[np.int64],
    drawn: NDArray[np.int64],
    words: NDArray[np.uint64],
    rates: NDArray[np.float64],
    dim: int,
    slack: float,
    rejected: NDArray[np.int64],
    undecided: NDArray[np.int64],
) -> tuple[int, int]:
    """Keep drawn[i] with probability exp(-rate drawn[i]^2), the rate that of its position's row of `dim`.

    Notes, and returns how many, the positions `rejected` and the draws `undecided` in double precision.
    """
    rejections = 0
    doubts = 0
    for i in range(positions.size):
        k = float(drawn[i])
        u = float(words[i] >> np.uint64(11)) * 2.0**-53
        row = np.uint64(positions[i]) // np.uint64(dim)  # unsigned division is the faster one
        top = math.exp(-rates[row] * k * k)
        if abs(u - top) <= slack:
            undecided[doubts] = i
            doubts += 1
        elif u < top:
            values[positions[i]] = drawn[i]
        else:
            rejected[rejections] = positions[i]
            rejections += 1
    return rejections, doubts


@_kernel
def add_on_lattice(
    value: NDArray[np.floating[Any]], noise: NDArray[np.int64], step: float, most: float, team: Team
) -> bool:
    """In place: whole numbers of noise in, the bits of the doubles  step (round(value / step) + noise)  out.

    The step is a power of two, so neither product rounds, unless the sum has more than 53 bits. Returns whether every
    value is below `most` steps; otherwise the noise is spoiled.
    """
    fit = np.empty((value.size + PIECE - 1) // PIECE, dtype=np.bool_)
    each(_add_piece, fit.size, (value, noise, step, most, fit), team)
    return bool(fit.all())


@_kernel
def _add_piece(
    piece: int,
    value: NDArray[np.floating[Any]],
    noise: NDArray[np.int64],
    step: float,
    most: float,
    fit: NDArray[np.bool_],
) -> None:
    inverse = 1.0 / step
    fit[piece] = True
    for first in range(piece * PIECE, min((piece + 1) * PIECE, value.size), 2048):
        some, units = value[first : first + 2048], noise[first : first + 2048]
        small, fits = _sizes(some, units, 2.0**50 * step, most * step)
        if small:
            _add_small(some, units, inverse, step)
        elif fits:
            _add_any(some, units, inverse, step)
        else:
            fit[piece] = False


@_kernel
def _sizes(value: NDArray[np.floating[Any]], units: NDArray[np.int64], near: float, most: float) -> tuple[bool, bool]:
    """Whether all values are below `near` and all units below 2^50, and whether all values are below `most`."""
    far = 0
    beyond = 0
    bits = np.int64(0)
    for i in range(value.size):
        # what is not a number fails every comparison
        far += not abs(value[i]) < near
        beyond += not abs(value[i]) < most
        bits |= units[i] ^ (units[i] >> 63)
    return far == 0 and bool(bits < 2**50), beyond == 0


@_kernel
def _add_small(value: NDArray[np.floating[Any]], units: NDArray[np.int64], inverse: float, step: float) -> None:
    """Below 2^51 a number becomes whole behind the bits of 1.5 x 2^52, and a double again in front of them.

    So four are converted at once, for which most processors have no instruction.
    """
    shift = 1.5 * 2.0**52
    for i in range(value.size):
        total = np.float64(value[i] * inverse + shift).view(np.int64) + units[i]
        units[i] = np.float64((np.int64(total).view(np.float64) - shift) * step).view(np.int64)


@_kernel
def _add_any(value: NDArray[np.floating[Any]], units: NDArray[np.int64], inverse: float, step: float) -> None:
    for i in range(value.size):
        total = np.int64(np.rint(value[i] * inverse)) + units[i]
        units[i] = np.float64(total * step).view(np.int64)
