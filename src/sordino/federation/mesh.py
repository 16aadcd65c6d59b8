"""Messages between the members of a federation, in rounds."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

T = TypeVar("T")


class MemberLost(ConnectionError):
    """A member cannot be reached any more, or did not answer in time."""


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

    def exchange(self, outgoing: Mapping[int, bytes], senders: Sequence[int]) -> dict[int, bytes]:
        """One round: `outgoing[i]` goes to member i, and one message comes from each of `senders`."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Message:
    """One message of a rehearsal, as it passed between two members."""

    round: int
    sender: int
    receiver: int
    content: bytes


@dataclass
class Rehearsal:
    """Members in threads of one process, with every message kept, so that one can look at what a coalition saw."""

    members: int
    patience: float = 60.0
    transcript: list[Message] = field(default_factory=list)

    def meshes(self) -> list[ThreadMesh]:
        pairs = [(i, j) for i in range(self.members) for j in range(self.members)]
        boxes: Boxes = {pair: queue.SimpleQueue() for pair in pairs}
        return [ThreadMesh(self, me, boxes) for me in range(self.members)]

    def seen_by(self, coalition: set[int]) -> list[Message]:
        """Every message that one of the coalition received from somebody outside it."""
        return [m for m in self.transcript if m.receiver in coalition and m.sender not in coalition]


Boxes = dict[tuple[int, int], queue.SimpleQueue[bytes]]


class ThreadMesh:
    """One member of a rehearsal."""

    def __init__(self, rehearsal: Rehearsal, me: int, boxes: Boxes) -> None:
        self._rehearsal, self._boxes = rehearsal, boxes
        self.me = me
        self.members = rehearsal.members
        self.traffic = Traffic()

    def exchange(self, outgoing: Mapping[int, bytes], senders: Sequence[int]) -> dict[int, bytes]:
        for receiver, content in outgoing.items():
            self._rehearsal.transcript.append(Message(self.traffic.rounds, self.me, receiver, content))
            self._boxes[self.me, receiver].put(content)
        self.traffic.count(outgoing)
        try:
            return {sender: self._boxes[sender, self.me].get(timeout=self._rehearsal.patience) for sender in senders}
        except queue.Empty:
            raise MemberLost(f"a member did not answer within {self._rehearsal.patience:g} seconds.") from None

    def close(self) -> None:
        pass


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """The results of all tasks, run at the same time in threads; the first error instead, if there was one."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            results[number] = tasks[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(tasks))]
