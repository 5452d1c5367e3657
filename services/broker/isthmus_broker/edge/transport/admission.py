"""Connection limits of a node: a new connection waits for room, is refused, or displaces the connections that were idle for longest."""

import asyncio
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from isthmus_model.clocks import MonotonicClock

from isthmus_broker.core.config.definitions import BROKER_CONFIGS
from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.connection_quota import UNLIMITED, ConnectionLimits, ConnectionQuota, ListenerLimits

logger = logging.getLogger(__name__)

C = TypeVar("C", bound="IdleConnection")
REFUSALS_PER_LINE: Final = 1000
"""Refused connections per log line."""


class IdleConnection(Protocol):
    """The properties of a connection that decide whether it is displaced."""

    active_at: float


class AdmittedListener(Protocol[C]):
    """A listener whose connections are counted."""

    listener_name: str

    def open(self) -> list[C]:
        """The connections that are open."""
        ...

    def drop(self, connection: C, reason: str) -> None:
        """Close a connection in favour of another."""
        ...


class Admission:
    """The connection counts of all listeners that share limits."""

    def __init__(self, limits: ConnectionLimits, clock: MonotonicClock, protected: str | None = None) -> None:
        self._quota = ConnectionQuota(limits, protected)
        self._clock = clock
        self._listeners: list[AdmittedListener[Any]] = []
        self._changed = asyncio.Event()
        self._refused = 0

    def watch(self, listener: AdmittedListener[C]) -> None:
        """Count the connections of a listener, and displace idle ones when the limit is reached."""
        self._listeners.append(listener)

    def change(self, limits: ConnectionLimits) -> None:
        """Apply other limits from now on, to open connections as well."""
        self._quota.limits = limits
        self._give_way()
        self._changed.set()

    async def enter(self, listener: str, address: str) -> bool:
        """Wait for room and count the connection; False when there are too many from the address."""
        while (wait_ms := self._quota.wait_ms(listener, self._clock())) != 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._changed.wait()
        if not self._quota.opened(listener, address, self._clock()):
            if self._refused % REFUSALS_PER_LINE == 0:
                logger.warning("too many connections from %s on %s, refusing another", address, listener)
            self._refused += 1
            return False
        self._give_way()
        return True

    def leave(self, listener: str, address: str) -> None:
        """Stop counting a closed connection."""
        self._quota.closed(listener, address)
        self._changed.set()

    def _give_way(self) -> None:
        """Close the connections that were idle for longest."""
        count = self._quota.excess
        if not count:
            return
        others = [one for one in self._listeners if one.listener_name != self._quota.protected]
        open_ones = sorted(
            (
                (connection.active_at, number, connection)
                for number, one in enumerate(others)
                for connection in one.open()
            ),
            key=lambda entry: entry[0],
        )
        for _, number, connection in open_ones[:count]:
            others[number].drop(connection, "max.connections is reached")


def connection_limits(config: NodeConfig) -> ConnectionLimits:
    """The limits from the settings in force; host names among the addresses are resolved."""
    settings, texts = config.settings, config.layers.effective()
    overrides: dict[str, int] = {}
    for name, limit in config.max_connections_per_ip_overrides.items():
        overrides.update(dict.fromkeys(_addresses(name), limit))
    return ConnectionLimits(
        connections_max=settings.max_connections,
        rate_max=settings.max_connection_creation_rate,
        per_address_max=settings.max_connections_per_ip,
        per_address_overrides=overrides,
        listeners={entry.name: _of_listener(texts, entry.name) for entry in config.listeners.bound},
    )


def _of_listener(texts: Mapping[str, str], name: str) -> ListenerLimits:
    """The limits from `listener.name.<name>.max.connections` and its like; a listener without them has no limit of its own."""
    limits = []
    for key in ("max.connections", "max.connection.creation.rate"):
        text = texts.get(f"listener.name.{name.lower()}.{key}")
        limit = UNLIMITED if text is None else BROKER_CONFIGS[key].parse(text)
        assert isinstance(limit, int)
        limits.append(limit)
    return ListenerLimits(*limits)


def _addresses(name: str) -> list[str]:
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
    except OSError as error:
        logger.error("max.connections.per.ip.overrides: cannot resolve %s: %s", name, error)
        return []
