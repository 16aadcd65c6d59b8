"""All owners in this process, added up in plain sight: the weights are those of a secure sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordino.federation.mesh import Traffic


class InTheOpen:
    limit = 1 << 62
    tolerates = 0

    def __init__(self, members: int) -> None:
        self.members = members
        self.local = self.holders = tuple(range(members))
        self.traffic = Traffic()

    def tell(self, messages: Sequence[bytes], largest: int = 1 << 20) -> tuple[bytes, ...]:
        return tuple(messages)

    def pass_on(self, outgoing: Any, senders: Any, largest: int) -> Any:
        raise ValueError("all members are in this process: they have no messages for each other.")

    def open_sum(self, values: Any, joint: Any = None) -> Any:
        return values.sum(axis=0)

    def close(self) -> None:
        pass
