"""Blocks that are dense matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.block import Block, Bounded, bounded_records, has_jumps, to_multipliers
from sordino.oracle.block_queries import BlockQuery, ClippedLosses, ClippedSum, PersonSums
from sordino.oracle.kernels.pool import cut, one_blas_thread, share
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import RowStatistic
from sordino.oracle.uncompiled import multipliers
from sordino.row_by_row import row_by_row, squared_lengths

_EVERY = np.empty(0, dtype=np.intp)
# from this many scores per record on, matrix products beat one fused pass per model
_STACK = 4
# numbers of the matrix in a task of the fused pass; numbers and scores in a block of the matrix products
_TASK, _BLOCK = 1 << 19, 1 << 16
# records whose scores stay near the second cache's size
_PIECE = 1 << 13
_LOW, _HIGH = 1e-250, 1e300
# scores per record that a task of the matrix products takes on
_SCORES = 512


class DenseBlock(Block):
    """Rows of a float32 or float64 matrix in C order, used as it is; anything else is converted once.

    All sums are taken in float64, whatever the matrix holds.
    """

    small = 1 << 17
    """Sums over all records of as many numbers, times the scores of a record, are left to NumPy.

    It takes about twice as long, and many a fit ends without waiting for the kernels' compiler. Nothing but the size of
    a question decides, not what was asked before: a run has the same bits every time, and after an interruption.
    Batches are drawn by compiled code, and asked about many thousand times: they have the kernels.
    """

    def __init__(self, X: NDArray[Any], given: Bounded, rows: Rows) -> None:
        super().__init__(given, rows)
        self.X, self.columns = read_only(X), int(X.shape[1])
        self._spoiled = bool((given.scales == 0).any())
        self._columns: Array | None = None

    @staticmethod
    def of(X: Any, y: Any, rows: Rows, weights: Array | None = None) -> DenseBlock:
        X = np.asarray(rows.applied(X))
        X = read_only(np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64))
        return DenseBlock(X, bounded_records(_norms(X), y, X.shape[1], rows, weights), rows)

    def take(self, which: Index) -> DenseBlock:
        return DenseBlock(self.X[which], self.given.part(which), self.rows)

    def under_rows(self, rows: Rows) -> DenseBlock:
        return DenseBlock.of(self.X, self.targets, rows, self.given.weights)

    def some_rows(self, records: Bounded) -> Iterator[tuple[Array, Bounded]]:
        for _, _, parts in self._tasks(len(self), 1, 1)[0]:
            for start, stop in parts:
                yield self._rows(records, None, start, stop)

    def dots(self, w: Array) -> Array:
        dots = np.empty(len(self))
        tasks, _ = self._tasks(len(dots), 1, 1)

        def task(number: int) -> None:
            parts = tasks[number][2]
            room = self._room(parts)
            for start, stop in parts:
                dots[start:stop] = _scores(w[None], self._rows(self.given, None, start, stop, room)[0])[0]

        with one_blas_thread():
            share(task, len(tasks))
        return dots

    def answer(self, asked: BlockQuery, which: Index | None) -> Array:
        if isinstance(asked, ClippedLosses):
            return self._losses(asked)
        if isinstance(asked, RowStatistic):
            return self.statistic(asked)
        if isinstance(asked, PersonSums):
            return self.person_sums(asked, which)
        count, d = len(self) if which is None else len(which), self.X.shape[1]
        # where a score's last bit decides a whole slope there are only the kernels, whose scores are of a record alone
        jumps = has_jumps(asked, self.rows.norm)
        if not jumps and which is None and asked.earlier is None and 0 < count * d * len(asked) <= self.small:
            return self._in_numpy(asked)
        if asked.loss.outputs > 1 or (len(asked) >= _STACK and not jumps):
            return self._products(asked, which, _scores_alone if jumps else _scores)
        from sordino.oracle.kernels.dense import clipped_sum
        from sordino.oracle.kernels.difference_kernels import clipped_differences

        # few models: for each, scores, slopes, clipping and sum in a single pass over the rows
        ranges = task_ranges(count, d)
        sums, slopes = np.zeros((len(asked), len(ranges), d)), np.zeros((len(asked), len(ranges)))
        index = _EVERY if which is None else which
        records, (code, parameters) = self.under(asked.loss), asked.kernel
        length = max(1, d * self.X.itemsize)
        tile = tile_rows(length)
        ahead = min(max(8192 // length & ~7, 8), 64) if which is not None and length <= 2048 else 0

        def task(number: int) -> None:
            model, part = divmod(number, len(ranges))
            of_records = records.targets, records.scales, records.inverses, records.weights
            some = (self.X, index, *ranges[part], *of_records)
            w, offset, clip, out = asked.table[model], asked.offsets[model], asked.clips[model], sums[model, part]
            if asked.earlier is None or asked.earlier_offsets is None:
                total = clipped_sum(*some, w, offset, code, parameters, clip, tile, ahead, out)
            else:
                since = asked.earlier[model], offset, asked.earlier_offsets[model]
                clips = asked.near, clip, asked.mix
                total = clipped_differences(*some, w, *since, code, parameters, *clips, tile, out)
            slopes[model, part] = total

        share(task, len(asked) * len(ranges))
        if len(ranges) == 1:
            return self.rows.joined(sums[:, 0], slopes[:, 0])
        features = [np.add.reduce(of_model) for of_model in sums]
        return self.rows.joined(np.reshape(features, (len(asked), d)), np.array([np.add.reduce(s) for s in slopes]))

    def _losses(self, asked: ClippedLosses) -> Array:
        from sordino.oracle.kernels.slopes import kernel_of
        from sordino.oracle.kernels.stack import stack_values

        records, (code, parameters), outputs = self.under(asked.loss), kernel_of(asked.loss), asked.loss.outputs
        tasks, groups = self._tasks(len(self), len(asked.table), outputs)
        losses = np.zeros((groups, len(asked.table) // outputs))

        def task(number: int) -> None:
            few, group, parts = tasks[number]
            totals, room = np.zeros((few.stop - few.start) // outputs), self._room(parts)
            for start, stop in parts:
                X, part = self._rows(records, None, start, stop, room)
                scores = _scores(asked.table[few], X)
                some = part.targets, part.scales, part.inverses, part.weights, asked.offsets[few]
                stack_values(code, parameters, outputs, scores, *some, asked.cap, totals)
            losses[group, few.start // outputs : few.stop // outputs] = totals

        with one_blas_thread():
            share(task, len(tasks))
        return np.asarray(losses.sum(axis=0))

    def _in_numpy(self, asked: ClippedSum) -> Array:
        """Scores, slopes, clipping and sum, one after the other for a range of rows, without anything compiled."""
        if self._columns is None:
            # one after the other: NumPy passes over them in a third of the time
            self._columns = np.ascontiguousarray(self._rows(self.given, None, 0, len(self))[0].T)
        records = self.under(asked.loss)
        sums, slopes = np.zeros((self.X.shape[1], len(asked))), np.zeros(len(asked))
        with one_blas_thread():
            for start in range(0, len(records), _PIECE):
                some = slice(start, start + _PIECE)
                X = self._columns[:, some]
                with np.errstate(over="ignore", invalid="ignore"):
                    # record by record, unlike a matrix product: where a score overflows, its record's place must not
                    # decide whether it is infinite or not a number
                    scores = np.empty((len(asked), X.shape[1]))
                    for w, of_model in zip(asked.table, scores, strict=True):
                        np.einsum("ji,j->i", X, w, out=of_model)
                sums += X @ multipliers(asked, scores, records.part(some), slopes).T
        return self.rows.joined(sums.T, slopes)

    def _products(self, asked: ClippedSum, which: Index | None, scored: Callable[[Array, Array], Array]) -> Array:
        """Many scores per record: two matrix products per range of rows, with slopes and clipping in between."""
        records = self.under(asked.loss)
        tasks, groups = self._tasks(len(self) if which is None else len(which), len(asked), asked.loss.outputs)
        sums = np.zeros((groups, *asked.table.shape))
        slopes = np.zeros((groups, len(asked)))

        def task(number: int) -> None:
            few, group, parts = tasks[number]
            some, room = asked.part(few), self._room(parts)
            for start, stop in parts:
                X, part = self._rows(records, which, start, stop, room)
                scores = scored(some.table, X)
                earlier = None if some.earlier is None else scored(some.earlier, X)
                to_multipliers(some, scores, earlier, part, slopes[group, few])
                sums[group, few] += scores @ X

        with one_blas_thread():
            share(task, len(tasks))
        return self.rows.joined(sums.sum(axis=0), slopes.sum(axis=0))

    def _tasks(
        self, count: int, scores: int, outputs: int
    ) -> tuple[list[tuple[slice, int, list[tuple[int, int]]]], int]:
        """(scores, accumulator, ranges of rows) of every task, and the number of accumulators.

        A range of rows with its scores fits the second cache beside the weights, however many models there are.
        """
        size = min(max(_BLOCK // (self.X.shape[1] + min(scores, _SCORES) + 1), 128), 2048)
        parts = [(start, min(start + size, count)) for start in range(0, count, size)]
        # accumulators together hold at most an eighth of what the matrix holds
        groups = cut(len(parts), min(count // (8 * max(1, scores)), 16, len(parts)))
        step = max(1, _SCORES // outputs) * outputs
        few = [slice(first, min(first + step, scores)) for first in range(0, scores, step)]
        tasks = [(part, group, parts[first:last]) for group, (first, last) in enumerate(groups) for part in few]
        return tasks, len(groups)

    def _room(self, parts: list[tuple[int, int]]) -> Array:
        """Where rows of float32 are widened, range after range: fresh memory for each takes longer than the sums."""
        longest = 0 if self.X.dtype == np.float64 else max((stop - start for start, stop in parts), default=0)
        return np.empty((longest, self.X.shape[1]))

    def _rows(
        self, records: Bounded, which: Index | None, start: int, stop: int, room: Array | None = None
    ) -> tuple[Array, Bounded]:
        """Rows in float64, those without usable features set to zero, and what belongs to them."""
        some = slice(start, stop) if which is None else which[start:stop]
        X, part = self.X[some], records.part(some)
        if X.dtype != np.float64:
            wide = np.empty(X.shape) if room is None else room[: len(X)]
            wide[...] = X
            X = wide
        if self._spoiled:
            usable = part.scales != 0
            X = X if usable.all() else np.where(usable[:, None], X, 0.0)
        return X, part


def task_ranges(count: int, columns: int) -> list[tuple[int, int]]:
    """The rows of every task of the fused pass."""
    # at most one accumulator per 64 rows, so that they stay small beside the matrix
    return cut(count, min(count * columns // _TASK, 128, count // 64))


def tile_rows(row_bytes: int) -> int:
    """How many rows are scored and then added up."""
    # 256 kB, a part of the second cache: the memory is slow to begin again after rows have been added up
    return min(max((1 << 18) // row_bytes & ~7, 8), 2048)


def read_only(X: NDArray[Any]) -> NDArray[Any]:
    """A view: the caller's matrix cannot be changed through it, and the kernels compile for one type of array."""
    view = X.view()
    view.flags.writeable = False
    return view


def _norms(X: NDArray[Any]) -> Array:
    """Euclidean norms of the rows, whatever the size of their entries; infinite where one is not finite."""
    n, d = X.shape
    norms = np.empty(n)
    # the same bits in either way; NumPy's takes six times as long
    squared, size = (_squares_in_numpy, _BLOCK) if n * d <= DenseBlock.small else (_compiled_squares, _TASK)
    ranges = cut(n, n * d // size)

    def task(number: int) -> None:
        first, last = ranges[number]
        rows = X[first:last]
        with np.errstate(all="ignore"):
            squares = squared(rows)
            norms[first:last] = np.sqrt(squares)
            # a sum of squares within these limits has neither overflowed nor lost an entry that matters
            odd = np.flatnonzero(~((squares > _LOW) & (squares < _HIGH)))
            if odd.size:
                # |x| = m |x / m|,   m = max_j |x_j|
                strange = rows[odd].astype(np.float64)
                m = np.abs(strange).max(axis=1, initial=0.0)
                ratios = strange / np.where(m > 0, m, 1.0)[:, None]
                scaled = m * np.sqrt(squared_lengths(ratios))
                norms[first + odd] = np.where(m < math.inf, scaled, math.inf)

    share(task, len(ranges))
    return norms


def _squares_in_numpy(rows: NDArray[Any]) -> Array:
    # not `squared_lengths`: this order of additions is the kernel's too, and how many rows there are decides who adds
    return np.asarray(np.square(rows, dtype=np.float64).sum(axis=1))


def _compiled_squares(rows: NDArray[Any]) -> Array:
    from sordino.oracle.kernels.norms import row_squares

    squares = np.empty(len(rows))
    row_squares(rows, squares)
    return squares


def _scores(table: Array, X: Array) -> Array:
    # a score may overflow, which the kernels can handle; a warning would tell that there is such a record
    with np.errstate(over="ignore", invalid="ignore"):
        return table @ X.T


def _scores_alone(table: Array, X: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(row_by_row(X, table.T).T)
