"""Records on the workers of a Ray cluster: partitions stay where they are, and only clipped sums travel.

Where a person's sum is clipped as one, every person's sum travels, because a person may have records on several
workers.

The driver draws the batches, adds up what the workers answer in the order of the blocks (so that the bits are those of
one process), and then draws the noise, once. A worker that is lost is started again, reads its partition again from
where it came, and answers again: an answer that was not complete was never perturbed, so nothing is released twice.
"""

from __future__ import annotations

import os
import socket
import uuid
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.block_queries import BlockQuery, about
from sordino.oracle.blocks import Blocks, HeldBlocks, block_of
from sordino.oracle.files.memory import Memory
from sordino.oracle.files.partition import BlockRecords, Partition, StreamedBlocks
from sordino.oracle.files.selection import Selection
from sordino.oracle.files.source import Coding, Reader, Source
from sordino.oracle.kernels.pool import cut, threads as processors
from sordino.oracle.rows import Rows
from sordino.oracle.sampling import Batch
from sordino.oracle.tree_sum import Term, TreeSum
from sordino.oracle.units import Units

_ATTEMPTS = 5
"""How often a worker is started again before a run gives up."""
_PATIENCE = 600.0
"""Seconds that a cluster has to make room for the workers."""


@dataclass(frozen=True)
class Cluster:
    """Workers to be had: how many, with how many threads and how many bytes of records in memory each.

    `reserved` processors are taken for each. On this machine that is none: whoever starts a second set of workers
    beside the first would wait for ever.
    """

    workers: int
    threads: int
    memory: int
    reserved: int = 0

    def hold(self, X: Any, y: Any = None) -> Spread:
        """Records to fit on: a source of records in files, or arrays, shared out among the workers."""
        if isinstance(X, Source):
            if y is not None:
                raise ValueError("records in files bring their targets along, and y was given too: leave it out.")
            return Spread(X, self)
        return Spread(Memory.of(X, y), self)


@contextmanager
def connected(
    address: str = "local", workers: int = 2, threads: int | None = None, memory: float = 4.0
) -> Iterator[Cluster]:
    """A Ray cluster by its address; "local" starts one on this machine, and stops it in the end.

    Every worker has `threads` of its own (None: an equal share of this machine's processors) and keeps its partition
    if that takes at most `memory` gigabytes; otherwise it reads it for every answer.
    """
    if workers < 1 or (threads is not None and threads < 1) or not memory >= 0:
        raise ValueError(
            f"workers is {workers}, threads {threads} and memory {memory}: there must be one worker at least, with one "
            "thread, and memory is a number of gigabytes."
        )
    ray = _ray()
    each = threads or max(1, processors() // workers)
    cluster = Cluster(workers, each, int(memory * 2**30), reserved=0 if address == "local" else each)
    if ray.is_initialized():
        # somebody else's connection, and theirs to end
        yield cluster
        return
    # nothing about a run is sent to anybody, and no page about it is served
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    how = {"num_cpus": workers * each, "include_dashboard": False} if address == "local" else {"address": address}
    try:
        _require_answer(address)
        ray.init(log_to_driver=False, logging_level="error", **how)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise RuntimeError(f"no Ray cluster at {address!r} ({error}): start one with `ray start --head`.") from None
    try:
        yield cluster
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Raise an error at once where nobody listens: Ray itself asks again for minutes, and prints how it goes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


@dataclass(frozen=True, eq=False)
class Spread:
    """A source of records whose blocks are shared out, in ranges, among the workers of a cluster."""

    source: Source
    cluster: Cluster

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def units(self) -> Units:
        return self.source.units

    @property
    def row_bytes(self) -> int:
        return self.source.row_bytes

    @property
    def sparse(self) -> bool:
        return self.source.sparse

    @property
    def identity(self) -> bytes:
        return self.source.identity

    def coded(self, coding: Coding) -> Self:
        return replace(self, source=self.source.coded(coding))

    def check(self) -> int:
        """Every worker reads its partition, and keeps it if it may."""
        return self.crew.check()

    def reader(self) -> AbstractContextManager[Reader]:
        return self.source.reader()

    @cached_property
    def crew(self) -> Crew:
        """The workers with their partitions, for as long as anybody asks them."""
        return Crew(self.source, self.cluster)


class KeptBlock:
    """A partition that is read once and kept. Its answers have the bits of those that are read for."""

    def __init__(self, records: Iterable[BlockRecords]) -> None:
        self._records = list(records)
        self._blocks: tuple[Rows, HeldBlocks] | None = None

    @staticmethod
    def read(partition: Partition) -> KeptBlock:
        with partition.read() as blocks:
            return KeptBlock(block._replace(X=_own(block.X)) for block in blocks)

    def weighted(self, partition: Partition) -> KeptBlock:
        """The same records in the same memory, with the weights of a partition."""
        return KeptBlock(block._replace(weights=partition.weights_of(block.number)) for block in self._records)

    @property
    def unknown_targets(self) -> int:
        return sum(int(np.isnan(block.y).sum()) for block in self._records)

    def under(self, rows: Rows) -> HeldBlocks:
        if self._blocks is None or self._blocks[0] != rows:
            held = {block.number: block_of(block.X, block.y, rows, block.weights) for block in self._records}
            self._blocks = rows, HeldBlocks(held)
        return self._blocks[1]


@dataclass(frozen=True, eq=False)
class LeasedRecords:
    """Which records of a worker's blocks are meant, None being all, and what each of its records counts."""

    selection: Selection | None = None
    weights: Array | None = None

    @staticmethod
    def of(partition: Partition, first: int, last: int) -> LeasedRecords:
        """Of the blocks first..last of a whole source."""
        selection, weights = partition.selection, partition.weights
        span = partition.source.units.span
        return LeasedRecords(
            None if selection is None else selection.blocks(first, last),
            None if weights is None else weights[span(first)[0] : span(last - 1)[1]],
        )


EVERY_RECORD = LeasedRecords()


class Worker:
    """Holds a partition in a process of its own, which may be on another machine."""

    def __init__(self, partition: Partition, threads: int, memory: int) -> None:
        os.environ["SORDINO_THREADS"] = str(threads)
        self._partition, self._memory = partition, memory
        self._held: dict[str, Partition | KeptBlock] = {}

    def check(self) -> int:
        """How many targets are not known."""
        here = self._of(_EVERYBODY, EVERY_RECORD)
        if isinstance(here, KeptBlock):
            return here.unknown_targets
        with here.read() as blocks:
            return sum(int(np.isnan(block.y).sum()) for block in blocks)

    def answer(self, key: str, some: LeasedRecords, rows: Rows, asked: BlockQuery, batch: Batch) -> list[Term]:
        here = self._of(key, some)
        blocks: Blocks = here.under(rows) if isinstance(here, KeptBlock) else StreamedBlocks(here, rows)
        total = TreeSum(self._partition.first)
        for term in blocks.terms(asked, batch):
            total.add(term)
        return total.terms

    def forget(self, key: str) -> None:
        self._held.pop(key, None)

    def process(self) -> int:
        return os.getpid()

    def _of(self, key: str, some: LeasedRecords) -> Partition | KeptBlock:
        if key not in self._held:
            part = replace(self._partition, selection=some.selection, weights=some.weights)
            everybody = self._held.get(_EVERYBODY)
            if some.selection is None and isinstance(everybody, KeptBlock):
                self._held[key] = everybody.weighted(part)
            else:
                small = len(part) * part.source.row_bytes <= self._memory
                self._held[key] = KeptBlock.read(part) if small else part
        return self._held[key]


_EVERYBODY = "everybody"


class Crew:
    """The workers of one source. What a worker knows it can find out again, so Ray may start it anew at any time."""

    def __init__(self, source: Source, cluster: Cluster) -> None:
        ray = _ray()
        blocks = source.units.blocks
        self.ranges = [(first, last) for first, last in cut(blocks, min(cluster.workers, blocks)) if first < last]
        actor = ray.remote(Worker).options(
            num_cpus=cluster.reserved,
            max_restarts=_ATTEMPTS,
            max_task_retries=_ATTEMPTS,
            scheduling_strategy="SPREAD",
        )
        # kept here, because a worker that is started again needs its own once more
        self._partitions = [ray.put(_partition(source, *some)) for some in self.ranges]
        self.workers = [actor.remote(part, cluster.threads, cluster.memory) for part in self._partitions]
        weakref.finalize(self, _dismiss, self.workers)
        _, late = ray.wait(
            [worker.process.remote() for worker in self.workers], num_returns=len(self.workers), timeout=_PATIENCE
        )
        if late:
            raise RuntimeError(
                f"the cluster had no room for {len(self.workers)} workers of {cluster.threads} threads each within "
                f"{_PATIENCE:.0f} seconds: ask for fewer, or for fewer threads."
            )

    def check(self) -> int:
        return sum(self._gather([worker.check.remote() for worker in self.workers]))

    def processes(self) -> list[int]:
        """Their numbers on the machines they are on."""
        return list(self._gather([worker.process.remote() for worker in self.workers]))

    def answer(
        self, lease: Lease, rows: Rows, asked: BlockQuery, batch: Batch, starts: NDArray[np.int64]
    ) -> Iterator[Term]:
        """`starts` tells how many of the units asked about come before each block."""
        first, last = (starts[[edge[side] for edge in self.ranges]] for side in (0, 1))
        low, high = (first, last) if batch is None else (np.searchsorted(batch, first), np.searchsorted(batch, last))
        answers = [
            worker.answer.remote(
                lease.key,
                lease.slices[number],
                rows,
                about(asked, slice(int(low[number]), int(high[number]))),
                None if batch is None else batch[low[number] : high[number]] - first[number],
            )
            for number, worker in enumerate(self.workers)
            if low[number] < high[number]
        ]
        for terms in self._gather(answers):
            yield from (Term(term.first, term.last, np.array(term.sum)) for term in terms)

    def _gather(self, asked: list[Any]) -> Iterator[Any]:
        ray = _ray()
        for answer in asked:
            try:
                yield ray.get(answer)
            except ray.exceptions.RayTaskError as error:
                # what went wrong there, as if it had gone wrong here
                raise error.cause from None
            except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError):
                raise RuntimeError(
                    f"a worker was lost, and could not be started again in {_ATTEMPTS} attempts: nothing computed from "
                    "its records was released. It may need more memory (give each less to keep), or more workers."
                ) from None


class Lease:
    """Some of the records, and what they count, that the workers keep as long as somebody asks about them."""

    def __init__(self, crew: Crew, partition: Partition) -> None:
        everybody = partition.selection is None and partition.weights is None
        self.key = _EVERYBODY if everybody else uuid.uuid4().hex
        self.slices: list[Any] = [EVERY_RECORD for _ in crew.ranges]
        if not everybody:
            self.slices = [_ray().put(LeasedRecords.of(partition, *some)) for some in crew.ranges]
            weakref.finalize(self, _forget, crew.workers, self.key)


@dataclass(frozen=True, eq=False)
class ClusterBlocks:
    """Blocks that the workers of a cluster hold, and answer for."""

    spread: Spread
    partition: Partition
    rows: Rows

    @cached_property
    def lease(self) -> Lease:
        return Lease(self.spread.crew, self.partition)

    def __len__(self) -> int:
        return len(self.partition)

    def terms(self, asked: BlockQuery, batch: Batch) -> Iterable[Term]:
        return self.spread.crew.answer(self.lease, self.rows, asked, batch, self.partition.starts())

    def divide(self, batch: Index) -> tuple[ClusterBlocks, ClusterBlocks]:
        outside, inside = self.partition.divide(batch)
        return replace(self, partition=outside), replace(self, partition=inside)

    def under_rows(self, rows: Rows) -> ClusterBlocks:
        return replace(self, rows=rows)


def _own(X: Any) -> Any:
    # a matrix that cannot be written to is nobody's buffer
    return X if isinstance(X, np.ndarray) and not X.flags.writeable else X.copy()


def _partition(source: Source, first: int, last: int) -> Partition:
    if isinstance(source, Memory):
        # a worker is sent its own rows only
        source = source.part(source.units.span(first)[0], source.units.span(last - 1)[1])
    return Partition(source, first, last)


def _dismiss(workers: list[Any]) -> None:
    ray = _ray()
    if ray.is_initialized():
        for worker in workers:
            ray.kill(worker)


def _forget(workers: list[Any], key: str) -> None:
    if _ray().is_initialized():
        for worker in workers:
            worker.forget.options(max_task_retries=0).remote(key)


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise ModuleNotFoundError("ray is needed for a cluster: pip install 'sordino[cluster]'.", name="ray") from None
    return ray
