"""All owners in this process, added up in plain sight: the weights are those of a secure sum."""

from __future__ import annotations

import numpy as np

from sordino.federation.mesh import Traffic


class InTheOpen:
    limit = 1 << 62
    tolerates = 0

    def __init__(self, members: int) -> None:
        self.members = members
        self.local = self.holders = tuple(range(members))
        self.traffic = Traffic()

    def tell(self, messages: list[bytes], largest: int = 1 << 20) -> tuple[bytes, ...]:
        return tuple(messages)

    def open_sum(self, values: np.ndarray, joint: None = None) -> np.ndarray:
        return values.sum(axis=0)
