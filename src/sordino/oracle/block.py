r"""A block of records in memory, as the kernels work on it.

Record i enters every answer through its row r_i = (scale_i x_i, rho), |r_i| <= R, and its target y_i. One model scores
it with a_i = <w, r_i>, and K > 1 outputs (softmax) with one such score each, so that

    grad l_i = slope_i (outer) r_i,       |grad l_i| = |slope_i| |r_i|.

A record with a feature that is not finite keeps only its constant column; one whose target the loss does not admit
counts for nothing. Neither raises: an error would reveal the record.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sordino.arrays import Array, Index
from sordino.losses import Loss, Weighted, unweighted
from sordino.oracle.allowed import real_numbers
from sordino.oracle.block_queries import BlockQuery, ClippedSum, PersonSums, QuadraticForm
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import AboutTargets, GivenRows, OfTargets, RowStatistic
from sordino.row_by_row import row_by_row

# a multiplier so small that its products lose bits
_SMALLEST_SCALE = 1e-290
# a row so many times longer than the bound is dropped: its score could overflow, and whether that is infinite or not a
# number depends on the order in which it is added up, which others' records might decide
_LONGEST = 1e100
SMALLEST_NORM = 1e-300
# of a clip: what a million records move it by together is a thousandth of it
_NOTHING = 2.0**-30


@dataclass(frozen=True, eq=False)
class Bounded:
    """One number per record: target, multiplier of the raw row (0: no usable features), 1/|r_i| (0: left out), weight.

    A weight lies between 0 and 1, whatever was given: what a record adds is clipped first and multiplied by it then.
    """

    targets: Array
    scales: Array
    inverses: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.targets)

    def part(self, which: slice | Index) -> Bounded:
        return Bounded(self.targets[which], self.scales[which], self.inverses[which], self.weights[which])

    def under(self, loss: Loss) -> Bounded:
        """Targets that the loss admits: its constants hold there, and the kernels rely on finding them there."""
        targets = loss.admit(self.targets)
        inverses = self.inverses
        if not np.isfinite(targets).all():
            inverses = np.where(np.isnan(targets), 0.0, inverses)
            targets = np.nan_to_num(targets)
        weights = self.weights * loss.weight(targets) if isinstance(loss, Weighted) else self.weights
        return Bounded(targets, self.scales, inverses, weights)

    def curvatures(self, loss: Loss, dots: Array, offset: float) -> Array:
        """phi''(a_i, y_i) with a_i = scale_i <x_i, w> + offset; 0 for a record that counts for nothing."""
        # what is not finite is left out, without a warning that would tell that there is such a record
        with np.errstate(all="ignore"):
            a = np.where(self.scales != 0, self.scales * dots, 0.0) + offset
            curvature = loss.curvature(a, self.targets)
        return np.where((self.inverses > 0) & np.isfinite(a), curvature, 0.0)


def bounded_records(
    raw_norms: Array, y: Any, widths: int | NDArray[Any], rows: Rows, weights: Array | None = None
) -> Bounded:
    """The multipliers that bring raw rows, of so many numbers each, to norm R at most, and 1/|r_i| after that."""
    scales = rows.scales(raw_norms)
    scales[scales < least_scale(rows)] = 0.0
    lengths = np.where(scales > 0, scales, 0.0) * np.where(np.isfinite(raw_norms), raw_norms, 0.0)
    norms = np.maximum(np.hypot(lengths, rows.intercept) * slack(widths), SMALLEST_NORM)
    records = unbounded_records(y, weights)
    return replace(records, scales=scales, inverses=records.inverses / norms)


def unbounded_records(y: Any, weights: Array | None = None) -> Bounded:
    """Of rows that are still to be measured: as if all had norm 1."""
    targets = real_numbers(y)
    ones = counts = np.ones(len(targets))
    usable = np.isfinite(targets)
    if not usable.all():
        targets, counts = np.where(usable, targets, 0.0), usable.astype(float)
    return Bounded(targets, ones, counts, ones if weights is None else _within_one(weights))


def least_scale(rows: Rows) -> float:
    """A row with a smaller multiplier is dropped."""
    return max(_SMALLEST_SCALE, rows.factor / _LONGEST)


def slack(widths: Any) -> Any:
    """Rounding in a sum of so many squares, and in a contribution's products, must not make a norm too small."""
    return 1 + (widths + 16) * np.finfo(float).eps


def _within_one(weights: Array) -> Array:
    """Weights as they may count: from 0 to 1, and 0 for what is no number."""
    return np.clip(np.nan_to_num(real_numbers(weights), nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class _BoundedRows:
    """`statistics.BoundedRows` of raw rows; no statistic has a use for all three kinds."""

    raw: Array
    given: Bounded
    rows: Rows

    @cached_property
    def x(self) -> Array:
        return np.asarray(self.raw / self.rows.bound)

    @cached_property
    def u(self) -> Array:
        return np.asarray(self.raw * (self.given.scales / self.rows.length)[:, None])

    @cached_property
    def r(self) -> Array:
        r = np.column_stack([self.u * self.rows.length, np.full(len(self.u), self.rows.intercept)])
        r = (r if self.rows.has_intercept else r[:, :-1]) / self.rows.norm
        return np.where((self.given.inverses > 0)[:, None], r, 0.0)

    @property
    def targets(self) -> Array:
        return self.given.targets

    @property
    def weights(self) -> Array:
        return self.given.weights

    @property
    def norm(self) -> float:
        return self.rows.norm


class Block(ABC):
    """Answers about the rows of one matrix; how to pass over the features is left to the kind of matrix.

    `given` is what belongs to each record, whatever the loss. Every record is a unit: see `sordino.oracle.units`.
    """

    given: Bounded
    rows: Rows
    columns: int

    def __init__(self, given: Bounded, rows: Rows) -> None:
        self.given, self.rows = given, rows
        self._known: tuple[tuple[Loss | QuadraticForm, Bounded], ...] = ()

    def __len__(self) -> int:
        return len(self.given)

    @property
    def targets(self) -> Array:
        """As they were given, not a number where they were none."""
        return np.where(self.given.inverses > 0, self.given.targets, np.nan)

    @abstractmethod
    def answer(self, asked: BlockQuery, which: Index | None) -> Array:
        """The sum over these units of the block, None being all: one row for every score, or a loss for every model."""

    @abstractmethod
    def take(self, which: Index) -> Self:
        """A block of these units alone; nothing is measured again."""

    @abstractmethod
    def dots(self, w: Array) -> Array:
        """<x_i, w> for every raw row."""

    @abstractmethod
    def under_rows(self, rows: Rows) -> Self:
        """A block of the same records whose rows are made otherwise."""

    @abstractmethod
    def some_rows(self, records: Bounded) -> Iterator[tuple[Array, Bounded]]:
        """All raw rows, a few at a time and dense, zero where they are of no use, and what belongs to them."""

    def statistic(self, asked: RowStatistic) -> Array:
        """The sum over all units of the block."""
        records = self.under(asked.loss) if isinstance(asked, OfTargets) else self.given
        if isinstance(asked, AboutTargets):
            nothing = np.empty((len(records), 0))
            return asked.of(GivenRows(nothing, nothing, nothing, records.targets, records.weights))
        # nobody at all: of the right shape
        total = np.zeros(asked.width(self.columns, self.rows.has_intercept))
        for X, part in self.some_rows(records):
            total += asked.of(_BoundedRows(X, part, self.rows))
        return total

    def scaled_rows(self, records: Bounded) -> Iterator[tuple[Any, Bounded]]:
        """All rows without the intercept's column, a few at a time, and what belongs to them."""
        for X, part in self.some_rows(records):
            yield X * part.scales[:, None], part

    def person_sums(self, asked: PersonSums, which: Index | None) -> Array:
        """Persons x scores x parameters of a score."""
        block = self if which is None else self.take(which)
        sums = np.zeros((asked.count, len(asked.table), self.columns + self.rows.has_intercept))
        start = 0
        # a score may overflow, and so may a sum: that person counts for nothing, and nobody is told
        with np.errstate(over="ignore", invalid="ignore"):
            for r, part in block.scaled_rows(block.under(asked.loss)):
                # from the record alone: nobody knows here what a last bit decides once a person's sum is clipped
                slopes, count = np.ascontiguousarray(row_by_row(r, asked.table.T).T), len(part)
                as_they_are = replace(part, scales=np.ones(count))
                to_multipliers(asked.of_records, slopes, None, as_they_are, np.zeros(len(slopes)))
                here, numbers = np.unique(asked.owners[start : start + count], return_inverse=True)
                # every person's slopes, score by score, beside the rows they belong to
                places = (np.arange(len(slopes))[:, None] * len(here) + numbers).ravel()
                records, shape = np.tile(np.arange(count), len(slopes)), (len(slopes), len(here))
                theirs = sparse.csr_array((slopes.ravel(), (places, records)), shape=(math.prod(shape), count))
                features = theirs @ r
                features = features.toarray() if sparse.issparse(features) else features
                sums[here, :, : self.columns] += features.reshape(*shape, -1).transpose(1, 0, 2)
                if self.rows.has_intercept:
                    totals = np.bincount(places, slopes.ravel(), math.prod(shape)).reshape(shape)
                    sums[here, :, -1] += self.rows.intercept * totals.T
                start += count
        return sums

    def kept(self) -> Self:
        """The same block, for whoever asks it many times and may store more for that."""
        return self

    def under(self, loss: Loss | QuadraticForm) -> Bounded:
        """What belongs to each record as the loss sees it."""
        for known, records in self._known:
            if known is loss or known == loss:
                return records
        if isinstance(loss, QuadraticForm):
            records = self.under(loss.loss)
            # a solver begins at zero, where scores need not be looked for
            dots = self.dots(loss.table) if loss.table.any() else np.zeros(len(self))
            curvatures = records.curvatures(unweighted(loss.loss), dots, loss.offset)
            records = replace(records, targets=curvatures)
        else:
            records = self.given.under(loss)
        # two: a loss, and a quadratic form at a point of it, are asked about in turn
        self._known = ((loss, records), *self._known[:1])
        return records


def has_jumps(asked: ClippedSum, row_norm: float) -> bool:
    """Whether what a record adds may change as a whole with the last bits of its score.

    Then many records would change together if their number, or their places, had a part in how scores are rounded:
    scores must be computed from the record alone, to the last bit. A score is rounded by about u |w| R, which moves a
    gradient by beta u |w|. That is nothing beside the clip, unless beta is infinite, at a kink, or the slope goes from
    one end to the other, or past the clip, within a few of the numbers that there are.
    """
    if isinstance(asked.loss, QuadraticForm):
        return False
    longest, clip = math.sqrt(np.vdot(asked.table, asked.table)), min(asked.clips.tolist(), default=math.inf)
    if asked.earlier is not None:
        longest = max(longest, math.sqrt(np.vdot(asked.earlier, asked.earlier)))
        clip = min(asked.near, clip)
    # not the other way round: at w = 0 and a kink it is not a number
    return not asked.loss.smoothness(row_norm) * longest * sys.float_info.epsilon <= _NOTHING * clip


def to_multipliers(asked: ClippedSum, scores: Array, earlier: Array | None, part: Bounded, slopes: Array) -> None:
    """In place of the scores: what every raw row is multiplied by. The clipped slopes are added to `slopes`."""
    from sordino.oracle.kernels.difference_kernels import stack_differences
    from sordino.oracle.kernels.slopes import SOFTMAX
    from sordino.oracle.kernels.stack import softmax_coefficients, stack_coefficients

    code, parameters = asked.kernel
    some = (part.targets, part.scales, part.inverses, part.weights, asked.offsets)
    if earlier is None or asked.earlier_offsets is None:
        if code == SOFTMAX:
            softmax_coefficients(asked.loss.outputs, scores, *some, asked.clips, slopes)
        else:
            stack_coefficients(code, parameters, scores, *some, asked.clips, slopes)
        return
    stack_differences(
        code,
        parameters,
        asked.loss.outputs,
        scores,
        earlier,
        *some,
        asked.earlier_offsets,
        asked.near,
        asked.clips,
        asked.mix,
        slopes,
    )
