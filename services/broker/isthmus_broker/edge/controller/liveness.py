"""Detects dead broker processes: their heartbeats' connection has closed, and their address refuses connections.

A closed connection alone may be a network failure, and an unresponsive broker may be slow: both are left to the session timeout. Only the
machine of the broker itself can refuse a connection; a relay in between, which has accepted already, resets it instead.

Brokers advertise addresses that mean nothing to a controller, such as EXTERNAL://localhost. The inter-broker listener's is the one to try.
A controller that does not know that listener's name tries all addresses, except for those of the broker's own machine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from ipaddress import ip_address
from typing import Final

from isthmus_broker.core.metadata.image import Broker, ClusterImage
from isthmus_broker.core.metadata.schema import BrokerEndpoint
from isthmus_broker.edge.background import background
from isthmus_broker.edge.quorum.connection_refused import is_refusal
from isthmus_broker.edge.transport.connection import Connection

logger = logging.getLogger(__name__)

PROBE_SECONDS: Final = 1.0
PROBES_MAX: Final = 32
"""Brokers that are probed at once; the others wait."""

Fence = Callable[[int, int], Awaitable[None]]


class BrokerLiveness:
    """Monitors the brokers' processes on the active controller."""

    def __init__(self, image: Callable[[], ClusterImage], listener: str | None, fence: Fence) -> None:
        """`fence` takes a broker's id and epoch; `listener` is the inter-broker listener, None if it is unknown."""
        self._image = image
        self._listener = listener
        self._fence = fence
        self._brokers: dict[Connection, tuple[int, int]] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(PROBES_MAX)

    def record_heartbeat(self, broker_id: int, epoch: int, connection: Connection) -> None:
        """Record the connection of a broker's heartbeat."""
        self._brokers[connection] = (broker_id, epoch)

    def closed(self, connection: Connection) -> None:
        """Probe a broker when its last heartbeat connection has closed."""
        broker = self._brokers.pop(connection, None)
        if broker is not None and broker not in self._brokers.values():
            self._probe(*broker, same_machine=is_loopback(connection.peer_host))

    def probe_all(self, except_for: int) -> None:
        """Probe every unfenced broker: a new active controller has no heartbeat connections yet."""
        for broker in self._image().brokers.values():
            if not broker.fenced and broker.broker_id != except_for:
                self._probe(broker.broker_id, broker.broker_epoch, same_machine=False)

    def stop(self) -> None:
        """Stop probing: this controller is not active any more."""
        for probe in self._probes:
            probe.cancel()

    def _probe(self, broker_id: int, epoch: int, *, same_machine: bool) -> None:
        task = background(self._fence_if_dead(broker_id, epoch, same_machine))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _fence_if_dead(self, broker_id: int, epoch: int, same_machine: bool) -> None:
        async with self._places:
            broker = self._image().brokers.get(broker_id)
            if broker is None or broker.fenced or broker.broker_epoch != epoch:
                return
            endpoints = self._endpoints(broker, same_machine=same_machine)
            if not endpoints or not await _all_refuse(endpoints):
                return
        logger.info("fencing broker %d: its connection closed, and a new one was refused", broker_id)
        await self._fence(broker_id, epoch)

    def _endpoints(self, broker: Broker, *, same_machine: bool) -> list[BrokerEndpoint]:
        """The addresses that the broker is known by to this controller; all of them must refuse a connection if it is dead."""
        named = [endpoint for endpoint in broker.endpoints if endpoint.name == self._listener]
        if named:
            return named
        return [endpoint for endpoint in broker.endpoints if same_machine or not is_loopback(endpoint.host)]


async def _all_refuse(endpoints: list[BrokerEndpoint]) -> bool:
    return all(await asyncio.gather(*map(_refuses, endpoints)))


async def _refuses(endpoint: BrokerEndpoint) -> bool:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            with closing(writer):
                # A broker does not send first; a relay may learn of the refusal only now.
                await reader.read(1)
    except ConnectionResetError:
        return True
    except OSError as error:  # includes TimeoutError
        return is_refusal(error)
    return False


def is_loopback(host: str) -> bool:
    """Whether the address means the machine on which it is used."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
