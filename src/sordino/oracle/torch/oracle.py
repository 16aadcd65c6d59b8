r"""Records of a network: clipped sums by book-keeping.

A pass takes a fixed number of rows, the last ones made up where there are not enough records. It notes every layer's
input a and the gradients e at the layers' outputs. Norms of the records' gradients follow from a and e, and so does the
sum of the clipped gradients, written into one flat vector (Bu, Wang, Zha and Karypis 2023); the gradients themselves
are not formed. A difference takes two passes, at both points.

A record's clipped gradient is a function of the record, of the parameters and of secret random numbers alone: see
`program` for why no operation mixes records, `isolation` for rounding inside an operation, `rounding` for sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.oracle.allowed import allow, allow_sampling, checked_batch
from sordino.oracle.kernels.subsets import permutation
from sordino.oracle.persons import Persons, require_same_unit
from sordino.oracle.query import CountedGradient, Difference, Gradient, Recursion, StepQuery
from sordino.oracle.sampling import Batch, Sampling
from sordino.oracle.torch import kernels, openmp
from sordino.oracle.torch.bundles import Bundles
from sordino.oracle.torch.checks import checked_places, refuse_mixing, refuse_wrapped
from sordino.oracle.torch.clipping import Clipping
from sordino.oracle.torch.isolation import keeps_records_apart, multiplies_in_full
from sordino.oracle.torch.norms import Kind, Share
from sordino.oracle.torch.parameters import copy_of
from sordino.oracle.torch.passes import MULTIPLE, Passes
from sordino.oracle.torch.records import Which, records_of, require_each_once
from sordino.oracle.torch.rounding import BLOCK, MOST_RECORDS, pivot, sum_error
from sordino.oracle.torch.workspace import Workspace
from sordino.privacy import team
from sordino.privacy.randomness import Randomness, Stream
from sordino.problem import NetworkProblem

if TYPE_CHECKING:
    from sordino.privacy.noise import Noise

LossFunction = Callable[[Any, Any], Tensor]

SEEDS = 3
"""Words that reading a pass of records takes from the run's randomness, needed or not: seeded runs do not differ."""

TRIALS = 4
"""Of a network that draws random numbers, each with others: a mask for five units is all zeros once in 32 times."""

SUMS = 1 << 22
"""Bytes of the sums of blocks that are computed together."""


FEWER_DIGITS = (
    "products of single precision are set to fewer digits, and rounding of sums is bounded for full precision: call "
    'torch.set_float32_matmul_precision("highest"), train outside of torch.autocast, which a model may use in its '
    "forward, and take DNNL_DEFAULT_FPMATH_MODE and ONEDNN_DEFAULT_FPMATH_MODE out of the environment."
)

_SMALL = 2.0**-10

_SCALED = 1 - 2.0**-20
"""Times a sum that is multiplied once more: of at most 2^24 records, that is off by less than 2^-28 of a record."""


class TorchOracle:
    """Answers about a network's records with noise. It works on a copy of the model, on the model's device.

    `loss(outputs, targets)` gives one loss per record: nn.CrossEntropyLoss(reduction="none"). `data` is a pair (X, y)
    or a data set of PyTorch. The vectors of queries and answers hold the trainable parameters in the order of
    `named_parameters`. About `chunk` records are in a pass, a number that must not come from the records: by default
    as many as the problem has, at most 1,024.

    `persons` says whose the records are, for a problem about persons: batches draw persons, with all their records
    that count, and about `chunk` persons are in a pass.

    A record whose loss or gradient is not finite, or on which an operation fails (a class number out of range), counts
    for nothing, and raises nothing. Parameters the loss does not reach get noise alone. Random layers (nn.Dropout) draw
    from the run's secret randomness, anew for every record and release; a difference has the same draws at both points.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        data: Any,
        problem: NetworkProblem,
        relation: Relation = Relation.REPLACE_ONE,
        chunk: int | None = None,
        persons: Persons | None = None,
    ) -> None:
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk is {chunk}: at least one record must be in a pass.")
        refuse_wrapped(model)
        checked_places(model, problem)
        refuse_mixing(model)
        self._problem, self._relation = problem, Relation(relation)
        self._records = records_of(data)
        require_same_unit(problem, persons, len(self._records))
        if persons is None:
            require_each_once(data)
        self._bundles = None if persons is None else Bundles.of(persons)
        self._fits()
        self._streams = Randomness.system()
        sample = self._records.sample(self._streams.sampling.words(SEEDS))
        places = 1 if self._bundles is None else self._bundles.records.shape[1]
        rows, block = rows_of_pass(min(problem.records, max(1, 1024 // places)) if chunk is None else chunk, places)
        self._passes = Passes(copy_of(model), loss, sample, rows, places)
        # a pass may have to be shorter than that, and is one block then
        self._block = block if self._passes.rows == rows else self._passes.rows
        if places > self._block:
            raise ValueError(
                f"records_per_person is {places}, and {self._block} records of this model fit into a pass: gradients "
                "of its unusual layers are formed one by one, and take memory. Use fewer of each."
            )
        self._sum = np.empty(problem.dim)
        # counted where a query asks for it
        self._unclipped: int | None = None
        self._parts = torch.zeros(
            (self._blocks_at_once(), problem.dim), dtype=self._passes.dtype, device=self._passes.device
        )
        _keep_freed_memory()
        self._books = [self._passes.books()]
        self._clippings: dict[tuple[Kind, ...], Clipping] = {}
        self._tried: set[tuple[int, tuple[str, ...]]] = set()
        for notice in self._passes.notices:
            warnings.warn(notice, UserWarning, stacklevel=2)

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch:
        allow_sampling(sampling, self._relation, self._problem.unit)
        return sampling.draw(self._units, randomness.sampling)

    def release(self, query: StepQuery, noise: Noise, randomness: Randomness) -> Array:
        allow(query, noise, self._relation)
        with team.beside(openmp.team()):
            if isinstance(query, CountedGradient):
                return noise.perturb(self._counted(query, randomness.sampling), randomness)
            return noise.perturb(self._answer(query, randomness.sampling), randomness)

    def _counted(self, query: CountedGradient, stream: Stream | None = None) -> Array:
        if self._bundles is not None:
            raise ValueError("gradients within a clip are counted by records: with persons use another clipping.")
        clip, batch = query.gradient.clip, query.gradient.batch
        self._unclipped = 0
        total, count = self._answer(query.gradient, stream), self._units if batch is None else len(batch)
        total = total.astype(np.float64, copy=False)
        within = self._unclipped - count / 2
        self._unclipped = None
        return np.append(query.gradient_weight / clip * total, query.count_weight * within) * _SCALED

    @property
    def _units(self) -> int:
        """The true number of them; asking for it refuses a data set that has changed."""
        records = len(self._records)
        return records if self._bundles is None else len(self._bundles)

    def _fits(self) -> None:
        if self._relation is Relation.REPLACE_ONE and self._units != self._problem.records:
            raise ValueError(
                f"the data have {self._units} {self._problem.unit}s, but the problem was stated with "
                f"{self._problem.records}: under replace_one their number is public and must be the true one."
            )

    def _answer(self, query: Gradient | Difference | Recursion, stream: Stream | None = None) -> Array:
        """The exact answer but for rounding, which `rounding` bounds; valid until the next one.

        The sum of a single block is in the precision of the books, as it was computed.
        """
        stream = stream or self._streams.sampling
        points = self._points(query)
        batch = checked_batch(query.batch, self._units)
        count = self._units if batch is None else len(batch)
        if count > MOST_RECORDS:
            # how many there are may be secret
            raise ValueError(f"a batch has too many records: at most {MOST_RECORDS} can be added up. Use smaller ones.")
        cast = torch.is_autocast_enabled(self._passes.device.type)
        if cast or torch.get_float32_matmul_precision() != "highest":
            raise ValueError(FEWER_DIGITS)
        shares = self._shares(query)
        self._try_out(points, shares)
        if count == 0:
            self._sum.fill(0)
            return self._sum
        places = self._block if self._bundles is None else self._block // self._bundles.records.shape[1]
        if count > places:
            # in an order that nobody knows: a record that is added must not move all others to other places
            order = permutation(count, stream)
            batch = order if batch is None else batch[order]
        together = places * (self._passes.rows // self._block)
        for start in range(0, count, together):
            some = slice(start, min(start + together, count))
            clipped = self._passed(points, shares, some if batch is None else batch[some], stream)
            if self._passes.rows == self._block and count <= places:
                clipped.write_all()
                return self._parts[0].cpu().numpy()
            self._add(clipped, shares, first=start == 0)
        return self._sum

    def _add(self, clipped: Clipping, shares: list[Share], first: bool) -> None:
        on_grid = pivot(sum(share.clip * share.factor for share in shares))
        # a block is never left out beside others, even one without records: how it is summed must not depend on them
        for _ in clipped.write():
            kernels.add_on_grid(self._parts.cpu().numpy(), self._sum, on_grid, first, team.present(self._parts.numel()))
            first = False

    def _passed(self, points: list[Array], shares: list[Share], units: Which, stream: Stream) -> Clipping:
        """Everything about these units that their sum takes."""
        which: Which = units
        weights: Array | None = None
        if self._bundles is not None:
            persons = np.arange(units.start, units.stop) if isinstance(units, slice) else units
            which, weights = self._bundles.rows(persons, self._block)
        count = which.stop - which.start if isinstance(which, slice) else len(which)
        self._records.read(which, *self._passes.places_for(count), stream.words(SEEDS))
        drawn = self._passes.program.draw(stream, count)
        clipped = self._clipped(points, shares, count, drawn, weights)
        if self._unclipped is not None:
            self._unclipped += clipped.unclipped(count)
        return clipped

    def _blocks_at_once(self) -> int:
        """How many blocks of a pass are summed together: their sums must not take much memory."""
        blocks = self._passes.rows // self._block
        most = max(1, SUMS // (self._problem.dim * self._passes.dtype.itemsize))
        return max(count for count in range(1, min(blocks, most) + 1) if blocks % count == 0)

    def _clipped(
        self,
        points: list[Array],
        shares: list[Share],
        count: int,
        drawn: list[list[Tensor]],
        weights: Array | None = None,
    ) -> Clipping:
        """What is known of the records in the passes' inputs and targets, of which `count` are records."""
        clipping = self._clipping(len(points), tuple(share.of for share in shares))
        for point, (memory, _) in zip(points, self._books, strict=False):
            self._passes.load(point)
            self._passes.run(memory, count, drawn)
        clipping.weigh(shares, count, weights)
        return clipping

    def _clipping(self, points: int, kinds: tuple[Kind, ...]) -> Clipping:
        if kinds not in self._clippings:
            while len(self._books) < points:
                self._books.append(self._passes.books())
            sums = {place: self._parts[:, slice(*place)] for place in self._passes.places}
            work = Workspace(self._passes.dtype, self._passes.device, self._passes.program.aligned)
            groups = self._passes.rows // self._block // len(self._parts)
            # one at a time, for the memory that it takes
            notes = [notes for _, notes in self._books[:points]]
            self._clippings = {kinds: Clipping(kinds, notes, sums, groups, work)}
        return self._clippings[kinds]

    def _try_out(self, points: list[Array], shares: list[Share]) -> None:
        """Before the first answer of a kind: see `isolation`. Where records are not apart together, each is alone."""
        kind = (torch.get_num_threads(), tuple(share.of for share in shares))
        if kind in self._tried:
            return
        if not multiplies_in_full(self._passes.dtype, self._passes.device):
            raise ValueError(FEWER_DIGITS)
        how = None
        while not self._apart(points, shares):
            how = self._passes.more_careful()
            self._books, self._clippings = [self._passes.books()], {}
            if how is None:
                raise ValueError(
                    "this machine computes a record differently beside other records, even one by one, so that no "
                    "record's influence can be bounded: set torch.set_num_threads(1), or use another machine."
                )
        if how == "one after the other":
            warnings.warn(
                f"in passes of {self._passes.rows} rows this machine rounds a record's numbers differently beside "
                "other records, so they are computed one after the other, which is slow. Layers with a multiple of 16 "
                "units or channels, or another number of threads, may help.",
                UserWarning,
                stacklevel=5,
            )
        self._tried.add(kind)

    def _apart(self, points: list[Array], shares: list[Share]) -> bool:
        # all are clipped, so that their norms show
        small = [share._replace(clip=share.clip * _SMALL) for share in shares]

        def apart(seed: int) -> bool:
            # other random numbers too: those of a few units may all be zeros, behind which nothing differs
            drawn = self._passes.program.draw_alike(self._streams.sampling, self._passes.rows)

            def computed(inputs: Tensor, targets: Tensor, count: int) -> list[Tensor]:
                for place, rows in zip(self._passes.places_for(count), (inputs, targets), strict=True):
                    place.copy_(rows[:count])
                return self._clipped(points, small, count, drawn).contributions()

            return keeps_records_apart(computed, *self._passes.made_up(seed))

        return all(map(apart, range(TRIALS if self._passes.program.is_random else 2)))

    def _room(self, query: Gradient | Difference | Recursion) -> float:
        vectors = 2 if isinstance(query, Recursion) else 1
        return 1 + sum_error(query.clip, self._block, vectors, self._problem.dim, self._passes.dtype)

    def _shares(self, query: Gradient | Difference | Recursion) -> list[Share]:
        """What is clipped, at norms that leave room for the rounding of sums."""
        room = self._room(query)
        match query:
            case Gradient(clip=clip, softening=softening):
                return [Share("gradient", clip / room, 1.0, softening)]
            case Difference(clip=clip):
                return [Share("difference", clip / room, 1.0)]
            case Recursion(difference=difference, gradient=gradient, mix=mix):
                return [
                    Share("difference", difference.clip / room, 1 - mix),
                    Share("gradient", gradient.clip / room, mix),
                ]

    def _points(self, query: Gradient | Difference | Recursion) -> list[Array]:
        """Where gradients are asked for: the point itself, and the earlier one of a difference."""
        moved = query.difference if isinstance(query, Recursion) else query
        points = [query.at, moved.since] if isinstance(moved, Difference) else [query.at]
        for point in points:
            if np.shape(point) != (self._problem.dim,):
                raise ValueError(
                    f"parameters of shape {np.shape(point)} for a network of {self._problem.dim}: give one flat vector."
                )
        return points


def _keep_freed_memory() -> None:
    """So that passes find the memory of those before: pages that went back to the system cost a tenth of a step.

    glibc gives back what is beyond twice the largest block that it ever had from the system by itself and lost again,
    32 MB at most.
    """
    torch.empty(31 << 20, dtype=torch.uint8)


def rows_of_pass(units: int, places: int = 1) -> tuple[int, int]:
    """Rows for about so many units of so many places each, and of a block.

    Blocks are of equal length, each a multiple of what processors take at once.
    """
    blocks = -(-units // (BLOCK // places))
    block = -(-(-(-units // blocks) * places) // MULTIPLE) * MULTIPLE
    return blocks * block, block
