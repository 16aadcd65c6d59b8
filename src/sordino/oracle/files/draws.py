"""Batches from more records than fit memory, with the same law as from few."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sordino.oracle.sampling import Batch, FixedSize, Poisson, Sampling
from sordino.privacy.counts import hypergeometric
from sordino.privacy.randomness import Stream

SPAN = 1 << 24
"""Up to so many records a batch is drawn in one go, as for records in memory."""


def drawn(sampling: Sampling, records: int, stream: Stream) -> Batch:
    """The batch itself is held in memory, and about as much again for the records of one span."""
    # a small subset of any number of records is drawn without listing them all
    if records <= SPAN or sampling.expected_size(records) < records / 64:
        return sampling.draw(records, stream)
    edges = [*range(0, records, SPAN), records]
    sizes = [stop - start for start, stop in pairwise(edges)]
    match sampling:
        case Poisson():
            # coins are independent, so every span can have its own
            parts = [sampling.draw(size, stream) for size in sizes]
        case FixedSize(size):
            # how many of the subset lie in each span, and then a uniform subset of that size
            parts, left = [], size
            for start, here in zip(edges, sizes, strict=False):
                k = hypergeometric(records - start, here, left, stream)
                parts.append(FixedSize(k).draw(here, stream) if k else None)
                left -= k
        case _:
            return sampling.draw(records, stream)
    found = [start + part for start, part in zip(edges, parts, strict=False) if part is not None]
    return np.concatenate([np.empty(0, dtype=np.intp), *found])
