"""Batches from more records than fit memory, with the same law as from few."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sordino.oracle.sampling import Batch, FixedSize, Poisson, Sampling

SPAN = 1 << 24
"""Up to so many records a batch is drawn in one go, as for records in memory."""

_COUNTABLE = 1_000_000_000
"""Beyond it NumPy does not draw how many records of a subset fall into each span."""


def drawn(sampling: Sampling, records: int, generator: np.random.Generator) -> Batch:
    """The batch itself is held in memory, and about as much again for the records of one span."""
    # a small subset of any number of records is drawn without listing them all
    if records <= SPAN or sampling.expected_size(records) < records / 64:
        return sampling.draw(records, generator)
    edges = [*range(0, records, SPAN), records]
    sizes = [stop - start for start, stop in pairwise(edges)]
    match sampling:
        case Poisson():
            # coins are independent, so every span can have its own
            parts = [sampling.draw(size, generator) for size in sizes]
        case FixedSize(size):
            if records >= _COUNTABLE:
                raise ValueError(
                    f"a batch of {size} from {records} records: above {_COUNTABLE:,} records a batch of fixed size "
                    "holds less than a sixty-fourth of them; use Poisson sampling, or smaller batches."
                )
            # how many of the subset lie in each span, and then a uniform subset of that size
            counts = generator.multivariate_hypergeometric(sizes, size, method="marginals")
            parts = [FixedSize(int(k)).draw(n, generator) if k else None for k, n in zip(counts, sizes, strict=True)]
        case _:
            return sampling.draw(records, generator)
    found = [start + part for start, part in zip(edges, parts, strict=False) if part is not None]
    return np.concatenate([np.empty(0, dtype=np.intp), *found])
