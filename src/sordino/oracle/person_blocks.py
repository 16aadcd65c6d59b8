r"""Persons as units, on blocks of records wherever those are: how a person's records make one contribution.

What a person adds to an answer is a weighted sum of what each of their kept records adds, clipped by itself:

    mean:    (1/K) sum_{j <= K} a_j,    K kept records        capped:    (1/k) sum_{j <= K} a_j,    K <= k

The weights add up to 1 at most, so the sum keeps the bound that every a_j has, and two persons are no further apart
than two records, or a record and nothing. Where a_j is the gradient of a convex, L-Lipschitz and beta-smooth function,
so is the sum, with the same constants. It depends on the person's own records and coins alone.

    sum:     clip( (1/k) sum_{j <= K} a_j, C ),     k a public guess of K

is bounded too, and so good for every method that pays for every step. But it is no gradient and no monotone map. With
G = sum_j a_j longer than the clip, u = G/|G| and H the Hessian of the sum of the losses, its Jacobian is a multiple of
(I - u u^T) H, whose symmetric part is indefinite unless u is an eigenvector of H: a step can take two points further
apart. So no theorem about contracting steps holds for it, neither that about the last iterate nor those about noise on
the output or the objective, and `Problem.convex` is false. Of losses and of rows the mean of a person's records counts
there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.block_queries import BlockQuery, ClippedSum, PersonSums
from sordino.oracle.tree_sum import Term, TreeSum

if TYPE_CHECKING:
    from sordino.oracle.blocks import Blocks
    from sordino.oracle.persons import Persons
    from sordino.oracle.rows import Rows
    from sordino.oracle.sampling import Batch

_NUMBERS = 1 << 23
"""In the sums of those persons that are asked about at a time."""


def person_blocks(blocks: Blocks, persons: Persons) -> PersonBlocks | SummedPersonBlocks:
    """Blocks whose units are these persons, on blocks of their records, of which some may be left out."""
    unit, owners = persons.unit, persons.owners[persons.kept]
    if len(persons.kept) < len(blocks):
        _, blocks = blocks.divide(persons.kept)
    if unit.typical_records is not None:
        return SummedPersonBlocks(persons.count, unit.typical_records, blocks, owners)
    capped = unit.most_records if unit.contribution == "capped" else None
    return PersonBlocks.weighted(persons.count, blocks, owners, capped)


@dataclass(frozen=True, eq=False)
class Share:
    """Records that count 1/`divisor` each, and the number of the person of every one of them."""

    divisor: int
    blocks: Blocks
    owners: Index


@dataclass(frozen=True, eq=False)
class PersonBlocks:
    """Blocks whose units are persons, on blocks of records wherever those are.

    Records of equal weight lie together, so that the blocks need not know of weights: an answer asks once for every
    number of records that a person of the batch may have.
    """

    count: int
    shares: tuple[Share, ...]

    @staticmethod
    def weighted(count: int, blocks: Blocks, owners: Index, capped: int | None = None) -> PersonBlocks:
        """Every record counts 1/`capped`, or 1/K where its person has K of them."""
        divisors = np.bincount(owners, minlength=count)[owners] if capped is None else np.full(len(owners), capped)
        return PersonBlocks(count, tuple(_shares(blocks, owners, divisors)))

    def __len__(self) -> int:
        return self.count

    def terms(self, asked: BlockQuery, batch: Batch) -> Iterator[Term]:
        inside = None if batch is None else self._inside(batch)
        for share in self.shares:
            records = None if inside is None else np.flatnonzero(inside[share.owners])
            total = TreeSum()
            for term in share.blocks.terms(asked, records):
                total.add(term)
            if total.terms:
                yield Term(share.divisor, share.divisor, total.total(()) / share.divisor)

    def divide(self, batch: Index) -> tuple[PersonBlocks, PersonBlocks]:
        inside = self._inside(batch)
        pairs = [(share, *share.blocks.divide(np.flatnonzero(inside[share.owners]))) for share in self.shares]
        return (
            _renumbered(~inside, [(share, outer) for share, outer, _ in pairs]),
            _renumbered(inside, [(share, inner) for share, _, inner in pairs]),
        )

    def under_rows(self, rows: Rows) -> PersonBlocks:
        moved = (replace(share, blocks=share.blocks.under_rows(rows)) for share in self.shares)
        return replace(self, shares=tuple(moved))

    def _inside(self, batch: Index) -> NDArray[np.bool_]:
        inside = np.zeros(self.count, dtype=bool)
        inside[batch] = True
        return inside


@dataclass(frozen=True, eq=False)
class SummedPersonBlocks:
    """Blocks whose units are persons, each clipped as one; `owners` has the person of every record.

    A person's records may be in several blocks, so the blocks tell every person's sum, and it is clipped here. Persons
    are asked about some at a time, for the memory that their sums take; records in files are read once for each time.
    """

    count: int
    typical: float
    blocks: Blocks
    owners: Index

    def __len__(self) -> int:
        return self.count

    @cached_property
    def means(self) -> PersonBlocks:
        return PersonBlocks.weighted(self.count, self.blocks, self.owners)

    def terms(self, asked: BlockQuery, batch: Batch) -> Iterator[Term]:
        if not isinstance(asked, ClippedSum):
            yield from self.means.terms(asked, batch)
            return
        persons = np.arange(self.count) if batch is None else batch
        points = 1 if asked.earlier is None else 2
        step = max(1, _NUMBERS // (points * len(asked.table) * (asked.table.shape[1] + 1)))
        for number, start in enumerate(range(0, len(persons), step)):
            yield Term(number, number, self._clipped(asked, persons[start : start + step]))

    def divide(self, batch: Index) -> tuple[SummedPersonBlocks, SummedPersonBlocks]:
        inside = np.zeros(self.count, dtype=bool)
        inside[batch] = True
        outer, inner = self.blocks.divide(np.flatnonzero(inside[self.owners]))
        return self._part(outer, ~inside), self._part(inner, inside)

    def under_rows(self, rows: Rows) -> SummedPersonBlocks:
        return replace(self, blocks=self.blocks.under_rows(rows))

    def _part(self, blocks: Blocks, some: NDArray[np.bool_]) -> SummedPersonBlocks:
        """Of these persons alone, numbered by their place among them."""
        numbers = np.cumsum(some) - 1
        return SummedPersonBlocks(int(some.sum()), self.typical, blocks, numbers[self.owners[some[self.owners]]])

    def _clipped(self, asked: ClippedSum, persons: Index) -> Array:
        """The sum of what these persons add, each clipped as one."""
        now = self._sums(asked, asked.table, asked.offsets, persons)
        if asked.earlier is None or asked.earlier_offsets is None:
            return self._added(asked, now, asked.clips)
        with np.errstate(invalid="ignore"):
            moved = now - self._sums(asked, asked.earlier, asked.earlier_offsets, persons)
        return (1 - asked.mix) * self._added(asked, moved, asked.near) + asked.mix * self._added(
            asked, now, asked.clips
        )

    def _sums(self, asked: ClippedSum, table: Array, offsets: Array, persons: Index) -> Array:
        """Persons x scores x parameters of a score, divided by the typical number."""
        whole = len(persons) == self.count
        places = np.full(self.count, -1, dtype=np.intp)
        places[persons] = np.arange(len(persons))
        records = None if whole else np.flatnonzero(places[self.owners] >= 0)
        owners = self.owners if records is None else places[self.owners[records]]
        total = TreeSum()
        for term in self.blocks.terms(PersonSums(asked.loss, table, offsets, owners, len(persons)), records):
            total.add(term)
        return total.total(()) / self.typical

    def _added(self, asked: ClippedSum, sums: Array, clip: Array | float) -> Array:
        """Every model's vector of a person is clipped by itself; one that is not finite counts for nothing."""
        persons, scores, width = sums.shape
        vectors = sums.reshape(persons, scores // asked.loss.outputs, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            # rounding in a sum of so many squares must not make a norm too small
            norms = np.linalg.norm(vectors, axis=2) * (1 + (vectors.shape[2] + 16) * np.finfo(float).eps)
        usable = np.isfinite(norms)
        if not usable.all():
            vectors, norms = np.where(usable[..., None], vectors, 0.0), np.where(usable, norms, 0.0)
        added: Array = np.einsum("pm,pmw->mw", clip / np.maximum(norms, clip), vectors)
        return added.reshape(scores, width)


def _shares(blocks: Blocks, owners: Index, divisors: NDArray[Any]) -> Iterator[Share]:
    """By halves: every record is handed on as often as the number of divisors can be halved."""
    there = np.unique(divisors)
    if len(there) <= 1:
        yield from (Share(int(divisor), blocks, owners) for divisor in there)
        return
    large = divisors >= there[len(there) // 2]
    for part, some in zip(blocks.divide(np.flatnonzero(large)), (~large, large), strict=True):
        yield from _shares(part, owners[some], divisors[some])


def _renumbered(some: NDArray[np.bool_], parts: list[tuple[Share, Blocks]]) -> PersonBlocks:
    """Of these persons alone, numbered by their place among them."""
    numbers = np.cumsum(some) - 1
    shares = (
        Share(share.divisor, blocks, numbers[share.owners[some[share.owners]]])
        for share, blocks in parts
        if len(blocks)
    )
    return PersonBlocks(int(some.sum()), tuple(shares))
