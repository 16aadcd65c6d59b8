"""How often every value of a column occurs. Private: nothing of it may be told without noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sordino.tabular.encode import texts_of


def count_values(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> dict[str, Counter[str]]:
    """Of these columns, by their values as the encoder spells them. A missing value is none."""
    found: dict[str, Counter[str]] = {name: Counter() for name in columns}
    for batch in batches:
        for name in columns:
            # one look at every value that occurs, instead of one at every cell
            counted = pc.value_counts(batch.column(name))
            texts = texts_of(name, counted.field("values")).to_pylist()
            for text, count in zip(texts, counted.field("counts").to_pylist(), strict=True):
                if text:
                    found[name][text] += count
    return found
