"""The network between hosts: connections whose bytes take time, hang while a link is cut, and end when a process dies.

As with TCP, bytes arrive in order and once. A cut in one direction holds what is sent that way until it is healed, so a connection seems to
hang. A process that dies closes its connections; a host that loses its power says nothing, and refuses what arrives once it is back.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from contextvars import Context
from random import Random
from typing import Any, Final, cast

from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.process import Process, current

WINDOW: Final = 256 * 1024
"""Bytes on the way and unread at which a sender's own buffer begins to fill."""
_SYN_SECONDS: Final = 1.0
_SYN_ATTEMPTS: Final = 6
_EPHEMERAL: Final = 40_000
_END: Final = b""
"""Marks the end of a stream."""


class Link:
    """What one direction between two hosts is like."""

    def __init__(self, delay: float, jitter: float, seconds_per_byte: float) -> None:
        self.delay = delay
        self.jitter = jitter
        self.seconds_per_byte = seconds_per_byte


class Network:
    """All hosts' sockets."""

    def __init__(self, loop: SimLoop, random: Random, link: Link) -> None:
        self.loop = loop
        self.random = random
        self.link = link
        """Of all hosts without a link of their own."""
        self.links: dict[tuple[str, str], Link] = {}
        self._cut: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._listening: dict[tuple[str, int], SimSocket] = {}
        self._transports: dict[SimTransport, None] = {}
        self._blocked: dict[_Pipe, None] = {}
        self._ports = _EPHEMERAL

    # -- faults --------------------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to another."""
        self._cut.add((source, target))

    def heal(self) -> None:
        """End all cuts; what was held arrives when it is sent again."""
        self._cut.clear()
        self._retransmit()

    def host_down(self, host: str) -> None:
        """The host neither receives nor sends."""
        self._down.add(host)

    def host_up(self, host: str) -> None:
        self._down.discard(host)
        self._retransmit()

    def _retransmit(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for pipe in blocked:
            self.loop.call_later(self.random.uniform(0.0, 0.2), pipe.arrive)

    @property
    def is_healthy(self) -> bool:
        """Whether no link is cut or slow."""
        return not self._cut and not self.links

    def reset_some(self, rate: float) -> None:
        """Break some of the connections, as a firewall does that forgets them."""
        for transport in list(self._transports):
            if self.random.random() < rate / 2:
                transport.reset()

    def process_died(self, process: Process, *, silent: bool) -> None:
        """Close what the process had open. With `silent`, its host has lost power and sends nothing."""
        for place, listening in list(self._listening.items()):
            if listening.process is process:
                del self._listening[place]
        for transport in [each for each in self._transports if each.process is process]:
            transport.vanish(silent=silent)

    # -- connections ---------------------------------------------------------------------------------------------------------

    def passes(self, source: str, target: str) -> bool:
        """Whether a packet sent now arrives."""
        return (source, target) not in self._cut and source not in self._down and target not in self._down

    def delay(self, source: str, target: str) -> float:
        if source == target:
            return 0.0001
        link = self.links.get((source, target), self.link)
        return link.delay + link.jitter * self.random.random()

    async def connect(self, process: Process, host: str, port: int) -> SimTransport:
        """Connect; raises ConnectionRefusedError, or TimeoutError after several attempts."""
        for attempt in range(_SYN_ATTEMPTS):
            way = self.delay(process.host, host)
            await asyncio.sleep(2 * way)
            if self.passes(process.host, host) and self.passes(host, process.host):
                listening = self._listening.get((host, port))
                if listening is None or not listening.is_listening:
                    raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
                return self._establish(process, listening)
            await asyncio.sleep(_SYN_SECONDS * 2**attempt)
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def _establish(self, process: Process, listening: SimSocket) -> SimTransport:
        self._ports += 1
        near, far = (process.host, self._ports), listening.address
        client, server = SimTransport(self, process, near, far), SimTransport(self, listening.process, far, near)
        client.peer, server.peer = server, client
        self._transports |= {client: None, server: None}
        listening.connected(server)
        return client

    def bind(self, listening: SimSocket, host: str, port: int) -> tuple[str, int]:
        if port == 0:
            self._ports += 1
            port = self._ports
        if (host, port) in self._listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._listening[host, port] = listening
        return host, port

    def closed(self, listening: SimSocket) -> None:
        if self._listening.get(listening.address) is listening:
            del self._listening[listening.address]

    def forget(self, transport: SimTransport) -> None:
        self._transports.pop(transport, None)

    def blocked(self, pipe: _Pipe) -> None:
        self._blocked[pipe] = None


class SimSocket:
    """What the product's listener uses of `socket.socket`: a listening socket, or an accepted one."""

    network: Network
    """Of the running life."""

    def __init__(self, *_kind: Any, transport: SimTransport | None = None) -> None:
        self.process = current()
        self.is_listening = False
        self.address = ("", 0)
        self._transport = transport
        self._backlog: deque[SimTransport] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def setblocking(self, _flag: bool) -> None:
        pass

    def setsockopt(self, *_option: int) -> None:
        pass

    def bind(self, address: tuple[str, int]) -> None:
        self.address = self.network.bind(self, *address)

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def listen(self, _backlog: int) -> None:
        self.is_listening = True

    def connected(self, transport: SimTransport) -> None:
        """The kernel has accepted a connection; the process takes it from the backlog."""
        self._backlog.append(transport)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def accept(self) -> tuple[SimSocket, tuple[str, int]]:
        while not self._backlog:
            self._waiter = self.network.loop.create_future()
            await self._waiter
        transport = self._backlog.popleft()
        return SimSocket(transport=transport), cast(tuple[str, int], transport.get_extra_info("peername"))

    def take_transport(self) -> SimTransport:
        assert self._transport is not None
        transport, self._transport = self._transport, None
        return transport

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self.network.closed(self)
        while self._backlog:
            self._backlog.popleft().abort()


class _Pipe:
    """The bytes on the way from one side of a connection to the other."""

    def __init__(self, target: SimTransport, source: SimTransport) -> None:
        self._network = target.network
        self._source = source
        self._target = target
        self._segments: deque[tuple[float, bytes]] = deque()
        self._free_at = 0.0
        self._is_planned = False

    def send(self, data: bytes) -> None:
        """Send bytes, or `_END`."""
        network, source, target = self._network, self._source.process.host, self._target.process.host
        loop = network.loop
        link = network.links.get((source, target), network.link)
        arrival = max(self._free_at, loop.time() + network.delay(source, target)) + len(data) * link.seconds_per_byte
        self._free_at = arrival
        self._segments.append((arrival, data))
        if not self._is_planned:
            self._plan()

    def _plan(self) -> None:
        self._is_planned = True
        self._network.loop.call_at(self._segments[0][0], self.arrive, context=_NOBODY)

    def arrive(self) -> None:
        """Deliver what has arrived."""
        network = self._network
        if not network.passes(self._source.process.host, self._target.process.host):
            network.blocked(self)
            return
        while self._segments and self._segments[0][0] <= network.loop.time():
            self._target.arrived(self._segments.popleft()[1])
        self._is_planned = False
        if self._segments:
            self._plan()


class SimTransport(asyncio.Transport):
    """One side of a connection."""

    peer: SimTransport

    def __init__(self, network: Network, process: Process, near: tuple[str, int], far: tuple[str, int]) -> None:
        super().__init__({"sockname": near, "peername": far})
        self.network = network
        self.process = process
        self._protocol: Any = None
        self._pipe: _Pipe | None = None
        self._inbox: deque[bytes] = deque()
        self._outstanding = 0  # bytes that the peer has not read
        self._high = 64 * 1024
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_feeding = False
        self._is_closed = False

    # -- from the network ----------------------------------------------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        """Bytes, or the end of the stream, have reached this host."""
        if self._is_closed:
            if data:
                self.peer.reset_by_peer()
            return
        self._inbox.append(data)
        self._feed_soon()

    def reset_by_peer(self) -> None:
        """The other host does not know this connection any more."""
        if not self._is_closed:
            self._lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def reset(self) -> None:
        """Both sides lose the connection."""
        self.reset_by_peer()
        self.peer.reset_by_peer()

    def vanish(self, *, silent: bool) -> None:
        """The process is dead: without a callback, and with nothing sent if the host is dead too."""
        self._is_closed = True
        self._inbox.clear()
        self.network.forget(self)
        if not silent:
            self._send(_END)

    # -- to the protocol -----------------------------------------------------------------------------------------------------

    def attach(self, protocol: asyncio.BaseProtocol) -> None:
        """Begin: bytes may have arrived already."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._feed_soon()

    def _feed_soon(self) -> None:
        if not self._is_feeding and self._inbox and self._protocol is not None and not self._is_reading_paused:
            self._is_feeding = True
            self.network.loop.call_soon(self._feed, context=self.process.context)

    def _feed(self) -> None:
        self._is_feeding = False
        while self._inbox and not self._is_reading_paused and not self._is_closed:
            data = self._inbox.popleft()
            if not data:
                if not self._protocol.eof_received():
                    self.close()
                return
            taken = self._give(data)
            if taken < len(data):
                self._inbox.appendleft(data[taken:])
            self.peer.was_read(taken)

    def _give(self, data: bytes) -> int:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return len(data)
        buffer = memoryview(protocol.get_buffer(-1))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        return size

    def was_read(self, size: int) -> None:
        """The peer has read some bytes."""
        self._outstanding -= size
        if self._is_writing_paused and self._outstanding <= WINDOW and not self._is_closed:
            self._is_writing_paused = False
            self.network.loop.call_soon(self._protocol.resume_writing, context=self.process.context)

    def _lose(self, error: Exception | None) -> None:
        self._is_closed = True
        self._inbox.clear()
        self.network.forget(self)
        if self._protocol is not None:
            self.network.loop.call_soon(self._protocol.connection_lost, error, context=self.process.context)

    # -- asyncio's interface -------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._is_closed or not data:
            return
        self._send(bytes(data))
        self._outstanding += len(data)
        if not self._is_writing_paused and self._outstanding > WINDOW + self._high:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _send(self, data: bytes) -> None:
        if self._pipe is None:
            self._pipe = _Pipe(self.peer, self)
        self._pipe.send(data)

    def close(self) -> None:
        if not self._is_closed:
            self._send(_END)
            self._lose(None)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or self._high

    def get_write_buffer_size(self) -> int:
        return max(self._outstanding - WINDOW, 0)

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._feed_soon()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def can_write_eof(self) -> bool:
        return False


_NOBODY: Final = Context()
"""The context of events that belong to no process."""
