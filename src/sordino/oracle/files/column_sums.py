"""The clipped sum of one model over the columns of a table, in a single pass in which no matrix is written."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array
from sordino.oracle.block import SMALLEST_NORM, least_scale, slack, unbounded_records
from sordino.oracle.block_queries import BlockQuery, ClippedSum, QuadraticForm
from sordino.oracle.dense import DenseBlock, read_only, task_ranges, tile_rows
from sordino.oracle.files.row_major import Columns, rows_at_once
from sordino.oracle.kernels.columns import clipped_sum_of_columns
from sordino.oracle.kernels.norms import parts_of
from sordino.oracle.kernels.pool import share
from sordino.oracle.rows import Rows

_NARROWEST = 64
"""Rows of a tile: of fewer, less than a few cache lines of a column would be read at a time."""


class ColumnSums:
    """Adds up block after block, each thread in the memory that it had for the one before."""

    def __init__(self) -> None:
        self._rooms = threading.local()

    def __call__(self, X: Any, y: Array, rows: Rows, weights: Array | None, asked: BlockQuery) -> Array | None:
        """The answer of a `DenseBlock` of all these records, to the last bit; None where that must be asked itself.

        It must where other questions are asked, where NumPy answers, and where a row is so long or so short that more
        than a sum of squares is needed to measure it.
        """
        if not isinstance(X, Columns) or not rows.as_given or not isinstance(asked, ClippedSum):
            return None
        (count, d), tile = X.shape, tile_rows(X.shape[1] * X.kind.itemsize)
        one = len(asked) == 1 and asked.loss.outputs == 1 and asked.earlier is None
        if not one or isinstance(asked.loss, QuadraticForm) or count * d <= DenseBlock.small or tile < _NARROWEST:
            return None
        records, (code, parameters) = unbounded_records(y, weights).under(asked.loss), asked.kernel
        of_records = records.targets, records.inverses, records.weights
        limits = least_scale(rows), float(slack(d)), SMALLEST_NORM
        bounds = rows.factor, float(rows.bound), float(rows.intercept), *limits
        ranges, parts, strip = task_ranges(count, d), parts_of(d), rows_at_once(d * X.kind.itemsize)
        addresses, edges = X.addresses, X.edges
        sums, slopes = np.zeros((len(ranges), d)), np.zeros(len(ranges))

        def task(number: int) -> None:
            room = self._room(tile, d, X.kind)
            slopes[number] = clipped_sum_of_columns(
                addresses,
                edges,
                *ranges[number],
                *of_records,
                bounds,
                parts,
                strip,
                room,
                read_only(room),
                asked.table[0],
                asked.offsets[0],
                code,
                parameters,
                asked.clips[0],
                sums[number],
            )

        share(task, len(ranges))
        if np.isnan(slopes).any():
            return None
        return rows.joined(np.add.reduce(sums)[None], np.add.reduce(slopes)[None])

    def _room(self, tile: int, columns: int, kind: np.dtype[Any]) -> NDArray[Any]:
        if not hasattr(self._rooms, "room"):
            self._rooms.room = np.empty((tile, columns), dtype=kind)
        room: NDArray[Any] = self._rooms.room
        return room
