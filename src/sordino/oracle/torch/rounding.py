r"""How much rounding may have taken from a norm, or added to a sum.

A batch is cut into blocks of at most m records. The sum of a block is computed in floating point, then rounded to a
grid, on which the sums of blocks add up exactly. So what is computed for a batch S is

    f(S) = sum over blocks (exact sum of the block's clipped gradients + its error).

**One record changes at most two blocks.** Records stand in the blocks in a secret random order. If S + r is S with one
record more, take any order of S, put r at the end and let it change places with a random record, or none: that is a
random order of S + r (Fisher and Yates), and all but two places hold what they held. Where r replaces another record,
one place changes. What any other block adds is the same, to the last bit, because a record's clipped gradient does not
depend on its companions. (A record that is added may open a new block, which is one of the two.) Where persons are
protected, read "person" for record and "k places in one block" for place: see `bundles`.

**The error of a block.** With unit roundoff u, a sum of K products in any order is off by at most
gamma_K = K u/(1 - K u) of the sum of their magnitudes. Where a record's gradient of a parameter is one product or one
vector, the Euclidean norm of those magnitudes is at most the sum of the clipped norms, m C. Where it is a sum of
T products, which may cancel, there are two ways. Many are added up for each record alone: what the record adds is then
one vector, and its norm is measured so large that the rounding of this vector, at most gamma_T L_i with the total
length L_i = sum_t |l_t| |r_t| of the products, is within it. Few are summed for all records at once, in double
precision, and norms are measured so large, by CANCELLED L_i^2 in their square, that no record's weight times L_i is
above C / sqrt(CANCELLED) = 4096 C. Rounding to the grid, of step at most 2^-26 C, moves a block by half a step in each
of d coordinates. A batch of one block stays as it is: that block is one of the two that a record changes, whether the
batch with the record has a second block or not.

**A norm from inner products.** |sum_t l_t r_t'|^2 = sum_ts <l_t, l_s> <r_t, r_s>. With n and m numbers in a side, an
inner product is off by at most gamma_n |l_t| |l_s| + n tiny, or gamma_m |r_t| |r_s| + m tiny, their product by u of it
and `tiny`, and the sum over s by gamma_T of the magnitudes; the sum over t is in double precision. As
sum_ts |l_t| |l_s| |r_t| |r_s| = L^2, what is computed is below the square by at most

    gamma_{n+m+T+2} L^2 + 2 n tiny (sum_t |r_t|)^2 + 2 m tiny (sum_t |l_t|)^2 + 2 T^2 tiny,

which is added (`slack` is twice gamma); lengths follow from the inner products of positions with themselves. Inner
products of unit vectors, as of words, are exact, and n counts as 1 where all lefts are such. The first term may be
T gamma |g|^2 where positions are orthogonal: where that is not small in single precision (ROUGH), or where pairs may
cancel (differences), the products are in double precision. Numbers that are too large give an infinity or a NaN, and
the record counts for nothing. So does a record whose own sum, of products that may cancel, could be too large
on the way: half the largest number is the longest L_i (`too_long`). Rows R that all records share, each times a number
of the record's own, are n positions more: diag(u) R = sum_k (u_k i_k) R_k' with unit vectors i_k. Their length is
sum_k |u_k| |R_k|, and as a number of a gradient takes in one of them, they count as one where T counts operations.

**Numbers too small for the dtype** lose at most `tiny` each. In a sum that is all. But a weight is multiplied into one
side of a product before the other side is: what is lost then, `tiny` in each of at most d numbers, is multiplied by
that other side. So a record with a side longer than FAR C / tiny counts for nothing, and others lose FAR sqrt(d) C.

Two blocks with a record and two without it have four errors, so a record moves f by at most C (1 + E),

    E = 4 m (gamma_{sm+8} + 4096 gamma'_K) + 2 2^-26 sqrt(d) + 4 s m sqrt(d) (2 tiny / C + FAR),

gamma' in double precision, s the vectors that a record adds (a recursion has two) and K the longest sum of products, of
all pairs together. Records are therefore clipped to C / (1 + E): one moves what is released by C at most.
"""

from __future__ import annotations

import math
import sys
from functools import cache

import torch
from torch import Tensor

CANCELLED = 2.0**-24
"""How much of a record's squared length counts towards its squared norm, where products may cancel."""

FAR = 2.0**-60
"""Times clip / tiny, the longest side of a product that counts: some 1e20 clips in single precision."""

ROUGH = 2.0**-6
"""How much of a squared norm may be added for the rounding of inner products, where positions are orthogonal."""

LONGEST = 1 << 22
"""Products in one sum, at most."""

BLOCK = 256
"""Records in one sum, at most."""

MOST_RECORDS = 1 << 24
"""Records in one answer, at most: their sum stays on the grid."""

_GRID = 26


@cache
def slack(terms: int, dtype: torch.dtype = torch.float64) -> float:
    """Bounds the relative error of a sum of so many products, and of the few operations around it."""
    return (terms + 16) * torch.finfo(dtype).eps


@cache
def lost(terms: int, dtype: torch.dtype = torch.float64) -> float:
    """Bounds what so many products have lost that are too small for the dtype."""
    return terms * float(torch.finfo(dtype).tiny)


def too_long(lengths: Tensor, dtype: torch.dtype) -> Tensor:
    """Whose products, of this total length, may be too large for the dtype while they are added up."""
    return ~(lengths <= torch.finfo(dtype).max / 2)


@cache
def largest_square(clip: float, dtype: torch.dtype) -> float:
    """The largest squared norm of a record that counts: clip / norm, its weight, must be a number of full precision."""
    widest = clip / float(torch.finfo(dtype).tiny)
    return min(widest * widest, sys.float_info.max)


@cache
def largest_side(clip: float, dtype: torch.dtype) -> float:
    """The largest squared length of a record's side of a product that counts."""
    longest = FAR * clip / float(torch.finfo(dtype).tiny)
    return min(longest * longest, sys.float_info.max)


@cache
def sum_error(clip: float, block: int, vectors: int, dim: int, dtype: torch.dtype) -> float:
    """E: how much further than its clip a record could move a sum, relative to the clip."""
    narrow, wide = (torch.finfo(kind).eps / 2 for kind in (dtype, torch.float64))
    terms = vectors * block + 8
    products = _gamma(terms, narrow) + _gamma(LONGEST, wide) / math.sqrt(CANCELLED)
    coordinates = math.sqrt(dim)
    small = 4 * coordinates * vectors * block * (2 * float(torch.finfo(dtype).tiny) / clip + FAR)
    error = 4 * block * products + 2 * 2.0**-_GRID * coordinates + small
    if 4 * vectors * block * clip > torch.finfo(dtype).max:
        raise ValueError(
            f"clip is {clip:g}: a sum of {block} records may be too large for {dtype}. Use a smaller clip."
        )
    if not error <= 0.5:
        raise ValueError(
            f"clip is {clip:g} for {dim} parameters in {dtype}: what rounding may add to a sum is not small beside it. "
            "Use a larger clip, or double precision."
        )
    return error


def pivot(clip: float) -> float:
    """1.5 * 2^52 steps of the grid, where the step is a power of two, at most 2^-26 of the clip."""
    return math.ldexp(1.5, math.frexp(clip)[1] - 1 - _GRID + 52)


def _gamma(terms: int, unit: float) -> float:
    return terms * unit / (1 - terms * unit)
