"""Members in processes of their own, on TCP with mutual TLS.

Member i listens for the members before it and connects to those behind it. A connection is a member's only if its
certificate says so. Messages are plain bytes behind a tag and a length; nothing that arrives is ever unpickled.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import struct
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from sordino.federation.credentials import Credentials
from sordino.federation.mesh import MemberLost, Traffic

T = TypeVar("T")

_FRAME = struct.Struct("<qQ")
_HELLO = -1
_LARGEST = 1 << 32
_ROUNDS = 1 << 62  # tags of rounds start here, away from those of a runtime that shares the links
_VERSION = b"sordino federation 1 "


class Link(asyncio.Protocol):
    """One connection. Messages may arrive before anybody asks for them."""

    def __init__(self, mesh: TlsMesh, peer: int | None) -> None:
        """`peer` is who was called, None for a caller who has to say."""
        self._mesh, self.peer = mesh, peer
        self._transport: Any = None
        self._received = bytearray()
        self._boxes: dict[int, bytes | asyncio.Future[bytes]] = {}
        self.lost = False
        self.nbytes_sent = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        connection = transport.get_extra_info("ssl_object")
        if connection is not None:
            member = self._mesh.named_by(connection)
            if member is None or self.peer not in (None, member) or (self.peer is None and member >= self._mesh.me):
                transport.abort()
                return
            self.peer = member
        self.send(_HELLO, _VERSION + b"%d of %d" % (self._mesh.me, self._mesh.members))

    def data_received(self, data: bytes) -> None:
        self._received.extend(data)
        while len(self._received) >= _FRAME.size:
            tag, size = _FRAME.unpack_from(self._received)
            if size > _LARGEST:
                self._transport.abort()
                return
            end = _FRAME.size + size
            if len(self._received) < end:
                return
            content = bytes(memoryview(self._received)[_FRAME.size : end])
            del self._received[:end]
            if tag == _HELLO:
                self._greeted(content)
            else:
                self._deliver(tag, content)

    def _greeted(self, content: bytes) -> None:
        try:
            member, members = map(int, content.removeprefix(_VERSION).split(b" of "))
        except ValueError:
            member, members = -1, -1
        fits = content.startswith(_VERSION) and members == self._mesh.members and 0 <= member < members
        if not fits or self.peer not in (None, member) or (self.peer is None and member >= self._mesh.me):
            self._transport.abort()
            return
        self.peer = member
        self._mesh.joined(member, self)

    def _deliver(self, tag: int, content: bytes) -> None:
        waiting = self._boxes.pop(tag, None)
        if isinstance(waiting, asyncio.Future):
            waiting.set_result(content)
        else:
            self._boxes[tag] = content

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        for box in self._boxes.values():
            if isinstance(box, asyncio.Future) and not box.done():
                box.set_exception(self._gone())
        self._mesh.left(self)

    def send(self, tag: int, content: bytes) -> None:
        """Label a message and hand it to the connection."""
        if self.lost:
            raise self._gone()
        # one record of TLS and one call of the system for both
        self._transport.writelines((_FRAME.pack(tag, len(content)), content))
        self.nbytes_sent += _FRAME.size + len(content)

    def receive(self, tag: int) -> bytes | asyncio.Future[bytes]:
        """The message with this label, or the promise of it."""
        box = self._boxes.pop(tag, None)
        if box is None:
            if self.lost:
                raise self._gone()
            box = self._boxes[tag] = asyncio.get_running_loop().create_future()
        return box

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _gone(self) -> MemberLost:
        return MemberLost(f"the connection to member {self.peer} was lost; nothing more was opened.")


class TlsMesh:
    """Links to all members, served by a thread of their own so that messages leave and arrive while a method works."""

    def __init__(
        self,
        me: int,
        addresses: Sequence[str],
        credentials: Credentials | None = None,
        patience: float = 60.0,
        arrival: float | None = None,
    ) -> None:
        """`addresses` are host:port of every member, in order. Without credentials only on this machine, for tests.

        `patience` is for an answer, in seconds; `arrival` for all members to come, the same if None.
        """
        self.me, self.members = me, len(addresses)
        self.traffic = Traffic()
        self._addresses = [_split(address) for address in addresses]
        if credentials is None and not all(_is_loopback(host) for host, _ in self._addresses):
            raise ValueError("members on other machines need certificates: give credentials.")
        if credentials is not None and len(credentials.pins) not in (0, self.members):
            raise ValueError(
                f"{len(credentials.pins)} pinned certificates for {self.members} members: pin all or none."
            )
        self._credentials, self.patience = credentials, patience
        self._arrival = patience if arrival is None else arrival
        self._links: dict[int, Link] = {}
        self._complete = False
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._parted = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        try:
            self.run(self._connect())
        except BaseException:
            self.close()
            raise

    def _serve(self) -> None:
        # MPyC stops the loop when one of its tasks fails
        while not self._parted:
            self._loop.run_forever()

    def run(self, task: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine of the links' thread."""
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()

    @property
    def links(self) -> Mapping[int, Link]:
        return self._links

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def exchange(self, outgoing: Mapping[int, bytes], senders: Sequence[int]) -> dict[int, bytes]:
        tag = _ROUNDS + self.traffic.rounds
        self.traffic.count(outgoing)
        return self.run(self._round(tag, outgoing, senders))

    async def _round(self, tag: int, outgoing: Mapping[int, bytes], senders: Sequence[int]) -> dict[int, bytes]:
        for receiver, content in outgoing.items():
            self._links[receiver].send(tag, content)
        heard = {}
        try:
            async with asyncio.timeout(self.patience):
                for sender in senders:
                    box = self._links[sender].receive(tag)
                    heard[sender] = box if isinstance(box, bytes) else await box
        except TimeoutError:
            late = ", ".join(str(sender) for sender in senders if sender not in heard)
            raise MemberLost(f"no answer from member {late} within {self.patience:g} seconds.") from None
        return heard

    def close(self) -> None:
        """Send what is still waiting, and part."""
        if not self._loop.is_running():
            return
        self.run(self._part())
        self._parted = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _part(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._links.values()):
            link.close()
        # closing sends what is still waiting
        deadline = time.monotonic() + self.patience
        while not all(link.lost for link in self._links.values()) and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    def named_by(self, connection: Any) -> int | None:
        assert self._credentials is not None
        return self._credentials.member_of(connection, self.members)

    def joined(self, member: int, link: Link) -> None:
        # the first connection of a member stands; a second one in its name would take over its place
        if member in self._links:
            link.close()
        else:
            self._links[member] = link

    def left(self, link: Link) -> None:
        # once all have met, what a lost member had sent before can still be read
        if not self._complete and link.peer is not None and self._links.get(link.peer) is link:
            del self._links[link.peer]

    async def _connect(self) -> None:
        deadline = time.monotonic() + self._arrival
        if self.me > 0:
            host, port = self._addresses[self.me]
            accept = None if self._credentials is None else self._credentials.context(ssl.Purpose.CLIENT_AUTH)
            self._server = await self._loop.create_server(lambda: Link(self, None), host, port, ssl=accept)
        calls = [asyncio.create_task(self._call(peer, deadline)) for peer in range(self.me + 1, self.members)]
        try:
            for call in calls:
                await call
            while len(self._links) < self.members - 1:
                if time.monotonic() > deadline:
                    missing = [str(i) for i in range(self.members) if i != self.me and i not in self._links]
                    raise MemberLost(
                        f"member {', '.join(missing)} did not come within {self._arrival:g} seconds, or not with a "
                        "certificate that names it, is valid now, and is signed by the agreed authority."
                    )
                await asyncio.sleep(0.005)
            self._complete = True
        finally:
            for call in calls:
                call.cancel()
            if self._server is not None:
                self._server.close()

    async def _call(self, peer: int, deadline: float) -> None:
        host, port = self._addresses[peer]
        secret = None if self._credentials is None else self._credentials.context(ssl.Purpose.SERVER_AUTH)
        why = "nobody listens there"
        while time.monotonic() < deadline:
            try:
                _, link = await self._loop.create_connection(lambda: Link(self, peer), host, port, ssl=secret)
            except ssl.SSLCertVerificationError as error:
                raise PermissionError(
                    f"member {peer} at {host}:{port} showed a certificate that is not accepted: {error.verify_message}."
                ) from None
            except (OSError, ssl.SSLError) as error:
                why = str(error)
                await asyncio.sleep(0.05)
                continue
            while not link.lost and peer not in self._links and time.monotonic() < deadline:
                await asyncio.sleep(0.002)
            if self._links.get(peer) is link:
                return
            why = "it closed the connection, as it does on a certificate that it does not accept"
            await asyncio.sleep(0.05)
        raise MemberLost(f"member {peer} at {host}:{port} cannot be reached: {why}.")


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit()):
        raise ValueError(f"the address {address!r} is not host:port.")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
