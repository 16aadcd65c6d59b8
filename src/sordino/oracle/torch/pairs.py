r"""How one record's gradient of a parameter follows from what went into a layer and the gradient at what came out.

In every layer known here that gradient is bilinear, g = left * right: one side is the gradient e at the layer's output,
the other its input a. So a record's gradient is a short list of pairs, and so is its difference between two points,

    l1 * r1 - l2 * r2  =  l1 * (r1 - r2)  +  (l1 - l2) * r2,

in which nothing large cancels when the points are near; and so is the gradient of a parameter that is used twice.
What the product means is the form:

    Matrix     sum_t left_t right_t'     a linear layer, t its positions; an embedding, where left_t is a unit vector
    Patches    the same, where right_t is the patch of a convolution's input at position t
    either     plus diag(left) rows      where the right side is shared: rows of numbers, the same for all records
    Written    left alone, as the pass has computed it: of a bias, or of the weight of a normalisation; of a matrix
               where the pass keeps it, so that of a difference digits beyond those of the gradients are lost

Norms are bounded from above, so that no record is clipped by a norm that rounding has made too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sordino.oracle.torch.norms import Norms
from sordino.oracle.torch.workspace import TEMPORARY, Step, Workspace

KEEP = 1 << 25
"""Bytes of gradients, a row per record of a chunk, that a parameter may keep between measuring and summing."""


class Pair(NamedTuple):
    """Two tensors whose first axis counts the records. Whole numbers on the left stand for unit vectors.

    Where the right side is `shared`, it is a matrix whose rows are multiplied by the numbers on the left.
    """

    left: Tensor
    right: Tensor | None = None
    shared: bool = False

    def part(self, some: slice) -> Pair:
        right = self.right if self.right is None or self.shared else self.right[some]
        return self._replace(left=self.left[some], right=right)

    def sides(self) -> list[Tensor]:
        """Those that the records have."""
        return [self.left] if self.right is None or self.shared else [self.left, self.right]


class Form(Protocol):
    """A product of pairs, added up. What a form says is said once, about tensors that stay where they are."""

    def rows(self, pairs: Sequence[Pair], work: Workspace) -> Tensor | None:
        """The gradients, records x parameters; None where they would be large, or are not needed.

        What fills them becomes one of the steps of a pass.
        """
        ...


class SummingForm(Form, Protocol):
    """A form whose gradients need not be written down to be measured and summed."""

    def measure(self, pairs: Sequence[Pair], share: int, norms: Norms, work: Workspace) -> None:
        """Tell what makes up the squared norms of the share."""
        ...

    def sum(self, out: Tensor, weighted: Sequence[tuple[Tensor, Pair]], work: Workspace) -> Step:
        """What writes out_b = sum_i weight_i gradient_i, over the b-th of as many equal blocks as `out` has rows."""
        ...


class Written:
    """The gradients themselves, records x parameters: a pass has added them up, and they are on the left."""

    def rows(self, pairs: Sequence[Pair], work: Workspace) -> Tensor:
        first, *more = (pair.left for pair in pairs)
        if not more:
            return first
        rows = work.take(*first.shape)

        def add_up() -> None:
            rows.copy_(first)
            for other in more:
                rows.add_(other)

        work.steps.append(add_up)
        return rows


def moved(new: Pair, old: Pair, minus: Callable[[Tensor | None, Tensor], Tensor]) -> list[Pair]:
    """new - old; without the first, `minus` gives the negative of the other."""
    if new.right is None or old.right is None or same(new.right, old.right):
        return [new._replace(left=minus(new.left, old.left))]
    if same(new.left, old.left):
        return [new._replace(right=minus(new.right, old.right))]
    if not new.left.is_floating_point():
        return [new, old._replace(right=minus(None, old.right))]
    return [new._replace(right=minus(new.right, old.right)), old._replace(left=minus(new.left, old.left))]


def add_scaled_rows(out: Tensor, pairs: Sequence[Pair]) -> None:
    """Those of shared right sides, to gradients (records, n, m)."""
    for left, right, shared in pairs:
        if shared and right is not None:
            out.addcmul_(left[:, :, None], right)


def length_of_scaled_rows(pair: Pair) -> Tensor:
    """sum_r |left_r| |row_r|, in float64."""
    assert pair.right is not None, "a shared right side"
    lengths: Tensor = torch.linalg.vector_norm(pair.right, dim=1, dtype=torch.float64)
    return (pair.left.abs() * lengths).sum(1)


def same(a: Tensor, b: Tensor) -> bool:
    """Whether they are one tensor; whether they hold the same numbers would depend on all records."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def blocks(records: int, bytes_each: int) -> list[slice]:
    """Ranges of records whose temporaries stay in the cache, all of one length: no record is computed differently."""
    most = max(1, TEMPORARY // max(1, bytes_each))
    step = max(size for size in range(1, min(most, records) + 1) if records % size == 0)
    return [slice(first, first + step) for first in range(0, records, step)]


def equal_parts(records: int, count: int) -> list[slice]:
    size = records // count
    return [slice(first, first + size) for first in range(0, count * size, size)]


def sum_of(tensors: Iterator[Tensor]) -> Tensor:
    total = next(tensors)
    for tensor in tensors:
        total = total + tensor
    return total
