"""A listening socket and its connections, within the node's limits."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from isthmus_broker.edge.net.budget import Budget
from isthmus_broker.edge.net.connection import Connection, Request
from isthmus_broker.edge.net.limits import SWEEP_SECONDS

logger = logging.getLogger(__name__)

REFUSALS_PER_LINE: Final = 1000
"""Connections turned away for lack of room between two log lines about it."""


class ConnectionLimits(NamedTuple):
    """What the node allows."""

    frame_max: int
    connections_max: int
    per_address_max: int
    per_address_overrides: dict[str, int]
    idle_ms: int
    backlog: int


class Listener:
    """One entry of `listeners`."""

    def __init__(self, name: str, limits: ConnectionLimits, budget: Budget, serve: Callable[[Request], None]) -> None:
        self.listener_name = name
        self.frame_max = limits.frame_max
        self.budget = budget
        self.handle = serve
        self.port = 0
        self._limits = limits
        self._connections: set[Connection] = set()
        self._by_host: Counter[str] = Counter()
        self._refused = 0
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def bind(self, host: str, port: int) -> None:
        """Take the address, without accepting yet; an empty host means every address, port 0 any that is free."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self),
            host or None,
            port,
            backlog=self._limits.backlog,
            reuse_address=True,
            start_serving=False,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def accept(self) -> None:
        """Serve whoever connects from now on."""
        assert self._server is not None, "bind first"
        await self._server.start_serving()
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._look_for_idle)

    async def stop(self) -> None:
        """Accept no more and close what is open."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close("this node stops")
        if self._server is not None:
            await self._server.wait_closed()

    def opened(self, connection: Connection) -> bool:
        """Count a new connection, or refuse it."""
        host = connection.peer_host
        allowed = self._limits.per_address_overrides.get(host, self._limits.per_address_max)
        if len(self._connections) >= self._limits.connections_max or self._by_host[host] >= allowed:
            if self._refused % REFUSALS_PER_LINE == 0:
                logger.warning(
                    "too many connections on %s (%d), refusing %s", self.listener_name, len(self._connections), host
                )
            self._refused += 1
            return False
        self._connections.add(connection)
        self._by_host[host] += 1
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._by_host[connection.peer_host] -= 1
            if not self._by_host[connection.peer_host]:
                del self._by_host[connection.peer_host]

    def _look_for_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._connections):
            connection.sweep(now)
            if now - connection.active_at > self._limits.idle_ms / 1000:
                connection.close(f"nothing moved for connections.max.idle.ms {self._limits.idle_ms}")
        self._sweep = loop.call_later(SWEEP_SECONDS, self._look_for_idle)
