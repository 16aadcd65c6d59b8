"""Adding up what several members hold, and opening nothing but the sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sordino.arrays import Whole
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import Traffic


class Aggregation(Protocol):
    """One process's end of a secure sum.

    Members are numbered 0, 1, ..: the owners, and behind them the servers of a committee, if there is one. Every
    process makes the same calls in the same order.
    """

    @property
    def members(self) -> int: ...

    @property
    def local(self) -> tuple[int, ...]:
        """The members this process speaks for: one of them, or all in a rehearsal on one machine."""
        ...

    @property
    def limit(self) -> int:
        """A sum is exact up to this magnitude. Beyond it wraps around, which tells nobody more than the sum."""
        ...

    @property
    def holders(self) -> tuple[int, ...]:
        """The members among whom every value is shared."""
        ...

    @property
    def tolerates(self) -> int:
        """How many holders may pool all they saw and still know nothing but the sum."""
        ...

    @property
    def traffic(self) -> Traffic: ...

    def tell(self, messages: Sequence[bytes], largest: int = 1 << 20) -> tuple[bytes, ...]:
        """What every member has to say to all, by its number; `messages` are those of the local members.

        Nobody goes on before it is known that everybody heard the same.
        """
        ...

    def pass_on(self, outgoing: Mapping[int, bytes], senders: Sequence[int], largest: int) -> dict[int, bytes]:
        """One round of messages between pairs, for this process's only member."""
        ...

    def open_sum(self, values: Whole, joint: JointSampler | None = None) -> Whole:
        """The sum over all members, opened to all of them. `values` has a row for each local member.

        With `joint`, a whole number that nobody knows is added to every coordinate before the sum is opened. The sum is
        returned when it is known that all members have the same.
        """
        ...

    def close(self) -> None: ...


class Witnessed(Aggregation, Protocol):
    """A secure sum that every member testifies to."""

    def witnessed_sum(
        self, values: Whole, joint: JointSampler | None, witness: Callable[[Whole], bytes]
    ) -> tuple[Whole, tuple[bytes, ...]]:
        """The sum, and what every member's `witness` says of it, in as many bytes for all."""
        ...
