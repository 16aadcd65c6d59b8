"""Messages between the members of a federation, in rounds."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

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
        meshes = [ThreadMesh(self, me) for me in range(self.members)]
        for one in meshes:
            for other in meshes:
                if one is not other:
                    one.links[other.me] = ThreadLink(one, other)
        return meshes

    def seen_by(self, coalition: set[int]) -> list[Message]:
        """Every message that one of the coalition received from somebody outside it."""
        return [m for m in self.transcript if m.receiver in coalition and m.sender not in coalition]


class ThreadMesh:
    """One member of a rehearsal, with the event loop of its own that MPyC's runtime needs."""

    def __init__(self, rehearsal: Rehearsal, me: int) -> None:
        self.rehearsal, self.me = rehearsal, me
        self.members = rehearsal.members
        self.patience = rehearsal.patience
        self.traffic = Traffic()
        self.links: dict[int, ThreadLink] = {}
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._parted = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._serve, args=(self._loop,), daemon=True).start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        # MPyC stops the loop when one of its tasks fails
        while not self._parted:
            loop.run_forever()
        loop.close()

    def run(self, task: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(task, self.loop).result()

    def exchange(self, outgoing: Mapping[int, bytes], senders: Sequence[int]) -> dict[int, bytes]:
        tag = -1 - self.traffic.rounds
        for receiver, content in outgoing.items():
            self.links[receiver].send(tag, content)
        self.traffic.count(outgoing)
        return self.run(self._heard(tag, senders))

    async def _heard(self, tag: int, senders: Sequence[int]) -> dict[int, bytes]:
        try:
            async with asyncio.timeout(self.patience):
                boxes = {sender: self.links[sender].receive(tag) for sender in senders}
                return {sender: box if isinstance(box, bytes) else await box for sender, box in boxes.items()}
        except TimeoutError:
            raise MemberLost(f"a member did not answer within {self.patience:g} seconds.") from None

    def close(self) -> None:
        self._parted = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)


class ThreadLink:
    """Labelled messages from one member of a rehearsal to another, and back."""

    def __init__(self, mine: ThreadMesh, other: ThreadMesh) -> None:
        self._mine, self._other = mine, other
        self._boxes: dict[int, bytes | asyncio.Future[bytes]] = {}

    def send(self, tag: int, content: bytes) -> None:
        mine, other = self._mine, self._other
        mine.rehearsal.transcript.append(Message(mine.traffic.rounds, mine.me, other.me, content))
        other.loop.call_soon_threadsafe(other.links[mine.me].deliver, tag, content)

    def deliver(self, tag: int, content: bytes) -> None:
        waiting = self._boxes.pop(tag, None)
        if isinstance(waiting, asyncio.Future):
            if not waiting.done():
                waiting.set_result(content)
        else:
            self._boxes[tag] = content

    def receive(self, tag: int) -> bytes | asyncio.Future[bytes]:
        box = self._boxes.pop(tag, None)
        if box is None:
            box = self._boxes[tag] = self._mine.loop.create_future()
        return box


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
    # a member draws random bits number by number, and every draw lets go of the interpreter: it must come back soon
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(tasks))]
