"""Records in memory as a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.oracle.answers import InMemoryOracle
from sordino.oracle.kernels.dense import clipped_sum
from sordino.oracle.kernels.moved import moved_sum
from sordino.oracle.kernels.norms import row_norms
from sordino.oracle.kernels.pool import one_blas_thread, share
from sordino.oracle.kernels.stack import stack_values
from sordino.oracle.linear import Question, Records, bounded_records, cut
from sordino.oracle.query import Difference, Gradient, Recursion

Array = NDArray[np.float64]

_EVERY = np.empty(0, dtype=np.intp)
# from this many scores per record on, matrix products beat one fused pass per model
_STACK = 8
# numbers of the matrix in a task of the fused pass; numbers and scores in a block of the matrix products
_TASK, _BLOCK = 1 << 18, 1 << 18
# scores per record that a task of the matrix products takes on
_SCORES = 512


class DenseOracle(InMemoryOracle):
    """Answers about rows of a float32 or float64 matrix in C order, used as it is; anything else is converted once.

    All sums are taken in float64, whatever the matrix holds.
    """

    def _hold(self, X: Any, y: Any) -> Records:
        X = np.asarray(X)
        kind = np.float32 if X.dtype == np.float32 else np.float64
        # a read-only view: the caller's matrix cannot be changed here, and the kernels compile for one type of array
        self._X = np.ascontiguousarray(X, dtype=kind).view()
        self._X.flags.writeable = False
        records = bounded_records(self._norms(), y, X.shape[1], self._model.rows)
        self._spoiled = bool((records.scales == 0).any())
        return records

    def _some(self, which: NDArray[np.intp]) -> NDArray[Any]:
        return self._X[which]

    def _dots(self, w: Array) -> Array:
        dots = np.empty(len(self._records))
        tasks, _ = self._tasks(len(dots), 1)

        def task(number: int) -> None:
            for start, stop in tasks[number][2]:
                dots[start:stop] = _scores(w[None], self._block(None, start, stop)[0])[0]

        with one_blas_thread():
            share(task, len(tasks))
        return dots

    def _losses(self, at: Array, cap: float) -> Array:
        at = np.asarray(at, dtype=np.float64)
        table, offsets = self._model.split(at)
        code, parameters = self._kernel
        outputs = self._model.outputs
        tasks, groups = self._tasks(len(self._records), len(table))
        losses = np.zeros((groups, len(table) // outputs))

        def task(number: int) -> None:
            few, group, blocks = tasks[number]
            totals = np.zeros((few.stop - few.start) // outputs)
            for start, stop in blocks:
                block, part = self._block(None, start, stop)
                stack_values(
                    code,
                    parameters,
                    outputs,
                    _scores(table[few], block),
                    part.targets,
                    part.scales,
                    part.inverses,
                    offsets[few],
                    cap,
                    totals,
                )
            losses[group, few.start // outputs : few.stop // outputs] = totals

        with one_blas_thread():
            share(task, len(tasks))
        return np.asarray(losses.sum(axis=0).reshape(at.shape[:-1]))

    def _sum(self, query: Gradient | Difference | Recursion) -> Array:
        asked = self._model.question(query)
        batch = self._model.batch(query.batch, len(self._records))
        if len(asked) < _STACK and self._model.outputs == 1:
            features, slopes = np.empty(asked.table.shape), np.empty(len(asked))
            for model in range(len(asked)):
                features[model], slopes[model] = self._fused(asked, model, batch)
        else:
            features, slopes = self._products(asked, batch)
        return self._model.join(features, slopes, np.shape(query.at))

    def _fused(self, asked: Question, model: int, batch: NDArray[np.intp] | None) -> tuple[Array, float]:
        """One model: scores, slopes, clipping and sum in a single pass over the rows."""
        count = len(self._records) if batch is None else len(batch)
        d = self._X.shape[1]
        if count == 0:
            return np.zeros(d), 0.0
        # at most one accumulator per 64 rows, so that they stay small beside the matrix
        ranges = cut(count, min(count * d // _TASK, 128, count // 64))
        sums = np.zeros((len(ranges), d))
        slopes = np.zeros(len(ranges))
        index = _EVERY if batch is None else batch
        code, parameters = self._kernel
        records = self._records
        # about 28 kB of rows: most of the nearest cache
        length = max(1, d * self._X.itemsize)
        tile = min(max(28672 // length & ~7, 16), 64)
        ahead = max(8, 14336 // length & ~1) if length <= 2048 else 0

        def task(number: int) -> None:
            some = (self._X, index, *ranges[number], records.targets, records.scales, records.inverses)
            w, offset = asked.table[model], asked.offsets[model]
            if asked.earlier is None or asked.earlier_offsets is None:
                slopes[number] = clipped_sum(*some, w, offset, code, parameters, asked.clip, tile, ahead, sums[number])
                return
            slopes[number] = moved_sum(
                *some,
                w,
                asked.earlier[model],
                offset,
                asked.earlier_offsets[model],
                code,
                parameters,
                asked.near,
                asked.clip,
                asked.mix,
                tile,
                sums[number],
            )

        share(task, len(ranges))
        return np.add.reduce(sums), float(np.add.reduce(slopes))

    def _products(self, asked: Question, batch: NDArray[np.intp] | None) -> tuple[Array, Array]:
        """Many scores per record: two matrix products per block of rows, with slopes and clipping in between."""
        tasks, groups = self._tasks(len(self._records) if batch is None else len(batch), len(asked))
        sums = np.zeros((groups, *asked.table.shape))
        slopes = np.zeros((groups, len(asked)))

        def task(number: int) -> None:
            few, group, blocks = tasks[number]
            some = asked.part(few)
            for start, stop in blocks:
                block, part = self._block(batch, start, stop)
                scores = _scores(some.table, block)
                earlier = None if some.earlier is None else _scores(some.earlier, block)
                self._to_multipliers(some, scores, earlier, part, slopes[group, few])
                sums[group, few] += scores @ block

        with one_blas_thread():
            share(task, len(tasks))
        return sums.sum(axis=0), slopes.sum(axis=0)

    def _tasks(self, count: int, scores: int) -> tuple[list[tuple[slice, int, list[tuple[int, int]]]], int]:
        """(scores, accumulator, blocks of rows) of every task, and the number of accumulators.

        A block of rows with its scores stays near the second cache's size, however many models there are.
        """
        size = min(max(_BLOCK // (self._X.shape[1] + min(scores, _SCORES) + 1), 64), 2048)
        blocks = [(start, min(start + size, count)) for start in range(0, count, size)]
        # accumulators together hold at most an eighth of what the matrix holds
        groups = cut(len(blocks), min(count // (8 * max(1, scores)), 16, len(blocks)))
        outputs = self._model.outputs
        step = max(1, _SCORES // outputs) * outputs
        few = [slice(first, min(first + step, scores)) for first in range(0, scores, step)]
        tasks = [(part, group, blocks[first:last]) for group, (first, last) in enumerate(groups) for part in few]
        return tasks, len(groups)

    def _block(self, batch: NDArray[np.intp] | None, start: int, stop: int) -> tuple[Array, Records]:
        """Rows in float64, those without usable features set to zero, and what belongs to them."""
        which = slice(start, stop) if batch is None else batch[start:stop]
        block = self._X[which].astype(np.float64, copy=False)
        part = self._records.part(which)
        if self._spoiled:
            usable = part.scales != 0
            block = block if usable.all() else np.where(usable[:, None], block, 0.0)
        return block, part

    def _norms(self) -> Array:
        n, d = self._X.shape
        flat, norms = self._X.reshape(-1), np.empty(n)
        starts = np.arange(n + 1, dtype=np.uint64) * np.uint64(d)
        ranges = cut(n, n * d // _TASK)

        def task(number: int) -> None:
            row_norms(flat, starts, *ranges[number], norms)

        share(task, len(ranges))
        return norms


def _scores(table: Array, block: Array) -> Array:
    # a score may overflow, which the kernels can handle; a warning would tell that there is such a record
    with np.errstate(over="ignore", invalid="ignore"):
        return table @ block.T
