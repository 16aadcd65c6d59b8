"""What a block of records is asked; every answer is a sum over its units, so that the blocks' answers add up.

Nothing here adds noise, and nothing is checked: an oracle has done that. Plain values, because they travel to the
workers of a cluster.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sordino.arrays import Array, Index
from sordino.losses import Loss
from sordino.oracle.statistics import RowStatistic

if TYPE_CHECKING:
    from sordino.oracle.kernels.slopes import Kernel


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """In the place of a loss: phi''(a_i) b^2 / 2, with a_i the score of a record at fixed weights. Its slope is H b."""

    loss: Loss
    table: Array
    offset: float
    outputs: ClassVar[int] = 1


@dataclass(frozen=True, eq=False)
class ClippedSum:
    """For every score: the sum of what the units add to the gradient, each clipped as one.

    `table` and `offsets` are the feature weights and the constant part of every score, `clips` the bound of every
    model, which may have several scores. With an earlier point, a unit counts  (1 - mix) its difference, clipped at
    `near`, + mix its gradient, clipped at the model's; without, its gradient.
    """

    loss: Loss | QuadraticForm
    table: Array
    offsets: Array
    clips: Array
    earlier: Array | None = None
    earlier_offsets: Array | None = None
    near: float = 1.0
    mix: float = 1.0

    def __post_init__(self) -> None:
        # compiled code would read beyond the last one
        if len(self.clips) * self.loss.outputs != len(self.table):
            raise ValueError(f"{len(self.clips)} clips for {len(self.table)} scores: every model needs one.")

    def __len__(self) -> int:
        return len(self.table)

    @property
    def kernel(self) -> Kernel:
        from sordino.oracle.kernels.slopes import WEIGHTED_SQUARE, kernel_of

        return WEIGHTED_SQUARE if isinstance(self.loss, QuadraticForm) else kernel_of(self.loss)

    def part(self, few: slice) -> ClippedSum:
        """The same for some of the scores."""
        models = slice(few.start // self.loss.outputs, -(-few.stop // self.loss.outputs))
        some = replace(self, table=self.table[few], offsets=self.offsets[few], clips=self.clips[models])
        if self.earlier is None or self.earlier_offsets is None:
            return some
        return replace(some, earlier=self.earlier[few], earlier_offsets=self.earlier_offsets[few])


@dataclass(frozen=True, eq=False)
class ClippedLosses:
    """For every model: the sum of the units' losses, none above `cap`."""

    loss: Loss
    table: Array
    offsets: Array
    cap: float


@dataclass(frozen=True, eq=False)
class PersonSums:
    """For each of `count` persons and for every score: the sum of what their records add to the gradient, not clipped.

    `owners` has the number of the person of every record that is asked about, in their order.
    """

    loss: Loss | QuadraticForm
    table: Array
    offsets: Array
    owners: Index
    count: int

    @property
    def of_records(self) -> ClippedSum:
        """What is asked of every record: so large a clip changes none."""
        models = len(self.table) // self.loss.outputs
        return ClippedSum(self.loss, self.table, self.offsets, np.full(models, sys.float_info.max))


BlockQuery = ClippedSum | ClippedLosses | PersonSums | RowStatistic


def about(asked: BlockQuery, some: slice) -> BlockQuery:
    """The same question about some of the records that it is about, by their place among them."""
    return replace(asked, owners=asked.owners[some]) if isinstance(asked, PersonSums) else asked
