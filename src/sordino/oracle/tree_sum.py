"""Sums over blocks that do not depend on who adds which blocks.

Blocks are the leaves of a binary tree, in the order of their numbers; a node is the sum of its two children, or the one
child that is there. Floating-point addition is not associative, so this fixes the order once and for all: one process,
or several that each hold a range of blocks, arrive at the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sordino.arrays import Array


class Term(NamedTuple):
    """The sum of some of the blocks first..last, of which these two are among them."""

    first: int
    last: int
    sum: Array


@dataclass
class TreeSum:
    """Takes terms from left to right, those from block `first` on; holds two for every level of the tree at most.

    A node is added up when the next term shows that it is complete, and only if it begins at `first` or later: what it
    has further left is somebody else's.
    """

    first: int = 0
    terms: list[Term] = field(default_factory=list)

    def add(self, term: Term) -> None:
        if self.terms:
            # what lies below the node at which the new block comes in is complete
            self._close(_level(self.terms[-1], term))
        self.terms.append(term)

    def total(self, shape: tuple[int, ...]) -> Array:
        """Everything added up; zeros where there was nothing to add."""
        self._close(64)
        return self.terms[0].sum if self.terms else np.zeros(shape)

    def _close(self, level: int) -> None:
        while len(self.terms) > 1:
            left, right = self.terms[-2:]
            here = _level(left, right)
            if here >= level or (left.first >> here) << here < self.first:
                return
            self.terms[-2:] = [Term(left.first, right.last, left.sum + right.sum)]


def _level(left: Term, right: Term) -> int:
    """Of the node where two neighbouring terms meet."""
    return (left.last ^ right.first).bit_length()
