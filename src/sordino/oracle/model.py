"""The public side of a linear oracle: which parameters fit, what a query may ask, what the blocks are asked for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.losses import Loss
from sordino.oracle.block_queries import ClippedLosses, ClippedSum
from sordino.oracle.query import Difference, Gradient, Recursion, SideBySide, StepQuery
from sordino.oracle.rows import Rows
from sordino.problem import Problem


@dataclass(frozen=True, eq=False)
class LinearModel:
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

    @property
    def columns(self) -> int:
        """Of the raw rows."""
        return self.problem.features - self.rows.has_intercept

    def fits(self, shape: tuple[int, ...], targets: tuple[int, ...]) -> None:
        """Raise a sentence when rows and targets of these shapes are not what was announced."""
        if len(shape) != 2:
            raise ValueError(f"X has {len(shape)} dimensions: it must have two, records x features.")
        records, columns = shape
        if targets != (records,):
            raise ValueError(f"y has shape {targets} for {records} rows of X: it must hold one number per row.")
        if columns != self.columns:
            constant = " and a constant column" if self.rows.has_intercept else ""
            raise ValueError(
                f"X has {columns} columns{constant}, but the problem was stated with {self.problem.features} features: "
                f"state it with features={columns + self.rows.has_intercept}."
            )

    def counts(self, units: int) -> None:
        """Raise a sentence when there are not as many as was announced."""
        if self.relation is Relation.REPLACE_ONE and units != self.problem.records:
            there = f"X has {units} rows" if self.problem.person is None else f"there are {units} persons"
            raise ValueError(
                f"{there}, but the problem was stated with {self.problem.records} {self.problem.unit}s: under "
                "replace_one their number is public and must be the true one."
            )

    def under(self, loss: Loss) -> LinearModel:
        if loss.outputs != self.outputs:
            raise ValueError(
                f"{type(loss).__name__} has {loss.outputs} scores per record and {type(self.problem.loss).__name__} "
                f"has {self.outputs}: only a loss with as many scores can take its place."
            )
        return replace(self, problem=replace(self.problem, loss=loss))

    def asked(self, query: StepQuery | SideBySide) -> ClippedSum:
        """What the blocks are to add up for a query about one model or a stack of them."""
        match query:
            case Gradient(softening=softening) if softening:
                raise ValueError(
                    "automatic clipping is for networks: a linear model's contributions have a known bound."
                )
            case Gradient(at, clip):
                return self._clipped(at, clip)
            case SideBySide(at=at, clips=clips):
                return self._clipped(at, clips)
            case Difference(at, since, near):
                # at mix 0 the gradient counts for nothing, wherever it is clipped
                return self._compared(at, since, near, clip=1.0, mix=0.0)
            case Recursion(difference, gradient, mix):
                return self._compared(difference.at, difference.since, difference.clip, gradient.clip, mix)
        raise TypeError(f"{type(query).__name__} is not a query about gradients.")

    def asked_losses(self, at: Array, cap: float) -> ClippedLosses:
        return ClippedLosses(self.problem.loss, *self.split(at), cap)

    def _clipped(self, at: Array, clips: Array | float) -> ClippedSum:
        of_models = np.full(np.shape(at)[:-1], clips, dtype=np.float64)
        return ClippedSum(self.problem.loss, *self.split(at), of_models.ravel())

    def _compared(self, at: Array, since: Array, near: float, clip: float, mix: float) -> ClippedSum:
        if np.shape(at) != np.shape(since):
            raise ValueError(
                f"parameters of shape {np.shape(at)} compared with earlier ones of shape {np.shape(since)}: "
                "both must have the same."
            )
        earlier, offsets = self.split(since)
        now = self._clipped(at, clip)
        return replace(now, earlier=earlier, earlier_offsets=offsets, near=near, mix=mix)

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
