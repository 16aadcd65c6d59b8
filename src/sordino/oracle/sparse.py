"""Blocks that are compressed sparse rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sordino.arrays import Array, Index
from sordino.oracle.block import Block, Bounded, bounded_records, to_multipliers
from sordino.oracle.block_queries import BlockQuery, ClippedLosses, ClippedSum, PersonSums
from sordino.oracle.kernels import sparse as kernels
from sordino.oracle.kernels.norms import row_norms
from sordino.oracle.kernels.pool import cut, share
from sordino.oracle.kernels.slopes import kernel_of
from sordino.oracle.kernels.sparse import GROUP
from sordino.oracle.kernels.stack import stack_values
from sordino.oracle.rows import Rows
from sordino.oracle.statistics import GivenRows, OfSparseRows, RowStatistic

_EVERY = np.empty(0, dtype=np.intp)
# stored entries in a task, and rows that are scored before their slopes are taken
_TASK, _BLOCK = 1 << 18, 4096


class Compressed(NamedTuple):
    """Entries, their columns, and where each row begins; positions unsigned, everything read-only."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]


Transpose = Callable[[], tuple[Compressed, list[tuple[int, int]]]]
"""Columns instead of rows, and ranges of them with equally many entries; made by the first call."""


class SparseBlock(Block):
    """Rows of a SciPy sparse matrix; one in CSR form of float32 or float64 is used as it is.

    Where the columns of a row do not rise, all rows are sorted into a copy first, and what a row has twice is summed.
    Sums over all records for several scores use a transpose, if there is one to be had.
    """

    def __init__(
        self, X: Compressed, columns: int, given: Bounded, rows: Rows, transpose: Transpose | None = None
    ) -> None:
        super().__init__(given, rows)
        self.X, self.columns, self.transpose = X, columns, transpose

    @staticmethod
    def of(X: Any, y: Any, rows: Rows, weights: Array | None = None) -> SparseBlock:
        columns, compressed = int(X.shape[1]), _compressed(X.tocsr())
        widths = np.diff(compressed.indptr.astype(np.int64))
        return SparseBlock(compressed, columns, bounded_records(_norms(compressed), y, widths, rows, weights), rows)

    def take(self, which: Index) -> SparseBlock:
        some = self._whole()[which]
        return SparseBlock(
            _views(some.data, some.indices, some.indptr), self.columns, self.given.part(which), self.rows
        )

    def _whole(self) -> sparse.csr_array:
        data, indices, indptr = self.X
        return sparse.csr_array((data, _signed(indices), _signed(indptr)), shape=(len(self), self.columns))

    def kept(self) -> SparseBlock:
        transpose = cache(partial(_transposed, self.X, self.columns, self.given.scales))
        return SparseBlock(self.X, self.columns, self.given, self.rows, transpose)

    def under_rows(self, rows: Rows) -> SparseBlock:
        return SparseBlock.of(rows.applied(self._whole()), self.targets, rows, self.given.weights).kept()

    def some_rows(self, records: Bounded) -> Iterator[tuple[Array, Bounded]]:
        whole, step = self._whole(), max(1, _TASK // max(1, self.columns))
        for start in range(0, len(self), step):
            part = records.part(slice(start, start + step))
            X = whole[start : start + step].toarray().astype(np.float64, copy=False)
            yield np.where(part.scales[:, None] != 0, X, 0.0), part

    def statistic(self, asked: RowStatistic) -> Array:
        if not isinstance(asked, OfSparseRows):
            return super().statistic(asked)
        whole, given = self._whole(), self.given
        usable = np.repeat(given.scales != 0, np.diff(whole.indptr))
        x = sparse.csr_array((np.where(usable, whole.data, 0.0), whole.indices, whole.indptr), shape=whole.shape)
        u = sparse.diags_array(given.scales / self.rows.length) @ x
        some: Any = GivenRows(x / self.rows.bound, u, u, given.targets, given.weights, self.rows.norm)
        return asked.of(some)

    def scaled_rows(self, records: Bounded) -> Iterator[tuple[Any, Bounded]]:
        whole = self._whole()
        scales = np.repeat(records.scales, np.diff(whole.indptr))
        data = np.where(scales != 0, whole.data.astype(np.float64, copy=False) * scales, 0.0)
        yield sparse.csr_array((data, whole.indices, whole.indptr), shape=whole.shape), records

    def dots(self, w: Array) -> Array:
        dots = np.empty(len(self))
        ranges = cut(len(dots), _parts(len(self.X.data), 128))

        def task(number: int) -> None:
            start, stop = ranges[number]
            kernels.dots(*self.X, _EVERY, start, w, dots[start:stop])

        share(task, len(ranges))
        return dots

    def answer(self, asked: BlockQuery, which: Index | None) -> Array:
        if isinstance(asked, RowStatistic):
            return self.statistic(asked)
        if isinstance(asked, PersonSums):
            return self.person_sums(asked, which)
        # models that are worked on together: a cache line of scores, or one model with more classes than that
        outputs, scores = asked.loss.outputs, len(asked.table)
        step = max(1, GROUP // outputs) * outputs
        several = [slice(first, min(first + step, scores)) for first in range(0, scores, step)]
        if isinstance(asked, ClippedLosses):
            return np.concatenate([np.empty(0), *(self._losses(asked, few) for few in several)])
        if scores == 1 and asked.earlier is None:
            return self._in_one_pass(asked, which)
        features, slopes = np.zeros(asked.table.shape), np.zeros(scores)
        for few in several:
            some = _Grouped(asked.part(few), self.under(asked.loss))
            if which is None and self.transpose is not None and few.stop - few.start > 1:
                sums, slopes[few] = self._by_columns(some, *self.transpose())
            else:
                sums, slopes[few] = self._by_rows(some, np.arange(len(self)) if which is None else which)
            features[few] = _ungrouped(sums, len(slopes[few]))
        return self.rows.joined(features, slopes)

    def _in_one_pass(self, asked: ClippedSum, which: Index | None) -> Array:
        """One score: a few rows at a time are scored and added up while their entries are near."""
        records, (code, parameters) = self.under(asked.loss), asked.kernel
        ranges, index = self._ranges(which), _EVERY if which is None else which
        sums, slopes = np.zeros((len(ranges), self.columns)), np.zeros(len(ranges))
        of_records = records.targets, records.scales, records.inverses, records.weights
        w, offset, clip = asked.table[0], asked.offsets[0], asked.clips[0]

        def task(number: int) -> None:
            some = (*self.X, index, *ranges[number], *of_records)
            slopes[number] = kernels.clipped_sum(*some, w, offset, code, parameters, clip, sums[number])

        share(task, len(ranges))
        for part in sums[1:]:
            sums[0] += part
        return self.rows.joined(sums[:1], slopes.sum(keepdims=True))

    def _ranges(self, which: Index | None) -> list[tuple[int, int]]:
        """Of rows: so few that clearing and adding up an accumulator for each costs little beside the rows."""
        if which is None:
            count, entries = len(self), len(self.X.data)
        else:
            count, entries = len(which), int((self.X.indptr[which + 1] - self.X.indptr[which]).sum())
        return cut(count, _parts(entries, entries // (16 * max(1, self.columns))))

    def _by_columns(
        self, asked: _Grouped, transpose: Compressed, spans: list[tuple[int, int]]
    ) -> tuple[list[Array], Array]:
        """Every record: its coefficients row by row, then the sums column by column over the transpose."""
        multipliers = [np.empty((len(self), *w.shape[1:])) for w in asked.weights]
        ranges = cut(len(self), _parts(len(self.X.data), 128))
        slopes = np.zeros((len(ranges), len(asked.question)))

        def rows(number: int) -> None:
            for start, stop in _blocks(*ranges[number]):
                scores = self._coefficients(asked, _EVERY, start, stop, slopes[number])
                for part, group in zip(multipliers, scores, strict=True):
                    part[start:stop] = group.T

        share(rows, len(ranges))
        sums = [np.empty(w.shape) for w in asked.weights]

        def columns(number: int) -> None:
            for part, out in zip(multipliers, sums, strict=True):
                kernels.columns_group(*transpose, *spans[number], part, out)

        share(columns, len(spans))
        return sums, slopes.sum(axis=0)

    def _by_rows(self, asked: _Grouped, which: Index) -> tuple[list[Array], Array]:
        """Some records: each row is added to a dense accumulator, of which every task has its own."""
        ranges = self._ranges(which)
        slopes = np.zeros((len(ranges), len(asked.question)))
        sums = [np.zeros((len(ranges), *w.shape)) for w in asked.weights]

        def task(number: int) -> None:
            for start, stop in _blocks(*ranges[number]):
                scores = self._coefficients(asked, which, start, stop, slopes[number])
                for out, group in zip(sums, scores, strict=True):
                    if out.ndim > 2:
                        kernels.scatter_group(*self.X, which, start, group, out[number])
                    else:
                        kernels.scatter(*self.X, which, start, group[0], out[number])

        share(task, len(ranges))
        return [part.sum(axis=0) for part in sums], slopes.sum(axis=0)

    def _losses(self, asked: ClippedLosses, few: slice) -> Array:
        weights, offsets, outputs = _grouped(asked.table[few]), asked.offsets[few], asked.loss.outputs
        ranges = cut(len(self), _parts(len(self.X.data), 128))
        losses = np.zeros((len(ranges), len(offsets) // outputs))
        records, (code, parameters) = self.under(asked.loss), kernel_of(asked.loss)

        def task(number: int) -> None:
            for start, stop in _blocks(*ranges[number]):
                part = records.part(slice(start, stop))
                scores = self._scores(weights, _EVERY, start, stop)[: len(offsets)]
                some = part.targets, part.scales, part.inverses, part.weights, offsets
                stack_values(code, parameters, outputs, scores, *some, asked.cap, losses[number])

        share(task, len(ranges))
        total: Array = losses.sum(axis=0)
        return total

    def _coefficients(self, asked: _Grouped, index: Index, start: int, stop: int, slopes: Array) -> list[Array]:
        """What every raw row is multiplied by, per group of scores; the clipped slopes are added to `slopes`."""
        count = len(asked.question)
        scores = self._scores(asked.weights, index, start, stop)
        earlier = self._scores(asked.earlier, index, start, stop)[:count] if asked.earlier else None
        part = asked.records.part(index[start:stop] if index.size else slice(start, stop))
        to_multipliers(asked.question, scores[:count], earlier, part, slopes)
        # the rows that fill up the last group must not bring in a NaN
        scores[count:] = 0.0
        size = len(scores) // len(asked.weights)
        return [scores[first : first + size] for first in range(0, len(scores), size)]

    def _scores(self, weights: list[Array], index: Index, start: int, stop: int) -> Array:
        if weights[0].ndim == 1:
            scores = np.empty((1, stop - start))
            kernels.dots(*self.X, index, start, weights[0], scores[0])
            return scores
        scores = np.empty((GROUP * len(weights), stop - start))
        for group, w in enumerate(weights):
            kernels.dots_group(*self.X, index, start, w, scores[GROUP * group : GROUP * (group + 1)])
        return scores


class _Grouped:
    """A question with its weights grouped as the kernels want them, and the records as its loss sees them."""

    def __init__(self, question: ClippedSum, records: Bounded) -> None:
        self.question, self.records = question, records
        self.weights = _grouped(question.table)
        self.earlier = [] if question.earlier is None else _grouped(question.earlier)


def _norms(X: Compressed) -> Array:
    norms = np.empty(len(X.indptr) - 1)
    ranges = cut(len(norms), _parts(len(X.data), 128))

    def task(number: int) -> None:
        row_norms(X.data, X.indptr, *ranges[number], norms)

    share(task, len(ranges))
    return norms


def _transposed(X: Compressed, columns: int, scales: Array) -> tuple[Compressed, list[tuple[int, int]]]:
    """Columns instead of rows, unusable rows set to zero, and ranges of columns with equally many entries."""
    data, indices, indptr = X
    turned = sparse.csr_array((data, _signed(indices), _signed(indptr)), shape=(len(scales), columns)).tocsc()
    turned.data[scales[turned.indices] == 0] = 0
    marks = np.linspace(0, turned.nnz, _parts(turned.nnz, 128) + 1)
    edges = np.unique([0, *np.searchsorted(turned.indptr, marks[1:-1]), columns]).tolist()
    return _views(turned.data, turned.indices, turned.indptr), list(pairwise(edges))


def _parts(entries: int, most: int) -> int:
    return max(1, min(entries // _TASK, most))


def _blocks(start: int, stop: int) -> list[tuple[int, int]]:
    return [(first, min(first + _BLOCK, stop)) for first in range(start, stop, _BLOCK)]


def _grouped(table: Array) -> list[Array]:
    """Weights as the kernels want them: a vector for a single score, else columns x 8 with zeros to fill up."""
    if len(table) == 1:
        return [table[0]]
    padded = np.zeros((-(-len(table) // GROUP) * GROUP, table.shape[1]))
    padded[: len(table)] = table
    return [np.ascontiguousarray(part.T) for part in np.split(padded, len(padded) // GROUP)]


def _ungrouped(sums: list[Array], scores: int) -> Array:
    return np.concatenate([np.atleast_2d(part.T) for part in sums])[:scores]


def _compressed(X: Any) -> Compressed:
    """The arrays of a CSR matrix, checked, in the order of the columns. The matrix itself is left alone."""
    data = X.data if X.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
    indices, indptr = X.indices, X.indptr
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
    arrays = _views(data, indices, indptr)
    state = kernels.BROKEN
    if len(indptr) == X.shape[0] + 1 and len(data) >= len(indices):
        state = kernels.structure(arrays.indptr, arrays.indices, X.shape[1])
    if state == kernels.BROKEN:
        raise ValueError(
            "X is not a valid CSR matrix: its row positions must increase from 0 to the number of stored entries and "
            "its column numbers must lie within the matrix; build it anew with scipy.sparse.csr_array."
        )
    if state == kernels.DISORDERED:
        # from the bare arrays: a matrix may wrongly remember that it has no duplicates, and would then do nothing. Not
        # for duplicates alone: summing them sorts all rows, whose scores would have other last bits for one row's sake
        summed = sparse.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=X.shape)
        summed.sum_duplicates()
        arrays = _views(summed.data, summed.indices, summed.indptr)
    return arrays


def _views(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]) -> Compressed:
    unsigned = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}
    parts = [
        np.ascontiguousarray(data),
        np.ascontiguousarray(indices).view(unsigned[indices.dtype]),
        np.ascontiguousarray(indptr).view(unsigned[indptr.dtype]),
    ]
    views = [part.view() for part in parts]
    for view in views:
        view.flags.writeable = False
    return Compressed(*views)


def _signed(positions: NDArray[Any]) -> NDArray[Any]:
    return positions.view(np.int32 if positions.dtype == np.uint32 else np.int64)
