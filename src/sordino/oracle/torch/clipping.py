r"""From the books of a chunk to the sum of its clipped gradients.

out += sum_k share_k sum_i min(1, clip_k / |g_ki|) g_ki,       g_k the gradients or the differences
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from torch import Tensor

from sordino.oracle.torch.norms import Norms
from sordino.oracle.torch.pairs import Form, Pair, SummingForm, moved
from sordino.oracle.torch.rowwise import LARGEST, clip_factors, largest_square, spoiled_records
from sordino.oracle.torch.workspace import Workspace


class Share(NamedTuple):
    """What is clipped, at which norm, and how much of it enters the answer."""

    of: Literal["gradient", "difference"]
    clip: float
    factor: float


class Entry(NamedTuple):
    """One use of a parameter: the place in the flat vector, the form of its gradient, and the pair."""

    start: int
    stop: int
    form: Form
    pair: Pair


class Notes(NamedTuple):
    """The books of one pass: every use of every parameter, and the records' losses."""

    entries: list[Entry]
    losses: Tensor


@dataclass
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

    def without(self, spoiled: Tensor) -> Part:
        rows = None if self.rows is None else self.rows.index_fill(0, spoiled, 0)
        return Part(self.form, [pair.without(spoiled) for pair in self.pairs], rows)


Place = tuple[int, int]


def clipped_sum(out: Tensor, shares: Sequence[Share], notes: Sequence[Notes], work: Workspace) -> None:
    """Add the chunk's clipped gradients to `out`. `notes` has the pass at the point and, for differences, the earlier.

    A record that is not finite in one of them counts for nothing.
    """
    asked = [_differences(notes, work) if share.of == "difference" else _gradients(notes[0]) for share in shares]
    parts = [_parts(entries, work) for entries in asked]
    norms = Norms(len(shares), len(notes[0].losses), work)
    for number, found in enumerate(parts):
        for part in found.values():
            part.measure(number, norms, work)
    squares = norms.totals()
    limits = [(each, largest_square(share.clip, work.dtype)) for each, share in zip(squares, shares, strict=True)]
    spoiled = spoiled_records([*limits, *((noted.losses, LARGEST) for noted in notes)])
    if spoiled is not None:
        parts = [{place: part.without(spoiled) for place, part in found.items()} for found in parts]
        squares = [each.index_fill(0, spoiled, 0) for each in squares]
    weights = [clip_factors(each, *share[1:], work.dtype) for each, share in zip(squares, shares, strict=True)]
    for place in parts[0]:
        _add(out[place[0] : place[1]], [(w, found[place]) for w, found in zip(weights, parts, strict=True)], work)


def _add(out: Tensor, weighted: Sequence[tuple[Tensor, Part]], work: Workspace) -> None:
    implicit = []
    for weights, part in weighted:
        if part.rows is None:
            implicit += [(weights, pair) for pair in part.pairs]
        else:
            out.addmv_(part.rows.T, weights)
    if implicit:
        cast(SummingForm, weighted[0][1].form).add(out, implicit, work)


def _gradients(notes: Notes) -> list[tuple[Entry, list[Pair]]]:
    return [(entry, [entry.pair]) for entry in notes.entries]


def _differences(notes: Sequence[Notes], work: Workspace) -> list[tuple[Entry, list[Pair]]]:
    new, old = notes
    return [
        (entry, moved(entry.pair, earlier.pair, work)) for entry, earlier in zip(new.entries, old.entries, strict=True)
    ]


def _parts(entries: list[tuple[Entry, list[Pair]]], work: Workspace) -> dict[Place, Part]:
    """What is known of every parameter, its uses put together."""
    uses: dict[Place, list[tuple[Form, list[Pair]]]] = defaultdict(list)
    for entry, pairs in entries:
        uses[entry.start, entry.stop].append((entry.form, pairs))
    return {place: _joined(found, work) for place, found in uses.items()}


def _joined(uses: list[tuple[Form, list[Pair]]], work: Workspace) -> Part:
    form = uses[0][0]
    together = [pair for _, pairs in uses for pair in pairs]
    return Part(form, together, form.rows(together, work))
