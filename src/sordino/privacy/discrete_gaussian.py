r"""The discrete Gaussian, exactly.    P(k) = exp(-k^2 / 2s^2) / sum_j exp(-j^2 / 2s^2),    k an integer.

The integers are cut into strips of width w, a power of two near s/100 (1 for small s), out to 6.5 s on each side.
With a height K, the graph of K exp(-k^2/2s^2) over a strip consists of

    a certain part,     below a whole number  m <= K exp(-k^2/2s^2)  for every k in the strip,
    an uncertain part,  between m and a whole number  M >= K exp(-k^2/2s^2)  for every k in the strip.

A uniform point under the envelope, kept when it lies under the graph, has the wanted law. The certain parts together
with one entry for all the rest have whole-number areas that add up to a power of two, so an alias table (Walker 1977)
with whole thresholds picks one of them with exactly the right probability; inside a certain part every k is kept, and
the word's low bits are k's place in the strip. So 99 draws in 100 cost one word and no exponential. The rest compares
y < K exp(-k^2/2s^2) for a real y: in double precision when the two are further apart than its error, otherwise in whole
numbers, with as many random bits and as many digits of the exponential as the comparison needs. The tail beyond the
strips is drawn the same exact way. No step rounds a probability.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sordino.privacy.exact_comparison import lies_below
from sordino.privacy.randomness import BLOCK, SPARE, Stream
from sordino.privacy.strips import COLUMN_BITS, OTHER, Strips, cover, tail_bits
from sordino.privacy.team import present

SMALLEST, LARGEST = 2.0**-10, 2.0**32

FEW = 1024
"""As many draws are made in NumPy, for which no kernel has to be compiled or loaded."""

THINNING_SLACK = 2.0**-42
"""Bounds the error of exp(-x) in double precision: x = c k^2 has six roundings, and x exp(-x) < 1/2."""


def discrete_gaussian(scale: float, shape: int | tuple[int, ...], stream: Stream) -> NDArray[np.int64]:
    """Independent draws of the discrete Gaussian of parameter `scale`, a double taken at its exact value."""
    if not SMALLEST <= scale < LARGEST:
        raise ValueError(f"scale is {scale}: the discrete Gaussian is drawn for scales from 2^-10 up to 2^32.")
    count = math.prod((shape,) if isinstance(shape, int) else shape)
    return draw(cover(float(scale)), count, stream).reshape(shape)


def discrete_gaussian_rows(
    scales: NDArray[np.float64], dim: int, stream: Stream, slack: float = THINNING_SLACK
) -> NDArray[np.int64]:
    r"""Row i holds `dim` independent draws at scales[i]. Without a table for each scale, so rows may be many.

    With S the next power of two, S/2 <= s < S, a draw k at scale S is kept with probability
    exp(-c k^2), c = (1/s^2 - 1/S^2)/2 = (S - s)(S + s)/(2 s^2 S^2), which leaves exp(-k^2/2s^2); s/S of them are.
    """
    from sordino.privacy.noise_kernels import thin

    if scales.size and not (scales.min() >= SMALLEST and scales.max() < LARGEST / 2):
        raise ValueError("the scales of the rows must lie between 2^-10 and 2^31.")
    values = np.empty((scales.size, dim), dtype=np.int64)
    flat = values.reshape(-1)
    exponents = np.frexp(scales)[1]
    for exponent in np.unique(exponents).tolist():
        S = math.ldexp(1.0, exponent)
        rates = (S - scales) * (S + scales) / (2 * scales**2 * S**2)
        left = (np.flatnonzero(exponents == exponent)[:, None] * dim + np.arange(dim)).reshape(-1)
        while left.size:
            drawn, words = draw(cover(S), left.size, stream), stream.words(left.size)
            rejected, undecided = np.empty_like(left), np.empty_like(left)
            rejections, doubts = thin(flat, left, drawn, words, rates, dim, slack, rejected, undecided)
            rejected = rejected[:rejections]
            for i in undecided[:doubts].tolist():
                s, k = Fraction(float(scales[left[i] // dim])), int(drawn[i])
                c = (1 / s**2 - 1 / Fraction(S) ** 2) / 2
                if lies_below(0, int(words[i]), Fraction(1), c * k**2, stream):
                    flat[left[i]] = k
                else:
                    rejected = np.append(rejected, left[i])
            left = rejected
    return values


def rounding_distance(scale: float) -> float:
    r"""An upper bound on the total variation distance between the discrete Gaussian and a rounded N(0, s^2).

    With f the density, P(k) = f(k)/theta, theta = sum_k f(k) = 1 + 2 sum_{j>=1} exp(-2 pi^2 s^2 j^2) (Poisson), and the
    rounded one Q(k) = int_{k-1/2}^{k+1/2} f = f(k) + int_{-1/2}^{1/2} (1/2 - |u|)^2/2 f''(k + u) du (midpoint rule).
    As sum_k |f''(k+u)| <= int |f''| + V/2, V = (8 phi(sqrt 3) + 2 phi(0))/s^3 the variation of |f''|, and
    int |f''| = 4 phi(1)/s^2, int (1/2 - |u|)^2/2 du = 1/24:

        distance = 1/2 sum_k |Q(k) - P(k)| <= (4 phi(1)/s^2 + V/2)/48 + (theta - 1)/2  ~  0.0202/s^2.
    """

    def phi(x: float) -> float:
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    q = math.exp(-2 * math.pi**2 * scale**2)
    variation = (8 * phi(math.sqrt(3)) + 2 * phi(0)) / scale**3
    # sum_{j>=1} q^(j^2) <= q/(1 - q); the last factor outweighs the rounding of this line
    bound = ((4 * phi(1) / scale**2 + variation / 2) / 48 + q / (1 - q)) * (1 + 1e-12)
    return min(bound, 1.0)


def draw(strips: Strips, count: int, stream: Stream) -> NDArray[np.int64]:
    """`count` draws from a cover."""
    words = np.empty(count + SPARE, dtype=np.uint64)
    values = words.view(np.int64)[:count]
    if count <= FEW:
        stream.fill(words, 0, count)
        values[:] = placed(strips, words[:count])
        others = np.flatnonzero(values >> strips.width_bits == OTHER)
    else:
        from sordino.privacy.noise_kernels import place

        room, noted, team = np.empty(count, dtype=np.int64), 0, present(count)
        several = BLOCK * team.threads
        for first in range(0, count, several):
            last = min(first + several, count)
            stream.fill(words, first, last)
            noted = place(values, first, last, strips.table, strips.level_bits, strips.width_bits, room, noted, team)
        others = room[:noted]

    undecided = []
    while others.size:
        # three words for an attempt, one more where it is rejected, as about half of them are
        more = stream.words(4 * others.size)
        if count <= FEW:
            settled, doubts = _settle(values, others.tolist(), more.tolist(), strips)
        else:
            from sordino.privacy.noise_kernels import settle

            noted_doubts = np.empty((others.size, 2), dtype=np.int64)
            settled, doubtful = settle(values, others, more, strips, noted_doubts)
            doubts = noted_doubts[:doubtful].tolist()
        undecided += [(i, more[at : at + 3].tolist()) for i, at in doubts]
        others = others[settled:]
    rejected = []
    for i, attempt in undecided:
        value = decide(strips, attempt, stream)
        if value is None:
            rejected.append(i)
        else:
            values[i] = value
    if rejected:
        values[rejected] = draw(strips, len(rejected), stream)
    return values


def placed(strips: Strips, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """One integer for a word, as `noise_kernels.place` has it, or one in the strip `OTHER`."""
    column = strips.table[words >> np.uint64(64 - COLUMN_BITS)]
    level = (words >> np.uint64(64 - COLUMN_BITS - strips.level_bits)).view(np.int64) & ((1 << strips.level_bits) - 1)
    strip = np.where(level < (column & 0xFFFFFFFF), column, column << 16) >> 48
    return np.asarray((strip << strips.width_bits) + (words.view(np.int64) & ((1 << strips.width_bits) - 1)))


def _settle(
    values: NDArray[np.int64], others: list[int], words: list[int], strips: Strips
) -> tuple[int, list[list[int]]]:
    """What `noise_kernels.settle` does: how many positions are done with, and which of them are in doubt."""
    used = 0
    doubts: list[list[int]] = []
    for k, i in enumerate(others):
        value = None
        while value is None:
            if used + 4 > len(words):
                return k, doubts
            pick, _, fraction = attempt = words[used : used + 3]
            used += 3
            if pick > strips.limit:
                continue
            j, v, y = _point(strips, attempt)
            height, top = y + (fraction >> 11) * 2.0**-53, strips.height * math.exp(-strips.decay * v * v)
            beyond = j >= strips.certain.size
            if j == strips.certain.size or (not beyond and abs(height - top) <= strips.slack * (height + top + 1.0)):
                doubts.append([i, used - 3])
                value = v
            elif not beyond and height < top:
                value = v
            else:
                again = int(placed(strips, np.array(words[used : used + 1], dtype=np.uint64))[0])
                used += 1
                value = None if again >> strips.width_bits == OTHER else again
        values[i] = value
    return len(others), doubts


def decide(strips: Strips, words: list[int], stream: Stream) -> int | None:
    """What `attempt` does with three words, in exact arithmetic: the value, or None for a rejected attempt."""
    j, v, y = _point(strips, words)
    if j > strips.certain.size:
        return None
    if j == strips.certain.size:
        return _tail(strips, stream)
    return v if lies_below(y, words[2], Fraction(strips.height), _exponent(strips, v), stream) else None


def _point(strips: Strips, words: list[int]) -> tuple[int, int, int]:
    """The strip that was picked, the value within it, and how high above it the point lies, but for its fraction."""
    point = words[0] % int(strips.starts[-1])
    j = bisect_right(strips.starts, point) - 1
    if j >= strips.certain.size:
        return j, 0, 0
    v = ((strips.first + j) << strips.width_bits) + (words[1] & ((1 << strips.width_bits) - 1))
    return j, v, int(strips.certain[j] - strips.starts[j]) + point


def _tail(strips: Strips, stream: Stream) -> int | None:
    """An attempt beyond the strips, |k| about N = n w or more, where the tail's area was picked.

    Blocks of W >= s integers on either side, the j-th with probability 2^-(j+1): each k is proposed with probability
    2^-(j+2)/W and owed K exp(-k^2/2s^2)/w units. The ratio, over the area, is at most 1: it is for j = 0 by the choice
    of the area, and from block to block the exponential falls by exp(-N W/s^2) < 1/2.
    """
    W_bits = tail_bits(strips.scale)
    j = 0
    while (coins := int(stream.words(1)[0])) == (1 << 64) - 1:
        j += 64
    j += (~coins & -~coins).bit_length() - 1
    word = int(stream.words(1)[0])
    x = (-strips.first << strips.width_bits) + (j << W_bits) + (word & ((1 << W_bits) - 1))
    v = x if word >> 63 else ~x
    area = int(strips.starts[-2] - strips.starts[-3])
    height = Fraction(strips.height) * Fraction(1 << (j + 2 + W_bits - strips.width_bits), area)
    return v if lies_below(0, int(stream.words(1)[0]), height, _exponent(strips, v), stream) else None


def _exponent(strips: Strips, v: int) -> Fraction:
    return Fraction(v * v) / (2 * Fraction(strips.scale) ** 2)
