r"""Records of a table with categories that nobody could list: which of them occur is asked first, with noise.

A record has one value in each of k columns, so it adds 1 to one count of each: replacing it moves 2k counts by 1 each,
sqrt(2k) in all, and adding or removing it k of them. Counts that no record has are not there at all, and one that a
single record has would tell of it; so values are told by name alone, and only those whose noisy count is above a
threshold. What that costs is in `sordino.prepare.categories`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sordino.arrays import Array
from sordino.budget import Relation
from sordino.oracle.allowed import allow
from sordino.oracle.protocol import LinearOracle
from sordino.oracle.query import StepQuery
from sordino.oracle.sampling import Batch, Sampling
from sordino.oracle.statistics import FoundValues, ValueCounts
from sordino.privacy.noise import GaussianNoise, Noise
from sordino.privacy.randomness import Randomness


@dataclass(frozen=True, eq=False)
class UncodedRecords:
    """`most` values are looked for in each of the columns it names; `count` counts all of them, exactly.

    `coded` is the oracle of the same records once the values are known: any other value is "other" then.
    """

    most: Mapping[str, int]
    relation: Relation
    count: Callable[[], Mapping[str, Mapping[str, int]]]
    coded: Callable[[FoundValues], LinearOracle]

    def values(self, noise: GaussianNoise, threshold: float, randomness: Randomness) -> FoundValues:
        """Those whose noisy count is above the threshold, of each column at most the largest of them."""
        allow(ValueCounts(len(self.most)), noise, self.relation)
        # every count has noise of its own
        each, found = replace(noise, dim=1), {}
        for name, counts in self.count().items():
            # in an order that does not depend on that of the records
            texts = sorted(counts)
            noisy = each.perturb(np.array([[float(counts[text])] for text in texts]).reshape(-1, 1), randomness)[:, 0]
            above = np.flatnonzero(noisy > threshold)
            kept = above[np.argsort(-noisy[above], kind="stable")][: self.most[name]]
            found[name] = tuple(sorted(texts[place] for place in kept.tolist()))
        return found

    def draw(self, sampling: Sampling, randomness: Randomness) -> Batch:
        raise ValueError(_NO_ROWS)

    def release(self, query: StepQuery, noise: Noise, randomness: Randomness) -> Array:
        raise ValueError(_NO_ROWS)


_NO_ROWS = "these records have no rows before their categories are known: ask for `values`, then for `coded`."
