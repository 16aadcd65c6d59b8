r"""What the oracles of a linear model share, whatever holds the features.

Record i enters every answer through its row r_i = (scale_i x_i, rho), |r_i| <= R, and its target y_i. One model scores
it with a_i = <w, r_i>, and K > 1 outputs (softmax) with one such score each, so that

    grad l_i = slope_i (outer) r_i,       |grad l_i| = |slope_i| |r_i|.

A record with a feature that is not finite keeps only its constant column; one whose target the loss does not
admit counts for nothing. Neither raises: an error would reveal the record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino.budget import Relation
from sordino.losses import Loss
from sordino.oracle.allowed import allow, checked_batch, real_numbers
from sordino.oracle.query import Choice, ClippedLoss, Difference, Gradient, Recursion
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch
from sordino.problem import Problem

if TYPE_CHECKING:
    from sordino.privacy.noise import Noise
    from sordino.privacy.selection import NoisyMinimum

Array = NDArray[np.float64]

# a multiplier so small that its products lose bits: such a row is a billion times 10^281 too long, and is dropped
_SMALLEST_SCALE = 1e-290
_SMALLEST_NORM = 1e-300


@dataclass(frozen=True, eq=False)
class Records:
    """One number per record: target, multiplier of the raw row (0: no usable features), 1/|r_i| (0: left out)."""

    targets: Array
    scales: Array
    inverses: Array

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def usable_targets(self) -> Array:
        """Not a number where a record has none."""
        return np.where(self.inverses > 0, self.targets, np.nan)

    def part(self, which: slice | NDArray[np.intp]) -> Records:
        return Records(self.targets[which], self.scales[which], self.inverses[which])

    def under(self, loss: Loss) -> Records:
        """Targets that the loss admits: its constants hold there, and the kernels rely on finding them there."""
        targets = loss.admit(self.targets)
        refused = np.isnan(targets) & (self.inverses > 0)
        inverses = np.where(refused, 0.0, self.inverses) if refused.any() else self.inverses
        return replace(self, targets=np.nan_to_num(targets), inverses=inverses)

    def curvatures(self, loss: Loss, dots: Array, offset: float) -> Array:
        """phi''(a_i, y_i) with a_i = scale_i <x_i, w> + offset; 0 for a record that counts for nothing."""
        # what is not finite is left out, without a warning that would tell that there is such a record
        with np.errstate(all="ignore"):
            a = np.where(self.scales != 0, self.scales * dots, 0.0) + offset
            curvature = loss.curvature(a, self.targets)
        return np.where((self.inverses > 0) & np.isfinite(a), curvature, 0.0)


def bounded_records(raw_norms: Array, y: Any, width: int, rows: Rows) -> Records:
    """The multipliers that bring raw rows of `width` numbers to norm R at most, and 1/|r_i| after that."""
    scales = rows.scales(raw_norms)
    scales[scales < _SMALLEST_SCALE] = 0.0
    lengths = np.where(scales > 0, scales, 0.0) * np.where(np.isfinite(raw_norms), raw_norms, 0.0)
    # rounding in a sum of `width` squares, and in the products of a contribution, must not make a norm too small
    slack = 1 + (width + 16) * np.finfo(float).eps
    norms = np.maximum(np.hypot(lengths, rows.intercept) * slack, _SMALLEST_NORM)
    inverses = 1 / norms

    targets = real_numbers(y)
    usable = np.isfinite(targets)
    if not usable.all():
        targets = np.where(usable, targets, 0.0)
        inverses[~usable] = 0.0
    return Records(targets, scales, inverses)


@dataclass(frozen=True, eq=False)
class Question:
    """A query as the kernels see it: feature weights and constant part of every score, and where slopes are clipped.

    With an earlier point to compare with, a record counts  (1 - mix) its difference, clipped at `near`, + mix its
    gradient, clipped at `clip`; without one, its gradient.
    """

    table: Array
    offsets: Array
    clip: float
    earlier: Array | None = None
    earlier_offsets: Array | None = None
    near: float = 1.0
    mix: float = 1.0

    def __len__(self) -> int:
        return len(self.table)

    def part(self, few: slice) -> Question:
        """The same for some of the scores."""
        if self.earlier is None or self.earlier_offsets is None:
            return replace(self, table=self.table[few], offsets=self.offsets[few])
        return replace(
            self,
            table=self.table[few],
            offsets=self.offsets[few],
            earlier=self.earlier[few],
            earlier_offsets=self.earlier_offsets[few],
        )


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The public side of an oracle: which parameters fit, what a query may ask, how scores become answers."""

    problem: Problem
    rows: Rows
    relation: Relation

    def __post_init__(self) -> None:
        if self.rows.norm > self.problem.row_norm * (1 + 1e-12):
            raise ValueError(
                f"rows of norm {self.rows.norm} for a problem of row_norm {self.problem.row_norm}: the problem's "
                "constants would be too small; give both the same norm."
            )

    @property
    def outputs(self) -> int:
        return self.problem.loss.outputs

    def fits(self, shape: tuple[int, ...], targets: Any) -> None:
        """Raise a sentence when the data do not have the announced shape."""
        if len(shape) != 2:
            raise ValueError(f"X has {len(shape)} dimensions: it must have two, records x features.")
        records, columns = shape
        if np.shape(targets) != (records,):
            raise ValueError(
                f"y has shape {np.shape(targets)} for {records} rows of X: it must hold one number per row."
            )
        width = columns + self.rows.has_intercept
        if width != self.problem.features:
            constant = " and a constant column" if self.rows.has_intercept else ""
            raise ValueError(
                f"X has {columns} columns{constant}, but the problem was stated with {self.problem.features} features: "
                f"state it with features={width}."
            )
        if self.relation is Relation.REPLACE_ONE and records != self.problem.records:
            raise ValueError(
                f"X has {records} rows, but the problem was stated with {self.problem.records} records: under "
                "replace_one their number is public and must be the true one."
            )

    def under(self, loss: Loss) -> LinearModel:
        if loss.outputs != self.outputs:
            raise ValueError(
                f"{type(loss).__name__} has {loss.outputs} scores per record and {type(self.problem.loss).__name__} "
                f"has {self.outputs}: only a loss with as many scores can take its place."
            )
        return replace(self, problem=replace(self.problem, loss=loss))

    def question(self, query: Gradient | Difference | Recursion) -> Question:
        """What the kernels are to compute for a query about one model or a stack of them."""
        match query:
            case Gradient(at, clip):
                return Question(*self.split(at), clip)
            case Difference(at, since, near):
                # at mix 0 the gradient counts for nothing, wherever it is clipped
                return self._compared(at, since, near, clip=1.0, mix=0.0)
            case Recursion(difference, gradient, mix):
                return self._compared(difference.at, difference.since, difference.clip, gradient.clip, mix)
        raise TypeError(f"{type(query).__name__} is not a query about gradients.")

    def _compared(self, at: Array, since: Array, near: float, clip: float, mix: float) -> Question:
        if np.shape(at) != np.shape(since):
            raise ValueError(
                f"parameters of shape {np.shape(at)} compared with earlier ones of shape {np.shape(since)}: "
                "both must have the same."
            )
        return Question(*self.split(at), clip, *self.split(since), near, mix)

    def split(self, at: Array) -> tuple[Array, Array]:
        """Feature weights (one row per score) and constant part of every score, from one model or a stack."""
        at = np.asarray(at, dtype=np.float64)
        if at.shape[-1:] != (self.problem.dim,):
            raise ValueError(
                f"parameters of shape {at.shape} for a problem of {self.problem.dim} parameters: "
                f"the last axis must have length {self.problem.dim}."
            )
        if not np.isfinite(at).all():
            raise ValueError(
                "the parameters are not finite: the method has diverged; use a smaller step or a bounded domain."
            )
        table = at.reshape(-1, self.problem.features)
        if not self.rows.has_intercept:
            return np.ascontiguousarray(table), np.zeros(len(table))
        return np.ascontiguousarray(table[:, :-1]), self.rows.intercept * table[:, -1]

    def join(self, features: Array, slopes: Array, shape: tuple[int, ...]) -> Array:
        """The gradient in the parameters: sums over raw features, and rho times the sums of slopes."""
        if self.rows.has_intercept:
            features = np.column_stack([features, self.rows.intercept * slopes])
        return features.reshape(shape)

    def batch(self, batch: Batch, records: int) -> NDArray[np.intp] | None:
        return checked_batch(batch, records)

    def parts(self, batch: Batch, records: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The record numbers outside the batch, and the batch."""
        everybody = np.arange(records)
        inside = self.batch(batch, records)
        if inside is None:
            return everybody[:0], everybody
        return np.delete(everybody, inside), inside

    def allow(
        self, query: Gradient | Difference | Recursion | Choice | ClippedLoss, noise: Noise | NoisyMinimum
    ) -> None:
        allow(query, noise, self.relation)

    def allow_choice(self, query: Choice, selection: NoisyMinimum) -> None:
        """The same, for a choice, whose noise also depends on the relation."""
        self.allow(query, selection)
        if selection.relation is not self.relation:
            raise ValueError(
                f"the choice was made for {selection.relation}, but these records are under {self.relation}: "
                "state the relation of the budget in both."
            )


def cut(total: int, parts: int) -> list[tuple[int, int]]:
    """The ranges that split 0..total into `parts` of nearly equal length (one range at least)."""
    parts = max(1, parts)
    edges = [total * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))
