"""Members in processes of their own, on TCP with mutual TLS.

Member i listens for the members before it and connects to those behind it. A connection is a member's only if its
certificate says so. Messages are plain bytes behind the number of their round and a length; nothing that arrives is
ever unpickled.

Nobody can fill this member's memory: what nobody asked for yet stays in the sender's machine once `_AHEAD` bytes of it
are here, and a message that is asked for has a largest size. Nor can anybody use up its connections: callers that have
not shown who they are wait in a short queue, and the oldest makes room for the next.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sordino.federation.credentials import Credentials
from sordino.federation.mesh import MemberLost, Refused, Traffic
from sordino.identity import Face

_T = TypeVar("_T")

_FRAME = struct.Struct("<QQ")
_VERSION = b"sordino federation 2 "
_HELLO = 64
_AHEAD = 1 << 18
"""Bytes that may arrive before they are asked for; asyncio stops reading at twice as many."""
_CALLERS = 64
"""Connections at a time whose certificate has not been seen yet."""
_HANDSHAKE = 10.0
_PARTING = 2.0
"""Seconds to send what is still waiting when a member leaves."""
_STRAGGLERS = 1.0
"""Seconds for the others' messages once one member is lost: they may tell why."""


class Link:
    """One connection: messages in the order in which they were sent."""

    def __init__(self, peer: int, face: Face, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer, self.face = peer, face
        self._reader, self._writer = reader, writer
        self.ended = asyncio.ensure_future(self._end())
        """Fails when the connection has ended."""
        self.ended.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _end(self) -> None:
        with suppress(OSError):
            await self._writer.wait_closed()
        raise self._lost()

    def _lost(self) -> MemberLost:
        return MemberLost(f"the connection to member {self.peer} was lost; nothing more was opened.")

    def send(self, number: int, content: bytes) -> None:
        # one record of TLS and one call of the system for both
        self._writer.writelines((_FRAME.pack(number, len(content)), content))

    async def receive(self, number: int, largest: int) -> bytes:
        try:
            told, size = _FRAME.unpack(await self._reader.readexactly(_FRAME.size))
            if told != number or size > largest:
                raise Refused(
                    f"member {self.peer} sent {size} bytes in round {told}, and at most {largest} in round {number} "
                    "were agreed: it runs another plan or version. Nothing more was opened."
                )
            return await self._reader.readexactly(size)
        except (OSError, EOFError):
            raise self._lost() from None

    @property
    def is_lost(self) -> bool:
        """Whether it ended, and everything that came was read."""
        return self._reader.at_eof() or self._reader.exception() is not None

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with suppress(MemberLost):
            await asyncio.shield(self.ended)


class TlsMesh:
    """Links to all members, served while a round lasts.

    Nobody finishes a step before everybody has all messages of it, so nothing needs to leave or arrive in between.
    """

    def __init__(
        self,
        me: int,
        addresses: Sequence[str],
        credentials: Credentials,
        patience: float = 60.0,
        arrival: float | None = None,
    ) -> None:
        """`addresses` are host:port of every member, in order.

        `patience` is for an answer, in seconds; `arrival` for all members to come, the same if None.
        """
        self.me, self.members = me, len(addresses)
        self.traffic = Traffic()
        self._addresses = [_split(address) for address in addresses]
        if len(credentials.pins) not in (0, self.members):
            raise ValueError(
                f"{len(credentials.pins)} pinned certificates for {self.members} members: pin all or none."
            )
        self._credentials, self.patience = credentials, patience
        self._identity = credentials.identity()
        self._arrival = patience if arrival is None else arrival
        self._links: dict[int, Link] = {}
        self._callers: dict[asyncio.Task[None], None] = {}
        self._loop = asyncio.new_event_loop()
        try:
            self._run(self._connect())
        except BaseException:
            self.close()
            raise

    def _run(self, task: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run_until_complete(task)

    def sign(self, purpose: str, content: bytes) -> bytes:
        return bytes.fromhex(self._identity.sign(purpose, content))

    def signed(self, member: int, purpose: str, content: bytes, signature: bytes) -> bool:
        face = self._identity.face if member == self.me else self._links[member].face
        return face.signed(purpose, content, signature.hex())

    def exchange(self, outgoing: Mapping[int, bytes], senders: Sequence[int], largest: int) -> dict[int, bytes]:
        number = self.traffic.rounds
        self.traffic.count(outgoing)
        return self._run(self._round(number, outgoing, senders, largest))

    async def _round(
        self, number: int, outgoing: Mapping[int, bytes], senders: Sequence[int], largest: int
    ) -> dict[int, bytes]:
        for receiver, content in outgoing.items():
            self._links[receiver].send(number, content)
        tasks = {sender: asyncio.create_task(self._links[sender].receive(number, largest)) for sender in senders}
        # whoever has nothing to say now will be needed later, so its end is the round's end as well
        watched: list[asyncio.Future[Any]] = [link.ended for member, link in self._links.items() if member not in tasks]
        everything = asyncio.gather(*tasks.values())
        await asyncio.wait([everything, *watched], timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        if everything.done() and everything.exception() is None:
            return dict(zip(tasks, everything.result(), strict=True))
        if everything.done() or any(task.done() for task in watched):
            await asyncio.wait(tasks.values(), timeout=min(self.patience, _STRAGGLERS))
        heard = {i: t.result() for i, t in tasks.items() if t.done() and t.exception() is None}
        errors = [t.exception() for t in (*tasks.values(), *watched) if t.done() and t.exception() is not None]
        late = [member for member, task in tasks.items() if not task.done()]
        everything.cancel()
        await asyncio.gather(everything, return_exceptions=True)
        if not errors:
            for member in late:
                self._links[member].abort()
            names = ", ".join(map(str, late))
            errors = [MemberLost(f"no answer from member {names} within {self.patience:g} seconds.")]
        # a message that was not agreed on says more than a connection that ended
        error = next((error for error in errors if isinstance(error, Refused)), errors[0])
        assert error is not None
        if isinstance(error, MemberLost):
            error.heard = heard
        raise error

    def close(self) -> None:
        """Send what is still waiting, and part."""
        if self._loop.is_closed():
            return
        self._run(self._part())
        self._loop.close()

    async def _part(self) -> None:
        links = list(self._links.values())
        if links:
            closing = [asyncio.create_task(link.close()) for link in links]
            await asyncio.wait(closing, timeout=_PARTING)
            for link in links:
                link.abort()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _connect(self) -> None:
        deadline = time.monotonic() + self._arrival
        listening = await self._listen() if self.me > 0 else []
        others = [i for i in range(self.members) if i != self.me]
        calls = {peer: asyncio.create_task(self._call(peer, deadline)) for peer in others if peer > self.me}
        waiting = [asyncio.create_task(self._accept(one)) for one in listening]
        try:
            while missing := [i for i in others if i not in self._links or self._links[i].is_lost]:
                over = time.monotonic() > deadline
                for peer, call in calls.items():
                    if call.done() and peer not in self._links:
                        call.result()
                    elif call.done() and peer in missing and not over:
                        # it was there, and left again
                        call.exception()
                        calls[peer] = asyncio.create_task(self._call(peer, deadline))
                if over and all(calls[peer].done() for peer in missing if peer in calls):
                    # who left did so because of those who never came
                    names = ", ".join(str(i) for i in missing if i not in self._links) or ", ".join(map(str, missing))
                    raise MemberLost(
                        f"member {names} did not come within {self._arrival:g} seconds, or not with a certificate that "
                        "names it, is valid now, and is signed by the agreed authority."
                    )
                await asyncio.sleep(0.005)
        finally:
            ending = [*calls.values(), *waiting, *self._callers]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            for one in listening:
                one.close()

    async def _listen(self) -> list[socket.socket]:
        host, port = self._addresses[self.me]
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        listening = []
        for family, *_, address in dict.fromkeys(found):
            one = socket.create_server(address[:2], family=family, backlog=_CALLERS)
            one.setblocking(False)
            listening.append(one)
        return listening

    async def _accept(self, listening: socket.socket) -> None:
        secret = self._credentials.context(ssl.Purpose.CLIENT_AUTH)
        while True:
            try:
                line, _ = await self._loop.sock_accept(listening)
            except OSError:
                # no descriptor is free just now
                await asyncio.sleep(0.05)
                continue
            while len(self._callers) >= _CALLERS:
                oldest = next(iter(self._callers))
                oldest.cancel()
                del self._callers[oldest]
            task = asyncio.create_task(self._welcome(line, secret))
            self._callers[task] = None
            task.add_done_callback(lambda done: self._callers.pop(done, None))

    async def _welcome(self, line: socket.socket, secret: ssl.SSLContext) -> None:
        """A caller, until it has shown its certificate and said hello."""
        try:
            async with asyncio.timeout(_HANDSHAKE):
                reader, writer = await _streams(
                    lambda protocol: self._loop.connect_accepted_socket(
                        protocol, line, ssl=secret, ssl_handshake_timeout=_HANDSHAKE, ssl_shutdown_timeout=_PARTING
                    )
                )
                await self._greet(reader, writer, None)
        except (OSError, ValueError):
            line.close()
        except asyncio.CancelledError:
            line.close()
            raise

    async def _call(self, peer: int, deadline: float) -> None:
        host, port = self._addresses[peer]
        secret = self._credentials.context(ssl.Purpose.SERVER_AUTH)
        why = "nobody listens there"
        while time.monotonic() < deadline:
            try:
                async with asyncio.timeout_at(self._loop.time() + deadline - time.monotonic()):
                    reader, writer = await _streams(
                        lambda protocol: self._loop.create_connection(
                            protocol, host, port, ssl=secret, ssl_shutdown_timeout=_PARTING
                        )
                    )
                    if await self._greet(reader, writer, peer):
                        return
                why = "it did not show the certificate of that member"
            except ssl.SSLCertVerificationError as error:
                raise PermissionError(
                    f"member {peer} at {host}:{port} showed a certificate that is not accepted: {error.verify_message}."
                ) from None
            except ValueError as error:
                raise PermissionError(f"member {peer} at {host}:{port} is not accepted: {error}") from None
            except MemberLost:
                why = "it closed the connection, as it does on a certificate that it does not accept"
            except TimeoutError:
                break
            except (OSError, ssl.SSLError) as error:
                why = str(error)
            await asyncio.sleep(0.05)
        raise MemberLost(f"member {peer} at {host}:{port} cannot be reached: {why}.")

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, called: int | None) -> bool:
        """Whether the other end is the member that was called, or one that may call; it is a link from then on."""
        connection = writer.get_extra_info("ssl_object")
        member = self._credentials.member_of(connection, self.members)
        if member is None or (member >= self.me if called is None else member != called):
            writer.transport.abort()
            return False
        face = Face(ssl.DER_cert_to_PEM_cert(connection.getpeercert(True)))
        link = Link(member, face, reader, writer)
        link.send(0, _VERSION + b"%d of %d" % (self.me, self.members))
        try:
            hello = await link.receive(0, _HELLO)
        except Refused:
            hello = b""
        # the first connection of a member stands; a second one in its name would take over its place
        taken = member in self._links and not self._links[member].is_lost
        if taken or hello != _VERSION + b"%d of %d" % (member, self.members):
            link.abort()
            return False
        self._links[member] = link
        return True


async def _streams(connect: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_AHEAD)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await connect(lambda: protocol)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit()):
        raise ValueError(f"the address {address!r} is not host:port.")
    return host.strip("[]"), int(port)
