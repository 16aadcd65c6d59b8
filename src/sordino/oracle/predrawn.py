"""Batches of the next steps, drawn together where each of them has few members.

To draw a batch takes a dozen calls, and memory that the step before has driven out of the caches: more than its coins.
A record's coin of every step is a coin of its own, so the steps of a run stand behind one another like so many more
records, and one draw finds the members of all.

What was drawn for later is as secret as the key of its stream, and lives no longer. It is no part of a checkpoint: a
run that goes on draws anew. A child process has none of it, and no batch is handed out twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sordino.privacy.randomness import Stream

_TOGETHER = 1 << 16
"""Draws, about, that are made together. A batch of more than half of them is drawn alone."""

_FEWEST = 2.0**-13
"""Draws per record, where none is a member."""

_KINDS = 16
"""Of batches, with so many records and such a rate, that wait on a stream; then all of them are forgotten."""

_NONE: tuple[int, list[NDArray[np.intp]]] = 0, []


def batch_of_coins(records: int, rate: float, stream: Stream) -> NDArray[np.intp]:
    """The members of a step, in order, every record by its own coin."""
    steps, batches = stream.predrawn.get((records, rate), _NONE)
    try:
        # one at a time, whoever else asks meanwhile
        batch: NDArray[np.intp] = batches.pop()
        return batch
    except IndexError:
        # of 1, 2, 4 .. steps: who asks a few times has not drawn much more than that
        steps = max(1, min(2 * steps, int(_TOGETHER / (records * (rate + _FEWEST)))))
    # here and not above, as it compiles
    from sordino.oracle.kernels.coins import heads

    batches = heads(records, rate, stream, steps)
    if len(stream.predrawn) >= _KINDS:
        stream.predrawn.clear()
    stream.predrawn[records, rate] = steps, batches[:0:-1]
    return batches[0]
