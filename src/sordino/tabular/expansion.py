r"""Rows of a table with curves.

    u in [-1, 1]  ->  ( u,  s_1 h(u),  s_2 h(2u + 1), s_2 h(2u - 1),  s_3 h(4u + 3), .. )      h(v) = max(0, 1 - |v|)

Level l has 2^(l-1) hats side by side, of which one at most is not zero at u, and s_l = 2^(-(l-1)/2). A linear model of
these columns is a piecewise linear function of u whose 2^m pieces are equal parts of the public range. Weights that are
independent and of equal size make it a line plus a Brownian bridge (Levy and Ciesielski): that is what a ridge penalty,
or a descent that is stopped early, shrinks towards, and a fine level is believed only where many records speak for it.

The bridge's variance is 1 - u^2, so that at every knot the squared norm is u^2 + (1 - u^2) = 1. Between two knots every
column is linear in u, hence the squared norm convex, hence at most 1. The norm of a product is the product of the
norms. So blocks keep to the norms that a schema states, and whatever is true of linear models on bounded rows is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sordino.arrays import Array
from sordino.tabular.columns import INDICATOR, Column, block_width
from sordino.tabular.curves import INTERACTION, Curves

_RECORDS = 1 << 12
"""That are expanded at once."""


@dataclass(frozen=True)
class Expansion:
    """What rows of these columns become: a block for every column, then one for every interaction."""

    columns: Mapping[str, Column]
    curves: Curves

    def dense(self, rows: Any) -> Array:
        """Of rows as the columns alone encode them, each by itself."""
        out = np.empty((rows.shape[0], len(self.curves.feature_names(self.columns))))
        for part in _parts(rows):
            out[part] = self._expanded(rows[part])
        return out

    def sparse(self, rows: Any) -> sparse.csr_matrix:
        # a part without records has the columns all the same
        parts = [*_parts(rows)] or [slice(0)]
        return sparse.vstack([sparse.csr_matrix(self._expanded(rows[part])) for part in parts], format="csr")

    def block(self, column: Column, given: Array) -> Array:
        """Of one column, from what it is encoded as without curves."""
        levels = self.curves.levels(column)
        if levels is None:
            return given
        if column.missing != INDICATOR:
            return _curve(given[:, 0], levels)
        there = given[:, 1:] == 0
        return np.hstack([_curve(given[:, 0], levels) * there, given[:, 1:]])

    def product(self, a: str, b: str, block_a: Array, block_b: Array) -> Array:
        i, j = self.curves.products(self.columns[a], self.columns[b])
        found: Array = INTERACTION * block_a[:, i] * block_b[:, j]
        return found

    def _expanded(self, rows: Any) -> Array:
        given = rows.toarray() if sparse.issparse(rows) else rows
        ends = np.cumsum([block_width(column) for column in self.columns.values()])[:-1]
        pieces = zip(self.columns.items(), np.split(given, ends, axis=1), strict=True)
        blocks = {name: self.block(column, piece) for (name, column), piece in pieces}
        products = [self.product(a, b, blocks[a], blocks[b]) for a, b in self.curves.interactions]
        return np.hstack([*blocks.values(), *products])


def knots(levels: int) -> Array:
    return np.linspace(-1, 1, 2**levels + 1)


def _curve(u: Array, levels: int) -> Array:
    """The hats of a level lie in the places from 2^(l-1) on, as in a heap."""
    out = np.zeros((len(u), 2**levels))
    out[:, 0] = u
    record = np.arange(len(u))
    for level in range(1, levels + 1):
        hats = 2 ** (level - 1)
        hat = np.minimum(((u + 1) * (hats / 2)).astype(np.intp), hats - 1)
        tip = (2 * hat + 1) / hats - 1
        out[record, hats + hat] = np.maximum(1 - hats * np.abs(u - tip), 0) / np.sqrt(hats)
    return out


def _parts(rows: Any) -> Iterator[slice]:
    return (slice(first, first + _RECORDS) for first in range(0, rows.shape[0], _RECORDS))
