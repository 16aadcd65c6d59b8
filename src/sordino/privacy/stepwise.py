r"""Runs that are accounted for step by step, and what they have used up when they were cut off.

If a run's event is composed of its steps e_1, .., e_T, every iterate is computed from answers that are paid for, and
may be seen. When somebody saw the iterate of step r and the run can only go on from step s < r, the steps s+1, .., r
are taken a second time, with new noise, and are paid for a second time.

What a run may use up is the multiset {e_1, .., e_T} that was planned. In which order it is used, and whether all of it
is, may depend on everything seen so far: whichever event comes first, what remains is dominated by the product of the
others' dominating pairs (by induction over their number), and that product does not depend on the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sordino.privacy.events import Composed, Event

Used = Counter[Event]
"""How often each kind of step was taken and seen."""


@dataclass(frozen=True)
class Stepwise:
    """The steps of a run in their order, equal neighbours together."""

    parts: tuple[tuple[Event, int], ...]

    @property
    def steps(self) -> int:
        return sum(count for _, count in self.parts)

    def between(self, first: int, last: int) -> Used:
        """What the steps first + 1, .., last are."""
        used: Used = Counter()
        for event, start, end in self._stretches():
            used[event] += max(0, min(end, last) - max(start, first))
        return +used

    def reach(self, used: Used, first: int) -> int:
        """How far a run at step `first` may go, where `used` is used up already: T if none of that was lost."""
        left = self.between(0, self.steps)
        left.subtract(used)
        for event, start, end in self._stretches():
            wanted = max(0, end - max(start, first))
            if wanted > left[event]:
                return end - wanted + max(0, left[event])
            left[event] -= wanted
        return self.steps

    def _stretches(self) -> Iterator[tuple[Event, int, int]]:
        start = 0
        for event, count in self.parts:
            yield event, start, start + count
            start += count


def as_event(used: Used) -> Event | None:
    """Everything that was used up as one event; None for nothing."""
    return Composed(tuple(used.items())) if used else None
