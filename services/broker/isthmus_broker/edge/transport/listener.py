"""A listening socket and its connections, within the node's limits."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final, NamedTuple

from isthmus_broker.edge.background import background
from isthmus_broker.edge.transport.admission import Admission
from isthmus_broker.edge.transport.budget import Budget
from isthmus_broker.edge.transport.connection import Connection, Request
from isthmus_broker.edge.transport.limits import (
    ACCEPT_PAUSE_SECONDS,
    HANDSHAKE_SECONDS,
    SWEEP_SECONDS,
    SWEEP_SECONDS_MIN,
)
from isthmus_broker.edge.transport.memory import give_back_memory
from isthmus_broker.edge.transport.transports import PLAINTEXT, ListenerTransport

logger = logging.getLogger(__name__)


SYSTEM_BUFFER: Final = -1


class ListenerSettings(NamedTuple):
    """Settings that are fixed when the node starts."""

    frame_max: int
    idle_ms: int  # negative: idle connections stay open
    backlog: int
    send_buffer: int = SYSTEM_BUFFER
    receive_buffer: int = SYSTEM_BUFFER


class Listener:
    """One entry of `listeners`."""

    def __init__(
        self,
        name: str,
        settings: ListenerSettings,
        admission: Admission,
        budget: Budget,
        serve: Callable[[Request], None],
        transport: ListenerTransport = PLAINTEXT,
        on_closed: Callable[[Connection], None] = lambda _connection: None,
    ) -> None:
        """`on_closed` is called for each connection that has ended."""
        self.listener_name = name
        self.frame_max = settings.frame_max
        self.budget = budget
        self.handle = serve
        self.port = 0
        self._on_closed = on_closed
        self._settings = settings
        self._transport = transport
        self._admission = admission
        self._addresses: dict[Connection, str] = {}
        self._ended = False  # there was a connection since the last sweep
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        admission.watch(self)

    async def bind(self, host: str, port: int) -> None:
        """Bind the address, without accepting yet. An empty host means every address, port 0 any free port."""
        loop = asyncio.get_running_loop()
        self.port = port
        addresses = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            listening = socket.socket(family, kind, protocol)
            self._sockets.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._size_buffers(listening)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                listening.bind((address[0], self.port, *address[2:]))
            except OSError as error:
                why = f"{self.listener_name} cannot listen on {address[0]}:{self.port}: {error.strerror}"
                raise OSError(error.errno, why) from error
            self.port = listening.getsockname()[1]

    def _size_buffers(self, listening: socket.socket) -> None:
        """Set the buffers that accepted sockets inherit."""
        for option, size in (
            (socket.SO_SNDBUF, self._settings.send_buffer),
            (socket.SO_RCVBUF, self._settings.receive_buffer),
        ):
            if size != SYSTEM_BUFFER:
                listening.setsockopt(socket.SOL_SOCKET, option, size)

    async def accept(self) -> None:
        """Accept connections from now on."""
        assert self._sockets, "bind first"
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            listening.listen(self._settings.backlog)
            self._accepting.append(background(self._accept_from(listening)))
        self._sweep = loop.call_later(self._sweep_seconds(), self._sweep_idle)

    async def _accept_from(self, listening: socket.socket) -> None:
        """Accept connections one after another. One that waits for room blocks the next; later ones stay in the backlog."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                logger.error("cannot accept connections on %s: %s", self.listener_name, error)
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            await self._take(accepted, str(address[0]))

    async def _take(self, accepted: socket.socket, address: str) -> None:
        try:
            entered = await self._admission.enter(self.listener_name, address)
        except asyncio.CancelledError:
            accepted.close()
            raise
        if not entered:
            accepted.close()
            return
        connection = Connection(self)
        loop = asyncio.get_running_loop()
        connection.active_at = loop.time()
        self._addresses[connection] = address
        # A task of its own: a handshake may take as long as the client needs.
        task = loop.create_task(self._open(accepted, connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._transport.accept(accepted, connection)
        except asyncio.CancelledError:
            accepted.close()
            raise
        except OSError as error:  # TimeoutError included
            address = self._addresses.get(connection)
            logger.info(
                "connection from %s on %s failed before its first request: %s", address, self.listener_name, error
            )
            accepted.close()
            self.closed(connection)

    async def stop(self) -> None:
        """Stop accepting and close all connections."""
        if self._sweep is not None:
            self._sweep.cancel()
        unfinished = (*self._accepting, *self._opening)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        for connection in self.open():
            connection.close("this node stops")

    def open(self) -> list[Connection]:
        """The open connections."""
        return list(self._addresses)

    def opened(self, connection: Connection) -> bool:
        """Whether a connection is still counted: it may have been displaced before it began."""
        return connection in self._addresses

    def closed(self, connection: Connection) -> None:
        """Remove a closed connection."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._ended = True
            self._admission.leave(self.listener_name, address)
            self._on_closed(connection)

    def drop(self, connection: Connection, reason: str) -> None:
        """Close a connection and stop counting it at once."""
        self.closed(connection)
        connection.close(reason)

    def _sweep_seconds(self) -> float:
        """The sweep interval: at least twice within connections.max.idle.ms."""
        half = self._settings.idle_ms / 2000
        return SWEEP_SECONDS if half < 0 else max(SWEEP_SECONDS_MIN, min(SWEEP_SECONDS, half))

    def _sweep_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in self.open():
            connection.sweep(now)
            if 0 <= self._settings.idle_ms / 1000 < now - connection.active_at:
                connection.close(f"it was idle for connections.max.idle.ms {self._settings.idle_ms}")
        if self._ended:
            self._ended = False
            give_back_memory()
        self._sweep = loop.call_later(self._sweep_seconds(), self._sweep_idle)
