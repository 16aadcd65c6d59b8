r"""From the books of a pass to sums of its clipped gradients.

out = sum_k share_k sum_i min(1, clip_k / |g_ki|) g_ki,       g_k the gradients or the differences
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor

from sordino.arrays import Array
from sordino.oracle.torch.norms import Kind, Norms, Share, norms_of
from sordino.oracle.torch.pairs import Form, Pair, SummingForm, equal_parts, moved
from sordino.oracle.torch.workspace import Step, Workspace

Place = tuple[int, int]
"""Where a parameter begins and ends in the flat vector."""


class Entry(NamedTuple):
    """One use of a parameter: its place, the form of its gradient, and the pair."""

    place: Place
    form: Form
    pair: Pair


class Notes(NamedTuple):
    """The books of one pass: every use of every parameter, and the records' losses, of which it matters if finite."""

    entries: list[Entry]
    losses: Tensor


@dataclass(slots=True)
class Part:
    """A parameter's gradients: all its pairs under one form, and the rows where they are written down."""

    form: Form
    pairs: list[Pair]
    rows: Tensor | None

    def measure(self, share: int, norms: Norms, work: Workspace) -> None:
        if self.rows is None:
            cast(SummingForm, self.form).measure(self.pairs, share, norms, work)
        else:
            norms.add(share, self.rows)

    def some(self, which: slice) -> Part:
        rows = None if self.rows is None else self.rows[which]
        return Part(self.form, [pair.part(which) for pair in self.pairs], rows)

    def tensors(self) -> list[Tensor]:
        """What the gradients are made of."""
        return [side for pair in self.pairs for side in pair.sides()] if self.rows is None else [self.rows]


class Clipping:
    """Weighs the records of a pass and sums them, for one kind of query. Books lie where they lay in every pass.

    `notes` has the books at the point and, for differences, at the earlier one. `sums` has for every parameter the
    place of its sums, one row for each of some equal blocks of records; blocks beyond those are summed after them.
    Parameters without gradients have their places left alone.
    """

    def __init__(
        self, kinds: Sequence[Kind], notes: Sequence[Notes], sums: Mapping[Place, Tensor], groups: int, work: Workspace
    ) -> None:
        self._work = work
        self._parts = [
            _parts(_differences(notes, work) if kind == "difference" else _gradients(notes[0]), work) for kind in kinds
        ]
        self._norms = norms_of(len(kinds), [noted.losses for noted in notes], work)
        for number, found in enumerate(self._parts):
            for part in found.values():
                part.measure(number, self._norms, work)
        self._writes = [self._sum(sums, some) for some in equal_parts(len(notes[0].losses), groups)]
        # what was noted for one group of records, for the next, and so on
        each = len(work.bits) // groups
        self._bits = [work.bits[number::each] for number in range(each)]
        self._books = {
            (tensor.data_ptr(), tensor.shape): tensor
            for found in self._parts
            for part in found.values()
            for tensor in (*part.tensors(), *(side for pair in part.pairs for side in pair.sides()))
            if tensor.is_floating_point()
        }

    def weigh(self, shares: Sequence[Share], count: int, times: Array | None = None) -> None:
        """Fill in the weights of the first `count` rows, `times` a number for each of them; the others have none.

        A record that is not finite, at one of the points, counts for nothing: a weight of zero would leave a NaN what
        it is, so that its numbers become zeros, and those of no other.
        """
        for step in self._work.steps:
            step()
        spoiled = self._norms.weigh(shares, count)
        if times is not None:
            factors = torch.from_numpy(times).to(self._norms.weights[0])
            for weights in self._norms.weights:
                weights[:count].mul_(factors)
        if spoiled is not None:
            for tensor in self._books.values():
                tensor.index_fill_(0, spoiled, 0)

    def unclipped(self, count: int) -> int:
        """How many of the first `count` records are within the clip of the only share, as of the last weighing."""
        (weights,) = self._norms.weights
        return int((weights[:count] >= 1).sum())

    def write(self) -> Iterator[None]:
        """Write the clipped sums, some blocks at a time."""
        for steps in self._writes:
            for step in steps:
                step()
            yield

    def write_all(self) -> None:
        """Write them one after the other into the same places."""
        for _ in self.write():
            pass

    def contributions(self) -> list[Tensor]:
        """Everything of which a record's clipped gradient is made."""
        made_of = [tensor for found in self._parts for part in found.values() for tensor in part.tensors()]
        self._work.trying = True
        self.write_all()
        self._work.trying = False
        return [*self._norms.weights, *made_of, *(torch.cat(each) for each in self._bits)]

    def _sum(self, sums: Mapping[Place, Tensor], some: slice) -> list[Step]:
        weights = [each[some] for each in self._norms.weights]
        steps: list[Step] = []
        for place in self._parts[0]:
            steps += _sum(
                sums[place],
                [(w, found[place].some(some)) for w, found in zip(weights, self._parts, strict=True)],
                self._work,
            )
        return steps


def _sum(out: Tensor, weighted: Sequence[tuple[Tensor, Part]], work: Workspace) -> Iterator[Step]:
    pairs = [(weights, pair) for weights, part in weighted if part.rows is None for pair in part.pairs]
    if pairs:
        yield cast(SummingForm, weighted[0][1].form).sum(out, pairs, work)
    kept = 1 if pairs else 0
    for weights, part in weighted:
        if part.rows is not None:
            blocks = equal_parts(len(weights), len(out))
            for total, block in zip(out, blocks, strict=True):
                yield partial(total.addmv_, part.rows[block].T, weights[block], beta=kept)
            kept = 1


def _gradients(notes: Notes) -> Iterator[tuple[Entry, list[Pair]]]:
    for entry in notes.entries:
        yield entry, [entry.pair]


def _differences(notes: Sequence[Notes], work: Workspace) -> Iterator[tuple[Entry, list[Pair]]]:
    # the weight and the bias of a layer share a side, whose difference is one tensor for both, measured once
    known: dict[tuple[int, int], Tensor] = {}

    def minus(one: Tensor | None, other: Tensor) -> Tensor:
        key = (0 if one is None else one.data_ptr(), other.data_ptr())
        if key not in known:
            known[key] = room = work.take(*other.shape)
            work.steps.append(
                partial(torch.neg, other, out=room) if one is None else partial(torch.sub, one, other, out=room)
            )
        return known[key].view(other.shape)

    for new, old in zip(notes[0].entries, notes[1].entries, strict=True):
        yield new, moved(new.pair, old.pair, minus)


def _parts(entries: Iterator[tuple[Entry, list[Pair]]], work: Workspace) -> dict[Place, Part]:
    """What is known of every parameter, its uses put together."""
    uses: dict[Place, tuple[Form, list[Pair]]] = {}
    for entry, pairs in entries:
        if entry.place in uses:
            uses[entry.place][1].extend(pairs)
        else:
            uses[entry.place] = (entry.form, pairs)
    return {place: Part(form, pairs, form.rows(pairs, work)) for place, (form, pairs) in uses.items()}
