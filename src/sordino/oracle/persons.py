r"""Whose each record is, where the unit is a person: which records count, and how they make one contribution.

What a person adds to an answer is a weighted sum of what each of their kept records adds, clipped by itself:

    mean:    (1/K) sum_{j <= K} a_j,    K kept records        capped:    (1/k) sum_{j <= K} a_j,    K <= k

The weights add up to 1 at most, so the sum keeps the bound that every a_j has, and two persons are no further apart
than two records, or a record and nothing. Where a_j is the gradient of a convex,
L-Lipschitz and beta-smooth function, so is the sum, with the same constants. It depends on the person's own records and
coins alone. Clipping the records' sum instead would bound it too, but what comes out is no gradient and no monotone
map, so that no theorem about contracting steps holds for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Index
from sordino.oracle.tree_sum import Term, TreeSum
from sordino.problem import PersonUnit

if TYPE_CHECKING:
    from sordino.oracle.block_queries import BlockQuery
    from sordino.oracle.blocks import Blocks
    from sordino.oracle.rows import Rows
    from sordino.oracle.sampling import Batch
    from sordino.privacy.randomness import Randomness

_LARGEST_WHOLE = 2.0**53
"""Beyond it, two whole numbers may be the same float."""


@dataclass(frozen=True, eq=False)
class Persons:
    """`owners` has the number, below `count`, of the person of every record; `kept` are the records that count."""

    unit: PersonUnit
    count: int
    owners: Index
    kept: Index

    @staticmethod
    def of(identifiers: Any, unit: PersonUnit, randomness: Randomness) -> Persons:
        """Equal identifiers are one person. Who has more records than the unit takes has some left out at random.

        Every person's coins are their own, so that one person's records do not decide which of another's count.
        """
        found, owners = np.unique(_identifiers(identifiers), return_inverse=True)
        owners = owners.astype(np.intp, copy=False)
        return Persons(unit, len(found), owners, _kept(owners, unit.most_records, randomness))

    def __len__(self) -> int:
        return self.count


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
    def of(blocks: Blocks, persons: Persons) -> PersonBlocks:
        owners = persons.owners[persons.kept]
        if len(persons.kept) < len(blocks):
            _, blocks = blocks.divide(persons.kept)
        capped = persons.unit.most_records if persons.unit.contribution == "capped" else None
        sizes = np.bincount(owners, minlength=persons.count)
        divisors = sizes[owners] if capped is None else np.full(len(owners), capped)
        return PersonBlocks(persons.count, tuple(_shares(blocks, owners, divisors)))

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


def _kept(owners: Index, most: int | None, randomness: Randomness) -> Index:
    everybody = np.arange(len(owners))
    if most is None:
        return everybody
    # every record has a number of its own, and the `most` least of each person's count
    order = np.lexsort((randomness.sampling.generator.random(len(owners)), owners))
    sizes = np.bincount(owners)
    place = everybody - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[place < most])


def _identifiers(given: Any) -> NDArray[Any]:
    """Whole numbers or texts, none missing; or a sentence, which quotes none of them."""
    if np.ma.is_masked(given):
        raise ValueError(_MISSING)
    # a list as it is: NumPy would make texts of numbers beside texts, and of what is missing
    values = np.asarray(given) if hasattr(given, "dtype") else np.asarray(given, dtype=object)
    if values.ndim != 1:
        raise ValueError(f"person has {values.ndim} dimensions: it must hold one identifier for every record.")
    if values.dtype.kind == "O":
        values = _of_one_kind(values)
    if values.dtype.kind == "f":
        if np.isnan(values).any():
            raise ValueError(_MISSING)
        # what was rounded may be two persons in one, which is safe, or one in two, which is not
        if not (np.abs(values) < _LARGEST_WHOLE).all() or (values != np.floor(values)).any():
            raise ValueError(_KIND)
    elif values.dtype.kind in "US":
        values = np.char.strip(np.char.decode(values, "latin-1") if values.dtype.kind == "S" else values)
        if np.isin(np.char.lower(values), _NOBODY).any():
            raise ValueError(_MISSING)
    elif values.dtype.kind not in "iuO":
        raise ValueError(_KIND)
    return values


def _of_one_kind(values: NDArray[Any]) -> NDArray[Any]:
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    # what is missing: None, pandas' NA and NaT, and what is not itself
    if any(value is None or type(value).__name__ in ("NAType", "NaTType") for value in plain) or any(
        isinstance(value, float) and value != value for value in plain
    ):
        raise ValueError(_MISSING)
    for kind, kept_as in ((str, str), (float, np.float64), (int, object)):
        # whole numbers as they are: those of Python may be larger than any of NumPy's
        if all(type(value) is kind for value in plain):
            return np.array(plain, dtype=kept_as)
    raise ValueError(_KIND)


_NOBODY = ("", "na", "n/a", "<na>", "nan", "nat", "none", "null")
"""Texts that stand for a missing one."""
_MISSING = (
    "person has a missing identifier: a record that is nobody's protects nobody. Leave such records out, or give each "
    "an identifier of its own if they are of different persons who have no other record."
)
_KIND = (
    "person must hold whole numbers, or texts, all of one kind: the same person as 7 and as '7' would be two, and be "
    "protected as two."
)
