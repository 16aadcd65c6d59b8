r"""Persons in a pass: each has the same number of places, k, whoever they are.

Place by place stand a person's records, with the weights that make one contribution of them (see
`sordino.oracle.person_blocks`); places that are left over hold their first record, with no weight. So nobody's number
of records moves anybody else to another place, and what `rounding` says of a record and its place holds of a person and
their k places, which are all in one block:

    block    | k places | k places | .. | rows without weight that fill it up |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.arrays import Array, Index
from sordino.oracle.persons import Persons
from sordino.oracle.torch.rounding import BLOCK

_SHY = 1 - 2.0**-14
"""Times every weight: products with weights of at most 256 records, in single precision, are off by less than that."""


@dataclass(frozen=True, eq=False)
class Bundles:
    """The records of every person and their weights, persons x k."""

    records: NDArray[np.intp]
    weights: Array

    @staticmethod
    def of(persons: Persons) -> Bundles:
        unit, k = persons.unit, most_records(persons)
        owners = persons.owners[persons.kept]
        order = persons.kept[np.argsort(owners, kind="stable")]
        sizes = np.bincount(owners, minlength=persons.count)[:, None]
        firsts, place = np.cumsum(sizes)[:, None] - sizes, np.arange(k)
        there = place < sizes
        records = order[firsts + np.where(there, place, 0)]
        share = 1 / (sizes if unit.contribution == "mean" else k)
        return Bundles(records, np.where(there, share * _SHY, 0.0))

    def __len__(self) -> int:
        return len(self.records)

    def rows(self, persons: Index, block: int) -> tuple[NDArray[np.intp], Array]:
        """Which record is in every row of a pass with these persons, in blocks of so many rows, and its weight."""
        k = self.records.shape[1]
        slots = block // k
        block_of, slot = np.divmod(np.arange(len(persons)), slots)
        places = (block_of * block + slot * k)[:, None] + np.arange(k)
        which = np.full(places[-1, -1] + 1, self.records[persons[0], 0])
        weights = np.zeros(len(which))
        which[places], weights[places] = self.records[persons], self.weights[persons]
        return which, weights


def most_records(persons: Persons) -> int:
    """k, if k records fit into a block."""
    k = persons.unit.most_records
    assert k is not None
    if k > BLOCK:
        raise ValueError(
            f"records_per_person is {k}: on a network all records of a person are in one sum, which takes at most "
            f"{BLOCK}; use fewer of each."
        )
    return k
