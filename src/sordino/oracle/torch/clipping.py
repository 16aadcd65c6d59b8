r"""From the books of a pass to sums of its clipped gradients.

out = sum_k share_k sum_i min(1, clip_k / |g_ki|) g_ki,       g_k the gradients or the differences
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor

from sordino.oracle.torch.norms import Norms, Share, norms_of
from sordino.oracle.torch.pairs import Form, Pair, SummingForm, moved
from sordino.oracle.torch.workspace import Workspace

Place = tuple[int, int]
"""Where a parameter begins and ends in the flat vector."""


class Entry(NamedTuple):
    """One use of a parameter: its place, the form of its gradient, and the pair."""

    place: Place
    form: Form
    pair: Pair


class Notes(NamedTuple):
    """The books of one pass: every use of every parameter, and the records' losses."""

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

    def without(self, spoiled: Tensor) -> Part:
        rows = None if self.rows is None else self.rows.index_fill(0, spoiled, 0)
        return Part(self.form, [pair.without(spoiled) for pair in self.pairs], rows)


class Clipped(NamedTuple):
    """The gradients of a pass under every share, and the weight of every record in it."""

    parts: list[dict[Place, Part]]
    weights: list[Tensor]

    def some(self, which: slice) -> Clipped:
        parts = [{place: part.some(which) for place, part in found.items()} for found in self.parts]
        return Clipped(parts, [each[which] for each in self.weights])

    def write(self, out: Mapping[Place, Tensor], work: Workspace) -> None:
        """The clipped sums of equal blocks of rows, one for every row of `out`.

        Parameters without gradients have their places left alone.
        """
        for place in self.parts[0]:
            weighted = [(w, found[place]) for w, found in zip(self.weights, self.parts, strict=True)]
            _write(out[place], weighted, work)


def clipped(shares: Sequence[Share], notes: Sequence[Notes], count: int, work: Workspace) -> Clipped:
    """The weights of the first `count` rows; the others have none.

    `notes` has the pass at the point and, for differences, the earlier one. A record that is not finite in one of them
    counts for nothing.
    """
    parts = [
        _parts(_differences(notes, work) if share.of == "difference" else _gradients(notes[0]), work)
        for share in shares
    ]
    norms = norms_of(len(shares), notes[0].losses.shape[0], work)
    for number, found in enumerate(parts):
        for part in found.values():
            part.measure(number, norms, work)
    weights, spoiled = norms.factors(shares, [noted.losses for noted in notes], count)
    if spoiled is not None:
        parts = [{place: part.without(spoiled) for place, part in found.items()} for found in parts]
    return Clipped(parts, weights)


def _write(out: Tensor, weighted: Sequence[tuple[Tensor, Part]], work: Workspace) -> None:
    pairs = [(weights, pair) for weights, part in weighted if part.rows is None for pair in part.pairs]
    if pairs:
        cast(SummingForm, weighted[0][1].form).write(out, pairs, work)
    kept = 1 if pairs else 0
    for weights, part in weighted:
        if part.rows is not None:
            blocks = (each.chunk(len(out)) for each in (part.rows, weights))
            for total, rows, own in zip(out, *blocks, strict=True):
                total.addmv_(rows.T, own, beta=kept)
            kept = 1


def _gradients(notes: Notes) -> Iterator[tuple[Entry, list[Pair]]]:
    for entry in notes.entries:
        yield entry, [entry.pair]


def _differences(notes: Sequence[Notes], work: Workspace) -> Iterator[tuple[Entry, list[Pair]]]:
    # the weight and the bias of a layer share a side, whose difference is one tensor for both, measured once
    known: dict[tuple[int, int], Tensor] = {}

    def minus(one: Tensor, other: Tensor) -> Tensor:
        key = (id(one), id(other))
        if key not in known:
            known[key] = torch.sub(one, other, out=work.take(*one.shape))
        return known[key]

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
