"""MPyC's runtime (Schoenmakers) on a mesh's links and in its thread, with ends that are sentences instead of waiting.

MPyC keeps one runtime for a process; here each thread of links has its own, so that a rehearsal fits into a process. A
message that never comes, or is none, would leave MPyC's tasks waiting for ever: `Engine.run` ends them.

MPyC by itself reads arrays from the network with pickle, which lets a member run any program on the others. Here plain
words stand in pickle's place; lists of field elements are plain bytes anyway.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from sordino.federation.mesh import MemberLost, Mesh

T = TypeVar("T")

_IMPORTING = threading.Lock()


class MessageLink(Protocol):
    """Labelled messages to and from one member."""

    def send(self, tag: int, content: bytes) -> None: ...
    def receive(self, tag: int) -> bytes | asyncio.Future[bytes]: ...


class LoopMesh(Mesh, Protocol):
    """A mesh whose links are served by the event loop of a thread."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def links(self) -> Mapping[int, Any]: ...
    @property
    def patience(self) -> float: ...
    def run(self, task: Coroutine[Any, Any, T]) -> T: ...


class Engine:
    """One member's runtime. `tolerates` members together know nothing of what is shared."""

    def __init__(self, mesh: LoopMesh, tolerates: int) -> None:
        self._mesh, self._tolerates = mesh, tolerates
        self.mpc: Any = None
        self._trouble: asyncio.Future[None]
        self._waiting: dict[asyncio.Future[bytes], int] = {}
        self._arrived = 0
        mesh.run(self._begin())

    async def _begin(self) -> None:
        mpyc, asyncoro, runtime = _imported()
        options = mpyc._get_arg_parser().parse_args([])
        options.threshold, options.no_prss, options.no_log = self._tolerates, True, True
        members = range(self._mesh.members)
        self.mpc = runtime.Runtime(self._mesh.me, [runtime.Party(i, "", 0) for i in members], options)
        self.mpc._loop = self._mesh.loop
        for party in self.mpc.parties:
            party.protocol = _Port(self, party.pid, self._mesh.links[party.pid]) if party.pid != self._mesh.me else None
        asyncoro.runtime._here.runtime = self.mpc
        self._trouble = self._mesh.loop.create_future()
        # an error in MPyC's tasks reaches nobody else
        self._mesh.loop.set_exception_handler(lambda _, context: self._spoiled(context.get("exception")))

    def run(self, task: Coroutine[Any, Any, T]) -> T:
        """Wait for a computation with the other members, as long as messages keep coming."""
        return self._mesh.run(self._watched(task))

    async def _watched(self, task: Coroutine[Any, Any, T]) -> T:
        work = asyncio.ensure_future(task)
        while True:
            arrived, patience = self._arrived, self._mesh.patience
            either: set[asyncio.Future[Any]] = {work, self._trouble}
            await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if self._trouble.done():
                work.cancel()
                self._trouble.result()
            if self._arrived == arrived:
                work.cancel()
                late = ", ".join(str(peer) for peer in sorted(set(self._waiting.values())))
                raise MemberLost(f"no answer from member {late} within {patience:g} seconds.")

    def fail(self, error: BaseException) -> None:
        if not self._trouble.done():
            self._trouble.set_exception(error)

    def _spoiled(self, error: BaseException | None) -> None:
        if error is not None:
            self.fail(
                ValueError(
                    "a member sent something else than what was agreed, nothing more was opened: it runs another plan "
                    f"or version ({type(error).__name__} in MPyC)."
                )
            )

    def sent(self, content: bytes) -> None:
        self._mesh.traffic.messages += 1
        self._mesh.traffic.sent += len(content)

    def promised(self, peer: int, box: asyncio.Future[bytes]) -> asyncio.Future[bytes]:
        """What will arrive, as MPyC may wait for it: a loss goes to `run`, not into MPyC's callbacks."""
        own: asyncio.Future[bytes] = self._mesh.loop.create_future()
        self._waiting[own] = peer

        def settle(done: asyncio.Future[bytes]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None:
                self.fail(error)
            elif not done.cancelled() and not own.done():
                del self._waiting[own]
                self._arrived += 1
                own.set_result(done.result())

        box.add_done_callback(settle)
        return own


class _Port:
    """A link as MPyC sees it."""

    def __init__(self, engine: Engine, peer: int, link: MessageLink) -> None:
        self._engine, self._peer, self._link = engine, peer, link

    def send(self, tag: int, content: bytes) -> None:
        try:
            self._link.send(tag, content)
            self._engine.sent(content)
        except MemberLost as error:
            self._engine.fail(error)

    def receive(self, tag: int) -> bytes | asyncio.Future[bytes]:
        try:
            box = self._link.receive(tag)
        except MemberLost as error:
            self._engine.fail(error)
            box = asyncio.get_running_loop().create_future()
        return box if isinstance(box, bytes) else self._engine.promised(self._peer, box)


class _OfThisThread:
    """Stands where MPyC looks for the runtime of the process."""

    def __init__(self) -> None:
        object.__setattr__(self, "_here", threading.local())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here.runtime, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._here.runtime, name, value)


class _PlainWords:
    """Stands where MPyC looks for pickle: an array of field elements of at most 64 bits is its words, nothing else."""

    @staticmethod
    def dumps(elements: Any) -> bytes:
        return np.asarray(elements).astype("<u8").tobytes()

    @staticmethod
    def loads(content: bytes) -> Any:
        return np.frombuffer(content, dtype="<u8").astype(object)


def _imported() -> tuple[Any, Any, Any]:
    with _IMPORTING:
        # importing the runtime reads the command line, which is not MPyC's here, and would log to the standard output
        arguments, sys.argv = sys.argv, [sys.argv[0], "--no-log"]
        try:
            import mpyc
            from mpyc import asyncoro, runtime
        except ImportError:
            raise ImportError("MPyC is not installed: pip install 'sordino[federation]'.") from None
        finally:
            sys.argv = arguments
        if not isinstance(asyncoro.runtime, _OfThisThread):
            asyncoro.runtime = _OfThisThread()
            runtime.pickle = _PlainWords
        return mpyc, asyncoro, runtime
