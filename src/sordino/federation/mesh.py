"""Messages between the members of a federation, in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class MemberLost(ConnectionError):
    """A member cannot be reached any more, or did not answer in time."""

    heard: Mapping[int, bytes] = {}
    """What the others had said in that round."""


class Refused(ValueError):
    """A member does not fit the others, or sent something else than what was agreed."""


@dataclass
class Traffic:
    """What one member has sent so far."""

    messages: int = 0
    sent: int = 0
    """Bytes, without the frames and seals of the transport."""
    rounds: int = 0

    def count(self, outgoing: Mapping[int, bytes]) -> None:
        self.rounds += 1
        self.messages += len(outgoing)
        self.sent += sum(map(len, outgoing.values()))


class Mesh(Protocol):
    """One member's links to all the others. Everybody takes the same rounds in the same order."""

    @property
    def me(self) -> int: ...
    @property
    def members(self) -> int: ...
    @property
    def traffic(self) -> Traffic: ...

    def exchange(self, outgoing: Mapping[int, bytes], senders: Sequence[int], largest: int) -> dict[int, bytes]:
        """One round: `outgoing[i]` goes to member i, and a message of at most `largest` bytes comes from each sender.

        Raises `MemberLost` when a sender is gone or silent, with what the others said, and `Refused` for more bytes.
        """
        ...

    def sign(self, purpose: str, content: bytes) -> bytes:
        """This member's signature."""
        ...

    def signed(self, member: int, purpose: str, content: bytes, signature: bytes) -> bool:
        """Whether a member signed `content` for `purpose`."""
        ...

    def close(self) -> None: ...
